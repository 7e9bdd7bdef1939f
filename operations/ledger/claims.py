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
claim starts there; it leaves the mark at the last of what it has taken, in the order of due times. The
mark is an optimisation and may be wrong for `SWEEP` only (a lease that ended, a row that was locked for a moment):
every so often one claim looks below it all the same, and sets it anew. What is urgent has an index of its own, and
no mark.

Such a sweep must not read all the dead of a long snapshot either: after ten minutes they are a million, and take
seconds under the lock of the server's row. It begins at the lowest due time that was alive at the sweep before. No
claim, lease or look leaves anything below that: whatever is held keeps its due time, so it was alive then, and moves
up only. What may lie below is of a clock that is behind by more than `SKEW`, or of somebody's own hands: once in
`READ_THROUGH` a sweep reads from the very beginning.

Note [A claim is one statement]
At one server a claim locks the server's row, leases what is due, reserves the slots, and reads the calls: one
statement, one journey, one flush, and no transaction is ever open between two of them. Its snapshot is
older than the lock where it had to wait for another claim. What each part sees then:

* The server's row itself: locking gives the newest version, so the free moment and the mark are those that the other
  claim left, and no slot is given twice (P2). The update at the end meets the same version, for it is locked.
* `due`: a row that the other claim leased still looks free in the snapshot. To lock it means to read its newest
  version, and the conditions are asked of that once more: it is leased, so it is passed over (P4).
* A row that somebody moved or wanted urgently since the snapshot is locked, but in the snapshot there is nothing at
  its new place: it is left for the next claim.
* `operation` and the rest: a step that was committed since the snapshot is not seen. It is as if it had come just
  after the claim, which can happen to every claim: the ticket is out of date, and whatever is decided by it is
  decided on the locked row (P6).

Note [Two writes a look]
A claim could write the next due time at once, so that an unchanged look needs no second write. That is not done: an
operation whose worker was killed would wait for its next regular look, a minute or more, instead of for the end of its
lease; and one whose interval is shorter than a lease needs the second write anyway, to give the lease back.

Note [A lease goes back by its place]
To find a row by its key costs PostgreSQL an index and, as each claim leaves a dead version in it, a tidying of the
page: an eighth of all that a look costs it. So a claim tells where it has put its row, and an unchanged look is written
there. The place is a hint, never a claim: operation and look number decide, as they would by the key. What is not found
there has moved since (somebody wants it early, the table was written anew) or is another look's by now; then the whole
batch is written once more by its keys. Whatever of it was written already gets the same again; whatever was claimed
in between has a newer look number and is left alone (P4), and a wish for an early look stands.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction

from adapters import strictjson
from adapters.contract import Json
from operations import announce, pacing
from operations.ledger.journey import together
from operations.ledger.step import DUE, JOINED, SELECTED, Row, row_from
from operations.ledger.writes import columns
from operations.machine import Ticket

LEASE = timedelta(seconds=25)
"""How long a claim holds. A worker that dies is replaced after it; one that is slow is fenced."""
AHEAD = timedelta(milliseconds=200)
"""How far into the future slots of one server may be spoken for by new claims."""
FARTHEST = timedelta(minutes=10)
"""A free moment farther ahead than this was set by a clock that has been put back since: it binds nobody."""
NOWHERE = "(0,0)"
"""The place of no row."""
SWEEP = timedelta(seconds=2)
READ_THROUGH = timedelta(seconds=60)
SKEW = timedelta(seconds=5)
"""How far behind the clock of a claim another worker's may be, before the mark hides what it makes due."""
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
    place: str
    """Where the claim has left its row of `due`. See Note [A lease goes back by its place]."""


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
    waiting = sum(is_due for _, is_due in servers)
    for server, is_due in servers:
        wanted = -(-(limit - len(works)) // max(1, waiting))
        waiting -= is_due
        if hands is not None:
            wanted = min(wanted, hands.free_for(server.slug))
        if wanted > 0:
            works += _claim_of(server, wanted, now)
    return works


def _servers_due(now: datetime) -> list[tuple[ServerProfile, bool]]:
    """Servers that have something due (True), and others that a claim must sweep to know."""
    (found,) = together([(_SERVERS, _moments(now))])
    return [(ServerProfile(**dict(zip(PROFILE, profile, strict=True))), is_due) for is_due, *profile in found]


def _claim_of(server: ServerProfile, wanted: int, now: datetime) -> list[Work]:
    """Lease what is due at one server, with a slot for each. See Note [A claim is one statement]."""
    until = now + LEASE
    asked = {"server": server.slug, "wanted": wanted, "margin": pacing.MARGIN, "until": until, **_moments(now)}
    (claimed,) = together([(_CLAIM, asked)])
    return [_work(found, server, until) for found in claimed]


def _moments(now: datetime) -> dict[str, datetime]:
    return {
        "now": now,
        "swept": now - SWEEP,
        "read": now - READ_THROUGH,
        "mark": now - SKEW,
        "lead": now + pacing.LEAD,
        "ahead": now + AHEAD,
        "farthest": now + FARTHEST,
    }


_DECLARED = "(s.capabilities->>'{name}')::boolean"
PROFILE = {name: f"s.{name}" for name in ServerProfile.__dataclass_fields__} | {
    "lookup_disproved": "s.lookup_disproved <> ''",
    **{name: _DECLARED.format(name=name) for name in ("creates_tasks", "cancels_tasks", "lists_tasks")},
}
# A mark of the future is of a clock that was put back since, or of another worker's that goes ahead.
_TO_BE_READ = "(s.read_through_at IS NULL OR s.read_through_at NOT BETWEEN %(read)s AND %(now)s)"
_TO_BE_SWEPT = f"(s.swept_at IS NULL OR s.swept_at NOT BETWEEN %(swept)s AND %(now)s OR {_TO_BE_READ})"
_FREE = "due_at <= %(now)s AND (lease_until IS NULL OR lease_until <= %(now)s)"
_OF_IT = f"SELECT FROM due WHERE server_id = s.slug AND {_FREE}"
# MATERIALIZED: or whether something is due would be found out twice.
_SERVERS = f"""WITH known AS MATERIALIZED (
        SELECT s.slug, {_TO_BE_SWEPT} AS to_be_swept, EXISTS ({_OF_IT} AND urgent)
            OR EXISTS ({_OF_IT} AND due_at >= COALESCE(s.due_since, '-infinity')) AS is_due
        FROM server s WHERE (s.paused_until IS NULL OR s.paused_until <= %(now)s)
            AND (s.next_slot_at IS NULL OR s.next_slot_at NOT BETWEEN %(ahead)s AND %(farthest)s))
    SELECT known.is_due, {", ".join(PROFILE.values())} FROM known JOIN server s ON s.slug = known.slug
    WHERE known.is_due OR known.to_be_swept ORDER BY s.next_slot_at NULLS FIRST"""
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
    "misses": "d.misses",
    "slot": "d.slot",
    "place": "d.place",
}


def _microseconds(interval: str) -> str:
    return f"(EXTRACT(epoch FROM {interval}) * 1000000)::bigint"


# As `pacing.slot_gap`.
_GAP = "make_interval(secs => %(margin)s / CASE WHEN s.max_qps >= 1 THEN floor(s.max_qps) ELSE s.max_qps END)"
# Of a second that has begun, how many moments are left from the free one on.
_OF_SECOND = f"""date_trunc('second', free_from) AS second,
        {_microseconds("date_trunc('second', free_from) + interval '999999 us' - free_from")}
            / {_microseconds("gap")} + 1 AS of_second"""
# NO KEY: a new operation refers to the server's row, and need not wait for it.
_LOCKED = f"""SELECT s.slug, {_TO_BE_READ} AS to_be_read, {_TO_BE_SWEPT} AS to_be_swept,
        s.due_since, s.lowest_due_at, {_GAP} AS gap,
        GREATEST(%(lead)s, CASE WHEN s.next_slot_at <= %(farthest)s THEN s.next_slot_at END) AS free_from
    FROM server s WHERE s.slug = %(server)s FOR NO KEY UPDATE"""
_ROOM = f"""SELECT slug, to_be_read, to_be_swept, gap, free_from, {_OF_SECOND},
        CASE WHEN to_be_read THEN '-infinity' WHEN to_be_swept THEN COALESCE(lowest_due_at, '-infinity')
            ELSE COALESCE(due_since, '-infinity') END AS since,
        CASE WHEN free_from > %(ahead)s THEN 0 ELSE LEAST(%(wanted)s,
            {_microseconds("%(ahead)s - free_from")} / {_microseconds("gap")} + 1) END AS slots
    FROM locked"""
_FIRST = f"""SELECT ctid, operation_id FROM due WHERE server_id = %(server)s AND {_FREE} AND urgent
    ORDER BY due_at LIMIT (SELECT slots FROM room) FOR UPDATE SKIP LOCKED"""
_THEN = f"""SELECT ctid FROM due WHERE server_id = %(server)s AND {_FREE} AND NOT urgent
        AND due_at >= (SELECT since FROM room)
    ORDER BY due_at LIMIT (SELECT slots FROM room) - (SELECT count(*) FROM first) FOR UPDATE SKIP LOCKED"""
# By their place, not by their key: they are locked, so nobody moves them, and no index need be asked again for each.
# An array, not a join: of a join the planner expects thousands of rows, and reads the whole table for them.
_TAKEN = """UPDATE due SET lease_until = %(until)s, look = look + 1, urgent = false
    WHERE ctid = ANY(ARRAY(SELECT ctid FROM first UNION ALL SELECT ctid FROM then_))
    RETURNING operation_id NOT IN (SELECT operation_id FROM first) AS is_routine, due_at, operation_id, look, misses,
        ctid::text AS place"""
# G3: no claim speaks for more than AHEAD, so its slots lie in one second and perhaps the next.
_GIVEN = """SELECT room.*, taken.count, LEAST(taken.count, of_second) AS here, taken.count - of_second AS there,
        CASE WHEN to_be_swept THEN (SELECT due_at FROM due WHERE server_id = %(server)s AND due_at >= since
            ORDER BY due_at LIMIT 1) ELSE taken.last_at END AS mark
    FROM room, (SELECT count(*), max(due_at) FILTER (WHERE is_routine) AS last_at FROM taken) taken"""
_HERE = "g.here + CASE WHEN s.second_at = g.second THEN s.second_slots ELSE 0 END"
_RESERVED = f"""UPDATE server s SET slots_given = s.slots_given + g.count,
        next_slot_at = CASE WHEN g.count > 0 THEN g.free_from + g.count * g.gap ELSE s.next_slot_at END,
        second_at = CASE WHEN g.there > 0 THEN g.second + interval '1 s' ELSE g.second END,
        second_slots = CASE WHEN g.there > 0 THEN g.there ELSE {_HERE} END,
        peak_slots = GREATEST(s.peak_slots, {_HERE}, g.there),
        swept_at = CASE WHEN g.to_be_swept THEN %(now)s ELSE s.swept_at END,
        read_through_at = CASE WHEN g.to_be_read THEN %(now)s ELSE s.read_through_at END,
        lowest_due_at = CASE WHEN g.to_be_swept THEN LEAST(%(mark)s, g.mark) ELSE s.lowest_due_at END,
        due_since = CASE WHEN g.to_be_swept OR g.mark > s.due_since THEN LEAST(%(mark)s, g.mark) ELSE s.due_since END
    FROM given g WHERE s.slug = g.slug AND (g.count > 0 OR g.to_be_swept)"""
_LEASED = """JOIN (
        SELECT operation_id, look, misses, place, room.free_from + room.gap * (row_number() OVER (
            ORDER BY is_routine, due_at, operation_id) - 1) AS slot FROM taken, room) d ON d.operation_id = o.id"""
_CLAIM = f"""WITH locked AS MATERIALIZED ({_LOCKED}), room AS MATERIALIZED ({_ROOM}),
        first AS MATERIALIZED ({_FIRST}), then_ AS MATERIALIZED ({_THEN}), taken AS ({_TAKEN}),
        given AS MATERIALIZED ({_GIVEN}), reserved AS ({_RESERVED})
    SELECT {SELECTED}, {", ".join(_CALL.values())} {JOINED.replace(DUE, _LEASED)} ORDER BY d.slot"""


def _work(found: Sequence[Any], server: ServerProfile, until: datetime) -> Work:
    row, call = row_from(found), dict(zip(_CALL, found[-len(_CALL) :], strict=True))
    call["arguments"] = bytes(call["arguments"] or b"")
    call["input_schema"] = json.loads(call["input_schema"]) if call["input_schema"] else {}
    return Work(row=row, ticket=ticket_of(row), protocol=row.protocol, server=server, lease_until=until, **call)


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
    place: str = ""
    """As the claim has told it; empty where nobody knows."""


def unchanged(looks: Sequence[Unchanged]) -> None:
    """Give the leases of a batch of unchanged looks back. See Note [A lease goes back by its place].

    A lease that was taken over meanwhile stays as it is. A wish for an early look stands.
    """
    if not looks:
        return
    # In the order of ids: two batches must not wait for each other.
    looks = sorted(looks, key=lambda look: look.operation)
    given = columns(
        [
            (u.operation, u.look, u.next_at, u.misses, strictjson.printable(u.trouble[:300]), u.at, u.place or NOWHERE)
            for u in looks
        ]
    )
    (((found,),),) = together([(_BACK_BY_PLACE, given)])
    if found < len(looks):
        together([(_BACK_BY_KEY, given)])


# Not worth a flush to the disk: if it is lost the lease ends by itself, and the look comes late.
_BACK = """
    WITH unflushed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) = 'off' AS is_so),
    given AS (UPDATE due d SET lease_until = NULL, misses = u.misses,
        due_at = CASE WHEN d.urgent THEN LEAST(d.due_at, u.next_at) ELSE u.next_at END,
        trouble = u.trouble,
        trouble_since = CASE WHEN u.trouble <> '' THEN COALESCE(d.trouble_since, u.at) END
        FROM unnest(%s::uuid[], %s::bigint[], %s::timestamptz[], %s::int[], %s::text[], %s::timestamptz[], %s::tid[])
            AS u(operation_id, look, next_at, misses, trouble, at, place)
        WHERE {found} AND d.look = u.look AND (SELECT is_so FROM unflushed)
        RETURNING 1)
    SELECT count(*) FROM given"""
_BACK_BY_KEY = _BACK.format(found="d.operation_id = u.operation_id")
_BACK_BY_PLACE = _BACK.format(found="d.ctid = u.place AND d.operation_id = u.operation_id")


def reserve_slot(server: str, *, now: datetime, by: datetime | None = None) -> datetime:
    """Take the next free moment to send one request to this server. See Note [Send slots].

    Never a moment inside a pause: a claim made before it must keep it too (P1). A moment that is
    not before `by` is returned, but left to others.
    """
    return reserve_slots(server, [by], now=now)[0]


def reserve_slots(server: str, bys: Sequence[datetime | None], *, now: datetime) -> list[datetime]:
    """Take a moment for each of several requests, in one journey; each as `reserve_slot` does."""
    earliest = min((by for by in bys if by is not None), default=None)
    asked = {"server": server, "count": len(bys), "by": earliest, "now": now}
    asked |= {"margin": pacing.MARGIN, "reach": FARTHEST, "mark": None}
    (((first, gap, count),),) = together([(_RESERVE, asked)])
    if count or len(bys) == 1:
        return [first + number * gap for number in range(len(bys))]
    # Not all of them would come in time, or they lie in more seconds than two: each by itself.
    return [reserve_slot(server, now=now, by=by) for by in bys]


# As a claim reserves, see Note [A claim is one statement]; all that are asked for, or none.
_RESERVE = f"""WITH locked AS MATERIALIZED (
        SELECT s.slug, {_GAP} AS gap, GREATEST(%(now)s, s.paused_until) AS open_from, s.next_slot_at
        FROM server s WHERE s.slug = %(server)s FOR NO KEY UPDATE),
    free AS MATERIALIZED (
        SELECT slug, gap, GREATEST(open_from,
            CASE WHEN next_slot_at <= open_from + %(reach)s THEN next_slot_at END) AS free_from FROM locked),
    room AS MATERIALIZED (
        SELECT slug, gap, free_from, {_OF_SECOND},
            CASE WHEN (%(count)s = 1 OR %(count)s * gap <= interval '1 s') AND (%(by)s::timestamptz IS NULL
                OR free_from + (%(count)s - 1) * gap < %(by)s) THEN %(count)s ELSE 0 END AS count FROM free),
    given AS MATERIALIZED (
        SELECT *, LEAST(count, of_second) AS here, count - of_second AS there,
            false AS to_be_read, false AS to_be_swept, NULL::timestamptz AS mark FROM room),
    reserved AS ({_RESERVED})
    SELECT free_from, gap, count FROM given"""


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
