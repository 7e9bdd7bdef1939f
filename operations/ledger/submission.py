"""From the call node's request to a task at the server, or to the honest word "unknown" (L2 to L4)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db import IntegrityError, InterfaceError, OperationalError, connection, transaction

from adapters import strictjson
from adapters.contract import Absent, Exchange, Observation, Opened, TaskFacts
from operations import announce, outputguard
from operations.ledger import contracts, looks, rollout, rounds
from operations.ledger.acceptance import Facts, accept_terminal
from operations.ledger.permits import NothingIsOut, account_for, expect_open, give, open_question, settle
from operations.ledger.step import MAX_RUNS, LedgerError, Moved, PermitDenied, Step, perform
from operations.machine import (
    BEFORE_TASK,
    FINAL,
    Delivery,
    Event,
    IllegalStep,
    NotFound,
    Outcome,
    Reason,
    StaleStep,
    State,
    Ticket,
)
from operations.models import PermitKind
from operations.rollout import Path

SETTLES = timedelta(seconds=5)
"""What a worker needs after the last byte to write down what came."""


class KeyReused(LedgerError):
    """This submission key, or this call node, already stands for another request (L1).

    `clash` is `submission_key` (same key, other body) or `call_node` (same call node, other key).
    """

    def __init__(self, operation: str, clash: str) -> None:
        super().__init__(f"{clash} already stands for operation {operation}")
        self.operation = operation
        self.clash = clash


class NoSuchTool(LedgerError):
    """No tool of this name is registered at this server."""


class SubmitsClosed(LedgerError):
    """A switch of O5 is shut: `scope` is protocol, server or tool."""

    def __init__(self, scope: str, reason: str) -> None:
        super().__init__(f"submits are closed for this {scope}: {reason}")
        self.scope = scope
        self.reason = reason


class KeepExistingPath(LedgerError):
    """No release takes this call: its call node keeps the path it has. Nothing was made, nothing was sent (O2).

    Said only to a call node that no release was ever chosen for, and to that one every time.
    """

    def __init__(self) -> None:
        super().__init__("this call was not chosen; its call node keeps its existing path")


class ArgumentsRefused(LedgerError):
    """The arguments break the tool's input schema. Nothing was made, nothing was sent."""

    def __init__(self, findings: tuple[str, ...]) -> None:
        super().__init__("; ".join(findings))
        self.findings = findings


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCall:
    """A call node's request, as it came."""

    client: str
    call_node: str
    submission_key: str
    server: str
    tool: str
    arguments: bytes
    """One JSON object; these very bytes are sent."""
    principal: str
    budget_s: int | None = None
    """Wait budget in seconds; None takes the tool's own."""

    def digest(self) -> str:
        """Identify the request: the same call spelled with other blanks is the same (L1)."""
        arguments = strictjson.parse(self.arguments)
        return strictjson.digest_of([self.server, self.tool, self.principal, arguments, self.budget_s])


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The operation that stands for the call. `created`: this request made it."""

    operation: str
    created: bool
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tool:
    id: int
    descriptor_id: int
    budget_s: int
    protocol: str
    epoch: int
    expected_s: int
    keeps_path: bool
    input_schema: object
    closed: tuple[tuple[str, bool, str], ...]


def submit(call: NewCall, *, now: datetime) -> Submitted:
    """Make the operation for a call, in SUBMITTING and due at once; send nothing (L2).

    The same key with the same request returns the operation there is. Raises KeyReused,
    NoSuchTool, SubmitsClosed, KeepExistingPath, ArgumentsRefused, and strictjson.BadJson for unreadable arguments.
    """
    digest = call.digest()
    for run in range(MAX_RUNS):
        try:
            with transaction.atomic(durable=True):
                made = _standing_for(call, digest) or _insert(call, digest, now)
            break
        except (OperationalError, InterfaceError):
            if run == MAX_RUNS - 1:
                raise
            connection.close()  # whether it was committed or not, the key finds it (R9)
    if made is None:
        raise KeepExistingPath  # only now: the decision is committed, and holds for every later request
    if made.created:
        announce.begun(made.operation, made.version)
    return made


def _standing_for(call: NewCall, digest: str) -> Submitted | None:
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT id::text, version, call_node, submission_key, request_digest FROM operation
            WHERE client = %s AND (call_node = %s OR submission_key = %s)""",
            [call.client, call.call_node, call.submission_key],
        )
        found = cursor.fetchall()
    for operation, version, node, key, held in found:
        if key == call.submission_key and (held != digest or node != call.call_node):
            raise KeyReused(operation, "submission_key")
        if key != call.submission_key:
            raise KeyReused(operation, "call_node")
        return Submitted(operation=operation, created=False, version=version)
    return None


def _insert(call: NewCall, digest: str, now: datetime) -> Submitted | None:
    """Make the operation; None: its call node keeps its existing path."""
    tool = _tool(call)
    release = _let_in(call, tool, now)
    if release is None:
        return None
    operation = uuid.uuid4()
    if not _write(
        call, tool, digest=digest, release=release, operation=operation, now=now
    ):  # another request of this call node was quicker
        standing = _standing_for(call, digest)
        if standing is None:
            raise LedgerError("the operation of a concurrent request vanished")
        return standing
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO due (operation_id, server_id, due_at, urgent, look, misses)
            VALUES (%s, %s, %s, true, 0, 0)""",
            [operation, call.server, now],
        )
        cursor.execute(
            """INSERT INTO journal (operation_id, at, kind, event, source, target, version, epoch,
                cancel_generation, round, look, actor, detail, evidence_seqs, step)
            VALUES (%s, %s, 'NOTE', 'SUBMITTED', %s, %s, 1, %s, 0, 0, 0, %s, '{}', '{}', %s)""",
            (operation, now, State.SUBMITTING, State.SUBMITTING, tool.epoch, f"client:{call.client}", uuid.uuid4()),
        )
    return Submitted(operation=str(operation), created=True, version=1)


def _let_in(call: NewCall, tool: _Tool, now: datetime) -> str | None:
    """Return the release that takes the call; None: its call node keeps its existing path (O2).

    Raises SubmitsClosed and ArgumentsRefused.
    """
    if tool.keeps_path:
        return None
    for scope, is_open, reason in tool.closed:
        if not is_open:
            raise SubmitsClosed(scope, reason)
    findings = outputguard.violations(tool.input_schema, strictjson.parse(call.arguments))
    broken = tuple(found for found in findings if not found.startswith("the schema cannot be used"))
    if broken:
        raise ArgumentsRefused(broken)
    release = rollout.decide(call.client, call.call_node, version=tool.protocol, expected_s=tool.expected_s, now=now)
    if release is Path.CLOSED:
        raise SubmitsClosed("protocol", "no release of it takes new calls")
    return None if release is Path.KEEP_EXISTING else release


def _write(call: NewCall, tool: _Tool, *, digest: str, release: str, operation: uuid.UUID, now: datetime) -> bool:
    """Write the operation's row. False: the key or the call node has one already."""
    budget = timedelta(seconds=call.budget_s or tool.budget_s)
    request: list[Any] = [call.client, call.call_node, call.principal, call.submission_key, digest]
    pinned: list[Any] = [tool.id, tool.descriptor_id, tool.protocol, release, tool.epoch]
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO operation (id, version, state, reason, created_at, entered_at, client,
                call_node, principal, submission_key, request_digest, arguments, server_id, tool_id,
                descriptor_id, protocol, release, created_epoch, budget_ends_at)
            VALUES (%s, 1, %s, '', %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
            ON CONFLICT DO NOTHING""",
            [operation, State.SUBMITTING, now, now, *request, call.arguments, call.server, *pinned, now + budget],
        )
        return bool(cursor.rowcount)


def _tool(call: NewCall) -> _Tool:
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT t.id, t.descriptor_id, t.budget_s, p.version, p.epoch, t.expected_s,
                EXISTS (SELECT FROM routing_decision d
                    WHERE d.client = %s AND d.call_node = %s AND d.release IS NULL),
                td.input_schema::text, p.submits_open, p.closed_reason, s.submits_open,
                s.closed_reason, t.submits_open, t.closed_reason
            FROM tool t JOIN server s ON s.slug = t.server_id
            JOIN protocol_version p ON p.version = s.protocol
            JOIN tool_descriptor td ON td.id = t.descriptor_id
            WHERE t.server_id = %s AND t.name = %s FOR SHARE OF p""",
            [call.client, call.call_node, call.server, call.tool],
        )
        found = cursor.fetchone()
    if found is None:
        raise NoSuchTool(f"{call.server} has no tool {call.tool!r}")
    switches = found[8:]
    return _Tool(
        id=found[0],
        descriptor_id=found[1],
        budget_s=found[2],
        protocol=found[3],
        epoch=found[4],
        expected_s=found[5],
        keeps_path=found[6],
        input_schema=strictjson.parse(found[7].encode()),
        closed=tuple(zip(("protocol", "server", "tool"), switches[0::2], switches[1::2], strict=True)),
    )


def session_opened(operation: str, *, ticket: Ticket, opened: Opened, now: datetime) -> Moved:
    """Store the operation's own session before anything is submitted in it."""

    def change(step: Step) -> None:
        step.note("SESSION_OPENED", session=opened.session, stream_event_id="")
        contracts.heard(step, opened.capabilities)

    return perform(operation, change, now=now, ticket=ticket, exchanges=opened.exchanges)


def session_lost(
    operation: str, *, ticket: Ticket, exchanges: Sequence[Exchange], next_at: datetime, now: datetime
) -> Moved:
    """Forget a session that the server has ended; the next drive opens another."""

    def change(step: Step) -> None:
        step.note("SESSION_LOST", session=None)
        step.due(next_at, urgent=step.row.state is State.SUBMITTING, misses=1)

    return perform(operation, change, now=now, ticket=ticket, exchanges=exchanges)


def permit_submit(
    operation: str,
    *,
    permit: uuid.UUID,
    as_task: bool,
    ticket: Ticket,
    now: datetime,
    within_s: float | None = None,
) -> Moved:
    """Commit "bytes may have left" before the socket is written (L2, L4).

    `within_s`: how long the answer of a call that runs at once may take; the claim holds that long (N2).
    Raises PermitDenied when a permit is still out, a cancel was asked, or a switch is shut.
    """

    def change(step: Step) -> None:
        row = step.row
        allowed = (
            row.state is State.SUBMITTING
            and row.nothing_sent
            and not row.cancel_intent
            and row.submits_open
            and now < row.budget_ends_at
        )
        give(step, permit, PermitKind.SUBMIT, allowed=allowed)
        rounds.carried_by_submit(step, Delivery.PERMITTED)
        step.set(sends=row.sends + 1, as_task=as_task, first_sent_at=row.first_sent_at or now)
        if within_s is not None:
            # Another worker would take the call for lost while its server still works on it.
            step.write(
                "UPDATE due SET lease_until = GREATEST(lease_until, %s) WHERE operation_id = %s",
                [now + timedelta(seconds=within_s) + SETTLES, row.id],
            )

    return perform(operation, change, now=now, ticket=ticket)


def submit_not_sent(
    operation: str,
    *,
    permit: uuid.UUID,
    why: str,
    misses: int,
    ticket: Ticket,
    next_at: datetime,
    now: datetime,
    exchanges: Sequence[Exchange] = (),
) -> Moved:
    """Record the proof that the permitted send created nothing; the same key may be sent again.

    Raises PermitSettled when that was told before.
    """

    def change(step: Step) -> None:
        expect_open(permit)
        settle(step, permit, "not_sent")
        step.note("SUBMIT_NOT_SENT", detail={"why": why}, sends_disproved=step.row.sends_disproved + 1)
        rounds.carried_by_submit(step, Delivery.STORED)
        step.due(next_at, misses=misses, trouble=why)

    try:
        return perform(operation, change, now=now, ticket=ticket, exchanges=exchanges)
    except StaleStep:
        disprove_late(operation, permit, "not_sent", why=why, now=now)
        raise


def disprove_late(operation: str, permit: uuid.UUID | None, settlement: str, *, why: str, now: datetime) -> None:
    """Keep the proof that a permit's send created nothing, although its ticket decides nothing any more (P6).

    Whoever is in charge now goes on from it: a cancel intent closes the operation (C9).
    """

    def change(step: Step) -> None:
        kind = open_question(permit)
        if kind is None:
            return
        settle(step, permit, settlement)
        row = step.row
        counted = {"replays": row.replays - 1} if kind is PermitKind.REPLAY else {}
        step.note("LATE_PROOF", detail={"why": why}, **(counted or {"sends_disproved": row.sends_disproved + 1}))
        if step.row.nothing_sent:
            rounds.carried_by_submit(step, Delivery.STORED)
        nothing_is_left(step)
        if row.state not in FINAL:
            step.wake()

    perform(operation, change, now=now)


def nothing_is_left(step: Step) -> bool:
    """Leave the unknown where by now every single send is proved to have created nothing (X2)."""
    row = step.row
    waits = row.state in {State.SUBMISSION_UNKNOWN, State.UNKNOWN} and row.task_id is None
    proved = waits and row.nothing_sent and row.reason != Reason.ID_CLASH
    if proved:
        step.move(Event.NOTHING_CREATED, reason=Reason.ADMIN_REFUSAL, not_found=NotFound.NEVER_CREATED)
    return proved


def submit_answered(
    operation: str,
    *,
    permit: uuid.UUID,
    seen: Observation,
    ticket: Ticket,
    next_at: datetime,
    now: datetime,
) -> Moved:
    """Apply the server's answer to a submit.

    An answer under an old ticket decides nothing, but the id in it is the only one there is: it
    is bound all the same, and the executor now in charge looks at it (P6). Then StaleStep is raised,
    or IllegalStep where the operation has ended. IdentityChanged: the call has another task by now, and a
    person has to say which is its own (A5).
    """
    try:
        return looks.saw(operation, ticket=ticket, seen=seen, next_at=next_at, now=now)
    except (StaleStep, IllegalStep, looks.IdentityChanged):
        if not isinstance(seen, Absent) and seen.task is not None:
            _bind_late(operation, seen.task, next_at=next_at, now=now)
        raise
    finally:
        _settle(operation, permit, "answered", now=now)


def _bind_late(operation: str, task: TaskFacts, *, next_at: datetime, now: datetime) -> None:
    if strictjson.printable(task.task_id) != task.task_id:
        return  # nobody can ask for it; the evidence has it
    other = looks.bound_elsewhere(operation, task)
    if other is not None:
        looks.clash(operation, other, ticket=None, next_at=next_at, now=now)
        return
    try:
        perform(operation, partial(_late_id, task_id=task.task_id), now=now)
    except IntegrityError:
        # Another operation took this id since we looked (P8).
        _bind_late(operation, task, next_at=next_at, now=now)


def _late_id(step: Step, *, task_id: str) -> None:
    row = step.row
    if row.task_id is None and row.state in {*BEFORE_TASK, State.UNKNOWN}:
        rounds.supersede(step)  # I7: there is no next attempt that an answer in store could travel with
        step.note("LATE_ID", detail={"task_id": task_id}, task_id=task_id)
        step.wake()
    elif row.task_id != task_id:
        # One key, two tasks: no look can say which is the call's, and an ended call has an effect too many.
        looks.second_task(step, task_id)


def _settle(operation: str, permit: uuid.UUID, settlement: str, *, now: datetime) -> None:
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE permit SET settled_at = %s, settlement = %s WHERE id = %s AND operation_id = %s",
            [now, settlement, permit, operation],
        )


def submit_lost(
    operation: str,
    *,
    why: str,
    ticket: Ticket,
    now: datetime,
    exchanges: Sequence[Exchange] = (),
) -> Moved:
    """Say that a permitted submit brought no usable answer (L4). Raises NothingIsOut when there is none."""

    def change(step: Step) -> None:
        lose(step, why=why)
        step.due(now, urgent=True)

    return perform(operation, change, now=now, ticket=ticket, exchanges=exchanges)


def lose(step: Step, *, why: str) -> None:
    """Leave SUBMITTING as a part of another change: whatever was permitted may have reached the server."""
    if step.row.nothing_sent:
        raise NothingIsOut
    settle(step, None, "lost")
    step.move(Event.ANSWER_LOST, detail={"why": why}, lost_at=step.now, reason=Reason.SUBMIT_LOST)
    rounds.carried_by_submit(step, Delivery.UNCERTAIN)


def hand_to_person(
    operation: str, *, event: Event, reason: Reason, ticket: Ticket, next_at: datetime, now: datetime
) -> Moved:
    """Enter UNKNOWN because no lookup exists (NO_LOOKUP) or our waiting is over (BUDGET_ENDED)."""

    def change(step: Step) -> None:
        if step.row.state is State.INPUT_REQUIRED:
            rounds.close(step, "our waiting for the operation ended", moved_on=False)
        step.move(event, reason=reason)
        if step.row.task_id is None and step.row.reason == Reason.SUBMIT_LOST:
            step.set(not_found=NotFound.UNKNOWN)
        step.due(next_at)

    return perform(operation, change, now=now, ticket=ticket)


def nothing_created(
    operation: str,
    *,
    reason: Reason,
    why: str,
    permit: uuid.UUID | None = None,
    ticket: Ticket,
    next_at: datetime,
    now: datetime,
    exchanges: Sequence[Exchange] = (),
) -> Moved:
    """Record the server's proof that the call created nothing (X2, L5).

    `permit`: whose send was refused; None where a lookup is the proof. Under a cancel intent this
    closes the operation as cancelled (C9). Raises StaleStep; a permit's proof is kept even then (P6).
    """

    def change(step: Step) -> None:
        account_for(step, "disproved")
        step.move(
            Event.NOTHING_CREATED,
            detail={"why": why},
            reason=reason,
            sends_disproved=step.row.sends,
            replays=0,
            not_found=NotFound.NEVER_CREATED,
        )
        rounds.carried_by_submit(step, Delivery.STORED)  # X2: the same bytes again, and the answers are among them
        if step.row.cancel_intent:
            close_as_unsent(step)
        else:
            step.due(next_at)

    try:
        return perform(operation, change, now=now, ticket=ticket, exchanges=exchanges)
    except StaleStep:
        disprove_late(operation, permit, "disproved", why=why, now=now)
        raise


def resubmit(operation: str, *, ticket: Ticket, now: datetime, actor: str) -> Moved:
    """Go back to SUBMITTING under the same key and bytes, after proof (X2)."""

    def change(step: Step) -> None:
        step.move(Event.RESUBMIT, not_found="")
        step.due(now, urgent=True)

    return perform(operation, change, now=now, ticket=ticket, actor=actor)


def refuse(
    operation: str,
    *,
    reason: Reason,
    why: str,
    permit: uuid.UUID | None = None,
    ticket: Ticket,
    now: datetime,
    exchanges: Sequence[Exchange] = (),
) -> Moved:
    """Close a call that cannot be made: the request was refused, or the tool runs no task (N2).

    `permit`: whose send was refused, if one was sent. Raises StaleStep; its proof is kept even then (P6).
    """

    def change(step: Step) -> None:
        account_for(step, "disproved")
        step.set(sends_disproved=step.row.sends)
        rounds.carried_by_submit(step, Delivery.STORED)  # what was refused has used no answer
        accept_terminal(
            step,
            Facts.held_by(step.row),
            event=Event.REQUEST_REFUSED,
            outcome=Outcome.REFUSED,
            verdict=reason.value,
            summary=why[:2000],
        )

    try:
        return perform(operation, change, now=now, ticket=ticket, exchanges=exchanges)
    except StaleStep:
        disprove_late(operation, permit, "disproved", why=why, now=now)
        raise


def close_unsent(operation: str, *, ticket: Ticket, now: datetime) -> Moved:
    """Close an operation whose cancel was asked and of which nothing exists at the server (C9)."""
    return perform(operation, close_as_unsent, now=now, ticket=ticket)


def close_as_unsent(step: Step) -> None:
    """Accept the cancel of a call of which provably nothing exists at the server (C9, R4).

    Raises PermitDenied when something may have been sent after all.
    """
    if not step.row.nothing_sent:
        raise PermitDenied("a submit may have reached the server")
    rounds.void_answers(step)
    step.set(cancel_settled_at=step.now, cancel_intent=False)
    accept_terminal(
        step,
        Facts.held_by(step.row),
        event=Event.CANCEL_WON,
        outcome=Outcome.CANCELLED,
        verdict="never sent",
        summary="cancelled before anything existed at the server",
    )
