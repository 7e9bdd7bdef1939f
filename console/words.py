"""How the console says things: tone, icon and word of each state; durations and times in words.

A tone is one of work, wait, ok, bad, off, unk. Colour comes second: icon and word always stand with it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING

from django.utils.formats import number_format
from django.utils.timezone import localtime
from django.utils.translation import get_language, gettext, pgettext
from django.utils.translation import gettext_lazy as _

from operations.machine import Outcome, State
from operations.queries import Asked

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

NBSP = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True, slots=True)
class Look:
    """How one thing is shown."""

    tone: str
    icon: str
    word: _StrPromise | str


STATES: Mapping[State, Look] = MappingProxyType(
    {
        State.SUBMITTING: Look("work", "up", _("Submitting")),
        State.SUBMISSION_UNKNOWN: Look("unk", "unk", _("Submission unknown")),
        State.NOT_FOUND_SAFE: Look("unk", "unk", _("Not created, safe")),
        State.WORKING: Look("work", "work", _("Working")),
        State.INPUT_REQUIRED: Look("wait", "person", _("Question asked")),
        State.CANCEL_REQUESTED: Look("wait", "stopask", _("Cancel requested")),
        State.TERMINAL_OBSERVED: Look("work", "eye", _("Ended, being checked")),
        State.FETCHING_RESULT: Look("work", "down", _("Fetching result")),
        State.UNKNOWN: Look("unk", "unk", _("Unknown")),
        State.ACCEPTED: Look("ok", "ok", _("Accepted")),
        State.CANCELLED_ACCEPTED: Look("off", "off", _("Cancelled")),
        State.REFUSED: Look("bad", "bad", _("Refused")),
        State.RECONCILED: Look("off", "check", _("Reconciled")),
    }
)
_TOOL_ERROR = Look("bad", "bad", _("Tool error"))
_ASKED: Mapping[Asked, Look] = MappingProxyType(
    {
        Asked.OPEN: Look("wait", "person", _("Needs an answer")),
        Asked.EXPIRED: Look("bad", "clock", _("Question expired")),
        Asked.ANSWERED: Look("work", "up", _("Answered, not yet taken")),
    }
)


def look_of(state: State | str, *, outcome: str | None = None, asked: str = "") -> Look:
    """Return how a state is shown; an accepted tool error is never shown as a success (R7).

    `asked` tells a question that people can answer from one that expired or has its answer.
    """
    if asked:
        return _ASKED[Asked(asked)]
    if outcome == Outcome.TOOL_ERROR:
        return _TOOL_ERROR
    return STATES[State(state)]


_UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


def unit_words() -> Mapping[str, str]:
    """Return the unit signs in the language of the request: keys d, h, min, s."""
    return _unit_words(get_language())


@functools.cache
def _unit_words(_language: str | None) -> Mapping[str, str]:
    return MappingProxyType(
        {
            "d": pgettext("unit of time, short", "d"),
            "h": pgettext("unit of time, short", "h"),
            "min": pgettext("unit of time, short", "min"),
            "s": pgettext("unit of time, short", "s"),
        }
    )


def duration(span: timedelta | float) -> str:
    """Say a span in at most two units: "1 min 20 s", "2 h 17 min". Below one second: "0 s"."""
    left = max(0, int(span.total_seconds() if isinstance(span, timedelta) else span))
    words = unit_words()
    largest = next((place for place, (_unit, size) in enumerate(_UNITS) if left >= size), len(_UNITS) - 1)
    parts: list[str] = []
    for unit, size in _UNITS[largest : largest + 2]:
        count, left = divmod(left, size)
        if count or not parts:
            parts.append(f"{count}{NBSP}{words[unit]}")
    return NBSP.join(parts)


def pace(milliseconds: int) -> str:
    """Say how far apart looks are: "1 s", "1 min 20 s"; "0.5 s" where whole seconds would not do."""
    if milliseconds % 1000 == 0:
        return duration(milliseconds / 1000)
    seconds = number_format(Decimal(milliseconds) / 1000, use_l10n=True)
    return f"{seconds}{NBSP}{unit_words()['s']}"


def protocol(version: str) -> str:
    """Name a protocol version with its family: MCP's versions are dates, the others carry theirs in the name."""
    return f"MCP {version}" if version[:1].isdigit() else version


def coarse(span: timedelta) -> str:
    """Say a span in one unit up to an hour, in two above: what "ago" needs."""
    seconds = int(span.total_seconds())
    if seconds >= 60:  # noqa: PLR2004
        seconds -= seconds % 60
    return duration(seconds)


def relative(at: datetime, *, now: datetime) -> str:
    """Say a moment from where the reader stands: "19 min ago", "in 12 s", "now"."""
    gap = at - now
    if abs(gap) < timedelta(seconds=1):
        return gettext("now")
    if gap < timedelta():
        return gettext("%(span)s ago") % {"span": coarse(-gap)}
    return gettext("in %(span)s") % {"span": duration(gap)}


_TO_THE_SECOND = len("2026-11-29 16:13:06")


def absolute(at: datetime) -> str:
    """Say a moment in full, with its zone: "2026-11-29 16:13:06 Europe/Berlin"."""
    local = localtime(at)
    return f"{local.isoformat(sep=' ', timespec='seconds')[:_TO_THE_SECOND]} {local.tzinfo}"


def shortened(text: str, *, head: int = 8, tail: int = 4) -> str:
    """Cut the middle out of an id. Ids that are short already stay whole."""
    if len(text) <= head + tail + 2:
        return text
    return f"{text[:head]}\N{HORIZONTAL ELLIPSIS}{text[-tail:]}"


def size(count: int) -> str:
    """Say a number of bytes: "412 B", "2.1 kB", "3.4 MB"."""
    if count < 1000:  # noqa: PLR2004
        return f"{count}{NBSP}B"
    if count < 1_000_000:  # noqa: PLR2004
        return f"{count / 1000:.1f}{NBSP}kB"
    return f"{count / 1_000_000:.1f}{NBSP}MB"
