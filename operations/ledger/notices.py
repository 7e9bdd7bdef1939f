"""Writes what people have to be told, in the transaction in which it happened (the outbox of notices).

A notice holds no argument and no words of a server: it says what happened and where to look. Who is told, by which
way and when is decided later, so that no setting and no mail server can ever touch the operation itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction

from operations.notice import Kind

CLOCKS = ((Kind.CLOCK_10, timedelta(minutes=10)), (Kind.CLOCK_15, timedelta(minutes=15)))
"""X4: how long something may stand before a person until people hear of it again."""
CAUGHT_UP = timedelta(hours=2)
"""A sweep that was away tells of clocks that ran out since then; what is older has been seen by now."""

_INSERT = """INSERT INTO notice (at, kind, item, operation_id, server_id, team, also, facts)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (kind, item) DO NOTHING"""


def row(
    kind: Kind,
    item: str,
    *,
    now: datetime,
    operation: str | None = None,
    server: str | None = None,
    team: str = "",
    also: str = "",
    facts: Mapping[str, Any] | None = None,
) -> tuple[str, list[Any]]:
    """Return the statement that writes a notice, for a step that writes it with its own change."""
    return _INSERT, [now, kind, item, operation, server, team, also, json.dumps(facts or {})]


def tell(
    kind: Kind,
    item: str,
    *,
    now: datetime,
    operation: str | None = None,
    server: str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Write a notice inside the transaction that is open; the same item of a kind is told of once."""
    with connection.cursor() as cursor:
        cursor.execute(*row(kind, item, now=now, operation=operation, server=server, facts=facts))


def sweep_notices(*, now: datetime) -> int:
    """Write what only time brings: deadlines that come near, clocks that run out. Return how many were written."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(_REMIND, {"now": now, "kind": Kind.DEADLINE_NEAR})
        written: int = cursor.rowcount
        for kind, age in CLOCKS:
            cursor.execute(_CLOCK, {"now": now, "kind": kind, "since": now - age, "oldest": now - age - CAUGHT_UP})
            written += cursor.rowcount
    return written


# A round shorter than a reminder is reminded of by its own opening. The last reminder escalates (I2).
_REMIND = """
    INSERT INTO notice (at, kind, item, operation_id, server_id, team, also, facts)
    SELECT %(now)s, %(kind)s, near.item, near.operation_id, near.server_id, near.team, near.also, near.facts
    FROM (
        SELECT r.operation_id, o.server_id, COALESCE(r.policy->>'team', '') AS team,
            format('round:%%s/%%s@%%s/%%s', r.operation_id, r.number, remind.s,
                extract(epoch FROM r.deadline_at)::bigint) AS item,
            CASE WHEN remind.s = (SELECT min(one.s::int) FROM jsonb_array_elements_text(r.policy->'remind_s') one(s))
                THEN COALESCE(r.policy->>'escalate_to', '') ELSE '' END AS also,
            jsonb_build_object('round', r.number, 'until', r.deadline_at) AS facts
        FROM input_round r
        JOIN operation o ON o.id = r.operation_id
        CROSS JOIN LATERAL (SELECT s::int FROM jsonb_array_elements_text(r.policy->'remind_s') each(s)) remind
        WHERE r.status = 'OPEN' AND r.deadline_at > %(now)s
            AND r.deadline_at - make_interval(secs => remind.s) <= %(now)s
            AND r.opened_at < r.deadline_at - make_interval(secs => remind.s)
    ) near
    WHERE NOT EXISTS (SELECT FROM notice n WHERE n.kind = %(kind)s AND n.item = near.item)
    ON CONFLICT (kind, item) DO NOTHING
"""
_CLOCK = """
    INSERT INTO notice (at, kind, item, operation_id, server_id, facts)
    SELECT %(now)s, %(kind)s, late.item, late.id, late.server_id, '{}'
    FROM (
        SELECT o.id, o.server_id, format('operation:%%s@%%s', o.id, extract(epoch FROM o.entered_at)::bigint) AS item
        FROM operation o
        WHERE o.state IN ('SUBMISSION_UNKNOWN', 'NOT_FOUND_SAFE', 'UNKNOWN')
            AND o.entered_at <= %(since)s AND o.entered_at > %(oldest)s
    ) late
    WHERE NOT EXISTS (SELECT FROM notice n WHERE n.kind = %(kind)s AND n.item = late.item)
    ON CONFLICT (kind, item) DO NOTHING
"""
