"""Whatever a server answers, to whichever verb: an observation, or an error of the contract's tree with its evidence.

The decoders have their own tests of any value. Here every verb of every adapter gets any status, media type and bytes
over the real wire: `pytest -m long` tries many more.
"""

import asyncio
import json

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters import registry
from adapters.contract import (
    Action,
    AdapterError,
    Call,
    Endpoint,
    Handle,
    Lookup,
    NotSent,
    ProtocolStatus,
    Refused,
    Reply,
)
from adapters.http import HttpWire
from tests.adapters.scripted import NOON, open_gate

HANDLE = Handle(session="s-1", task_id="operations/t-1")
CALL = Call(submission_key="key-1", tool="jobs:run", arguments=b"{}", ttl_ms=60_000)


def _lookup(adapter):
    """The lookup that sends a request which no other verb sends, where there is one."""
    return next(
        one for one in (Lookup.SESSION_LIST, Lookup.LIST_BY_KEY, Lookup.NONE) if one in adapter.promises.lookups
    )


VERBS = {
    "negotiate": lambda adapter, wire: adapter.negotiate(wire),
    "open": lambda adapter, wire: adapter.open(wire),
    "submit": lambda adapter, wire: adapter.submit(wire, HANDLE, CALL),
    "find": lambda adapter, wire: adapter.find(wire, HANDLE, CALL, _lookup(adapter)),
    "look": lambda adapter, wire: adapter.look(wire, HANDLE, expect_question=True),
    "answer": lambda adapter, wire: adapter.answer(wire, HANDLE, [Reply(key="0", action=Action.DECLINE)]),
    "cancel": lambda adapter, wire: adapter.cancel(wire, HANDLE),
    "fetch": lambda adapter, wire: adapter.fetch(wire, HANDLE, ProtocolStatus.COMPLETED),
}
WORDS = (
    *("task", "tasks", "taskId", "status", "ttl", "ttlMs", "pollInterval", "resultType", "result", "error", "code"),
    *("content", "isError", "_meta", "inputRequests", "requestState", "method", "params", "message", "mode", "schema"),
    *("requestedSchema", "tools", "name", "inputSchema", "nextCursor", "capabilities", "extensions", "serverInfo"),
    *("protocolVersion", "done", "response", "metadata", "operations", "nextPageToken", "@type", "details", "id"),
)
TEXTS = st.sampled_from(
    [*ProtocolStatus, "operations/t-1", "task", "complete", "elicitation/create", "2025-11-25", "\x00"]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS | st.text(max_size=8)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=6)
)
ENVELOPES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "id": st.sampled_from(["$id", 0, None])},
    optional={"result": VALUES, "error": VALUES, "method": TEXTS, "params": VALUES},
)


def _as_event(raw):
    return b"id: e-1\nevent: message\ndata: " + raw + b"\n\n"


DOCUMENTS = (ENVELOPES | VALUES).map(json.dumps).map(str.encode)
BODIES = DOCUMENTS | st.lists(DOCUMENTS.map(_as_event), max_size=3).map(b"".join) | st.binary(max_size=60)
STATUSES = st.sampled_from([200, 202, 204, 301, 400, 401, 404, 405, 409, 429, 500, 503])
MEDIA_TYPES = st.sampled_from(["application/json", "text/event-stream", "text/html", ""])


class Says(httpx.AsyncBaseTransport):
    """Answers every request with this, under the request's own id where the body wants one."""

    def __init__(self, status, media_type, body):
        self._status, self._media_type, self._body = status, media_type, body

    async def handle_async_request(self, request):
        raw = await request.aread()
        asked = json.loads(raw) if raw else {}
        body = self._body.replace(b'"$id"', json.dumps(asked.get("id")).encode())
        headers = {"content-type": self._media_type, "mcp-session-id": "s-1"}
        return httpx.Response(self._status, headers=headers, content=body)


async def _ask(adapter, verb, says):
    endpoint = Endpoint(url="http://127.0.0.1/mcp", allow_private=True)
    wire = HttpWire(transport=says, endpoint=endpoint, gate=open_gate, clock=lambda: NOON)
    await VERBS[verb](adapter, wire)


def _error_of(version, verb, status, media_type, body):
    try:
        asyncio.run(_ask(registry.adapter(version, "r1"), verb, Says(status, media_type, body)))
    except AdapterError as error:
        return error
    return None


def _holds(*case):
    error = _error_of(*case)
    assert error is None or error.reason
    assert error is None or error.exchanges or isinstance(error, NotSent | Refused), "an error without its evidence"


ANY = {"status": STATUSES, "media_type": MEDIA_TYPES, "body": BODIES}
CASES = [(version, verb) for version in registry.versions() for verb in VERBS]


@pytest.mark.parametrize("version, verb", CASES)
@settings(max_examples=30, deadline=None)
@given(**ANY)
def test_no_answer_brings_an_error_from_outside_the_tree(version, verb, status, media_type, body):
    _holds(version, verb, status, media_type, body)


@pytest.mark.long
@pytest.mark.parametrize("version, verb", CASES)
@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(**ANY)
def test_nor_do_many_thousands(version, verb, status, media_type, body):
    _holds(version, verb, status, media_type, body)
