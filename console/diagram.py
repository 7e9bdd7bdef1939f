"""The state diagram, drawn from the machine's table (L5): as SVG for a page, as Mermaid text for the README.

What is hand-made here is only where each box stands. Which arrows there are comes from `machine.TRANSITIONS`.

Note [Steps that every open state has]
The budget may end and a task id may clash in almost every state. Drawn as arrows they would hide all others, so a
state from which such a step leads to UNKNOWN carries a small diamond instead, unless that is what the page is about.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from operations.machine import FINAL, Event, State, edges

WIDTH, HEIGHT = 1010, 330
_W, _H = 158, 30
PLACES: Mapping[State, tuple[int, int]] = MappingProxyType(
    {
        State.SUBMITTING: (12, 60),
        State.SUBMISSION_UNKNOWN: (12, 176),
        State.NOT_FOUND_SAFE: (12, 292),
        State.WORKING: (222, 60),
        State.INPUT_REQUIRED: (222, 176),
        State.CANCEL_REQUESTED: (432, 60),
        State.TERMINAL_OBSERVED: (432, 176),
        State.UNKNOWN: (432, 292),
        State.FETCHING_RESULT: (642, 176),
        State.REFUSED: (840, 8),
        State.CANCELLED_ACCEPTED: (840, 92),
        State.ACCEPTED: (840, 176),
        State.RECONCILED: (840, 292),
    }
)
COMMON = frozenset({Event.BUDGET_ENDED, Event.ID_CLASH})
"""See Note [Steps that every open state has]."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """All events that lead from one state to another."""

    source: State
    target: State
    events: tuple[Event, ...]

    @property
    def is_common(self) -> bool:
        """True: only steps that every open state has."""
        return set(self.events) <= COMMON


def arrows() -> list[Arrow]:
    """Return the table's arrows, events of the same pair together, in table order."""
    found: dict[tuple[State, State], list[Event]] = {}
    for source, event, target in edges():
        found.setdefault((source, target), []).append(event)
    return [Arrow(source, target, tuple(events)) for (source, target), events in found.items()]


def nexts(state: State) -> list[Arrow]:
    """Return what can follow a state."""
    return [arrow for arrow in arrows() if arrow.source is state]


def svg(*, lit: State | None, way: Sequence[State] = (), tone: str = "work") -> SafeString:
    """Draw the diagram. `lit` is where the operation stands, `way` the states it came through, oldest first."""
    taken = set(zip(way, [*way[1:], lit], strict=False)) if way else set()
    drawn = sorted(arrows(), key=lambda arrow: _weight(arrow, lit, taken))
    return format_html(
        '<svg class="g {}" viewBox="0 0 {} {}" role="img" aria-labelledby="sdt"><title id="sdt">{}</title>'
        "<defs>{}</defs>{}{}</svg>",
        tone,
        WIDTH,
        HEIGHT,
        _title(lit, way),
        format_html_join(
            "",
            '<marker id="ar{0}" class="m{0}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
            ' orient="auto" markerUnits="userSpaceOnUse"><path d="M0 0l8 4-8 4z"/></marker>',
            ((number,) for number in (1, 2, 3)),
        ),
        format_html_join("", "{}", ((_draw_arrow(arrow, lit, taken),) for arrow in drawn)),
        format_html_join("", "{}", ((_draw_box(state, lit, way),) for state in PLACES)),
    )


def _title(lit: State | None, way: Sequence[State]) -> str:
    if lit is None:
        return gettext("All states of an operation and the steps between them.")
    return gettext("State diagram. Now in %(now)s; came through %(way)s; can go to %(next)s.") % {
        "now": lit,
        "way": ", ".join(dict.fromkeys(way)) or gettext("nothing before"),
        "next": ", ".join(arrow.target for arrow in nexts(lit)) or gettext("nothing, this is final"),
    }


def _weight(arrow: Arrow, lit: State | None, taken: Collection[tuple[State, State | None]]) -> int:
    if arrow.source is lit:
        return 2
    return 1 if (arrow.source, arrow.target) in taken else 0


def _draw_arrow(arrow: Arrow, lit: State | None, taken: Collection[tuple[State, State | None]]) -> SafeString:
    weight = _weight(arrow, lit, taken)
    if arrow.is_common and not weight:
        return SafeString("")
    look, head = (("", 1), ("took", 2), ("next", 3))[weight]
    return format_html(
        '<path class="{}" d="{}" marker-end="url(#ar{})"><title>{}: {}</title></path>',
        f"e {look}".strip(),
        _path(arrow.source, arrow.target),
        head,
        f"{arrow.source} \N{RIGHTWARDS ARROW} {arrow.target}",
        ", ".join(arrow.events),
    )


def _path(source: State, target: State) -> str:
    """Route one arrow: down or up inside a column, in a curve between columns, back along the lower edge."""
    (x, y), (u, v) = PLACES[source], PLACES[target]
    if x == u:
        return _vertical(x, y, v)
    if u > x:
        reach = max(40, (u - x - _W) // 2)
        start, end = y + _H // 2 + _lean(v - y), v + _H // 2 + _lean(y - v)
        return f"M{x + _W} {start}C{x + _W + reach} {start} {u - reach} {end} {u} {end}"
    start, end = y + _H // 2 + _lean(v - y, 10), v + _H // 2 + _lean(y - v, 10)
    return f"M{x} {start}C{x - 34} {start} {u + _W + 34} {end} {u + _W} {end}"


def _lean(difference: int, by: int = 5) -> int:
    return by if difference > 0 else -by if difference < 0 else 0


def _vertical(x: int, y: int, v: int) -> str:
    down = v > y
    start, end = (y + _H, v) if down else (y, v + _H)
    side = x + _W // 2 + (-14 if down else 14)
    if abs(v - y) < 150:  # noqa: PLR2004
        return f"M{side} {start}V{end}"
    edge, bend = (x, x - 10) if down else (x + _W, x + _W + 22)
    start, end = y + _H // 2, v + _H // 2
    return f"M{edge} {start}C{bend} {start} {bend} {end} {edge} {end}"


def _draw_box(state: State, lit: State | None, way: Sequence[State]) -> SafeString:
    x, y = PLACES[state]
    look = "lit" if state is lit else "been" if state in way else ""
    final = state in FINAL
    common = any(arrow.target is State.UNKNOWN and arrow.is_common for arrow in nexts(state))
    return format_html(
        '<g class="{}"><rect x="{}" y="{}" width="{}" height="{}" rx="{}"/><text x="{}" y="{}">{}</text>{}</g>',
        " ".join(filter(None, ("node", look, "fin" if final else ""))),
        x,
        y,
        _W,
        _H,
        15 if final else 6,
        x + _W // 2,
        y + 19,
        state,
        format_html('<path class="common" d="M{} {}l5 5-5 5-5-5z"/>', x + _W, y - 5) if common else "",
    )


def mermaid() -> str:
    """Write the diagram as Mermaid text, for the README. The common steps stand in one note."""
    lines = ["stateDiagram-v2", "    [*] --> SUBMITTING"]
    for arrow in arrows():
        events = [event for event in arrow.events if event not in COMMON]
        if events:
            lines.append(f"    {arrow.source} --> {arrow.target}: {', '.join(events)}")
    lines += [f"    {state} --> [*]" for state in State if state in FINAL]
    everywhere = [state for state in State for arrow in nexts(state) if set(arrow.events) >= COMMON]
    lines += [
        "    note right of UNKNOWN",
        f"        {' or '.join(sorted(COMMON))} leads here from",
        f"        {', '.join(everywhere)}",
        "    end note",
    ]
    return "\n".join(lines) + "\n"
