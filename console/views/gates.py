"""Gates: the six promises measured, what breaks them, and the proof of any advance (G1 to G6)."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta

from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.text import get_valid_filename
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from console import advice, gatewords
from console.access import Deed, PersonRequest, allow
from operations import proof
from operations.queries import dossier, gates, operations
from operations.queries import proof as proofs

NOBODY_CHECKS = timedelta(minutes=3)


@require_GET
@allow(Deed.SEE)
def page(request: PersonRequest) -> HttpResponse:
    """Show the six gates with their trends, and the operations behind what breaks or comes near."""
    now = timezone.now()
    check, trends = gates.last_check(), gates.trends(now=now)
    context = {
        "now": now,
        "cards": [gatewords.card(trend, check=check) for trend in trends],
        "holding": sum(trend.holds for trend in trends),
        "measured_at": max((trend.measured_at for trend in trends if trend.measured_at), default=None),
        "check": check,
        "silent": check is None or now - check.at > NOBODY_CHECKS,
        "behind": [(one, gatewords.figure(one.gate, one.took)) for one in gates.behind(now=now)],
        "settled": gates.settled_p99(now=now),
        "interleavings": gates.last_interleavings(),
    }
    return render(request, "_parts/gates_live.html" if request.htmx else "gates.html", context)


@require_GET
@allow(Deed.SEE)
def find_proof(request: PersonRequest) -> HttpResponse:
    """Find the advance that an id belongs to."""
    text = request.GET.get("q", "").strip()
    found = operations.find_by_any_id(text) if text else ()
    if len(found) == 1:
        return redirect("proof", found[0].id)
    context = {"now": timezone.now(), "q": text, "rows": found}
    return render(request, "proof_find.html", context)


@require_GET
@allow(Deed.SEE)
def show_proof(request: PersonRequest, number: uuid.UUID) -> HttpResponse:
    """Show the chain from a delivery back to the rows, and check it."""
    op = dossier.read(number)
    if op is None:
        raise Http404(_("There is no such operation."))
    document = proofs.compose(number, now=timezone.now())
    context = {
        "now": timezone.now(),
        "op": op,
        "proof": document,
        "findings": proof.check(document) if document else (),
        "outbox": dossier.receipt(number),
        "needs_role": advice.needs_role(request.actor, Deed.READ_PAYLOADS),
    }
    return render(request, "proof.html", context)


@require_GET
@allow(Deed.READ_PAYLOADS)
def export_proof(_request: PersonRequest, number: uuid.UUID) -> HttpResponse:
    """Hand the proof out as a file that `manage.py check_proof` checks on any machine."""
    document = proofs.compose(number, now=timezone.now())
    if document is None:
        raise Http404(_("This operation has no receipt yet, so nothing has advanced."))
    name = get_valid_filename(f"proof-{document['receipt']['id']}.json")
    return HttpResponse(
        json.dumps(document, indent=1, ensure_ascii=False),
        content_type="application/json",
        headers={"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"},
    )
