"""/api/v1/outbox: how a call node learns that a call has ended. It advances on nothing else (R6)."""

from __future__ import annotations

import functools

from django.http import HttpResponse, JsonResponse
from django.utils import timezone

from console.api.door import LONGEST_WAIT_S, Ask, Method, endpoint
from console.api.waiting import wait_for
from console.models import Scope
from operations import intake, ledger, outbox
from operations.queries.outbox import ReadyRow

_MOST_ROWS = 100
_BIGGEST_SEQ = 2**63 - 1


async def _pull(ask: Ask) -> HttpResponse:
    limit = ask.whole("limit", default=20, least=1, most=_MOST_ROWS)
    after = ask.whole("after", default=0, least=0, most=_BIGGEST_SEQ)
    wait_s = ask.whole("wait", default=0, least=0, most=LONGEST_WAIT_S)
    check = functools.partial(_handed_out, ask, after=after, limit=limit)
    rows = await wait_for(check, operation=None, wait_s=wait_s) or ()
    page = outbox.written_page(
        [outbox.written(row, result_url=_result_url(ask, row)) for row in rows],
        next_after=rows[-1].seq if rows else after,
        more=len(rows) == limit,
    )
    return HttpResponse(page, content_type="application/json", headers={"Cache-Control": "no-store"})


def _acknowledge(ask: Ask) -> HttpResponse:
    receipts = intake.read_receipts(ask.body())
    acknowledged = ledger.acknowledge(client=ask.caller.client, receipts=receipts, now=ask.now)
    unknown = [receipt for receipt in receipts if receipt not in acknowledged]
    return JsonResponse({"acknowledged": list(acknowledged), "unknown": unknown}, headers={"Cache-Control": "no-store"})


def _handed_out(ask: Ask, *, after: int, limit: int) -> tuple[ReadyRow, ...] | None:
    return outbox.pull(ask.caller.client, after=after, limit=limit, now=timezone.now()) or None


def _result_url(ask: Ask, row: ReadyRow) -> str | None:
    return None if row.result_size is None else ask.link("result", operation=row.operation)


pull = endpoint(GET=Method(Scope.READ, _pull))
acknowledge = endpoint(POST=Method(Scope.ACKNOWLEDGE, _acknowledge))
