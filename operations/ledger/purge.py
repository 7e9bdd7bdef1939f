"""Letting go of payload bytes by policy: the only thing in the record that ever goes (L7)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction

from operations.ledger import admin
from operations.ledger.admin import Note

AT_ONCE = 1000
"""Operations in one transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Purged:
    """What one round of the purge let go."""

    operations: int
    pieces: int
    size: int
    """Bytes."""


def purge_payloads(*, ended_before: datetime, note: Note) -> Purged:
    """Let go of the evidence bytes of up to AT_ONCE operations that ended before; nothing left: all are 0.

    Digests, sizes, journal and receipts stay, and so does a receipt's own payload. What somebody still has to
    judge keeps its bytes: a disputed operation, and one whose effect record is open. One row of the audit says
    who let go of how much, and why; the database refuses every other deletion.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SET LOCAL longcall.purge = 'on'")
        cursor.execute(
            """WITH over AS (
                SELECT o.id FROM receipt r JOIN operation o ON o.id = r.operation_id
                WHERE r.at < %s AND NOT o.disputed
                    AND EXISTS (SELECT FROM evidence e JOIN evidence_payload p ON p.evidence_id = e.id
                        WHERE e.operation_id = o.id)
                    AND NOT EXISTS (SELECT FROM effect_record f
                        WHERE f.operation_id = o.id AND f.status IN ('OPEN', 'STILL_OPEN'))
                ORDER BY r.at LIMIT %s),
            gone AS (
                DELETE FROM evidence_payload p USING evidence e, over
                WHERE p.evidence_id = e.id AND e.operation_id = over.id RETURNING e.operation_id, e.size)
            SELECT count(DISTINCT operation_id), count(*), COALESCE(sum(size), 0) FROM gone""",
            [ended_before, AT_ONCE],
        )
        operations, pieces, size = cursor.fetchone()
        done = Purged(operations=operations, pieces=pieces, size=int(size))
        if pieces:
            told = {"ended_before": ended_before.isoformat(), "operations": operations, "pieces": pieces}
            admin.record(note, "PAYLOADS_PURGED", "evidence", before={}, after=told | {"bytes": done.size})
    return done
