"""The reconciliation desk: what no evidence has settled yet, with its clocks (X4)."""

from __future__ import annotations

import uuid
from http import HTTPStatus

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from console import advice, manual
from console.access import Deed, PersonRequest, allow
from operations import ledger
from operations.machine import NotFound, Reason, State, StepError
from operations.queries import Cursor, desk, dossier
from operations.queries.desk import Kind
from operations.queries.dossier import Dossier

_TABS: dict[str, frozenset[Kind]] = {
    "open": frozenset(Kind),
    "mine": frozenset(Kind),
    "effects": frozenset({Kind.EFFECT}),
}


@require_GET
@allow(Deed.SEE)
def listing(request: PersonRequest) -> HttpResponse:
    """Show the desk, oldest clock first."""
    tab = request.GET.get("tab", "open")
    tab = tab if tab in _TABS else "open"
    found = desk.find_items(
        mine=request.actor.by if tab == "mine" else "",
        kinds=_TABS[tab],
        after=Cursor.read(request.GET.get("after", "")),
    )
    context = {
        "now": timezone.now(),
        "desk": found,
        "tab": tab,
        "limit": desk.CLOCK.total_seconds(),
        "may_claim": request.actor.may(Deed.RECONCILE),
    }
    if request.htmx:
        return render(request, "_parts/desk_rows.html", context)
    return render(request, "reconcile.html", context)


@require_POST
@allow(Deed.RECONCILE)
def take(request: PersonRequest, number: uuid.UUID) -> HttpResponse:
    """Claim an item of the desk, or give it back."""
    _item(number)
    if request.POST.get("do") == "release":
        ledger.release_item(str(number), by=request.actor.by)
        return redirect("reconcile")
    ledger.claim_item(str(number), by=request.actor.by, now=timezone.now())
    return redirect("reconcile_item", number)


class GiveUpForm(forms.Form):
    """Closing without knowing: a reason, words typed by hand, and the version that the page showed."""

    WORDS = lazy("close as unknown")

    reason = forms.CharField(min_length=8, max_length=2000)
    typed = forms.CharField()
    seen_version = forms.IntegerField(min_value=1)

    def clean_typed(self) -> str:
        """Compare what was typed, whatever its case and spaces."""
        typed = " ".join(str(self.cleaned_data["typed"]).lower().split())
        if typed != str(self.WORDS):
            raise ValidationError(_("Type exactly: %(words)s") % {"words": self.WORDS})
        return typed


@require_http_methods(["GET", "POST"])
@allow(Deed.SEE)
def item(request: PersonRequest, number: uuid.UUID) -> HttpResponse:
    """Show what we know of one item. Nothing is decided here but by `give_up`."""
    return _page(request, _item(number), GiveUpForm())


@require_POST
@allow(Deed.RECONCILE)
def give_up(request: PersonRequest, number: uuid.UUID) -> HttpResponse:
    """Close an operation whose outcome stays unknown, with a reason."""
    op = _item(number)
    form = GiveUpForm(request.POST)
    if not form.is_valid():
        return _page(request, op, form, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    try:
        ledger.give_up(
            op.id,
            seen_version=form.cleaned_data["seen_version"],
            by=request.actor.by,
            reason=form.cleaned_data["reason"],
            now=timezone.now(),
        )
    except StepError as refusal:
        return _page(request, _item(number), form, status=HTTPStatus.CONFLICT, refusal=refusal)
    messages.success(request, _("Closed as unknown. The call node gets a receipt that says so."))
    return redirect("operation", number)


def _item(number: uuid.UUID) -> Dossier:
    op = dossier.read(number)
    if op is None:
        raise Http404(_("There is no such operation."))
    return op


def _page(
    request: PersonRequest, op: Dossier, form: GiveUpForm, *, status: HTTPStatus = HTTPStatus.OK, **extra: object
) -> HttpResponse:
    now, number = timezone.now(), uuid.UUID(op.id)
    context = {
        "op": op,
        "now": now,
        "form": form,
        "verdict": advice.verdict(op, now=now),
        "reason": manual.REASONS[Reason(op.reason)] if op.reason else manual.STATES[op.state],
        "not_found": manual.NOT_FOUND[NotFound(op.not_found)] if op.not_found else "",
        "lookup": manual.LOOKUPS.get(op.lookup, op.lookup),
        "clock_ends_at": op.entered_at + desk.CLOCK,
        "limit": desk.CLOCK.total_seconds(),
        "on_desk": op.state in desk.BEFORE_A_PERSON,
        "can_give_up": op.state in {State.UNKNOWN, State.NOT_FOUND_SAFE},
        "needs_role": advice.needs_role(request.actor, Deed.RECONCILE),
        "claim": dossier.claim(number),
        "effect": dossier.effect(number),
        "evidence": dossier.evidence(number),
        "permits": dossier.permits(number),
    }
    return render(request, "reconcile_item.html", context | extra, status=status)
