"""The way out: what waits for a call node, until it says that it has it (R6)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import connection, transaction


def mark_delivered(*, client: str, receipts: Sequence[str], now: datetime) -> None:
    """Count one delivery of each receipt that still waits."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            """UPDATE outbox SET deliveries = deliveries + 1, delivered_at = %s
            WHERE client = %s AND receipt_id = ANY(%s::uuid[]) AND acknowledged_at IS NULL""",
            [now, client, list(receipts)],
        )


def acknowledge(*, client: str, receipts: Sequence[str], now: datetime) -> tuple[str, ...]:
    """End the delivery of these receipts; return those that are this client's. Repeating is harmless."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            """UPDATE outbox SET acknowledged_at = COALESCE(acknowledged_at, %s)
            WHERE client = %s AND receipt_id = ANY(%s::uuid[]) RETURNING receipt_id::text""",
            [now, client, list(receipts)],
        )
        return tuple(row[0] for row in cursor.fetchall())
