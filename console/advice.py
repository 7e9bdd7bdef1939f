"""What a page says about one operation: the verdict line, what this person can do now, what a cancel promises here.

All of it is a function of the dossier, the contract's promises, the person and the moment. Nothing in the past tense
before it has happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy

from console import manual, sentences, words
from console.access import MATRIX, Actor, Deed
from operations.machine import Reason, State
from operations.queries import Asked, desk

if TYPE_CHECKING:
    from console.history import Story
    from operations.queries.dossier import Dossier


class Promises(Protocol):
    """What a contract promises about a cancel (C2, C5)."""

    @property
    def protocol_version(self) -> str:
        """The exact version that promises it."""

    @property
    def cancel_ack_is_terminal(self) -> bool:
        """True: the server's answer to a cancel is itself the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Where it stands, in one line and one more sentence."""

    head: str
    tail: str
    then: str
    next_at: datetime | None = None
    """A moment the page counts down to: the next look, or the deadline of a round."""
    next_word: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Can:
    """One thing a person may want to do, possible now or not."""

    key: str
    icon: str
    word: str
    says: str
    """What it promises, or why it is not possible."""
    address: str = ""
    post: bool = False
    possible: bool = False


def verdict(op: Dossier, *, now: datetime) -> Verdict:
    """Say where the operation stands."""
    return _VERDICTS[op.state](op, now)


def _next_look(op: Dossier) -> tuple[datetime | None, str]:
    if op.is_parked:
        return None, ""
    if op.paused_until is not None and op.due_at is not None and op.paused_until > op.due_at:
        return op.paused_until, _("Looking at this server is paused:")
    return op.due_at, _("Next look")


def _until(op: Dossier, now: datetime) -> str:
    left = op.budget_ends_at - now
    if left.total_seconds() <= 0:
        return _("Our waiting time is over.")
    return _("We stop waiting in %(left)s; then a person decides, and nothing is cancelled by itself.") % {
        "left": words.coarse(left)
    }


def _submitting(op: Dossier, now: datetime) -> Verdict:
    at, word = _next_look(op)
    if not op.nothing_sent:
        return Verdict(
            head=_("Submitting."),
            tail=_("The call may be on its way; the server's answer is awaited."),
            then=_("If no usable answer comes, it is never sent blindly again."),
        )
    tail = _("A cancel is asked; nothing will be sent.") if op.cancel_intent else _("Nothing has been sent yet.")
    if op.waits_for_submits and not op.cancel_intent:
        tail = _("It waits because submits are shut; it goes on when an admin opens them.")
    return Verdict(head=_("Submitting."), tail=tail, then=_until(op, now), next_at=at, next_word=word)


def _working(op: Dossier, now: datetime) -> Verdict:
    at, word = _next_look(op)
    said = _("The server says “%(message)s”.") % {"message": op.protocol_message} if op.protocol_message else ""
    return Verdict(head=_("Working."), tail=said, then=_until(op, now), next_at=at, next_word=word)


def _input(op: Dossier, now: datetime) -> Verdict:
    if op.asked is Asked.EXPIRED:
        return _expired(op, now)
    if op.asked is Asked.ANSWERED:
        return Verdict(
            head=_("Answered, not yet taken."),
            tail=_("Round %(number)d has its answer; the server has not moved on.") % {"number": op.round},
            then=_("An answer is stored first, then delivered, then confirmed by the server going on."),
            next_at=None if op.is_parked else op.due_at,
            next_word=_("Next look"),
        )
    return Verdict(
        head=_("Needs an answer."),
        tail=_("The server asks; this is round %(number)d.") % {"number": op.round},
        then=_("Routine looking is paused. Silence approves nothing: when the time is over the question closes."),
        next_at=op.round_deadline_at,
        next_word=_("Time left"),
    )


def _expired(op: Dossier, now: datetime) -> Verdict:
    at, word = _next_look(op)
    more = [_("Looking has resumed: the server may stop asking by itself.")] if op.task_id else []
    if _can_get_time(op, now):
        more.append(_("An operator can give the question more time; then it can be answered again."))
    more.append(_until(op, now))
    return Verdict(
        head=_("Round %(number)d expired; nobody answered.") % {"number": op.round},
        tail=_("The tool was told nothing: silence is neither a yes nor a no."),
        then=" ".join(more),
        next_at=at,
        next_word=word,
    )


def _can_get_time(op: Dossier, now: datetime) -> bool:
    """Whether the newest question can get more time: the task and our waiting last longer than now (I2)."""
    return now < min(limit for limit in (op.budget_ends_at, op.task_expires_at) if limit is not None)


def _cancel_requested(op: Dossier, now: datetime) -> Verdict:
    at, word = _next_look(op)
    asked = words.coarse(now - op.cancel_requested_at) if op.cancel_requested_at else ""
    stated = _("It was not confirmed in time; a person has been told, and looking goes on.")
    waiting = _("It is cancelled when the server has shown so, not before. If the work ends first, it has ended.")
    return Verdict(
        head=_("Cancel requested %(span)s ago, not yet honoured.") % {"span": asked},
        tail="",
        then=stated if op.cancel_stated else waiting,
        next_at=at,
        next_word=word,
    )


def _ended(op: Dossier, now: datetime) -> Verdict:  # noqa: ARG001
    return Verdict(
        head=_("Ended, not yet accepted."),
        tail=_("The server says “%(status)s”.") % {"status": op.terminal_status or op.protocol_status},
        then=_("A status is not a result. The result is fetched and checked before anything advances."),
    )


def _unknown(op: Dossier, now: datetime) -> Verdict:  # noqa: ARG001
    at, word = _next_look(op)
    head = {
        State.SUBMISSION_UNKNOWN: _("We sent it and got no usable answer."),
        State.NOT_FOUND_SAFE: _("Nothing was created."),
    }.get(op.state, _("We cannot tell what became of it."))
    known = manual.REASONS[Reason(op.reason)].known if op.reason else manual.STATES[op.state].known
    then = f"{known} {_parked(op)}" if op.is_parked else str(known)
    if op.waits_for_submits:
        then = f"{known} {_SHUT}"
    return Verdict(head=head, tail="", then=then, next_at=at, next_word=word)


_SHUT = lazy(
    "It waits because submits are shut: here the server is asked by the same submit again. It is asked when an admin "
    "opens them, or new evidence moves it."
)


def _parked(op: Dossier) -> str:
    if op.state is State.NOT_FOUND_SAFE:
        return _("Nothing is looked at by itself before a person decides or our waiting time ends.")
    return _("Nothing is looked at by itself before a person decides: there is nothing to ask by.")


def _accepted(op: Dossier, now: datetime) -> Verdict:  # noqa: ARG001
    if op.is_tool_error:
        return Verdict(
            head=_("The tool reported an error."),
            tail=_("That is its outcome, and the call node has it."),
            then=_("Fetched, checked and accepted once. Nothing can change any more."),
        )
    return Verdict(
        head=_("Accepted."),
        tail=_("The result was fetched and checked."),
        then=_("The call node has exactly one receipt. Nothing can change any more."),
    )


def _cancelled(op: Dossier, now: datetime) -> Verdict:  # noqa: ARG001
    return Verdict(
        head=_("Cancelled."),
        tail=_("Provably nothing was sent.") if op.nothing_sent else _("The cancel won, with evidence."),
        then=_("A later completion is kept as evidence and advances nothing."),
    )


def _refused(op: Dossier, now: datetime) -> Verdict:  # noqa: ARG001
    known = manual.REASONS[Reason(op.reason)].known if op.reason else manual.STATES[State.REFUSED].known
    return Verdict(head=_("Refused."), tail="", then=str(known))


def _reconciled(op: Dossier, now: datetime) -> Verdict:  # noqa: ARG001
    return Verdict(head=_("Closed by a person."), tail="", then=str(manual.STATES[State.RECONCILED].known))


_VERDICTS: Mapping[State, Callable[[Dossier, datetime], Verdict]] = MappingProxyType(
    {
        State.SUBMITTING: _submitting,
        State.SUBMISSION_UNKNOWN: _unknown,
        State.NOT_FOUND_SAFE: _unknown,
        State.WORKING: _working,
        State.INPUT_REQUIRED: _input,
        State.CANCEL_REQUESTED: _cancel_requested,
        State.TERMINAL_OBSERVED: _ended,
        State.FETCHING_RESULT: _ended,
        State.UNKNOWN: _unknown,
        State.ACCEPTED: _accepted,
        State.CANCELLED_ACCEPTED: _cancelled,
        State.REFUSED: _refused,
        State.RECONCILED: _reconciled,
    }
)


def actions(op: Dossier, *, actor: Actor, promises: Promises | None, now: datetime) -> list[Can]:
    """List what this person can do now; what is not possible stays in the list with its reason."""
    always = [_look(op, actor), _answer(op, actor, now), _cancel(op, actor, promises), _reconcile(op, actor)]
    return [_read_receipt(op), *always] if op.is_final else always


def needs_role(actor: Actor, deed: Deed) -> str:
    """Say which role a deed needs; empty when the person has it."""
    if actor.may(deed):
        return ""
    roles = " / ".join(sorted(sentences.in_words(role) for role in MATRIX[deed]))
    return _("Needs the role %(roles)s.") % {"roles": roles}


def _read_receipt(op: Dossier) -> Can:
    return Can(
        key="receipt",
        icon="doc",
        word=_("Read the receipt"),
        says=_("The one terminal record of this call node, with its result and how far its delivery has come."),
        address=reverse("operation", args=[op.id]) + "?tab=receipt#tabs",
        possible=True,
    )


def _look(op: Dossier, actor: Actor) -> Can:
    why = needs_role(actor, Deed.LOOK_NOW)
    if op.is_final:
        why = _("It is over; there is nothing left to look for.")
    says = why or look_in_short(op)
    address = reverse("look_now", args=[op.id])
    return Can(key="look", icon="eye", word=_("Look now"), says=says, address=address, post=True, possible=not why)


def look_word(op: Dossier) -> str:
    """Name the button of a look by what is asked for."""
    if op.task_id is not None:
        return _("Look up by task id")
    return _("Look up now") if op.is_parked or op.nothing_sent else _("Look up by submission key")


def look_in_short(op: Dossier) -> str:
    """Say what a look asked for by a person does here."""
    if op.waits_for_submits:
        return str(_SHUT)
    if op.is_parked:
        return _(
            "No task id is known and there is no other way to ask here, "
            "so it can only show that nothing new can be learned."
        )
    cost = _("It counts against the server's %(qps)g requests a second.") % {"qps": op.max_qps}
    if op.task_id is not None:
        return (
            _("Asks %(server)s once for the task it named, ahead of the routine.") % {"server": op.server} + f" {cost}"
        )
    if op.nothing_sent:
        return _("Nothing was sent yet: the call is taken up next, ahead of the routine.") + f" {cost}"
    return _("Asks %(server)s for our submission key, ahead of the routine.") % {"server": op.server} + f" {cost}"


def _answer(op: Dossier, actor: Actor, now: datetime) -> Can:
    if op.asked is Asked.EXPIRED and _can_get_time(op, now):
        return _extend(op, actor)
    why = needs_role(actor, Deed.ANSWER) if op.round_open else _("No question is open.")
    says = _("Opens the question with the exact arguments. Nothing is decided by opening it.")
    return Can(
        key="answer",
        icon="person",
        word=_("Answer round %(number)d") % {"number": op.round} if op.round_open else _("Answer a question"),
        says=why or says,
        address=reverse("round", args=[op.id, op.round]) if op.round_open else "",
        possible=not why,
    )


def _extend(op: Dossier, actor: Actor) -> Can:
    why = needs_role(actor, Deed.EXTEND_ROUND)
    return Can(
        key="answer",
        icon="clock",
        word=_("Give more time…"),
        says=why
        or _("Nobody answered round %(number)d in time. With more time it is open to approvers again.")
        % {"number": op.round},
        address=reverse("round", args=[op.id, op.round]),
        possible=not why,
    )


def _cancel(op: Dossier, actor: Actor, promises: Promises | None) -> Can:
    why = needs_role(actor, Deed.CANCEL)
    if op.is_final:
        why = _("It is over.")
    elif op.is_finished:
        why = _("It has ended; its result is being checked. A cancel comes too late.")
    elif op.state is State.CANCEL_REQUESTED or op.cancel_intent:
        why = _("It is requested already. Pressing again would change nothing.")
    return Can(
        key="cancel",
        icon="stopask",
        word=_("Request cancel…"),
        says=why or cancel_in_short(op, promises),
        address=reverse("cancel", args=[op.id]),
        possible=not why,
    )


def _reconcile(op: Dossier, actor: Actor) -> Can:
    why = needs_role(actor, Deed.RECONCILE)
    if op.state not in desk.BEFORE_A_PERSON:
        why = _("Only for operations whose outcome we cannot tell.")
    says = why or _("Shows what we know, and lets you close it with a reason when nothing else can.")
    address = reverse("reconcile_item", args=[op.id])
    return Can(key="reconcile", icon="recon", word=_("Reconcile…"), says=says, address=address, possible=not why)


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelPromise:
    """What pressing cancel means for this operation, under its contract."""

    kind: str
    tone: str
    lead: str
    steps: tuple[str, ...]


def cancel_in_short(op: Dossier, promises: Promises | None) -> str:
    """Say in one sentence what a cancel would be here."""
    return cancel_promise(op, promises).lead


def cancel_promise(op: Dossier, promises: Promises | None) -> CancelPromise:
    """Say what a cancel means here (C2, C5, C9)."""
    if op.task_id is None and (op.nothing_sent or op.can_cancel):
        return _promise_without_task(op)
    if not op.can_cancel:
        return _promise_nothing()
    if op.state not in {State.WORKING, State.INPUT_REQUIRED}:
        return _promise_after_a_look()
    if promises is not None and promises.cancel_ack_is_terminal:
        return _promise_terminal(op)
    return _promise_cooperative()


def _promise_without_task(op: Dossier) -> CancelPromise:
    lead = (
        _("Nothing has been sent. If that is still so when you press, nothing will be.")
        if op.nothing_sent
        else _("No task can be reached now. Your request is kept and used as soon as one turns up.")
    )
    return CancelPromise(
        kind=_("An intent, for a task that may turn up"),
        tone="wait",
        lead=lead,
        steps=(
            _("We record your request first. From then on the call is not sent again."),
            _("If no byte was ever sent, the call ends as cancelled at once."),
            _("If a task turns up after all, the server is asked to cancel it at once."),
            _("If it is proved that nothing was created, the call ends as cancelled."),
        ),
    )


def _promise_after_a_look() -> CancelPromise:
    return CancelPromise(
        kind=_("An intent, for a task that is known"),
        tone="wait",
        lead=_("The task is known, what became of it is not. We look once and then ask for the cancel."),
        steps=(
            _("We record your request first. From then on no further answer to a question is sent."),
            _("We look at the task at once. If it has not ended, the server is asked to cancel it."),
            _("If it has ended, the call ends as finished, with both times shown."),
            _("If the server does not show the task, nothing is asked, and a person still has to decide."),
        ),
    )


def _promise_nothing() -> CancelPromise:
    return CancelPromise(
        kind=_("This server cannot cancel"),
        tone="off",
        lead=_("This server has not declared that it can cancel. Pressing records your wish and changes nothing else."),
        steps=(
            _("Your wish is recorded with its reason, for everybody to see."),
            _("Nothing is sent, and the state does not change."),
            _("We keep looking until the work ends by itself or our waiting time is over."),
        ),
    )


def _promise_terminal(op: Dossier) -> CancelPromise:
    return CancelPromise(
        kind=_("The server's answer decides"),
        tone="work",
        lead=_("A request. Under MCP Tasks %(version)s the server's “cancelled” ends the call at once.")
        % {"version": op.protocol},
        steps=(
            _("We record your request first, then send it. From then on no further answer to a question is sent."),
            _("If the server answers “cancelled”, the cancel has won: the call ends and stays ended."),
            _("If the work ended first, the server refuses; then the call ends as finished, with both times shown."),
            _("If nothing is settled after 45 s, that is stated to a person, and looking goes on."),
        ),
    )


def _promise_cooperative() -> CancelPromise:
    return CancelPromise(
        kind=_("Cooperative: a request"),
        tone="wait",
        lead=_("You ask the server to stop. It promises to take the request, not to stop."),
        steps=(
            _("We record your request first, then send it. From then on no further answer to a question is sent."),
            _("The server says that it got the request. The work goes on until we see that the task has ended."),
            _("If nothing has ended after 45 s, that is stated to a person, and looking goes on."),
            _("If the work ends before the cancel has won, the call ends as finished, with both times shown."),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """A cancel and a completion that met: both times, who won, what was not advanced (C4, C11)."""

    requested_at: datetime
    ended_at: datetime
    cancel_won: bool
    says: str


def race(op: Dossier, *, story: Story) -> Race | None:
    """Return the race card; None unless a cancel was requested and the work ended otherwise."""
    ended = story.first_end_at
    if op.cancel_requested_at is None or ended is None or not op.is_finished:
        return None
    if op.state is State.CANCELLED_ACCEPTED and not story.completed_too:
        return None
    says = (
        _("The late completion is kept as evidence. It advanced nothing.")
        if op.state is State.CANCELLED_ACCEPTED
        else _("The end came before the cancel had won, so the call ends as finished. Nothing was thrown away.")
    )
    return Race(
        requested_at=op.cancel_requested_at,
        ended_at=ended,
        cancel_won=op.state is State.CANCELLED_ACCEPTED,
        says=says,
    )
