"""One bounded way to one endpoint, over httpx's transports.

The question a wire must answer is not "did it work" but "what may have happened at the server"
(L4). Note [Not sent, or maybe] below holds the rule; `FAULTS` sorts every error httpx can raise,
and a test proves that none is missing.

Bounds of a request: pool and connection budgets, a total deadline that no dripping byte moves,
caps on headers, body and inflation. No redirects, no cookies, no proxies or certificates from
the environment; the credential goes to the registered URL and nowhere else, and never into an
error, a repr or an Exchange. A server that echoes it finds it masked before anything is read, so
that it is in no question, no result and no message either.

Note [Not sent, or maybe]
    NotSent is said on evidence only, because it permits a resend: the transport told us that it
    was connecting and never that it began to write, or it raised an error which httpx raises
    before the first byte only. Everything else is MaybeSent: a time-out after the first byte, a
    reused connection that broke (the server may have closed it before or after it read), a
    transport which tells nothing about itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import lru_cache
from typing import TypeAlias, cast
from urllib.parse import urlsplit

import httpx

from adapters import addresses, messages, pools
from adapters.contract import (
    AdapterError,
    BrokenPeer,
    Endpoint,
    Exchange,
    Limits,
    MaybeSent,
    NotSent,
    RefusalKind,
    Refused,
    Throttled,
    TooLarge,
    WireRequest,
    WireResponse,
)
from adapters.deadline import Deadline
from adapters.veil import Veil, veil_over

Gate: TypeAlias = Callable[[], Awaitable[None]]
"""Awaited before every request: the server's rate limit (P2)."""

Clock: TypeAlias = Callable[[], datetime]
"""The time, with its zone. Read only to date an answer whose server did not."""

MAX_HEADER_BYTES = 32_768
MAX_INFLATION = 250
INFLATION_ALLOWANCE = 1_000_000
MAX_RETRY_AFTER_S = 86_400.0

_INFLATE_STEP = 65_536
_SHORTEST_SECRET = 6
_SUCCESS = range(200, 300)
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_CLIENT_AT_FAULT = range(400, 500)
_DATE_FORMS = ("%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y")

Fault: TypeAlias = type[NotSent] | type[MaybeSent]

FAULTS: Mapping[type[Exception], tuple[Fault, str]] = {
    httpx.InvalidURL: (NotSent, "the URL cannot be used"),
    httpx.UnsupportedProtocol: (NotSent, "the URL is neither http nor https"),
    httpx.PoolTimeout: (NotSent, "no connection to the server became free in time"),
    httpx.ConnectTimeout: (NotSent, "no connection to the server in time"),
    httpx.ConnectError: (NotSent, "the server cannot be reached"),
    httpx.ProxyError: (MaybeSent, "a proxy failed"),
    httpx.WriteTimeout: (MaybeSent, "the request could not be written in time"),
    httpx.WriteError: (MaybeSent, "the connection broke while the request was written"),
    httpx.ReadTimeout: (MaybeSent, "no answer in time"),
    httpx.ReadError: (MaybeSent, "the connection broke before the answer was whole"),
    httpx.CloseError: (MaybeSent, "the connection could not be closed"),
    httpx.LocalProtocolError: (MaybeSent, "the request broke the rules of HTTP"),
    httpx.RemoteProtocolError: (MaybeSent, "the server broke the rules of HTTP, or hung up"),
    httpx.DecodingError: (MaybeSent, "the answer's content encoding is broken"),
    httpx.TooManyRedirects: (MaybeSent, "too many redirects"),
    httpx.HTTPStatusError: (MaybeSent, "the status is an error"),
    httpx.CookieConflict: (MaybeSent, "two cookies of one name"),
    httpx.StreamConsumed: (MaybeSent, "the stream was read twice"),
    httpx.StreamClosed: (MaybeSent, "the stream was closed"),
    httpx.ResponseNotRead: (MaybeSent, "the answer was not read"),
    httpx.RequestNotRead: (MaybeSent, "the request was not read"),
}

_LIMITS = Limits()
_CAUGHT = (httpx.HTTPError, httpx.InvalidURL, httpx.CookieConflict, httpx.StreamError, OSError)


class CutOff(MaybeSent):
    """The body ended before its own framing said so."""


# What an answer means, if its body says nothing usable ----------------------------------------------


def is_success(status: int) -> bool:
    """Whether the status is one of 2xx."""
    return status in _SUCCESS


def is_door_status(status: int) -> bool:
    """Whether the status itself decides, whatever error the body holds: 401, 403, 429, a redirect."""
    return status in {401, 403, 429} or status in _REDIRECTS


def status_error(response: WireResponse, *, said: str = "") -> AdapterError:
    """Sort an answer without a usable protocol body. `said` is added to the reason.

    Redirects, 401, 403 and most of 4xx: Refused(ADMIN). 413, 422: Refused(REQUEST). 425, 429:
    Throttled. The rest is BrokenPeer: 408, 409 and 5xx because a gateway may have passed the
    request on (a submit may have created its task), 2xx because it is no answer to a question;
    in particular 202 means received, never done (P3).
    """
    seen = (response.exchange,)
    reason = _in_words(response) + said
    match response.status:
        case 425 | 429:
            return Throttled(reason, retry_after_s=retry_after_s(response), exchanges=seen)
        case 413 | 422:
            return Refused(reason, kind=RefusalKind.REQUEST, code=response.status, exchanges=seen)
        case 408 | 409:
            return BrokenPeer(reason, exchanges=seen)
        case status if status in _REDIRECTS or status in _CLIENT_AT_FAULT:
            return Refused(reason, kind=RefusalKind.ADMIN, code=status, exchanges=seen)
    return BrokenPeer(reason, retry_after_s=retry_after_s(response), exchanges=seen)


def retry_after_s(response: WireResponse) -> float | None:
    """The server's floor in seconds, at most a day; None when it named none that can be read (P1).

    A date is read against the answer's own Date, so that the two clocks need not agree. A date
    in the past is 0.
    """
    text = response.headers.get("retry-after", "").strip()
    if re.fullmatch(r"[0-9]{1,10}", text):
        return min(float(text), MAX_RETRY_AFTER_S)
    until, since = _http_date(text), _http_date(response.headers.get("date", ""))
    if until is None or since is None:
        return None
    return min(max((until - since).total_seconds(), 0.0), MAX_RETRY_AFTER_S)


def _in_words(response: WireResponse) -> str:
    # Class, status and length only: an error page may quote a token or a session (case B259).
    kind = response.media_type or "no media type"
    words = f"HTTP {response.status}, {kind}, {len(response.body)} bytes"
    if response.status in _REDIRECTS:
        return f"{words}: a redirect{_target(response)}, not followed"
    if not is_success(response.status):
        return words
    if not response.body:
        return f"{words}: received, but not answered"
    return f"{words}: not a protocol answer (a login page?)"


def _target(response: WireResponse) -> str:
    """Where a redirect points, without its query, which may hold a token."""
    try:
        parts = urlsplit(response.headers.get("location", ""))
        host = parts.hostname or ""
    except ValueError:
        return ""
    place = f"{parts.scheme}://{host}{parts.path}" if host else parts.path
    return f" to {place[:200]}" if place and place.isascii() and place.isprintable() else ""


def _http_date(text: str) -> datetime | None:
    for form in _DATE_FORMS:
        with contextlib.suppress(ValueError):
            return datetime.strptime(text, form).replace(tzinfo=UTC)
    return None


# The wire -------------------------------------------------------------------------------------------


class HttpWire:
    """`contract.Wire` over any httpx transport: a pool of `Connections`, or a fake in a test."""

    def __init__(
        self,
        *,
        transport: httpx.AsyncBaseTransport,
        endpoint: Endpoint,
        gate: Gate,
        clock: Clock,
        limits: Limits | None = None,
    ) -> None:
        self._transport = transport
        self._endpoint = endpoint
        self._gate = gate
        self._clock = clock
        self._limits = limits or _LIMITS
        self._secrets = _secrets_of(endpoint)

    async def send(self, request: WireRequest) -> WireResponse:
        """Send and read the whole answer.

        Raises NotSent; MaybeSent; BrokenPeer for an answer over a cap or cut off.
        """
        async with self.stream(request) as answer:
            return await answer.whole()

    def stream(self, request: WireRequest) -> AbstractAsyncContextManager[Answer]:
        """Send, and read the answer as it comes. Leaving the context closes an unread answer.

        The deadline runs from the moment the gate opens, and only ends waits for the network:
        what the caller does between two chunks is never cancelled.
        Raises NotSent; MaybeSent; BrokenPeer for headers over their cap.
        """
        return _Sending(self, request)

    async def open(self, request: WireRequest) -> Answer:
        """As `stream`, up to the head of the answer; whoever calls it closes the answer, whatever comes."""
        progress = _Progress()
        total_s = self._limits.total_s if request.total_s is None else request.total_s
        outgoing = self._outgoing(request, progress, total_s)
        await self._gate()
        deadline = Deadline(at=asyncio.get_running_loop().time() + total_s)
        try:
            with deadline:
                response = await self._transport.handle_async_request(outgoing)
        except TimeoutError:
            deadline.end()
            raise progress.verdict(httpx.ReadTimeout("no answer in time"), self._unanswered(request)) from None
        except _CAUGHT as error:
            deadline.end()
            # `from None`: httpx's errors hold the request, and with it the credential.
            raise progress.verdict(error, self._unanswered(request)) from None
        except BaseException:
            deadline.end()
            raise
        return Answer(
            response,
            request=request,
            deadline=deadline,
            limits=self._limits,
            secrets=self._secrets,
            clock=self._clock,
        )

    def _unanswered(self, request: WireRequest) -> Exchange:
        sent, masked = _shown(request.body, self._secrets)
        return Exchange(label=request.label, request=sent, complete=False, masked=masked)

    def _outgoing(self, request: WireRequest, progress: _Progress, total_s: float) -> messages.Outgoing:
        try:
            opening = messages.opening(request.method, self._endpoint.url, request.path, request.query)
        except httpx.InvalidURL:
            raise NotSent(FAULTS[httpx.InvalidURL][1]) from None
        lines = [opening.lines, *[messages.kept_line(name, value) for name, value in request.headers]]
        if self._endpoint.credential is not None:
            lines.append(messages.line("authorization", self._endpoint.credential))
        if request.body or request.method == "POST":
            lines.append(b"content-length: %d\r\n" % len(request.body))
        lines.append(b"\r\n")
        extensions = {"timeout": _timeouts(min(self._limits.connect_s, total_s)), "trace": progress.note}
        return messages.Outgoing(opening, head=b"".join(lines), body=request.body, extensions=extensions)


class _Sending:
    """The context of one answer: `contextlib` would run a generator for it."""

    def __init__(self, wire: HttpWire, request: WireRequest) -> None:
        self._wire = wire
        self._request = request

    async def __aenter__(self) -> Answer:
        self._answer = await self._wire.open(self._request)
        try:
            self._answer.check_headers()
        except BaseException:
            await self._answer.aclose()
            raise
        return self._answer

    async def __aexit__(self, *_: object) -> None:
        await self._answer.aclose()


@lru_cache
def _timeouts(budget: float) -> Mapping[str, float | None]:
    """What a transport has to keep by itself; the total deadline is kept here."""
    return {"connect": budget, "pool": budget, "read": None, "write": None}


def _shown(sent: bytes, secrets: tuple[bytes, ...]) -> tuple[bytes, int]:
    """What may be kept of a request, and at how many places it was masked."""
    veil = veil_over(secrets)
    return veil.over(sent), veil.places


class Answer:
    """`contract.WireStream`: one answer, read under its caps."""

    def __init__(
        self,
        response: httpx.Response,
        *,
        request: WireRequest,
        deadline: Deadline,
        limits: Limits,
        secrets: tuple[bytes, ...],
        clock: Clock,
    ) -> None:
        self.status = response.status_code
        self._pairs = messages.pairs_of(response)
        self.headers: Mapping[str, str] = _plain_headers(self._pairs, clock)
        if secrets:
            veil = Veil(secrets)
            self.headers = {
                name: veil.over(value.encode("latin-1", "replace")).decode("latin-1")
                for name, value in self.headers.items()
            }
        self.media_type = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        self.body = bytearray()
        self._stream = cast("httpx.AsyncByteStream", response.stream)
        self._source: AsyncIterator[bytes] | None = None
        self._request = request
        self._secrets = secrets
        self._deadline = deadline
        self._limits = limits
        self._veil = veil_over(secrets)
        self._complete = False

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body, decoded, as it arrives.

        Raises MaybeSent when it breaks off or time is up (CutOff where its own framing tells
        so), BrokenPeer over a cap or for an encoding we did not ask for.
        """
        inflater = self._inflater()
        while (raw := await self._next()) is not None:
            for shown in self._take(raw, inflater):
                yield shown
        for rest in self._end(inflater):
            yield rest

    async def whole(self) -> WireResponse:
        """Read the whole answer. Raises as `chunks` does, but BrokenPeer where it is cut off: it is an answer."""
        inflater, body = self._inflater(), self._stream if isinstance(self._stream, pools.Body) else None
        try:
            # What has come already is taken as it is: a wait that is none costs as much as the reading.
            while (raw := body.piece() if body is not None and body.has_come else await self._next()) is not None:
                for _ in self._take(raw, inflater):
                    pass
            for _ in self._end(inflater):
                pass
        except CutOff as cut:
            raise BrokenPeer(cut.reason, exchanges=cut.exchanges) from None
        return WireResponse(
            status=self.status,
            headers=self.headers,
            media_type=self.media_type,
            body=bytes(self.body),
            exchange=self.exchange(),
        )

    def _take(self, raw: bytes, inflater: _Inflater | None) -> Iterator[bytes]:
        """Give what may be shown of one piece, and keep it."""
        try:
            for piece in inflater.feed(raw) if inflater else (raw,):
                if shown := self._veil.feed(piece):
                    self._keep(shown)
                    yield shown
        except zlib.error:
            raise self._broken("the answer's content encoding is broken") from None

    def _end(self, inflater: _Inflater | None) -> Iterator[bytes]:
        """Give what was held back until the end, which is here."""
        if rest := self._veil.rest():
            self._keep(rest)
            yield rest
        if inflater and not inflater.is_whole:
            raise CutOff("the compressed answer was cut off", exchanges=(self.exchange(),))
        self._complete = True

    def exchange(self) -> Exchange:
        """What was read so far, as evidence, with known secrets masked."""
        sent, masked = _shown(self._request.body, self._secrets)
        return Exchange(
            label=self._request.label,
            request=sent,
            http_status=self.status,
            media_type=self.media_type,
            body=bytes(self.body),
            complete=self._complete,
            masked=masked + self._veil.places,
        )

    def check_headers(self) -> None:
        """Raise BrokenPeer for headers over their cap."""
        if sum(len(name) + len(value) for name, value in self._pairs) > MAX_HEADER_BYTES:
            raise self._broken("the answer's headers are over their cap")

    async def aclose(self) -> None:
        """Close the connection unless the answer was read to its end."""
        self._deadline.end()
        try:
            # An unfinished generator would otherwise be closed by chance, in a task of its own.
            if self._source is not None and isinstance(self._source, AsyncGenerator):
                await self._source.aclose()
            await self._stream.aclose()
        except _CAUGHT:
            pass  # it is given up anyway

    async def _next(self) -> bytes | None:
        if self._source is None:
            self._source = aiter(self._stream)
        try:
            with self._deadline:
                return await anext(self._source, None)
        except httpx.RemoteProtocolError:
            raise CutOff("the answer was cut off", exchanges=(self.exchange(),)) from None
        except TimeoutError:
            raise MaybeSent("the answer was not whole in time", exchanges=(self.exchange(),)) from None
        except _CAUGHT as error:
            raise MaybeSent(_fault_of(error)[1], exchanges=(self.exchange(),)) from None

    def _keep(self, piece: bytes) -> None:
        room = self._limits.body_bytes - len(self.body)
        self.body += piece[:room]
        if len(piece) > room:
            reason = f"the answer is over {self._limits.body_bytes} bytes"
            raise TooLarge(reason, exchanges=(self.exchange(),))

    def _inflater(self) -> _Inflater | None:
        encoding = self.headers.get("content-encoding", "").strip().lower()
        if encoding in {"", "identity"}:
            return None
        if encoding not in {"gzip", "x-gzip"}:
            raise self._broken("the answer has a content encoding we did not ask for")
        return _Inflater(self._broken)

    def _broken(self, reason: str) -> BrokenPeer:
        return BrokenPeer(reason, exchanges=(self.exchange(),))


class Connections:
    """The connections of this process: pools that live as long as its event loop.

    Keyed by origin and by what the endpoint allows, never by credential: a credential travels
    in the request. `transport_for` replaces the network in tests.
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        resolve: addresses.Resolve = addresses.system_resolve,
        transport_for: Callable[[Endpoint], httpx.AsyncBaseTransport] | None = None,
    ) -> None:
        self._tls = tls
        self._resolve = resolve
        self._transport_for = transport_for or self._kept
        self._transports: dict[tuple[str, str, bool], httpx.AsyncBaseTransport] = {}
        self._by_url: dict[tuple[str, bool], httpx.AsyncBaseTransport] = {}

    def wire(self, endpoint: Endpoint, *, gate: Gate, clock: Clock, limits: Limits | None = None) -> HttpWire:
        """Make the way to one endpoint. Cheap: make one per operation."""
        place = (endpoint.url, endpoint.allow_private)
        transport = self._by_url.get(place)
        if transport is None:
            parts = urlsplit(endpoint.url)
            key = (parts.scheme, parts.netloc, endpoint.allow_private)
            if key not in self._transports:
                self._transports[key] = self._transport_for(endpoint)
            transport = self._by_url[place] = self._transports[key]
        return HttpWire(transport=transport, endpoint=endpoint, gate=gate, clock=clock, limits=limits)

    async def aclose(self) -> None:
        """Close every connection. Wires made before are of no further use."""
        transports, self._transports, self._by_url = self._transports, {}, {}
        for transport in transports.values():
            await transport.aclose()

    def _kept(self, endpoint: Endpoint) -> httpx.AsyncBaseTransport:
        # One context for all: making one costs 44 ms of CPU.
        tls = self._tls = self._tls or httpx.create_ssl_context(trust_env=False)
        return pools.KeptTransport(tls=tls, allow_private=endpoint.allow_private, resolve=self._resolve)


class _Progress:
    """What the transport tells of one request, by httpcore's trace extension."""

    def __init__(self) -> None:
        self._connecting = False
        self._writing = False

    async def note(self, event: str, _info: Mapping[str, object]) -> None:
        self._connecting |= event == "connection.connect_tcp.started"
        self._writing |= event.endswith(".send_request_headers.started")

    def verdict(self, error: Exception, exchange: Exchange) -> NotSent | MaybeSent:
        """See Note [Not sent, or maybe]."""
        fault, reason = _fault_of(error)
        never_written = fault is NotSent or self._connecting
        if never_written and not self._writing:
            return NotSent(reason)
        return MaybeSent(reason, exchanges=(exchange,))


class _Inflater:
    """gzip under caps: never more than a step at once, never far more out than in."""

    def __init__(self, broken: Callable[[str], BrokenPeer]) -> None:
        self._zip = zlib.decompressobj(wbits=31)
        self._broken = broken
        self._taken = 0
        self._given = 0

    @property
    def is_whole(self) -> bool:
        """Whether the compressed form ended; an empty body, as of a 202, never began."""
        return self._zip.eof or not self._taken

    def feed(self, raw: bytes) -> Iterator[bytes]:
        self._taken += len(raw)
        while raw and not self._zip.eof:
            piece = self._zip.decompress(raw, _INFLATE_STEP)
            raw = self._zip.unconsumed_tail
            self._given += len(piece)
            if self._given > self._taken * MAX_INFLATION + INFLATION_ALLOWANCE:
                raise self._broken("the answer inflates beyond its cap")
            if piece:
                yield piece
        if self._zip.unused_data:
            raise self._broken("there is more after the compressed answer")


def _fault_of(error: Exception) -> tuple[Fault, str]:
    fault, reason = next(
        (FAULTS[kind] for kind in type(error).__mro__ if kind in FAULTS),
        (MaybeSent, "the connection failed"),
    )
    return fault, _detail(error) or reason


def _detail(error: BaseException | None) -> str:
    """The cause an admin can repair, where the chain of causes holds one. Quotes no request."""
    while error is not None:
        if isinstance(error, addresses.ForbiddenAddress):
            return str(error)
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"the server's certificate is not accepted: {error.verify_message}"
        error = error.__cause__ or error.__context__
    return ""


def _plain_headers(pairs: Iterable[messages.Header], clock: Clock) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in pairs:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    # RFC 9110, 6.6.1: a recipient with a clock dates what its server did not. Only a wait is read against it.
    if "date" not in headers and "retry-after" in headers:
        headers["date"] = format_datetime(clock().astimezone(UTC), usegmt=True)
    return headers


def _secrets_of(endpoint: Endpoint) -> tuple[bytes, ...]:
    """The credential, and the token in it, which a server may echo without its scheme."""
    if endpoint.credential is None:
        return ()
    whole = endpoint.credential.encode()
    token = whole.rpartition(b" ")[2]
    return tuple(secret for secret in (whole, token) if len(secret) >= _SHORTEST_SECRET)
