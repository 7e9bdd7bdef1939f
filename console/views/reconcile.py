"""The reconciliation desk: what no evidence has settled yet, with its clocks (X4)."""

from __future__ import annotations

import uuid
from http import HTTPStatus

from django import forms
from django.contrib import messages
from django.core.validators import URLValidator
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy
from django.views.decorators.http import require_GET, require_POST

from console import advice, manual, words
from console.access import Deed, PersonRequest, allow
from console.reasons import ReasonField
from operations import ledger
from operations.machine import NotFound, Reason, StepError
from operations.queries import Cursor, batches, desk, dossier, incidents
from operations.queries.desk import Kind, Wanted
from operations.queries.dossier import Dossier
from operations.verdicts import Option, Verdict

_TABS: dict[str, frozenset[Kind]] = {
    "open": frozenset(Kind),
    "mine": frozenset(Kind),
    "second": frozenset(Kind),
    "effects": frozenset({Kind.EFFECT}),
    "left": frozenset(),
}


@require_GET
@allow(Deed.SEE)
def listing(request: PersonRequest) -> HttpResponse:
    """Show the desk, oldest clock first."""
    tab = request.GET.get("tab", "open")
    tab = tab if tab in _TABS else "open"
    wanted = Wanted(
        kinds=_TABS[tab],
        mine=request.actor.by if tab == "mine" else "",
        proposed=tab == "second",
        single=tab == "open",
    )
    found = desk.find_items(wanted, after=Cursor.read(request.GET.get("after", "")))
    context = {
        "now": timezone.now(),
        "desk": found,
        "tab": tab,
        "limit": desk.CLOCK.total_seconds(),
        "may_claim": request.actor.may(Deed.RECONCILE),
        "fresh_id": uuid.uuid4(),
        **_many(tab, first=not request.GET.get("after")),
    }
    if request.htmx:
        return render(request, "_parts/desk_rows.html", context)
    return render(request, "reconcile.html", context)


def _many(tab: str, *, first: bool) -> dict[str, object]:
    """Return what stands above the single items: incidents, batches to confirm, what has left."""
    if not first:
        return {}
    if tab == "open":
        open_ones = [(one, one.oldest_at + desk.CLOCK) for one in incidents.find_open() if one.oldest_at]
        return {"incidents": open_ones}
    if tab == "second":
        titles = {verdict.value: title for verdict, (title, _says) in manual.VERDICTS.items()}
        return {"proposing": [(one, titles[one.content["verdict"]]) for one in batches.find_proposing()]}
    if tab == "left":
        return {"left": incidents.find_left(), "over": incidents.find_closed()}
    return {}


@require_POST
@allow(Deed.RECONCILE)
def take(request: PersonRequest, number: uuid.UUID) -> HttpResponse:
    """Claim an item of the desk, or give it back."""
    _item(number)
    if request.POST.get("do") == "release":
        if not ledger.release_item(str(number), by=request.actor.by, now=timezone.now()):
            messages.info(request, _("It is not your claim any more. Nothing was changed."))
        return redirect("reconcile")
    ledger.claim_item(str(number), by=request.actor.by, now=timezone.now())
    return redirect("reconcile_item", number)


class VerdictForm(forms.Form):
    """A verdict with its reason, what it needs, and the version that the page showed."""

    verdict = forms.ChoiceField(choices=[(verdict.value, title) for verdict, (title, _says) in manual.VERDICTS.items()])
    reason = ReasonField(max_length=2000)
    task_id = forms.CharField(max_length=1000, required=False)
    outcome = forms.CharField(max_length=200, required=False)
    typed = forms.CharField(max_length=100, required=False)
    seen_version = forms.IntegerField(min_value=1)
    document = forms.FileField(required=False, max_length=200)

    def clean_document(self) -> ledger.Document | None:
        """Take what was attached, if it is small enough to stand in the evidence."""
        given = self.cleaned_data["document"]
        if given is None:
            return None
        if given.size > ledger.LARGEST_DOCUMENT:
            raise forms.ValidationError(
                _("At most %(size)s. Attach the part that matters.") % {"size": words.size(ledger.LARGEST_DOCUMENT)}
            )
        return ledger.Document(name=given.name, raw=given.read(), media_type=given.content_type or "")

    def clean(self) -> dict[str, object]:
        """Ask for what the chosen verdict needs; case and spaces of typed words do not matter."""
        given = self.cleaned_data
        verdict = Verdict(given["verdict"]) if given.get("verdict") else None
        if verdict is Verdict.FOUND and not given.get("task_id"):
            self.add_error("task_id", _("Give the id of the task that was found."))
        if verdict is Verdict.ESTABLISHED_OUTSIDE and not given.get("outcome"):
            self.add_error("outcome", _("Say in a few words what became of it."))
        wanted = str(manual.TO_TYPE.get(verdict, "")) if verdict else ""
        if wanted and " ".join(given.get("typed", "").lower().split()) != wanted:
            self.add_error("typed", _("Type exactly: %(words)s") % {"words": wanted})
        return given

    def content(self) -> dict[str, str]:
        """Return what the ledger keeps beside the reason."""
        return {name: self.cleaned_data[name] for name in ("task_id", "outcome") if self.cleaned_data[name]}


class EffectForm(forms.Form):
    """What happened outside."""

    status = forms.ChoiceField(
        choices=[
            ("NONE", lazy("Nothing happened outside")),
            ("COMPENSATED", lazy("It happened and was put right")),
            ("STILL_OPEN", lazy("It happened and is still open")),
        ]
    )
    note = ReasonField(max_length=2000)
    owner = forms.CharField(max_length=200, required=False)
    link = forms.URLField(
        max_length=1000, required=False, assume_scheme="https", validators=[URLValidator(["http", "https"])]
    )

    def clean(self) -> dict[str, object]:
        """Whoever leaves it open says who takes care of it."""
        if self.cleaned_data.get("status") == "STILL_OPEN" and not self.cleaned_data.get("owner"):
            self.add_error("owner", _("Say who takes care of it from now on."))
        return self.cleaned_data


@require_GET
@allow(Deed.SEE)
def item(request: PersonRequest, number: uuid.UUID) -> HttpResponse:
    """Show what we know of one item. Nothing is decided by opening it."""
    return _page(request, _item(number))


@require_POST
@allow(Deed.RECONCILE)
def judge(request: PersonRequest, number: uuid.UUID) -> HttpResponse:
    """Take a verdict: carried out at once, or proposed where a second person has to confirm it (W)."""
    op = _item(number)
    form = VerdictForm(request.POST, request.FILES)
    if not form.is_valid():
        return _page(request, op, form=form, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    try:
        judged = ledger.judge(
            op.id,
            Verdict(form.cleaned_data["verdict"]),
            seen_version=form.cleaned_data["seen_version"],
            by=request.actor.by,
            reason=form.cleaned_data["reason"],
            content=form.content(),
            document=form.cleaned_data["document"],
            now=timezone.now(),
        )
    except StepError as refusal:
        return _page(request, _item(number), form=form, status=HTTPStatus.CONFLICT, refusal=refusal)
    if judged.proposal:
        messages.info(
            request, _("Your proposal was recorded. Nothing closes before a second operator has confirmed it.")
        )
        return redirect("reconcile_item", number)
    messages.success(request, _("Your verdict was carried out and stands in the journal with its reason."))
    return redirect("operation", number)


@require_POST
@allow(Deed.RECONCILE)
def second(request: PersonRequest, number: uuid.UUID) -> HttpResponse:
    """Confirm or turn down, as the second person, what another one has proposed."""
    op = _item(number)
    proposal = request.POST.get("proposal", "")
    turned_down = request.POST.get("do") == "withdraw"
    try:
        uuid.UUID(proposal)
        (ledger.withdraw if turned_down else ledger.confirm)(proposal, by=request.actor.by, now=timezone.now())
    except (ledger.NoSuchProposal, ValueError):
        request.refusal = "no open proposal"
        messages.warning(request, _("That proposal is not open any more. Nothing was changed."))
    except StepError as refusal:
        return _page(request, op, status=HTTPStatus.CONFLICT, refusal=refusal)
    else:
        messages.success(
            request, _("Turned down. Nothing was closed.") if turned_down else _("Confirmed and carried out.")
        )
    return redirect("reconcile_item", number)


@require_POST
@allow(Deed.SETTLE_EFFECTS)
def settle_effect(request: PersonRequest, number: uuid.UUID) -> HttpResponse:
    """Say what happened outside (C6)."""
    op = _item(number)
    form = EffectForm(request.POST)
    if not form.is_valid():
        return _page(request, op, effect_form=form, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    given = form.cleaned_data
    try:
        ledger.decide_effect(
            op.id,
            ledger.EffectStatus(given["status"]),
            by=request.actor.by,
            note=given["note"],
            owner=given["owner"],
            link=given["link"],
            now=timezone.now(),
        )
    except ledger.EffectDecided:
        request.refusal = "settled before"
        messages.warning(request, _("Somebody has settled it meanwhile, see below. Nothing was changed."))
    else:
        messages.success(request, _("What you said was recorded with your name."))
    return redirect("reconcile_item", number)


def _item(number: uuid.UUID) -> Dossier:
    op = dossier.read(number)
    if op is None:
        raise Http404(_("There is no such operation."))
    return op


def _page(
    request: PersonRequest,
    op: Dossier,
    *,
    form: VerdictForm | None = None,
    effect_form: EffectForm | None = None,
    status: HTTPStatus = HTTPStatus.OK,
    refusal: StepError | None = None,
) -> HttpResponse:
    now, number = timezone.now(), uuid.UUID(op.id)
    on_desk = op.state in desk.BEFORE_A_PERSON
    proposal = dossier.proposal(number)
    options = ledger.verdict_options(op.id) if on_desk else ()
    context = {
        "op": op,
        "now": now,
        "form": form or VerdictForm(),
        "effect_form": effect_form or EffectForm(),
        "refusal": refusal,
        "verdict": advice.verdict(op, now=now),
        "look": advice.look_in_short(op),
        "look_word": advice.look_word(op),
        "reason": manual.REASONS[Reason(op.reason)] if op.reason else manual.STATES[op.state],
        "not_found": manual.NOT_FOUND[NotFound(op.not_found)] if op.not_found else "",
        "lookup": manual.LOOKUPS.get(op.lookup, op.lookup),
        "clock_ends_at": op.entered_at + desk.CLOCK,
        "limit": desk.CLOCK.total_seconds(),
        "on_desk": on_desk,
        "left": None if on_desk else incidents.left_of(number),
        "incident": incidents.incident_of(number) if on_desk else None,
        "options": [(option, *manual.VERDICTS[option.verdict]) for option in options],
        "to_type": [(found.verdict, manual.TO_TYPE[found.verdict]) for found in options if _typed(found)],
        "needs_role": advice.needs_role(request.actor, Deed.RECONCILE),
        "claim": dossier.claim(number),
        "proposal": proposal,
        "proposal_title": manual.VERDICTS[proposal.verdict][0] if proposal else "",
        "effect": dossier.effect(number),
        "evidence": dossier.evidence(number),
    }
    return render(request, "reconcile_item.html", context, status=status)


def _typed(option: Option) -> bool:
    return option.allowed and option.verdict in manual.TO_TYPE
