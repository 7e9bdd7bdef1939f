"""The audit as people read it: who did what to what, from where, and what was refused. Newest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from operations.models import AuditEvent, AuditOutcome
from operations.queries import PAGE
from operations.queries.scope import EVERYTHING, present

EXPORTED = 10_000
"""Rows of one export at most; a narrower time brings the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrow:
    """What the list is narrowed to; empty means all. `target` fits everything that begins with it."""

    by: str = ""
    target: str = ""
    what: str = ""
    outcome: str = ""
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_plain(self) -> bool:
        """True: nothing is left out."""
        return self == Narrow()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row of the audit."""

    id: int
    at: datetime
    by: str
    what: str
    target: str
    refused: bool
    reason: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    ip: str
    session: str

    @property
    def operation(self) -> str:
        """The id of the operation it is about; empty where it is about none."""
        kind, _colon, name = self.target.partition(":")
        return name if kind == "operation" else ""

    @property
    def differences(self) -> tuple[tuple[str, object, object], ...]:
        """What changed: name, before, after; a name that is on one side only has None on the other."""
        names = sorted({*self.before, *self.after})
        return tuple((name, self.before.get(name), self.after.get(name)) for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Up to 50 entries. `after` is the cursor of the next page, empty on the last."""

    entries: tuple[Entry, ...]
    after: str


def find(narrow: Narrow, *, after: str = "") -> Page:
    """Return one page. One query."""
    rows = _narrowed(narrow)
    if after.isascii() and after.isdecimal():
        rows = rows.filter(id__lt=int(after[:18]))
    found = list(rows[: PAGE + 1])
    more = len(found) > PAGE
    return Page(entries=tuple(_entry(row) for row in found[:PAGE]), after=str(found[PAGE - 1].pk) if more else "")


def export(narrow: Narrow) -> tuple[Entry, ...]:
    """Return the newest entries of a filter, EXPORTED at most. One query."""
    return tuple(_entry(row) for row in _narrowed(narrow)[:EXPORTED])


def verbs() -> tuple[str, ...]:
    """Return every verb that was ever noted, sorted, without reading every row."""
    with connection.cursor() as cursor:
        cursor.execute(
            """WITH RECURSIVE verb AS (
                (SELECT what FROM audit_event ORDER BY what LIMIT 1)
                UNION ALL
                SELECT (SELECT e.what FROM audit_event e WHERE e.what > verb.what ORDER BY e.what LIMIT 1)
                FROM verb WHERE verb.what IS NOT NULL)
            SELECT what FROM verb WHERE what IS NOT NULL"""
        )
        return tuple(what for (what,) in cursor.fetchall())


def _narrowed(narrow: Narrow) -> QuerySet[AuditEvent]:
    rows = AuditEvent.objects.order_by("-id")
    if present() != EVERYTHING:
        rows = rows.filter(server__in=["", *sorted(present().servers or ())])
    if narrow.by:
        rows = rows.filter(by=narrow.by)
    if narrow.target:
        rows = rows.filter(target__startswith=narrow.target)
    if narrow.what:
        rows = rows.filter(what=narrow.what)
    if narrow.outcome in AuditOutcome.values:
        rows = rows.filter(outcome=narrow.outcome)
    if narrow.since:
        rows = rows.filter(at__gte=narrow.since)
    if narrow.until:
        rows = rows.filter(at__lt=narrow.until)
    return rows


def _entry(row: AuditEvent) -> Entry:
    return Entry(
        id=row.pk,
        at=row.at,
        by=row.by,
        what=row.what,
        target=row.target,
        refused=row.outcome == AuditOutcome.REFUSED,
        reason=row.reason,
        before=row.before,
        after=row.after,
        ip=row.ip,
        session=row.session,
    )
