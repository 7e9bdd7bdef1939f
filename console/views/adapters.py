"""Adapters: what takes new calls, what is in flight, how to stop and how to roll back (N1, O1 to O5)."""

from __future__ import annotations

from http import HTTPStatus

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from console import advice, releases
from console.access import Deed, PersonRequest, allow
from console.adminforms import ReasonForm, RollbackForm, ShareForm, TrialForm
from operations import ledger, registration, rollout
from operations.ledger import Note
from operations.queries import adapters, admin, shadows
from operations.queries.adapters import VersionView
from operations.rollout import Mode

SHOWN = 10
"""Open differences that a version's own page lists; the page of the trial has them all."""


@require_GET
@allow(Deed.SEE)
def listing(request: PersonRequest) -> HttpResponse:
    """Show every protocol version; htmx asks for the rows alone."""
    now = timezone.now()
    context = {
        "now": now,
        "versions": [(one, _words(one)) for one in adapters.versions(now=now)],
        "may_propose": request.actor.may(Deed.PROPOSE_ROLLBACK),
    }
    return render(request, "_parts/adapter_rows.html" if request.htmx else "adapters.html", context)


@require_GET
@allow(Deed.SEE)
def page(request: PersonRequest, version: str) -> HttpResponse:
    """Show one version: its releases, its servers, its switches."""
    return _page(request, _version(version))


@require_POST
@allow(Deed.ROLL_BACK)
def share(request: PersonRequest, version: str) -> HttpResponse:
    """Give a release a share of the new calls (O2)."""
    found, form = _version(version), ShareForm(request.POST)
    known = {one.release for one in found.releases} | set(registration.releases(version))
    if not form.is_valid() or form.cleaned_data["release"] not in known:
        return _page(request, found, share_form=form, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    given = form.cleaned_data
    try:
        ledger.set_share(version, given["release"], share=given["share"], note=_note(request, given["reason"]))
    except ledger.Retired as refusal:
        request.refusal = str(refusal)
        messages.warning(request, _("That release is retired and does not come back. Nothing was changed."))
    except ledger.DivergenceOpen as open_:
        request.refusal = str(open_)
        said = _("Not raised: %(n)d differences between this release and existing paths are open. Explain them first.")
        messages.error(request, said % {"n": open_.open})
    else:
        messages.success(request, _("Decided. Calls that were taken before stay where they are."))
    return redirect("adapter", version)


@require_POST
@allow(Deed.SWITCH_SUBMITS)
def switch(request: PersonRequest, version: str) -> HttpResponse:
    """Stop or let in new calls of the version, of one of its servers or of one tool: nothing else stops (O5)."""
    found, form = _version(version), ReasonForm(request.POST)
    scope, _colon, name = request.POST.get("target", "").partition(":")
    if f"{scope}:{name}" not in {value for value, _word in _targets(found)}:
        raise Http404(_("This version has no such server or tool."))
    if not form.is_valid():
        return _page(request, found, switch_form=form, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    note, opens = _note(request, form.cleaned_data["reason"]), request.POST.get("do") == "open"
    ledger.set_submits(scope, name, is_open=opens, reason="" if opens else note.reason, note=note)
    said = _("New calls are let in again.") if opens else _("New calls are stopped. Everything in flight goes on.")
    messages.success(request, f"{name}: {said}")
    return redirect("adapter", version)


@require_POST
@allow(Deed.ROLL_BACK)
def retire(request: PersonRequest, version: str) -> HttpResponse:
    """End a version of which nothing is open any more (O5)."""
    found, form = _version(version), ReasonForm(request.POST)
    if not form.is_valid():
        return _page(request, found, switch_form=form, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    try:
        ledger.retire(version, note=_note(request, form.cleaned_data["reason"]))
    except ledger.NotDrained as open_:
        request.refusal = str(open_)
        said = _("Not retired: %(n)d operations are still open. Nothing was changed.") % {"n": open_.open}
        messages.warning(request, said)
    else:
        messages.success(request, _("Retired. It takes no call any more."))
    return redirect("adapter", version)


@require_http_methods(["GET", "POST"])
@allow(Deed.PROPOSE_ROLLBACK)
def rollback(request: PersonRequest, version: str) -> HttpResponse:
    """Show what a rollback would do, and do it when an admin confirms (O3)."""
    found = _version(version)
    if request.method == "GET":
        return _rollback_page(request, found, RollbackForm(version=version, initial={"seen_epoch": found.epoch}))
    if why := advice.needs_role(request.actor, Deed.ROLL_BACK):
        request.refusal = why
        messages.error(request, why)
        return redirect("adapter_rollback", version)
    form = RollbackForm(request.POST, version=version)
    if not form.is_valid():
        return _rollback_page(request, found, form, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    try:
        done = ledger.roll_back(
            version,
            seen_epoch=form.cleaned_data["seen_epoch"],
            known=registration.releases(version),
            in_flight=found.total_in_flight,
            note=_note(request, form.cleaned_data["reason"]),
        )
    except ledger.EpochMoved as moved:
        return _rollback_page(request, _version(version), form, moved=moved, status=HTTPStatus.CONFLICT)
    said = _("Rolled back. Epoch %(epoch)d holds; %(release)s looks after everything in flight.")
    messages.success(request, said % {"epoch": done.epoch, "release": done.takes_over})
    return redirect("adapter_drain", version)


@require_POST
@allow(Deed.PROPOSE_ROLLBACK)
def drill(request: PersonRequest, version: str) -> HttpResponse:
    """Keep what the dry run shows, as a drill or as a proposal to an admin; nothing else happens."""
    found, form = _version(version), ReasonForm(request.POST, auto_id="drill_%s")
    if not form.is_valid():
        rollback_form = RollbackForm(version=version, initial={"seen_epoch": found.epoch})
        return _rollback_page(request, found, rollback_form, drill_form=form, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    change = rollout.hand_over(found.offers, looks_after=found.looks_after, known=registration.releases(version))
    report = {
        "epoch": found.epoch,
        "would_stop": change.stops,
        "would_take_over": change.takes_over,
        "in_flight": {state.value: count for state, count in found.in_flight.items()},
        "between_send_and_answer": adapters.count_sending(version),
    }
    ledger.keep_drill(version, report=report, note=_note(request, form.cleaned_data["reason"]))
    messages.success(request, _("Kept as a drill, with your name. Nothing else has changed."))
    return redirect("adapter", version)


@require_GET
@allow(Deed.SEE)
def drain(request: PersonRequest, version: str) -> HttpResponse:
    """Show what is left of the operations begun before the last rollback, live to zero."""
    found = _version(version)
    handed_over = adapters.in_flight_at_rollback(version)
    context = {
        "now": timezone.now(),
        "version": found,
        "words": _words(found),
        "left": found.of_earlier_epochs,
        "handed_over": handed_over,
        "gone": max(0, (handed_over or 0) - found.of_earlier_epochs),
        "rows": _rows(found, earlier_epochs=True),
    }
    return render(request, "_parts/drain.html" if request.htmx else "drain.html", context)


def _version(name: str) -> VersionView:
    found = adapters.version(name, now=timezone.now())
    if found is None:
        raise Http404(_("No such protocol version is registered."))
    return found


def _note(request: PersonRequest, reason: str) -> Note:
    return Note(by=request.actor.by, reason=reason, now=timezone.now())


def _words(version: VersionView) -> dict[str, object]:
    """Say how a version stands, in the words of the page."""
    promises = registration.promises(version.version, release=version.looks_after)
    return {
        "mode": releases.mode_of(version),
        "experimental": bool(promises and promises.stability == "EXPERIMENTAL"),
        "doubtful": releases.is_doubtful(version.health),
    }


def _targets(version: VersionView) -> list[tuple[str, str]]:
    """Return what can be stopped: (target, words)."""
    found = [(f"protocol:{version.version}", _("the whole version %(name)s") % {"name": version.version})]
    for server in version.servers:
        found.append((f"server:{server.slug}", _("server %(name)s") % {"name": server.title}))
        found += [
            (f"tool:{server.slug}/{tool}", _("tool %(name)s") % {"name": f"{server.slug}/{tool}"})
            for tool in (*server.open_tools, *server.closed_tools)
        ]
    return found


def _stopped(version: VersionView) -> list[tuple[str, str]]:
    """Return which of the targets are stopped now."""
    shut = {f"protocol:{version.version}"} if not version.submits_open else set()
    for server in version.servers:
        shut |= {f"server:{server.slug}"} if not server.submits_open else set()
        shut |= {f"tool:{server.slug}/{tool}" for tool in server.closed_tools}
    return [(target, words) for target, words in _targets(version) if target in shut]


def _rows(version: VersionView, *, earlier_epochs: bool = False, takes_over: str = "") -> list[tuple[object, ...]]:
    rows = adapters.in_flight_of(version.version, earlier_epochs=earlier_epochs)
    return [(row, takes_over or row.looked_after_by, releases.what_stays(row)) for row in rows]


def _page(
    request: PersonRequest,
    version: VersionView,
    *,
    share_form: ShareForm | None = None,
    switch_form: ReasonForm | None = None,
    status: HTTPStatus = HTTPStatus.OK,
) -> HttpResponse:
    here = registration.releases(version.version)
    held = [one.release for one in version.releases]
    stopped = _stopped(version)
    creating = {one.release for one in version.releases if one.mode in {Mode.SHARE, Mode.FULL}}
    over = {one.release for one in version.releases if one.mode is Mode.RETIRED}
    context = {
        "now": timezone.now(),
        "version": version,
        "words": _words(version),
        "new_releases": [name for name in here if name not in held],
        "trial": shadows.trial_of(version.version, version.on_trial) if version.on_trial else None,
        "divergences": [
            (one, *releases.DIFFERENCES[one.kind]) for one in shadows.open_divergences(version.version, limit=SHOWN)
        ],
        "trial_choices": [
            name for name in dict.fromkeys((*held, *here)) if name not in {*creating, *over, version.on_trial}
        ],
        "trial_form": TrialForm(auto_id="trial_%s"),
        "share_form": share_form or ShareForm(auto_id="share_%s"),
        "share_choices": list(dict.fromkeys((*held, *here))),
        "switch_form": switch_form or ReasonForm(auto_id="switch_%s"),
        "retire_form": ReasonForm(auto_id="retire_%s"),
        "stopped": stopped,
        "running": [target for target in _targets(version) if target not in stopped],
        "modes": releases.MODES,
        "changes": admin.changes_of(
            f"protocol:{version.version}",
            *(f"release:{version.version}/{name}" for name in {*held, *here}),
        ),
        "needs_role": advice.needs_role(request.actor, Deed.ROLL_BACK),
        "may_propose": request.actor.may(Deed.PROPOSE_ROLLBACK),
    }
    return render(request, "adapter.html", context, status=status)


def _rollback_page(
    request: PersonRequest,
    version: VersionView,
    form: RollbackForm,
    *,
    moved: ledger.EpochMoved | None = None,
    drill_form: ReasonForm | None = None,
    status: HTTPStatus = HTTPStatus.OK,
) -> HttpResponse:
    change = rollout.hand_over(
        version.offers, looks_after=version.looks_after, known=registration.releases(version.version)
    )
    context = {
        "now": timezone.now(),
        "version": version,
        "words": _words(version),
        "form": form,
        "drill_form": drill_form or ReasonForm(auto_id="drill_%s"),
        "moved": moved,
        "change": change,
        "alone": change.takes_over == change.stops,
        "next_epoch": version.epoch + 1,
        "rows": _rows(version, takes_over=change.takes_over),
        "sending": adapters.count_sending(version.version),
        "needs_role": advice.needs_role(request.actor, Deed.ROLL_BACK),
    }
    return render(request, "rollback.html", context, status=status)
