"""One strict reader of JSON, and one deterministic writer.

Strict, because two readers of one body must never see two different things: UTF-8 only, no
duplicate keys, no NaN or Infinity, nothing after the value, every digit of an integer kept, and
a depth cap that is checked on the bytes before any object is built.

What a server really sent is told by its bytes, never by a value written out again: digests are
made from raw bytes, and `members` cuts the raw bytes of a member out of an envelope (R8).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from adapters.contract import Json

MAX_DEPTH = 64
MAX_BYTES = 8_000_000

_BOM = b"\xef\xbb\xbf"
_BLANKS = re.compile(r"[ \t\n\r]*+")
_PLAIN_NAME = re.compile(r'"([^"\\\x00-\x1f]*+)"[ \t\n\r]*+:[ \t\n\r]*+')
"""A member's name without an escape, up to its value."""
_OPENING = re.compile(r"[ \t\n\r]*+\{[ \t\n\r]*+")
_MARK = re.compile(r"[ \t\n\r]*+([,}])[ \t\n\r]*+")
"""What follows a member: a comma, then the next one begins; or the end of the object."""
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""A JSON string, or the rest of the input if it is not closed: so that a hostile body full of
open quotes is still walked once."""
_UNPRINTABLE = re.compile("[\x00\ud800-\udfff]")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class BadJson(ValueError):
    """The bytes are not one strict JSON value. The message says where, if that is known, and never quotes them."""

    @classmethod
    def at(cls, text: str, place: int, what: str) -> BadJson:
        """Say at which line and column, both from 1, in characters."""
        line = text.count("\n", 0, place) + 1
        return cls(f"{what}, at line {line}, column {place - text.rfind(chr(10), 0, place)}")


class Member(NamedTuple):
    """One member of an object: its value, and the bytes it was read from."""

    value: Json
    raw: bytes

    def __repr__(self) -> str:
        """Quote nothing."""
        return "Member()"


@dataclass(frozen=True, slots=True)
class Verbatim:
    """JSON text that `compose` writes as it is."""

    raw: bytes = field(repr=False)


def parse(raw: bytes, *, max_depth: int = MAX_DEPTH, max_bytes: int = MAX_BYTES) -> Json:
    """Read one JSON value. One leading byte order mark is tolerated.

    Lone surrogates are kept as they are: see `printable` before storing or showing such a text.
    Raises BadJson.
    """
    text = _checked_text(raw, max_depth=max_depth, max_bytes=max_bytes)
    value, end = _value_at(text, _skip_blanks(text, 0))
    if (rest := _skip_blanks(text, end)) != len(text):
        raise BadJson.at(text, rest, "there is more after the value")
    return value


def members(raw: bytes, *, max_depth: int = MAX_DEPTH, max_bytes: int = MAX_BYTES) -> dict[str, Member]:
    """Read one JSON object, and cut out the exact bytes of each of its members.

    Raises BadJson, also for a value that is no object.
    """
    text = _checked_text(raw, max_depth=max_depth, max_bytes=max_bytes)
    found: dict[str, Member] = {}
    opening = _OPENING.match(text)
    at = opening.end() if opening else _expect(text, _skip_blanks(text, 0), "{")
    mark, at = _mark_after(text, at) if text.startswith("}", at) else (",", at)
    while mark != "}":
        begins = at
        name, at = _name_at(text, at)
        if name in found:
            raise BadJson.at(text, begins, "a key occurs twice in one object")
        value, end = _value_at(text, at)
        found[name] = Member(value, text[at:end].encode())
        mark, at = _mark_after(text, end)
    if at != len(text):
        raise BadJson.at(text, at, "there is more after the value")
    return found


def canonical(value: object) -> bytes:
    """Write a JSON value with sorted keys, no blanks and ASCII only: equal values, equal bytes.

    Raises BadJson for what JSON cannot hold.
    """
    try:
        text = _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadJson("this value cannot be written as JSON") from error
    return text.encode("ascii")


def compose(parts: Mapping[str, Json | Verbatim]) -> bytes:
    """Write one object in the order given; Verbatim parts keep their exact bytes.

    Raises BadJson when a Verbatim part is not one strict JSON value: it could break out of its
    place.
    """
    return b"{" + b",".join(_written(name, part) for name, part in parts.items()) + b"}"


def digest(raw: bytes) -> str:
    """SHA-256 of the bytes, lower-case hex."""
    return hashlib.sha256(raw).hexdigest()


def digest_of(value: object) -> str:
    """SHA-256 of the canonical form, lower-case hex. Raises BadJson."""
    return digest(canonical(value))


def printable(text: str) -> str:
    """The text with U+FFFD for NUL and for lone surrogates, which no database and no page takes."""
    return text if text.isprintable() else _UNPRINTABLE.sub("\ufffd", text)


def _written(name: str, part: Json | Verbatim) -> bytes:
    if not isinstance(part, Verbatim):
        return canonical(name) + b":" + canonical(part)
    parse(part.raw)
    return canonical(name) + b":" + part.raw.removeprefix(_BOM)


def _checked_text(raw: bytes, *, max_depth: int, max_bytes: int) -> str:
    if len(raw) > max_bytes:
        raise BadJson("the body is over its size cap")
    raw = raw.removeprefix(_BOM)
    _check_depth(raw, max_depth)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        place = error.start
    raise BadJson.at(raw[:place].decode("utf-8"), len(raw[:place].decode("utf-8")), "the body is not UTF-8")


def _check_depth(raw: bytes, max_depth: int) -> None:
    if raw.count(b"[") + raw.count(b"{") <= max_depth:
        return  # however they stand
    depth = 0
    for bracket in _STRING.sub(b"", raw).translate(None, _NOT_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > max_depth:
            raise BadJson("the body is nested too deep")


def _skip_blanks(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    return blanks.end() if blanks else at


def _expect(text: str, at: int, mark: str) -> int:
    if text[at : at + 1] != mark:
        raise BadJson.at(text, at, f"no {mark} where the grammar wants one")
    return at + 1


def _mark_after(text: str, at: int) -> tuple[str, int]:
    """Read the mark that follows a member, and the place of what comes after it."""
    mark = _MARK.match(text, at)
    if mark is None:
        return ",", _expect(text, _skip_blanks(text, at), ",")  # says what is missing
    return mark[1], mark.end()


def _name_at(text: str, at: int) -> tuple[str, int]:
    """Read a name and its colon; the place is that of the value."""
    if plain := _PLAIN_NAME.match(text, at):
        return plain[1], plain.end()
    _expect(text, at, '"')
    name, end = _value_at(text, at)
    return str(name), _skip_blanks(text, _expect(text, _skip_blanks(text, end), ":"))


def _value_at(text: str, at: int) -> tuple[Json, int]:
    try:
        value, end = _scan(text, at)
    except BadJson:
        raise
    except StopIteration as stop:
        place = stop.value
    except json.JSONDecodeError as error:
        place = error.pos
    except (ValueError, RecursionError):
        raise BadJson("the body is not JSON") from None
    else:
        return cast("Json", value), end
    # Outside of the handler: the decoder's own error carries the whole body, and must not travel on as a cause.
    raise BadJson.at(text, place, "the body is not JSON")


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    # Whoever kept the first of two equal keys would see another status than who kept the last.
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BadJson("a key occurs twice in one object")
    return found


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise BadJson("a number is beyond every float")
    return number


def _no_constant(_name: str) -> Json:
    raise BadJson("NaN and Infinity are not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_finite, parse_constant=_no_constant)
_scan: Callable[[str, int], tuple[object, int]] = _DECODER.scan_once  # type: ignore[attr-defined]
"""As `raw_decode`, which calls it."""
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
