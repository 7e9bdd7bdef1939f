"""Many at once: a preview that is kept, its start, its progress, and the one confirmation of a second person."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from http import HTTPStatus
from typing import ClassVar

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from console import bulk, lists, manual
from console.access import Deed, PersonRequest, allow
from console.context import form_id
from console.reasons import ReasonField
from console.views.operations import CancelForm
from operations import ledger, registration
from operations.ledger import BatchKind
from operations.queries import PAGE, batches, operations
from operations.queries.batches import BatchCard
from operations.verdicts import Verdict

ONLY = ("", "REFUSED", "DONE", "WAITING")


def id_of_chosen(request: PersonRequest, kind: BatchKind, chosen: Sequence[str]) -> uuid.UUID:
    """Return the id of a batch of ticked rows: the same form with other ticks is another batch, as after going back."""
    return uuid.uuid5(form_id(request), " ".join([kind, *chosen]))


@require_POST
@allow(Deed.CANCEL)
def cancel_many(request: PersonRequest) -> HttpResponse:
    """Prepare a cancel of what fits a list, or of its ticked rows. Nothing is asked before a preview is agreed to."""
    query = QueryDict(request.POST.get("query", ""))
    listed, now, key = lists.read(query, now=timezone.now()), timezone.now(), form_id(request)
    if request.POST.get("only") == "chosen":
        ids = [row.id for row in operations.read_rows(lists.chosen(request.POST.getlist("one")))]
        if not ids:
            request.refusal = "no row was chosen"
            messages.warning(request, _("Tick the rows first. Nothing was changed."))
            return redirect(f"{reverse('operations')}?{lists.kept_part(query)}")
        key = id_of_chosen(request, BatchKind.CANCEL, ids)
    else:
        ids = operations.find_ids(listed.narrow, limit=ledger.MOST_OF_A_BATCH)
    if not ids:
        messages.warning(request, _("No operation fits this list any more. Nothing was changed."))
        return redirect("operations")
    wish = ledger.Wish(id=key, kind=BatchKind.CANCEL, by=request.actor.by, source=lists.kept_part(query))
    ledger.keep_batch(wish, ledger.foresee_cancels(ids), now=now)
    return redirect("batch", wish.id)


class StartForm(forms.Form):
    """Why somebody starts a batch."""

    reason = ReasonField(max_length=1000)

    def words(self) -> str:
        """Return the reason as the ledger keeps it."""
        return str(self.cleaned_data["reason"])


class CancelManyForm(StartForm):
    """Why somebody asks for many cancels."""

    KINDS: ClassVar = CancelForm.KINDS
    kind = forms.ChoiceField(choices=list(CancelForm.KINDS.items()))

    def words(self) -> str:
        """Return the reason as the ledger keeps it, in the same words as for one operation."""
        return f"{self.KINDS[self.cleaned_data['kind']]}: {self.cleaned_data['reason']}"


class VerdictManyForm(StartForm):
    """Why somebody gives one verdict on many items, with the words that no slip of the hand types."""

    typed = forms.CharField(max_length=100, required=False)
    wanted = ""

    def clean(self) -> dict[str, object]:
        """Case and spaces of the typed words do not matter."""
        if self.wanted and " ".join(self.cleaned_data.get("typed", "").lower().split()) != self.wanted:
            self.add_error("typed", _("Type exactly: %(words)s") % {"words": self.wanted})
        return self.cleaned_data


def _form(batch: BatchCard, data: QueryDict | None = None) -> StartForm:
    if batch.kind is BatchKind.CANCEL:
        return CancelManyForm(data)
    if batch.kind is not BatchKind.VERDICT:
        return StartForm(data)
    form = VerdictManyForm(data)
    form.wanted = str(manual.TO_TYPE.get(Verdict(batch.content["verdict"]), ""))
    return form


@require_GET
@allow(Deed.SEE)
def page(request: PersonRequest, number: uuid.UUID) -> HttpResponse:
    """Show a batch: its preview, how far it has come, or what came of it."""
    batch = _batch(number)
    if request.htmx:
        return render(request, "_parts/batch_live.html", _context(request, batch))
    return render(request, "batch.html", _context(request, batch) | {"form": _form(batch)})


@require_POST
@allow(Deed.SEE)
def start(request: PersonRequest, number: uuid.UUID) -> HttpResponse:
    """Let a preview be done. A second press, or a press in a second tab, starts nothing."""
    batch = _permitted(request, number)
    form = _form(batch, request.POST)
    if not form.is_valid():
        context = _context(request, batch) | {"form": form}
        return render(request, "batch.html", context, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    try:
        begun = ledger.start_batch(batch.id, by=request.actor.by, reason=form.words(), now=timezone.now())
    except ledger.NotYours:
        messages.warning(request, _("Somebody else prepared this. Prepare your own to start one. Nothing was changed."))
        return redirect("batch", number)
    if not begun:
        messages.info(request, _("It was started already; nothing was started twice."))
    return redirect("batch", number)


@require_POST
@allow(Deed.SEE)
def stop(request: PersonRequest, number: uuid.UUID) -> HttpResponse:
    """Do no further row; what was done stays done."""
    batch = _permitted(request, number)
    if ledger.stop_batch(batch.id, by=request.actor.by, now=timezone.now()):
        messages.info(request, _("Stopped. What was done before stays done."))
    else:
        messages.info(request, _("It was not running any more. Nothing was changed."))
    return redirect("batch", number)


@require_POST
@allow(Deed.RECONCILE)
def second(request: PersonRequest, number: uuid.UUID) -> HttpResponse:
    """Confirm or turn down, with one press, everything that a batch has proposed (W, X4)."""
    parent = _batch(number)
    kind = BatchKind.CONFIRM if request.POST.get("do") == "confirm" else BatchKind.REFUSE
    if kind is BatchKind.CONFIRM and parent.by == request.actor.by:
        messages.warning(request, _("You proposed it; somebody else has to confirm it. Nothing was changed."))
        return redirect("batch", number)
    now = timezone.now()
    rows = ledger.foresee_second(number, by=request.actor.by, confirm=kind is BatchKind.CONFIRM)
    if not rows:
        messages.warning(request, _("Nothing of it waits for a second person any more. Nothing was changed."))
        return redirect("batch", number)
    wish = ledger.Wish(
        id=form_id(request),
        kind=kind,
        by=request.actor.by,
        content=parent.content,
        incident=parent.incident,
        parent=parent.id,
    )
    ledger.keep_batch(wish, rows, now=now)
    ledger.start_batch(wish.id, by=request.actor.by, reason=parent.reason, now=now)
    return redirect("batch", wish.id)


def _batch(number: uuid.UUID) -> BatchCard:
    batch = batches.read(number)
    if batch is None:
        raise Http404(_("There is no such batch."))
    return batch


def _permitted(request: PersonRequest, number: uuid.UUID) -> BatchCard:
    batch = _batch(number)
    if not request.actor.may(bulk.DEEDS[batch.kind]):
        raise PermissionDenied(_("Your role does not allow this."))
    return batch


def _context(request: PersonRequest, batch: BatchCard) -> dict[str, object]:
    after, only = request.GET.get("after", ""), request.GET.get("only", "")
    only = only if only in ONLY else ""
    lines = batches.find_lines(batch.id, after=int(after) if after.isdecimal() else 0, only=only)
    said = _said(batch)
    verdict = Verdict(batch.content["verdict"]) if "verdict" in batch.content else None
    return {
        "batch": batch,
        "now": timezone.now(),
        "lines": lines,
        "only": only,
        "next_after": lines[-1].number if len(lines) == PAGE else None,
        "title": bulk.TITLES[batch.kind],
        "start_word": bulk.STARTS[batch.kind] % {"n": batch.wanted} if batch.kind in bulk.STARTS else "",
        "said": [one for one in said if not one.against],
        "against": [one for one in said if one.against],
        "with_effects": batches.count_with_effects(batch.id) if batch.kind is BatchKind.CANCEL else 0,
        "verdict": manual.VERDICTS[verdict] if verdict else None,
        "to_type": manual.TO_TYPE.get(verdict, "") if verdict else "",
        "may": request.actor.may(bulk.DEEDS[batch.kind]),
        "may_confirm": request.actor.may(Deed.RECONCILE),
        "is_mine": batch.by == request.actor.by,
        "fresh_id": uuid.uuid4(),
    }


def _said(batch: BatchCard) -> Sequence[bulk.Said]:
    """Say what the rows come to: by contract before the start, by result after it."""
    against = [
        bulk.Said(count=tally.count, word=bulk.in_words(tally.why), promise="", against=True)
        for tally in batch.tallies
        if tally.status == "REFUSED"
    ]
    if not batch.is_draft:
        done = [tally for tally in batch.tallies if tally.status == "DONE"]
        return [bulk.Said(count=one.count, word=bulk.in_words(one.came), promise="") for one in done] + against
    return [_foreseen(one) for one in batches.by_contract(batch.id)] + against


def _foreseen(part: batches.ByContract) -> bulk.Said:
    promises = registration.promises(part.protocol, release=part.release)
    terminal = promises is not None and promises.cancel_ack_is_terminal
    promise = bulk.promise_of(part.forecast, ack_is_terminal=terminal)
    return bulk.Said(count=part.count, word=bulk.in_words(part.forecast), promise=promise)
