"""The approvers' rooms: the inbox, and one round with its answer.

A GET decides nothing. An answer is taken by the ledger alone; this module reads the form, checks
the signed token, and says what became of it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime, timedelta

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console import access, answers, roundtokens
from console.access import Deed, PersonRequest, allow, require
from console.forms import Choice, RoundForm
from console.roundtokens import Fault, TokenRefused
from operations import ledger
from operations.machine import StepError
from operations.queries import rounds
from operations.queries.rounds import Filters, RoundPage, Tab

SOON = timedelta(minutes=15)
MAX_COMMENT = 2000
EXTENSIONS_MIN = (15, 60, 240)


@require_safe
@never_cache
@require()
def approvals(request: PersonRequest) -> HttpResponse:
    """Show the inbox; an htmx request gets the list alone."""
    tab = _tab(request.GET.get("tab", ""))
    filters = Filters(server=_wanted(request, "server"), tool=_wanted(request, "tool"))
    now = timezone.now()
    person = request.actor.by
    page = rounds.inbox(tab, person=person, filters=filters, after=request.GET.get("after", ""))
    servers, tools = rounds.choices()
    held = {
        "tab": tab.value,
        "groups": _groups(page.cards, tab, now),
        "after": page.after,
        "counts": rounds.counts(person=person, filters=filters),
        "most": rounds.MOST,
        "filters": filters,
        "servers": servers,
        "tools": tools,
        "now": now,
        "may_answer": request.actor.may(Deed.ANSWER),
    }
    return render(request, "approvals_list.html" if request.htmx else "approvals.html", held)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def round_(request: PersonRequest, operation: uuid.UUID, number: int) -> HttpResponse:
    """Show one round, or take an answer to it."""
    if request.method != "POST":
        return _show(request, str(operation), number)
    handle = _compare if "compare" in request.POST else _take_answer
    return handle(request, str(operation), number)


@require_POST
@allow(Deed.ANSWER)
def round_claim(request: PersonRequest, operation: uuid.UUID, number: int) -> HttpResponse:
    """Claim a round, or give it back; a claim keeps nobody from answering."""
    page = _page_or_404(str(operation), number)
    if page.is_open:
        verb = ledger.release_round if request.POST.get("do") == "release" else ledger.claim_round
        verb(page.card.operation, round=number, by=request.actor.by, now=timezone.now())
    return redirect(_back(request, reverse("round", args=[operation, number])))


@require_POST
@allow(Deed.EXTEND_ROUND)
def round_extend(request: PersonRequest, operation: uuid.UUID, number: int) -> HttpResponse:
    """Give a round more time, never past what the task or the wait budget allows (I2)."""
    page = _page_or_404(str(operation), number)
    wanted = request.POST.get("minutes", "")
    if wanted not in {str(minutes) for minutes in EXTENSIONS_MIN}:
        raise Http404
    now = timezone.now()
    until = max(now, page.card.deadline_at) + timedelta(minutes=int(wanted))
    try:
        ledger.extend_round(page.card.operation, round=number, until=until, by=request.actor.by, now=now)
    except StepError:
        text = _("The round was not extended: it is over, or its task or its wait budget ends earlier.")
        messages.warning(request, text, extra_tags="wait")
    else:
        messages.success(request, _("The round got %(n)s more minutes.") % {"n": wanted}, extra_tags="ok")
    return redirect("round", operation, number)


@require()
def _show(request: PersonRequest, operation: str, number: int) -> HttpResponse:
    page = _page_or_404(operation, number)
    now = timezone.now()
    if page.is_open and request.actor.may(Deed.ANSWER) and not request.htmx:
        ledger.open_round_page(operation, round=number, now=now)
    if request.htmx:
        return render(request, "round_state.html", _state(request, page, now) | {"fragment": True})
    return _render_round(request, page, RoundForm(page.card.questions), now=now)


@allow(Deed.ANSWER)
def _take_answer(request: PersonRequest, operation: str, number: int) -> HttpResponse:
    page = _page_or_404(operation, number)
    now = timezone.now()
    form = RoundForm(page.card.questions, data=request.POST)
    try:
        token = roundtokens.read(
            request.POST.get("round_token", ""), operation=operation, number=number, person=request.user.get_username()
        )
    except TokenRefused as refused:
        return _refuse(request, page, form, refused.fault, now=now)
    pressed, form_id = _pressed(request), _form_id(request)
    replies = form.replies(pressed) if pressed else None
    if pressed is None or form_id is None:
        return _refuse(request, page, form, Fault.MISSING, now=now)
    if replies is None:
        if not page.is_open:
            return _gone(request, page, form, _fate_of(page), now=now)
        return _render_round(request, page, form, now=now, status=422, form_id=form_id)
    if token.as_shown_digest != roundtokens.as_shown_digest(page):
        return _gone(request, page, form, ledger.RoundFate(status="CHANGED", newest_round=page.newest_round), now=now)
    try:
        recorded = ledger.answer_round(
            operation,
            round=number,
            request_digest=token.request_digest,
            as_shown_digest=token.as_shown_digest,
            form_id=form_id,
            replies=replies,
            by=request.actor.by,
            people=access.people_of,
            comment=_comment(request),
            now=now,
        )
    except ledger.RoundGone as gone:
        return _gone(request, _page_or_404(operation, number), form, gone.fate, now=now)
    if recorded.again:
        said = _("This answer had been recorded before. It is there once and is sent once.")
        messages.success(request, said, extra_tags="ok")
    return redirect("round", operation, number)


@allow(Deed.ANSWER)
def _compare(request: PersonRequest, operation: str, number: int) -> HttpResponse:
    """Lay what was typed beside the answer that won; nothing is answered by it, whatever the round is now."""
    page = _page_or_404(operation, number)
    if page.is_open:
        return redirect("round", operation, number)
    form = RoundForm(page.card.questions, data=request.POST)
    return _gone(request, page, form, _fate_of(page), now=timezone.now())


def _render_round(
    request: PersonRequest,
    page: RoundPage,
    form: RoundForm,
    *,
    now: datetime,
    status: int = 200,
    form_id: uuid.UUID | None = None,
    banner: str = "",
) -> HttpResponse:
    token = roundtokens.make(page, person=request.user.get_username())
    compared = page.approved if request.GET.get("with") == "approved" or page.previous is None else page.previous
    held = _state(request, page, now) | {
        "form": form,
        "round_token": roundtokens.sign(token),
        "as_shown": token.as_shown_digest,
        "form_id": form_id or uuid.uuid4(),
        "banner": banner,
        "comment": _comment(request),
        "max_comment": MAX_COMMENT,
        "compared": compared,
        "changes": answers.changes(compared, page) if compared else (),
    }
    return render(request, "round.html", held, status=status)


def _state(request: PersonRequest, page: RoundPage, now: datetime) -> dict[str, object]:
    """What the page and its live fragment have in common."""
    answer = page.answer
    return {
        "page": page,
        "card": page.card,
        "answer": answer,
        "given": answers.given(page.card.questions, answer.replies) if answer else (),
        "now": now,
        "over": now >= page.card.deadline_at,
        "may_answer": request.actor.may(Deed.ANSWER),
        "may_extend": request.actor.may(Deed.EXTEND_ROUND),
        "minutes": EXTENSIONS_MIN,
    }


def _refuse(request: PersonRequest, page: RoundPage, form: RoundForm, fault: Fault, *, now: datetime) -> HttpResponse:
    """The post cannot be tied to this round: nothing was done, and what was typed is kept (I3)."""
    if fault is Fault.TOO_OLD and page.is_open:
        said = _("This page was open for over twelve hours, so nothing was sent. Check your answer and press again.")
        return _render_round(request, page, form, now=now, status=409, banner=said)
    held = _typed(request, page, form, now) | {"fault": fault.value}
    return render(request, "round_refused.html", held, status=400)


def _gone(
    request: PersonRequest, page: RoundPage, form: RoundForm, fate: ledger.RoundFate, *, now: datetime
) -> HttpResponse:
    """The round is over or another one: say what happened, and show what was typed (I3)."""
    came_at = fate.refused_at or now
    ahead = max(came_at - fate.at, timedelta(seconds=1)) if fate.at else None
    held = _typed(request, page, form, now) | {"fate": fate, "came_at": came_at, "ahead": ahead}
    if page.answer is not None:
        theirs = answers.given(page.card.questions, page.answer.replies)
        held["pairs"] = answers.pairs(theirs, answers.typed(form, request.POST.get("action", "")))
    return render(request, "round_gone.html", held, status=409)


def _typed(request: PersonRequest, page: RoundPage, form: RoundForm, now: datetime) -> dict[str, object]:
    mine = answers.typed(form, request.POST.get("action", ""))
    return _state(request, page, now) | {"mine": mine, "comment": _comment(request)}


def _fate_of(page: RoundPage) -> ledger.RoundFate:
    """The fate of a round that is over, for an answer that never reached the ledger."""
    card = page.card
    return ledger.RoundFate(
        status=card.status,
        reason=card.closed_reason,
        by=card.answered_by,
        at=card.answered_at or card.closed_at,
        newest_round=page.newest_round,
    )


def _page_or_404(operation: str, number: int) -> RoundPage:
    page = rounds.round_page(operation, number=number)
    if page is None:
        raise Http404
    return page


def _tab(text: str) -> Tab:
    return Tab(text) if text in set(Tab) else Tab.OPEN


def _wanted(request: PersonRequest, name: str) -> str:
    return request.GET.get(name, "").replace("\x00", "")


def _groups(cards: tuple[rounds.RoundCard, ...], tab: Tab, now: datetime) -> list[tuple[str, list[rounds.RoundCard]]]:
    """Open rounds in three groups by urgency; closed ones in one."""
    if tab in {Tab.ANSWERED, Tab.EXPIRED}:
        return [("", list(cards))] if cards else []
    tests: list[tuple[str, Callable[[timedelta], bool]]] = [
        (_("Out of time, being closed"), lambda left: left <= timedelta()),
        (_("Due within 15 minutes"), lambda left: timedelta() < left <= SOON),
        (_("Later"), lambda left: left > SOON),
    ]
    groups = [(title, [card for card in cards if test(card.deadline_at - now)]) for title, test in tests]
    return [(title, held) for title, held in groups if held]


def _pressed(request: PersonRequest) -> Choice | None:
    text = request.POST.get("action", "")
    return Choice(text) if text in set(Choice) else None


def _form_id(request: PersonRequest) -> uuid.UUID | None:
    try:
        return uuid.UUID(request.POST.get("form_id", ""))
    except ValueError:
        return None


def _comment(request: PersonRequest) -> str:
    return request.POST.get("comment", "").replace("\r\n", "\n").replace("\x00", "")[:MAX_COMMENT]


def _back(request: PersonRequest, otherwise: str) -> str:
    page = request.POST.get("next", "")
    if url_has_allowed_host_and_scheme(page, {request.get_host()}, require_https=request.is_secure()):
        return page
    return otherwise
