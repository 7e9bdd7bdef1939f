"""Trials: a release that watches what existing paths do, both sides beside each other, differences first (O1)."""

from __future__ import annotations

import uuid
from http import HTTPStatus

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from console import advice, releases
from console.access import Deed, PersonRequest, allow
from console.adminforms import ReasonForm, TrialForm
from operations import ledger, registration
from operations.ledger import Note
from operations.queries import PAGE, Cursor, adapters, shadows
from operations.queries.adapters import VersionView
from operations.queries.shadows import DivergenceView, ShadowView


@require_GET
@allow(Deed.SEE)
def listing(request: PersonRequest, version: str) -> HttpResponse:
    """Show the open differences of a version, and its watched calls, newest first; htmx asks for the rows alone."""
    found = _version(version)
    rows = shadows.shadows_of(version, after=Cursor.read(request.GET.get("after", "")))
    more = rows[PAGE - 1] if len(rows) > PAGE else None
    context = {
        "now": timezone.now(),
        "version": found,
        "trial": shadows.trial_of(version, found.on_trial) if found.on_trial else None,
        "open": [_explained(one) for one in shadows.open_divergences(version)],
        "closed": [_explained(one) for one in shadows.closed_divergences(version)],
        "rows": [(row, releases.SHADOWS[row.state]) for row in rows[:PAGE]],
        "next": Cursor(at=more.registered_at, id=uuid.UUID(more.id)) if more else None,
        "is_first": "after" not in request.GET,
    }
    return render(request, "_parts/shadow_rows.html" if request.htmx else "shadows.html", context)


@require_GET
@allow(Deed.SEE)
def page(request: PersonRequest, version: str, number: uuid.UUID) -> HttpResponse:
    """Show one watched call: what the existing path says, what the release saw, and every difference."""
    return _page(request, _version(version), _shadow(number))


@require_POST
@allow(Deed.ROLL_BACK)
def close(request: PersonRequest, version: str, number: uuid.UUID, divergence: int) -> HttpResponse:
    """Close a difference that is explained; only then may the share rise again."""
    found, form = _shadow(number), ReasonForm(request.POST)
    if divergence not in {one.id for one in shadows.divergences_of(number)}:
        raise Http404(_("This call has no such difference."))
    if not form.is_valid():
        return _page(request, _version(version), found, form=form, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    note = Note(by=request.actor.by, reason=form.cleaned_data["reason"], now=timezone.now())
    if ledger.close_divergence(divergence, note=note):
        messages.success(request, _("Closed, with your reason. It stays in the record."))
    else:
        request.refusal = "closed before"
        messages.warning(request, _("Somebody has closed it before you. Nothing was changed."))
    return redirect("shadow", version, number)


@require_POST
@allow(Deed.ROLL_BACK)
def start(request: PersonRequest, version: str) -> HttpResponse:
    """Put a release on trial: it watches, and takes no call."""
    found, form = _version(version), TrialForm(request.POST)
    known = {one.release for one in found.releases} | set(registration.releases(version))
    if not form.is_valid() or form.cleaned_data["release"] not in known:
        request.refusal = "no such release, or no reason"
        messages.error(request, _("Nothing was changed: name the release, and give a reason of at least 8 characters."))
        return redirect("adapter", version)
    note = Note(by=request.actor.by, reason=form.cleaned_data["reason"], now=timezone.now())
    try:
        ledger.put_on_trial(version, form.cleaned_data["release"], note=note)
    except ledger.Retired as refusal:
        request.refusal = str(refusal)
        messages.warning(request, _("That release is retired and does not come back. Nothing was changed."))
    except ledger.TakesCalls as refusal:
        request.refusal = str(refusal)
        messages.warning(request, _("That release takes calls already; let it drain first. Nothing was changed."))
    else:
        messages.success(request, _("On trial: it watches the calls that existing paths register, and takes none."))
    return redirect("adapter", version)


def _version(name: str) -> VersionView:
    found = adapters.version(name, now=timezone.now())
    if found is None:
        raise Http404(_("No such protocol version is registered."))
    return found


def _shadow(number: uuid.UUID) -> ShadowView:
    found = shadows.shadow(number)
    if found is None:
        raise Http404(_("There is no such watched call."))
    return found


def _explained(one: DivergenceView) -> tuple[object, ...]:
    title, meaning = releases.DIFFERENCES[one.kind]
    return one, title, meaning


def _page(
    request: PersonRequest,
    version: VersionView,
    found: ShadowView,
    *,
    form: ReasonForm | None = None,
    status: HTTPStatus = HTTPStatus.OK,
) -> HttpResponse:
    number = uuid.UUID(found.id)
    needs_payloads = advice.needs_role(request.actor, Deed.READ_PAYLOADS)
    context = {
        "now": timezone.now(),
        "version": version,
        "shadow": found,
        "look": releases.SHADOWS[found.state],
        "divergences": [_explained(one) for one in shadows.divergences_of(number)],
        "form": form or ReasonForm(),
        "needs_role": advice.needs_role(request.actor, Deed.ROLL_BACK),
        "needs_payloads": needs_payloads,
        "answer": "" if needs_payloads else shadows.answer_of(number).decode(errors="replace"),
    }
    return render(request, "shadow.html", context, status=status)
