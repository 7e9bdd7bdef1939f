"""What a call node may see of its own operations. Nothing here crosses from one API client to another."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet

from operations.machine import FINAL, State
from operations.models import Operation, Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptHead:
    """The receipt of an operation, as far as a link to it needs."""

    id: str
    outcome: str
    verdict: str
    at: datetime
    acknowledged_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallView:
    """`toolOperation.v1` as its own API client may read it. Looks that bring nothing new do not show in it."""

    id: str
    version: int
    state: State
    reason: str
    created_at: datetime
    entered_at: datetime
    call_node: str
    submission_key: str
    principal: str
    request_digest: str
    server: str
    tool: str
    tool_version: str
    protocol_version: str
    adapter_release: str
    execution_epoch: int
    task_id: str | None
    protocol_status: str
    protocol_message: str
    terminal_status: str | None
    round: int
    round_open: bool
    round_deadline_at: datetime | None
    cancel_generation: int
    cancel_requested_at: datetime | None
    cancel_requested_by: str
    cancel_reason: str
    cancel_stated: bool
    can_cancel: bool
    """The server declared that it takes cancels (N2)."""
    not_found: str
    budget_ends_at: datetime
    task_expires_at: datetime | None
    result_digest: str | None
    receipt: ReceiptHead | None

    @property
    def is_final(self) -> bool:
        """True: nothing about this operation will change any more, but for its acknowledgement."""
        return self.state in FINAL


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptView:
    """A terminal receipt, all eight facts of it (R3)."""

    id: str
    operation: str
    at: datetime
    outcome: str
    verdict: str
    summary: str
    call_node: str
    request_digest: str
    task_id: str | None
    tool_version: str
    execution_epoch: int
    cancel_generation: int
    terminal_status: str | None
    result_digest: str | None
    has_result: bool
    decided_by: str
    acknowledged_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultView:
    """What a call brought. `raw` is None where the outcome carries no result."""

    outcome: str
    digest: str | None
    raw: bytes | None = field(repr=False)


def call_of(client: str, operation: UUID) -> CallView | None:
    """Return one operation of the client; None when it is not there or is another client's. 1 query."""
    row = _calls(client).filter(pk=operation).first()
    return _call_view(row) if row else None


def call_by(client: str, *, call_node: str | None = None, submission_key: str | None = None) -> CallView | None:
    """Find an operation of the client by what the client itself knows of it (A4). 1 query.

    With both names, the operation must carry both.
    """
    names = {"call_node": call_node, "submission_key": submission_key}
    given = {name: value for name, value in names.items() if value is not None}
    row = _calls(client).filter(**given).first() if given else None
    return _call_view(row) if row else None


def version_of(client: str, operation: UUID) -> int | None:
    """Return where an operation of the client stands: the cheap question of a waiting caller. 1 query."""
    return Operation.objects.filter(client=client, pk=operation).values_list("version", flat=True).first()


def receipt_of(client: str, operation: UUID) -> ReceiptView | None:
    """Return the receipt of an operation of the client; None while there is none. 1 query."""
    row = (
        Receipt.objects.filter(client=client, operation=operation)
        .select_related("outbox")
        .defer("result")
        .annotate(has_result=ExpressionWrapper(Q(result__isnull=False), output_field=BooleanField()))
        .first()
    )
    return _receipt_view(row) if row else None


def result_of(client: str, operation: UUID) -> ResultView | None:
    """Return the validated payload of an operation of the client; None while there is no receipt. 1 query."""
    receipts = Receipt.objects.filter(client=client, operation=operation)
    found = receipts.values_list("outcome", "result_digest", "result").first()
    if found is None:
        return None
    outcome, digest, raw = found
    return ResultView(outcome=outcome, digest=digest, raw=None if raw is None else bytes(raw))


def _calls(client: str) -> QuerySet[Operation]:
    related = ("server", "tool", "descriptor", "protocol", "receipt", "receipt__outbox")
    heavy = ("arguments", "receipt__result", "descriptor__raw")
    schemas = ("descriptor__input_schema", "descriptor__output_schema")
    return Operation.objects.filter(client=client).select_related(*related).defer(*heavy, *schemas)


def _call_view(row: Operation) -> CallView:
    return CallView(
        id=str(row.pk),
        version=row.version,
        state=State(row.state),
        reason=row.reason,
        created_at=row.created_at,
        entered_at=row.entered_at,
        call_node=row.call_node,
        submission_key=row.submission_key,
        principal=row.principal,
        request_digest=row.request_digest,
        server=row.server_id,
        tool=row.tool.name,
        tool_version=row.descriptor.digest,
        protocol_version=row.protocol_id,
        adapter_release=row.release,
        execution_epoch=row.protocol.epoch,
        task_id=row.task_id,
        protocol_status=row.protocol_status,
        protocol_message=row.protocol_message,
        terminal_status=row.terminal_status,
        round=row.round,
        round_open=row.round_open,
        round_deadline_at=row.round_deadline_at,
        cancel_generation=row.cancel_generation,
        cancel_requested_at=row.cancel_requested_at,
        cancel_requested_by=row.cancel_requested_by,
        cancel_reason=row.cancel_reason,
        cancel_stated=row.cancel_stated,
        can_cancel=bool((row.server.capabilities or {}).get("cancels_tasks")),
        not_found=row.not_found,
        budget_ends_at=row.budget_ends_at,
        task_expires_at=row.task_expires_at,
        result_digest=row.result_digest,
        receipt=_receipt_head(row),
    )


def _receipt_head(row: Operation) -> ReceiptHead | None:
    receipt: Receipt | None = getattr(row, "receipt", None)
    if receipt is None:
        return None
    return ReceiptHead(
        id=str(receipt.pk),
        outcome=receipt.outcome,
        verdict=receipt.verdict,
        at=receipt.at,
        acknowledged_at=receipt.outbox.acknowledged_at,
    )


def _receipt_view(row: Receipt) -> ReceiptView:
    return ReceiptView(
        id=str(row.pk),
        operation=str(row.operation_id),
        at=row.at,
        outcome=row.outcome,
        verdict=row.verdict,
        summary=row.summary,
        call_node=row.call_node,
        request_digest=row.request_digest,
        task_id=row.task_id,
        tool_version=row.tool_version,
        execution_epoch=row.epoch,
        cancel_generation=row.cancel_generation,
        terminal_status=row.terminal_status,
        result_digest=row.result_digest,
        has_result=bool(getattr(row, "has_result", False)),
        decided_by=row.decided_by,
        acknowledged_at=row.outbox.acknowledged_at,
    )
