"""Tiny tool servers on a real socket of this machine, one coroutine a connection."""

import asyncio
import contextlib
import socket
import struct
from datetime import UTC, datetime

from adapters.contract import Endpoint, Limits, WireRequest
from adapters.http import Connections

OK = b'{"jsonrpc":"2.0","id":1,"result":{}}'
BODY = b'{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{}}'
NOON = datetime(2026, 10, 21, 12, 0, 0, tzinfo=UTC)
REQUEST = WireRequest(label="tasks/get", body=BODY, headers=(("Accept", "application/json"),))


class Conversation:
    """One connection, seen by the server."""

    def __init__(self, reader, writer):
        self._reader = reader
        self._writer = writer

    @property
    def called_at(self):
        """Our own address, as the client called it."""
        return self._writer.get_extra_info("sockname")[0]

    async def hear(self):
        """Read one request; give back its head and its body."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        return head, await self._reader.readexactly(length)

    async def say(self, raw):
        self._writer.write(raw)
        await self._writer.drain()

    async def answer(self, body, *, status="200 OK", headers="Content-Type: application/json"):
        lines = f"HTTP/1.1 {status}\r\n{headers}\r\nContent-Length: {len(body)}\r\n\r\n"
        await self.say(lines.encode("latin-1") + body)

    async def gone(self):
        """Wait until the client hangs up."""
        with contextlib.suppress(OSError):
            while await self._reader.read(65536):
                pass

    def reset(self):
        """Break the connection with RST instead of a polite end."""
        raw = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


class Served:
    """What a test needs to know of its server."""

    def __init__(self):
        self.port = 0
        self.heard = []
        self.connections = 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/mcp"


@contextlib.asynccontextmanager
async def serve(script, *, tls=None, host="127.0.0.1"):
    """Run `script(conversation, served)` for every connection."""
    served = Served()
    tasks: set[asyncio.Task] = set()

    async def run(reader, writer):
        served.connections += 1
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await script(Conversation(reader, writer), served)
        writer.close()

    server = await asyncio.start_server(run, host, 0, ssl=tls)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


def saying(*answers):
    """A script: hear a request, send the next raw answer, hang up after the last."""

    async def script(talk, served):
        for raw in answers:
            served.heard.append(await talk.hear())
            await talk.say(raw)

    return script


async def open_gate():
    """No rate limit."""


@contextlib.asynccontextmanager
async def wired(
    url, *, gate=open_gate, credential=None, allow_private=True, transport=None, connections=None, **limits
):
    """A wire to `url` with its own connections."""
    connections = connections or Connections(transport_for=(lambda _: transport) if transport else None)
    endpoint = Endpoint(url=url, credential=credential, allow_private=allow_private)
    try:
        yield connections.wire(endpoint, gate=gate, clock=lambda: NOON, limits=Limits(**limits))
    finally:
        await connections.aclose()


def reply(body=OK, *headers, status="200 OK", length=None):
    lines = [
        f"HTTP/1.1 {status}",
        "Content-Type: application/json",
        f"Content-Length: {len(body) if length is None else length}",
    ]
    return "\r\n".join([*lines, *headers, "", ""]).encode("latin-1") + body


async def ask(script, request=REQUEST, **options):
    """Send one request to a scripted server; give back the answer and the server."""
    async with serve(script) as served, wired(served.url, **options) as wire:
        return await wire.send(request), served
