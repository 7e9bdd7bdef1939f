"""When to look again, and how far apart requests leave. Pure arithmetic."""

from __future__ import annotations

import math
import random
from datetime import datetime, timedelta

LATE = timedelta(milliseconds=50)
"""A request that misses its moment by more than this takes another."""
LEAD = timedelta(milliseconds=25)
"""How far ahead the first moments of a claim lie: the claim has to come back before they do."""
MARGIN = 1.075
"""How much of a second its requests are spread over: room for LATE and for jitter between sender and server."""
DELIVERY_GAP = timedelta(milliseconds=500)
"""After an answer or a cancel has been taken, how soon to look whether it was used."""
SLOW = timedelta(minutes=5)
"""How far apart looks are at what already stands before a person (X4)."""
PARKED = timedelta(days=1)
PAUSE_S = 30.0
"""How long a server that refuses our credentials is left alone (P5)."""
AUDIT_TRIES = 3
"""Looks for the record after a won cancel."""
_JITTER = 0.2
_MAX_DOUBLINGS = 10


def slot_gap(max_qps: float) -> timedelta:
    """Return the distance of two send moments at which no second sees more than `max_qps` requests."""
    whole = math.floor(max_qps) if max_qps >= 1 else max_qps  # 7.5 a second: the eighth would be one too many
    return timedelta(seconds=MARGIN / whole)


def next_look(
    now: datetime,
    *,
    poll_ms: int | None,
    floor_ms: int,
    cap_ms: int,
    misses: int,
    chance: random.Random,
) -> datetime:
    """Return when to look again.

    The server's suggestion and the profile's floor are floors; misses double the interval up to
    the cap; jitter only adds (P1). A suggestion above the cap stands: it is the server's own.
    """
    floor = max(poll_ms or 0, floor_ms)
    interval = max(floor, min(cap_ms, floor * 2 ** min(misses, _MAX_DOUBLINGS)))
    return now + timedelta(milliseconds=interval * (1 + _JITTER * chance.random()))


def retry_at(now: datetime, *, misses: int, cap_ms: int, chance: random.Random) -> datetime:
    """Return when to try again what could not be sent: from one second, doubling, to the cap."""
    wait = min(cap_ms, 1000 * 2 ** min(misses, _MAX_DOUBLINGS))
    return now + timedelta(milliseconds=wait * (1 + _JITTER * chance.random()))
