"""Who drives what, when: leases on due operations, and each server's send slots (P2, F10).

Note [Send slots]
A server's limit holds over all workers together in every window of one second, so a moment is
reserved for each single request before it leaves. The server's row holds the next free moment;
taking one moves it on by the gap of `pacing.slot_gap`. A request that finds its moment more than
`pacing.LATE` gone takes another: then no two windows can be fuller than the limit allows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from django.db import connection, transaction

from adapters import strictjson
from adapters.contract import Json
from operations import pacing
from operations.ledger.step import Row, read
from operations.machine import Ticket

NOTHING_HELD: Mapping[str, int] = MappingProxyType({})
LEASE = timedelta(seconds=30)
"""How long a claim holds. A worker that dies is replaced after it; one that is slow is fenced."""
AHEAD = timedelta(seconds=2)
"""How far into the future slots of one server may be spoken for by new claims."""
LOOKED_AFTER_BY = "CASE WHEN o.created_epoch = p.epoch THEN o.release ELSE p.release END"
"""O3: what was begun before a rollback is looked after by the release that took over, without its row being written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProfile:
    """What a drive needs to know of a server."""

    slug: str
    url: str
    credential_ref: str
    allow_private: bool
    max_qps: float
    poll_floor_ms: int
    poll_cap_ms: int
    lookup: str
    quarantine_s: int
    key_window_s: int
    task_ttl_s: int
    creates_tasks: bool | None
    """As negotiated; None before the first negotiation."""
    cancels_tasks: bool | None
    lists_tasks: bool | None
    lookup_proved_at: datetime | None
    """When `session_list` was last seen to hold a task of ours; None: its silence proves nothing."""
    lookup_disproved: bool
    listens: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One claimed operation: where it stands, what it calls, and how long the claim holds."""

    row: Row
    ticket: Ticket
    protocol: str
    release: str
    server: ServerProfile
    submission_key: str
    tool: str
    task_support: str
    input_schema: Mapping[str, Json] = field(repr=False)
    """Of the descriptor version the call was made with."""
    sync_limit_s: int | None
    as_task: bool
    arguments: bytes = field(repr=False)
    poll_ms: int | None
    misses: int
    lease_until: datetime


def claim(
    *, limit: int, now: datetime, per_server: int | None = None, held: Mapping[str, int] = NOTHING_HELD
) -> list[Work]:
    """Claim up to `limit` due operations, urgent ones first, fairly over their servers.

    A server whose slots are spoken for, or that is paused, gives none; nor does one of which
    `per_server` are held already by the caller (`held`, by server). Each claim raises the look
    number, so whoever held the operation before can no longer move it (P4).
    """
    claimed: dict[str, tuple[datetime, int]] = {}
    for server in _servers_due(now):
        wanted = limit - len(claimed)
        if per_server is not None:
            wanted = min(wanted, per_server - held.get(server, 0))
        if wanted > 0:
            with transaction.atomic(durable=True):
                claimed |= _lease(server, min(_room(server, now), wanted), now)
    return _load(claimed)


def _servers_due(now: datetime) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT s.slug FROM server s
            WHERE (s.paused_until IS NULL OR s.paused_until <= %s)
                AND EXISTS (SELECT FROM due d WHERE d.server_id = s.slug AND d.due_at <= %s
                    AND (d.lease_until IS NULL OR d.lease_until <= %s))
            ORDER BY s.next_slot_at NULLS FIRST""",
            [now, now, now],
        )
        return [row[0] for row in cursor.fetchall()]


def _room(server: str, now: datetime) -> int:
    """Lock the server's row; return how many of its operations may be claimed now."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT max_qps, next_slot_at FROM server WHERE slug = %s FOR UPDATE", [server])
        max_qps, next_slot_at = cursor.fetchone()
    free_from = max(now, next_slot_at or now)
    return max(0, int((now + AHEAD - free_from).total_seconds() * max_qps) or int(free_from <= now))


def _lease(server: str, count: int, now: datetime) -> dict[str, tuple[datetime, int]]:
    until = now + LEASE
    with connection.cursor() as cursor:
        cursor.execute(
            """UPDATE due SET lease_until = %s, look = look + 1, urgent = false
            WHERE operation_id = ANY(ARRAY(
                SELECT operation_id FROM due
                WHERE server_id = %s AND due_at <= %s AND (lease_until IS NULL OR lease_until <= %s)
                ORDER BY urgent DESC, due_at LIMIT %s FOR UPDATE SKIP LOCKED))
            RETURNING operation_id::text, misses""",
            [until, server, now, now, count],
        )
        return {operation: (until, misses) for operation, misses in cursor.fetchall()}


_DECLARED = "(s.capabilities->>'{name}')::boolean"
PROFILE = {name: f"s.{name}" for name in ServerProfile.__dataclass_fields__} | {
    "lookup_disproved": "s.lookup_disproved <> ''",
    **{name: _DECLARED.format(name=name) for name in ("creates_tasks", "cancels_tasks", "lists_tasks")},
}
_CALL = {
    "protocol": "p.version",
    "release": LOOKED_AFTER_BY,
    "submission_key": "o.submission_key",
    "tool": "t.name",
    "task_support": "td.task_support",
    "input_schema": "td.input_schema",
    "sync_limit_s": "t.sync_limit_s",
    "as_task": "o.as_task",
    "arguments": "o.arguments",
    "poll_ms": "o.poll_ms",
}
_LOAD = f"""SELECT o.id::text, {", ".join([*_CALL.values(), *PROFILE.values()])}
    FROM operation o JOIN protocol_version p ON p.version = o.protocol
    JOIN server s ON s.slug = o.server_id JOIN tool t ON t.id = o.tool_id
    JOIN tool_descriptor td ON td.id = o.descriptor_id WHERE o.id = ANY(%s::uuid[])"""


def _load(claimed: dict[str, tuple[datetime, int]]) -> list[Work]:
    if not claimed:
        return []
    rows = read(list(claimed))
    with connection.cursor() as cursor:
        cursor.execute(_LOAD, [list(claimed)])
        return [_work(rows[found[0]], *claimed[found[0]], found[1:]) for found in cursor.fetchall()]


def _work(row: Row, lease_until: datetime, misses: int, found: Sequence[Any]) -> Work:
    call = dict(zip(_CALL, found, strict=False))
    call["arguments"] = bytes(call["arguments"])
    call["input_schema"] = json.loads(call["input_schema"])
    profile = ServerProfile(**dict(zip(PROFILE, found[len(_CALL) :], strict=True)))
    return Work(row=row, ticket=ticket_of(row), server=profile, misses=misses, lease_until=lease_until, **call)


def ticket_of(row: Row) -> Ticket:
    """The ticket of an executor that sets out from this row."""
    return Ticket(epoch=row.epoch, cancel_generation=row.cancel_generation, round=row.round, look=row.look)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchanged:
    """A look that brought nothing new: when to come again."""

    operation: str
    look: int
    next_at: datetime
    misses: int = 0
    trouble: str = ""
    """Why the server could not be asked; empty when it answered."""
    at: datetime | None = None
    """When the trouble was met."""


def unchanged(looks: Sequence[Unchanged]) -> None:
    """Give the leases of a batch of unchanged looks back, in one statement.

    A lease that was taken over meanwhile stays as it is. A wish for an early look stands.
    """
    if not looks:
        return
    columns: list[Any] = [[u.operation for u in looks], [u.look for u in looks]]
    columns += [[u.next_at for u in looks], [u.misses for u in looks]]
    columns += [[strictjson.printable(u.trouble[:300]) for u in looks], [u.at for u in looks]]
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            """UPDATE due d SET lease_until = NULL, misses = u.misses,
                due_at = CASE WHEN d.urgent THEN LEAST(d.due_at, u.next_at) ELSE u.next_at END,
                trouble = u.trouble,
                trouble_since = CASE WHEN u.trouble = '' THEN NULL ELSE COALESCE(d.trouble_since, u.at) END
            FROM unnest(%s::uuid[], %s::bigint[], %s::timestamptz[], %s::int[], %s::text[], %s::timestamptz[])
                AS u(operation_id, look, next_at, misses, trouble, at)
            WHERE d.operation_id = u.operation_id AND d.look = u.look""",
            columns,
        )


def reserve_slot(server: str, *, now: datetime, by: datetime | None = None) -> datetime:
    """Take the next free moment to send one request to this server. See Note [Send slots].

    Never a moment inside a pause: a claim made before it must keep it too (P1). A moment that is
    not before `by` is returned, but left to others.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SELECT max_qps, next_slot_at, paused_until FROM server WHERE slug = %s FOR UPDATE", [server])
        max_qps, next_slot_at, paused_until = cursor.fetchone()
        slot: datetime = max(now, next_slot_at or now, paused_until or now)
        if by is not None and slot >= by:
            return slot
        cursor.execute(
            """UPDATE server SET next_slot_at = %s, slots_given = slots_given + 1, second_at = %s,
                second_slots = CASE WHEN second_at = %s THEN second_slots + 1 ELSE 1 END,
                peak_slots = GREATEST(peak_slots, CASE WHEN second_at = %s THEN second_slots + 1 ELSE 1 END)
            WHERE slug = %s""",
            [slot + pacing.slot_gap(max_qps), *[slot.replace(microsecond=0)] * 3, server],
        )
    return slot


def pause_server(server: str, *, until: datetime, reason: str) -> None:
    """Send this server nothing before `until`; a longer pause that stands is kept (P1, F10)."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            """UPDATE server SET paused_until = %s, pause_reason = %s
            WHERE slug = %s AND (paused_until IS NULL OR paused_until < %s)""",
            [until, reason, server, until],
        )
