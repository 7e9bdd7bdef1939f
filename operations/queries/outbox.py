"""What waits for a call node."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import BinaryField, Case, F, Value, When
from django.db.models.functions import Length

from operations.models import Outbox


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyRow:
    """One receipt that its API client has not acknowledged yet.

    It holds nothing that changes from one delivery to the next: the same row reads the same each time.
    """

    seq: int
    receipt: str
    operation: str
    call_node: str
    outcome: str
    verdict: str
    summary: str
    decided_at: datetime
    result_digest: str | None
    result_size: int | None
    """Bytes of the validated result; None where the outcome carries none."""
    result: bytes | None = field(repr=False)
    """The validated result itself, when it is no bigger than what was asked to come inline."""


def ready_rows(client: str, *, after: int, limit: int, inline: int) -> tuple[ReadyRow, ...]:
    """Return unacknowledged rows of one API client, oldest first. 1 query.

    `after` pages inside one pass and is no place to resume from: numbers are drawn before they are committed, so a
    smaller one may turn up later (B227). Whoever starts again starts at 0; acknowledged rows are gone by then.
    `inline` is in bytes.
    """
    waiting = Outbox.objects.filter(client=client, acknowledged_at__isnull=True, seq__gt=after)
    size = Length("receipt__result")
    small = Case(
        When(size__lte=inline, then=F("receipt__result")), default=Value(None), output_field=BinaryField(null=True)
    )
    rows = waiting.select_related("receipt").defer("receipt__result").annotate(size=size).annotate(small=small)
    return tuple(_ready_row(row) for row in rows.order_by("seq")[:limit])


def _ready_row(row: Outbox) -> ReadyRow:
    small: bytes | memoryview | None = getattr(row, "small", None)
    return ReadyRow(
        seq=row.seq,
        receipt=str(row.receipt_id),
        operation=str(row.receipt.operation_id),
        call_node=row.receipt.call_node,
        outcome=row.receipt.outcome,
        verdict=row.receipt.verdict,
        summary=row.receipt.summary,
        decided_at=row.receipt.at,
        result_digest=row.receipt.result_digest,
        result_size=getattr(row, "size", None),
        result=None if small is None else bytes(small),
    )
