"""Simulated servers behind HTTP: one ASGI application, one path per server.

`POST <path>` is the server's MCP endpoint, `DELETE <path>` ends a session where the server has
sessions, `GET <path>` is its standing stream where the server has one, and `GET /truth` shows what really
happened, as JSON by path.

A lost answer needs a broken connection, which plain ASGI cannot ask for. The face sends a head that
promises a body and then leaves: uvicorn closes the connection. Under `inprocess` it breaks before
the head.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from http import HTTPStatus
from typing import Any, TypeAlias

from adapters.simulator.engine import Engine, Reply, Standing, Stream
from adapters.simulator.messages import Message

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers: TypeAlias = tuple[tuple[str, str], ...]

DROP_EXTENSION = "longcall.drop"
JSON_TYPE = "application/json"
EVENT_TYPE = "text/event-stream"


class ToolServersApp:
    """An ASGI application over `servers`, keyed by path.

    `sleep` is how waiting streams and delayed answers pass time; `tick_s` is how often, in seconds
    of that sleep, a waiting stream asks its server for news.
    """

    def __init__(
        self,
        servers: Mapping[str, Engine],
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        tick_s: float = 0.05,
    ) -> None:
        self.servers = dict(servers)
        self._sleep = sleep
        self._tick_s = tick_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, as ASGI wants it."""
        if scope["type"] != "http":
            raise NotImplementedError(scope["type"])
        server = self.servers.get(scope["path"])
        if server is None and (scope["method"], scope["path"]) == ("GET", "/truth"):
            await _send_json(send, 200, self._truths())
        elif server is None:
            await _send_json(send, 404, {"error": "no such path"})
        elif scope["method"] == "POST":
            await self._post(server, scope, receive, send)
        elif scope["method"] == "GET":
            await _read(receive)
            reply = server.listen(_headers(scope))
            if reply.stream is not None:
                await self._hold(reply, reply.stream, receive, send)
            else:
                await _send_reply(reply, send, plain=True)
        elif scope["method"] == "DELETE":
            await _send_reply(server.delete(_headers(scope)), send, plain=True)
        else:
            await _send_whole(send, 405, (("allow", "POST"),), b"")

    def _truths(self) -> dict[str, Any]:
        return {path: server.truth.as_json() for path, server in self.servers.items()}

    async def _post(self, server: Engine, scope: Scope, receive: Receive, send: Send) -> None:
        message = _parse(await _read(receive))
        if message is None:
            await _send_json(send, 400, _parse_error())
            return
        reply = server.post(message, _headers(scope))
        if reply.delay_s:
            await self._sleep(reply.delay_s)
        if reply.drop:
            await _drop(scope, send)
        elif reply.stream is not None:
            await self._hold(reply, reply.stream, receive, send)
        else:
            await _send_reply(reply, send, plain=server.scenario.json_only)

    async def _hold(self, reply: Reply, stream: Stream | Standing, receive: Receive, send: Send) -> None:
        """Keep an answer open until the server has it, or the client left."""
        as_json = stream.server.scenario.json_only
        if not as_json:
            await _send_head(send, reply.status, (*reply.headers, ("content-type", EVENT_TYPE)))
        gone = asyncio.ensure_future(receive())
        try:
            while not gone.done():
                for message in stream.take():
                    if as_json:
                        await _send_json(send, reply.status, message)
                    elif reply.truncate and stream.finished:
                        await _send_part(send, _event(message)[: len(_event(message)) // 2])
                        return
                    else:
                        await _send_part(send, _event(message))
                if stream.finished:
                    break
                await self._sleep(self._tick_s)
        finally:
            gone.cancel()
            stream.leave()
        if not as_json and stream.finished:
            await _send_end(send)


async def _send_reply(reply: Reply, send: Send, *, plain: bool) -> None:
    """Send an answer that is there at once: `plain` as JSON, else as an event stream."""
    if reply.message is None:
        await _send_whole(send, reply.status, reply.headers, b"")
        return
    # Refusals by the transport are never event streams.
    plain = plain or reply.status != HTTPStatus.OK
    body = json.dumps(reply.message).encode() if plain else _event(reply.message)
    headers = (*reply.headers, ("content-type", JSON_TYPE if plain else EVENT_TYPE))
    if not reply.truncate:
        await _send_whole(send, reply.status, headers, body)
        return
    await _send_head(send, reply.status, (*headers, ("content-length", str(len(body)))))
    await _send_part(send, body[: len(body) // 2])


async def _drop(scope: Scope, send: Send) -> None:
    if DROP_EXTENSION in scope.get("extensions", {}):
        await send({"type": DROP_EXTENSION})
    else:
        await _send_head(send, 200, (("content-type", JSON_TYPE), ("content-length", "1")))


async def _read(receive: Receive) -> bytes:
    body = b""
    while True:
        event = await receive()
        body += bytes(event.get("body", b""))
        if not event.get("more_body"):
            return body


async def _send_head(send: Send, status: int, headers: Headers) -> None:
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": status, "headers": raw})


async def _send_part(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _send_end(send: Send) -> None:
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send_whole(send: Send, status: int, headers: Headers, body: bytes) -> None:
    await _send_head(send, status, (*headers, ("content-length", str(len(body)))))
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _send_json(send: Send, status: int, value: Mapping[str, Any]) -> None:
    body = json.dumps(value).encode()
    await _send_whole(send, status, (("content-type", JSON_TYPE),), body)


def _event(message: Message) -> bytes:
    return b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n"


def _parse(body: bytes) -> Message | None:
    try:
        message = json.loads(body)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


def _parse_error() -> Message:
    return {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}}


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
