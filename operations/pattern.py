"""Patterns of a foreign schema, matched in time that the pattern's author cannot choose.

A server may put any regular expression into a question's schema. A backtracking engine can be
made to run for years by one of thirty characters, so we walk all ways through the pattern at once
(Thompson's construction) and count the steps. The syntax is that of ECMA-262, which JSON Schema
names, without what cannot be matched this way: look-around and back-references.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

MAX_PROGRAM = 2_000
MAX_REPEAT = 1_000
MAX_NESTING = 40
MAX_STEPS = 2_000_000
"""About a second. A text that needs more is told to be too long for its pattern."""

Ranges = tuple[tuple[int, int], ...]

_TOP = 0x10FFFF
_LONGEST_NUMBER = 6
"""Digits of a count or of a code point."""
_DIGIT = ((48, 57),)
_WORD = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE: Ranges = (
    (9, 13),
    (32, 32),
    (160, 160),
    (5760, 5760),
    (8192, 8202),
    (8232, 8233),
    (8239, 8239),
    (8287, 8287),
    (12288, 12288),
    (65279, 65279),
)
_LINE_ENDS = ((10, 10), (13, 13), (8232, 8233))
_CLASSES = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "0": 0}
_HEX_LENGTHS = {"x": 2, "u": 4}


class Unsupported(ValueError):
    """This pattern cannot be matched here. The message says what stands in the way."""


class TooCostly(Exception):
    """The text is too long for this pattern."""


@dataclass(frozen=True, slots=True)
class _Chars:
    ranges: Ranges

    def has(self, code: int) -> bool:
        return any(low <= code <= high for low, high in self.ranges)


@dataclass(frozen=True, slots=True)
class _Edge:
    """An assertion that consumes nothing: `^`, `$`, `b` or `B`."""

    kind: str


@dataclass(frozen=True, slots=True)
class _Seq:
    items: tuple[_Node, ...]


@dataclass(frozen=True, slots=True)
class _Alt:
    options: tuple[_Node, ...]


@dataclass(frozen=True, slots=True)
class _Repeat:
    item: _Node
    least: int
    most: int | None


_Node = _Chars | _Edge | _Seq | _Alt | _Repeat


@dataclass(slots=True)
class _Split:
    targets: list[int]


_Program = list[_Chars | _Edge | _Split]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern ready to be searched for. Made by `prepare`."""

    source: str
    _program: _Program = field(repr=False)

    def cost_of(self, text: str) -> int:
        """The most steps that searching this text can take."""
        return (len(text) + 1) * (len(self._program) + 1)

    def found_in(self, text: str) -> bool:
        """True: the pattern occurs somewhere in the text. Raises TooCostly."""
        active: list[int] = []
        steps = 0
        for at in range(len(text) + 1):
            reached, cost = self._reach([0, *active], text, at)
            steps += cost
            if reached is None:
                return True
            if steps > MAX_STEPS:
                raise TooCostly
            code = ord(text[at]) if at < len(text) else -1
            active = [pc + 1 for pc, chars in reached if chars.has(code)]
        return False

    def _reach(self, stack: list[int], text: str, at: int) -> tuple[list[tuple[int, _Chars]] | None, int]:
        """Follow everything that consumes nothing. None: the end of the pattern is among it."""
        seen: set[int] = set()
        reached: list[tuple[int, _Chars]] = []
        while stack:
            pc = stack.pop()
            if pc in seen:
                continue
            seen.add(pc)
            if pc == len(self._program):
                return None, len(seen)
            order = self._program[pc]
            if isinstance(order, _Split):
                stack.extend(order.targets)
            elif isinstance(order, _Chars):
                reached.append((pc, order))
            elif _holds(order.kind, text, at):
                stack.append(pc + 1)
        return reached, len(seen)


@functools.lru_cache(maxsize=256)
def prepare(source: str) -> Pattern:
    """Read a pattern. Raises Unsupported."""
    program: _Program = []
    _emit(_Parser(source).whole(), program)
    return Pattern(source, program)


def _holds(kind: str, text: str, at: int) -> bool:
    if kind == "^":
        return at == 0
    if kind == "$":
        return at == len(text)
    word = _Chars(_WORD)
    before = at > 0 and word.has(ord(text[at - 1]))
    after = at < len(text) and word.has(ord(text[at]))
    return (before != after) == (kind == "b")


def _emit(node: _Node, program: _Program) -> None:
    match node:
        case _Chars() | _Edge():
            _append(program, node)
        case _Seq():
            for item in node.items:
                _emit(item, program)
        case _Alt():
            _emit_options(node.options, program)
        case _Repeat():
            _emit_repeat(node, program)


def _append(program: _Program, order: _Chars | _Edge | _Split) -> None:
    # Counted here, so that nested bounds such as (a{99}){99} stop long before they are written out.
    if len(program) >= MAX_PROGRAM:
        raise Unsupported("it is too long when its repetitions are written out")
    program.append(order)


def _emit_options(options: tuple[_Node, ...], program: _Program) -> None:
    split = _Split([])
    _append(program, split)
    exits = []
    for option in options:
        split.targets.append(len(program))
        _emit(option, program)
        exits.append(_Split([]))
        _append(program, exits[-1])
    for leave in exits:
        leave.targets.append(len(program))


def _emit_repeat(node: _Repeat, program: _Program) -> None:
    for _ in range(node.least):
        size = len(program)
        _emit(node.item, program)
        if len(program) == size:
            return  # repeating nothing is nothing
    if node.most is None:
        loop = _Split([len(program) + 1])
        start = len(program)
        _append(program, loop)
        _emit(node.item, program)
        _append(program, _Split([start]))
        loop.targets.append(len(program))
        return
    skips = []
    for _ in range(node.most - node.least):
        skips.append(_Split([len(program) + 1]))
        _append(program, skips[-1])
        _emit(node.item, program)
    for skip in skips:
        skip.targets.append(len(program))


class _Parser:
    """Reads ECMA-262 syntax, one character after the other."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._depth = 0

    def whole(self) -> _Node:
        node = self._options()
        if self._at < len(self._source):
            raise Unsupported("a bracket is closed that was not opened")
        return node

    def _peek(self) -> str:
        return self._source[self._at : self._at + 1]

    def _take(self, mark: str) -> bool:
        if self._source.startswith(mark, self._at):
            self._at += len(mark)
            return True
        return False

    def _next(self) -> str:
        char = self._peek()
        if not char:
            raise Unsupported("it ends too early")
        self._at += 1
        return char

    def _options(self) -> _Node:
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        return options[0] if len(options) == 1 else _Alt(tuple(options))

    def _sequence(self) -> _Node:
        items: list[_Node] = []
        while self._peek() not in {"", "|", ")"}:
            items.append(self._repeated(self._atom()))
        return _Seq(tuple(items))

    def _repeated(self, atom: _Node) -> _Node:
        bounds = self._bounds()
        if bounds is None:
            return atom
        if isinstance(atom, _Edge):
            raise Unsupported("it repeats a place between two characters")
        self._take("?")  # lazy or greedy: the same answer to "does it occur?"
        if self._peek() in {"*", "+", "?"}:
            raise Unsupported("it repeats a repetition without brackets")
        least, most = bounds
        if max(least, most or 0) > MAX_REPEAT:
            raise Unsupported(f"it repeats more than {MAX_REPEAT} times")
        return _Repeat(atom, least, most)

    def _bounds(self) -> tuple[int, int | None] | None:
        for mark, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(mark):
                return bounds
        if not self._take("{"):
            return None
        text = ""
        while not self._take("}"):
            text += self._next()
        first, comma, second = text.partition(",")
        if not _is_number(first) or (second and not _is_number(second)):
            raise Unsupported("its braces hold no count")
        most = int(second) if second else None if comma else int(first)
        if most is not None and most < int(first):
            raise Unsupported("its counts are the wrong way round")
        return int(first), most

    def _atom(self) -> _Node:
        char = self._next()
        if char == "(":
            return self._group()
        if char == "[":
            return self._class()
        if char == ".":
            return _Chars(_without(_LINE_ENDS))
        if char in "^$":
            return _Edge(char)
        if char == "\\":
            return self._edge() or _Chars(self._escape())
        if char in "*+?{}])":
            raise Unsupported(f"{char} stands where it means nothing")
        return _Chars(_one(char))

    def _edge(self) -> _Edge | None:
        for kind in "bB":
            if self._take(kind):
                return _Edge(kind)
        return None

    def _group(self) -> _Node:
        if self._take("?") and not self._take(":"):
            self._group_name()
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise Unsupported("it is nested too deep")
        node = self._options()
        self._depth -= 1
        if not self._take(")"):
            raise Unsupported("a bracket is not closed")
        return node

    def _group_name(self) -> None:
        if not self._take("<") or self._peek() in {"=", "!"}:
            raise Unsupported("it looks ahead or behind")
        while not self._take(">"):
            self._next()

    def _class(self) -> _Chars:
        negated = self._take("^")
        ranges: list[tuple[int, int]] = []
        while not self._take("]"):
            low = self._class_part()
            if self._peek() == "-" and not self._source.startswith("-]", self._at):
                self._at += 1
                low = _span(low, self._class_part())
            ranges.extend(low)
        return _Chars(_without(tuple(ranges)) if negated else tuple(ranges))

    def _class_part(self) -> Ranges:
        char = self._next()
        if char != "\\":
            return _one(char)
        return ((8, 8),) if self._take("b") else self._escape()

    def _escape(self) -> Ranges:
        char = self._next()
        if char.lower() in _CLASSES:
            ranges = _CLASSES[char.lower()]
            return ranges if char.islower() else _without(ranges)
        if char in _CONTROLS:
            return ((_CONTROLS[char], _CONTROLS[char]),)
        if char in _HEX_LENGTHS:
            return self._code_point(_HEX_LENGTHS[char], braces=char == "u")
        if char.isdigit():
            raise Unsupported("it refers back to a group")
        if char.isalpha():
            raise Unsupported(f"it uses \\{char}")
        return _one(char)

    def _code_point(self, length: int, *, braces: bool) -> Ranges:
        digits = ""
        if braces and self._take("{"):
            while not self._take("}"):
                digits += self._next()
        else:
            digits = "".join(self._next() for _ in range(length))
        if not digits or len(digits) > _LONGEST_NUMBER or not set(digits) <= set("0123456789abcdefABCDEF"):
            raise Unsupported("an escape holds no code point")
        return ((int(digits, 16), int(digits, 16)),)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER


def _one(char: str) -> Ranges:
    return ((ord(char), ord(char)),)


def _span(low: Ranges, high: Ranges) -> Ranges:
    first, last = low[0][0], high[0][0]
    if len(low) != 1 or len(high) != 1 or low[0][0] != low[0][1] or high[0][0] != high[0][1] or last < first:
        raise Unsupported("a range of characters has no ends")
    return ((first, last),)


def _without(ranges: Ranges) -> Ranges:
    """Every code point that is in none of the ranges."""
    gaps, start = [], 0
    for low, high in sorted(ranges):
        if low > start:
            gaps.append((start, low - 1))
        start = max(start, high + 1)
    if start <= _TOP:
        gaps.append((start, _TOP))
    return tuple(gaps)
