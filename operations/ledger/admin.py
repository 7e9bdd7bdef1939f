"""The note that goes with each decision of an admin: who, why, before and after, in the same transaction (O5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from operations.ledger import trail


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Who decides something about how calls are run, and why."""

    by: str
    reason: str
    now: datetime


def record(note: Note, what: str, target: str, *, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Write the note of a change, inside the transaction of the change; only what differs is kept."""
    trail.audit(note.by, what, target, now=note.now, reason=note.reason, before=before, after=after)


def locked(table: str, key: str, name: str, columns: tuple[str, ...]) -> dict[str, Any] | None:
    """Lock one row of the profile and return these columns of it; None when there is no such row."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(columns)} FROM {table} WHERE {key} = %s FOR UPDATE", [name])
        found = cursor.fetchone()
    return dict(zip(columns, found, strict=True)) if found else None
