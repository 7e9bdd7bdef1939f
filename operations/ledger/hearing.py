"""What came on a stream nobody had asked on: kept first, and taken up by the next look (P6, P7).

Nothing here moves an operation. A question waits in a table of its own until a look, under a ticket,
opens its round; who holds an operation's standing stream is a lease like that of a claim.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction

from adapters.contract import Mode, NeedsInput, Observation, Overheard, ProtocolStatus, Question, Working
from operations.ledger import rounds
from operations.ledger.step import Moved, Row, Step, perform
from operations.machine import FINAL


def overheard(operation: str, *, session: str, heard: Overheard, now: datetime) -> Moved:
    """Keep a question that came on the standing stream, and ask for a look.

    The same event again is the same question (B123). Never refused: evidence has no fence (P6).
    """

    def change(step: Step) -> None:
        told = {"key": heard.question.key, "named": heard.task_id is not None}
        step.note("OVERHEARD", detail=told, stream_event_id=heard.event_id)
        step.write(
            """INSERT INTO heard_question (operation_id, at, session, task_id, event_id, question)
            VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING""",
            [operation, now, session, heard.task_id or "", heard.event_id, json.dumps(rounds.stored(heard.question))],
        )
        if step.row.state not in FINAL:
            step.wake()

    return perform(operation, change, now=now, exchanges=(heard.exchange,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The questions that a stream brought and nobody has answered, all of one round or of none yet."""

    questions: tuple[Question, ...] = ()
    in_round: bool = False


def waiting(operation: str) -> Waiting:
    """Return what was overheard in the operation's session and waits: first what its round asks, else what is new.

    A question that names another task than the operation's is nobody's (B033).
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT h.question::text, h.round FROM heard_question h
            JOIN operation o ON o.id = h.operation_id AND o.session = h.session
            LEFT JOIN input_round r ON r.operation_id = h.operation_id AND r.number = h.round
            WHERE h.operation_id = %s AND h.task_id IN ('', o.task_id)
                AND (h.round IS NULL OR (h.round = o.round
                    AND (r.status IN ('OPEN', 'EXPIRED') OR o.answer_delivery = 'STORED')))
            ORDER BY h.id""",
            [operation],
        )
        found = cursor.fetchall()
    asked = {
        question.digest: question for question in (_question(text) for text, number in found if number is not None)
    }
    new = [_question(text) for text, number in found if number is None]
    if asked:
        asked |= {question.digest: question for question in new if question.digest in asked}  # under another id (I4)
        return Waiting(questions=tuple(asked.values()), in_round=True)
    by_key = {question.key: question for question in new}  # a server may use its ids again
    return Waiting(questions=tuple(by_key.values()))


def _question(text: str) -> Question:
    told = json.loads(text)
    return Question(
        key=told["key"],
        mode=Mode(told["mode"]),
        message=told["message"],
        schema=json.loads(told["schema_text"]),
        url=told["url"],
        raw=b"",
        digest=told["digest"],
    )


def brought(row: Row) -> bool:
    """Whether the newest round was opened by a question that was overheard."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM heard_question WHERE operation_id = %s AND round = %s)", [row.id, row.round]
        )
        return bool(cursor.fetchone()[0])


def joined(row: Row, seen: Observation, held: Waiting) -> Observation:
    """Put what was overheard into a look: a question in hand counts, whatever the status says.

    One server never says `input_required`, so its `working` does not say that a question is gone.
    Of a server that did say so, it does.
    """
    if not isinstance(seen, Working | NeedsInput) or not held.questions:
        return seen
    if isinstance(seen, NeedsInput) and seen.questions:
        return seen
    if isinstance(seen, Working) and held.in_round and row.protocol_status == ProtocolStatus.INPUT_REQUIRED:
        return seen
    return NeedsInput(task=seen.task, questions=held.questions, exchanges=seen.exchanges)


def nudge(operation: str, *, now: datetime) -> None:
    """Bring the next look forward: a lost stream costs one look, never a transition (P7)."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE due SET due_at = LEAST(due_at, %s), urgent = true WHERE operation_id = %s",
            [now, operation],
        )


def take_stream(operation: str, *, session: str, holder: uuid.UUID, until: datetime, now: datetime) -> str | None:
    """Take the lease on an operation's standing stream, or keep it.

    Returns the event id to resume after ("" for none); None where another process holds it, the operation has
    ended, or its session is another by now.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO listener (operation_id, holder, until)
            SELECT o.id, %s, %s FROM operation o
            WHERE o.id = %s AND o.session = %s AND NOT (o.state = ANY(%s))
            ON CONFLICT (operation_id) DO UPDATE SET holder = EXCLUDED.holder, until = EXCLUDED.until
                WHERE listener.holder = EXCLUDED.holder OR listener.until <= %s
            RETURNING (SELECT stream_event_id FROM operation WHERE id = operation_id)""",
            [holder, until, operation, session, [state.value for state in FINAL], now],
        )
        found = cursor.fetchone()
    return found[0] if found else None


def drop_stream(operation: str, *, holder: uuid.UUID) -> None:
    """Give the lease back: the next look may hold the stream in any process."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("DELETE FROM listener WHERE operation_id = %s AND holder = %s", [operation, holder])


def renew_streams(operations: Sequence[str], *, holder: uuid.UUID, until: datetime) -> dict[str, str | None]:
    """Renew the leases of these operations; return each that is still held and not over, with its session."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            """UPDATE listener l SET until = %s FROM operation o
            WHERE o.id = l.operation_id AND l.holder = %s AND o.id = ANY(%s::uuid[]) AND NOT (o.state = ANY(%s))
            RETURNING o.id::text, o.session""",
            [until, holder, list(operations), [state.value for state in FINAL]],
        )
        return dict(cursor.fetchall())
