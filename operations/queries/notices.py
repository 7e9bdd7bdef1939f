"""How teams are told, and what became of each notice."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, time

from django.db.models import Count, Q

from operations.models import NoticeDelivery, NoticeRoute
from operations.queries import CAP, PAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteView:
    """One way to reach a team, and how it does."""

    id: int
    way: str
    address: str = field(repr=False)
    secret_ref: str
    allow_private: bool
    kinds: tuple[str, ...]
    quiet_from: time | None
    quiet_until: time | None
    zone: str
    language: str
    enabled: bool
    tested_at: datetime | None
    test_error: str
    waiting: int
    """Deliveries that are still to be sent."""
    failing: int
    """Of these, how many have failed before; and those that were given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryView:
    """One notice on one way."""

    kind: str
    at: datetime
    operation: str
    way: str
    attempts: int
    sent_at: datetime | None
    next_at: datetime | None
    error: str

    @property
    def standing(self) -> str:
        """SENT, WAITING, FAILING or GIVEN_UP."""
        if self.sent_at:
            return "SENT"
        if self.next_at is None:
            return "GIVEN_UP"
        return "FAILING" if self.error else "WAITING"


def routes_of(team: str) -> tuple[RouteView, ...]:
    """Return the ways of a team, oldest first. One query."""
    waiting = Count("noticedelivery", filter=Q(noticedelivery__next_at__isnull=False))
    failing = Count("noticedelivery", filter=Q(noticedelivery__sent_at__isnull=True) & ~Q(noticedelivery__error=""))
    rows = NoticeRoute.objects.filter(team_id=team).annotate(waiting=waiting, failing=failing).order_by("id")
    return tuple(
        RouteView(
            id=row.pk,
            way=row.way,
            address=row.address,
            secret_ref=row.secret_ref,
            allow_private=row.allow_private,
            kinds=tuple(row.kinds),
            quiet_from=row.quiet_from,
            quiet_until=row.quiet_until,
            zone=row.zone,
            language=row.language,
            enabled=row.enabled,
            tested_at=row.tested_at,
            test_error=row.test_error,
            waiting=min(row.waiting, CAP),
            failing=min(row.failing, CAP),
        )
        for row in rows
    )


def deliveries_of(team: str) -> tuple[DeliveryView, ...]:
    """Return the newest deliveries of a team's ways. One query."""
    rows = NoticeDelivery.objects.filter(route__team_id=team).select_related("notice", "route").order_by("-id")[:PAGE]
    return tuple(
        DeliveryView(
            kind=row.notice.kind,
            at=row.notice.at,
            operation=str(row.notice.operation_id or ""),
            way=row.route.way,
            attempts=row.attempts,
            sent_at=row.sent_at,
            next_at=row.next_at,
            error=row.error,
        )
        for row in rows
    )


def failing() -> int:
    """How many deliveries cannot be sent now, over all teams; up to 1 000. One query."""
    return NoticeDelivery.objects.filter(sent_at__isnull=True, next_at__isnull=False).exclude(error="")[:CAP].count()
