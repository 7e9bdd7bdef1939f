"""The watch: once a minute the whole ledger is checked, and the gates are measured (G1 to G6).

It drives nothing and repairs nothing. What it finds is written down, shown, and logged as an alarm.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from operations import ledger
from operations.gates import Figure, Gate
from operations.queries import gates
from operations.queries.invariants import INVARIANTS, breaches

KEPT_BREACHES = 50
log = logging.getLogger(__name__)


def watch(*, clock: Callable[[], datetime]) -> bool:
    """Check the ledger and measure the gates. False: another worker has this minute's check."""
    now = clock()
    check = ledger.begin_check(now=now)
    if check is None:
        return False
    _check_ledger(check, clock)
    _measure_servers(now)
    today = now.astimezone(UTC).date()
    # Yesterday again: what became unknown before midnight may still be open.
    for day in (today - timedelta(days=1), today):
        ledger.keep_figures(gates.measure(day, now=now), now=now)
    return True


def _check_ledger(check: int, clock: Callable[[], datetime]) -> None:
    started, found = clock(), breaches()
    kept = [
        {
            "invariant": one.invariant.name,
            "clause": one.invariant.clause,
            "holds": one.invariant.holds,
            "operation": one.operation,
            "what": one.what,
        }
        for one in found[:KEPT_BREACHES]
    ]
    took = clock() - started
    ledger.end_check(check, took=took, invariants=len(INVARIANTS), breaches=len(found), found=kept)
    if found:
        log.error("ledger check found what must never be true", extra={"breaches": len(found), "first": kept[0]})


def _measure_servers(now: datetime) -> None:
    """Add each server's fullest second since the last measurement to the day (G3)."""
    used = [use for use in ledger.measure_servers(now=now) if use.peak]
    if not used:
        return
    # A limit of 1.5 a second allows two requests in one second and one in the next.
    shares = [100 * use.peak / max(1, math.ceil(use.max_qps)) for use in used]
    over = sum(share > 100 for share in shares)  # noqa: PLR2004 - per cent
    day = now.astimezone(UTC).date()
    figure = Figure(gate=Gate.QPS, day=day, count=len(used), breaches=over, worst=max(shares))
    ledger.add_figure(figure, now=now)
