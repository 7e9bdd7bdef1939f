"""One request of an MCP contract over a wire, answered by a JSON object or by an event stream.

Nothing here knows a method or a version; a contract says what ends the listening.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from adapters import http, jsonrpc, mcp_shapes, sse, strictjson
from adapters.contract import (
    AdapterError,
    Answered,
    BrokenPeer,
    Exchange,
    MaybeSent,
    Wire,
    WireRequest,
    WireStream,
    WrongProtocol,
)
from adapters.jsonrpc import RpcError, RpcResult, ServerRequest, SessionRule

ACCEPT = ("Accept", "application/json, text/event-stream")
CONTENT_TYPE = ("Content-Type", jsonrpc.MEDIA_TYPE)

MAX_RESUMES = 3
"""How often one request comes back for the rest of its stream: each time costs a request (P2)."""
MAX_RETRY_S = 5.0
"""A server that wants us away for longer than this is come back to all the same."""
RESUME_WITHIN_S = 25.0
"""Counted from the request: whoever resumes must be done before the claim ends under which it asked."""

_DRAIN_S = 0.1
_EVENT_TYPE = "text/event-stream"

Resume: TypeAlias = Callable[[str, float], WireRequest]
"""Given the last event id and the seconds that are left: the request for what came after it."""
Aside: TypeAlias = Callable[[ServerRequest], Awaitable[None]]
"""Told of each request of the server as it comes, while its stream stays open. Never raises."""


async def _say_nothing(_asked: ServerRequest) -> None:
    """Leave what a server asks to whoever reads the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """One answer, and what the server asked us on its stream before it."""

    answer: RpcResult | RpcError | None
    """None only where a question is enough: it came first."""
    asked: tuple[ServerRequest, ...]
    headers: Mapping[str, str]
    exchange: Exchange
    earlier: tuple[Exchange, ...] = ()
    """Streams that broke off before, where this one went on."""

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """Everything that was read for this answer, in order."""
        return (*self.earlier, self.exchange)

    @property
    def said(self) -> RpcResult | RpcError:
        """The answer, where a question is not enough."""
        if self.answer is None:
            raise BrokenPeer("a question came instead of the answer")
        return self.answer

    @property
    def result(self) -> RpcResult:
        """The result. Raises what an error answer means."""
        if isinstance(self.said, RpcError):
            raise mcp_shapes.refusal(self.said, self.exchange.label)
        return self.said


async def ask(
    wire: Wire,
    request: WireRequest,
    request_id: str,
    *,
    enough: Callable[[ServerRequest], bool] = lambda _asked: False,
    session_lost: SessionRule = lambda _status, _error: False,
    patient: bool = False,
    resume: Resume | None = None,
    aside: Aside = _say_nothing,
) -> Heard:
    """Send a request and read its answer.

    `enough`: a server's request that ends the listening before the answer comes. `patient`: an
    event that cannot be read does not end it, because to leave the stream would cancel the request
    (C8); it is raised only where no answer follows. `resume`: how to ask for the rest of a stream
    that broke off, where its server gave event ids. `aside`: a server may wait for our word before
    it gives its answer.
    """
    listening = _Listening(request_id, enough, patient=patient, aside=aside)
    within_s = RESUME_WITHIN_S if request.total_s is None else request.total_s
    ends = asyncio.get_running_loop().time() + within_s
    try:
        async with wire.stream(request) as stream:
            if stream.media_type == _EVENT_TYPE and http.is_success(stream.status):
                return await listening.hear(stream)
            response = await stream.whole()
    except MaybeSent as broken:
        if resume is None or not listening.last_event_id:
            raise
        return await _resumed(wire, resume, listening, broken, ends=ends)
    answer = jsonrpc.decode_answer(response, request_id=request_id, session_lost=session_lost)
    return Heard(answer=answer, asked=(), headers=response.headers, exchange=response.exchange)


async def _resumed(wire: Wire, resume: Resume, listening: _Listening, broken: MaybeSent, *, ends: float) -> Heard:
    """Come back for the rest of a stream. The work it tells of goes on meanwhile: nothing is sent twice.

    Raises what broke the stream first when the rest cannot be had either: that is what counts for
    the request (L4).
    """
    seen, time = list(broken.exchanges), asyncio.get_running_loop().time
    for _ in range(MAX_RESUMES):
        away_s = min(listening.retry_s, MAX_RETRY_S)
        if (left_s := ends - time() - away_s) <= 0:
            break
        await asyncio.sleep(away_s)
        try:
            async with wire.stream(resume(listening.last_event_id, left_s)) as stream:
                if not http.is_success(stream.status) or stream.media_type != _EVENT_TYPE:
                    break
                heard = await listening.hear(stream)
                return replace(heard, earlier=tuple(seen))
        except MaybeSent as again:
            seen += again.exchanges
        except AdapterError as error:
            seen += error.exchanges
            break
    raise MaybeSent(broken.reason, exchanges=seen)


class Standing:
    """A stream on which the server speaks first: its messages, one by one, with what was read of each."""

    def __init__(self, stream: WireStream, *, last_event_id: str) -> None:
        self.last_event_id = last_event_id
        self.retry_s: float | None = None
        self._stream = stream
        self._told = 0

    async def messages(self) -> AsyncIterator[tuple[jsonrpc.Message, Exchange]]:
        """Yield each message as it comes. What cannot be read is skipped: nobody waits for it here.

        Raises BrokenPeer for an event over its cap, MaybeSent when the stream breaks off or time is up.
        """
        reader = sse.EventReader(last_event_id=self.last_event_id or None)
        async for chunk in self._stream.chunks():
            for message in _messages(self._stream, reader, chunk):
                self.last_event_id = reader.last_event_id or ""
                if not isinstance(message, Answered):
                    yield message, self._news()
            self.last_event_id = reader.last_event_id or ""
            self.retry_s = None if reader.retry_ms is None else reader.retry_ms / 1000

    def _news(self) -> Exchange:
        """What was read since the last message, as evidence: the whole stream would be kept each time."""
        whole = self._stream.exchange()
        begin, self._told = self._told, len(whole.body)
        return replace(whole, body=whole.body[begin:], complete=True)


@contextlib.asynccontextmanager
async def standing(
    wire: Wire, request: WireRequest, *, last_event_id: str, session_lost: SessionRule
) -> AsyncIterator[Standing]:
    """Open a standing stream. Raises Refused or BrokenPeer where the server gives none, SessionLost."""
    async with wire.stream(request) as stream:
        if http.is_success(stream.status) and stream.media_type == _EVENT_TYPE:
            yield Standing(stream, last_event_id=last_event_id)
            return
        response = await stream.whole()
    # Nothing was asked here, so that every answer is an error.
    jsonrpc.decode_answer(response, request_id="", session_lost=session_lost)
    raise http.status_error(response)


class Evidence:
    """A context that gives an error everything that was seen before it, each exchange once."""

    __slots__ = ("_seen",)

    def __init__(self, seen: Sequence[Exchange]) -> None:
        """`seen` may grow while the context is open."""
        self._seen = seen

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Let the error pass on with what it should know."""
        if isinstance(error, AdapterError):
            later = (exchange for exchange in error.exchanges if exchange not in self._seen)
            error.exchanges = (*self._seen, *later)


class _Listening:
    """What is listened for, and what has come so far, over every stream that brings a part of it."""

    def __init__(
        self, request_id: str, enough: Callable[[ServerRequest], bool], *, patient: bool, aside: Aside
    ) -> None:
        self.request_id = request_id
        self.last_event_id = ""
        self.retry_s = 0.0
        self._enough = enough
        self._patient = patient
        self._aside = aside
        self._asked: list[ServerRequest] = []
        self._unread: Answered | None = None

    async def hear(self, stream: WireStream) -> Heard:
        """Read events until the answer is here. Raises MaybeSent when the stream ends without it (B112)."""
        answer: RpcResult | RpcError | None = None
        reader, chunks = sse.EventReader(last_event_id=self.last_event_id or None), stream.chunks()
        try:
            async for chunk in chunks:
                known = len(self._asked)
                answer = self._take(stream, reader, chunk)
                for request in self._asked[known:]:
                    await self._aside(request)
                if answer is not None or any(self._enough(request) for request in self._asked):
                    break
            else:
                ended = MaybeSent("the event stream ended without the answer", exchanges=(stream.exchange(),))
                raise self._unread or ended
        finally:
            self.last_event_id = reader.last_event_id or ""
            self.retry_s = (reader.retry_ms or 0) / 1000
        if answer is not None:
            await _drain(chunks)
        return Heard(answer=answer, asked=tuple(self._asked), headers=stream.headers, exchange=stream.exchange())

    def _take(self, stream: WireStream, reader: sse.EventReader, chunk: bytes) -> RpcResult | RpcError | None:
        answer = None
        for message in _messages(stream, reader, chunk):
            if isinstance(message, Answered):
                self._unread = self._unread or message
                if not self._patient:
                    raise message
            elif isinstance(message, ServerRequest):
                self._asked.append(message)
            elif isinstance(message, jsonrpc.Response) and jsonrpc.is_answer_to(message, request_id=self.request_id):
                answer = message.answer
        return answer


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read on to the end if it is near: a connection that was read out can be used again."""
    with contextlib.suppress(AdapterError, TimeoutError):
        async with asyncio.timeout(_DRAIN_S):
            async for _ in chunks:
                pass


def _messages(stream: WireStream, reader: sse.EventReader, chunk: bytes) -> Iterator[jsonrpc.Message | Answered]:
    """Read the messages that this chunk completes; an error stands for one that cannot be read."""
    try:
        for event in reader.feed(chunk):
            yield _message(stream, event.data)
    except sse.OversizedEvent as error:
        raise BrokenPeer(f"an event cannot be read: {error}", exchanges=(stream.exchange(),)) from None


def _message(stream: WireStream, data: bytes) -> jsonrpc.Message | Answered:
    try:
        return jsonrpc.read_message(data)
    except jsonrpc.NotRpc as error:
        return WrongProtocol(f"an event is {error}", exchanges=(stream.exchange(),))
    except strictjson.BadJson as error:
        return BrokenPeer(f"an event cannot be read: {error}", exchanges=(stream.exchange(),))
