"""Hands notices to the ways of the teams that want to hear of them, and keeps what became of each (at least once).

A delivery is claimed under a lease and tried again with growing pauses. Nothing here reads or writes an operation.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from typing import Any

from django.db import connection, transaction

from operations.ledger import trail
from operations.ledger.admin import Note
from operations.notice import Kind, Quiet, Way, pause

LEASE = timedelta(minutes=2)
"""How long a sender has for what it claimed; another takes it over afterwards."""
SPREAD = 500
MOST = 200
"""Deliveries of one claim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One way to reach a team."""

    id: int
    team: str
    way: Way
    address: str = field(repr=False)
    secret_ref: str = ""
    allow_private: bool = False
    quiet: Quiet | None = None
    language: str = "en"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """What one notice tells of: nothing of a call's arguments, nothing that a server said."""

    delivery: int
    key: str
    at: datetime
    operation: str | None
    server: str
    server_title: str
    tool_title: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """Everything of one kind that goes out on one way now: one message."""

    route: Route
    kind: Kind
    items: tuple[Item, ...]

    @property
    def deliveries(self) -> list[int]:
        """The rows that it settles."""
        return [item.delivery for item in self.items]


def spread_notices(*, now: datetime) -> int:
    """Give each new notice a delivery on every way of every team that wants to hear of it; return how many."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            "SELECT id FROM notice WHERE spread_at IS NULL ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED", [SPREAD]
        )
        ids = [number for (number,) in cursor.fetchall()]
        if not ids:
            return 0
        cursor.execute(_SPREAD, {"now": now, "ids": ids})
        made: int = cursor.rowcount
        cursor.execute("UPDATE notice SET spread_at = %s WHERE id = ANY(%s)", [now, ids])
    return made


_SPREAD = """
    INSERT INTO notice_delivery (notice_id, route_id, next_at)
    SELECT n.id, r.id, %(now)s FROM notice n
    JOIN notice_route r ON r.enabled AND n.kind = ANY(r.kinds)
    JOIN team t ON t.slug = r.team_id
    WHERE n.id = ANY(%(ids)s) AND (r.team_id = n.also OR (
        n.team IN ('', r.team_id) AND (n.server_id IS NULL OR t.all_servers OR EXISTS (
            SELECT FROM team_server ts WHERE ts.team_id = t.slug AND ts.server_id = n.server_id))))
    ORDER BY n.id, r.id
    ON CONFLICT (notice_id, route_id) DO NOTHING
"""


def drop_moot(*, now: datetime) -> int:
    """Send nothing about what is over by now: a round that closed, an operation that left the desk."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(_MOOT, [now])
        return int(cursor.rowcount)


_MOOT = """
    UPDATE notice_delivery d SET next_at = NULL, error = 'it was over before this could be sent'
    FROM notice n JOIN operation o ON o.id = n.operation_id
    WHERE n.id = d.notice_id AND d.next_at <= %s AND (
        (n.kind IN ('ROUND_OPENED', 'DEADLINE_NEAR') AND NOT EXISTS (
            SELECT FROM input_round r WHERE r.operation_id = o.id AND r.status = 'OPEN'
                AND r.number = (n.facts->>'round')::int))
        OR (n.kind IN ('UNKNOWN_OPENED', 'CLOCK_10', 'CLOCK_15')
            AND o.state NOT IN ('SUBMISSION_UNKNOWN', 'NOT_FOUND_SAFE', 'UNKNOWN')))
"""


def claim_parcels(*, now: datetime) -> tuple[Parcel, ...]:
    """Take what is due, under a lease, gathered by way and kind: two thousand of one outage are one message."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(_CLAIM, {"now": now, "until": now + LEASE, "most": MOST})
        rows = cursor.fetchall()
    gathered: dict[tuple[int, str], list[tuple[Any, ...]]] = {}
    for row in sorted(rows, key=lambda row: row[0]):
        gathered.setdefault((row[1], row[11]), []).append(row)
    return tuple(
        Parcel(route=_route(held[0][1:11]), kind=Kind(kind), items=tuple(_item(row) for row in held))
        for (_route_id, kind), held in gathered.items()
    )


_ROUTE = (
    "r.id, r.team_id, r.way, r.address, r.secret_ref, r.allow_private, r.quiet_from, r.quiet_until, r.zone, r.language"
)
_CLAIM = f"""
    WITH taken AS (
        UPDATE notice_delivery d SET attempts = attempts + 1, next_at = %(until)s
        WHERE d.id IN (SELECT id FROM notice_delivery WHERE next_at <= %(now)s ORDER BY next_at, id
            LIMIT %(most)s FOR UPDATE SKIP LOCKED)
        RETURNING d.id, d.notice_id, d.route_id)
    SELECT taken.id, {_ROUTE}, n.kind, n.item, n.at, n.operation_id::text, COALESCE(n.server_id, ''),
        COALESCE(s.title, ''), COALESCE(NULLIF(td.title, ''), t.name, ''), n.facts
    FROM taken JOIN notice n ON n.id = taken.notice_id
    JOIN notice_route r ON r.id = taken.route_id
    LEFT JOIN server s ON s.slug = n.server_id
    LEFT JOIN operation o ON o.id = n.operation_id
    LEFT JOIN tool t ON t.id = o.tool_id
    LEFT JOIN tool_descriptor td ON td.id = o.descriptor_id
"""


def _route(row: tuple[Any, ...]) -> Route:
    number, team, way, address, secret_ref, allow_private, start, end, zone, language = row
    quiet = Quiet(start=start, end=end, zone=zone) if start is not None else None
    return Route(
        id=number,
        team=team,
        way=Way(way),
        address=address,
        secret_ref=secret_ref,
        allow_private=allow_private,
        quiet=quiet,
        language=language,
    )


def _item(row: tuple[Any, ...]) -> Item:
    key, at, operation, server, server_title, tool_title, facts = row[12:]
    return Item(
        delivery=row[0],
        key=key,
        at=at,
        operation=operation,
        server=server,
        server_title=server_title,
        tool_title=tool_title,
        facts=facts if isinstance(facts, dict) else json.loads(facts),
    )


def parcel_sent(deliveries: Collection[int], *, now: datetime) -> None:
    """Keep that a message went out: none of it is sent again."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE notice_delivery SET next_at = NULL, sent_at = %s, error = '' WHERE id = ANY(%s)",
            [now, list(deliveries)],
        )


def parcel_failed(deliveries: Collection[int], *, why: str, now: datetime) -> None:
    """Keep why a message did not go out, and when it is tried again; after enough attempts it is given up."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SELECT id, attempts FROM notice_delivery WHERE id = ANY(%s) FOR UPDATE", [list(deliveries)])
        for number, attempts in cursor.fetchall():
            wait = pause(attempts)
            cursor.execute(
                "UPDATE notice_delivery SET next_at = %s, error = %s WHERE id = %s",
                [now + wait if wait else None, why[:500], number],
            )


def parcel_held(deliveries: Collection[int], *, until: datetime) -> None:
    """Let a message wait for the end of quiet hours; it was no attempt."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE notice_delivery SET next_at = %s, attempts = GREATEST(0, attempts - 1) WHERE id = ANY(%s)",
            [until, list(deliveries)],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRoute:
    """A way to reach a team, as an admin sets it up."""

    team: str
    way: Way
    address: str = field(repr=False)
    kinds: tuple[str, ...]
    secret_ref: str = ""
    allow_private: bool = False
    quiet_from: time | None = None
    quiet_until: time | None = None
    zone: str = "UTC"
    language: str = "en"
    """In which its messages are written; the sender's words know which there are."""
    enabled: bool = True


def _same_route(team: str, columns: str, values: Sequence[Any]) -> int | None:
    with connection.cursor() as cursor:
        # One after the other: two posts at once would both find nothing.
        cursor.execute("SELECT FROM team WHERE slug = %s FOR UPDATE", [team])
        same = " AND ".join(f"{name.strip()} IS NOT DISTINCT FROM %s" for name in columns.split(","))
        cursor.execute(f"SELECT id FROM notice_route WHERE {same} ORDER BY id LIMIT 1", list(values))
        found = cursor.fetchone()
        return found[0] if found else None


def save_route(route: NewRoute, *, number: int | None = None, note: Note) -> int | None:
    """Make a way, or change the one with this number; None: the team has no way of this number.

    To make one that is there already, to the last detail, changes nothing: the same form twice makes one way.
    """
    columns = (
        "team_id, way, address, kinds, secret_ref, allow_private, quiet_from, quiet_until, zone, language, enabled"
    )
    values: list[Any] = [route.team, route.way, route.address, list(route.kinds), route.secret_ref]
    values += [route.allow_private, route.quiet_from, route.quiet_until, route.zone, route.language, route.enabled]
    after = {"way": route.way.value, "kinds": sorted(route.kinds), "enabled": route.enabled}
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        if number is None and (same := _same_route(route.team, columns, values)) is not None:
            return same
        trail.audit(note.by, "ROUTE_SET", f"team:{route.team}", reason=note.reason, after=after, now=note.now)
        if number is None:
            places = ", ".join(["%s"] * len(values))
            cursor.execute(f"INSERT INTO notice_route ({columns}) VALUES ({places}) RETURNING id", values)
        else:
            sets = ", ".join(f"{name.strip()} = %s" for name in columns.split(","))
            cursor.execute(
                f"UPDATE notice_route SET {sets} WHERE id = %s AND team_id = %s RETURNING id",
                [*values, number, route.team],
            )
        found = cursor.fetchone()
    return int(found[0]) if found else None


def drop_route(number: int, *, team: str, note: Note) -> bool:
    """Take a way out of use for good, with what waited on it. False: the team has no such way."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            """DELETE FROM notice_delivery d USING notice_route r
            WHERE r.id = d.route_id AND r.id = %s AND r.team_id = %s""",
            [number, team],
        )
        cursor.execute("DELETE FROM notice_route WHERE id = %s AND team_id = %s RETURNING way", [number, team])
        found = cursor.fetchone()
        if found:
            before = {"way": found[0]}
            trail.audit(note.by, "ROUTE_DROPPED", f"team:{team}", reason=note.reason, before=before, now=note.now)
        return found is not None


def route_of(number: int, *, team: str) -> Route | None:
    """Return one way of a team, for a test of it."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {_ROUTE} FROM notice_route r WHERE r.id = %s AND r.team_id = %s", [number, team])
        found = cursor.fetchone()
    return _route(found) if found else None


def route_tested(number: int, *, error: str, note: Note) -> None:
    """Keep how a test of a way went; an empty error: it was taken."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE notice_route SET tested_at = %s, test_error = %s WHERE id = %s RETURNING team_id",
            [note.now, error[:500], number],
        )
        found = cursor.fetchone()
        if found:
            trail.audit(note.by, "ROUTE_TESTED", f"team:{found[0]}", reason=error or note.reason, now=note.now)
