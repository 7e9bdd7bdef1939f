"""Releases of an adapter: which takes new calls, and how one is rolled back (O1 to O5).

Note [The version's row is the door]
Every submit and every step of an operation holds its protocol version's row FOR SHARE to the end of
its transaction. A rollback, a new share and a retirement take that row FOR UPDATE. So they wait for
what is under way, and whatever comes after sees them whole: however many operations are in flight,
one row is written, and every ticket of the old epoch stops fitting at the same moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from operations import rollout
from operations.ledger import admin
from operations.ledger.admin import Note
from operations.ledger.step import LedgerError
from operations.machine import FINAL
from operations.rollout import Mode, Offer, Path


class NoSuchVersion(LedgerError):
    """No protocol version is registered under this name."""


class EpochMoved(LedgerError):
    """The version was rolled back since the page was drawn. Nothing was changed; look at what holds now."""

    def __init__(self, *, seen: int, now: int) -> None:
        super().__init__(f"the epoch has moved from {seen} to {now}")
        self.seen = seen
        self.now = now


class NotDrained(LedgerError):
    """Operations of this version are still open: it looks after them until the last has ended (O5)."""

    def __init__(self, open_: int) -> None:
        super().__init__(f"{open_} operations are still open")
        self.open = open_


class Retired(LedgerError):
    """This release is over. A new release takes its place; the old one does not come back."""


class TakesCalls(LedgerError):
    """The release takes calls already: a trial is for one that takes none (O1)."""


class DivergenceOpen(LedgerError):
    """The release and the existing path differed, and nobody has explained it yet: its share does not rise (O1)."""

    def __init__(self, open_: int) -> None:
        super().__init__(f"{open_} divergences are open")
        self.open = open_


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBack:
    """What a rollback came to."""

    version: str
    epoch: int
    stops: str
    takes_over: str


def roll_back(version: str, *, seen_epoch: int, known: Sequence[str], in_flight: int, note: Note) -> RolledBack:
    """Stop creating, raise the epoch, and name the release that takes over (O3). One row for any number in flight.

    `seen_epoch` is what the page showed; `known` are the releases this installation has code for,
    oldest first; `in_flight` is what was counted before, for the record: counting here would hold
    every step up for as long as it takes. Raises NoSuchVersion and EpochMoved.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        was = _locked(version)
        if was["epoch"] != seen_epoch:
            raise EpochMoved(seen=seen_epoch, now=was["epoch"])
        change = rollout.hand_over(offers_of(version), looks_after=was["release"], known=known)
        cursor.execute(
            """UPDATE protocol_version SET submits_open = false, closed_reason = %s, epoch = epoch + 1,
                release = %s, rolled_back_at = %s WHERE version = %s""",
            [f"rolled back: {note.reason}", change.takes_over, note.now, version],
        )
        _set_mode(version, change.stops, share=0, now=note.now)
        done = RolledBack(version=version, epoch=was["epoch"] + 1, stops=change.stops, takes_over=change.takes_over)
        after = {"submits_open": False, "epoch": done.epoch, "release": done.takes_over}
        after |= {"closed_reason": f"rolled back: {note.reason}", "stops": done.stops, "in_flight": in_flight}
        admin.record(note, "ROLLED_BACK", f"protocol:{version}", before=was, after=after)
    return done


def keep_drill(version: str, *, report: Mapping[str, Any], note: Note) -> None:
    """Keep what a rollback would have done, as its dry run showed it; nothing else is written.

    Raises NoSuchVersion.
    """
    with transaction.atomic(durable=True):
        _locked(version)
        admin.record(note, "DRILLED", f"protocol:{version}", before={}, after=report)


def set_share(version: str, release: str, *, share: int, note: Note) -> None:
    """Give a release a share of the new calls, in per cent; a release the ledger does not know yet comes in.

    0 lets it drain. No share moves an operation, and none brings an old epoch back (O2, O3).
    Raises NoSuchVersion, Retired, DivergenceOpen where it would rise, and ValueError outside 0 to 100.
    """
    mode = rollout.mode_of(share)
    with transaction.atomic(durable=True):
        _locked(version)
        before = _release(version, release)
        if share > (before.share if before else 0) and (open_ := _open_divergences(version, release)):
            raise DivergenceOpen(open_)
        _enter(version, release, mode, share=share, before=before, note=note, what="SHARE_SET")


def put_on_trial(version: str, release: str, *, note: Note) -> None:
    """Let a release that takes no calls watch what existing paths do (O1); one the ledger does not know yet comes in.

    Raises NoSuchVersion, Retired, and TakesCalls.
    """
    with transaction.atomic(durable=True):
        _locked(version)
        before = _release(version, release)
        if before is not None and before.mode in {Mode.SHARE, Mode.FULL}:
            raise TakesCalls(f"{version} {release} takes calls")
        _enter(version, release, Mode.SHADOW, share=0, before=before, note=note, what="PUT_ON_TRIAL")


def _release(version: str, release: str) -> Offer | None:
    """Return a release as it stands; None where the ledger does not know it. Raises Retired."""
    found = {offer.release: offer for offer in offers_of(version)}.get(release)
    if found is not None and found.mode is Mode.RETIRED:
        raise Retired(f"{version} {release} is retired")
    return found


def _enter(version: str, release: str, mode: Mode, *, share: int, before: Offer | None, note: Note, what: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO adapter_release (protocol, release, mode, share, since) VALUES (%s, %s, %s, %s, %s)
            ON CONFLICT (protocol, release) DO UPDATE SET mode = EXCLUDED.mode, share = EXCLUDED.share,
                since = EXCLUDED.since""",
            [version, release, mode, share, note.now],
        )
    was = {"mode": before.mode.value, "share": before.share} if before else {}
    after = {"mode": mode.value, "share": share}
    admin.record(note, what, f"release:{version}/{release}", before=was, after=after)


def _open_divergences(version: str, release: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM divergence WHERE protocol = %s AND release = %s AND closed_at IS NULL",
            [version, release],
        )
        return int(cursor.fetchone()[0])


def retire(version: str, *, note: Note) -> None:
    """End a version of which no operation is open any more (O5). Raises NoSuchVersion and NotDrained."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        was = _locked(version)
        if open_ := _count_open(version):
            raise NotDrained(open_)
        cursor.execute(
            "UPDATE adapter_release SET mode = %s, share = 0, since = %s WHERE protocol = %s",
            [Mode.RETIRED, note.now, version],
        )
        cursor.execute(
            "UPDATE protocol_version SET submits_open = false, closed_reason = %s WHERE version = %s",
            ["retired", version],
        )
        admin.record(
            note,
            "RETIRED",
            f"protocol:{version}",
            before=was,
            after={"submits_open": False, "closed_reason": "retired"},
        )


def offers_of(version: str) -> list[Offer]:
    """Return the releases of a version, oldest first. Call it with the version's row locked."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT release, mode, share FROM adapter_release WHERE protocol = %s ORDER BY id", [version])
        found = [row for row in cursor.fetchall() if Mode.known(row[1])]
    return [Offer(release=release, mode=Mode(mode), share=share) for release, mode, share in found]


def decide(client: str, call_node: str, *, version: str, expected_s: int, now: datetime) -> str | Path:
    """Decide once which release takes a call node's call, and keep it for ever (O2).

    Call it inside the submit's transaction, after the version's row was locked: two requests of one call
    node then cannot be told two different things. Path.CLOSED is not kept: nothing was chosen.
    """
    bucket = rollout.bucket_of(client, call_node)
    choice = rollout.choose(offers_of(version), bucket=bucket, expected_s=expected_s)
    if choice is Path.CLOSED:
        return choice
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO routing_decision (client, call_node, protocol, release, bucket, at)
            VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING""",
            [client, call_node, version, choice if isinstance(choice, str) else None, bucket, now],
        )
        if cursor.rowcount:
            return choice
        cursor.execute("SELECT release FROM routing_decision WHERE client = %s AND call_node = %s", [client, call_node])
        (kept,) = cursor.fetchone()
    return kept if kept is not None else Path.KEEP_EXISTING


def _locked(version: str) -> dict[str, Any]:
    columns = ("epoch", "release", "submits_open", "closed_reason")
    found = admin.locked("protocol_version", "version", version, columns)
    if found is None:
        raise NoSuchVersion(f"no protocol version {version!r} is registered")
    return found


def _set_mode(version: str, release: str, *, share: int, now: datetime) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE adapter_release SET mode = %s, share = %s, since = %s WHERE protocol = %s AND release = %s",
            [rollout.mode_of(share), share, now, version, release],
        )


def _count_open(version: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM operation WHERE protocol = %s AND NOT state = ANY(%s)", [version, sorted(FINAL)]
        )
        return int(cursor.fetchone()[0])
