"""What people decide on the reconciliation desk (X4)."""

from __future__ import annotations

from datetime import datetime

from django.db import connection, transaction

from operations.ledger.acceptance import Facts, accept_terminal
from operations.ledger.step import Moved, Step, perform
from operations.machine import FINAL, Event, Outcome, StaleStep, State, StepError


class NotAllowedByEvidence(StepError):
    """The evidence does not allow this verdict."""


def look_now(operation: str, *, by: str, now: datetime) -> Moved:
    """Make the operation due at top priority. Raises NotAllowedByEvidence on an ended one."""

    def change(step: Step) -> None:
        if step.row.state in FINAL:
            raise NotAllowedByEvidence("the operation has ended; there is nothing left to look up")
        step.note("LOOK_ORDERED")
        step.wake()

    return perform(operation, change, now=now, actor=by)


def give_up(operation: str, *, seen_version: int, by: str, reason: str, now: datetime) -> Moved:
    """Close an operation whose outcome stays unknown: its call node gets a receipt that says so.

    Raises StaleStep when the operation has moved since the page was shown, and IllegalStep in a
    state that evidence can still settle.
    """

    def change(step: Step) -> None:
        if step.row.version != seen_version:
            raise StaleStep("version", held=seen_version, now=step.row.version)
        step.keep_raw(kind="verdict", label="gave up", raw=reason.encode(), media_type="text/plain")
        accept_terminal(
            step,
            Facts.held_by(step.row),
            event=Event.VERDICT,
            outcome=Outcome.RECONCILED,
            verdict="OUTCOME_UNKNOWN",
            summary=reason[:2000],
        )

    return perform(operation, change, now=now, actor=by)


def resubmit_repaired(operation: str, *, seen_version: int, by: str, reason: str, now: datetime) -> Moved:
    """Submit again, same key and bytes, what the server provably never created (X2).

    Allowed where the proof is in the ledger: every permit of the operation is disproved.
    """

    def change(step: Step) -> None:
        row = step.row
        if row.version != seen_version:
            raise StaleStep("version", held=seen_version, now=row.version)
        if row.state is not State.NOT_FOUND_SAFE or not row.nothing_sent:
            raise NotAllowedByEvidence("nothing proves that the first submit created no task")
        step.keep_raw(kind="verdict", label="submit again", raw=reason.encode(), media_type="text/plain")
        step.move(Event.RESUBMIT, not_found="")
        step.wake()

    return perform(operation, change, now=now, actor=by)


def claim_item(operation: str, *, by: str, now: datetime) -> None:
    """Say who works on a desk item. The newest claim stands."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO desk_claim (operation_id, by, at) VALUES (%s, %s, %s)
            ON CONFLICT (operation_id) DO UPDATE SET by = EXCLUDED.by, at = EXCLUDED.at""",
            [operation, by, now],
        )


def release_item(operation: str, *, by: str) -> None:
    """Give a desk item back; only its holder can."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("DELETE FROM desk_claim WHERE operation_id = %s AND by = %s", [operation, by])
