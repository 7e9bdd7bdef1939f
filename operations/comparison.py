"""What a shadow saw, held against what the existing path says: outcome, result, timing, number of looks (O1).

Plain arithmetic. A shadow sees by itself and the existing path reports by itself; nothing here knows how.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime, timedelta

from operations.machine import Outcome

OUTCOMES = (Outcome.SUCCESS, Outcome.TOOL_ERROR, Outcome.CANCELLED)
"""How the call of an existing path can have ended. One that does not know how it ended reports nothing."""
SLACK = timedelta(seconds=5)
"""Two clocks, and the way of a report: less than this is no difference in time."""
MORE_LOOKS = 2
"""A release that asks more often than this many times the existing path asks too often."""
FEW_LOOKS = 3


class ShadowState(enum.StrEnum):
    """The life of a shadow. None of these is a state of an operation: a shadow decides nothing."""

    OBSERVING = "OBSERVING"
    """The release on trial looks at the task."""
    COMPARED = "COMPARED"
    """Both sides are known and were held against each other."""
    ABANDONED = "ABANDONED"
    """There is nothing to compare, and `why` says so."""


class Difference(enum.StrEnum):
    """In what the release on trial and the existing path differ."""

    OUTCOME = "OUTCOME"
    RESULT = "RESULT"
    UNSEEN = "UNSEEN"
    """The release never saw the task that the existing path brought to its end."""
    TIMING = "TIMING"
    LOOKS = "LOOKS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the existing path says of its call."""

    outcome: Outcome
    ended_at: datetime
    """When it saw the end."""
    looks: int | None = None
    """How often it asked; None: it does not say, and nothing is compared."""
    result_digest: str | None = None
    """Of the result's canonical form; None: it does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the release on trial saw of the same task."""

    since: datetime
    """When it began to look."""
    status: str
    """The last protocol status that it read; empty when it never saw the task."""
    ended_at: datetime | None
    """When it saw the end; None: it has not."""
    outcome: Outcome | None
    """None: it has seen no end, or could not read the result."""
    looks: int
    result_digest: str | None
    interval: timedelta
    """How far apart looks at this server are by its profile."""
    trouble: str
    """Why its last look brought nothing, in words."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """One difference, both sides in their own words."""

    kind: Difference
    told: str
    seen: str


def patience(interval: timedelta) -> timedelta:
    """How long after the existing path a release may see the same end without being late."""
    return 2 * interval + SLACK


def compare(told: Told, seen: Seen) -> tuple[Divergence, ...]:
    """Return every difference; none where the two agree."""
    found = [_in_outcome(told, seen), _in_timing(told, seen), _in_looks(told, seen)]
    return tuple(one for one in found if one is not None)


def _in_outcome(told: Told, seen: Seen) -> Divergence | None:
    if not seen.status:
        return Divergence(Difference.UNSEEN, told.outcome.value, seen.trouble)
    if seen.outcome is not told.outcome:
        what = seen.outcome.value if seen.outcome else ": ".join(filter(None, (seen.status, seen.trouble)))
        return Divergence(Difference.OUTCOME, told.outcome.value, what)
    if told.result_digest and seen.result_digest and told.result_digest != seen.result_digest:
        return Divergence(Difference.RESULT, told.result_digest, seen.result_digest)
    return None


def _in_timing(told: Told, seen: Seen) -> Divergence | None:
    if seen.ended_at is None:
        return None  # not seen to end at all: that is a difference in outcome
    # A shadow that was registered after the end cannot have seen it in time.
    late = seen.ended_at - max(told.ended_at, seen.since)
    early = told.ended_at - seen.ended_at
    if late <= patience(seen.interval) and early <= patience(seen.interval):
        return None
    return Divergence(Difference.TIMING, told.ended_at.isoformat(), seen.ended_at.isoformat())


def _in_looks(told: Told, seen: Seen) -> Divergence | None:
    if told.looks is None or seen.looks <= MORE_LOOKS * told.looks + FEW_LOOKS:
        return None
    return Divergence(Difference.LOOKS, str(told.looks), str(seen.looks))
