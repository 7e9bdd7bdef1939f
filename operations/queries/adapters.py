"""Protocol versions with their releases: what takes new calls, what is in flight, how it goes (N1, O1 to O5).

A page of these costs the same number of queries for any number of versions, servers and operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from django.db import connection
from django.db.models import Max

from operations.machine import FINAL, State
from operations.models import AdapterRelease, AuditEvent, ProtocolVersion, Server
from operations.queries import PAGE
from operations.queries.scope import clause, within
from operations.rollout import Mode, Offer, on_trial

HOUR = timedelta(hours=1)
DOUBTS = ("ANOMALY", "NOTHING_USABLE")
"""What a server says when its contract is not the one we know (L6, N3)."""
TROUBLE = (*DOUBTS, "ANSWER_LOST", "SUBMIT_NOT_SENT", "SESSION_LOST")
"""Steps that brought nothing usable."""
_FINAL = sorted(FINAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseView:
    """One release of a version."""

    release: str
    mode: Mode
    share: int
    since: datetime | None
    in_flight: int
    """Operations that it looks after now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerUse:
    """A server of a version, with how much of its limit is used."""

    slug: str
    title: str
    allowed: float
    used: float | None
    requests: int
    """Requests that had leave to go out, ever."""
    submits_open: bool
    closed_tools: tuple[str, ...]
    open_tools: tuple[str, ...]
    contract_changed_at: datetime | None
    """Since when it declares or describes something else than before; None: nothing waits for an admin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How the last hour went, from the journal."""

    steps: int = 0
    trouble: int = 0
    doubts: int = 0

    @property
    def error_share(self) -> float | None:
        """Per cent of the recorded steps that brought nothing usable; None without a step."""
        return 100 * self.trouble / self.steps if self.steps else None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionView:
    """One protocol version, whole."""

    version: str
    epoch: int
    submits_open: bool
    closed_reason: str
    looks_after: str
    """The release that looks after what was begun under an earlier epoch."""
    rolled_back_at: datetime | None
    releases: tuple[ReleaseView, ...]
    """Oldest first."""
    servers: tuple[ServerUse, ...]
    in_flight: Mapping[State, int]
    of_earlier_epochs: int
    """Operations in flight that were begun before the last rollback."""
    negotiated_at: datetime | None
    health: Health

    @property
    def total_in_flight(self) -> int:
        """How many operations are open."""
        return sum(self.in_flight.values())

    @property
    def offers(self) -> tuple[Offer, ...]:
        """The releases as a new call meets them."""
        return tuple(Offer(release=one.release, mode=one.mode, share=one.share) for one in self.releases)

    @property
    def changed(self) -> tuple[ServerUse, ...]:
        """Servers whose contract may have changed (O5)."""
        return tuple(server for server in self.servers if server.contract_changed_at is not None)

    @property
    def on_trial(self) -> str | None:
        """The release that watches what existing paths do; None: none does."""
        return on_trial(self.offers)

    @property
    def is_retired(self) -> bool:
        """True: nothing of it will ever run again."""
        return bool(self.releases) and all(one.mode is Mode.RETIRED for one in self.releases)


def versions(*, now: datetime) -> tuple[VersionView, ...]:
    """Return every registered protocol version. 7 queries."""
    return _views(ProtocolVersion.objects.order_by("version"), now)


def version(name: str, *, now: datetime) -> VersionView | None:
    """Return one protocol version; None when there is none of this name. 7 queries."""
    found = _views(ProtocolVersion.objects.filter(version=name), now)
    return found[0] if found else None


def _views(rows: Any, now: datetime) -> tuple[VersionView, ...]:  # noqa: ANN401 - a query set
    flying, health, servers, releases = _in_flight(), _health(now - HOUR), _servers(), _releases()
    negotiated = dict(Server.objects.order_by().values_list("protocol").annotate(Max("negotiated_at")))
    return tuple(
        _view(
            row,
            ours=[one for one in flying if one.version == row.version],
            releases=releases.get(row.version, ()),
            servers=tuple(servers.get(row.version, ())),
            health=health.get(row.version, Health()),
            negotiated_at=negotiated.get(row.version),
        )
        for row in rows
    )


@dataclass(frozen=True, slots=True)
class _Flying:
    version: str
    state: State
    release: str
    before: bool
    """Begun under an earlier epoch."""
    count: int


def _in_flight() -> list[_Flying]:
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT o.protocol, o.state, CASE WHEN o.created_epoch = p.epoch THEN o.release ELSE p.release END,
                o.created_epoch < p.epoch, count(*)
            FROM operation o JOIN protocol_version p ON p.version = o.protocol
            WHERE NOT o.state = ANY(%s) GROUP BY 1, 2, 3, 4""",
            [_FINAL],
        )
        return [_Flying(row[0], State(row[1]), *row[2:]) for row in cursor.fetchall()]


def _health(since: datetime) -> dict[str, Health]:
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT o.protocol, count(*), count(*) FILTER (WHERE j.event = ANY(%s)),
                count(*) FILTER (WHERE j.event = ANY(%s))
            FROM journal j JOIN operation o ON o.id = j.operation_id
            WHERE j.at >= %s AND j.actor = 'executor' AND j.kind IN ('STEP', 'NOTE') GROUP BY 1""",
            [list(TROUBLE), list(DOUBTS), since],
        )
        return {name: Health(steps=steps, trouble=bad, doubts=odd) for name, steps, bad, odd in cursor.fetchall()}


def _servers() -> dict[str, list[ServerUse]]:
    found: dict[str, list[ServerUse]] = {}
    for row in within(Server.objects.prefetch_related("tools"), server="slug").order_by("slug"):
        tools = sorted(row.tools.all(), key=lambda tool: tool.name)
        use = ServerUse(
            slug=row.slug,
            title=row.title,
            allowed=row.max_qps,
            used=row.used_qps,
            requests=row.slots_given,
            submits_open=row.submits_open,
            closed_tools=tuple(tool.name for tool in tools if not tool.submits_open),
            open_tools=tuple(tool.name for tool in tools if tool.submits_open),
            contract_changed_at=row.contract_changed_at,
        )
        found.setdefault(row.protocol_id, []).append(use)
    return found


def _releases() -> dict[str, list[AdapterRelease]]:
    found: dict[str, list[AdapterRelease]] = {}
    for row in AdapterRelease.objects.order_by("id"):
        if Mode.known(row.mode):
            found.setdefault(row.protocol_id, []).append(row)
    return found


def _view(
    row: ProtocolVersion,
    *,
    ours: Sequence[_Flying],
    releases: Sequence[AdapterRelease],
    servers: tuple[ServerUse, ...],
    health: Health,
    negotiated_at: datetime | None,
) -> VersionView:
    in_flight = {state: sum(one.count for one in ours if one.state is state) for state in State}
    return VersionView(
        version=row.version,
        epoch=row.epoch,
        submits_open=row.submits_open,
        closed_reason=row.closed_reason,
        looks_after=row.release,
        rolled_back_at=row.rolled_back_at,
        releases=tuple(_release(release, ours) for release in releases),
        servers=servers,
        in_flight=MappingProxyType({state: count for state, count in in_flight.items() if count}),
        of_earlier_epochs=sum(one.count for one in ours if one.before),
        negotiated_at=negotiated_at,
        health=health,
    )


def _release(row: AdapterRelease, ours: Sequence[_Flying]) -> ReleaseView:
    return ReleaseView(
        release=row.release,
        mode=Mode(row.mode),
        share=row.share,
        since=row.since,
        in_flight=sum(one.count for one in ours if one.release == row.release),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """One open operation of a version, for the dry run and the drain."""

    id: str
    title: str
    state: State
    server: str
    call_node: str
    looked_after_by: str
    is_sending: bool
    """A submit permit is out: bytes may have left, and no answer has come."""
    lookup: str
    created_at: datetime


def in_flight_of(name: str, *, earlier_epochs: bool = False, limit: int = PAGE) -> tuple[InFlight, ...]:
    """Return the open operations of a version, those that are sending first, then oldest first. 1 query.

    `earlier_epochs`: only what was begun before the last rollback.
    """
    here, seen = clause("o.server_id")
    with connection.cursor() as cursor:
        cursor.execute(
            f"""SELECT o.id::text, COALESCE(NULLIF(td.title, ''), t.name), o.state, o.server_id, o.call_node,
                CASE WHEN o.created_epoch = p.epoch THEN o.release ELSE p.release END,
                o.state = 'SUBMITTING' AND o.sends > o.sends_disproved, s.lookup, o.created_at
            FROM operation o JOIN protocol_version p ON p.version = o.protocol
            JOIN tool t ON t.id = o.tool_id JOIN tool_descriptor td ON td.id = o.descriptor_id
            JOIN server s ON s.slug = o.server_id
            WHERE o.protocol = %s AND NOT o.state = ANY(%s) AND (NOT %s OR o.created_epoch < p.epoch)
                AND {here}
            ORDER BY 7 DESC, o.created_at, o.id LIMIT %s""",
            [name, _FINAL, earlier_epochs, *seen, limit],
        )
        names = tuple(InFlight.__dataclass_fields__)
        found = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return tuple(InFlight(**(row | {"state": State(row["state"])})) for row in found)


def count_sending(name: str) -> int:
    """Count the operations of a version between send and answer. 1 query."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT count(*) FROM operation
            WHERE protocol = %s AND state = 'SUBMITTING' AND sends > sends_disproved""",
            [name],
        )
        return int(cursor.fetchone()[0])


def in_flight_at_rollback(name: str) -> int | None:
    """Return how many operations the last rollback of a version handed over; None before the first. 1 query."""
    last = (
        AuditEvent.objects.filter(target=f"protocol:{name}", what="ROLLED_BACK", outcome="DONE").order_by("-id").first()
    )
    return last.after.get("in_flight") if last else None
