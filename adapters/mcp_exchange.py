"""One request of an MCP contract over a wire, answered by a JSON object or by an event stream.

Nothing here knows a method or a version; a contract says what ends the listening.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from adapters import http, jsonrpc, mcp_shapes, sse, strictjson
from adapters.contract import (
    AdapterError,
    Answered,
    BrokenPeer,
    Exchange,
    MaybeSent,
    Wire,
    WireRequest,
    WireResponse,
    WireStream,
    WrongProtocol,
)
from adapters.jsonrpc import RpcError, RpcResult, ServerRequest, SessionRule

ACCEPT = ("Accept", "application/json, text/event-stream")
CONTENT_TYPE = ("Content-Type", jsonrpc.MEDIA_TYPE)

_DRAIN_S = 0.1
_EVENT_TYPE = "text/event-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """One answer, and what the server asked us on its stream before it."""

    answer: RpcResult | RpcError | None
    """None only where a question is enough: it came first."""
    asked: tuple[ServerRequest, ...]
    headers: Mapping[str, str]
    exchange: Exchange

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
) -> Heard:
    """Send a request and read its answer.

    `enough`: a server's request that ends the listening before the answer comes. `patient`: an
    event that cannot be read does not end it, because to leave the stream would cancel the request
    (C8); it is raised only where no answer follows.
    """
    async with wire.stream(request) as stream:
        if http.is_success(stream.status) and stream.media_type == _EVENT_TYPE:
            return await _listen(stream, request_id, enough, patient=patient)
        try:
            body = b"".join([chunk async for chunk in stream.chunks()])
        except http.CutOff as cut:
            # The server did answer; what it said cannot be read.
            raise BrokenPeer(cut.reason, exchanges=cut.exchanges) from None
        response = WireResponse(
            status=stream.status,
            headers=stream.headers,
            media_type=stream.media_type,
            body=body,
            exchange=stream.exchange(),
        )
    answer = jsonrpc.decode_answer(response, request_id=request_id, session_lost=session_lost)
    return Heard(answer=answer, asked=(), headers=response.headers, exchange=response.exchange)


@contextlib.contextmanager
def evidence(seen: Sequence[Exchange]) -> Iterator[None]:
    """Give an error everything that was seen before it, each exchange once."""
    try:
        yield
    except AdapterError as error:
        later = (exchange for exchange in error.exchanges if exchange not in seen)
        error.exchanges = (*seen, *later)
        raise


async def _listen(
    stream: WireStream, request_id: str, enough: Callable[[ServerRequest], bool], *, patient: bool
) -> Heard:
    """Read events until the answer is here. Raises MaybeSent when the stream ends without it (B112)."""
    asked: list[ServerRequest] = []
    answer: RpcResult | RpcError | None = None
    unread: Answered | None = None
    reader, chunks = sse.EventReader(), stream.chunks()
    async for chunk in chunks:
        for message in _messages(stream, reader, chunk):
            if isinstance(message, Answered):
                unread = unread or message
                if not patient:
                    raise message
            elif isinstance(message, ServerRequest):
                asked.append(message)
            elif isinstance(message, jsonrpc.Response) and jsonrpc.is_answer_to(message, request_id=request_id):
                answer = message.answer
        if answer is not None or any(enough(request) for request in asked):
            break
    else:
        ended = MaybeSent("the event stream ended without the answer", exchanges=(stream.exchange(),))
        raise unread or ended
    if answer is not None:
        await _drain(chunks)
    return Heard(answer=answer, asked=tuple(asked), headers=stream.headers, exchange=stream.exchange())


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
