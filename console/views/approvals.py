"""The approvers' rooms: the inbox, and one round with its answer.

A GET decides nothing. An answer is taken by the ledger alone; this module reads the form, checks
the signed token, and says what became of it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console import access, answers, roundtokens, words
from console.access import Deed, PersonRequest, allow, require
from console.forms import Choice, RoundForm
from console.roundtokens import Fault, RoundToken, TokenRefused
from operations import ledger
from operations.approval import Bar, may_decide, tally
from operations.ledger import GivenReply
from operations.machine import StepError
from operations.queries import rounds
from operations.queries.rounds import Filters, RoundPage, RoundVote, Tab

SOON = timedelta(minutes=15)
MAX_COMMENT = 2000
EXTENSIONS_MIN = (15, 60, 240)
DUE_WITHIN_MIN = (15, 60, 1440)
"""What an inbox can be narrowed to by deadline."""

BARS = {
    Bar.NO_ROLE: lazy("You do not have the role approver."),
    Bar.OTHER_SERVER: lazy("None of your teams looks after this server."),
    Bar.OTHER_TEAM: lazy("Only people of the team that the policy names may answer."),
    Bar.OWN_REQUEST: lazy("The call is made on your own behalf, so somebody else has to answer."),
    Bar.NO_COMMENT: lazy("The policy of this tool asks for a comment."),
}
"""What keeps somebody from answering, in words."""


@require_safe
@never_cache
@require()
def approvals(request: PersonRequest) -> HttpResponse:
    """Show the inbox; an htmx request gets the list alone."""
    tab = _tab(request.GET.get("tab", ""))
    now = timezone.now()
    within = _within(request)
    filters = Filters(
        server=_wanted(request, "server"),
        tool=_wanted(request, "tool"),
        team=_wanted(request, "team"),
        due=now + timedelta(minutes=within) if within else None,
    )
    person = request.actor.by
    page = rounds.inbox(tab, person=person, filters=filters, after=request.GET.get("after", ""))
    held = {
        "tab": tab.value,
        "groups": _groups(page.cards, tab, now),
        "after": page.after,
        "counts": rounds.counts(person=person, filters=filters),
        "most": rounds.MOST,
        "filters": filters,
        "choices": rounds.choices(),
        "within": within,
        "withins": [(minutes, words.duration(timedelta(minutes=minutes))) for minutes in DUE_WITHIN_MIN],
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
    for pressed, handle in (("compare", _compare), ("confirm", _confirm)):
        if pressed in request.POST:
            return handle(request, str(operation), number)
    return _take_answer(request, str(operation), number)


@require_POST
@allow(Deed.ANSWER)
def round_claim(request: PersonRequest, operation: uuid.UUID, number: int) -> HttpResponse:
    """Claim a round, or give it back; a claim keeps nobody from answering."""
    page = _page_or_404(str(operation), number)
    if page.is_open:
        verb = ledger.release_round if request.POST.get("do") == "release" else ledger.claim_round
        verb(page.card.operation, round=number, by=request.actor.by, now=timezone.now())
    return redirect(_back(request, reverse("round", args=[operation, number])))


def _seen(request: PersonRequest) -> datetime | None:
    """Return the deadline that the page had shown; None where the form tells none."""
    try:
        return parse_datetime(request.POST.get("seen", ""))
    except ValueError:
        return None


@require_POST
@allow(Deed.EXTEND_ROUND)
def round_extend(request: PersonRequest, operation: uuid.UUID, number: int) -> HttpResponse:
    """Give a round more time, never past what the task or the wait budget allows (I2)."""
    page = _page_or_404(str(operation), number)
    wanted = request.POST.get("minutes", "")
    if wanted not in {str(minutes) for minutes in EXTENSIONS_MIN}:
        raise Http404
    now = timezone.now()
    if _seen(request) not in {None, page.card.deadline_at}:  # a second post of one form gives the time once
        request.refusal = "the deadline has changed since the page was shown"
        messages.info(request, _("Its deadline has changed since your page was shown, see below. Nothing was changed."))
        return redirect("round", operation, number)
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
    """Take what was typed."""
    page = _page_or_404(operation, number)
    now = timezone.now()
    form = RoundForm(page.card.questions, data=request.POST)
    try:
        token = _token(request, operation, number)
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
    return _record(request, page, form, _Answer(token=token, form_id=form_id, replies=replies), now=now)


@allow(Deed.ANSWER)
def _confirm(request: PersonRequest, operation: str, number: int) -> HttpResponse:
    """Take the very same answer that somebody else has given; what stands in the form does not count."""
    page = _page_or_404(operation, number)
    now = timezone.now()
    form = RoundForm(page.card.questions)
    try:
        token = _token(request, operation, number)
    except TokenRefused as refused:
        return _refuse(request, page, form, refused.fault, now=now)
    form_id = _form_id(request)
    if form_id is None:
        return _refuse(request, page, form, Fault.MISSING, now=now)
    if not page.is_open:
        return _gone(request, page, form, _fate_of(page), now=now)
    vote = next((vote for vote in page.votes if vote.id == request.POST["confirm"]), None)
    if vote is None:
        said = _("That answer was taken back or replaced meanwhile. Nothing was recorded; look at what stands now.")
        return _render_round(request, page, form, now=now, status=409, banner=said)
    replies = tuple(GivenReply(key=one.key, action=one.action, content=one.content) for one in vote.replies)
    return _record(request, page, form, _Answer(token=token, form_id=form_id, replies=replies), now=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What is to be recorded, and under which token."""

    token: RoundToken
    form_id: uuid.UUID
    replies: tuple[GivenReply, ...]


def _record(
    request: PersonRequest, page: RoundPage, form: RoundForm, answer: _Answer, *, now: datetime
) -> HttpResponse:
    """Hand an answer to the ledger, the one door, and say what became of it."""
    operation, number = page.card.operation, page.card.number
    if answer.token.as_shown_digest != roundtokens.as_shown_digest(page):
        return _gone(request, page, form, ledger.RoundFate(status="CHANGED", newest_round=page.newest_round), now=now)
    try:
        recorded = ledger.answer_round(
            operation,
            round=number,
            request_digest=answer.token.request_digest,
            as_shown_digest=answer.token.as_shown_digest,
            form_id=answer.form_id,
            replies=answer.replies,
            by=request.actor.by,
            people=access.people_of,
            comment=_comment(request),
            now=now,
        )
    except ledger.RoundGone as gone:
        return _gone(request, _page_or_404(operation, number), form, gone.fate, now=now)
    except ledger.MayNotDecide as refused:
        banner = str(BARS[refused.bar])
        if refused.bar is Bar.NO_COMMENT:
            return _render_round(request, page, form, now=now, status=422, form_id=answer.form_id, banner=banner)
        held = _typed(request, page, form, now) | {"fault": "BARRED", "barred": banner, "status": 403}
        return render(request, "round_refused.html", held, status=403)
    _tell(request, recorded)
    return redirect("round", operation, number)


def _tell(request: PersonRequest, recorded: ledger.Recorded) -> None:
    if not recorded.decided:
        said = ngettext(
            "Your answer is recorded. %(n)d more person has to give the very same one; nothing was sent.",
            "Your answer is recorded. %(n)d more people have to give the very same one; nothing was sent.",
            recorded.missing,
        )
        messages.info(request, said % {"n": recorded.missing})
    elif recorded.again:
        said = _("This answer had been recorded before. It is there once and is sent once.")
        messages.success(request, said, extra_tags="ok")


@require_POST
@allow(Deed.ANSWER)
def round_withdraw(request: PersonRequest, operation: uuid.UUID, number: int) -> HttpResponse:
    """Take one's own vote back, as long as the round has no answer."""
    page = _page_or_404(str(operation), number)
    try:
        ledger.withdraw_vote(page.card.operation, round=number, by=request.actor.by, now=timezone.now())
    except ledger.NoVote:
        messages.warning(request, _("There is no vote of yours to take back. Nothing was changed."))
    except ledger.RoundGone:
        messages.warning(request, _("The round has its answer or is over, so your vote was not taken back."))
    else:
        messages.success(request, _("Your vote was taken back."))
    return redirect("round", operation, number)


def _token(request: PersonRequest, operation: str, number: int) -> RoundToken:
    text = request.POST.get("round_token", "")
    return roundtokens.read(text, operation=operation, number=number, person=request.user.get_username())


@allow(Deed.ANSWER)
def _compare(request: PersonRequest, operation: str, number: int) -> HttpResponse:
    """Lay what was typed beside the answer that won; nothing is answered by it, whatever the round is now."""
    page = _page_or_404(operation, number)
    request.decides_nothing = True
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
    compared = page.approved if request.GET.get("with") == "approved" or page.previous is None else page.previous
    held = _state(request, page, now) | {
        "form": form,
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
    answer, policy = page.answer, page.card.policy
    bar = may_decide(policy, page.card.matter, request.actor.person)
    token = roundtokens.make(page, person=request.user.get_username())
    return {
        "page": page,
        "policy": policy,
        "bar": BARS[bar] if bar and bar is not Bar.NO_ROLE else "",
        "votes": _votes(request, page),
        "round_token": roundtokens.sign(token),
        "as_shown": token.as_shown_digest,
        "confirm_id": uuid.uuid4(),
        "card": page.card,
        "answer": answer,
        "given": answers.given(page.card.questions, answer.replies) if answer else (),
        "now": now,
        "over": now >= page.card.deadline_at,
        "may_answer": bar is None,
        "may_extend": request.actor.may(Deed.EXTEND_ROUND),
        "minutes": EXTENSIONS_MIN,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One answer that people have given, and who."""

    votes: tuple[RoundVote, ...]
    given: tuple[answers.Given, ...]
    agreeing: int
    """How many of these votes count."""
    lost: frozenset[str]
    mine: bool

    @property
    def first(self) -> RoundVote:
        """The vote that was given first."""
        return self.votes[0]


def _votes(request: PersonRequest, page: RoundPage) -> tuple[Candidate, ...]:
    """Gather the standing votes by answer, the first one first."""
    if not page.votes:
        return ()
    counted = tally(
        page.card.policy,
        page.card.matter,
        [vote.ballot for vote in page.votes],
        access.people_of({vote.by for vote in page.votes}),
    )
    return tuple(
        Candidate(
            votes=votes,
            given=answers.given(page.card.questions, votes[0].replies),
            agreeing=len(counted.agreeing.get(digest, ())),
            lost=counted.lost,
            mine=request.actor.by in {vote.by for vote in votes},
        )
        for digest in dict.fromkeys(vote.digest for vote in page.votes)
        if (votes := tuple(vote for vote in page.votes if vote.digest == digest))
    )


def _refuse(request: PersonRequest, page: RoundPage, form: RoundForm, fault: Fault, *, now: datetime) -> HttpResponse:
    """The post cannot be tied to this round: nothing was done, and what was typed is kept (I3)."""
    if fault is Fault.TOO_OLD and page.is_open:
        said = _("This page was open for over twelve hours, so nothing was sent. Check your answer and press again.")
        return _render_round(request, page, form, now=now, status=409, banner=said)
    held = _typed(request, page, form, now) | {"fault": fault.value, "status": 400}
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


def _within(request: PersonRequest) -> int:
    text = request.GET.get("within", "")
    return int(text) if text in {str(minutes) for minutes in DUE_WITHIN_MIN} else 0


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
