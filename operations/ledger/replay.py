"""A lookup that sends the submit's own bytes once more, to a server that honours the key (L4, class A).

By what it is for it is a lookup; by what it may do it is a submit: where the original never arrived, it
makes the task. So it needs leave like a submit, a shut switch forbids it (O5), and as long as it is not
proved to have created nothing, nobody may say that nothing was sent (C9).

A cancel does not forbid it: a task whose id nobody knows cannot be cancelled, and the id is what this
lookup brings (C9).
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime

from adapters.contract import Exchange
from operations.ledger.permits import expect_open, give, settle
from operations.ledger.step import Moved, Step, perform
from operations.ledger.submission import disprove_late, nothing_is_left
from operations.machine import Reason, StaleStep, State, Ticket
from operations.models import PermitKind


def permit_replay(operation: str, *, permit: uuid.UUID, ticket: Ticket, now: datetime) -> Moved:
    """Commit "bytes may have left" before the submit's bytes are sent once more as a lookup (L4).

    Raises PermitDenied where nothing is lost, a switch is shut, or the window has brought a task already.
    """

    def change(step: Step) -> None:
        row = step.row
        lost = row.state in {State.SUBMISSION_UNKNOWN, State.UNKNOWN} and row.task_id is None and not row.nothing_sent
        settle(step, None, "lost")  # whoever was to send the one before is gone
        give(step, permit, PermitKind.REPLAY, allowed=lost and row.reason != Reason.ID_CLASH and row.submits_open)
        step.set(replays=row.replays + 1)

    return perform(operation, change, now=now, ticket=ticket)


def replay_failed(
    operation: str,
    *,
    permit: uuid.UUID,
    settlement: str,
    why: str,
    misses: int,
    ticket: Ticket,
    next_at: datetime,
    now: datetime,
    exchanges: Sequence[Exchange] = (),
) -> Moved:
    """Record a replay that found nothing: `not_sent` or `disproved` prove that it made nothing, `lost` does not.

    None of them says anything of the original. Raises StaleStep; the proof is kept even then (P6).
    Raises PermitSettled when it was told before what became of it.
    """

    def change(step: Step) -> None:
        expect_open(permit)
        settle(step, permit, settlement)
        proved = {} if settlement == "lost" else {"replays": step.row.replays - 1}
        step.note("REPLAY_FAILED", detail={"why": why, "settlement": settlement}, **proved)
        step.due(now if nothing_is_left(step) else next_at, misses=misses, trouble=why)

    try:
        return perform(operation, change, now=now, ticket=ticket, exchanges=exchanges)
    except StaleStep:
        if settlement != "lost":
            disprove_late(operation, permit, settlement, why=why, now=now)
        raise
