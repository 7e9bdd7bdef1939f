"""Shadows: what a call node's existing path does, watched by a release on trial, and held against it (O1).

Note [A shadow has no hands]
Nothing here writes a row of `operation`, `permit`, `round`, `answer`, `receipt` or `outbox`, and the room
that drives shadows asks an adapter for three verbs only: open, look, fetch. The result is fetched only
after the existing path has reported: a server that gives a result once would take it from its owner else.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction

from adapters import strictjson
from operations import comparison, rollout
from operations.comparison import Divergence, Seen, ShadowState, Told
from operations.ledger import admin
from operations.ledger.admin import Note
from operations.ledger.claims import LEASE, PROFILE, ServerProfile
from operations.ledger.rollout import offers_of
from operations.ledger.step import LedgerError
from operations.ledger.submission import NoSuchTool
from operations.machine import Outcome

KEPT_ANSWER = 16_000
"""Bytes of the last answer that are kept: enough to see what a release made its mind up from."""
A_SERVER = 4
"""Shadows of one server that one claim takes: they live on what real work leaves."""


class ShadowRefused(LedgerError):
    """This call cannot be watched; the message says why. Nothing was stored, and its path is not touched."""


class HasEffects(ShadowRefused):
    """The tool is not registered as free of side effects: only such tools may be watched (O1)."""

    def __init__(self, server: str, tool: str) -> None:
        super().__init__(f"{server}/{tool} is not registered as free of side effects")


class NothingOnTrial(ShadowRefused):
    """No release of this protocol version is on trial, so nobody would look."""

    def __init__(self, version: str) -> None:
        super().__init__(f"no release of {version} is on trial")


class ShadowClash(LedgerError):
    """The call node, its task or its report already stands for something else; `with_` says for what."""

    def __init__(self, with_: str) -> None:
        super().__init__(with_)
        self.with_ = with_


class NoSuchShadow(LedgerError):
    """There is no shadow with this id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewShadow:
    """A call that the existing path of a call node has made, with the task that it was given."""

    client: str
    call_node: str
    server: str
    tool: str
    task_id: str
    session: str | None = None
    """The session the task lives in, where the protocol has one; None: the release opens its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """The shadow that stands for the call. `created`: this request made it."""

    shadow: str
    created: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowWork:
    """One claimed shadow: what to look at, as whom, and what is known."""

    id: str
    claim: int
    protocol: str
    release: str
    on_trial: bool
    """False: the release was taken off its trial, or its version was rolled back."""
    server: ServerProfile
    task_id: str
    session: str | None
    ends_at: datetime
    told_at: datetime | None
    told_ended_at: datetime | None
    status: str
    has_ended: bool
    misses: int
    lease_until: datetime

    @property
    def interval(self) -> timedelta:
        """How far apart looks are by the profile."""
        return timedelta(milliseconds=self.server.poll_floor_ms)


def register_shadow(new: NewShadow, *, now: datetime) -> Registered:
    """Let the release on trial watch a call; its call node keeps its existing path for ever.

    Repeating is harmless. Raises NoSuchTool, HasEffects, NothingOnTrial and ShadowClash.
    """
    with transaction.atomic(durable=True):
        if found := _standing(new):
            return found
        tool = _tool(new)
        _keep_path(new, tool.protocol, now)
        shadow = uuid.uuid4()
        pinned: list[Any] = [tool.id, tool.protocol, tool.release, tool.epoch, new.task_id, new.session]
        ends_at = now + timedelta(seconds=tool.budget_s)
        with connection.cursor() as cursor:
            cursor.execute(
                """INSERT INTO shadow (id, client, call_node, server_id, tool_id, protocol, release, epoch, task_id,
                    session, state, registered_at, ends_at, due_at, answer)
                VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, '') ON CONFLICT DO NOTHING""",
                [shadow, new.client, new.call_node, new.server, *pinned, ShadowState.OBSERVING, now, ends_at, now],
            )
            made = bool(cursor.rowcount)
        # Another request of this call node was quicker, or another call node has the task.
        standing = Registered(shadow=str(shadow), created=True) if made else _standing(new)
        if standing is None:
            raise ShadowClash("this task is watched for another call node")
        return standing


def _standing(new: NewShadow) -> Registered | None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id::text, server_id, task_id FROM shadow WHERE client = %s AND call_node = %s",
            [new.client, new.call_node],
        )
        found = cursor.fetchone()
    if found is None:
        return None
    if found[1:] != (new.server, new.task_id):
        raise ShadowClash("this call node has registered another task")
    return Registered(shadow=found[0], created=False)


@dataclass(frozen=True, slots=True)
class _Tool:
    id: int
    budget_s: int
    protocol: str
    epoch: int
    release: str


def _tool(new: NewShadow) -> _Tool:
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT t.id, t.budget_s, p.version, p.epoch, t.effect, EXISTS (SELECT FROM operation o
                WHERE o.server_id = s.slug AND o.protocol = p.version AND md5(o.task_id) = md5(%s))
            FROM tool t JOIN server s ON s.slug = t.server_id JOIN protocol_version p ON p.version = s.protocol
            WHERE t.server_id = %s AND t.name = %s FOR SHARE OF p""",
            [new.task_id, new.server, new.tool],
        )
        found = cursor.fetchone()
    if found is None:
        raise NoSuchTool(f"{new.server} has no tool {new.tool!r}")
    id_, budget_s, version, epoch, effect, is_ours = found
    if effect != "NONE":
        raise HasEffects(new.server, new.tool)
    if is_ours:
        raise ShadowClash("this task belongs to an operation of the ledger")
    release = rollout.on_trial(offers_of(version))
    if release is None:
        raise NothingOnTrial(version)
    return _Tool(id_, budget_s, version, epoch, release)


def _keep_path(new: NewShadow, version: str, now: datetime) -> None:
    """Decide, once and for ever, that this call node keeps its path. Raises ShadowClash where a release has its call.

    The one row for each call node settles a race with a submit of the same one.
    """
    bucket = rollout.bucket_of(new.client, new.call_node)
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO routing_decision (client, call_node, protocol, release, bucket, at)
            VALUES (%s, %s, %s, NULL, %s, %s) ON CONFLICT DO NOTHING""",
            [new.client, new.call_node, version, bucket, now],
        )
        if cursor.rowcount:
            return
        cursor.execute(
            "SELECT release FROM routing_decision WHERE client = %s AND call_node = %s", [new.client, new.call_node]
        )
        (release,) = cursor.fetchone()
    if release is not None:
        raise ShadowClash("this call node has its call in the ledger already")


def report_outcome(client: str, shadow: str, told: Told, *, now: datetime) -> ShadowState:
    """Keep how the existing path ended; return how the shadow stands. The same report again is harmless.

    Raises NoSuchShadow, and ShadowClash for a second report that says something else.
    """
    said: list[Any] = [told.outcome.value, told.ended_at, told.looks, told.result_digest]
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            """SELECT state, told_outcome, told_ended_at, told_looks, told_result_digest FROM shadow
            WHERE id = %s AND client = %s FOR UPDATE""",
            [shadow, client],
        )
        found = cursor.fetchone()
        if found is None:
            raise NoSuchShadow(shadow)
        state, before = ShadowState(found[0]), list(found[1:])
        if before[0] is not None and before != said:
            raise ShadowClash("another end of this call was reported before")
        if before[0] is None and state is ShadowState.OBSERVING:
            # What has not been seen to end is looked at when it is due: hurrying would hide a late release.
            cursor.execute(
                """UPDATE shadow SET told_outcome = %s, told_ended_at = %s, told_looks = %s, told_result_digest = %s,
                    told_at = %s, due_at = CASE WHEN ended_at IS NULL THEN due_at ELSE LEAST(due_at, %s) END
                WHERE id = %s""",
                [*said, now, now, shadow],
            )
    return state


_SHADOW = {
    "id": "w.id::text",
    "claim": "w.claim",
    "protocol": "w.protocol",
    "release": "w.release",
    "on_trial": "w.epoch = p.epoch AND COALESCE(r.mode IN ('SHADOW', 'SHARE', 'FULL'), false)",
    "task_id": "w.task_id",
    "session": "w.session",
    "ends_at": "w.ends_at",
    "told_at": "w.told_at",
    "told_ended_at": "w.told_ended_at",
    "status": "w.status",
    "has_ended": "w.ended_at IS NOT NULL",
    "misses": "w.misses",
}
_WORK = f"""SELECT {", ".join([*_SHADOW.values(), *PROFILE.values()])}
    FROM shadow w JOIN server s ON s.slug = w.server_id JOIN protocol_version p ON p.version = w.protocol
    LEFT JOIN adapter_release r ON r.protocol = w.protocol AND r.release = w.release
    WHERE w.id = ANY(%s)"""


def claim_shadows(*, limit: int, now: datetime) -> list[ShadowWork]:
    """Claim up to `limit` shadows that are due, only at servers that nobody waits for at this moment (P2)."""
    if limit <= 0:
        return []
    until = now + LEASE
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            """UPDATE shadow SET lease_until = %s, claim = claim + 1 WHERE id = ANY(ARRAY(
                SELECT due.id FROM server s CROSS JOIN LATERAL (
                    SELECT w.id FROM shadow w WHERE w.server_id = s.slug AND w.state = 'OBSERVING'
                        AND w.due_at <= %s AND (w.lease_until IS NULL OR w.lease_until <= %s)
                    ORDER BY w.due_at LIMIT %s FOR UPDATE SKIP LOCKED) due
                WHERE (s.paused_until IS NULL OR s.paused_until <= %s)
                    AND (s.next_slot_at IS NULL OR s.next_slot_at <= %s)
                LIMIT %s)) RETURNING id""",
            [until, now, now, A_SERVER, now, now, limit],
        )
        claimed = [row[0] for row in cursor.fetchall()]
        cursor.execute(_WORK, [claimed])
        return [_work(row, until) for row in cursor.fetchall()]


def _work(row: Sequence[Any], until: datetime) -> ShadowWork:
    profile = ServerProfile(**dict(zip(PROFILE, row[len(_SHADOW) :], strict=True)))
    return ShadowWork(server=profile, lease_until=until, **dict(zip(_SHADOW, row, strict=False)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowLook:
    """What one look of a shadow brought. None and empty leave what is known as it is."""

    next_at: datetime
    answered: bool
    """False: no answer that counts as a look."""
    session: str | None
    status: str = ""
    ended_at: datetime | None = None
    outcome: Outcome | None = None
    result_digest: str | None = None
    trouble: str = ""
    answer: bytes = b""


def shadow_looked(work: ShadowWork, look: ShadowLook) -> bool:
    """Keep what a look brought. False: somebody else holds the shadow now, or its version was rolled back (F7).

    A report that came while the look was under way brings an ended one forward like any other: the look did not know
    of it and had put the next one off to the end.
    """
    misses = work.misses + 1 if look.trouble else 0
    knew = work.told_at is not None
    return _write(
        work,
        """session = %s, looks = looks + %s, status = CASE WHEN %s = '' THEN status ELSE %s END,
            ended_at = COALESCE(ended_at, %s), outcome = COALESCE(%s, outcome),
            result_digest = COALESCE(%s, result_digest), trouble = %s,
            answer = CASE WHEN %s = ''::bytea THEN answer ELSE %s END, misses = %s, lease_until = NULL,
            due_at = CASE WHEN told_at IS NULL OR %s OR COALESCE(ended_at, %s) IS NULL THEN %s
                ELSE LEAST(told_at, %s) END""",
        [look.session, int(look.answered), look.status, look.status, look.ended_at]
        + [look.outcome.value if look.outcome else None, look.result_digest]
        + [strictjson.printable(look.trouble[:300]), look.answer[:KEPT_ANSWER], look.answer[:KEPT_ANSWER]]
        + [misses, knew, look.ended_at, look.next_at, look.next_at],
    )


def abandon_shadow(work: ShadowWork, *, why: str, now: datetime) -> bool:
    """End a shadow that will never have anything to compare. False: somebody else holds it now."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            """UPDATE shadow SET state = %s, why = %s, settled_at = %s, lease_until = NULL
            WHERE id = %s AND claim = %s AND state = 'OBSERVING'""",
            [ShadowState.ABANDONED, why, now, work.id, work.claim],
        )
        return bool(cursor.rowcount)


def compare_shadow(work: ShadowWork, *, now: datetime) -> tuple[Divergence, ...] | None:
    """Hold the two sides against each other and keep every difference, open. None: the claim does not hold any more."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            """SELECT w.told_outcome, w.told_ended_at, w.told_looks, w.told_result_digest, w.registered_at, w.status,
                w.ended_at, w.outcome, w.looks, w.result_digest, w.trouble
            FROM shadow w JOIN protocol_version p ON p.version = w.protocol AND p.epoch = w.epoch
            WHERE w.id = %s AND w.claim = %s AND w.state = 'OBSERVING' AND w.told_at IS NOT NULL
            FOR UPDATE OF w FOR SHARE OF p""",
            [work.id, work.claim],
        )
        found = cursor.fetchone()
        if found is None:
            return None
        differences = comparison.compare(_told(found[:4]), _seen(found[4:], work.interval))
        cursor.execute(
            "UPDATE shadow SET state = %s, settled_at = %s, lease_until = NULL WHERE id = %s",
            [ShadowState.COMPARED, now, work.id],
        )
        cursor.executemany(
            """INSERT INTO divergence (shadow_id, protocol, release, kind, told, seen, at, closed_by, closed_reason)
            VALUES (%s, %s, %s, %s, %s, %s, %s, '', '')""",
            [(work.id, work.protocol, work.release, one.kind, one.told, one.seen, now) for one in differences],
        )
    return differences


def _told(row: Sequence[Any]) -> Told:
    return Told(outcome=Outcome(row[0]), ended_at=row[1], looks=row[2], result_digest=row[3])


def _seen(row: Sequence[Any], interval: timedelta) -> Seen:
    since, status, ended_at, outcome, looks, result_digest, trouble = row
    return Seen(
        since=since,
        status=status,
        ended_at=ended_at,
        outcome=Outcome(outcome) if outcome else None,
        looks=looks,
        result_digest=result_digest,
        interval=interval,
        trouble=trouble,
    )


def _write(work: ShadowWork, assignments: str, values: list[Any]) -> bool:
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            f"""UPDATE shadow w SET {assignments} FROM protocol_version p
            WHERE w.id = %s AND w.claim = %s AND w.state = 'OBSERVING' AND p.version = w.protocol
                AND p.epoch = w.epoch""",
            [*values, work.id, work.claim],
        )
        return bool(cursor.rowcount)


def close_divergence(number: int, *, note: Note) -> bool:
    """Close a divergence that an admin has explained; the share may rise again when none is open.

    False: it is closed already, or there is none of this number.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            "SELECT version FROM protocol_version WHERE version = (SELECT protocol FROM divergence"
            " WHERE id = %s) FOR UPDATE",
            [number],
        )
        cursor.execute(
            """UPDATE divergence SET closed_at = %s, closed_by = %s, closed_reason = %s
            WHERE id = %s AND closed_at IS NULL RETURNING protocol, release, kind, told, seen""",
            [note.now, note.by, note.reason, number],
        )
        found = cursor.fetchone()
        if found is None:
            return False
        protocol, release, kind, told, seen = found
        before = {"kind": kind, "existing_path": told, "this_release": seen}
        admin.record(note, "DIVERGENCE_CLOSED", f"release:{protocol}/{release}", before=before, after={})
    return True
