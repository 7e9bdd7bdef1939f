"""Input rounds: opened once, closed with a reason, and the delivery of what people answered (I1, I2, I4, I6, I7)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db import connection

from adapters import strictjson
from adapters.contract import Action, Continuation, Exchange, NeedsInput, Question, Reply
from operations.ledger.answers import RoundFate, RoundGone
from operations.ledger.permits import account_for, give, settle
from operations.ledger.policies import policy_of
from operations.ledger.step import EXECUTOR, Moved, PermitDenied, Row, Step, perform, read
from operations.machine import Delivery, Event, StaleStep, State, StepError, Ticket
from operations.models import PermitKind, RoundStatus
from operations.notice import Kind

LOOK_GAP = timedelta(seconds=10)
"""I1: opening a round's page brings at most one look forward in this time."""


def request_digest(questions: Sequence[Question]) -> str:
    """Identify a round's request by what is asked, each question with its key (I4)."""
    return strictjson.digest_of([[question.key, question.digest] for question in questions])


def schema_digest(questions: Sequence[Question]) -> str:
    """Digest of the schemas that a form was built from (I2)."""
    return strictjson.digest_of([[question.key, dict(question.schema)] for question in questions])


def is_replay(row: Row, questions: Sequence[Question]) -> bool:
    """Whether the newest round already asks this, and the server has not moved on since (I4).

    While the status stays `input_required`, the same request is the same round, answered or not. As long as no
    answer has left, the server may repeat it under other ids: they are its own, and make no new round.
    """
    held, told = _held(row), _told(questions)
    may_be_renamed = row.answer_delivery in {None, Delivery.STORED}
    return held == told or (may_be_renamed and [digest for _, digest in held] == [digest for _, digest in told])


def follow_names(step: Step, questions: Sequence[Question]) -> None:
    """Keep the ids under which a replayed request was told last: the answer goes to those (I4)."""
    row, keys = step.row, [question.key for question in questions]
    if _held(row) == _told(questions):
        return
    step.note("QUESTION_RENAMED", detail={"round": row.round})
    step.write("UPDATE input_round SET keys = %s WHERE operation_id = %s AND number = %s", [keys, row.id, row.round])
    _claim_heard(step, keys, number=row.round)


def take_names(
    operation: str, *, questions: Sequence[Question], exchanges: Sequence[Exchange], ticket: Ticket, now: datetime
) -> bool:
    """Keep the ids under which the newest round's questions are told now. False: it is something else that is asked.

    A server may rename them at every look: an answer that waited for a name to stay would never leave (I4, I7).
    """
    (row,) = read([operation]).values()
    if not is_replay(row, questions):
        return False
    perform(operation, lambda step: follow_names(step, questions), now=now, ticket=ticket, exchanges=exchanges)
    return True


def still_asks(operation: str, questions: Sequence[Question]) -> bool:
    """Whether everything that the newest round asks is among these, under the same ids (I1, I7)."""
    (row,) = read([operation]).values()
    return set(_held(row)) <= set(_told(questions))


def _told(questions: Sequence[Question]) -> list[tuple[str, str]]:
    return [(question.key, question.digest) for question in questions]


def _held(row: Row) -> list[tuple[str, str]]:
    """Return what the newest round asks: the id of each question by now, and its digest."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT questions::text, keys FROM input_round WHERE operation_id = %s AND number = %s",
            [row.id, row.round],
        )
        found = cursor.fetchone()
    asked = json.loads(found[0]) if found else []
    keys = (found and found[1]) or [question["key"] for question in asked]
    return [(key, question["digest"]) for key, question in zip(keys, asked, strict=True)]


def open_round(step: Step, seen: NeedsInput) -> None:
    """Open the next round and pause looking until something ends it (I1, I2)."""
    row, number = step.row, step.row.round + 1
    limits = [row.budget_ends_at, row.task_expires_at, step.now + timedelta(seconds=row.answer_within_s)]
    deadline = min(limit for limit in limits if limit is not None)
    before_task = seen.task is None and row.task_id is None
    if before_task:
        settle_question(step, seen)
    step.move(
        Event.ASKED,
        detail={"round": number, "questions": len(seen.questions)},
        round=number,
        round_open=True,
        round_before_task=before_task,
        round_deadline_at=deadline,
        answer_delivery=None,
    )
    digests = [request_digest(seen.questions), schema_digest(seen.questions)]
    policy = policy_of(row.tool_id, row.effect)
    step.write(
        """INSERT INTO input_round (operation_id, number, status, closed_reason, opened_at,
            deadline_at, before_task, request_digest, schema_digest, questions, claimed_by, policy)
        VALUES (%s, %s, %s, '', %s, %s, %s, %s, %s, %s, '', %s)""",
        [row.id, number, RoundStatus.OPEN, step.now, deadline, before_task, *digests]
        + [json.dumps([stored(question) for question in seen.questions]), json.dumps(policy.facts())],
    )
    step.tell(
        Kind.ROUND_OPENED,
        f"round:{row.id}/{number}",
        team=policy.team,
        facts={"round": number, "until": deadline.isoformat()},
    )
    _claim_heard(step, [question.key for question in seen.questions], number=number)
    step.due(deadline)


def _claim_heard(step: Step, keys: Sequence[str], *, number: int) -> None:
    """Count what was overheard under these ids to a round."""
    step.write(
        "UPDATE heard_question SET round = %s WHERE operation_id = %s AND round IS NULL AND question->>'key' = ANY(%s)",
        [number, step.row.id, list(keys)],
    )


def settle_question(step: Step, seen: NeedsInput) -> None:
    """Record that a submit brought a question and no task: the next attempt goes on from it."""
    sends = step.row.sends
    account_for(step, "answered")
    step.set(continuation=sends, continuation_state=seen.continuation_state, sends_disproved=sends, replays=0)


_CARRIED = frozenset({Delivery.STORED, Delivery.PERMITTED, Delivery.UNCERTAIN})


def carried_by_submit(step: Step, delivery: Delivery) -> None:
    """Move the answer that travels with a submit: there is no task yet that it could be sent to (I7)."""
    row = step.row
    if row.round_before_task and row.task_id is None and row.answer_delivery in _CARRIED:
        _deliver(step, delivery, used_at=step.now if delivery is Delivery.USED else None)


def go_on(operation: str, *, ticket: Ticket, now: datetime) -> Moved:
    """Submit the call again with the answers in store, under the same key (L5).

    Raises PermitDenied when there is no answer, or a task has turned up that takes it.
    """

    def change(step: Step) -> None:
        row = step.row
        if not row.round_before_task or row.answer_delivery is not Delivery.STORED:
            raise PermitDenied("no answer waits for the next attempt of this call")
        step.move(Event.CONTINUE)
        step.due(now, urgent=True)

    return perform(operation, change, now=now, ticket=ticket)


def continuation(operation: str) -> Continuation | None:
    """Return what the next attempt of the call carries; None when it is the first."""
    found = _goes_on_from(operation)
    if found is None:
        return None
    number, state, delivery, _ = found
    replies = answer_in_store(operation) if delivery == Delivery.STORED else ()
    return Continuation(number=number, state=state, replies=replies)


def lost_attempt(operation: str) -> tuple[Continuation | None, bool]:
    """Return what the attempt that was lost has carried, and whether that may leave again whole (X2).

    After a cancel its answers stay here (C11). Without them the call asks anew, which says nothing of the lost attempt.
    """
    found = _goes_on_from(operation)
    if found is None:
        return None, True
    number, state, delivery, cancel_intent = found
    is_whole = delivery is None or (delivery in _CARRIED and not cancel_intent)
    replies = answer_in_store(operation) if is_whole and delivery is not None else ()
    return Continuation(number=number, state=state, replies=replies), is_whole


def _goes_on_from(operation: str) -> tuple[int, str | None, str | None, bool] | None:
    """Return number, state, the delivery of the answers, and whether a cancel was asked; None for a first attempt."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT continuation, continuation_state, answer_delivery, cancel_intent FROM operation
            WHERE id = %s AND task_id IS NULL AND continuation IS NOT NULL""",
            [operation],
        )
        found: tuple[int, str | None, str | None, bool] | None = cursor.fetchone()
    return found


def stored(question: Question) -> dict[str, Any]:
    """Return a question as the tables hold it."""
    return {
        "key": question.key,
        "mode": question.mode.value,
        "message": _storable(question.message),
        "schema": _storable(dict(question.schema)),
        # jsonb sorts keys by length; people read a form in the server's order.
        "schema_text": json.dumps(_storable(dict(question.schema))),
        "url": _storable(question.url),
        "digest": question.digest,
    }


def _storable(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """PostgreSQL takes no NUL and no lone surrogate; the raw bytes are in evidence."""
    if isinstance(value, str):
        return strictjson.printable(value)
    if isinstance(value, dict):
        return {_storable(name): _storable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_storable(item) for item in value]
    return value


def close(step: Step, reason: str, *, moved_on: bool) -> None:
    """Close the newest round, open or not, with the reason that people will read (I1).

    A round that expired keeps its own reason: what the server did later explains nothing about it.
    `moved_on`: the server went on after the question, so an answer that is out counts as used
    (I6). An answer still in store is superseded.
    """
    row = step.row
    step.write(
        """UPDATE input_round SET closed_reason = COALESCE(NULLIF(closed_reason, ''), %s),
            closed_at = COALESCE(closed_at, %s),
            status = CASE status WHEN 'OPEN' THEN 'CLOSED' ELSE status END
        WHERE operation_id = %s AND number = %s AND status <> 'CLOSED'""",
        [reason, step.now, row.id, row.round],
    )
    if row.answer_delivery is Delivery.STORED:
        supersede(step)
    elif moved_on and row.answer_delivery in {Delivery.PERMITTED, Delivery.SENT, Delivery.UNCERTAIN}:
        _deliver(step, Delivery.USED, used_at=step.now)
    step.set(round_open=False, round_deadline_at=None)


def void_answers(step: Step) -> None:
    """Close the round for a cancel: an answer without a permit never leaves (C11)."""
    row = step.row
    if row.round and row.state is State.INPUT_REQUIRED:
        if row.answer_delivery == Delivery.STORED:
            _deliver(step, Delivery.VOID)
        close(step, "a cancel was requested", moved_on=False)
    elif row.answer_delivery == Delivery.STORED:
        carried_by_submit(step, Delivery.VOID)  # its round is over: it waited for the next attempt of the call


def supersede(step: Step) -> None:
    """Say of an answer that is still in store that nobody will send it any more (I7)."""
    if step.row.answer_delivery is Delivery.STORED:
        _deliver(step, Delivery.SUPERSEDED)


def _deliver(step: Step, delivery: Delivery, **times: datetime | None) -> None:
    step.set(answer_delivery=delivery)
    moments = {name: at for name, at in times.items() if at is not None}
    step.write(
        f"""UPDATE answer SET delivery = %s{"".join(f", {name} = %s" for name in moments)}
        WHERE round_id = (SELECT id FROM input_round WHERE operation_id = %s AND number = %s)""",
        [delivery, *moments.values(), step.row.id, step.row.round],
    )


def expire_round(operation: str, *, ticket: Ticket, next_at: datetime, now: datetime) -> Moved:
    """Close the form of a round whose deadline has passed; looking resumes (I2, I5)."""

    def change(step: Step) -> None:
        step.note("ROUND_EXPIRED", round_open=False, round_deadline_at=None)
        _tell_expired(step)
        step.write(
            """UPDATE input_round SET status = 'EXPIRED', closed_at = %s,
                closed_reason = 'nobody answered before the deadline'
            WHERE operation_id = %s AND number = %s AND status = 'OPEN'""",
            [now, operation, step.row.round],
        )
        step.due(next_at)

    return perform(operation, change, now=now, ticket=ticket)


def _tell_expired(step: Step) -> None:
    """Escalate: nobody answered, so whoever the policy names hears of it too (I2)."""
    number = step.row.round
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT policy->>'team', policy->>'escalate_to', deadline_at FROM input_round"
            " WHERE operation_id = %s AND number = %s",
            [step.row.id, number],
        )
        team, also, deadline_at = cursor.fetchone()
    # An extended round may run out again: that is told again.
    item = f"round:{step.row.id}/{number}@{deadline_at.isoformat()}"
    step.tell(Kind.ROUND_EXPIRED, item, team=team or "", also=also or "", facts={"round": number})


class CannotExtend(StepError):
    """The deadline cannot be moved there: past the task's ttl or the wait budget, or too late (I2)."""


def extend_round(operation: str, *, round: int, until: datetime, by: str, now: datetime) -> Moved:
    """Move the newest round's deadline; an expired round opens again. Raises CannotExtend."""

    def change(step: Step) -> None:
        row = step.row
        ends = min(limit for limit in (row.budget_ends_at, row.task_expires_at) if limit is not None)
        unanswered = row.state is State.INPUT_REQUIRED and row.answer_delivery is None
        if round != row.round or not unanswered or not now < until <= ends:
            raise CannotExtend(f"round {round} cannot be open until {until.isoformat()}")
        step.note(
            "ROUND_EXTENDED",
            detail={"until": until.isoformat()},
            round_open=True,
            round_deadline_at=until,
        )
        step.write(
            """UPDATE input_round SET status = 'OPEN', deadline_at = %s, closed_at = NULL,
                closed_reason = '' WHERE operation_id = %s AND number = %s""",
            [until, operation, round],
        )
        step.write("UPDATE due SET due_at = LEAST(due_at, %s) WHERE operation_id = %s", [until, operation])

    return perform(operation, change, now=now, actor=by)


def open_round_page(operation: str, *, round: int, now: datetime) -> bool:
    """Bring one look forward because an approver opened the round (I1). False: one was brought lately."""
    with connection.cursor() as cursor:
        cursor.execute(
            """WITH opened AS (
                UPDATE input_round SET looked_at = %s
                WHERE operation_id = %s AND number = %s AND status = 'OPEN'
                    AND (looked_at IS NULL OR looked_at < %s)
                RETURNING operation_id)
            UPDATE due SET due_at = LEAST(due_at, %s), urgent = true
            FROM opened WHERE due.operation_id = opened.operation_id""",
            [now, operation, round, now - LOOK_GAP, now],
        )
        return bool(cursor.rowcount)


def claim_round(operation: str, *, round: int, by: str, now: datetime) -> Moved:
    """Say who works on a round. A claim is a courtesy: it keeps nobody from answering."""
    return _claim(operation, round, by=by, holder=by, now=now)


def release_round(operation: str, *, round: int, by: str, now: datetime) -> Moved:
    """Give a claimed round back."""
    return _claim(operation, round, by=by, holder="", now=now)


def _claim(operation: str, number: int, *, by: str, holder: str, now: datetime) -> Moved:
    def change(step: Step) -> None:
        step.note("ROUND_CLAIMED" if holder else "ROUND_RELEASED", detail={"round": number})
        step.write(
            """UPDATE input_round SET claimed_by = %s, claimed_at = %s
            WHERE operation_id = %s AND number = %s AND status = 'OPEN'""",
            [holder, now if holder else None, operation, number],
        )

    return perform(operation, change, now=now, actor=by)


def answer_in_store(operation: str) -> tuple[Reply, ...]:
    """Return the replies of the newest round's answer, as the adapter takes them, under the server's newest ids."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT a.replies::text, r.questions::text, r.keys FROM operation o
            JOIN input_round r ON r.operation_id = o.id AND r.number = o.round
            JOIN answer a ON a.round_id = r.id WHERE o.id = %s""",
            [operation],
        )
        found = cursor.fetchone()
    if found is None:
        return ()
    replies, asked, keys = json.loads(found[0]), [question["key"] for question in json.loads(found[1])], found[2]
    now_named = dict(zip(asked, keys or asked, strict=True))
    return tuple(
        Reply(
            key=now_named.get(reply["key"], reply["key"]),
            action=Action(reply["action"]),
            content=reply["content"].encode() if reply["content"] is not None else None,
        )
        for reply in replies
    )


MOST_REPEATS = 5
"""Leaves for one answer whose arrival stays unknown (I7)."""


def may_repeat_answer(operation: str) -> bool:
    """Whether the newest round's answer, of which nobody knows whether it arrived, may leave once more (I7)."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT o.answer_delivery = %s AND count(p.id) < %s FROM operation o LEFT JOIN permit p
                ON p.operation_id = o.id AND p.kind = %s AND p.round = o.round AND p.settlement = 'lost'
            WHERE o.id = %s GROUP BY o.id""",
            [Delivery.UNCERTAIN, MOST_REPEATS, PermitKind.ANSWER, operation],
        )
        return bool(cursor.fetchone()[0])


def permit_answer(operation: str, *, permit: uuid.UUID, ticket: Ticket, now: datetime, again: bool = False) -> Moved:
    """Give leave to send the stored answer.

    `again`: its contract makes the identical answer harmless, and so one whose arrival is unknown may leave
    once more. Raises PermitDenied, StaleStep (I7, C11).
    """

    def change(step: Step) -> None:
        ready = step.row.answer_delivery is Delivery.STORED
        if again and may_repeat_answer(operation):
            step.note("ANSWER_REPEATED", detail={"round": step.row.round})
            ready = True
        give(step, permit, PermitKind.ANSWER, allowed=ready and step.row.state is State.INPUT_REQUIRED)
        _deliver(step, Delivery.PERMITTED)

    return perform(operation, change, now=now, ticket=ticket)


_SETTLEMENT = {
    Delivery.STORED: "not_sent",
    Delivery.SENT: "answered",
    Delivery.UNCERTAIN: "lost",
}


def answer_settled(
    operation: str,
    *,
    permit: uuid.UUID,
    delivery: Delivery,
    why: str,
    ticket: Ticket,
    next_at: datetime,
    now: datetime,
    misses: int = 0,
    exchanges: Sequence[Exchange] = (),
) -> Moved:
    """Record how sending went: SENT, UNCERTAIN, or back to STORED when nothing left (I6, I7).

    Raises StaleStep; the proof that nothing left is kept even then (P6).
    """

    def change(step: Step) -> None:
        settle(step, permit, _SETTLEMENT[delivery])
        if step.row.answer_delivery != Delivery.PERMITTED:
            raise RoundGone(RoundFate(status="CLOSED", newest_round=step.row.round))
        step.note("ANSWER_" + delivery.value, detail={"why": why} if why else None)
        _deliver(step, delivery, sent_at=None if delivery is Delivery.STORED else now)
        step.due(next_at, urgent=True, misses=misses, trouble="" if delivery is Delivery.SENT else why)

    try:
        return perform(operation, change, now=now, ticket=ticket, actor=EXECUTOR, exchanges=exchanges)
    except StaleStep:
        if delivery is Delivery.STORED:
            perform(operation, partial(_late_unsent, permit=permit, why=why), now=now)
        raise


def _late_unsent(step: Step, *, permit: uuid.UUID, why: str) -> None:
    """Take an answer for what it is, now that its one send is proved not to have left (P6, I7).

    While its question stands it goes out again; under a cancel it is void, and nobody lists it as out (C11).
    """
    row = step.row
    if row.answer_delivery not in {Delivery.PERMITTED, Delivery.UNCERTAIN} or not _is_only_send(row, permit):
        return
    settle(step, permit, _SETTLEMENT[Delivery.STORED])
    if row.state is State.INPUT_REQUIRED:
        step.note("ANSWER_STORED", detail={"why": why})
        _deliver(step, Delivery.STORED)
        step.wake()
    else:
        step.note("ANSWER_VOID", detail={"why": why})
        _deliver(step, Delivery.VOID)


def _is_only_send(row: Row, permit: uuid.UUID) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT COALESCE(bool_or(id = %s), false) AND NOT COALESCE(bool_or(id <> %s), false) FROM permit
            WHERE operation_id = %s AND kind = %s AND round = %s AND settlement <> 'not_sent'""",
            [permit, permit, row.id, PermitKind.ANSWER, row.round],
        )
        return bool(cursor.fetchone()[0])


def answer_in_doubt(operation: str, *, ticket: Ticket, now: datetime) -> Moved:
    """Say that whoever was to send the answer is gone: whether it left, only a look can tell (I7)."""

    def change(step: Step) -> None:
        if step.row.answer_delivery is not Delivery.PERMITTED:
            raise RoundGone(RoundFate(status="CLOSED", newest_round=step.row.round))
        settle(step, None, "lost")
        step.note("ANSWER_" + Delivery.UNCERTAIN.value, detail={"why": "whoever was to send it is gone"})
        _deliver(step, Delivery.UNCERTAIN, sent_at=now)
        step.due(now, urgent=True)

    return perform(operation, change, now=now, ticket=ticket)
