"""Cancel is a request, not an undo (C1 to C12)."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from adapters.contract import Exchange, ProtocolStatus
from operations.ledger import looks, rounds
from operations.ledger.permits import give, settle
from operations.ledger.step import Moved, Row, Step, perform, read
from operations.ledger.submission import close_as_unsent
from operations.machine import (
    BEFORE_TASK,
    FINISHED,
    Event,
    NotFound,
    StaleStep,
    State,
    StepError,
    Ticket,
)
from operations.models import PermitKind
from operations.notice import Kind
from operations.plan import CANCEL_PATIENCE


class AlreadyFinished(StepError):
    """The task had ended before the press (C10): what is known comes with it."""

    def __init__(self, state: State, at: datetime, terminal_status: str | None) -> None:
        super().__init__(f"already finished: {terminal_status or state.value}")
        self.state = state
        self.at = at
        self.terminal_status = terminal_status


class NotAsForeseen(StepError):
    """A press would come to something else than its preview had said, so nothing was asked."""

    def __init__(self, foreseen: str, now: str) -> None:
        super().__init__(f"it would now come to {now}, the preview said {foreseen}")
        self.foreseen = foreseen
        self.now = now


class Press(enum.StrEnum):
    """What a press of cancel came to."""

    REQUESTED = "REQUESTED"
    """The request will be sent to the server."""
    INTENT = "INTENT"
    """No task is known yet: the first that turns up will be cancelled (C9)."""
    CLOSED_UNSENT = "CLOSED_UNSENT"
    """Nothing had been sent: the operation is cancelled."""
    NO_CANCEL = "NO_CANCEL"
    """This server cannot cancel; the wish is on record and looking goes on (C5)."""
    ALREADY_REQUESTED = "ALREADY_REQUESTED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressed:
    """The answer to a press, with the cancel generation that is now in force."""

    operation: str
    press: Press
    generation: int
    version: int


def request_cancel(
    operation: str,
    *,
    seen_generation: int | None,
    can_cancel: bool = True,
    by: str,
    reason: str,
    now: datetime,
    foreseen: Press | None = None,
    also: Callable[[Step, Press], None] | None = None,
) -> Pressed:
    """Raise the cancel generation by compare-and-set and record the request; send nothing yet (C1).

    `seen_generation` is what the page showed; None takes the present one. `can_cancel` says
    whether server and contract offer a cancel at all (C5). `foreseen`: only if it still comes to
    this. `also` writes its part in the same transaction.
    Raises AlreadyFinished, StaleStep and NotAsForeseen.
    """
    press = Press.ALREADY_REQUESTED

    def change(step: Step) -> None:
        nonlocal press
        row = step.row
        if row.state in FINISHED:
            raise AlreadyFinished(row.state, _ended_at(operation) or now, row.terminal_status)
        if seen_generation is not None and seen_generation != row.cancel_generation:
            raise StaleStep("cancel generation", held=seen_generation, now=row.cancel_generation)
        press = foresee(row, can_cancel=can_cancel)
        if foreseen is not None and press is not foreseen:
            raise NotAsForeseen(foreseen, press)
        _press(step, press, by=by, reason=reason)
        if also is not None:
            also(step, press)

    moved = perform(operation, change, now=now, actor=by)
    generation = read([operation])[operation].cancel_generation
    return Pressed(operation=operation, press=press, generation=generation, version=moved.version)


def foresee(row: Row, *, can_cancel: bool) -> Press:
    """Say what a press would come to for an operation that has not finished (C5, C9)."""
    if row.state is State.CANCEL_REQUESTED or row.cancel_intent:
        return Press.ALREADY_REQUESTED
    no_task = row.task_id is None
    if no_task and row.nothing_sent and row.state in {*BEFORE_TASK, State.INPUT_REQUIRED, State.UNKNOWN}:
        return Press.CLOSED_UNSENT
    if not can_cancel:
        return Press.NO_CANCEL
    if row.state in {State.WORKING, State.INPUT_REQUIRED} and not no_task:
        return Press.REQUESTED
    return Press.INTENT


def _press(step: Step, press: Press, *, by: str, reason: str) -> None:
    row = step.row
    asked = {
        "cancel_generation": row.cancel_generation + 1,
        "cancel_requested_at": step.now,
        "cancel_requested_by": by,
        "cancel_reason": reason,
    }
    match press:
        case Press.ALREADY_REQUESTED:
            step.note("CANCEL_PRESSED_AGAIN")
        case Press.CLOSED_UNSENT:
            step.note("CANCEL_ASKED", detail={"reason": reason}, **asked)
            if row.state is State.UNKNOWN:
                step.move(Event.NOTHING_CREATED, not_found=NotFound.NEVER_CREATED)  # no permit proves as much
            close_as_unsent(step)
        case Press.NO_CANCEL:
            # C5: on record and told at once; it fences nothing, because nothing follows from it.
            del asked["cancel_generation"]
            step.note("CANCEL_NOT_OFFERED", detail={"reason": reason}, cancel_settled_at=step.now, **asked)
        case Press.REQUESTED:
            rounds.void_answers(step)
            step.move(Event.CANCEL_PRESSED, detail={"reason": reason}, **asked)
            step.wake()
        case Press.INTENT:
            step.note("CANCEL_INTENT", detail={"reason": reason}, cancel_intent=True, **asked)
            step.wake()


def _ended_at(operation: str) -> datetime | None:
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT min(at) FROM journal WHERE operation_id = %s AND kind = 'STEP'
                AND target IN ('TERMINAL_OBSERVED', 'ACCEPTED', 'CANCELLED_ACCEPTED', 'REFUSED',
                    'RECONCILED')""",
            [operation],
        )
        at: datetime | None = cursor.fetchone()[0]
    return at


def permit_cancel(operation: str, *, permit: uuid.UUID, ticket: Ticket, now: datetime) -> Moved:
    """Give leave to send the protocol's cancel (L4). Raises PermitDenied, StaleStep."""

    def change(step: Step) -> None:
        give(step, permit, PermitKind.CANCEL, allowed=step.row.state is State.CANCEL_REQUESTED)
        step.set(cancel_sends=step.row.cancel_sends + 1)

    return perform(operation, change, now=now, ticket=ticket)


def cancel_won(
    operation: str, *, permit: uuid.UUID, ticket: Ticket, exchanges: Sequence[Exchange], now: datetime
) -> Moved:
    """Accept the cancel on the server's own terminal answer (C2). The receipt is written here (C11).

    Where the same task had been seen to end otherwise before, a person has to say which was true (R10).
    """

    def change(step: Step) -> None:
        settle(step, permit, "answered")
        if step.row.terminal_status not in {None, ProtocolStatus.CANCELLED}:
            looks.contradict(step, ProtocolStatus.CANCELLED, next_at=now)
            return
        step.set(protocol_status="cancelled", cancel_acked=True)
        looks.close_cancelled(step, summary="the server confirmed the cancel")

    return perform(operation, change, now=now, ticket=ticket, exchanges=exchanges)


def cancel_settled(
    operation: str,
    *,
    permit: uuid.UUID,
    settlement: str,
    acknowledged: bool,
    why: str,
    misses: int,
    ticket: Ticket,
    next_at: datetime,
    now: datetime,
    exchanges: Sequence[Exchange] = (),
) -> Moved:
    """Record an acknowledgement, a refusal or a loss: none of them is evidence; a look decides (C3, C5)."""

    def change(step: Step) -> None:
        settle(step, permit, settlement)
        answered = settlement == "answered"
        known = step.row.cancel_settled_at or (now if answered else None)
        acked = step.row.cancel_acked or acknowledged
        step.note(
            "CANCEL_ACKNOWLEDGED" if acknowledged else "CANCEL_REFUSED" if answered else "CANCEL_LOST",
            detail={"why": why},
            cancel_acked=acked,
            cancel_settled_at=known,
        )
        step.due(next_at, urgent=True, misses=misses, trouble="" if answered else why)

    return perform(operation, change, now=now, ticket=ticket, exchanges=exchanges)


def state_unconfirmed(operation: str, *, ticket: Ticket, now: datetime) -> Moved:
    """Tell a person that a cancel is not confirmed in its time; looking goes on (C12, G4)."""
    return perform(operation, _not_confirmed, now=now, ticket=ticket)


def state_overdue(*, now: datetime, limit: int = 100) -> int:
    """State every cancel that is not confirmed in its time; return how many.

    A sweep of its own: the operation's next drive may be far away, behind a pause or a hanging
    request, and G4 counts all the same.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT id::text FROM operation WHERE state = %s AND NOT cancel_stated
                AND cancel_requested_at <= %s ORDER BY cancel_requested_at LIMIT %s""",
            [State.CANCEL_REQUESTED, now - CANCEL_PATIENCE, limit],
        )
        overdue = [row[0] for row in cursor.fetchall()]
    return sum(_state(operation, now=now) for operation in overdue)


def _state(operation: str, *, now: datetime) -> bool:
    stated = False

    def change(step: Step) -> None:
        nonlocal stated
        stated = step.row.state is State.CANCEL_REQUESTED and not step.row.cancel_stated
        if stated:
            _not_confirmed(step)

    perform(operation, change, now=now)
    return stated


def _not_confirmed(step: Step) -> None:
    settled = step.row.cancel_settled_at or step.now
    step.note("CANCEL_NOT_CONFIRMED", cancel_stated=True, cancel_settled_at=settled)
    step.tell(Kind.CANCEL_UNCONFIRMED, f"operation:{step.row.id}/{step.row.cancel_generation}")
