"""An ASGI application called from httpx without a socket, streams and broken connections included.

httpx's own `ASGITransport` hands an answer over only when the application has ended, so a
`tasks/result` stream that stays open would never be seen, and an answer that stops short is an
assertion there, not a broken connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

import httpx

from adapters.simulator.face import DROP_EXTENSION, Receive, Scope, Send

App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class InProcessTransport(httpx.AsyncBaseTransport):
    """Calls `app`. Each request is one asyncio task of the running loop, ended with its answer."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request. Raises httpx.RemoteProtocolError when the connection breaks."""
        exchange = _Exchange(await request.aread())
        exchange.start(self._app, _scope(request))
        try:
            head = await exchange.next_event()
        except BaseException:
            await exchange.aclose()
            raise
        return httpx.Response(head["status"], headers=head["headers"], stream=exchange)


class _Exchange(httpx.AsyncByteStream):
    """One request with its answer, as events from the application."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self._events: asyncio.Queue[MutableMapping[str, Any] | None] = asyncio.Queue()
        self._closed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, app: App, scope: Scope) -> None:
        self._task = asyncio.create_task(self._run(app, scope, self._receive, self._events.put))

    async def next_event(self) -> MutableMapping[str, Any]:
        event = await self._events.get()
        if event is None and self._task is not None:
            # A defect of the simulator must not pass for a broken connection.
            await self._task
        if event is None or event["type"] == DROP_EXTENSION:
            raise httpx.RemoteProtocolError("the server broke the connection")
        return event

    async def __aiter__(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            event = await self.next_event()
            more = event.get("more_body", False)
            yield event["body"]

    async def aclose(self) -> None:
        self._closed.set()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, app: App, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        finally:
            # The application left: whoever still waits learns that nothing more will come.
            self._events.put_nowait(None)

    async def _receive(self) -> MutableMapping[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._closed.wait()
        return {"type": "http.disconnect"}


def _scope(request: httpx.Request) -> Scope:
    return {
        "type": "http",
        "method": request.method,
        "path": request.url.path,
        "query_string": request.url.query,
        "headers": request.headers.raw,
        "extensions": {DROP_EXTENSION: {}},
    }
