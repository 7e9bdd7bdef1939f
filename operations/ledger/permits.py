"""Send permits: leave to write one request to a socket, committed before it is written (L4).

No permit is proof that nothing was sent. A permit without a settled answer means unknown. The
switches of O5 close submit permits only: looking, answering and cancelling never stop.
"""

from __future__ import annotations

import uuid

from django.db import connection

from operations.ledger.step import PermitDenied, Step
from operations.machine import StepError
from operations.models import PermitKind


class PermitSettled(StepError):
    """What became of this send is known already. Told again it would count again, and a send that is out would not."""

    def __init__(self, permit: uuid.UUID) -> None:
        super().__init__(f"what became of the send under permit {permit} is known already")


class NothingIsOut(StepError):
    """No send of this call is out, so none can be lost (L4)."""

    def __init__(self) -> None:
        super().__init__("no send of this call is out, so none can be lost")


def give(step: Step, permit: uuid.UUID, kind: PermitKind, *, allowed: bool) -> None:
    """Write a permit and its journal note. Raises PermitDenied unless `allowed`."""
    if not allowed:
        raise PermitDenied(f"{kind.label} has no place in {step.row.state.value}")
    row = step.row
    step.note("PERMIT_" + kind.value)
    step.write(
        """INSERT INTO permit (id, operation_id, kind, epoch, cancel_generation, round, look,
            given_at, settlement) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, '')""",
        [permit, row.id, kind, row.epoch, row.cancel_generation, row.round, row.look, step.now],
    )


def settle(step: Step, permit: uuid.UUID | None, settlement: str) -> None:
    """Record what became of a permit: `not_sent`, `answered`, `lost` or `disproved`.

    None settles every permit of the operation that is still out.
    """
    step.write(
        """UPDATE permit SET settled_at = %s, settlement = %s
        WHERE operation_id = %s AND (id = %s OR (%s::uuid IS NULL AND settled_at IS NULL))""",
        [step.now, settlement, step.row.id, permit, permit],
    )


def account_for(step: Step, settlement: str) -> None:
    """Say of every send of the call what became of it, also of those that count as lost.

    The row counts them all as accounted for: whoever brings a proof of one of them later must find it
    settled, or it would be counted twice, and a submit that is out by then would seem unsent (L4, A5).
    """
    step.write(
        """UPDATE permit SET settled_at = %s, settlement = %s
        WHERE operation_id = %s AND kind IN ('SUBMIT', 'REPLAY') AND settlement IN ('', 'lost')""",
        [step.now, settlement, step.row.id],
    )


def open_question(permit: uuid.UUID | None) -> PermitKind | None:
    """Return what the permit let out, where nobody knows yet what became of it; "lost" is not known."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT kind FROM permit WHERE id = %s AND settlement IN ('', 'lost')", [permit])
        found = cursor.fetchone()
    return PermitKind(found[0]) if found else None


def expect_open(permit: uuid.UUID) -> None:
    """Raise PermitSettled when it is known what became of what this permit let out."""
    if open_question(permit) is None:
        raise PermitSettled(permit)
