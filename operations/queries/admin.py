"""What admins have changed about how calls are run, newest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from operations.models import AuditEvent
from operations.queries import PAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One decision of an admin."""

    at: datetime
    by: str
    what: str
    target: str
    reason: str
    before: Mapping[str, Any]
    """Only what differs."""
    after: Mapping[str, Any]

    @property
    def differences(self) -> tuple[tuple[str, object, object], ...]:
        """What changed: name, before, after; a name that is on one side only has None on the other."""
        names = sorted({*self.before, *self.after})
        return tuple((name, self.before.get(name), self.after.get(name)) for name in names)


def changes_of(*targets: str, limit: int = PAGE) -> tuple[Change, ...]:
    """Return the newest changes of these targets, such as `server:reports`. 1 query."""
    rows = AuditEvent.objects.filter(target__in=targets, outcome="DONE").order_by("-id")[:limit]
    return tuple(
        Change(
            at=row.at,
            by=row.by,
            what=row.what,
            target=row.target,
            reason=row.reason,
            before=row.before,
            after=row.after,
        )
        for row in rows
    )
