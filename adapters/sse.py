"""An event stream read bit by bit: bytes in, events out, no I/O (WHATWG HTML, "Server-sent events").

Everything stays bytes until an event is whole, so that a digest cannot depend on where the
network cut the packets. An event is bounded; comments are skipped and bounded too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

MAX_EVENT_BYTES = 2_000_000

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\r|\n")
_DIGITS = re.compile(rb"[0-9]{1,9}")


class OversizedEvent(ValueError):
    """One event, or one line, is over its cap. The reader is of no further use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event with data."""

    data: bytes = field(repr=False)
    """The data lines, joined with LF."""
    name: str = "message"
    id: str | None = None
    """The last event id in force when it was dispatched: where to resume after it."""


class EventReader:
    """Turns chunks into events. An event that the stream's end cuts off is never given out.

    `last_event_id` and `retry_ms` also follow events without data, such as the priming event
    with which an MCP server opens a resumable stream.
    """

    last_event_id: str | None
    retry_ms: int | None

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES, last_event_id: str | None = None) -> None:
        self.last_event_id = last_event_id
        self.retry_ms = None
        self._max = max_event_bytes
        self._head: bytes | None = b""
        self._after_cr = False
        self._line = bytearray()
        self._id = last_event_id
        self._name = b""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Take the next bytes and yield the events they complete. Raises OversizedEvent.

        The bytes are taken as the iterator is drained: exhaust it before feeding on.
        """
        for line in self._lines(self._without_bom(chunk)):
            if line:
                self._take(line)
                continue
            event = self._dispatch()
            if event is not None:
                yield event

    def _without_bom(self, chunk: bytes) -> bytes:
        if self._head is None:
            return chunk
        head = self._head + chunk
        if len(head) < len(_BOM) and _BOM.startswith(head):
            self._head = head
            return b""
        self._head = None
        return head.removeprefix(_BOM)

    def _lines(self, chunk: bytes) -> Iterator[bytes]:
        if not chunk:
            return
        if self._after_cr:
            # The line was given out at its CR; this LF belongs to the same line end.
            chunk = chunk.removeprefix(b"\n")
        self._after_cr = chunk.endswith(b"\r")
        *whole, rest = _LINE_END.split(chunk)
        for part in whole:
            self._grow(part)
            line = bytes(self._line)
            self._line.clear()
            yield line
        self._grow(rest)

    def _grow(self, part: bytes) -> None:
        self._line += part
        if self._size + len(self._line) > self._max:
            raise OversizedEvent(f"an event is over {self._max} bytes")

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._data.append(value)
                self._size += len(value) + 1
            case b"event":
                self._name = value
            case b"id":
                self._id = _text(value) if b"\0" not in value else self._id
            case b"retry" if _DIGITS.fullmatch(value):
                self.retry_ms = int(value)

    def _dispatch(self) -> Event | None:
        self.last_event_id = self._id
        data, name = b"\n".join(self._data), _text(self._name)
        self._data, self._name, self._size = [], b"", 0
        if not data:
            return None
        return Event(data=data, name=name or "message", id=self._id or None)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
