"""Bytes as real servers of MCP 2025-11-25 sent them, and a transport that plays them back."""

import json
from collections import deque
from enum import Enum

import httpx

from adapters import jsonrpc
from adapters.contract import Call, Endpoint, Handle
from adapters.http import HttpWire
from tests.adapters.scripted import NOON, open_gate

TASK_ID = "bc25220c108546dfb063dff8101cb912:d2314116-0a8f-46d3-81cb-0dc24775e031"
RELATED = {"io.modelcontextprotocol/related-task": {"taskId": TASK_ID}}
HANDLE = Handle(session="s-1", task_id=TASK_ID)
CALL = Call(submission_key="key-1", tool="slow", arguments=b'{"secs": 2}', ttl_ms=60_000)
FORM = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


def task(**changes):
    """A task object as the Python SDK shows it; `None` for a member leaves it out."""
    shown = {
        "taskId": TASK_ID,
        "status": "working",
        "createdAt": "2026-11-29T14:32:12.553076Z",
        "lastUpdatedAt": "2026-11-29T14:32:12.553076Z",
        "ttl": 60000,
        "pollInterval": 500,
    }
    return {name: value for name, value in (shown | changes).items() if value is not LEFT_OUT}


class _Mark(Enum):
    """A value that no JSON has. Its name is the same in every process: tests are named after their values."""

    LEFT_OUT = "left out"


LEFT_OUT = _Mark.LEFT_OUT


def answer_of(*, result=None, error=None):
    """The answer inside a JSON-RPC response with this result or error."""
    part = {"error": error} if error is not None else {"result": result}
    message = jsonrpc.read_message(json.dumps({"jsonrpc": "2.0", "id": 1} | part).encode())
    assert isinstance(message, jsonrpc.Response)
    return message.answer


def elicitation(request_id=0, *, meta=RELATED, **changes):
    """A question as the TypeScript SDK sends it: its id is the integer 0."""
    params = {"mode": "form", "message": "q0", "requestedSchema": FORM, "_meta": meta} | changes
    params = {name: value for name, value in params.items() if value is not LEFT_OUT}
    return {"method": "elicitation/create", "params": params, "jsonrpc": "2.0", "id": request_id}


def asked(message):
    """A server's request as the codec takes it."""
    return jsonrpc.read_message(json.dumps(message).encode())


class Playback(httpx.AsyncBaseTransport):
    """Answers each request with the next of `answers`: functions of the JSON-RPC message that came."""

    def __init__(self, *answers):
        self.answers = deque(answers)
        self.heard = []
        self.headers = []

    async def handle_async_request(self, request):
        message = json.loads(await request.aread())
        self.heard.append(message)
        self.headers.append(request.headers)
        return self.answers.popleft()(message)

    def wire(self):
        return HttpWire(
            transport=self,
            endpoint=Endpoint(url="http://127.0.0.1/mcp", allow_private=True),
            gate=open_gate,
            clock=lambda: NOON,
        )


def as_json(*, result=None, error=None, status=200, headers=None):
    """Answer with one JSON object under the id of the request."""

    def answer(message):
        part = {"error": error} if error is not None else {"result": result}
        return httpx.Response(status, json={"jsonrpc": "2.0", "id": message.get("id")} | part, headers=headers)

    return answer


def as_events(*messages, headers=None, cut=False, piece_bytes=65_536):
    """Answer with an event stream; a dict without `jsonrpc` is a part of the response to the request."""

    def answer(message):
        whole = [part if "jsonrpc" in part else {"jsonrpc": "2.0", "id": message.get("id")} | part for part in messages]
        body = b"".join(b"event: message\r\ndata: " + json.dumps(part).encode() + b"\r\n\r\n" for part in whole)
        return httpx.Response(
            200,
            headers={"content-type": "text/event-stream"} | (headers or {}),
            stream=_Pieces(_cut(body, piece_bytes), cut=cut),
        )

    return answer


def plain(status, body=b"", **headers):
    """Answer with a status and bytes."""
    return lambda _message: httpx.Response(status, content=body, headers=headers)


ACCEPTED = plain(202)


def _cut(body, size):
    return [body[at : at + size] for at in range(0, len(body), size)]


class _Pieces(httpx.AsyncByteStream):
    def __init__(self, pieces, *, cut):
        self._pieces = pieces
        self._cut = cut

    async def __aiter__(self):
        for piece in self._pieces:
            yield piece
        if self._cut:
            raise httpx.ReadError("gone")
