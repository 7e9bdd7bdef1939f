"""Incidents as people see them: one outage with its figures, and what has left the desk by itself (X4)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from operations.machine import State
from operations.models import Incident, Journal
from operations.queries import PAGE
from operations.queries.scope import clause, within

ON_DESK = ["SUBMISSION_UNKNOWN", "NOT_FOUND_SAFE", "UNKNOWN"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentCard:
    """One incident with its figures; each figure stops at the cap of a batch."""

    id: uuid.UUID
    server: str
    server_title: str
    reason: str
    opened_at: datetime
    last_at: datetime
    closed_at: datetime | None
    items: int
    open: int
    left_by_evidence: int
    left_by_people: int
    with_task: int
    """Open items of which the task id is known: they can be looked up."""
    oldest_at: datetime | None
    """When the oldest of the open items came: its clock runs from there."""
    claimed_by: tuple[str, ...]


_CARDS = """
    SELECT n.id, n.server_id, s.title, n.reason, n.opened_at, n.last_at, n.closed_at, f.*
    FROM incident n JOIN server s ON s.slug = n.server_id CROSS JOIN LATERAL (
        SELECT count(*), count(*) FILTER (WHERE i.left_at IS NULL), count(*) FILTER (WHERE i.left_by = 'EVIDENCE'),
            count(*) FILTER (WHERE i.left_by = 'PERSON'),
            count(*) FILTER (WHERE i.left_at IS NULL AND o.task_id IS NOT NULL),
            min(i.entered_at) FILTER (WHERE i.left_at IS NULL),
            COALESCE(array_agg(DISTINCT c.by) FILTER (WHERE i.left_at IS NULL AND c.by IS NOT NULL), '{}')
        FROM incident_item i JOIN operation o ON o.id = i.operation_id
            LEFT JOIN desk_claim c ON c.operation_id = i.operation_id WHERE i.incident_id = n.id) f
"""


def find_open(*, limit: int = PAGE) -> tuple[IncidentCard, ...]:
    """Return the incidents with items that still stand on the desk, oldest first. 1 query."""
    here, seen = clause("n.server_id")
    return _cards(f"{_CARDS} WHERE n.closed_at IS NULL AND {here} ORDER BY n.opened_at, n.id LIMIT %s", [*seen, limit])


def find_closed(*, limit: int = 10) -> tuple[IncidentCard, ...]:
    """Return the incidents that are over, newest first. 1 query."""
    here, seen = clause("n.server_id")
    return _cards(
        f"{_CARDS} WHERE n.closed_at IS NOT NULL AND {here} ORDER BY n.opened_at DESC, n.id DESC LIMIT %s",
        [*seen, limit],
    )


def read(incident: uuid.UUID) -> IncidentCard | None:
    """Return one incident; None when there is none. 1 query."""
    here, seen = clause("n.server_id")
    found = _cards(f"{_CARDS} WHERE n.id = %s AND {here}", [incident, *seen])
    return found[0] if found else None


def _cards(sql: str, params: Sequence[Any]) -> tuple[IncidentCard, ...]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        rows = cursor.fetchall()
    return tuple(
        IncidentCard(
            id=row[0],
            server=row[1],
            server_title=row[2],
            reason=row[3],
            opened_at=row[4],
            last_at=row[5],
            closed_at=row[6],
            items=row[7],
            open=row[8],
            left_by_evidence=row[9],
            left_by_people=row[10],
            with_task=row[11],
            oldest_at=row[12],
            claimed_by=tuple(row[13]),
        )
        for row in rows
    )


def open_items(incident: uuid.UUID, *, limit: int) -> list[str]:
    """Return the operations of an incident that still stand on the desk, oldest clock first. 1 query."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT operation_id::text FROM incident_item WHERE incident_id = %s AND left_at IS NULL
            ORDER BY entered_at, operation_id LIMIT %s""",
            [incident, limit],
        )
        return [row[0] for row in cursor.fetchall()]


def incident_of(operation: uuid.UUID) -> uuid.UUID | None:
    """Return the incident that an item of the desk belongs to; None when it stands alone. 1 query."""
    found = Incident.objects.filter(incidentitem__operation=operation, incidentitem__left_at__isnull=True)
    return found.values_list("id", flat=True).first()


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Something that stood on the desk and does no more."""

    operation: str
    title: str
    server: str
    call_node: str
    at: datetime
    source: State
    target: State
    state: State
    outcome: str
    actor: str

    @property
    def by_itself(self) -> bool:
        """True: evidence settled it; nobody had to decide."""
        return not self.actor.startswith("person:")


def find_left(*, limit: int = PAGE) -> tuple[Left, ...]:
    """Return what has left the desk lately, newest first. 1 query over one small index."""
    rows = Journal.objects.filter(kind="STEP", source__in=ON_DESK).exclude(target__in=ON_DESK)
    found = within(rows, server="operation__server_id").select_related(
        "operation__descriptor", "operation__tool", "operation__receipt"
    )
    found = found.order_by("-at", "-id")
    return tuple(_left(row) for row in found.defer("operation__arguments", "operation__receipt__result")[:limit])


def left_of(operation: uuid.UUID) -> Left | None:
    """Return how an operation left the desk the last time; None when it never stood there. 1 query."""
    rows = Journal.objects.filter(operation=operation, kind="STEP", source__in=ON_DESK).exclude(target__in=ON_DESK)
    row = rows.select_related("operation__descriptor", "operation__tool", "operation__receipt").order_by("-id").first()
    return _left(row) if row else None


def _left(row: Journal) -> Left:
    operation = row.operation
    receipt = getattr(operation, "receipt", None)
    return Left(
        operation=str(operation.id),
        title=operation.descriptor.title or operation.tool.name,
        server=operation.server_id,
        call_node=operation.call_node,
        at=row.at,
        source=State(row.source),
        target=State(row.target),
        state=State(operation.state),
        outcome=receipt.outcome if receipt else "",
        actor=row.actor,
    )
