"""One outage as one item: its figures, a look-up of all of it, one verdict for all that the evidence allows (X4)."""

from __future__ import annotations

import uuid

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from console import advice, bulk, lists, manual
from console.access import Deed, PersonRequest, allow
from console.context import form_id
from console.views.batches import id_of_chosen
from operations import ledger
from operations.ledger import BatchKind
from operations.machine import Reason
from operations.queries import Cursor, batches, desk, incidents, operations
from operations.queries.desk import Kind, Wanted
from operations.queries.incidents import IncidentCard
from operations.verdicts import Verdict

FOR_MANY = (
    Verdict.GAVE_UP,
    Verdict.ESTABLISHED_OUTSIDE,
    Verdict.EVIDENCED,
    Verdict.NEVER_CREATED,
    Verdict.RESUBMIT,
)
"""What can be said of many items at once. A task that was found belongs to one operation."""


class ManyForm(forms.Form):
    """One verdict for many items."""

    verdict = forms.ChoiceField(choices=[(verdict.value, verdict.value) for verdict in FOR_MANY])
    outcome = forms.CharField(max_length=200, required=False)

    def clean(self) -> dict[str, object]:
        """Ask for what the chosen verdict needs."""
        if self.cleaned_data.get("verdict") == Verdict.ESTABLISHED_OUTSIDE and not self.cleaned_data.get("outcome"):
            self.add_error("outcome", _("Say in a few words what became of them."))
        return self.cleaned_data

    def content(self) -> dict[str, str]:
        """Return what the ledger keeps beside the reason."""
        return {name: value for name, value in self.cleaned_data.items() if value}


@require_GET
@allow(Deed.SEE)
def page(request: PersonRequest, number: uuid.UUID) -> HttpResponse:
    """Show an incident with its items. Nothing is decided by opening it."""
    return _page(request, _incident(number), ManyForm())


def _page(request: PersonRequest, incident: IncidentCard, form: ManyForm, status: int = 200) -> HttpResponse:
    wanted = Wanted(kinds=frozenset({Kind.OUTCOME}), incident=incident.id)
    context = {
        "incident": incident,
        "now": timezone.now(),
        "desk": desk.find_items(wanted, after=Cursor.read(request.GET.get("after", ""))),
        "limit": desk.CLOCK.total_seconds(),
        "due_at": incident.oldest_at + desk.CLOCK if incident.oldest_at else None,
        "reason": manual.REASONS[Reason(incident.reason)],
        "needs_role": advice.needs_role(request.actor, Deed.RECONCILE),
        "may_claim": request.actor.may(Deed.RECONCILE),
        "verdicts": [(verdict, *manual.VERDICTS[verdict]) for verdict in FOR_MANY],
        "form": form,
        "batches": [(one, bulk.TITLES[one.kind]) for one in batches.find_recent(incident=incident.id)],
        "ids": [uuid.uuid4() for _ in range(3)],
        "most": ledger.MOST_OF_A_BATCH,
    }
    if request.htmx:
        return render(request, "_parts/incident_live.html", context)
    return render(request, "incident.html", context, status=status)


@require_POST
@allow(Deed.RECONCILE)
def act(request: PersonRequest, number: uuid.UUID) -> HttpResponse:
    """Look all of it up, claim all of it, or prepare one verdict for all of it."""
    incident = _incident(number)
    ids = incidents.open_items(number, limit=ledger.MOST_OF_A_BATCH)
    if request.POST.get("only") == "chosen":
        ticked = {str(one) for one in lists.chosen(request.POST.getlist("one"))}
        ids = [key for key in ids if key in ticked]
        if not ids:
            return _tick_first(request, reverse("reconcile_incident", args=[number]))
    if not ids:
        messages.info(request, _("Nothing of it stands on the desk any more. Nothing was changed."))
        return redirect("reconcile_incident", number)
    match request.POST.get("do"):
        case "look":
            return _at_once(request, form_id(request), BatchKind.LOOK, ids, incident.id)
        case "claim":
            return _at_once(request, form_id(request), BatchKind.CLAIM, ids, incident.id)
        case _:
            return _prepare_verdict(request, incident, ids)


@require_POST
@allow(Deed.RECONCILE)
def chosen(request: PersonRequest) -> HttpResponse:
    """Look the ticked items of the desk up, or claim them."""
    kind = BatchKind.CLAIM if request.POST.get("many") == "claim" else BatchKind.LOOK
    ids = [row.id for row in operations.read_rows(lists.chosen(request.POST.getlist("one")))]
    found = next((one for one in lists.chosen([request.POST.get("incident", "")]) if incidents.read(one)), None)
    if not ids:
        return _tick_first(request, reverse("reconcile_incident", args=[found]) if found else reverse("reconcile"))
    return _at_once(request, id_of_chosen(request, kind, ids), kind, ids, found)


def _tick_first(request: PersonRequest, page: str) -> HttpResponse:
    request.refusal = "no row was chosen"
    messages.warning(request, _("Tick the rows first. Nothing was changed."))
    return redirect(page)


def _at_once(
    request: PersonRequest, key: uuid.UUID, kind: BatchKind, ids: list[str], incident: uuid.UUID | None
) -> HttpResponse:
    """Looks and claims decide nothing, so they need no preview."""
    now = timezone.now()
    rows = ledger.foresee_looks(ids) if kind is BatchKind.LOOK else ledger.foresee_claims(ids)
    wish = ledger.Wish(id=key, kind=kind, by=request.actor.by, incident=incident)
    ledger.keep_batch(wish, rows, now=now)
    ledger.start_batch(wish.id, by=request.actor.by, reason="", now=now)
    return redirect("batch", wish.id)


def _prepare_verdict(request: PersonRequest, incident: IncidentCard, ids: list[str]) -> HttpResponse:
    form = ManyForm(request.POST)
    if not form.is_valid():
        return _page(request, incident, form, status=422)
    content = form.content()
    is_chosen = request.POST.get("only") == "chosen"
    wish = ledger.Wish(
        id=id_of_chosen(request, BatchKind.VERDICT, [content["verdict"], *ids]) if is_chosen else form_id(request),
        kind=BatchKind.VERDICT,
        by=request.actor.by,
        content=content,
        incident=incident.id,
    )
    ledger.keep_batch(wish, ledger.foresee_verdicts(ids, Verdict(content["verdict"])), now=timezone.now())
    return redirect("batch", wish.id)


def _incident(number: uuid.UUID) -> IncidentCard:
    found = incidents.read(number)
    if found is None:
        raise Http404(_("There is no such incident."))
    return found
