"""Small pictures in SVG, drawn on the server: rings, lifelines and timelines. No style attributes, no script."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.safestring import SafeString
from django.utils.translation import gettext

from console.markup import filled, filled_each


def ring(share: float) -> SafeString:
    """Draw a ring of which `share` (0 to 1) is left."""
    return filled(
        '<svg viewBox="0 0 20 20" aria-hidden="true"><circle class="t" cx="10" cy="10" r="8"/>'
        '<circle class="v" cx="10" cy="10" r="8" pathLength="100" transform="rotate(-90 10 10)"'
        ' stroke-dasharray="{} 100"/></svg>',
        round(100 * min(1.0, max(0.0, share))),
    )


def lifeline(*, tone: str, share: float, marks: Sequence[float] = (), ended: bool = False) -> SafeString:
    """Draw how much of the wait budget is used: diamonds are rounds, a ring is now, a dot is the end."""
    share = min(1.0, max(0.0, share))
    here = round(6 + share * 108)
    rest = filled('<path class="rest" d="M{} 10H114"/>', here + 8) if not ended and here < 104 else ""  # noqa: PLR2004
    diamonds = filled_each(
        '<path class="pt" d="M{} 5l5 5-5 5-5-5z"/>', ((round(6 + min(1.0, max(0.0, m)) * 108),) for m in marks)
    )
    return filled(
        '<svg class="lifeline {}" viewBox="0 0 120 20" role="img" aria-label="{}"><path class="ll" d="M6 10H{}"/>{}'
        '<circle class="fill" cx="6" cy="10" r="3"/>{}<circle class="{}" cx="{}" cy="10" r="4"/></svg>',
        tone,
        gettext("%(percent)d %% of the wait budget used") % {"percent": round(share * 100)},
        here,
        rest,
        diamonds,
        "fill" if ended else "pt",
        here,
    )


def stacked(parts: Sequence[tuple[str, int]], *, label: str) -> SafeString:
    """Draw counts as one bar. `parts` are (tone, count) from left to right."""
    total = sum(count for _, count in parts) or 1
    left = 0.0
    bars: list[tuple[str, int, int]] = []
    for tone, count in parts:
        width = 800 * count / total
        if count:
            bars.append((tone, round(left), max(4, round(width) - 4)))
        left += width
    return filled(
        '<svg viewBox="0 0 800 24" preserveAspectRatio="none" role="img" aria-label="{}" class="g">{}</svg>',
        label,
        filled_each('<g class="{}"><rect class="bar" x="{}" y="0" width="{}" height="24" rx="4"/></g>', bars),
    )


def share(percent: int) -> SafeString:
    """Draw a share of the new calls; its number stands beside it."""
    return filled(
        '<svg class="share" viewBox="0 0 80 6" aria-hidden="true"><rect class="t" width="80" height="6" rx="3"/>'
        '<rect class="v" width="{}" height="6" rx="3"/></svg>',
        round(80 * percent / 100),
    )


def trend(points: Sequence[float], *, limit: float, tone: str, label: str) -> SafeString:
    """Draw values by day, oldest first, against a dashed limit; the last one has a dot."""
    top = max(limit, *points) or 1.0
    x = [round(4 + 292 * place / max(1, len(points) - 1), 1) for place in range(len(points))]
    y = [round(58 - 44 * point / top, 1) for point in points]
    line = "M" + "L".join(f"{a} {b}" for a, b in zip(x, y, strict=True))
    return filled(
        '<svg class="g {}" viewBox="0 0 300 64" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<path class="area" d="{}L296 58L4 58z"/><path class="limit" d="M0 {}H300"/>'
        '<path class="trend" d="{}" vector-effect="non-scaling-stroke"/>'
        '<circle class="fill" cx="{}" cy="{}" r="3"/></svg>',
        tone,
        label,
        line,
        round(58 - 44 * limit / top, 1),
        line,
        x[-1],
        y[-1],
    )
