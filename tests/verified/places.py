"""Where a promise is tried: on a simulated server, whose time is ours, or on a real one.

A place gives wires to its server, passes time, and restarts the server.
"""

import asyncio
import contextlib
import random
from datetime import UTC, datetime

import httpx

from adapters.contract import Endpoint
from adapters.http import Connections, HttpWire
from adapters.simulator import aip151, aip151_face, core, face, modern
from tests.adapters.inprocess import InProcessTransport
from tests.verified.peers.running import free_port


async def open_gate():
    """No rate limit."""


def _now():
    return datetime.now(UTC)


@contextlib.asynccontextmanager
async def wired(url):
    """A wire to `url` with its own connections."""
    connections = Connections()
    try:
        yield connections.wire(Endpoint(url=url, allow_private=True), gate=open_gate, clock=_now)
    finally:
        await connections.aclose()


class _LosesAnswers(httpx.AsyncBaseTransport):
    """Sends the request, sees the answer begin, and breaks the connection."""

    def __init__(self, way):
        self._way = way

    async def handle_async_request(self, request):
        response = await self._way.handle_async_request(request)
        await response.aclose()
        raise httpx.ReadError("the answer was lost")

    async def aclose(self):
        await self._way.aclose()


def _over(way, url):
    return HttpWire(transport=way, endpoint=Endpoint(url=url, allow_private=True), gate=open_gate, clock=_now)


@contextlib.asynccontextmanager
async def losing_answers(url):
    """A wire to `url` over which every request arrives and no answer does."""
    async with _LosesAnswers(httpx.AsyncHTTPTransport()) as way:
        yield _over(way, url)


class Real:
    """A third-party server: the one that all tests share, or, to be restarted, one of its own."""

    def __init__(self, peers, name, *, alone):
        self._peers, self._name = peers, name
        self._own = contextlib.ExitStack()
        self._port = free_port()
        self.home = peers.home
        self.url = self._started() if alone else peers.url(name)

    def _started(self):
        return self._own.enter_context(self._peers.running(self._name, port=self._port))

    def close(self):
        self._own.close()

    async def restart(self):
        self._own.close()
        self._started()

    def wire(self):
        return wired(self.url)

    def losing_answers(self):
        return losing_answers(self.url)

    async def pass_time(self):
        await asyncio.sleep(0.1)


class Simulated:
    """A simulated server without a socket. A restart of it loses everything that it knew."""

    def __init__(self, scenario, serve):
        self._now = 1_790_000_000.0
        self._scenario, self._serve = scenario, serve
        self._begin()

    def _begin(self):
        app, self.url = self._serve(self._scenario, clock=lambda: self._now, chance=random.Random(7))
        self._way = InProcessTransport(app)

    def close(self):
        pass

    async def restart(self):
        self._begin()

    @contextlib.asynccontextmanager
    async def wire(self):
        yield _over(self._way, self.url)

    @contextlib.asynccontextmanager
    async def losing_answers(self):
        yield _over(_LosesAnswers(self._way), self.url)

    async def pass_time(self):
        self._now += 1
        await asyncio.sleep(0.01)


def serve_2025(scenario, **named):
    """Serve MCP 2025-11-25."""
    server = core.ToolServer(scenario, **named)
    return face.ToolServersApp({"/mcp": server}, tick_s=0.005), "http://127.0.0.1/mcp"


def serve_2026(scenario, **named):
    """Serve MCP 2026-07-28."""
    server = modern.ModernToolServer(scenario, **named)
    return face.ToolServersApp({"/mcp": server}, tick_s=0.005), "http://127.0.0.1/mcp"


def serve_aip_151(scenario, **named):
    """Serve AIP-151."""
    server = aip151.OperationsServer(scenario, **named)
    return aip151_face.OperationsApp({"/jobs/v1": server}), "http://127.0.0.1/jobs/v1"
