"""What an observation does to an operation, whoever brought it: a submit, a lookup or a look.

`observe` is the one reading of the four observations. It takes every legal step that follows, in
one change, so that a task found under a standing cancel intent is never WORKING for anyone to see.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from django.db import IntegrityError, connection

from adapters import strictjson
from adapters.contract import (
    Absent,
    Ended,
    Exchange,
    NeedsInput,
    Observation,
    ProtocolStatus,
    TaskFacts,
)
from operations.ledger import hearing, rounds
from operations.ledger.acceptance import Facts, accept_terminal, keep_result, open_effect
from operations.ledger.step import Moved, Row, Step, perform
from operations.machine import (
    BEFORE_TASK,
    FINAL,
    TRANSITIONS,
    Delivery,
    Event,
    IllegalStep,
    NotFound,
    Outcome,
    Reason,
    StaleStep,
    State,
    StepError,
    Ticket,
)
from operations.models import Effect

_FOR_A_PERSON = frozenset({Reason.ID_CLASH, Reason.CONTRADICTED})
"""P8, R10: no later look can say whose the task is, or which of two ends was true."""


_QUIET = frozenset({State.WORKING, State.CANCEL_REQUESTED})
_QUIET_IF_IT_ASKS = _QUIET | {State.INPUT_REQUIRED}
"""Where an operation may stand if a look is to have brought nothing new."""

STILL_NOT_FOUND = "still not found"
"""What a look is noted to have seen where a server goes on not knowing a task."""


class IdentityChanged(StepError):
    """The answer speaks of another task than the one this operation is bound to (F8)."""


def saw(operation: str, *, ticket: Ticket, seen: Observation, next_at: datetime, now: datetime) -> Moved:
    """Apply what a look or a lookup found, and come again at `next_at`.

    A task id that belongs to another operation takes both to a person (P8). Raises StaleStep and
    IdentityChanged; the evidence is kept either way (P6), and an end that contradicts a receipt is
    held against it (C4, R10).
    """
    try:
        return _saw(operation, ticket=ticket, seen=seen, next_at=next_at, now=now)
    except IntegrityError:
        # Another operation was bound to the same task between our look-up and our write (P8).
        return _saw(operation, ticket=ticket, seen=seen, next_at=next_at, now=now)
    except (StaleStep, IllegalStep):
        if isinstance(seen, Ended):
            perform(operation, partial(_late_end, seen=seen), now=now)
        raise


def _saw(operation: str, *, ticket: Ticket, seen: Observation, next_at: datetime, now: datetime) -> Moved:
    other = bound_elsewhere(operation, None if isinstance(seen, Absent) else seen.task)
    if other is not None:
        return clash(operation, other, ticket=ticket, exchanges=seen.exchanges, next_at=next_at, now=now)

    def change(step: Step) -> None:
        observe(step, seen, next_at=next_at)

    return perform(operation, change, now=now, ticket=ticket, exchanges=seen.exchanges)


def observe(step: Step, seen: Observation, *, next_at: datetime) -> None:
    """Take every step that follows from `seen`."""
    if step.row.state is State.UNKNOWN and step.row.reason in _FOR_A_PERSON:
        word = "absent" if isinstance(seen, Absent) else seen.task.status.value if seen.task else "no task"
        step.note("LOOKED", detail={"status": word})
        step.due(next_at)
        return
    if isinstance(seen, Absent):
        _absent(step, next_at=next_at)
        return
    rounds.carried_by_submit(step, Delivery.USED)
    if seen.task is not None:
        _bind(step, seen.task)
    if isinstance(seen, NeedsInput) and seen.task is None and not seen.questions:
        _go_on_at_once(step, seen)
        return
    if isinstance(seen, Ended):
        _ended(step, seen, next_at=next_at)
    elif isinstance(seen, NeedsInput) and seen.questions:
        _asked(step, seen, next_at=next_at)
    elif isinstance(seen, NeedsInput) and step.row.state is State.INPUT_REQUIRED:
        step.due(next_at)  # still asking what we already hold
    else:
        _at_work(step, next_at=next_at)


def _bind(step: Step, task: TaskFacts) -> None:
    row = step.row
    if strictjson.printable(task.task_id) != task.task_id:
        raise IdentityChanged("the task id holds characters that cannot be stored; the evidence has it")
    if row.task_id is not None and row.task_id != task.task_id:
        raise IdentityChanged(f"bound to task {row.task_id!r}, the answer names {task.task_id!r}")
    if task.anomalies:
        step.note("ANOMALY", detail={"anomalies": [strictjson.printable(word) for word in task.anomalies]})
    if row.task_id is None:
        expires = step.now + timedelta(milliseconds=task.ttl_ms) if task.ttl_ms else None
        step.set(task_id=task.task_id, task_created_at=strictjson.printable(task.created_at), task_expires_at=expires)
    else:
        _watch_created_at(step, strictjson.printable(task.created_at))
    if task.poll_ms is not None:
        step.set(poll_ms=task.poll_ms)
    message = message_of(task)
    if (task.status.value, message) != (row.protocol_status, row.protocol_message):
        step.note(
            "PROTOCOL_STATUS",
            detail={"status": task.status.value, "message": message},
            protocol_status=task.status.value,
            protocol_message=message,
            looked_at=step.now,
        )


def _watch_created_at(step: Step, created_at: str) -> None:
    """Note a creation time that moves: a server that lost the task may be inventing another (B001)."""
    held = step.row.task_created_at
    if is_moved(held, created_at):
        step.note("ANOMALY", detail={"created_at": [held, created_at]}, task_created_at=created_at)


def is_moved(held: str, told: str) -> bool:
    """Whether two creation times differ. The same instant may be spelled in many ways (B008)."""
    if not held or not told or held == told:
        return False
    instants = _instant(held), _instant(told)
    return None in instants or instants[0] != instants[1]


def _instant(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text.upper())
    except ValueError:
        return None
    return at if at.tzinfo is not None else None


def message_of(task: TaskFacts) -> str:
    """The server's own words as the ledger keeps them: printable, at most 500 characters."""
    return strictjson.printable(task.message[:500])


def _at_work(step: Step, *, next_at: datetime) -> None:
    row = step.row
    waiting_is_over = step.now >= row.budget_ends_at
    if row.state is State.INPUT_REQUIRED:
        # I6: who never said that it waits does not say now that it used the answer.
        rounds.close(step, "the server no longer asks", moved_on=not hearing.brought(row))
        step.move(Event.RESUMED)
    elif row.state in BEFORE_TASK or (row.state is State.UNKNOWN and not waiting_is_over):
        # C9: under an intent the table's own way leads past WORKING wherever it can.
        if not _is_under_cancel(step) or row.state is State.SUBMITTING:
            step.move(Event.TASK_NAMED)
    elif row.state is State.UNKNOWN:
        step.note("LOOKED", detail={"status": row.protocol_status})  # our waiting is over; its work is not (P5)
    elif row.state not in {State.WORKING, State.CANCEL_REQUESTED}:
        raise IllegalStep(row.state, Event.TASK_NAMED)
    bind_intent(step)
    step.due(step.now if _cancel_just_due(row, step.row) else next_at)


def bind_intent(step: Step) -> None:
    """Turn a standing cancel intent into a cancel, now that there is a task (C9).

    Also when the wait budget is over: the intent is used up by it, and `plan.CANCEL_GRACE` ends the wait.
    """
    if _is_under_cancel(step) and Event.CANCEL_DUE in TRANSITIONS[step.row.state]:
        step.move(Event.CANCEL_DUE, cancel_intent=False, cancel_requested_at=step.now)


def _is_under_cancel(step: Step) -> bool:
    """Whether a cancel stands that what turns up now must meet.

    A request that ended with a person, such as "not found", stands when the task is seen again:
    nobody took it back (C9, C11).
    """
    row = step.row
    asked_before = row.state is State.UNKNOWN and row.cancel_generation > 0 and step.now < row.budget_ends_at
    return row.cancel_intent or asked_before


def _cancel_just_due(before: Row, after: Row) -> bool:
    return after.state is State.CANCEL_REQUESTED and before.state is not State.CANCEL_REQUESTED


def _asked(step: Step, seen: NeedsInput, *, next_at: datetime) -> None:
    row = step.row
    if row.state is State.CANCEL_REQUESTED or _is_under_cancel(step):
        step.note("QUESTION_AFTER_CANCEL", detail={"questions": len(seen.questions)})  # C11
        _at_work(step, next_at=next_at)
        return
    if row.state is State.UNKNOWN and step.now >= row.budget_ends_at:
        step.due(next_at)
        return
    _turn_up(step)
    if row.state is State.INPUT_REQUIRED:
        if rounds.is_replay(row, seen.questions):
            rounds.follow_names(step, seen.questions)
            step.due(step.now if row.answer_delivery is Delivery.STORED else next_at)
            return
        rounds.close(step, "the server asks something else", moved_on=True)
        step.move(Event.RESUMED)
    rounds.open_round(step, seen)


def _go_on_at_once(step: Step, seen: NeedsInput) -> None:
    """The server wants its own state back before it goes on, and nobody's answer."""
    rounds.settle_question(step, seen)
    step.note("GO_ON_AT_ONCE")
    step.due(step.now, urgent=True)


def _turn_up(step: Step) -> None:
    """L5: what was thought absent and turns up is at work first, whatever it does by now, or to be cancelled (C9)."""
    if step.row.state is State.NOT_FOUND_SAFE:
        bind_intent(step)
    if step.row.state is State.NOT_FOUND_SAFE:
        step.move(Event.TASK_NAMED)


def _ended(step: Step, seen: Ended, *, next_at: datetime) -> None:
    if step.row.state in FINAL:
        raise IllegalStep(step.row.state, Event.ENDED)
    _turn_up(step)
    row = step.row
    known = row.terminal_status
    if known is not None and known != seen.status.value:
        contradict(step, seen.status.value, next_at=next_at)
        return
    if row.state in {State.TERMINAL_OBSERVED, State.FETCHING_RESULT}:
        step.due(step.now, urgent=True)
        return
    if row.state is State.INPUT_REQUIRED:
        rounds.close(step, f"the task ended: {seen.status.value}", moved_on=True)
    status = seen.status.value
    step.set(fetches=0, result_digest=None)  # what an earlier end brought is no result of this one
    step.move(Event.ENDED, terminal_status=status, protocol_status=status, looked_at=step.now)
    if seen.result is not None:
        keep_result(step, seen.result, seen=seen.exchanges)
    if seen.status is ProtocolStatus.CANCELLED:
        close_cancelled(step, summary="the server says cancelled")
    else:
        step.due(step.now, urgent=True)


def _late_end(step: Step, *, seen: Ended) -> None:
    """Hold an end that came after the receipt against it: a fact for the effect record, never a second outcome.

    A completion after a won cancel (C4), another end than the one that was accepted (R10), or any end of a
    call that a person has closed. An accepted result is disputed by it.
    """
    row, status = step.row, seen.status.value
    if row.state not in FINAL or status == row.terminal_status:
        return
    if seen.task is not None and seen.task.task_id != row.task_id:
        return  # another task's end; whose it is has been asked already (P8, A5)
    step.note("LATE_END", detail={"status": status}, disputed=row.disputed or row.state is State.ACCEPTED)
    if row.effect != Effect.NONE:
        open_effect(step, cause="LATE_COMPLETION", fact={"what": f"late {status}", "at": step.now.isoformat()})


def contradict(step: Step, seen: str, *, next_at: datetime) -> None:
    """Take the operation to a person: two different ends were seen before either was accepted (R10)."""
    detail = {"first": step.row.terminal_status, "then": seen}
    if step.row.state is State.INPUT_REQUIRED:
        rounds.close(step, "the task ended in two different ways", moved_on=False)
    if step.row.state not in {State.UNKNOWN, State.TERMINAL_OBSERVED, State.FETCHING_RESULT}:
        step.move(Event.ENDED)  # the server had gone back to work after the first end
    if step.row.state is State.UNKNOWN:
        step.note("CONTRADICTED", detail=detail, reason=Reason.CONTRADICTED)
    else:
        step.move(Event.CONTRADICTED, detail=detail, reason=Reason.CONTRADICTED)
    step.due(next_at)


def close_cancelled(step: Step, *, summary: str) -> None:
    """Accept `cancelled` on C2 evidence or a terminal look, and ask for the audit's look (C7, R4)."""
    row = step.row
    step.set(terminal_status=ProtocolStatus.CANCELLED.value)
    if row.cancel_settled_at is None:
        step.set(cancel_settled_at=step.now)
    origin = "asked by us" if row.cancel_generation else "cancelled at the server"
    accept_terminal(
        step,
        Facts.held_by(step.row),
        event=Event.CANCEL_WON,
        outcome=Outcome.CANCELLED,
        verdict=origin,
        summary=summary,
    )
    if row.task_id is not None:
        step.wake()


def _absent(step: Step, *, next_at: datetime) -> None:
    row = step.row
    if row.state is State.UNKNOWN:
        step.note("LOOKED", detail={"status": STILL_NOT_FOUND})
        step.due(next_at)
        return
    if row.state in BEFORE_TASK:
        _absent_before_task(step, next_at=next_at)
        return
    if row.state in {State.TERMINAL_OBSERVED, State.FETCHING_RESULT} and row.result_digest is not None:
        # X3: its end and its result are in evidence, so acceptance goes on.
        step.note("LOOKED", detail={"status": "not found"}, not_found=NotFound.EXPIRED_WITH_RECEIPT)
        step.due(step.now, urgent=True)
        return
    pressed = row.state is State.CANCEL_REQUESTED
    if row.state is State.INPUT_REQUIRED:
        rounds.close(step, "the server no longer knows the task", moved_on=False)
    step.move(
        Event.NOT_FOUND,
        not_found=NotFound.UNKNOWN,
        reason=Reason.NOT_FOUND_AFTER_CANCEL if pressed else Reason.NOT_FOUND,
    )
    step.due(next_at)


def _absent_before_task(step: Step, *, next_at: datetime) -> None:
    """An id that came late, and is unknown to its server by now: nobody can say what became of it (X1)."""
    event = Event.NOT_FOUND if step.row.state is State.NOT_FOUND_SAFE else Event.NO_LOOKUP
    if step.row.state is State.SUBMITTING:
        step.move(Event.ANSWER_LOST, lost_at=step.now)
    _turn_up(step)
    pressed = step.row.state is State.CANCEL_REQUESTED
    reason = Reason.NOT_FOUND_AFTER_CANCEL if pressed else Reason.NOT_FOUND
    step.move(event, reason=reason, not_found=NotFound.UNKNOWN)
    step.due(next_at)


def looked_in_vain(
    operation: str,
    *,
    why: str,
    ticket: Ticket,
    exchanges: Sequence[Exchange],
    next_at: datetime,
    misses: int,
    now: datetime,
) -> Moved:
    """Keep an answer that is no observation: evidence, never a step (N3, L6)."""

    def change(step: Step) -> None:
        step.note("NOTHING_USABLE", detail={"why": strictjson.printable(why)})
        step.due(next_at, misses=misses, trouble=why)

    return perform(operation, change, now=now, ticket=ticket, exchanges=exchanges)


def _word_for(seen: Observation | None) -> str:
    if seen is None:
        return "no answer"
    if isinstance(seen, Ended):
        return seen.status.value
    return "not found" if isinstance(seen, Absent) else "not terminal"


def audited(operation: str, *, seen: Observation | None, result: bytes | None, ticket: Ticket, now: datetime) -> Moved:
    """Record the one look after a won cancel: evidence, never a payload (C4, C7)."""

    def change(step: Step) -> None:
        status = _word_for(seen)
        step.note("AUDIT_LOOK", detail={"status": status, "result_bytes": len(result or b"")})
        if isinstance(seen, Absent):
            step.set(not_found=NotFound.EXPIRED_WITH_RECEIPT)  # X1: gone, and it no longer matters
        if result is not None:
            step.keep_raw(kind="late", label="late result", raw=result)
        if isinstance(seen, Ended) and seen.status is not ProtocolStatus.CANCELLED:
            fact = {"what": "late " + seen.status.value, "at": now.isoformat()}
            if step.row.effect != Effect.NONE:
                open_effect(step, cause="LATE_COMPLETION", fact=fact)
        step.retire()

    return perform(operation, change, now=now, ticket=ticket, exchanges=seen.exchanges if seen is not None else ())


def bound_elsewhere(operation: str, task: TaskFacts | None) -> str | None:
    """Return the other operation that this task id already belongs to (P8)."""
    if task is None or strictjson.printable(task.task_id) != task.task_id:
        return None  # what cannot be stored is bound to nobody
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT other.id::text FROM operation mine JOIN operation other
                ON other.server_id = mine.server_id AND other.protocol = mine.protocol
                AND other.id <> mine.id AND md5(other.task_id) = md5(%s) AND other.task_id = %s
            WHERE mine.id = %s""",
            [task.task_id, task.task_id, operation],
        )
        found = cursor.fetchone()
    return found[0] if found else None


def clash(
    operation: str,
    other: str,
    *,
    ticket: Ticket | None,
    exchanges: Sequence[Exchange] = (),
    next_at: datetime,
    now: datetime,
) -> Moved:
    """Take both operations that one task id names to a person; an ended one is marked disputed (P8)."""

    def mine(step: Step) -> None:
        _dispute(step, other)
        if step.row.state not in FINAL:
            step.due(next_at)

    def theirs(step: Step) -> None:
        _dispute(step, operation)

    return perform(operation, mine, now=now, ticket=ticket, exchanges=exchanges, beside={other: theirs})


def _dispute(step: Step, other: str) -> None:
    detail = {"other": other}
    if step.row.state in FINAL:
        step.note("ID_CLASH", detail=detail, disputed=True)
    elif step.row.state is State.UNKNOWN:
        step.note("ID_CLASH", detail=detail, reason=Reason.ID_CLASH)
    else:
        if step.row.state is State.INPUT_REQUIRED:
            rounds.close(step, "its task id turned up on another operation", moved_on=False)
        step.move(Event.ID_CLASH, detail=detail, reason=Reason.ID_CLASH)


def second_task(step: Step, task_id: str) -> None:
    """Take an operation to a person whose one key has brought another task than the ledger knows (A5)."""
    detail = {"bound": step.row.task_id, "also": task_id}
    if step.row.state in FINAL:
        step.note("SECOND_TASK", detail=detail)
        if step.row.effect != Effect.NONE:
            open_effect(step, cause="SECOND_TASK", fact={"what": "second task", "task_id": task_id})
    elif step.row.state is State.UNKNOWN:
        step.note("SECOND_TASK", detail=detail, reason=Reason.ID_CLASH)
    else:
        if step.row.state is State.INPUT_REQUIRED:
            rounds.close(step, "a second task turned up under the same key", moved_on=False)
        step.move(Event.ID_CLASH, detail=detail, reason=Reason.ID_CLASH)


def was_unchanged(standing: Row, seen: Observation) -> bool:
    """Whether a look brought nothing that needs a transaction of its own.

    At what stands before a person each look leaves its trace: they are slow, and somebody wants to know.
    """
    if isinstance(seen, Absent) or standing.state is State.UNKNOWN:
        return False
    if isinstance(seen, Ended) or seen.task is None or standing.cancel_intent:
        return False
    if isinstance(seen, NeedsInput) and seen.questions:
        return False
    held = (standing.protocol_status, standing.protocol_message)
    told = (seen.task.status.value, message_of(seen.task))
    is_quiet = standing.state in (_QUIET_IF_IT_ASKS if isinstance(seen, NeedsInput) else _QUIET)
    return is_quiet and held == told and not is_moved(standing.task_created_at, seen.task.created_at)
