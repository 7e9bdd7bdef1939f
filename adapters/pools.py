"""Where connections are kept: an httpx transport of our own, small and guarded.

httpx's own (httpcore) scans its whole pool several times for each request and passes every byte through
half a dozen layers: most of what a look costs. What we need is a small part of it: HTTP/1.1, one
origin, no retries, no redirects, no proxies. What stands above, the wire, is the same over both.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import httpx

from adapters import addresses
from adapters.connection import Connection
from adapters.messages import Incoming, Outgoing

CONNECTIONS = 256
"""To one origin: more than one server may have drives at once, and its standing streams. Who has to wait for one
here leaves later than at the moment that was reserved for it (P2)."""
KEEPALIVE_S = 4.0
"""Below the five seconds after which uvicorn and Node close an idle connection. A request that
meets that close is MaybeSent, and a submit that is MaybeSent costs a person's time."""

Trace: TypeAlias = Callable[[str, Mapping[str, object]], Awaitable[None]]
"""Told how far a request has come, in httpcore's words: `connection.connect_tcp.started` and
`http11.send_request_headers.started`."""


class KeptTransport(httpx.AsyncBaseTransport):
    """The connections to one origin, at checked addresses only, TLS verified.

    Reads `timeout` (connect, pool: seconds) and `trace` of a request's extensions; a total deadline is
    the caller's business, who cancels.
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext,
        allow_private: bool,
        resolve: addresses.Resolve = addresses.system_resolve,
        connections: int = CONNECTIONS,
    ) -> None:
        self._tls = tls
        self._allow_private = allow_private
        self._resolve = resolve
        self._room = connections
        self._idle: list[Connection] = []
        self._used: set[Connection] = set()
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()
        self._loop = asyncio.get_running_loop()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request on a connection of its own; it is kept, if it can be, once the body is closed."""
        trace: Trace = request.extensions["trace"]
        kept = self._kept()
        connection = self._use(kept) if kept is not None else await self._take(request, trace)
        try:
            await trace("http11.send_request_headers.started", {})
            head = await connection.ask(_written(request))
        except BaseException:
            connection.abort()
            self._leave(connection)
            raise
        return Incoming(status=head.status, pairs=head.headers, stream=Body(connection, self._leave))

    async def aclose(self) -> None:
        """Close every connection."""
        idle, self._idle = self._idle, []
        self._room += len(idle)
        for connection in (*idle, *self._used):
            connection.abort()

    async def _take(self, request: httpx.Request, trace: Trace) -> Connection:
        """Make a connection where there is room, or wait for one."""
        if self._room > 0:
            self._room -= 1
        elif (kept := await self._wait(request.extensions["timeout"]["pool"])) is not None:
            return self._use(kept)
        try:
            return self._use(await self._connect(request, trace))
        except BaseException:
            self._pass_on(None)
            raise

    def _use(self, connection: Connection) -> Connection:
        self._used.add(connection)
        return connection

    def _kept(self) -> Connection | None:
        """The connection that was used last, if there is one that is young enough."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_ready and self._loop.time() - connection.idle_since < KEEPALIVE_S:
                return connection
            connection.abort()
            self._room += 1
        return None

    async def _wait(self, patience: float) -> Connection | None:
        """Wait for a place; None: there is one, with no connection in it yet."""
        place: asyncio.Future[Connection | None] = self._loop.create_future()
        self._waiting.append(place)
        try:
            async with asyncio.timeout(patience):
                return await place
        except BaseException as error:
            if place.done() and not place.cancelled():
                self._pass_on(place.result())
            if isinstance(error, TimeoutError):
                raise httpx.PoolTimeout("no connection became free in time") from None
            raise

    def _leave(self, connection: Connection) -> None:
        self._used.discard(connection)
        self._pass_on(connection if connection.release(self._loop.time()) else None)

    def _pass_on(self, connection: Connection | None) -> None:
        """Give a place to who waits longest, with its connection if that can be used again."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(connection)
                return
        if connection is None:
            self._room += 1
        else:
            self._idle.append(connection)

    async def _connect(self, request: httpx.Request, trace: Trace) -> Connection:
        await trace("connection.connect_tcp.started", {})
        url = request.url
        tls = self._tls if url.scheme == "https" else None
        try:
            async with asyncio.timeout(request.extensions["timeout"]["connect"]):
                return await addresses.connect(
                    Connection,
                    url.raw_host.decode("ascii"),
                    url.port or (80 if tls is None else 443),
                    tls=tls,
                    allow_private=self._allow_private,
                    resolve=self._resolve,
                )
        except TimeoutError:
            raise httpx.ConnectTimeout("no connection in time") from None


class Body(httpx.AsyncByteStream):
    """A body as it comes; closing it leaves its connection."""

    def __init__(self, connection: Connection, leave: Callable[[Connection], None]) -> None:
        self._connection = connection
        self._leave: Callable[[Connection], None] | None = leave

    def __aiter__(self) -> Body:
        return self

    async def __anext__(self) -> bytes:
        piece = await self._connection.chunk()
        if piece is None:
            raise StopAsyncIteration
        return piece

    @property
    def has_come(self) -> bool:
        """Whether the next piece, or the end, is here: of an answer that came in one packet, all of it."""
        return self._connection.has_come

    def piece(self) -> bytes | None:
        """Give the next piece without a wait, None at the end, where it `has_come`."""
        return self._connection.piece()

    async def aclose(self) -> None:
        """Leave the connection."""
        leave, self._leave = self._leave, None
        if leave is not None:
            leave(self._connection)


def _written(request: httpx.Request) -> bytes:
    """The request as bytes. httpx has checked the names and values of its headers, and named the host."""
    if isinstance(request, Outgoing):
        return request.head + request.content
    lines = [b"%s %s HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
    lines += [b"%s: %s" % header for header in request.headers.raw]
    return b"\r\n".join(lines) + b"\r\n\r\n" + request.content
