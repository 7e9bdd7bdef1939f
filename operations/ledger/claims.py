"""Who drives what, when: leases on due operations, and each server's send slots (P2, F10).

Note [Send slots]
A server's limit holds over all workers together in every window of one second, so a moment is
reserved for each single request before it leaves. The server's row holds the next free moment;
taking one moves it on by the gap of `pacing.slot_gap`. A request that finds its moment more than
`pacing.LATE` gone takes another: then no two windows can be fuller than the limit allows.

A claim brings the moment for the first request with it, so that a look costs no transaction of its
own; whoever needs another request asks for one. No claim speaks for more than `AHEAD`: that is how
long an urgent look waits behind routine ones, and how long a pause (429) takes to reach a worker that
did not hear of it at once.

Note [A low-water mark]
A claim reads the index of due times from its beginning. What was due there and has moved on leaves dead
entries behind, which nobody may remove while an old snapshot is open (a backup, a long report); each
claim would read them all again. So the server's row holds a mark below which nothing is due, and a
claim starts there. The mark is an optimisation and may be wrong for `SWEEP` only: every so often one
claim reads from the very beginning all the same, finds whatever lies below, and sets the mark anew.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection, transaction

from adapters import strictjson
from adapters.contract import Json
from operations import announce, pacing
from operations.ledger.step import DUE, JOINED, SELECTED, Row, prepared, row_from
from operations.machine import Ticket

LEASE = timedelta(seconds=25)
"""How long a claim holds. A worker that dies is replaced after it; one that is slow is fenced."""
AHEAD = timedelta(milliseconds=200)
"""How far into the future slots of one server may be spoken for by new claims."""
FARTHEST = timedelta(minutes=10)
"""A free moment farther ahead than this was set by a clock that has been put back since: it binds nobody."""
SWEEP = timedelta(seconds=2)
SKEW = timedelta(seconds=5)
"""How far behind the clock of a claim another worker's may be, before the mark hides what it makes due."""
BEGINNING = datetime.min.replace(tzinfo=UTC)
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
    lookup_tool: str
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
    """Empty, as is `input_schema`, once a task is known: only a submit or a lookup by key needs them."""
    poll_ms: int | None
    misses: int
    lease_until: datetime
    slot: datetime
    """The moment at which its first request may leave. See Note [Send slots]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """How many claims a process may hold, and how many of them it holds for each server now."""

    most: int
    held: Mapping[str, int] = field(default_factory=dict)

    def free(self) -> int:
        """How many more it may take."""
        return self.most - sum(self.held.values())

    def free_for(self, server: str) -> int:
        """How many more for this server: at most as many as are left to all the others.

        However many servers hang, a part of the hands stays free; with one server it may have half of them.
        """
        mine = self.held.get(server, 0)
        others = sum(self.held.values()) - mine
        return (self.most - others + 1) // 2 - mine


def claim(*, limit: int, now: datetime, hands: Hands | None = None) -> list[Work]:
    """Claim up to `limit` due operations, urgent ones first, fairly over their servers.

    A server whose slots are spoken for, or that is paused, gives none; nor does one that has its
    share of the caller's `hands`. Each claim raises the look number, so whoever held the operation
    before can no longer move it (P4).
    """
    works: list[Work] = []
    servers = _servers_due(now)
    waiting = sum(servers.values())
    for server, is_due in servers.items():
        wanted = -(-(limit - len(works)) // max(1, waiting))
        waiting -= is_due
        if hands is not None:
            wanted = min(wanted, hands.free_for(server))
        if wanted > 0:
            with transaction.atomic(durable=True):
                profile, leases = _claim_of(server, wanted, now)
            works += _load(profile, leases)
    return works


def _servers_due(now: datetime) -> dict[str, bool]:
    """Servers that have something due (True), and others that a claim must sweep to know."""
    with prepared() as cursor:
        cursor.execute(_SERVERS, [now - SWEEP, now, now, now, now, now + AHEAD, now + FARTHEST], prepare=True)
        return dict(cursor.fetchall())


# A mark of the future is of a clock that was put back since, or of another worker's that goes ahead.
_TO_BE_SWEPT = "(s.swept_at IS NULL OR s.swept_at NOT BETWEEN %s AND %s)"
_SERVERS = f"""SELECT slug, is_due FROM (
        SELECT s.slug, s.next_slot_at, {_TO_BE_SWEPT} AS to_be_swept, EXISTS (
            SELECT FROM due d WHERE d.server_id = s.slug AND d.due_at <= %s
                AND d.due_at >= COALESCE(s.due_since, '-infinity')
                AND (d.lease_until IS NULL OR d.lease_until <= %s)) AS is_due
        FROM server s WHERE (s.paused_until IS NULL OR s.paused_until <= %s)
            AND (s.next_slot_at IS NULL OR s.next_slot_at NOT BETWEEN %s AND %s)) servers
    WHERE is_due OR to_be_swept ORDER BY next_slot_at NULLS FIRST"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lease:
    look: int
    misses: int
    until: datetime
    slot: datetime


def _claim_of(server: str, wanted: int, now: datetime) -> tuple[ServerProfile, dict[str, _Lease]]:
    """Lock the server's row, lease what is due, and reserve a slot for each."""
    with prepared() as cursor:
        # NO KEY: a new operation refers to this row, and need not wait for it.
        cursor.execute(_LOCK_SERVER, [now - SWEEP, now, server], prepare=True)
        next_slot_at, is_swept, since, *profile = cursor.fetchone() or ()
        found = ServerProfile(**dict(zip(PROFILE, profile, strict=True)))
        free_from, gap = _free_from(now + pacing.LEAD, next_slot_at), pacing.slot_gap(found.max_qps)
        count = min(wanted, (now + AHEAD - free_from) // gap + 1)
        leases: dict[str, _Lease] = {}
        if count > 0:
            until = now + LEASE
            since = BEGINNING if is_swept else since
            wanted_of = {"server": server, "since": since, "now": now, "until": until, "count": count}
            cursor.execute(_TAKE, wanted_of, prepare=True)
            for number, (_, _, operation, look, misses) in enumerate(sorted(cursor.fetchall())):
                leases[operation] = _Lease(look=look, misses=misses, until=until, slot=free_from + number * gap)
        if is_swept:
            _set_mark(server, now)
        if leases:
            _reserve(server, free_from, gap, len(leases))
    return found, leases


# An array, not a join: of a join the planner expects thousands of rows, and reads the whole table for them. By their
# place, not by their key: they are locked, so nobody moves them, and no index need be asked again for each. A row that
# moved between the statement's snapshot and its lock is not found there, and waits for the next claim.
_TAKE = """
    WITH first AS MATERIALIZED (
        SELECT ctid, operation_id FROM due
        WHERE server_id = %(server)s AND urgent AND due_at <= %(now)s
            AND (lease_until IS NULL OR lease_until <= %(now)s)
        ORDER BY due_at LIMIT %(count)s FOR UPDATE SKIP LOCKED),
    then_ AS MATERIALIZED (
        SELECT ctid FROM due
        WHERE server_id = %(server)s AND NOT urgent AND due_at BETWEEN %(since)s AND %(now)s
            AND (lease_until IS NULL OR lease_until <= %(now)s)
        ORDER BY due_at LIMIT %(count)s - (SELECT count(*) FROM first) FOR UPDATE SKIP LOCKED)
    UPDATE due SET lease_until = %(until)s, look = look + 1, urgent = false
    WHERE ctid = ANY(ARRAY(SELECT ctid FROM first UNION ALL SELECT ctid FROM then_))
    RETURNING operation_id NOT IN (SELECT operation_id FROM first) AS is_routine, due_at, operation_id::text, look,
        misses"""


def _set_mark(server: str, now: datetime) -> None:
    """See Note [A low-water mark]."""
    with connection.cursor() as cursor:
        cursor.execute(
            """UPDATE server SET swept_at = %s, due_since = LEAST(%s,
                (SELECT due_at FROM due WHERE server_id = %s ORDER BY due_at LIMIT 1))
            WHERE slug = %s""",
            [now, now - SKEW, server, server],
        )


_DECLARED = "(s.capabilities->>'{name}')::boolean"
PROFILE = {name: f"s.{name}" for name in ServerProfile.__dataclass_fields__} | {
    "lookup_disproved": "s.lookup_disproved <> ''",
    **{name: _DECLARED.format(name=name) for name in ("creates_tasks", "cancels_tasks", "lists_tasks")},
}
_LOCK_SERVER = f"""SELECT s.next_slot_at, {_TO_BE_SWEPT}, s.due_since, {", ".join(PROFILE.values())}
    FROM server s WHERE s.slug = %s FOR NO KEY UPDATE"""
_CALL = {
    "release": LOOKED_AFTER_BY,
    "submission_key": "o.submission_key",
    "tool": "t.name",
    "task_support": "td.task_support",
    "input_schema": "CASE WHEN o.task_id IS NULL THEN td.input_schema::text END",
    "sync_limit_s": "t.sync_limit_s",
    "as_task": "o.as_task",
    "arguments": "CASE WHEN o.task_id IS NULL THEN o.arguments END",
    "poll_ms": "o.poll_ms",
}
# The claim has brought what is to be known of `due`: to read it again would cost as much as the operation itself.
_CLAIMED = "JOIN unnest(%(operations)s::uuid[], %(looks)s::bigint[]) d(operation_id, look) ON d.operation_id = o.id"
_LOAD = f"""SELECT {SELECTED}, {", ".join(_CALL.values())} {JOINED.replace(DUE, _CLAIMED)}
    WHERE o.id = ANY(%(operations)s::uuid[])"""


def _load(server: ServerProfile, leases: Mapping[str, _Lease]) -> list[Work]:
    if not leases:
        return []
    with prepared() as cursor:
        looks = [lease.look for lease in leases.values()]
        cursor.execute(_LOAD, {"operations": list(leases), "looks": looks}, prepare=True)
        rows = ((row_from(found), found[-len(_CALL) :]) for found in cursor)
        works = {row.id: _work(row, server, leases[row.id], call) for row, call in rows}
    return [works[operation] for operation in leases]


def _work(row: Row, server: ServerProfile, lease: _Lease, found: Sequence[Any]) -> Work:
    call = dict(zip(_CALL, found, strict=True))
    call["arguments"] = bytes(call["arguments"] or b"")
    call["input_schema"] = json.loads(call["input_schema"] or "{}")
    return Work(
        row=row,
        ticket=ticket_of(row),
        protocol=row.protocol,
        server=server,
        misses=lease.misses,
        lease_until=lease.until,
        slot=lease.slot,
        **call,
    )


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
    # In the order of ids: two batches must not wait for each other.
    looks = sorted(looks, key=lambda look: look.operation)
    columns: list[Any] = [[u.operation for u in looks], [u.look for u in looks]]
    columns += [[u.next_at for u in looks], [u.misses for u in looks]]
    columns += [[strictjson.printable(u.trouble[:300]) for u in looks], [u.at for u in looks]]
    with transaction.atomic(durable=True), prepared() as cursor:
        cursor.execute(_GIVE_BACK, columns, prepare=True)


# Not worth a flush to the disk: if it is lost the lease ends by itself, and the look comes late.
_GIVE_BACK = """
    WITH unflushed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) = 'off' AS is_so)
    UPDATE due d SET lease_until = NULL, misses = u.misses,
        due_at = CASE WHEN d.urgent THEN LEAST(d.due_at, u.next_at) ELSE u.next_at END,
        trouble = u.trouble,
        trouble_since = CASE WHEN u.trouble = '' THEN NULL ELSE COALESCE(d.trouble_since, u.at) END
    FROM unnest(%s::uuid[], %s::bigint[], %s::timestamptz[], %s::int[], %s::text[], %s::timestamptz[])
        AS u(operation_id, look, next_at, misses, trouble, at)
    WHERE d.operation_id = u.operation_id AND d.look = u.look AND (SELECT is_so FROM unflushed)"""


def reserve_slot(server: str, *, now: datetime, by: datetime | None = None) -> datetime:
    """Take the next free moment to send one request to this server. See Note [Send slots].

    Never a moment inside a pause: a claim made before it must keep it too (P1). A moment that is
    not before `by` is returned, but left to others.
    """
    return reserve_slots(server, [by], now=now)[0]


def reserve_slots(server: str, bys: Sequence[datetime | None], *, now: datetime) -> list[datetime]:
    """Take a moment for each of several requests, in one journey; each as `reserve_slot` does."""
    slots: list[datetime] = []
    with transaction.atomic(durable=True), prepared() as cursor:
        cursor.execute(_LOCK_SLOTS, [server], prepare=True)
        max_qps, next_slot_at, paused_until = cursor.fetchone() or ()
        first = slot = _free_from(max(now, paused_until or now), next_slot_at)
        gap, taken = pacing.slot_gap(max_qps), 0
        for by in bys:
            slots.append(slot)
            if by is None or slot < by:
                taken += 1
                slot += gap
        if taken:
            _reserve(server, first, gap, taken)
    return slots


_LOCK_SLOTS = "SELECT max_qps, next_slot_at, paused_until FROM server WHERE slug = %s FOR NO KEY UPDATE"


def _free_from(now: datetime, next_slot_at: datetime | None) -> datetime:
    return now if next_slot_at is None or next_slot_at > now + FARTHEST else max(now, next_slot_at)


def _reserve(server: str, first: datetime, gap: timedelta, count: int) -> None:
    """Move the server's next free moment on, and count what was given, second by second (G3)."""
    seconds = Counter((first + number * gap).replace(microsecond=0) for number in range(count))
    with prepared() as cursor:
        for second, slots in sorted(seconds.items()):
            given = {"next": first + count * gap, "second": second, "slots": slots, "server": server}
            cursor.execute(_RESERVE, given, prepare=True)


_RESERVE = """UPDATE server SET next_slot_at = %(next)s, slots_given = slots_given + %(slots)s, second_at = %(second)s,
        second_slots = %(slots)s + CASE WHEN second_at = %(second)s THEN second_slots ELSE 0 END,
        peak_slots = GREATEST(peak_slots,
            %(slots)s + CASE WHEN second_at = %(second)s THEN second_slots ELSE 0 END)
    WHERE slug = %(server)s"""


def pause_server(server: str, *, until: datetime, reason: str) -> None:
    """Send this server nothing before `until`; a longer pause that stands is kept (P1, F10)."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            """UPDATE server SET paused_until = %s, pause_reason = %s
            WHERE slug = %s AND (paused_until IS NULL OR paused_until < %s)""",
            [until, reason, server, until],
        )
    announce.paused(server, until)


def paused_until(server: str) -> datetime | None:
    """Return when the pause of this server ends; None where it never had one."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT paused_until FROM server WHERE slug = %s", [server])
        found: datetime | None = cursor.fetchone()[0]
    return found


def clock() -> datetime:
    """Return the time of the database: the one clock that all workers share."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now
