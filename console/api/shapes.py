"""The JSON of the API. Our own word is always `state`, the server's word is always `protocol_status` (L6)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from console.api.door import Ask
from operations.queries.api import CallView, ReceiptHead, ReceiptView
from operations.queries.shadows import ShadowView


def operation(ask: Ask, call: CallView) -> dict[str, Any]:
    """Write one operation out."""
    return {
        "schema": "toolOperation.v1",
        "id": call.id,
        "version": call.version,
        "state": call.state.value,
        "final": call.is_final,
        "reason": call.reason or None,
        "created_at": _moment(call.created_at),
        "entered_at": _moment(call.entered_at),
        "call_node": call.call_node,
        "submission_key": call.submission_key,
        "principal": call.principal,
        "request_digest": call.request_digest,
        "server": call.server,
        "tool": call.tool,
        "tool_version": call.tool_version,
        "protocol_version": call.protocol_version,
        "adapter_release": call.adapter_release,
        "execution_epoch": call.execution_epoch,
        "task_id": call.task_id,
        "protocol_status": call.protocol_status or None,
        "protocol_message": call.protocol_message or None,
        "terminal_status": call.terminal_status,
        "input": {
            "round": call.round,
            "open": call.round_open,
            "deadline_at": _moment(call.round_deadline_at) if call.round_open else None,
        },
        "can_cancel": call.can_cancel,
        "cancel": _cancel(call),
        "not_found": call.not_found or None,
        "budget_ends_at": _moment(call.budget_ends_at),
        "task_expires_at": _moment(call.task_expires_at),
        "result_digest": call.result_digest,
        "receipt": _receipt_head(ask, call),
        "links": {
            "self": ask.link("operation", operation=call.id),
            "page": ask.page(call.id),
            "cancel": ask.link("cancel", operation=call.id),
        },
    }


def shadow(found: ShadowView, *, link: str) -> dict[str, Any]:
    """Write a shadow out: how it stands, and no more. What it saw is for the people who decide about the release."""
    return {
        "id": found.id,
        "state": found.state.value,
        "why": found.why or None,
        "call_node": found.call_node,
        "server": found.server,
        "tool": found.tool,
        "task_id": found.task_id,
        "adapter_release": found.release,
        "registered_at": _moment(found.registered_at),
        "ends_at": _moment(found.ends_at),
        "reported_at": _moment(found.told_at),
        "differences": [one.value for one in found.differences],
        "fall_back_allowed": True,
        "links": {"self": link, "outcome": f"{link}/outcome"},
    }


def receipt(ask: Ask, found: ReceiptView) -> dict[str, Any]:
    """Write a terminal receipt out."""
    return {
        "id": found.id,
        "operation": found.operation,
        "at": _moment(found.at),
        "outcome": found.outcome,
        "verdict": found.verdict or None,
        "summary": found.summary,
        "call_node": found.call_node,
        "request_digest": found.request_digest,
        "task_id": found.task_id,
        "tool_version": found.tool_version,
        "execution_epoch": found.execution_epoch,
        "cancel_generation": found.cancel_generation,
        "terminal_status": found.terminal_status,
        "result_digest": found.result_digest,
        "result_url": ask.link("result", operation=found.operation) if found.has_result else None,
        "decided_by": found.decided_by,
        "acknowledged_at": _moment(found.acknowledged_at),
    }


def etag(version: int) -> str:
    """Return the entity tag of an operation at a version. Weak: an acknowledgement does not move the version."""
    return f'W/"{version}"'


def _cancel(call: CallView) -> dict[str, Any] | None:
    if call.cancel_requested_at is None:
        return None
    return {
        "generation": call.cancel_generation,
        "requested_at": _moment(call.cancel_requested_at),
        "requested_by": call.cancel_requested_by,
        "reason": call.cancel_reason,
        "stated_unconfirmed": call.cancel_stated,
    }


def _receipt_head(ask: Ask, call: CallView) -> dict[str, Any] | None:
    head: ReceiptHead | None = call.receipt
    if head is None:
        return None
    return {
        "id": head.id,
        "outcome": head.outcome,
        "verdict": head.verdict or None,
        "at": _moment(head.at),
        "acknowledged_at": _moment(head.acknowledged_at),
        "url": ask.link("receipt", operation=call.id),
    }


def _moment(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
