"""The one primitive through which every operation changes.

`perform` locks the operation's row, checks the ticket, lets a function plan the change on a
`Step`, and writes row, evidence and journal in one durable transaction. A change that is refused
is journalled with what it carried, committed, and then raised (L5).

Note [A commit whose answer was lost]
When the connection breaks at COMMIT, nobody knows whether it happened (R9). Each call of `perform`
has an id of its own that stands in its journal rows; after a lost connection the journal is asked
for that id. Found: the change stands, and is read back. Not found: the same function runs again on
a fresh read. So a planning function must depend on its arguments and on what it reads, never on
having run before.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Any

from django.db import InterfaceError, OperationalError, connection, transaction

from adapters import strictjson
from adapters.contract import Exchange
from operations import announce
from operations.ledger import notices, trail
from operations.ledger.journey import Rows, Statement, together
from operations.ledger.writes import Write, changed, insertion
from operations.machine import (
    Delivery,
    Event,
    StaleStep,
    Standing,
    State,
    StepError,
    Ticket,
    check_ticket,
    step,
)
from operations.models import JournalKind
from operations.notice import Kind

EXECUTOR = "executor"
MAX_RUNS = 5
"""How often one change is tried again after a serialization failure or a lost connection."""

log = logging.getLogger(__name__)


class LedgerError(Exception):
    """Abstract: the ledger could not take a call that belongs to no operation's journal."""


class NoSuchOperation(LedgerError):
    """There is no operation with this id."""


class PermitDenied(StepError):
    """No permit was given, so nothing may be sent. `why` says what stands against it (L4, O5)."""

    def __init__(self, why: str) -> None:
        super().__init__(f"no permit: {why}")
        self.why = why


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Where an operation stands after a change."""

    operation: str
    version: int
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Standing):
    """A standing with what only the ledger itself needs to write the change."""

    client: str
    call_node: str
    request_digest: str
    server_id: str
    protocol: str
    tool_id: int
    tool_version: str
    effect: str
    effect_on_error: bool
    answer_within_s: int
    submits_open: bool
    protocol_message: str
    task_created_at: str
    cancel_requested_by: str
    cancel_settled_at: datetime | None
    result_is_error: bool
    result_task_id: str | None
    evidence_count: int
    disputed: bool


_ELSEWHERE = {
    "id": "o.id::text",
    "epoch": "p.epoch",
    "look": "COALESCE(d.look, o.look)",
    "tool_version": "td.digest",
    "effect": "t.effect",
    "effect_on_error": "t.effect_on_error",
    "answer_within_s": "t.answer_within_s",
    "submits_open": "p.submits_open AND s.submits_open AND t.submits_open",
}
_COLUMNS = tuple(f.name for f in fields(Row))
SELECTED = ", ".join(_ELSEWHERE.get(name, f"o.{name}") for name in _COLUMNS)
"""What `row_from` makes a Row of, as SQL over JOINED."""
DUE = "LEFT JOIN due d ON d.operation_id = o.id"
JOINED = f"""FROM operation o
    JOIN protocol_version p ON p.version = o.protocol
    JOIN server s ON s.slug = o.server_id
    JOIN tool t ON t.id = o.tool_id
    JOIN tool_descriptor td ON td.id = o.descriptor_id
    {DUE}"""
_READ = f"SELECT {SELECTED} {JOINED} WHERE o.id = ANY(%s::uuid[])"
# FOR SHARE OF p: a raised epoch waits for the steps under way, and every later step sees it (O3).
LOCK = _READ + " ORDER BY o.id FOR UPDATE OF o FOR SHARE OF p"


def row_from(values: Sequence[Any]) -> Row:
    """Make a Row of what `SELECTED` gave; further values are left alone."""
    row = _filled(values)
    _PUT["state"](row, State(row.state))
    if row.answer_delivery is not None:
        _PUT["answer_delivery"](row, Delivery(row.answer_delivery))
    return row


# Every step makes several rows of fifty values, and a frozen dataclass takes five times as long to be made by itself.
_PUT: Mapping[str, Callable[[Row, Any], None]] = {name: getattr(Row, name).__set__ for name in _COLUMNS}
_VALUES = attrgetter(*_COLUMNS)


def _filled(values: Sequence[Any]) -> Row:
    """Make a Row of the values of `_COLUMNS`, in their order."""
    row = Row.__new__(Row)
    for put, value in zip(_PUT.values(), values, strict=False):
        put(row, value)
    return row


def read(operations: Sequence[str]) -> dict[str, Row]:
    """Return the rows that exist, by id, without locking them."""
    (found,) = together([(_READ, [list(operations)])])
    return by_id(found)


def by_id(found: Rows) -> dict[str, Row]:
    """Return what was selected, by the operation's id."""
    return {row.id: row for row in map(row_from, found)}


JOURNAL = insertion(
    "journal",
    operation_id="uuid",
    at="timestamptz",
    kind="text",
    event="text",
    source="text",
    target="text",
    version="int",
    epoch="int",
    cancel_generation="int",
    round="int",
    look="bigint",
    actor="text",
    detail="jsonb",
    evidence_seqs="int[]",
    step="uuid",
)
# In the order of ids, as `claims.unchanged` takes them: neither may wait for a row that the other has.
RETIREMENT = Write(
    one="DELETE FROM due WHERE operation_id = %s",
    many="""DELETE FROM due WHERE operation_id = ANY(ARRAY(
        SELECT operation_id FROM due WHERE operation_id = ANY(%s::uuid[]) ORDER BY operation_id FOR UPDATE))""",
)


@dataclass(slots=True)
class Step:
    """One change being planned. Nothing reaches the database before `perform` writes it."""

    row: Row
    now: datetime
    actor: str
    id: uuid.UUID
    ticket: Ticket | None
    told: Sequence[Rows] = ()
    """What was asked for with `perform(asking=…)`: the rows of each statement."""
    _writes: list[tuple[str, Sequence[Any]]] = field(default_factory=list)
    _pending: dict[str, object] = field(default_factory=dict)
    _evidence: list[int] = field(default_factory=list)
    _events: list[str] = field(default_factory=list)
    _moved: bool = False
    is_urgent: bool = False
    """Somebody waits for what becomes due by it: a worker that rests is to be told."""
    _why: str = ""

    def move(self, event: Event, /, *, detail: Mapping[str, Any] | None = None, **columns: object) -> None:
        """Take one legal step; `columns` change with it. Raises IllegalStep."""
        source, target = self.row.state, step(self.row.state, event)
        if self._moved:
            self._write_row()  # the database checks each step by itself
        self._moved = True
        columns = {"reason": "", **columns}
        if source is State.CANCEL_REQUESTED and self.row.cancel_settled_at is None:
            columns.setdefault("cancel_settled_at", self.now)  # G4: whatever ends the asking settles the cancel
        self._change(state=target, entered_at=self.now, version=self.row.version + 1, **columns)
        self._journal(JournalKind.STEP, event.value, source, target, detail)
        if target is State.UNKNOWN:
            # Told once for each time it comes before a person: it may leave by itself and come back (X4).
            self.tell(Kind.UNKNOWN_OPENED, f"operation:{self.row.id}/{self.row.version}")

    def note(self, what: str, /, *, detail: Mapping[str, Any] | None = None, **columns: object) -> None:
        """Record a change inside a state."""
        self._change(version=self.row.version + 1, **columns)
        self._journal(JournalKind.NOTE, what, self.row.state, self.row.state, detail)

    def set(self, **columns: object) -> None:
        """Change columns that go with a step or a note of the same change."""
        self._change(**columns)

    def write(self, sql: str, params: Sequence[Any]) -> None:
        """Write a row of another table in the same transaction."""
        self._writes.append((sql, params))

    def because(self, reason: str) -> None:
        """Give the reason that the audit holds; else it is the one of the journal's detail."""
        self._why = reason

    def tell(
        self, kind: Kind, item: str, *, team: str = "", also: str = "", facts: Mapping[str, Any] | None = None
    ) -> None:
        """Have people told of it; the notice is written with the change or not at all."""
        row = self.row
        self.write(
            *notices.row(
                kind, item, now=self.now, operation=row.id, server=row.server_id, team=team, also=also, facts=facts
            )
        )

    def keep(self, exchanges: Sequence[Exchange]) -> None:
        """Keep what was seen on the wire as evidence of the steps that follow (L7)."""
        for seen in exchanges:
            self.keep_raw(
                kind="wire",
                label=seen.label,
                raw=seen.body,
                request=seen.request,
                http_status=seen.http_status,
                media_type=seen.media_type,
                complete=seen.complete,
                masked=seen.masked,
            )

    def keep_raw(
        self,
        *,
        kind: str,
        label: str,
        raw: bytes,
        summary: str = "",
        request: bytes = b"",
        http_status: int | None = None,
        media_type: str = "",
        complete: bool = True,
        masked: int = 0,
    ) -> None:
        """Keep one piece of evidence; its digest is made from the raw bytes by the database."""
        seq = self.row.evidence_count + 1
        self._change(evidence_count=seq)
        self._evidence.append(seq)
        look = self.ticket.look if self.ticket else self.row.look
        epoch = self.ticket.epoch if self.ticket else self.row.epoch
        self.write(
            """WITH e AS (
                INSERT INTO evidence (operation_id, seq, at, kind, label, summary, epoch, look,
                    http_status, media_type, complete, masked, request, digest, size)
                VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s,
                    encode(sha256(%s::bytea), 'hex'), octet_length(%s::bytea))
                RETURNING id)
            INSERT INTO evidence_payload (evidence_id, raw) SELECT id, %s FROM e""",
            [self.row.id, seq, self.now, kind, label, summary, epoch, look, http_status]
            + [media_type, complete, masked, request, raw, raw, raw],
        )

    def due(self, at: datetime, *, urgent: bool = False, misses: int = 0, trouble: str = "") -> None:
        """End the drive: give the lease back and come again at `at`.

        A person may have asked for a look meanwhile; that wish stands, whatever `at` says.
        `trouble`: why the server could not be asked, in words; empty when it answered.
        """
        words = strictjson.printable(trouble[:300])
        self.write(
            """UPDATE due SET lease_until = NULL, misses = %s, urgent = urgent OR %s,
                due_at = CASE WHEN urgent THEN LEAST(due_at, %s) ELSE %s END, trouble = %s,
                trouble_since = CASE WHEN %s = '' THEN NULL ELSE COALESCE(trouble_since, %s) END
            WHERE operation_id = %s""",
            [misses, urgent, at, at, words, words, self.now, self.row.id],
        )

    def wake(self) -> None:
        """Ask for a drive at once, in place of whatever was due; a running drive is not disturbed."""
        self.is_urgent = True
        self.write(
            """INSERT INTO due (operation_id, server_id, due_at, urgent, look, misses)
            VALUES (%s, %s, %s, true, %s, 0)
            ON CONFLICT (operation_id)
            DO UPDATE SET due_at = LEAST(due.due_at, EXCLUDED.due_at), urgent = true""",
            [self.row.id, self.row.server_id, self.now, self.row.look],
        )

    def retire(self) -> None:
        """Nobody needs to look any more. The look number stays, or an old claim would fit again (P4)."""
        self.set(look=self.row.look)
        self.write(RETIREMENT.one, [self.row.id])

    def refuse(self, error: StepError) -> None:
        """Record a refused or stale change instead of a change."""
        kind = JournalKind.STALE if isinstance(error, StaleStep) else JournalKind.REFUSED
        name = type(error).__name__
        self._journal(kind, name, self.row.state, self.row.state, error.detail())

    def _change(self, **columns: object) -> None:
        self._pending.update(columns)
        row = _filled(_VALUES(self.row))
        for name, value in columns.items():
            if name in _PUT:
                _PUT[name](row, value)
        self.row = row

    def _write_row(self) -> None:
        if not self._pending:
            return
        self.write(changed("operation", list(self._pending)), [*self._pending.values(), self.row.id])
        self._pending = {}

    def _journal(self, kind: str, event: str, source: str, target: str, detail: Mapping[str, Any] | None) -> None:
        row, ticket = self.row, self.ticket
        self._events.append(event)
        self._why = str((detail or {}).get("reason", self._why))
        self.write(
            JOURNAL.one,
            [row.id, self.now, kind, event, source, target, row.version]
            + [ticket.epoch if ticket else row.epoch]
            + [ticket.cancel_generation if ticket else row.cancel_generation]
            + [ticket.round if ticket else row.round, ticket.look if ticket else row.look]
            + [self.actor, json.dumps(detail or {}), list(self._evidence), self.id],
        )

    def stands(self) -> Moved:
        """Say where the operation stands after it."""
        return Moved(operation=self.row.id, version=self.row.version, state=self.row.state)

    def line(self, source: State, *, seconds: float) -> dict[str, object]:
        """Say the whole change in one line of the log, refused or not."""
        row = self.row
        return {
            "operation": row.id,
            "epoch": self.ticket.epoch if self.ticket else row.epoch,
            "event": ",".join(self._events),
            "source": source.value,
            "target": row.state.value,
            "ms": round(1000 * seconds, 1),
        }

    def audit(self, error: StepError | None) -> None:
        """Note what a person or a client did here, or was refused; what an executor does is in the journal."""
        if self.actor == EXECUTOR or not self._events:
            return
        target = f"operation:{self.row.id}"
        # "person:olga and person:otto": who confirmed did it; who proposed has a row of an own.
        who = self.actor.rpartition(" and ")[2]
        if error is not None:
            said, server = str(error), self.row.server_id
            trail.refused_within(who, self._events[-1], target, now=self.now, server=server, reason=said)
        for event in self._events if error is None else ():
            trail.audit(who, event, target, now=self.now, server=self.row.server_id, reason=self._why)

    def flush(self, *, ends: bool, news: Sequence[Statement] = ()) -> None:
        """Write everything, in order and in one journey. The operation's row comes last and so sees its journal.

        `ends`: with the COMMIT, and `news` behind it. See Note [COMMIT in the packet] in `journey`.
        """
        together(self.written(), ends=ends, news=news)

    def written(self) -> Sequence[tuple[str, Sequence[Any]]]:
        """Give everything there is to write; nothing more may be changed."""
        self._write_row()
        return self._writes


Change = Callable[[Step], None]


def perform(
    operation: str,
    change: Change,
    *,
    now: datetime,
    actor: str = EXECUTOR,
    ticket: Ticket | None = None,
    exchanges: Sequence[Exchange] = (),
    beside: Mapping[str, Change] | None = None,
    asking: Sequence[Statement] = (),
) -> Moved:
    """Plan and write one change of an operation, as one durable transaction.

    `exchanges` are kept as evidence whether the change is taken, refused or stale (P6).
    `beside` changes other operations in the same transaction; rows are locked in id order.
    `asking`: what `change` needs to know besides the row; asked under the lock, and found in `Step.told`.

    Raises NoSuchOperation, and every StepError that `change` or the ticket raises, after it has
    been journalled and committed.
    """
    call = uuid.uuid4()
    blank = partial(Step, now=now, actor=actor, id=call, ticket=ticket)
    for run in range(MAX_RUNS):
        try:
            moved, error = _transact(operation, blank, change, exchanges, beside=beside or {}, asking=asking)
            break
        except (OperationalError, InterfaceError):
            if run == MAX_RUNS - 1:
                raise
            connection.close()
            kept = read_back(operation, call)
            if kept is not None:
                announce.moved(kept.operation, kept.version)  # nobody knows whether its news was said
                return kept
    if error is None:
        return moved
    log.info("refused", extra={"operation": operation, "why": str(error)})
    raise error


def _transact(
    operation: str,
    blank: Callable[..., Step],
    change: Change,
    exchanges: Sequence[Exchange],
    *,
    beside: Mapping[str, Change],
    asking: Sequence[Statement],
) -> tuple[Moved, StepError | None]:
    started = time.perf_counter()
    with transaction.atomic(durable=True):
        found, *told = together([(LOCK, [[operation, *beside]]), *asking])
        rows = by_id(found)
        if operation not in rows:
            raise NoSuchOperation(operation)
        first, error = plan(blank(row=rows[operation], told=told), change, exchanges)
        first.audit(error)
        others = beside if error is None else {}
        row = first.row
        news = announce.news([(row.id, row.version)], is_urgent=first.is_urgent) if error is None else ()
        first.flush(ends=not others, news=news)
        for number, (other, its_change) in enumerate(others.items(), 1):
            second = blank(row=rows[other], ticket=None)
            its_change(second)
            second.flush(ends=number == len(others), news=news)
    log.info("step", extra=first.line(rows[operation].state, seconds=time.perf_counter() - started))
    return first.stands(), error


def plan(blank: Step, change: Change, exchanges: Sequence[Exchange]) -> tuple[Step, StepError | None]:
    """Plan the change; on a refusal keep only the evidence and the refusal's own journal row."""
    planned = replace(blank, _writes=[], _pending={}, _evidence=[], _events=[])
    planned.keep(exchanges)
    try:
        if planned.ticket is not None:
            check_ticket(planned.row, planned.ticket)
        change(planned)
    except StepError as error:
        refused = replace(blank, _writes=[], _pending={}, _evidence=[], _events=[])
        refused.keep(exchanges)
        refused.refuse(error)
        return refused, error
    return planned, None


def read_back(operation: str, call: uuid.UUID) -> Moved | None:
    """Return where the call left the operation if its commit did happen, else None."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT o.version, o.state FROM operation o
            WHERE o.id = %s AND EXISTS (
                SELECT FROM journal j WHERE j.step = %s AND j.kind IN ('STEP', 'NOTE'))""",
            [operation, call],
        )
        found = cursor.fetchone()
    return Moved(operation=operation, version=found[0], state=State(found[1])) if found else None
