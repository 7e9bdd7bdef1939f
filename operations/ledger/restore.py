"""Safe mode: what a ledger that came back from a backup may still believe (O6).

Note [What a backup does not remember]
Whatever was committed after the backup is gone, and the servers know of it all the same. A call in SUBMITTING may
have been sent by then, and one that was proved absent, or that waits for a person before it has a task, may have been
sent once more. So each of them gets a permit that stands for the one that may be lost: from then on the ordinary
rules hold, and none of them sends again without a server's proof by the key or a person. Calls that came after the
backup have no row at all. Their call nodes submit again, under the same key, as soon as they are let in: that is why
only an admin opens the submits, and only after the servers were looked at.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from django.db import connection, transaction

from operations.ledger import admin, rounds, submission
from operations.ledger.admin import Note
from operations.ledger.permits import give, settle
from operations.ledger.step import Step, perform
from operations.machine import FINAL, Event, NotFound, Reason, State
from operations.models import PermitKind

PAGE = 500
WHY = "the ledger was restored from a backup"


@dataclass(frozen=True, slots=True, kw_only=True)
class SafeMode:
    """What it came to."""

    versions: tuple[str, ...]
    """Protocol versions whose submits are shut and whose epoch was raised."""
    doubted: int
    """Calls that count as perhaps sent."""
    looked_at: int
    """Every other call in flight: its server is asked before anything else happens."""


def enter_safe_mode(*, note: Note) -> SafeMode:
    """Shut every protocol version, raise every epoch, and doubt what the backup cannot know (O6).

    May be run again at any time, as after a crash half way: what is doubted already is only looked at once more.
    """
    versions = _shut(note)
    doubted: set[str] = set()
    looked_at = 0
    for operation, created_at in _in_flight():
        change = partial(_doubt, created_at=created_at, doubted=doubted)
        perform(operation, change, now=note.now, actor=note.by)
        looked_at += operation not in doubted
    return SafeMode(versions=versions, doubted=len(doubted), looked_at=looked_at)


def _shut(note: Note) -> tuple[str, ...]:
    reason = f"{WHY}: {note.reason}"
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SELECT version, epoch, submits_open FROM protocol_version ORDER BY version FOR UPDATE")
        found = cursor.fetchall()
        cursor.execute(
            "UPDATE protocol_version SET submits_open = false, closed_reason = %s, epoch = epoch + 1", [reason]
        )
        for version, epoch, submits_open in found:
            before = {"epoch": epoch, "submits_open": submits_open}
            after = {"epoch": epoch + 1, "submits_open": False, "closed_reason": reason}
            admin.record(note, "SAFE_MODE", f"protocol:{version}", before=before, after=after)
    return tuple(version for version, *_ in found)


def _in_flight() -> Iterator[tuple[str, datetime]]:
    """Yield every operation that has not ended, with its age, in the order of their ids."""
    after = uuid.UUID(int=0)
    while True:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT id, created_at FROM operation WHERE NOT (state = ANY(%s)) AND id > %s ORDER BY id LIMIT %s",
                [sorted(FINAL), after, PAGE],
            )
            found = cursor.fetchall()
        for operation, created_at in found:
            yield str(operation), created_at
        if not found:
            return
        after = found[-1][0]


_SENT_AGAIN_FROM = (State.NOT_FOUND_SAFE, State.INPUT_REQUIRED)


def _doubt(step: Step, *, created_at: datetime, doubted: set[str]) -> None:
    row = step.row
    counts_as_unsent = row.nothing_sent and not row.cancel_intent and row.task_id is None
    step.note("RESTORED")
    if row.state is State.SUBMITTING or (counts_as_unsent and row.state in _SENT_AGAIN_FROM):
        doubted.add(row.id)
        if counts_as_unsent:
            # A key window counts from the first send there may have been, which is none later than the call itself.
            give(step, uuid.uuid4(), PermitKind.SUBMIT, allowed=True)
            step.set(sends=row.sends + 1, first_sent_at=row.first_sent_at or created_at, lost_at=step.now)
        _lose(step)
    step.wake()


def _lose(step: Step) -> None:
    """Say that an answer may be lost, where there is a state for it; else a person has to know."""
    if step.row.state is State.SUBMITTING:
        submission.lose(step, why=WHY)
        return
    settle(step, None, "lost")
    if step.row.state is State.INPUT_REQUIRED:
        rounds.close(step, WHY, moved_on=False)
    step.move(Event.BUDGET_ENDED, detail={"why": WHY}, reason=Reason.SUBMIT_LOST, not_found=NotFound.UNKNOWN)
