"""Puts the proof of one advance together: delivery -> receipt -> evidence -> rows (G6)."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import Model

from operations.models import Evidence, EvidencePayload, Journal, Operation, Permit, Receipt
from operations.proof import FORMAT
from operations.queries.scope import within

_OPERATION = [
    "client",
    "call_node",
    "principal",
    "submission_key",
    "request_digest",
    "task_id",
    "terminal_status",
    "result_digest",
    "cancel_generation",
    "round",
    "sends",
    "sends_disproved",
    "evidence_count",
    "version",
    "state",
    "created_at",
    "created_epoch",
    "release",
]
_RECEIPT = [
    "at",
    "outcome",
    "verdict",
    "summary",
    "client",
    "call_node",
    "request_digest",
    "task_id",
    "tool_version",
    "epoch",
    "cancel_generation",
    "terminal_status",
    "result_digest",
    "decided_by",
]
_DELIVERY = ["seq", "client", "ready_at", "delivered_at", "deliveries", "acknowledged_at"]
_EVIDENCE = [
    "seq",
    "at",
    "kind",
    "label",
    "summary",
    "epoch",
    "look",
    "http_status",
    "media_type",
    "complete",
    "digest",
    "size",
]
_JOURNAL = [
    "at",
    "kind",
    "event",
    "source",
    "target",
    "version",
    "epoch",
    "cancel_generation",
    "round",
    "look",
    "actor",
    "detail",
    "evidence_seqs",
]
_PERMIT = ["kind", "epoch", "cancel_generation", "round", "look", "given_at", "settled_at", "settlement"]


def compose(operation: uuid.UUID, *, now: datetime) -> dict[str, Any] | None:
    """Return the proof as a JSON document; None while there is no receipt. 5 queries.

    Bytes are base64; those that policy has purged are null, and their digests stay.
    """
    held = within(Receipt.objects.select_related("outbox"), server="operation__server_id")
    receipt = held.filter(operation=operation).first()
    if receipt is None:
        return None
    row = Operation.objects.select_related("descriptor", "tool").defer("arguments").get(pk=operation)
    payloads = dict(EvidencePayload.objects.filter(evidence__operation=operation).values_list("evidence__seq", "raw"))
    return {
        "format": FORMAT,
        "exported_at": now.isoformat(),
        "delivery": _members(receipt.outbox, _DELIVERY) | {"receipt": str(receipt.pk)},
        "receipt": _members(receipt, _RECEIPT)
        | {"id": str(receipt.pk), "operation": str(row.pk), "result": _base64(receipt.result)},
        "operation": _members(row, _OPERATION)
        | {
            "id": str(row.pk),
            "server": row.server_id,
            "tool": row.tool.name,
            "tool_version": row.descriptor.digest,
            "protocol": row.protocol_id,
        },
        "permits": [_members(one, _PERMIT) for one in Permit.objects.filter(operation=operation).order_by("given_at")],
        "evidence": [
            _members(one, _EVIDENCE) | {"raw": _base64(payloads.get(one.seq))}
            for one in Evidence.objects.filter(operation=operation).order_by("seq")
        ],
        "journal": [_members(one, _JOURNAL) for one in Journal.objects.filter(operation=operation).order_by("id")],
    }


def _members(row: Model, names: list[str]) -> dict[str, Any]:
    found: Mapping[str, Any] = {name: getattr(row, name) for name in names}
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in found.items()}


def _base64(raw: bytes | memoryview | None) -> str | None:
    return None if raw is None else base64.b64encode(bytes(raw)).decode()
