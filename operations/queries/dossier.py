"""Everything about one operation: its record, its history, its evidence, its receipt."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import BinaryField, F, Func, IntegerField, Value

from adapters.contract import Lookup
from operations.machine import FINAL, FINISHED, Outcome, State
from operations.models import (
    Answer,
    DeskClaim,
    EffectRecord,
    EffectStatus,
    Evidence,
    EvidencePayload,
    Journal,
    JournalKind,
    Operation,
    Outbox,
    Permit,
    Receipt,
    Round,
    VerdictProposal,
)
from operations.queries import PAGE, Asked, asked, is_parked
from operations.queries.scope import within
from operations.verdicts import Verdict


class Left(Func):
    """The first bytes of a column, cut off by the database: a page must not read what it does not show."""

    function = "substring"
    template = "%(function)s(%(expressions)s)"
    arg_joiner = " FROM 1 FOR "
    output_field = BinaryField()

    def __init__(self, column: str, most: int) -> None:
        """Take the name of a bytes column and how many of its bytes."""
        super().__init__(column, Value(most))


class OctetLength(Func):
    """How many bytes a column holds, without reading them."""

    function = "octet_length"
    output_field = IntegerField()


HISTORY = 200
"""A picture of more events than this shows nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dossier:
    """The ledger record of one operation (L1), with what is registered about its tool and server."""

    id: str
    version: int
    state: State
    reason: str
    outcome: str
    created_at: datetime
    entered_at: datetime
    title: str
    tool: str
    description: str
    tool_version: str
    tool_effect: str
    server: str
    server_title: str
    protocol: str
    release: str
    current_release: str
    created_epoch: int
    epoch: int
    client: str
    call_node: str
    principal: str
    submission_key: str
    request_digest: str
    arguments: str
    as_task: bool
    session: str | None
    task_id: str | None
    protocol_status: str
    protocol_message: str
    terminal_status: str | None
    look: int
    looked_at: datetime | None
    due_at: datetime | None
    lease_until: datetime | None
    urgent: bool
    trouble: str
    """Why the server could not be asked the last time; empty when it answered."""
    trouble_since: datetime | None
    misses: int
    """Tries in a row that brought nothing."""
    poll_ms: int | None
    max_qps: float
    paused_until: datetime | None
    pause_reason: str
    lookup: str
    submits_open: bool
    """At its protocol version, its server and its tool (O5)."""
    quarantine_s: int
    can_cancel: bool
    """The server has declared that tasks can be cancelled. What is not declared is absent (N2)."""
    stream_event_id: str
    list_cursor: str
    cancel_generation: int
    cancel_intent: bool
    cancel_requested_at: datetime | None
    cancel_requested_by: str
    cancel_reason: str
    cancel_sends: int
    cancel_settled_at: datetime | None
    cancel_stated: bool
    round: int
    round_open: bool
    round_deadline_at: datetime | None
    answer_delivery: str | None
    sends: int
    sends_disproved: int
    replays: int
    fetches: int
    lost_at: datetime | None
    not_found: str
    budget_ends_at: datetime
    task_expires_at: datetime | None
    result_digest: str | None
    evidence_count: int
    disputed: bool

    @property
    def is_final(self) -> bool:
        """True: it has its receipt, nothing can change any more."""
        return self.state in FINAL

    @property
    def is_finished(self) -> bool:
        """True: a cancel asked now comes too late (C10)."""
        return self.state in FINISHED

    @property
    def waits_for_submits(self) -> bool:
        """True: only a submit could bring it on, and submits are shut (O5).

        Where a server is asked by the same submit again, the look itself is one.
        """
        if self.submits_open or self.is_final or self.task_id is not None:
            return False
        return self.nothing_sent if self.state is State.SUBMITTING else self.lookup == Lookup.SAME_KEY_REPLAY

    @property
    def nothing_sent(self) -> bool:
        """True: provably, nothing of this call can exist at the server."""
        return self.sends == self.sends_disproved and not self.replays

    @property
    def is_parked(self) -> bool:
        """True: no look can bring anything new here."""
        return is_parked(self.state, task_id=self.task_id, lookup=self.lookup, nothing_sent=self.nothing_sent)

    @property
    def asked(self) -> Asked:
        """How it stands with the newest question."""
        return asked(self.state, is_open=self.round_open, delivery=self.answer_delivery)

    @property
    def is_tool_error(self) -> bool:
        """True: accepted, and the tool itself reported an error (R7)."""
        return self.outcome == Outcome.TOOL_ERROR


def read(operation: uuid.UUID) -> Dossier | None:
    """Return the record of an operation; None when there is none. 1 query."""
    row = (
        within(Operation.objects.all())
        .select_related("tool", "descriptor", "server", "protocol", "due", "receipt")
        .defer("descriptor__raw", "descriptor__input_schema", "descriptor__output_schema", "receipt__result")
        .filter(id=operation)
        .first()
    )
    if row is None:
        return None
    due, receipt = getattr(row, "due", None), getattr(row, "receipt", None)
    return Dossier(
        id=str(row.id),
        version=row.version,
        state=State(row.state),
        reason=row.reason,
        outcome=receipt.outcome if receipt else "",
        created_at=row.created_at,
        entered_at=row.entered_at,
        title=row.descriptor.title or row.tool.name,
        tool=row.tool.name,
        description=row.descriptor.description,
        tool_version=row.descriptor.digest,
        tool_effect=row.tool.effect,
        server=row.server_id,
        server_title=row.server.title,
        protocol=row.protocol_id,
        release=row.release,
        current_release=row.release if row.created_epoch == row.protocol.epoch else row.protocol.release,
        created_epoch=row.created_epoch,
        epoch=row.protocol.epoch,
        client=row.client,
        call_node=row.call_node,
        principal=row.principal,
        submission_key=row.submission_key,
        request_digest=row.request_digest,
        arguments=bytes(row.arguments).decode(errors="replace"),
        as_task=row.as_task,
        session=row.session,
        task_id=row.task_id,
        protocol_status=row.protocol_status,
        protocol_message=row.protocol_message,
        terminal_status=row.terminal_status,
        look=row.look,
        looked_at=row.looked_at,
        due_at=due.due_at if due else None,
        lease_until=due.lease_until if due else None,
        urgent=bool(due and due.urgent),
        trouble=due.trouble if due else "",
        trouble_since=due.trouble_since if due else None,
        misses=due.misses if due else 0,
        poll_ms=row.poll_ms,
        max_qps=row.server.max_qps,
        paused_until=row.server.paused_until,
        pause_reason=row.server.pause_reason,
        lookup=row.server.lookup,
        submits_open=row.protocol.submits_open and row.server.submits_open and row.tool.submits_open,
        quarantine_s=row.server.quarantine_s,
        can_cancel=(row.server.capabilities or {}).get("cancels_tasks") is True,
        stream_event_id=row.stream_event_id,
        list_cursor=row.list_cursor,
        cancel_generation=row.cancel_generation,
        cancel_intent=row.cancel_intent,
        cancel_requested_at=row.cancel_requested_at,
        cancel_requested_by=row.cancel_requested_by,
        cancel_reason=row.cancel_reason,
        cancel_sends=row.cancel_sends,
        cancel_settled_at=row.cancel_settled_at,
        cancel_stated=row.cancel_stated,
        round=row.round,
        round_open=row.round_open,
        round_deadline_at=row.round_deadline_at,
        answer_delivery=row.answer_delivery,
        sends=row.sends,
        sends_disproved=row.sends_disproved,
        replays=row.replays,
        fetches=row.fetches,
        lost_at=row.lost_at,
        not_found=row.not_found,
        budget_ends_at=row.budget_ends_at,
        task_expires_at=row.task_expires_at,
        result_digest=row.result_digest,
        evidence_count=row.evidence_count,
        disputed=row.disputed,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRow:
    """One line of the journal."""

    id: int
    at: datetime
    kind: str
    event: str
    source: str
    target: str
    version: int
    look: int
    actor: str
    detail: Mapping[str, Any]
    evidence: tuple[int, ...]

    @property
    def is_step(self) -> bool:
        """True: the state changed."""
        return self.kind == JournalKind.STEP

    @property
    def is_refused(self) -> bool:
        """True: a step that was not taken."""
        return self.kind in {JournalKind.REFUSED, JournalKind.STALE}


def journal(operation: uuid.UUID, *, limit: int = HISTORY) -> tuple[JournalRow, ...]:
    """Return the newest lines of the journal, oldest of them first. 1 query."""
    rows = Journal.objects.filter(operation=operation).order_by("-id")[:limit]
    return tuple(
        JournalRow(
            id=row.id,
            at=row.at,
            kind=row.kind,
            event=row.event,
            source=row.source,
            target=row.target,
            version=row.version,
            look=row.look,
            actor=row.actor,
            detail=row.detail,
            evidence=tuple(row.evidence_seqs),
        )
        for row in reversed(rows)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRow:
    """One piece of evidence without its bytes."""

    seq: int
    at: datetime
    kind: str
    label: str
    summary: str
    http_status: int | None
    media_type: str
    complete: bool
    look: int
    digest: str
    size: int


def evidence(operation: uuid.UUID, *, before: int | None = None, limit: int = PAGE) -> tuple[EvidenceRow, ...]:
    """Return a page of evidence, newest first, without bytes; `before` ends the page before. 1 query."""
    rows = Evidence.objects.filter(operation=operation).defer("request").order_by("-seq")
    if before is not None:
        rows = rows.filter(seq__lt=before)
    return tuple(_evidence_row(row) for row in rows[:limit])


def _evidence_row(row: Evidence) -> EvidenceRow:
    return EvidenceRow(
        seq=row.seq,
        at=row.at,
        kind=row.kind,
        label=row.label,
        summary=row.summary,
        http_status=row.http_status,
        media_type=row.media_type,
        complete=row.complete,
        look=row.look,
        digest=row.digest,
        size=row.size,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceBody:
    """One piece of evidence with what was sent and what came back."""

    row: EvidenceRow
    request: bytes
    raw: bytes | None
    """None: the bytes were purged by policy; the digest stays (L7)."""


def evidence_body(operation: uuid.UUID, *, seq: int, most: int | None = None) -> EvidenceBody | None:
    """Return one piece of evidence with its first `most` bytes; None when there is none. 2 queries."""
    row = Evidence.objects.filter(operation=operation, seq=seq).first()
    if row is None:
        return None
    raw = F("raw") if most is None else Left("raw", most)
    payload = EvidencePayload.objects.filter(evidence=row.pk).values_list(raw, flat=True).first()
    return EvidenceBody(
        row=_evidence_row(row), request=bytes(row.request), raw=None if payload is None else bytes(payload)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRow:
    """One round with how far its answer has come."""

    number: int
    status: str
    closed_reason: str
    opened_at: datetime
    deadline_at: datetime
    closed_at: datetime | None
    claimed_by: str
    first_question: str
    answered_by: str
    answered_at: datetime | None
    actions: tuple[str, ...]
    delivery: str
    sent_at: datetime | None
    used_at: datetime | None

    @property
    def time_s(self) -> float:
        """How long the round may be answered, in seconds."""
        return (self.deadline_at - self.opened_at).total_seconds()


def rounds(operation: uuid.UUID, *, limit: int = PAGE) -> tuple[RoundRow, ...]:
    """Return the newest rounds of an operation, oldest of them first. 1 query."""
    found = Round.objects.filter(operation=operation).select_related("answer").order_by("-number")[:limit]
    return tuple(_round_row(row) for row in reversed(found))


def _round_row(row: Round) -> RoundRow:
    answer: Answer | None = getattr(row, "answer", None)
    return RoundRow(
        number=row.number,
        status=row.status,
        closed_reason=row.closed_reason,
        opened_at=row.opened_at,
        deadline_at=row.deadline_at,
        closed_at=row.closed_at,
        claimed_by=row.claimed_by,
        first_question=str(row.questions[0].get("message", "")) if row.questions else "",
        answered_by=answer.by if answer else "",
        answered_at=answer.at if answer else None,
        actions=tuple(str(reply.get("action", "")) for reply in answer.replies) if answer else (),
        delivery=answer.delivery if answer else "",
        sent_at=answer.sent_at if answer else None,
        used_at=answer.used_at if answer else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitRow:
    """Leave to send one request, and what became of it (L4)."""

    kind: str
    given_at: datetime
    settled_at: datetime | None
    settlement: str


def permits(operation: uuid.UUID, *, limit: int = PAGE) -> tuple[PermitRow, ...]:
    """Return the newest permits, oldest of them first. 1 query."""
    rows = Permit.objects.filter(operation=operation).order_by("-given_at")[:limit]
    return tuple(
        PermitRow(kind=row.kind, given_at=row.given_at, settled_at=row.settled_at, settlement=row.settlement)
        for row in reversed(rows)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptCard:
    """The receipt with the delivery that lets the call node advance (R3, R6)."""

    id: str
    at: datetime
    outcome: str
    verdict: str
    summary: str
    client: str
    call_node: str
    request_digest: str
    task_id: str | None
    tool_version: str
    epoch: int
    cancel_generation: int
    terminal_status: str | None
    result_digest: str | None
    result: str | None
    result_size: int
    decided_by: str
    delivery_seq: int | None
    ready_at: datetime | None
    delivered_at: datetime | None
    deliveries: int
    acknowledged_at: datetime | None


RESULT_SHOWN = 64 * 1024
"""Bytes of a result that a page shows; the rest is neither read nor sent. A download gives all of it."""


def receipt(operation: uuid.UUID) -> ReceiptCard | None:
    """Return the receipt of an operation with its delivery; None while it has none. 1 query."""
    found = Receipt.objects.select_related("outbox").filter(operation=operation).defer("result")
    row = found.annotate(shown=Left("result", RESULT_SHOWN), size=OctetLength("result")).first()
    if row is None:
        return None
    outbox: Outbox | None = getattr(row, "outbox", None)
    result = None if row.shown is None else bytes(row.shown)
    return ReceiptCard(
        id=str(row.id),
        at=row.at,
        outcome=row.outcome,
        verdict=row.verdict,
        summary=row.summary,
        client=row.client,
        call_node=row.call_node,
        request_digest=row.request_digest,
        task_id=row.task_id,
        tool_version=row.tool_version,
        epoch=row.epoch,
        cancel_generation=row.cancel_generation,
        terminal_status=row.terminal_status,
        result_digest=row.result_digest,
        result=None if result is None else result.decode(errors="replace"),
        result_size=row.size or 0,
        decided_by=row.decided_by,
        delivery_seq=outbox.seq if outbox else None,
        ready_at=outbox.ready_at if outbox else None,
        delivered_at=outbox.delivered_at if outbox else None,
        deliveries=outbox.deliveries if outbox else 0,
        acknowledged_at=outbox.acknowledged_at if outbox else None,
    )


def result_of(operation: uuid.UUID) -> bytes | None:
    """Return the validated payload, byte for byte; None where there is none. 1 query."""
    found = Receipt.objects.filter(operation=operation).values_list("result", flat=True).first()
    return None if found is None else bytes(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectCard:
    """What may have happened outside (C6)."""

    opened_at: datetime
    cause: str
    facts: tuple[Mapping[str, Any], ...]
    status: str
    owner: str
    note: str
    link: str
    decided_by: str
    decided_at: datetime | None

    @property
    def is_open(self) -> bool:
        """True: somebody still has to say what happened outside."""
        return self.status in {EffectStatus.OPEN, EffectStatus.STILL_OPEN}


def effect(operation: uuid.UUID) -> EffectCard | None:
    """Return the effect record of an operation; None when it has none. 1 query."""
    row = EffectRecord.objects.filter(operation=operation).first()
    if row is None:
        return None
    return EffectCard(
        opened_at=row.opened_at,
        cause=row.cause,
        facts=tuple(row.facts),
        status=row.status,
        owner=row.owner,
        note=row.note,
        link=row.link,
        decided_by=row.decided_by,
        decided_at=row.decided_at,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A verdict that waits for a second person (W)."""

    id: str
    verdict: Verdict
    by: str
    at: datetime
    reason: str
    content: Mapping[str, str]


def proposal(operation: uuid.UUID) -> Proposal | None:
    """Return the verdict that waits for its second person; None when none does. 1 query."""
    row = VerdictProposal.objects.filter(operation=operation, confirmed__isnull=True).first()
    if row is None:
        return None
    return Proposal(
        id=str(row.id), verdict=Verdict(row.verdict), by=row.by, at=row.at, reason=row.reason, content=row.content
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Who works on an item of the desk."""

    by: str
    at: datetime


def claim(operation: uuid.UUID) -> Claim | None:
    """Return who has claimed the item; None when it is free. 1 query."""
    row = DeskClaim.objects.filter(operation=operation).first()
    return Claim(by=row.by, at=row.at) if row else None
