"""Requests and answers as they travel, under httpx's names.

httpx copies, checks and indexes every header of every message. Of a look all but one header are the same each
time, and of its answer one is read: so a request comes here in bytes already, an answer keeps what arrived, and
what httpx would make of either is made for whoever asks for it, such as another transport than our own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import httpx

from adapters import addresses
from adapters.contract import NotSent

Header = tuple[bytes, bytes]

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"[\x20-\x7e]*")
_OURS = frozenset(
    {"accept-encoding", "authorization", "connection", "content-length", "host", "transfer-encoding", "user-agent"}
)
"""What a request's framing and its credential hang on is written here, and by nobody else."""


class Outgoing(httpx.Request):
    """A request that is written out: `head` is its first line and its headers, up to and with the blank line."""

    def __init__(self, opening: Opening, *, head: bytes, body: bytes, extensions: Mapping[str, Any]) -> None:
        self.method = opening.method
        self.url = opening.url
        self.head = head
        self.extensions = dict(extensions)
        self._content = body

    @cached_property
    def headers(self) -> httpx.Headers:  # type: ignore[override]
        """For whoever reads them one by one."""
        lines = self.head.split(b"\r\n")[1:-2]
        return httpx.Headers([(name, value) for name, _, value in (line.partition(b": ") for line in lines)])

    @cached_property
    def stream(self) -> httpx.ByteStream:  # type: ignore[override]
        """For whoever sends it piece by piece."""
        return httpx.ByteStream(self._content)


class Incoming(httpx.Response):
    """An answer whose body is still to come. `pairs`: its headers as they came."""

    def __init__(self, *, status: int, pairs: list[Header], stream: httpx.AsyncByteStream) -> None:
        self.status_code = status
        self.pairs = pairs
        self.stream = stream

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever httpx keeps under this name
        """Make httpx's own parts, at the first need of one."""
        if "extensions" in vars(self):
            raise AttributeError(name)
        super().__init__(self.status_code, headers=self.pairs, stream=self.stream)
        return getattr(self, name)


def pairs_of(response: httpx.Response) -> list[Header]:
    """The headers of an answer as they came."""
    return response.pairs if isinstance(response, Incoming) else response.headers.raw


class Opening(NamedTuple):
    """How every request to one place begins."""

    method: str
    url: httpx.URL
    lines: bytes


@lru_cache(maxsize=1024)
def opening(method: str, url: str, path: str, query: tuple[tuple[str, str], ...]) -> Opening:
    """Write the first lines of a request, once for each place: its servers are few.

    Raises NotSent and httpx.InvalidURL.
    """
    problem = addresses.url_problem(url)
    if problem:
        raise NotSent(problem)
    try:
        below = addresses.below(url, path=path, query=query)
    except ValueError as error:
        raise NotSent(str(error)) from None
    place = httpx.URL(below)
    first = b"%s %s HTTP/1.1\r\nhost: %s\r\n" % (method.encode("ascii"), place.raw_path, place.netloc)
    return Opening(method, place, first + b"user-agent: longcall\r\naccept-encoding: gzip\r\n")


def line(name: str, value: str) -> bytes:
    """Write one header. Raises NotSent."""
    if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
        raise NotSent("a request header holds what HTTP cannot carry")
    return b"%s: %s\r\n" % (name.lower().encode("ascii"), value.encode("ascii"))


@lru_cache(maxsize=1024)
def kept_line(name: str, value: str) -> bytes:
    """As `line`, for what is no secret: of the headers of a look all but the session's are the same each time."""
    if name.lower() in _OURS:
        raise NotSent("a request header that is not for a protocol to set")
    return line(name, value)
