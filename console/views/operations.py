"""Operations: the list, one operation, its evidence, and the cancel page."""

from __future__ import annotations

import uuid
from http import HTTPStatus
from typing import ClassVar

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from console import advice, bulk, diagram, history, lists, timeline, words
from console.access import Deed, PersonRequest, allow
from console.context import return_address
from console.reasons import ReasonField
from operations import ledger, registration
from operations.machine import StaleStep, State, StepError
from operations.queries import Cursor, batches, dossier, operations, trouble
from operations.queries import lists as kept_lists
from operations.queries.dossier import Dossier
from operations.queries.operations import Page

TABS = ("history", "evidence", "receipt", "journal", "record")


@require_GET
@allow(Deed.SEE)
def listing(request: PersonRequest) -> HttpResponse:
    """Show a page of operations, or the one that an id belongs to."""
    now = timezone.now()
    text, listed = request.GET.get("q", "").strip(), lists.read(request.GET, now=now)
    kept = kept_lists.find(request.actor.by)
    if text:
        found = operations.find_by_any_id(text)
        if len(found) == 1:
            return redirect("operation", found[0].id)
        context = _list_context(request, listed, Page(rows=found, after=None))
        return render(request, "operations.html", context | {"kept": kept, "now": now, "q": text, "searched": True})
    if not request.GET and (mine := next((one for one in kept if one.is_default), None)):
        return redirect(lists.address_of(mine.query, mine.id))
    page = operations.find(listed.narrow, after=Cursor.read(request.GET.get("after", "")))
    return render(request, "operations.html", _list_context(request, listed, page) | {"now": now, "kept": kept})


def _list_context(request: PersonRequest, listed: lists.Listed, page: Page) -> dict[str, object]:
    counts = operations.count_states() if not listed.pills else {}
    chosen = request.GET.get("list", "")
    return {
        "rows": page.rows,
        "after": page.after,
        "narrow": listed.narrow,
        "listed": listed,
        "view": listed.view,
        "counts": [(state, counts.get(state)) for state in listed.shown],
        "state": listed.state,
        "choices": operations.choices(),
        "windows": [(name, word) for name, (_span, word) in lists.WINDOWS.items()],
        "columns": lists.COLUMNS,
        "paused": request.GET.get("live") == "off",
        "troubles": trouble.find_servers(),
        "newest": None if listed.narrow.oldest_first or request.GET.get("after") else operations.newest_of(page),
        "shown": listed.columns,
        "chosen": chosen,
        "kept_query": lists.kept_part(request.GET),
        "teams": kept_lists.teams_of(request.actor.by),
        "fresh_id": uuid.uuid4(),
        "may_cancel": request.actor.may(Deed.CANCEL),
        "batches": [(one, bulk.TITLES[one.kind]) for one in batches.find_recent(limit=3)],
    }


@require_GET
@allow(Deed.SEE)
def rows(request: PersonRequest) -> HttpResponse:
    """Return the rows that a page shows, as they are now: they stay where they are."""
    ids = lists.chosen(request.GET.getlist("id"))
    columns = lists.read(request.GET, now=timezone.now()).columns
    context = {"now": timezone.now(), "rows": operations.read_rows(ids), "shown": columns}
    context["may_cancel"] = request.actor.may(Deed.CANCEL)
    return render(request, "_parts/operation_rows.html", context)


@require_GET
@allow(Deed.SEE)
def news(request: PersonRequest) -> HttpResponse:
    """Return how many operations that a page would show have come since it was drawn."""
    since, listed = Cursor.read(request.GET.get("since", "")), lists.read(request.GET, now=timezone.now())
    count = operations.count_since(since, listed.narrow) if since else 0
    return render(request, "_parts/operation_news.html", {"count": count, "since": since, "back": _query(request)})


def _query(request: PersonRequest) -> str:
    params = request.GET.copy()
    params.pop("since", None)
    return f"?{params.urlencode()}"


@require_GET
@allow(Deed.SEE)
def detail(request: PersonRequest, number: uuid.UUID) -> HttpResponse:
    """Show one operation; htmx asks for one of its two living parts."""
    op = _dossier(number)
    now = timezone.now()
    tab = request.GET.get("tab", "history")
    tab = tab if tab in TABS else "history"
    context = {"op": op, "now": now, "tab": tab, "tabs": TABS}
    if request.htmx and request.htmx.target == "op-tab":
        return render(request, "_parts/operation_tab.html", context | _tab(op, tab, request))
    context |= _living(request, op)
    if request.htmx:
        return render(request, "_parts/operation_live.html", context)
    return render(request, "operation.html", context | _tab(op, tab, request))


def _dossier(number: uuid.UUID) -> Dossier:
    op = dossier.read(number)
    if op is None:
        raise Http404(_("There is no such operation."))
    return op


def _story(op: Dossier) -> history.Story:
    number = uuid.UUID(op.id)
    return history.tell(
        op,
        journal=dossier.journal(number),
        rounds=dossier.rounds(number),
        permits=dossier.permits(number),
        evidence=dossier.evidence(number),
    )


def _living(request: PersonRequest, op: Dossier) -> dict[str, object]:
    now, number = timezone.now(), uuid.UUID(op.id)
    story = _story(op)
    promises = registration.promises(op.protocol, release=op.current_release)
    return {
        "verdict": advice.verdict(op, now=now),
        "actions": advice.actions(op, actor=request.actor, promises=promises, now=now),
        "may_answer": request.actor.may(Deed.ANSWER),
        "race": advice.race(op, story=story),
        "effect": dossier.effect(number),
        "round": next((row for row in dossier.rounds(number) if row.status == "OPEN"), None),
        "timeline": timeline.draw(story, now=now, budget_ends_at=op.budget_ends_at),
        "diagram": diagram.svg(
            lit=op.state, way=story.way, tone=words.look_of(op.state, outcome=op.outcome, asked=op.asked).tone
        ),
        "nexts": diagram.nexts(op.state),
    }


def _tab(op: Dossier, tab: str, request: PersonRequest) -> dict[str, object]:
    number = uuid.UUID(op.id)
    match tab:
        case "evidence":
            before = request.GET.get("before", "")
            return {"evidence": dossier.evidence(number, before=int(before) if before.isdecimal() else None)}
        case "receipt":
            may_download = request.actor.may(Deed.READ_PAYLOADS)
            return {"receipt": dossier.receipt(number), "most": dossier.RESULT_SHOWN, "may_download": may_download}
        case "journal":
            return {"journal": dossier.journal(number)[::-1]}
        case "record":
            return {}
        case _:
            return {"happenings": _story(op).happenings[::-1]}


@require_GET
@allow(Deed.READ_PAYLOADS)
def evidence(request: PersonRequest, number: uuid.UUID, seq: int) -> HttpResponse:
    """Show what was sent and what came back, as text."""
    op = _dossier(number)
    whole = "download" in request.GET
    body = dossier.evidence_body(number, seq=seq, most=None if whole else SHOWN)
    if body is None:
        raise Http404(_("There is no such evidence."))
    if whole and body.raw is not None:
        return _download(body.raw, f"evidence-{op.id[:8]}-{seq}.txt")
    context = {
        "op": op,
        "body": body,
        "now": timezone.now(),
        "raw": _text(body.raw),
        "sent": _text(body.request),
        "cut": body.raw is not None and body.row.size > SHOWN,
        "most": SHOWN,
    }
    return render(request, "operation_evidence.html", context)


@require_GET
@allow(Deed.READ_PAYLOADS)
def result(_request: PersonRequest, number: uuid.UUID) -> HttpResponse:
    """Give the validated payload, byte for byte, as a file: never as a page of ours."""
    op = _dossier(number)
    raw = dossier.result_of(number)
    if raw is None:
        raise Http404(_("This operation has no result."))
    return _download(raw, f"result-{op.id[:8]}.json")


def _download(raw: bytes, name: str) -> HttpResponse:
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return HttpResponse(raw, content_type="application/octet-stream", headers=headers)


SHOWN = 64 * 1024
"""Bytes of a body that a page shows."""


def _text(raw: bytes | None) -> str:
    return "" if raw is None else raw[:SHOWN].decode(errors="backslashreplace")


@require_POST
@allow(Deed.LOOK_NOW)
def look_now(request: PersonRequest, number: uuid.UUID) -> HttpResponse:
    """Have the server looked at ahead of the routine."""
    _dossier(number)
    try:
        ledger.look_now(str(number), by=request.actor.by, now=timezone.now())
    except ledger.NotAllowedByEvidence:
        messages.warning(request, _("It is over; there is nothing left to look for. Nothing was changed."))
    else:
        messages.success(
            request, _("A look was ordered, ahead of the routine. What it shows is added to the evidence.")
        )
    return redirect(return_address(request, otherwise=reverse("operation", args=[number])))


class CancelForm(forms.Form):
    """Why somebody asks for a cancel, and what the page had shown."""

    KINDS: ClassVar = {
        "input": lazy("Wrong input"),
        "need": lazy("No longer needed"),
        "long": lazy("Runs too long"),
        "owner": lazy("Asked by the owner of the call"),
        "other": lazy("Another reason"),
    }
    kind = forms.ChoiceField(choices=list(KINDS.items()))
    reason = ReasonField(max_length=1000)
    seen_generation = forms.IntegerField(min_value=0)

    def words(self) -> str:
        """Return the reason as the ledger keeps it."""
        return f"{self.KINDS[self.cleaned_data['kind']]}: {self.cleaned_data['reason']}"


@require_http_methods(["GET", "POST"])
@allow(Deed.CANCEL)
def cancel(request: PersonRequest, number: uuid.UUID) -> HttpResponse:
    """Say what a cancel means here, and take the request."""
    op = _dossier(number)
    if request.method == "GET":
        return _cancel_page(request, op, CancelForm())
    form = CancelForm(request.POST)
    if not form.is_valid():
        return _cancel_page(request, op, form, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    try:
        pressed = ledger.request_cancel(
            op.id,
            seen_generation=form.cleaned_data["seen_generation"],
            can_cancel=op.can_cancel,
            by=request.actor.by,
            reason=form.words(),
            now=timezone.now(),
        )
    except StepError as refusal:
        return _cancel_refused(request, number, form, refusal)
    messages.info(request, _what_came_of(pressed.press, op))
    return redirect("operation", number)


_PRESSED = {
    ledger.Press.REQUESTED: lazy(
        "Your request was recorded, to be sent to the server. What has come of it since stands below."
    ),
    ledger.Press.INTENT: lazy(
        "Your request was recorded. No task was known; the first that turns up is to be cancelled."
    ),
    ledger.Press.CLOSED_UNSENT: lazy("Cancelled: nothing had been sent, and nothing will be."),
    ledger.Press.NO_CANCEL: lazy("Recorded, but this server cannot cancel. The work goes on, and so does our looking."),
    ledger.Press.ALREADY_REQUESTED: lazy("It was requested already. Nothing was changed."),
}


def _what_came_of(press: ledger.Press, op: Dossier) -> str:
    if press is ledger.Press.INTENT and op.task_id is not None:
        return _("Your request was recorded. The task is looked at once; if it has not ended, its cancel is asked for.")
    return str(_PRESSED[press])


def _cancel_refused(request: PersonRequest, number: uuid.UUID, form: CancelForm, refusal: StepError) -> HttpResponse:
    """Say what stands against the press; what the person wrote stays in the form (C10, R9)."""
    finished = refusal if isinstance(refusal, ledger.AlreadyFinished) else None
    context = {"finished": finished, "stale": isinstance(refusal, StaleStep), "refusal": refusal}
    return _cancel_page(request, _dossier(number), form, status=HTTPStatus.CONFLICT, **context)


def _cancel_page(
    request: PersonRequest, op: Dossier, form: CancelForm, *, status: HTTPStatus = HTTPStatus.OK, **extra: object
) -> HttpResponse:
    now = timezone.now()
    promises = registration.promises(op.protocol, release=op.current_release)
    asked = op.cancel_requested_at if op.state is State.CANCEL_REQUESTED or op.cancel_intent else None
    context = {
        "op": op,
        "now": now,
        "form": form,
        "promise": advice.cancel_promise(op, promises),
        "odds": operations.cancel_odds(op.tool, server=op.server, now=now),
        "too_late": op.is_finished,
        "asked": asked,
        # Pressing again changes nothing; but what somebody wrote meanwhile stays in its form.
        "may_press": not op.is_finished and (asked is None or form.is_bound),
    }
    return render(request, "cancel.html", context | extra, status=status)
