"""Batches as people see them: the preview, how far one has come, and what came of each row."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection
from django.db.models import Exists, OuterRef, QuerySet

from operations.machine import State
from operations.models import Batch, BatchKind, BatchRow, BatchStatus, Effect, RowStatus, VerdictProposal
from operations.queries import PAGE, scope

_SERVER = "operation__server_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many rows of a batch had one forecast and came to one thing."""

    forecast: str
    status: str
    came: str
    why: str
    before: bool
    """Refused by the preview already."""
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCard:
    """A batch with its figures."""

    id: uuid.UUID
    kind: BatchKind
    status: BatchStatus
    by: str
    made_at: datetime
    reason: str
    content: Mapping[str, str]
    source: str
    incident: uuid.UUID | None
    parent: uuid.UUID | None
    started_at: datetime | None
    ended_at: datetime | None
    ended_by: str
    tallies: tuple[Tally, ...]
    proposed: int
    """Proposals it made that still wait for a second person."""

    @property
    def total(self) -> int:
        """All its rows, also those that the preview refused."""
        return sum(tally.count for tally in self.tallies)

    @property
    def wanted(self) -> int:
        """The rows that are to be done, or were."""
        return sum(tally.count for tally in self.tallies if not tally.before)

    @property
    def waiting(self) -> int:
        """Rows whose turn has not come."""
        return self._count(RowStatus.WAITING)

    @property
    def done(self) -> int:
        """Rows that were done."""
        return self._count(RowStatus.DONE)

    @property
    def refused(self) -> int:
        """Rows that were not done because they had changed since the preview."""
        return sum(tally.count for tally in self.tallies if tally.status == RowStatus.REFUSED and not tally.before)

    @property
    def gone(self) -> int:
        """Rows that have had their turn."""
        return self.done + self.refused

    @property
    def is_draft(self) -> bool:
        """True: nothing happens before its person starts it."""
        return self.status is BatchStatus.DRAFT

    @property
    def is_running(self) -> bool:
        """True: it is being done."""
        return self.status is BatchStatus.RUNNING

    def _count(self, status: str) -> int:
        return sum(tally.count for tally in self.tallies if tally.status == status)


def read(batch: uuid.UUID) -> BatchCard | None:
    """Return a batch with its figures; None when there is none. 3 queries for any number of rows."""
    row = _seen(Batch.objects.filter(id=batch)).first()
    if row is None:
        return None
    return BatchCard(
        id=row.id,
        kind=BatchKind(row.kind),
        status=BatchStatus(row.status),
        by=row.by,
        made_at=row.made_at,
        reason=row.reason,
        content=row.content,
        source=row.source,
        incident=row.incident_id,
        parent=row.parent_id,
        started_at=row.started_at,
        ended_at=row.ended_at,
        ended_by=row.ended_by,
        tallies=_tallies(row),
        proposed=_open_proposals(row.id),
    )


def _seen(found: QuerySet[Batch]) -> QuerySet[Batch]:
    """Leave out the batches of which no row belongs to a server that is seen."""
    if scope.present().servers is None:
        return found
    return found.filter(Exists(scope.within(BatchRow.objects.filter(batch=OuterRef("id")), server=_SERVER)))


def _tallies(batch: Batch) -> tuple[Tally, ...]:
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT forecast, status, came, why, COALESCE(status = 'REFUSED' AND done_at <= %s, false), count(*)
            FROM batch_row WHERE batch_id = %s GROUP BY 1, 2, 3, 4, 5 ORDER BY 6 DESC, 1, 2, 3, 4""",
            [batch.made_at, batch.id],
        )
        return tuple(
            Tally(forecast=forecast, status=status, came=came, why=why, before=before, count=count)
            for forecast, status, came, why, before, count in cursor.fetchall()
        )


def _open_proposals(batch: uuid.UUID) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT count(*) FROM batch_row r JOIN verdict_proposal p ON p.id = r.proposal AND p.confirmed IS NULL
            JOIN batch b ON b.id = r.batch_id AND b.kind = 'VERDICT' WHERE r.batch_id = %s""",
            [batch],
        )
        return int(cursor.fetchone()[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLine:
    """One operation of a batch: what was shown, what came of it, and how it stands now."""

    number: int
    operation: str
    title: str
    server: str
    call_node: str
    seen_state: State
    state: State
    outcome: str
    forecast: str
    status: str
    came: str
    why: str
    has_moved: bool
    """What was shown of it is no longer true."""


def find_lines(batch: uuid.UUID, *, after: int = 0, only: str = "", limit: int = PAGE) -> tuple[BatchLine, ...]:
    """Return a page of rows in their order; `only`: those of one status. 1 query."""
    found = scope.within(BatchRow.objects.filter(batch=batch, number__gt=after), server=_SERVER).order_by("number")
    if only in RowStatus.values:
        found = found.filter(status=only)
    rows = found.select_related("operation__descriptor", "operation__tool", "operation__receipt").only(
        "number",
        "seen_state",
        "forecast",
        "status",
        "came",
        "why",
        "seen_generation",
        "operation__state",
        "operation__cancel_generation",
        "operation__server_id",
        "operation__call_node",
        "operation__descriptor__title",
        "operation__tool__name",
        "operation__receipt__outcome",
    )
    return tuple(_line(row) for row in rows[:limit])


def _line(row: BatchRow) -> BatchLine:
    operation = row.operation
    receipt = getattr(operation, "receipt", None)
    return BatchLine(
        number=row.number,
        operation=str(operation.id),
        title=operation.descriptor.title or operation.tool.name,
        server=operation.server_id,
        call_node=operation.call_node,
        seen_state=State(row.seen_state),
        state=State(operation.state),
        outcome=receipt.outcome if receipt else "",
        forecast=row.forecast,
        status=row.status,
        came=row.came,
        why=row.why,
        has_moved=row.seen_generation != operation.cancel_generation or row.seen_state != operation.state,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTitle:
    """A batch in a list of batches."""

    id: uuid.UUID
    kind: BatchKind
    status: BatchStatus
    by: str
    made_at: datetime
    content: Mapping[str, str]


def find_recent(*, incident: uuid.UUID | None = None, limit: int = 10) -> tuple[BatchTitle, ...]:
    """Return the newest started batches, of one incident or of all. 1 query."""
    found = Batch.objects.exclude(status=BatchStatus.DRAFT).order_by("-made_at", "-id")
    if incident is not None:
        found = found.filter(incident=incident)
    return _titles(list(_seen(found)[:limit]))


def find_proposing(*, limit: int = PAGE) -> tuple[BatchTitle, ...]:
    """Return the batches of which proposals wait for a second person, oldest first. 1 query."""
    rows = BatchRow.objects.filter(batch=OuterRef("id"), proposal__isnull=False)
    still_open = VerdictProposal.objects.filter(confirmed__isnull=True, id=OuterRef("proposal"))
    found = Batch.objects.filter(Exists(rows.filter(Exists(still_open))), kind=BatchKind.VERDICT).order_by("made_at")
    return _titles(list(_seen(found)[:limit]))


def _titles(found: Sequence[Batch]) -> tuple[BatchTitle, ...]:
    return tuple(
        BatchTitle(
            id=row.id,
            kind=BatchKind(row.kind),
            status=BatchStatus(row.status),
            by=row.by,
            made_at=row.made_at,
            content=row.content,
        )
        for row in found
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ByContract:
    """How many rows of a preview come to one thing under one contract."""

    forecast: str
    protocol: str
    release: str
    count: int


def by_contract(batch: uuid.UUID) -> tuple[ByContract, ...]:
    """Group the rows that are to be done by what they come to and by whose contract. 1 query."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT r.forecast, o.protocol,
                CASE WHEN o.created_epoch = p.epoch THEN o.release ELSE p.release END AS release, count(*)
            FROM batch_row r JOIN operation o ON o.id = r.operation_id JOIN protocol_version p ON p.version = o.protocol
            WHERE r.batch_id = %s AND r.status = 'WAITING' GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3""",
            [batch],
        )
        return tuple(
            ByContract(forecast=forecast, protocol=protocol, release=release, count=count)
            for forecast, protocol, release, count in cursor.fetchall()
        )


def count_with_effects(batch: uuid.UUID) -> int:
    """Count the rows whose tool may change something outside. 1 query."""
    rows = BatchRow.objects.filter(batch=batch, status=RowStatus.WAITING)
    return rows.exclude(operation__tool__effect=Effect.NONE).count()
