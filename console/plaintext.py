"""Foreign text and foreign JSON, shown as what they are.

Nothing here interprets: a text keeps its characters and a JSON value its digits, and what the eye
would not see (controls, text direction, zero width) is written out.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import cast

MAX_DEPTH = 64
LINE = 72
"""A list or an object that fits into this many characters stays on one line."""

Value = None | bool | int | Decimal | str | list["Value"] | dict[str, "Value"]

_TOKEN = re.compile(
    r'[ \t\r\n]*+(?P<token>"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+"'
    r"|-?[0-9]++(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+|true|false|null|[\[\]{}:,])[ \t\r\n]*+"
)
# Both join letters of real scripts and real emoji; alone among the invisible characters they are kept.
_KEPT = {"\n", "\t", "\u200c", "\u200d"}
_HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


class NotJson(ValueError):
    """The text is not one JSON value. The message says why, for the person who wrote it."""


def visible(text: str) -> str:
    """The text with LF line ends and every character that hides or turns text written as ⟨U+202E⟩."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if _shows(char) else f"⟨U+{ord(char):04X}⟩" for char in text)


def first_line(text: str) -> str:
    """The first line of a text that is not blank, made visible."""
    lines = [line.strip() for line in visible(text).split("\n")]
    return next((line for line in lines if line), "")


def parse(text: str) -> Value:
    """Read one JSON value with every digit kept. Raises NotJson, also for a key that occurs twice."""
    if sum(text.count(mark) for mark in "[{") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        raise NotJson(f"It is nested more than {MAX_DEPTH} deep.")
    try:
        return cast(Value, _DECODER.decode(text))
    except json.JSONDecodeError as error:
        raise NotJson(f"Line {error.lineno}, column {error.colno}: {error.msg}.") from None
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from None


def write(value: object) -> str:
    """Write a value as one line of JSON; a Decimal keeps its digits."""
    match value:
        case Decimal():
            return str(value)
        case dict():
            return "{" + ", ".join(f"{_quoted(name)}: {write(member)}" for name, member in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(write(item) for item in value) + "]"
        case str():
            return _quoted(value)
        case _:
            return json.dumps(value)


def pretty(raw: bytes | str) -> str:
    """JSON on several lines, token by token as it came; a text that is no JSON comes back made visible."""
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    try:
        return visible(_laid_out(_tree(text), ""))
    except NotJson:
        return visible(text)


def members(raw: bytes | str) -> list[tuple[str, str]]:
    """The members of a JSON object: name and value, each made visible, the value as it came, on one line.

    Anything but an object gives one member without a name.
    """
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    try:
        tree = _tree(text)
    except NotJson:
        return [("", visible(text))]
    if not isinstance(tree, _Group) or tree.marks != "{}":
        return [("", visible(_on_one_line(tree)))]
    return [(visible(json.loads(name)), visible(_on_one_line(item))) for name, item in tree.pairs]


@dataclass(frozen=True, slots=True)
class _Group:
    """An object or an array, of tokens that are still text. In an array the names are empty."""

    marks: str
    pairs: tuple[tuple[str, _Tree], ...]


_Tree = str | _Group


def _shows(char: str) -> bool:
    return char in _KEPT or unicodedata.category(char) not in _HIDDEN_CATEGORIES


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _depth(text: str) -> int:
    deepest = depth = 0
    for mark in re.sub(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', "", text):
        depth += (mark in "[{") - (mark in "]}")
        deepest = max(deepest, depth)
    return deepest


def _tree(text: str) -> _Tree:
    tokens: list[str] = []
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise NotJson("There is a character where the grammar has none.")
        tokens.append(found["token"])
        at = found.end()
    tree, end = _read(tokens, 0, MAX_DEPTH)
    if end != len(tokens):
        raise NotJson("There is more after the value.")
    return tree


def _read(tokens: Sequence[str], at: int, room: int) -> tuple[_Tree, int]:
    first = _at(tokens, at)
    if first not in {"{", "["}:
        if first in {"}", "]", ",", ":"}:
            raise NotJson("A value is missing.")
        return first, at + 1
    if room == 0:
        raise NotJson("It is nested too deep.")
    close = "}" if first == "{" else "]"
    pairs: list[tuple[str, _Tree]] = []
    at += 1
    while _at(tokens, at) != close:
        if pairs:
            at = _expect(tokens, at, ",")
        name = ""
        if close == "}":
            name, at = _at(tokens, at), _expect(tokens, at + 1, ":")
            if not name.startswith('"'):
                raise NotJson("A name is missing.")
        item, at = _read(tokens, at, room - 1)
        pairs.append((name, item))
    return _Group(first + close, tuple(pairs)), at + 1


def _at(tokens: Sequence[str], at: int) -> str:
    if at >= len(tokens):
        raise NotJson("It ends too early.")
    return tokens[at]


def _expect(tokens: Sequence[str], at: int, mark: str) -> int:
    if _at(tokens, at) != mark:
        raise NotJson(f"There is no {mark} where the grammar wants one.")
    return at + 1


def _on_one_line(tree: _Tree) -> str:
    if isinstance(tree, str):
        return tree
    parts = [f"{name}: {_on_one_line(item)}" if name else _on_one_line(item) for name, item in tree.pairs]
    return tree.marks[0] + ", ".join(parts) + tree.marks[1]


def _laid_out(tree: _Tree, indent: str) -> str:
    if isinstance(tree, str):
        return tree
    short = _on_one_line(tree)
    if (indent and len(short) <= LINE) or not tree.pairs:
        return short
    inner = indent + "  "
    lines = [
        f"{inner}{name}: {_laid_out(item, inner)}" if name else inner + _laid_out(item, inner)
        for name, item in tree.pairs
    ]
    return f"{tree.marks[0]}\n" + ",\n".join(lines) + f"\n{indent}{tree.marks[1]}"


def _object(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("A name occurs twice in one object.")
    return found


def _no_constant(name: str) -> Value:
    raise ValueError(f"{name} is not JSON.")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=Decimal, parse_constant=_no_constant)
