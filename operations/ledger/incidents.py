"""One server's outage is one incident, not a thousand separate items (X4).

A sweep puts the items of the desk that belong together into one incident: same server, same sub-reason, and no gap
between one and the next that is longer than GAP. It moves no operation; it only says what belongs together, and what
has left. Items that are too few for an incident stay single.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.db import connection, transaction

from operations.ledger import notices
from operations.notice import Kind

GAP = timedelta(minutes=10)
"""Longer than this without a new item: the next one belongs to another outage."""
FROM = 3
"""As many items make an incident."""
ON_DESK = ["SUBMISSION_UNKNOWN", "NOT_FOUND_SAFE", "UNKNOWN"]
LOST = "SUBMIT_LOST"
"""The sub-reason of an operation that is still being looked for after its submit was lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loose:
    """An item of the desk that belongs to no incident yet."""

    operation: str
    server: str
    reason: str
    entered_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """One incident while it grows. `is_new`: it has no row yet."""

    id: uuid.UUID
    server: str
    reason: str
    opened_at: datetime
    last_at: datetime
    is_new: bool = False
    items: tuple[Loose, ...] = ()


def gather(*, now: datetime) -> int:
    """Put what belongs together into incidents, let go what has left the desk; return how many incidents are new.

    Two sweeps at once would make two incidents of one outage: the second returns at once.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(hashtext('incidents'))")
        if not cursor.fetchone()[0]:
            return 0
        _let_go()
        grown = [stretch for stretch in group(_loose(), _open()) if stretch.items]
        for stretch in grown:
            _write(stretch, now)
        _close(now)
    return sum(stretch.is_new for stretch in grown)


def group(items: Iterable[Loose], known: Sequence[Stretch]) -> list[Stretch]:
    """Return the incidents, known and new, with the items that join them; too few items make none."""
    ordered = sorted(items, key=lambda item: (item.server, item.reason, item.entered_at))
    found: list[Stretch] = []
    for (server, reason), members in itertools.groupby(ordered, key=lambda item: (item.server, item.reason)):
        mine = [one for one in known if (one.server, one.reason) == (server, reason)]
        found += _stretches(list(members), mine)
    return found


def _stretches(items: Sequence[Loose], known: Sequence[Stretch]) -> list[Stretch]:
    done: list[Stretch] = []
    left: list[Stretch] = list(known)
    for item in items:
        place = next((n for n, one in enumerate(left) if _is_near(one, item)), None)
        if place is None:
            left.append(_begun_with(item))
        else:
            left[place] = _joined(left[place], item)
    done += [one for one in left if not one.is_new or len(one.items) >= FROM]
    return done


def _is_near(stretch: Stretch, item: Loose) -> bool:
    return stretch.opened_at - GAP <= item.entered_at <= stretch.last_at + GAP


def _begun_with(item: Loose) -> Stretch:
    return Stretch(
        id=uuid.uuid4(),
        server=item.server,
        reason=item.reason,
        opened_at=item.entered_at,
        last_at=item.entered_at,
        is_new=True,
        items=(item,),
    )


def _joined(stretch: Stretch, item: Loose) -> Stretch:
    return replace(
        stretch,
        opened_at=min(stretch.opened_at, item.entered_at),
        last_at=max(stretch.last_at, item.entered_at),
        items=(*stretch.items, item),
    )


def _loose() -> list[Loose]:
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT o.id::text, o.server_id, COALESCE(NULLIF(o.reason, ''), %s), o.entered_at FROM operation o
            WHERE o.state IN ('SUBMISSION_UNKNOWN', 'NOT_FOUND_SAFE', 'UNKNOWN')
                AND NOT EXISTS (SELECT FROM incident_item i WHERE i.operation_id = o.id AND i.left_at IS NULL)
            ORDER BY o.entered_at""",
            [LOST],
        )
        return [
            Loose(operation=operation, server=server, reason=reason, entered_at=at)
            for operation, server, reason, at in cursor.fetchall()
        ]


def _open() -> list[Stretch]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, server_id, reason, opened_at, last_at FROM incident WHERE closed_at IS NULL")
        return [
            Stretch(id=key, server=server, reason=reason, opened_at=opened, last_at=last)
            for key, server, reason, opened, last in cursor.fetchall()
        ]


def _write(stretch: Stretch, now: datetime) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO incident (id, server_id, reason, opened_at, last_at) VALUES (%s, %s, %s, %s, %s)
            ON CONFLICT (id) DO UPDATE SET opened_at = EXCLUDED.opened_at, last_at = EXCLUDED.last_at""",
            [stretch.id, stretch.server, stretch.reason, stretch.opened_at, stretch.last_at],
        )
        cursor.execute(
            """INSERT INTO incident_item (incident_id, operation_id, entered_at)
            SELECT %s, * FROM unnest(%s::uuid[], %s::timestamptz[]) ON CONFLICT DO NOTHING""",
            [stretch.id, [item.operation for item in stretch.items], [item.entered_at for item in stretch.items]],
        )
    if stretch.is_new:
        facts = {"items": len(stretch.items), "reason": stretch.reason}
        notices.tell(Kind.INCIDENT, f"incident:{stretch.id}", now=now, server=stretch.server, facts=facts)


def _let_go() -> None:
    """Note what has left the desk, when, and whether a person or evidence took it off."""
    with connection.cursor() as cursor:
        cursor.execute(
            """UPDATE incident_item i SET left_at = step.at,
                left_by = CASE WHEN step.actor LIKE 'person:%%' THEN 'PERSON' ELSE 'EVIDENCE' END
            FROM operation o CROSS JOIN LATERAL (
                SELECT j.at, j.actor FROM journal j WHERE j.operation_id = o.id AND j.kind = 'STEP'
                    AND j.source = ANY(%s) AND NOT j.target = ANY(%s) ORDER BY j.id DESC LIMIT 1) step
            WHERE i.left_at IS NULL AND o.id = i.operation_id AND NOT o.state = ANY(%s)""",
            [ON_DESK, ON_DESK, ON_DESK],
        )


def _close(now: datetime) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            """UPDATE incident SET closed_at = %s WHERE closed_at IS NULL AND NOT EXISTS (
                SELECT FROM incident_item i WHERE i.incident_id = incident.id AND i.left_at IS NULL)""",
            [now],
        )
