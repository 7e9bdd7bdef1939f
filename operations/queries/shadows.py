"""Shadows and what they differed in: for the page of a trial, and for the call node that registered one (O1)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from django.db import connection
from django.db.models import Count, Q, QuerySet

from operations.comparison import Difference, ShadowState
from operations.machine import Outcome
from operations.models import Divergence, Shadow
from operations.queries import CAP, PAGE, Cursor, scope


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceView:
    """One difference between a release on trial and the existing path."""

    id: int
    shadow: str
    release: str
    kind: Difference
    told: str
    seen: str
    at: datetime
    closed_at: datetime | None
    closed_by: str
    closed_reason: str
    server: str
    tool: str
    client: str
    call_node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowView:
    """One watched call, both sides."""

    id: str
    client: str
    call_node: str
    server: str
    tool: str
    release: str
    task_id: str
    state: ShadowState
    why: str
    registered_at: datetime
    ends_at: datetime
    settled_at: datetime | None
    looks: int
    status: str
    ended_at: datetime | None
    outcome: Outcome | None
    trouble: str
    told_at: datetime | None
    told_outcome: Outcome | None
    told_ended_at: datetime | None
    told_looks: int | None
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """How far the trial of one release has come. Counts are capped."""

    release: str
    states: Mapping[ShadowState, int]
    open: int
    """Divergences that nobody has explained yet."""

    @property
    def watched(self) -> int:
        """Calls that are looked at now."""
        return self.states.get(ShadowState.OBSERVING, 0)

    @property
    def compared(self) -> int:
        """Calls of which both sides are known."""
        return self.states.get(ShadowState.COMPARED, 0)

    @property
    def abandoned(self) -> int:
        """Calls that never had anything to compare."""
        return self.states.get(ShadowState.ABANDONED, 0)


def trial_of(version: str, release: str) -> Trial:
    """Return how far the trial of a release has come. 2 queries."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT state, count(*) FROM (SELECT state FROM shadow WHERE protocol = %s AND release = %s
                LIMIT %s) s GROUP BY 1""",
            [version, release, CAP],
        )
        states = {ShadowState(state): count for state, count in cursor.fetchall()}
    open_ = Divergence.objects.filter(protocol=version, release=release, closed_at__isnull=True)[:CAP].count()
    return Trial(release=release, states=MappingProxyType(states), open=open_)


def count_open() -> Mapping[str, int]:
    """Count the differences that nobody has explained yet, by protocol version. 1 query."""
    rows = Divergence.objects.filter(closed_at__isnull=True).order_by().values_list("protocol")
    return dict(rows.annotate(count=Count("id")))


def open_divergences(version: str, *, limit: int = PAGE) -> tuple[DivergenceView, ...]:
    """Return the differences of a version that nobody has explained yet, newest first. 1 query."""
    return _divergences(version, is_open=True, limit=limit)


def closed_divergences(version: str, *, limit: int = PAGE) -> tuple[DivergenceView, ...]:
    """Return the differences of a version that were explained, newest first. 1 query."""
    return _divergences(version, is_open=False, limit=limit)


def _divergences(version: str, *, is_open: bool, limit: int) -> tuple[DivergenceView, ...]:
    found = Divergence.objects.filter(protocol=version, closed_at__isnull=is_open)
    rows = scope.within(found, server="shadow__server_id")
    return _divergence_views(rows.order_by("-at", "-id")[:limit])


def _divergence_views(rows: QuerySet[Divergence]) -> tuple[DivergenceView, ...]:
    return tuple(
        DivergenceView(
            id=row.pk,
            shadow=str(row.shadow_id),
            release=row.release,
            kind=Difference(row.kind),
            told=row.told,
            seen=row.seen,
            at=row.at,
            closed_at=row.closed_at,
            closed_by=row.closed_by,
            closed_reason=row.closed_reason,
            server=row.shadow.server_id,
            tool=row.shadow.tool.name,
            client=row.shadow.client,
            call_node=row.shadow.call_node,
        )
        for row in rows.select_related("shadow__tool").defer("shadow__answer")
    )


def divergences_of(number: uuid.UUID) -> tuple[DivergenceView, ...]:
    """Return what one shadow differed in. 1 query."""
    rows = scope.within(Divergence.objects.filter(shadow=number), server="shadow__server_id")
    return _divergence_views(rows.order_by("id"))


def shadows_of(version: str, *, after: Cursor | None = None) -> tuple[ShadowView, ...]:
    """Return a page of the shadows of a version, newest first, one more than a page where there is more. 2 queries."""
    rows = scope.within(Shadow.objects.filter(protocol=version))
    if after is not None:
        rows = rows.filter(Q(registered_at__lt=after.at) | Q(registered_at=after.at, id__lt=after.id))
    return _views(rows.defer("answer").select_related("tool").order_by("-registered_at", "-id")[: PAGE + 1])


def shadow_of(client: str, shadow: uuid.UUID) -> ShadowView | None:
    """Return a shadow of this client; None when it has none of this id. 2 queries."""
    found = _views(Shadow.objects.filter(pk=shadow, client=client).defer("answer").select_related("tool"))
    return found[0] if found else None


def shadow(number: uuid.UUID) -> ShadowView | None:
    """Return one shadow, whoever registered it. 2 queries."""
    found = _views(scope.within(Shadow.objects.filter(pk=number)).defer("answer").select_related("tool"))
    return found[0] if found else None


def answer_of(number: uuid.UUID) -> bytes:
    """Return the bytes of the last answer that the release made its mind up from. 1 query."""
    found = scope.within(Shadow.objects.filter(pk=number)).values_list("answer", flat=True).first()
    return bytes(found) if found is not None else b""


def _views(rows: Iterable[Shadow]) -> tuple[ShadowView, ...]:
    found = list(rows)
    kinds: dict[uuid.UUID, list[Difference]] = {}
    for shadow_id, kind in Divergence.objects.filter(shadow__in=[row.pk for row in found]).values_list(
        "shadow_id", "kind"
    ):
        kinds.setdefault(shadow_id, []).append(Difference(kind))
    return tuple(_view(row, tuple(kinds.get(row.pk, ()))) for row in found)


def _view(row: Shadow, differences: tuple[Difference, ...]) -> ShadowView:
    return ShadowView(
        id=str(row.pk),
        client=row.client,
        call_node=row.call_node,
        server=row.server_id,
        tool=row.tool.name,
        release=row.release,
        task_id=row.task_id,
        state=ShadowState(row.state),
        why=row.why,
        registered_at=row.registered_at,
        ends_at=row.ends_at,
        settled_at=row.settled_at,
        looks=row.looks,
        status=row.status,
        ended_at=row.ended_at,
        outcome=Outcome(row.outcome) if row.outcome else None,
        trouble=row.trouble,
        told_at=row.told_at,
        told_outcome=Outcome(row.told_outcome) if row.told_outcome else None,
        told_ended_at=row.told_ended_at,
        told_looks=row.told_looks,
        differences=differences,
    )
