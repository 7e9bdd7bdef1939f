"""How the console says what a gate measured: its name, its figure, its limit, its picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy

from console import pictures, words
from operations.gates import LIMITS, Gate
from operations.queries.gates import Check, Trend

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

TITLES: Mapping[Gate, _StrPromise] = MappingProxyType(
    {
        Gate.DIVERGENCE: lazy("Terminal divergence"),
        Gate.SECOND_OPERATION: lazy("Second operations"),
        Gate.QPS: lazy("Requests a second"),
        Gate.CANCEL: lazy("Cancel confirmed"),
        Gate.UNKNOWN: lazy("Unknown settled"),
        Gate.TRACE: lazy("Advances with a receipt"),
    }
)
_LIMITS: Mapping[Gate, _StrPromise] = MappingProxyType(
    {
        Gate.DIVERGENCE: lazy("Limit 0, in every check"),
        Gate.SECOND_OPERATION: lazy("Limit 0: at most one submit that is not disproved"),
        Gate.QPS: lazy("Limit 100 % of each server\N{RIGHT SINGLE QUOTATION MARK}s requests a second"),
        Gate.CANCEL: lazy("Limit 60 s, 99 of 100"),
        Gate.UNKNOWN: lazy("Limit 15 min, every one"),
        Gate.TRACE: lazy("Limit 100 %"),
    }
)
_COUNTS: Mapping[Gate, Callable[[int], str]] = MappingProxyType(
    {
        Gate.DIVERGENCE: lambda n: _("breaches, worst of %(n)d checks") % {"n": n},
        Gate.SECOND_OPERATION: lambda n: _("of %(n)d submitted calls") % {"n": n},
        Gate.QPS: lambda _n: _("of the limit, fullest second"),
        Gate.CANCEL: lambda n: _("p99, worst day, of %(n)d requests") % {"n": n},
        Gate.UNKNOWN: lambda n: _("longest of %(n)d") % {"n": n},
        Gate.TRACE: lambda n: _("of %(n)d advances") % {"n": n},
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One gate as the page shows it."""

    gate: Gate
    title: str
    holds: bool
    measured: bool
    figure: str
    of: str
    limit: str
    picture: SafeString
    was_over: int
    """Days of the thirty on which it did not hold, without today and yesterday."""


def card(trend: Trend, *, check: Check | None) -> Card:
    """Put one gate into words. `check` is the newest ledger check: G1 shows it live."""
    breaches = trend.gate is Gate.DIVERGENCE and check is not None and check.breaches > 0
    holds = trend.holds and not breaches
    return Card(
        gate=trend.gate,
        title=str(TITLES[trend.gate]),
        holds=holds,
        measured=bool(trend.count),
        figure=_headline(trend),
        of=_COUNTS[trend.gate](trend.count),
        limit=str(_LIMITS[trend.gate]),
        picture=_picture(trend, holds=holds),
        was_over=sum(not figure.holds for figure in trend.figures[:-2]),
    )


def _headline(trend: Trend) -> str:
    if not trend.count:
        return _("none")
    return figure(trend.gate, trend.breaches if trend.gate is Gate.SECOND_OPERATION else trend.worst)


def figure(gate: Gate, worst: float) -> str:
    """Say a figure in the gate's own unit."""
    match gate:
        case Gate.CANCEL | Gate.UNKNOWN:
            return words.duration(worst)
        case Gate.QPS | Gate.TRACE:
            return f"{worst:.3g}{words.NBSP}%"
        case _:
            return f"{worst:.0f}"


def _picture(trend: Trend, *, holds: bool) -> SafeString:
    points = [one.worst for one in trend.figures]
    label = _("%(title)s, by day: lowest %(low)s, highest %(high)s, today %(now)s") % {
        "title": TITLES[trend.gate],
        "low": figure(trend.gate, min(points)),
        "high": figure(trend.gate, max(points)),
        "now": figure(trend.gate, points[-1]),
    }
    return pictures.trend(points, limit=LIMITS[trend.gate], tone="ok" if holds else "bad", label=label)
