"""Hands receipts to call nodes, at least once each, until they are acknowledged (R6).

Pull: the call node asks for what it has not acknowledged. A row that was handed out and not acknowledged is handed
out again, the same bytes under the same receipt id; the receiver tells a repetition by that id.
"""

from __future__ import annotations

from datetime import datetime

from adapters.contract import Json
from adapters.strictjson import Verbatim, compose
from operations import ledger
from operations.queries.outbox import ReadyRow, ready_rows

INLINE_BYTES = 32_000
"""A bigger result comes by its own address, so that one answer stays small."""


def pull(client: str, *, after: int, limit: int, now: datetime) -> tuple[ReadyRow, ...]:
    """Hand out what one API client has not acknowledged, oldest first; each row is counted as a delivery.

    `after` pages inside one pass only: see `queries.outbox.ready_rows`.
    """
    rows = ready_rows(client, after=after, limit=limit, inline=INLINE_BYTES)
    if rows:
        ledger.mark_delivered(client=client, receipts=[row.receipt for row in rows], now=now)
    return rows


def written(row: ReadyRow, *, result_url: str | None) -> bytes:
    """Write one delivery as JSON; a result that comes inline keeps its exact bytes.

    `result_url` is where the result can be read; None where there is none.
    """
    return compose(
        {
            "receipt": row.receipt,
            "operation": row.operation,
            "call_node": row.call_node,
            "outcome": row.outcome,
            "verdict": row.verdict or None,
            "summary": row.summary,
            "decided_at": row.decided_at.isoformat(),
            "result_digest": row.result_digest,
            "result_size": row.result_size,
            "result_url": result_url,
            "result": None if row.result is None else Verbatim(row.result),
            "seq": row.seq,
        }
    )


def written_page(deliveries: list[bytes], *, next_after: int, more: bool) -> bytes:
    """Write one page of deliveries as JSON."""
    parts: dict[str, Json | Verbatim] = {
        "items": Verbatim(b"[" + b",".join(deliveries) + b"]"),
        "next_after": next_after,
        "more": more,
    }
    return compose(parts)
