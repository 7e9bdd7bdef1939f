"""The timeline of one operation as SVG, drawn on the server. No style attributes, no script."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.timezone import localtime
from django.utils.translation import gettext

from console.history import Happening, Lane, Story, Stretch

_LEFT, _RIGHT = 78, 884
_LANES = {Lane.WE: 66, Lane.SERVER: 126, Lane.PEOPLE: 186}
_CHAR = 6.2
"""Width of a letter of the picture's small type, roughly: words that do not fit are left to the list."""


@dataclass(frozen=True, slots=True)
class _Axis:
    """Turns a moment into a place from left to right."""

    start: datetime
    end: datetime

    def x(self, at: datetime) -> int:
        share = (at - self.start) / (self.end - self.start)
        return round(_LEFT + min(1.0, max(0.0, share)) * (_RIGHT - _LEFT))


def draw(story: Story, *, now: datetime, budget_ends_at: datetime) -> SafeString:
    """Draw the story in three lanes; the list beside it tells the same events."""
    axis = _axis(story, now, budget_ends_at)
    return format_html(
        '<svg class="g" viewBox="0 0 900 240" role="img" aria-labelledby="tlt"><title id="tlt">{}</title>'
        "{}{}{}{}{}</svg>",
        gettext("Timeline in three lanes: we, the server, people. The same events stand as a list below."),
        _ticks(axis),
        _lanes(),
        format_html_join("", "{}", ((_bar(axis, stretch, now),) for stretch in story.stretches)),
        _dots(axis, story),
        _edges(axis, story, now, budget_ends_at),
    )


def _axis(story: Story, now: datetime, budget_ends_at: datetime) -> _Axis:
    """Span what happened and, while it is open, a little of what is to come."""
    if story.ends_at is not None:
        last = max([story.ends_at, *(happening.at for happening in story.happenings)])
        length = max(last - story.starts_at, timedelta(seconds=4))
        return _Axis(story.starts_at - length / 40, last + length / 12)
    length = max(now - story.starts_at, timedelta(seconds=10))
    near = min(budget_ends_at, now + length / 3)
    return _Axis(story.starts_at - length / 40, max(near, now + length / 8))


_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 604_800)


def _ticks(axis: _Axis) -> SafeString:
    span = (axis.end - axis.start).total_seconds()
    longest = math.ceil(span / 8 / 86_400) * 86_400
    step = next((step for step in _STEPS_S if span / step <= 8), longest)  # noqa: PLR2004
    form = "%H:%M:%S" if step < 60 else "%H:%M" if step < 86_400 else "%m-%d"  # noqa: PLR2004
    first = math.ceil(axis.start.timestamp() / step) * step
    moments = [datetime.fromtimestamp(first + step * n, tz=UTC) for n in range(int(span // step) + 1)]
    named = [(axis.x(at), localtime(at).strftime(form)) for at in moments if at < axis.end]
    # A word in the middle of a line at the rim would be cut.
    return format_html_join(
        "",
        '<path class="axis" d="M{0} 26V212"/><text class="d" x="{0}" y="16" text-anchor="{1}">{2}</text>',
        ((x, "end" if x > _RIGHT - 10 else "middle", text) for x, text in named),
    )


def _lanes() -> SafeString:
    named = {Lane.WE: gettext("We"), Lane.SERVER: gettext("Server"), Lane.PEOPLE: gettext("People")}
    return format_html_join(
        "",
        '<text class="h" x="8" y="{}">{}</text><path class="lane" d="M{} {}H{}"/>',
        ((y + 4, named[lane], _LEFT, y, _RIGHT) for lane, y in _LANES.items()),
    )


def _bar(axis: _Axis, stretch: Stretch, now: datetime) -> SafeString:
    left, right = axis.x(stretch.since), axis.x(stretch.until or now)
    width = max(3, right - left)
    y = _LANES[stretch.lane]
    label: SafeString | str = ""
    if len(stretch.says) * _CHAR + 14 < width:
        label = format_html('<text class="lbl" x="{}" y="{}">{}</text>', left + 7, y + 4, stretch.says)
    return format_html(
        '<g class="{}"><rect class="pale" x="{}" y="{}" width="{}" height="18" rx="4"><title>{}</title></rect>{}</g>',
        stretch.tone,
        left,
        y - 9,
        width,
        stretch.says,
        label,
    )


def _dots(axis: _Axis, story: Story) -> SafeString:
    """Draw strong events above their lane with words where there is room, weak ones once a place."""
    taken: dict[Lane, int] = {}
    places: set[tuple[Lane, int]] = set()
    parts: list[tuple[SafeString]] = []
    for happening in story.happenings:
        x, y = axis.x(happening.at), _LANES[happening.lane]
        if not happening.strong:
            if (happening.lane, x // 7) not in places:
                places.add((happening.lane, x // 7))
                parts.append((_dot(x, y, happening),))
            continue
        half = len(happening.label) * _CHAR / 2
        room = x - half > taken.get(happening.lane, 0) and x + half < _RIGHT + 14
        if room:
            taken[happening.lane] = round(x + half + 6)
        parts.append((_mark(x, y, happening, words=room),))
    return format_html_join("", "{}", parts)


def _dot(x: int, y: int, happening: Happening) -> SafeString:
    return format_html(
        '<g class="{}"><circle class="pt" cx="{}" cy="{}" r="3.5"><title>{}</title></circle></g>',
        happening.tone,
        x,
        y + 15,
        happening.says,
    )


def _mark(x: int, y: int, happening: Happening, *, words: bool) -> SafeString:
    shape = "M{x} {a}l6 6-6 6-6-6z" if happening.lane is Lane.PEOPLE else "M{x} {a}a5 5 0 1 1 0 10a5 5 0 1 1 0-10z"
    drop = 6 if happening.lane is Lane.PEOPLE else 5
    if happening.lane is not Lane.PEOPLE:
        y -= 15  # above the bar of our state, whose words it would hide
    text: SafeString | str = ""
    if words:
        text = format_html(
            '<text class="lbl out" x="{}" y="{}" text-anchor="middle">{}</text>', x, y - 10, happening.label
        )
    return format_html(
        '<g class="{}"><path class="fill" d="{}"><title>{}</title></path>{}</g>',
        happening.tone,
        shape.format(x=x, a=y - drop),
        happening.says,
        text,
    )


def _edges(axis: _Axis, story: Story, now: datetime, budget_ends_at: datetime) -> SafeString:
    """Draw where now is and where our waiting ends, while it is open."""
    if story.ends_at is not None:
        return SafeString("")
    here = axis.x(now)
    budget: SafeString | str = ""
    if now < budget_ends_at <= axis.end:
        budget = format_html(
            '<path class="axis" d="M{0} 40V212"/><text class="d" x="{0}" y="36" text-anchor="middle">{1}</text>',
            axis.x(budget_ends_at),
            gettext("our waiting ends"),
        )
    return format_html(
        '{}<path class="now" d="M{} 26V212"/><text class="nowt" x="{}" y="230" text-anchor="middle">{}</text>',
        budget,
        here,
        here,
        gettext("now %(time)s") % {"time": localtime(now).strftime("%H:%M:%S")},
    )
