"""Where connections are kept: httpx transports over httpcore, small and guarded.

httpcore scans its whole pool several times per request, so many small pools beat one large one;
and none of them may reach an address that `addresses` forbids.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from typing import cast

import httpcore
import httpx

from adapters import addresses

CONNECTIONS_PER_POOL = 10
"""httpcore scans its whole pool several times per request: beyond ten, two pools are cheaper."""
POOLS_PER_ORIGIN = 5
KEEPALIVE_S = 4.0
"""Below the five seconds after which uvicorn and Node close an idle connection. A request that
meets that close is MaybeSent, and a submit that is MaybeSent costs a person's time."""


class GuardedTransport(httpx.AsyncHTTPTransport):
    """One pool of connections to checked addresses, HTTP/1.1, no retries, TLS verified."""

    def __init__(
        self,
        *,
        tls: ssl.SSLContext,
        allow_private: bool,
        resolve: addresses.Resolve = addresses.system_resolve,
        connections: int = CONNECTIONS_PER_POOL,
    ) -> None:
        super().__init__(verify=tls, trust_env=False)
        # httpx has no argument for the network backend. Its version is pinned, and a test holds
        # this guard in its place.
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=connections,
            max_keepalive_connections=connections,
            keepalive_expiry=KEEPALIVE_S,
            network_backend=addresses.GuardedBackend(allow_private=allow_private, resolve=resolve),
        )


class Pools(httpx.AsyncBaseTransport):
    """Several small pools as one transport: a request takes the first that has a free place."""

    def __init__(self, make: Callable[[], httpx.AsyncBaseTransport], *, most: int = POOLS_PER_ORIGIN) -> None:
        self._make = make
        self._most = most
        self._pools: list[httpx.AsyncBaseTransport] = []
        self._busy: dict[httpx.AsyncBaseTransport, int] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Pass the request to one pool, and count it there until its answer is closed."""
        pool = self._choose()
        self._busy[pool] += 1
        try:
            response = await pool.handle_async_request(request)
        except BaseException:
            self._busy[pool] -= 1
            raise
        body = cast("httpx.AsyncByteStream", response.stream)
        response.stream = _CountedBody(body, lambda: self._release(pool))
        return response

    async def aclose(self) -> None:
        """Close every connection."""
        for pool in self._pools:
            await pool.aclose()

    def _choose(self) -> httpx.AsyncBaseTransport:
        for pool in self._pools:
            if self._busy[pool] < CONNECTIONS_PER_POOL:
                return pool
        if len(self._pools) == self._most:
            return min(self._pools, key=self._busy.__getitem__)
        pool = self._make()
        self._pools.append(pool)
        self._busy[pool] = 0
        return pool

    def _release(self, pool: httpx.AsyncBaseTransport) -> None:
        self._busy[pool] -= 1


class _CountedBody(httpx.AsyncByteStream):
    """A body that tells once when it is closed."""

    def __init__(self, body: httpx.AsyncByteStream, closed: Callable[[], None]) -> None:
        self._body = body
        self._closed: Callable[[], None] | None = closed

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._body.__aiter__()

    async def aclose(self) -> None:
        closed, self._closed = self._closed, None
        if closed is not None:
            closed()
        await self._body.aclose()
