"""Simulated AIP-151 servers behind HTTP: one ASGI application, one URL prefix per server.

`GET <prefix>/truth` shows what really happened at a server, as JSON; everything else below the
prefix is the server's. A lost answer is done as in `face`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import parse_qsl

from adapters.simulator.aip151 import OperationsServer, Reply, Request
from adapters.simulator.face import DROP_EXTENSION, Receive, Scope, Send

App = Callable[[Scope, Receive, Send], Awaitable[None]]


class OperationsApp:
    """An ASGI application over `servers`, keyed by prefix, such as `/jobs/v1`.

    `otherwise` serves what lies below no prefix; without it that is a 404. `sleep` is how delayed
    answers pass time.
    """

    def __init__(
        self,
        servers: Mapping[str, OperationsServer],
        *,
        otherwise: App | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.servers = dict(servers)
        self._otherwise = otherwise
        self._sleep = sleep

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, as ASGI wants it."""
        prefix = next((prefix for prefix in self.servers if scope["path"].startswith(f"{prefix}/")), None)
        if prefix is None and self._otherwise is not None:
            await self._otherwise(scope, receive, send)
        elif scope["type"] != "http":
            raise NotImplementedError(scope["type"])
        elif prefix is None:
            await _send(send, Reply(status=404, body=b'{"error": "no such path"}'))
        else:
            await self._serve(self.servers[prefix], scope["path"].removeprefix(f"{prefix}/"), scope, receive, send)

    async def _serve(self, server: OperationsServer, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        body = await _read(receive)
        if (scope["method"], path) == ("GET", "truth"):
            await _send(send, Reply(body=json.dumps(server.truth.as_json()).encode()))
            return
        query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1")))
        reply = server.receive(Request(method=scope["method"], path=path, query=query, body=body))
        if reply.delay_s:
            await self._sleep(reply.delay_s)
        if not reply.drop:
            await _send(send, reply)
        elif DROP_EXTENSION in scope.get("extensions", {}):
            await send({"type": DROP_EXTENSION})
        else:
            await _send(send, Reply(body=b"{", truncate=True))


async def _read(receive: Receive) -> bytes:
    body = b""
    while True:
        event = await receive()
        body += bytes(event.get("body", b""))
        if not event.get("more_body"):
            return body


async def _send(send: Send, reply: Reply) -> None:
    headers = (*reply.headers, ("content-length", str(len(reply.body))))
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": reply.status, "headers": raw})
    # Cut short, the answer breaks its promise and the connection with it.
    body = reply.body[: len(reply.body) // 2] if reply.truncate else reply.body
    await send({"type": "http.response.body", "body": body, "more_body": reply.truncate})
