"""What waits for a call node."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyRow:
    """One receipt that its API client has not acknowledged yet.

    It holds nothing that changes from one delivery to the next: the same row reads the same each time.
    """

    seq: int
    receipt: str
    operation: str
    call_node: str
    outcome: str
    verdict: str
    summary: str
    decided_at: datetime
    result_digest: str | None
    result_size: int | None
    """Bytes of the validated result; None where the outcome carries none."""
    result: bytes | None = field(repr=False)
    """The validated result itself, when it is no bigger than what was asked to come inline."""


def ready_rows(client: str, *, after: int, limit: int, inline: int) -> tuple[ReadyRow, ...]:
    """Return unacknowledged rows of one API client, oldest first. 1 query.

    `after` pages inside one pass and is no place to resume from: numbers are drawn before they are committed, so a
    smaller one may turn up later (B227). Whoever starts again starts at 0; acknowledged rows are gone by then.
    `inline` is in bytes.
    """
    with connection.cursor() as cursor:
        cursor.execute(_READY, [inline, client, after, limit])
        return tuple(_ready_row(found) for found in cursor.fetchall())


_READY = """
    SELECT x.seq, r.id::text, r.operation_id::text, r.call_node, r.outcome, r.verdict, r.summary, r.at,
        r.result_digest, octet_length(r.result), CASE WHEN octet_length(r.result) <= %s THEN r.result END
    FROM outbox x JOIN receipt r ON r.id = x.receipt_id
    WHERE x.client = %s AND x.acknowledged_at IS NULL AND x.seq > %s ORDER BY x.seq LIMIT %s"""
# Plain SQL: every call node asks this again and again, and the ORM would write it anew each time.


def _ready_row(found: tuple[Any, ...]) -> ReadyRow:
    *values, small = found
    named = dict(zip(ReadyRow.__dataclass_fields__, values, strict=False))
    return ReadyRow(**named, result=None if small is None else bytes(small))
