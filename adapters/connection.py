"""One kept connection that speaks HTTP/1.1: an asyncio protocol around llhttp, one request at a time.

It says what it sees in httpx's errors. Whatever is odd ends the connection: bytes that nobody asked
for, an answer that is no HTTP, a body that breaks off. Only a connection whose last answer was read
to its end, and that its server wants to keep, may be used again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple, cast

import httptools
import httpx

MAX_HEAD_BYTES = 131_072
"""Of an answer's head as it comes. The wire's own cap is lower; this one bounds what is held before it is asked."""
HELD_BYTES = 262_144
"""Of a body that nobody has read yet; then the socket is left alone until somebody has."""

_SWITCHING = 101
_FINAL = 200
_WITHOUT_BODY = frozenset({204, 304})


class Head(NamedTuple):
    """Status and headers of an answer."""

    status: int
    headers: list[tuple[bytes, bytes]]


class Connection(asyncio.Protocol):
    """One connection. `ask`, then `chunk` until it gives None, then perhaps `ask` again."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._fault: httpx.TransportError | None = None
        self._is_asked = False
        self._is_kept = False
        self._is_paused = False
        self.idle_since = 0.0
        self._begin()

    @property
    def is_ready(self) -> bool:
        """Whether it may be used for another request."""
        return self._is_kept and not self._is_asked and self._fault is None

    async def ask(self, request: bytes) -> Head:
        """Write one request; return the head of its answer. Raises httpx.TransportError."""
        self._begin()
        self._is_asked = True
        if self._fault is not None or self._transport is None:
            raise self._fault or httpx.WriteError("the connection is gone")
        self._transport.write(request)
        while self._writable is not None:
            await self._writable
        while self._head is None:
            await self._news()
        return self._head

    async def chunk(self) -> bytes | None:
        """Return the next piece of the body, None at its end. Raises httpx.TransportError."""
        while not self.has_come:
            await self._news()
        return self.piece()

    @property
    def has_come(self) -> bool:
        """Whether the next piece of the body, or its end, is here already: then `piece` gives it without a wait."""
        return self._is_whole or bool(self._chunks)

    def piece(self) -> bytes | None:
        """As `chunk`, where it `has_come`."""
        if not self._chunks:
            return None
        piece = self._chunks.popleft()
        self._held -= len(piece)
        if self._is_paused and self._held < HELD_BYTES and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        return piece

    def release(self, now: float) -> bool:
        """Leave the connection; return whether it was read out and may be kept. Otherwise it is closed."""
        if not (self._is_whole and not self._chunks and self._is_kept and self._fault is None):
            self.abort()
            return False
        self._is_asked = False
        self.idle_since = now
        return True

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        if self._transport is not None:
            self._transport.abort()

    def _begin(self) -> None:
        self._head: Head | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._chunks: deque[bytes] = deque()
        self._head_bytes = self._held = 0
        self._is_whole = self._ends_by_closing = False

    async def _news(self) -> None:
        if self._fault is not None:
            raise self._fault
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _break(self, fault: httpx.TransportError) -> None:
        self._fault = self._fault or fault
        self.abort()
        self._wake()

    # asyncio's side -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        if not self._is_asked or self._is_whole:
            self._break(httpx.RemoteProtocolError("the server spoke without being asked"))
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._break(httpx.RemoteProtocolError("the server changed the protocol"))
        except httptools.HttpParserError:
            # llhttp's own words may quote the answer.
            self._break(httpx.RemoteProtocolError("the answer is not HTTP"))
        if self._head is None:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._break(httpx.RemoteProtocolError("the head of the answer does not end"))
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """End. Where the close itself ends the body, the answer is whole."""
        if exc is None and self._head is not None and self._ends_by_closing:
            self._is_whole = True
        self._is_kept = False
        self._transport = None
        if self._fault is None:
            reset = isinstance(exc, OSError)
            self._fault = httpx.ReadError("reset") if reset else httpx.RemoteProtocolError("the server hung up")
        self.resume_writing()
        self._wake()

    def pause_writing(self) -> None:
        """Wait with what is left of a large request."""
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        """Go on."""
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)

    # llhttp's side --------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """An answer begins: a second one is one too many."""
        if self._is_whole:
            raise httptools.HttpParserError("a second answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one header, or one trailer, which nobody reads."""
        if self._head is None:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Take the head; an interim answer (1xx) is passed over."""
        status = self._parser.get_status_code()
        if status < _FINAL:
            if status == _SWITCHING:
                raise httptools.HttpParserError("a protocol that nobody asked for")
            self._headers = []
            return
        framing = {name.lower(): value for name, value in self._headers}
        coding = framing.get(b"transfer-encoding")
        if coding is not None and coding.lower() != b"chunked":
            raise httptools.HttpParserError("a transfer coding that nobody asked for")
        self._ends_by_closing = coding is None and b"content-length" not in framing and status not in _WITHOUT_BODY
        self._head = Head(status, self._headers)

    def on_body(self, body: bytes) -> None:
        """Hold a piece of the body."""
        self._chunks.append(body)
        self._held += len(body)
        if self._held > HELD_BYTES and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """The answer is whole, unless it was an interim one."""
        if self._head is not None:
            self._is_whole = True
            self._is_kept = self._parser.should_keep_alive()
