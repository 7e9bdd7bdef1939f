"""Changes of several operations in one transaction, with one flush: what ends together is accepted together.

Note [Several in one transaction]
What is written is what `perform` would write for each by itself; only the moment is shared. What could go wrong, and
does not:

* Waiting for each other. All rows are locked by one statement, in the order of their ids, as `perform` locks what it
  changes beside; the version's row is locked for share, which takes turns with nobody but a rollback, and that waits
  for no operation while it holds it. The rows of `due` are locked in the order of their ids, as `claims.unchanged`
  does; a claim waits for none of them. Should PostgreSQL find a deadlock all the same, each is done by itself.
* One that may not. Ticket and facts are asked of each row under its lock. What is refused writes its refusal, and
  nothing else of it; the others go on.
* One that the database refuses (the same operation asked for twice, a constraint). That undoes all of it: then each is
  done by itself, and only that one fails.
* A commit whose answer was lost (R9). Each change has an id of its own in the journal. Each is read back by it, and
  only what is not found is done again, by itself.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import Error, connection, transaction

from operations import announce
from operations.ledger.journey import Statement, together
from operations.ledger.step import (
    EXECUTOR,
    LOCK,
    Change,
    LedgerError,
    Moved,
    Step,
    by_id,
    perform,
    plan,
    read_back,
)
from operations.ledger.writes import Write, columns
from operations.machine import StepError, Ticket

log = logging.getLogger(__name__)

Fate = Moved | StepError | LedgerError | Error
"""Where an operation stands now, or what `perform` would have raised for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A change of one operation, as an executor asks `perform` for it."""

    operation: str
    change: Change
    ticket: Ticket
    now: datetime


def perform_all(wanted: Sequence[Wanted], *, asking: str, writes: Sequence[Write]) -> list[Fate]:
    """Do each as `perform` would, in one transaction. See Note [Several in one transaction].

    `asking`: SQL over an array of ids whose rows begin with the id; each step is told its own, and whoever it tells
    nothing of is done by itself. `writes`: the statements that may be written for many rows at once.
    """
    calls, fates = [uuid.uuid4() for _ in wanted], dict[uuid.UUID, Fate]()
    try:
        fates = _transact(wanted, calls, asking, {write.one: write.many for write in writes})
    except Error:
        log.info("each by itself", extra={"operations": len(wanted)}, exc_info=True)
        connection.close()
    return [fates.get(call) or _by_itself(one, call, asking) for one, call in zip(wanted, calls, strict=True)]


def _by_itself(one: Wanted, call: uuid.UUID, asking: str) -> Fate:
    try:
        kept = read_back(one.operation, call)
        if kept is not None:
            announce.moved(kept.operation, kept.version)
            return kept
        asked = [(asking, [[one.operation]])]
        return perform(one.operation, one.change, now=one.now, ticket=one.ticket, asking=asked)
    except (StepError, LedgerError, Error) as error:
        return error


def _transact(
    wanted: Sequence[Wanted], calls: Sequence[uuid.UUID], asking: str, many: Mapping[str, str]
) -> dict[uuid.UUID, Fate]:
    started = time.perf_counter()
    with transaction.atomic(durable=True):
        blanks = _blanks(wanted, calls, asking)
        planned = {
            call: plan(blanks[call], one.change, ()) for one, call in zip(wanted, calls, strict=True) if call in blanks
        }
        writes = _alike([step.written() for step, _ in planned.values()], many)
        moved = [(step.row.id, step.row.version) for step, error in planned.values() if error is None]
        together(writes, ends=True, news=announce.news(moved, is_urgent=False))
    seconds = time.perf_counter() - started
    for call, (step, _) in planned.items():
        log.info("step", extra=step.line(blanks[call].row.state, seconds=seconds))
    return {call: error or step.stands() for call, (step, error) in planned.items()}


def _blanks(wanted: Sequence[Wanted], calls: Sequence[uuid.UUID], asking: str) -> dict[uuid.UUID, Step]:
    """Lock what there is of them; a step for each, with what was asked for."""
    ids = [one.operation for one in wanted]
    found, answers = together([(LOCK, [ids]), (asking, [ids])])
    rows, told = by_id(found), defaultdict(list)
    for answer in answers:
        told[str(answer[0])].append(answer)
    return {
        call: Step(
            row=rows[one.operation],
            now=one.now,
            actor=EXECUTOR,
            id=call,
            ticket=one.ticket,
            told=[told[one.operation]],
        )
        for one, call in zip(wanted, calls, strict=True)
        if one.operation in rows and told[one.operation]
    }


def _alike(changes: Sequence[Sequence[tuple[str, Sequence[Any]]]], many: Mapping[str, str]) -> list[Statement]:
    """Write alike what is alike: a statement for each kind. A change with anything else in it is written as it is."""
    apart: list[Statement] = []
    alike: dict[str, list[Sequence[Any]]] = defaultdict(list)
    for statements in changes:
        if all(sql in many for sql, _ in statements):
            for sql, params in statements:
                alike[sql].append(params)
        else:
            apart += statements
    return apart + [(many[sql], columns(rows)) for sql, rows in alike.items()]
