"""Batches: one wish for many operations, prepared as a preview, then done row by row by `bulk`.

Note [A preview is kept]
What a person was shown is written down before they agree: each row with the version, the cancel generation and the
forecast of that moment. A row of which this is no longer true is refused when its turn comes, and says why. So a list
that changes between the preview and the press does no harm, and neither does a reload, a second press or a second tab:
a batch is started once.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from operations.ledger import trail
from operations.ledger.step import LedgerError, Step
from operations.machine import StepError
from operations.models import BatchKind, BatchStatus, RowStatus

MOST = 5000
"""Rows of one batch. More are done by another batch."""


class NoSuchBatch(LedgerError):
    """There is no batch with this id."""


class NotYours(LedgerError):
    """Somebody else prepared this batch; only its own person starts it."""


class RowDone(StepError):
    """Another worker has done this row of the batch meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is wanted for every row of a batch. `id` is the form's own, so that a second post is the same batch."""

    id: uuid.UUID
    kind: BatchKind
    by: str
    content: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    incident: uuid.UUID | None = None
    parent: uuid.UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """One row of a preview. `against`: why it will not be done; empty when it will."""

    operation: str
    version: int
    generation: int
    state: str
    forecast: str
    against: str = ""
    proposal: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowKey:
    """Which row of which batch."""

    batch: uuid.UUID
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One row whose turn has come, with all that was shown of it."""

    key: RowKey
    operation: str
    seen_version: int
    seen_generation: int
    forecast: str
    proposal: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A batch that a worker has taken on, for as long as its lease."""

    id: uuid.UUID
    kind: BatchKind
    by: str
    reason: str
    content: Mapping[str, str]


def keep(wish: Wish, rows: Sequence[Foreseen], *, now: datetime) -> bool:
    """Write a preview down. False: this form has made its batch already, and it stands as it was."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO batch (id, kind, by, made_at, content, source, incident_id, parent_id, reason, ended_by)
            VALUES (%s, %s, %s, %s, %s, %s, %s, %s, '', '') ON CONFLICT (id) DO NOTHING""",
            [wish.id, wish.kind, wish.by, now, json.dumps(dict(wish.content)), wish.source, wish.incident, wish.parent],
        )
        if not cursor.rowcount:
            return False
        cursor.executemany(
            """INSERT INTO batch_row (batch_id, number, operation_id, seen_version, seen_generation, seen_state,
                forecast, status, why, done_at, proposal)
            VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)""",
            [_values(wish.id, number, row, now) for number, row in enumerate(rows[:MOST], start=1)],
        )
    return True


def _values(batch: uuid.UUID, number: int, row: Foreseen, now: datetime) -> list[Any]:
    status, done_at = (RowStatus.REFUSED, now) if row.against else (RowStatus.WAITING, None)
    shown = [row.operation, row.version, row.generation, row.state, row.forecast]
    return [batch, number, *shown, status, row.against, done_at, row.proposal]


def start(batch: uuid.UUID, *, by: str, reason: str, now: datetime) -> bool:
    """Let a prepared batch be done. False: it had been started before. Raises NoSuchBatch and NotYours."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SELECT by, status, kind FROM batch WHERE id = %s FOR UPDATE", [batch])
        found = cursor.fetchone()
        if found is None:
            raise NoSuchBatch(str(batch))
        owner, status, kind = found
        if owner != by:
            raise NotYours(str(batch))
        if status != BatchStatus.DRAFT:
            return False
        cursor.execute(
            "UPDATE batch SET status = 'RUNNING', started_at = %s, reason = %s WHERE id = %s", [now, reason, batch]
        )
        trail.audit(by, f"BATCH_{kind}", f"batch:{batch}", now=now, reason=reason)
    return True


def stop(batch: uuid.UUID, *, by: str, now: datetime) -> bool:
    """Do no further row of a running batch; what was done stays done. False: it was not running."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            """UPDATE batch SET status = 'STOPPED', ended_at = %s, ended_by = %s, lease_until = NULL
            WHERE id = %s AND status = 'RUNNING'""",
            [now, by, batch],
        )
        stopped = bool(cursor.rowcount)
        if stopped:
            trail.audit(by, "BATCH_STOPPED", f"batch:{batch}", now=now)
    return stopped


def take(*, until: datetime, now: datetime) -> Running | None:
    """Take on the running batch that has waited longest, until the lease ends; None when there is none free."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            """UPDATE batch SET lease_until = %s WHERE id = (
                SELECT id FROM batch WHERE status = 'RUNNING' AND (lease_until IS NULL OR lease_until <= %s)
                ORDER BY lease_until NULLS FIRST, started_at LIMIT 1 FOR UPDATE SKIP LOCKED)
            RETURNING id, kind, by, reason, content::text""",
            [until, now],
        )
        found = cursor.fetchone()
    if found is None:
        return None
    key, kind, by, reason, content = found
    return Running(id=key, kind=BatchKind(kind), by=by, reason=reason, content=json.loads(content))


def renew(batch: uuid.UUID, *, until: datetime) -> bool:
    """Keep the lease for longer. False: the batch was stopped or has ended."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("UPDATE batch SET lease_until = %s WHERE id = %s AND status = 'RUNNING'", [until, batch])
        return bool(cursor.rowcount)


def waiting(batch: uuid.UUID, *, limit: int) -> list[Task]:
    """Return the next rows whose turn it is."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT number, operation_id::text, seen_version, seen_generation, forecast, proposal::text
            FROM batch_row WHERE batch_id = %s AND status = 'WAITING' ORDER BY number LIMIT %s""",
            [batch, limit],
        )
        return [
            Task(
                key=RowKey(batch=batch, number=number),
                operation=operation,
                seen_version=version,
                seen_generation=generation,
                forecast=forecast,
                proposal=proposal,
            )
            for number, operation, version, generation, forecast, proposal in cursor.fetchall()
        ]


def done(step: Step, key: RowKey, came: str, *, proposal: str | None = None) -> None:
    """Mark a row as done in the transaction that does it: once done, it is never done again (R9).

    Raises RowDone where another worker has done it meanwhile.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT status FROM batch_row WHERE batch_id = %s AND number = %s", [key.batch, key.number])
        if cursor.fetchone() != (RowStatus.WAITING,):
            raise RowDone(f"row {key.number} of batch {key.batch} is done already")
    step.write(
        """UPDATE batch_row SET status = 'DONE', came = %s, done_at = %s, proposal = COALESCE(%s, proposal)
        WHERE batch_id = %s AND number = %s""",
        [came, step.now, proposal, key.batch, key.number],
    )


def refused(key: RowKey, why: str, *, now: datetime) -> None:
    """Mark a row as not done, with what stood against it."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            """UPDATE batch_row SET status = 'REFUSED', why = %s, done_at = %s
            WHERE batch_id = %s AND number = %s AND status = 'WAITING'""",
            [why[:500], now, key.batch, key.number],
        )


def finish(batch: uuid.UUID, *, now: datetime) -> bool:
    """End a running batch of which no row waits any more. False: it goes on, or had ended before."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            """UPDATE batch SET status = 'DONE', ended_at = %s, lease_until = NULL WHERE id = %s
                AND status = 'RUNNING' AND NOT EXISTS (
                    SELECT FROM batch_row WHERE batch_id = %s AND status = 'WAITING')""",
            [now, batch, batch],
        )
        return bool(cursor.rowcount)


def give_back(batch: uuid.UUID) -> None:
    """Let another worker, or another slice of this one, go on with the batch."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("UPDATE batch SET lease_until = NULL WHERE id = %s AND status = 'RUNNING'", [batch])
