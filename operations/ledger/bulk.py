"""Does to many operations what a person asked for, one ledger step a row: nothing here skips the machine.

`foresee_…` make the rows of a preview, `run` does them. Whether the person may still do it is asked again for each
row: a role that was taken away meanwhile ends the batch's power, not only its page.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from adapters.contract import Lookup
from operations.ledger import batches, cancel, desk
from operations.ledger.batches import Foreseen, RowDone, Running, Task
from operations.ledger.cancel import Press
from operations.ledger.step import LedgerError, Row, Step, read
from operations.machine import FINAL, FINISHED, StepError
from operations.models import BatchKind, Effect
from operations.verdicts import Case, Verdict, option

LEASE = timedelta(seconds=30)
CHUNK = 25
"""Rows between two looks at whether the batch was stopped."""
FINISHED_ALREADY, ASKED_ALREADY, NOTHING_TO_ASK = "FINISHED", "ALREADY_REQUESTED", "NOTHING_TO_ASK"
CARRIED_OUT, PROPOSED, AGAINST = "CARRIED_OUT", "PROPOSED", "AGAINST"
LOOKED, CLAIMED, CONFIRMED, TURNED_DOWN = "LOOK", "CLAIMED", "CONFIRMED", "TURNED_DOWN"
OWN_PROPOSAL, NO_LONGER_ALLOWED = "OWN_PROPOSAL", "NO_LONGER_ALLOWED"

May = Callable[[str, BatchKind, str], bool]
"""(who, what, server): whether this person may do this to an operation of this server now."""
log = logging.getLogger(__name__)


def foresee_cancels(operations: Sequence[str]) -> list[Foreseen]:
    """Say for each operation what a press of cancel would come to now. 2 queries for any number."""
    rows, servers = _read(operations)
    return [_cancel_of(row, servers[row.server_id]["cancels_tasks"]) for row in rows]


def _cancel_of(row: Row, can_cancel: bool) -> Foreseen:  # noqa: FBT001 - a fact of the server
    if row.state in FINISHED:
        return _foreseen(row, FINISHED_ALREADY, against=FINISHED_ALREADY)
    press = cancel.foresee(row, can_cancel=can_cancel)
    return _foreseen(row, press, against=ASKED_ALREADY if press is Press.ALREADY_REQUESTED else "")


def foresee_looks(operations: Sequence[str]) -> list[Foreseen]:
    """Say for each operation whether there is anything to look for. 2 queries for any number."""
    rows, servers = _read(operations)
    return [_look_of(row, servers[row.server_id]["lookup"]) for row in rows]


def _look_of(row: Row, lookup: str) -> Foreseen:
    if row.state in FINAL:
        return _foreseen(row, FINISHED_ALREADY, against=FINISHED_ALREADY)
    parked = row.task_id is None and (lookup == Lookup.NONE or row.nothing_sent)
    return _foreseen(row, LOOKED, against=NOTHING_TO_ASK if parked else "")


def foresee_verdicts(operations: Sequence[str], verdict: Verdict) -> list[Foreseen]:
    """Say for each operation what this verdict would come to: carried out, proposed, or against the evidence."""
    rows, servers = _read(operations)
    return [_verdict_of(row, verdict, Lookup(servers[row.server_id]["lookup"])) for row in rows]


def _verdict_of(row: Row, verdict: Verdict, lookup: Lookup) -> Foreseen:
    case = Case(row=row, has_effects=row.effect != Effect.NONE, deduplicates=lookup is Lookup.SAME_KEY_REPLAY)
    found = option(verdict, case)
    if found.against:
        return _foreseen(row, AGAINST, against=found.against)
    return _foreseen(row, PROPOSED if found.second_person else CARRIED_OUT)


def foresee_claims(operations: Sequence[str]) -> list[Foreseen]:
    """Every operation that still stands on the desk can be claimed."""
    rows, _servers = _read(operations)
    return [_foreseen(row, CLAIMED, against=FINISHED_ALREADY if row.state in FINAL else "") for row in rows]


def foresee_second(parent: uuid.UUID, *, by: str, confirm: bool) -> list[Foreseen]:
    """The open proposals of a batch, each as a row to confirm or to turn down. 3 queries for any number."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT r.operation_id::text, p.id::text, p.by FROM batch_row r
            JOIN verdict_proposal p ON p.id = r.proposal AND p.confirmed IS NULL
            WHERE r.batch_id = %s ORDER BY r.number""",
            [parent],
        )
        proposals = {operation: (proposal, owner) for operation, proposal, owner in cursor.fetchall()}
    rows, _servers = _read(list(proposals))
    forecast = CONFIRMED if confirm else TURNED_DOWN
    return [
        _foreseen(
            row,
            forecast,
            against=OWN_PROPOSAL if confirm and proposals[row.id][1] == by else "",
            proposal=proposals[row.id][0],
        )
        for row in rows
    ]


def _foreseen(row: Row, forecast: str, *, against: str = "", proposal: str | None = None) -> Foreseen:
    return Foreseen(
        operation=row.id,
        version=row.version,
        generation=row.cancel_generation,
        state=row.state,
        forecast=forecast,
        against=against,
        proposal=proposal,
    )


def _read(operations: Sequence[str]) -> tuple[list[Row], dict[str, dict[str, Any]]]:
    found = read(operations[: batches.MOST])
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT slug, lookup, COALESCE(capabilities->>'cancels_tasks', '') = 'true'
            FROM server WHERE slug = ANY(%s)""",
            [sorted({row.server_id for row in found.values()})],
        )
        servers = {slug: {"lookup": lookup, "cancels_tasks": cancels} for slug, lookup, cancels in cursor.fetchall()}
    return [found[key] for key in operations if key in found], servers


def run(*, seconds: float, may: May, clock: Callable[[], datetime]) -> int:
    """Do rows of running batches for at most some seconds; return how many. Nothing to do: returns at once."""
    ends, made = clock() + timedelta(seconds=seconds), 0
    while clock() < ends and (running := batches.take(until=clock() + LEASE, now=clock())) is not None:
        made += _go_on(running, ends=ends, may=may, clock=clock)
        if not batches.finish(running.id, now=clock()):
            batches.give_back(running.id)
    return made


def _go_on(running: Running, *, ends: datetime, may: May, clock: Callable[[], datetime]) -> int:
    made = 0
    while clock() < ends and (tasks := batches.waiting(running.id, limit=CHUNK)):
        known, servers = _read([task.operation for task in tasks])
        rows = {row.id: row for row in known}
        for task in tasks:
            row = rows[task.operation]
            _do(_Turn(running=running, task=task, row=row, server=servers[row.server_id], now=clock()), may)
        made += len(tasks)
        if not batches.renew(running.id, until=clock() + LEASE):
            break
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    """A row whose turn has come: what was shown of it, and where it stands."""

    running: Running
    task: Task
    row: Row
    server: Mapping[str, Any]
    now: datetime


def _do(turn: _Turn, may: May) -> None:
    """Do one row. What the ledger refuses is written on the row; anything else must not stop the others."""
    key = turn.task.key
    if not may(turn.running.by, turn.running.kind, turn.row.server_id):
        batches.refused(key, NO_LONGER_ALLOWED, now=turn.now)
        return
    try:
        _VERBS[turn.running.kind](turn)
    except RowDone:
        log.info("done by another", extra={"batch": str(key.batch), "row": key.number})
    except (StepError, LedgerError) as refusal:
        batches.refused(key, str(refusal), now=turn.now)
    except Exception:
        # One poisonous row must not hold up the batch for ever.
        log.exception("row of a batch failed", extra={"batch": str(key.batch), "row": key.number})
        batches.refused(key, "an error of ours; see the log of the worker", now=turn.now)


def _cancel(turn: _Turn) -> None:
    task = turn.task
    cancel.request_cancel(
        task.operation,
        seen_generation=task.seen_generation,
        can_cancel=turn.server["cancels_tasks"],
        by=turn.running.by,
        reason=turn.running.reason,
        now=turn.now,
        foreseen=Press(task.forecast),
        also=lambda step, press: batches.done(step, task.key, press),
    )


def _look(turn: _Turn) -> None:
    key = turn.task.key
    desk.look_now(
        turn.task.operation, by=turn.running.by, now=turn.now, also=lambda step: batches.done(step, key, LOOKED)
    )


def _claim(turn: _Turn) -> None:
    desk.claim_item(turn.task.operation, by=turn.running.by, now=turn.now, row=turn.task.key)


def _judge(turn: _Turn) -> None:
    key, content = turn.task.key, dict(turn.running.content)
    verdict = Verdict(content.pop("verdict"))

    def also(step: Step, proposal: str | None) -> None:
        batches.done(step, key, PROPOSED if proposal else CARRIED_OUT, proposal=proposal)

    desk.judge(
        turn.task.operation,
        verdict,
        seen_version=turn.task.seen_version,
        by=turn.running.by,
        reason=turn.running.reason,
        content=content,
        now=turn.now,
        also=also,
    )


def _second(turn: _Turn) -> None:
    key, confirms = turn.task.key, turn.running.kind is BatchKind.CONFIRM
    decide = desk.confirm if confirms else desk.withdraw
    came = CONFIRMED if confirms else TURNED_DOWN
    decide(
        turn.task.proposal or "",
        by=turn.running.by,
        now=turn.now,
        also=lambda step: batches.done(step, key, came),
    )


_VERBS: Mapping[BatchKind, Callable[[_Turn], None]] = {
    BatchKind.CANCEL: _cancel,
    BatchKind.LOOK: _look,
    BatchKind.CLAIM: _claim,
    BatchKind.VERDICT: _judge,
    BatchKind.CONFIRM: _second,
    BatchKind.REFUSE: _second,
}
