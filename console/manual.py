"""What each state and each sub-reason means: what we know, what is safe to press, what is not.

The same words stand on the help page, on the desk and beside an operation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from django.utils.translation import gettext_lazy as _

from operations.machine import NotFound, Reason, State
from operations.verdicts import Verdict

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise


@dataclass(frozen=True, slots=True)
class Entry:
    """One page of the manual, three sentences long."""

    known: _StrPromise
    safe: _StrPromise
    unsafe: _StrPromise


STATES: Mapping[State, Entry] = MappingProxyType(
    {
        State.SUBMITTING: Entry(
            _("The call stands in the ledger with its key. It is being sent, or is about to be."),
            _("Waiting. A cancel: if nothing was sent yet, nothing will be."),
            _("Calling the tool again by another way: that would be a second operation."),
        ),
        State.SUBMISSION_UNKNOWN: Entry(
            _("Bytes may have left, and no usable answer came. The work may be running, or may never have started."),
            _("Look now. A cancel is kept as an intent and used as soon as a task turns up."),
            _("Sending it again with a new key. Calling it failed."),
        ),
        State.NOT_FOUND_SAFE: Entry(
            _("There is proof that the server created nothing for this key."),
            _("Repairing what was refused. Giving up with a reason: nothing happened outside."),
            _("Sending other bytes under the same key."),
        ),
        State.WORKING: Entry(
            _("The server has named a task, and we look at it again and again."),
            _("Waiting, looking now, asking for a cancel."),
            _("Reading its progress as a promise: only the result, fetched and checked, counts."),
        ),
        State.INPUT_REQUIRED: Entry(
            _("The server asks something. Routine looking is paused until somebody answers or the deadline passes."),
            _("Answering, declining or dismissing: three different answers. A cancel."),
            _("Letting it run out in the belief that silence approves: it never does."),
        ),
        State.CANCEL_REQUESTED: Entry(
            _("We asked the server to stop and have no proof yet that it did."),
            _("Waiting and looking now. Pressing cancel again changes nothing."),
            _("Telling anybody that it is cancelled. A completion may still win."),
        ),
        State.TERMINAL_OBSERVED: Entry(
            _("The server says that its task has ended. What came of it is not fetched yet."),
            _("Waiting: fetching follows at once."),
            _("Going on with the next step: a status is not a result."),
        ),
        State.FETCHING_RESULT: Entry(
            _("The result is being fetched and checked against its schema and the output guard."),
            _("Waiting."),
            _("A cancel comes too late: the work has ended."),
        ),
        State.UNKNOWN: Entry(
            _("We cannot tell what became of it. The reason beside it says why."),
            _("Looking now, as often as you like within the server's limit. New evidence moves it by itself."),
            _("Giving up before you have asked whoever runs the server: it may still be working."),
        ),
        State.ACCEPTED: Entry(
            _("The result was fetched, checked and accepted. The call node has one receipt."),
            _("Reading it. Nothing here can change any more."),
            _("Nothing can be pressed."),
        ),
        State.CANCELLED_ACCEPTED: Entry(
            _("The cancel has won, with evidence. A later completion would be kept but would advance nothing."),
            _("Checking what may have happened outside, if the tool has effects."),
            _("Reading it as an undo: what was done before the cancel stays done."),
        ),
        State.REFUSED: Entry(
            _("The request itself was refused or could not be made. No task exists."),
            _("Repairing the request and submitting it as a new call node."),
            _("Submitting other arguments under the same key: the ledger refuses that."),
        ),
        State.RECONCILED: Entry(
            _("A person closed it with a reason, because no evidence could. The receipt says so."),
            _("Reading the reason. The effect record stays open until it is settled."),
            _("Reading it as success or as failure: it is neither."),
        ),
    }
)

REASONS: Mapping[Reason, Entry] = MappingProxyType(
    {
        Reason.SUBMIT_LOST: Entry(
            _("The submit was sent, its answer was lost, and this server cannot be asked by our key."),
            _("Asking whoever runs the server for the call's key or arguments. Giving up with what they told you."),
            _("Submitting the call again elsewhere before somebody has looked: it may be running."),
        ),
        Reason.BUDGET_ENDED: Entry(
            _("Our waiting time is over. The server's work may not be: nothing was cancelled."),
            _("Looking now. Waiting longer: we go on looking slowly, and evidence moves it by itself."),
            _("Calling it failed. Calling it cancelled."),
        ),
        Reason.NOT_FOUND: Entry(
            _("The server no longer knows the task. That alone means neither failed nor never created."),
            _("Looking now. Checking whether the server restarted or its tasks expired."),
            _("Reading “not found” as “did not happen”."),
        ),
        Reason.NOT_FOUND_AFTER_CANCEL: Entry(
            _("After our cancel the server no longer knows the task. It may have cancelled, finished or forgotten it."),
            _("Looking now. Checking what the tool does outside."),
            _("Reading “not found” as “cancelled”."),
        ),
        Reason.ID_CLASH: Entry(
            _("The server gave one task id to two operations. Neither can be trusted to be its own."),
            _("Telling whoever runs the server. Comparing the evidence of both."),
            _("Accepting either result."),
        ),
        Reason.CONTRADICTED: Entry(
            _("The server has told two different endings for the same task."),
            _("Comparing both in the evidence. Asking whoever runs the server which one is true."),
            _("Choosing the one that suits."),
        ),
        Reason.RESULT_LOST: Entry(
            _("The server said that the task ended, but its result cannot be fetched."),
            _("Looking now: a result that can be fetched again is accepted by itself."),
            _("Going on without the result."),
        ),
        Reason.RESULT_INVALID: Entry(
            _("A result was fetched, but it does not fit its schema, or the output guard refused it."),
            _("Reading the evidence. Repairing the tool's schema for the next call."),
            _("Copying the result by hand into the next step."),
        ),
        Reason.ADMIN_REFUSAL: Entry(
            _("The server refused the submit for a cause an admin can repair: access, address or capability."),
            _("Repairing it at the server's registration."),
            _("Submitting the call a second time by another way."),
        ),
        Reason.REQUEST_REFUSED: Entry(
            _("The server refused this request as such. Sending it again would be refused again."),
            _("Reading the refusal in the evidence and repairing the arguments."),
            _("Repeating it unchanged."),
        ),
        Reason.NO_TASK_SUPPORT: Entry(
            _("The server or this tool has not declared that it can run as a task. Nothing was sent."),
            _("Registering a synchronous limit for the tool, if it has a published one."),
            _("Calling a ten-minute tool as if it took seconds."),
        ),
        Reason.PROVED_ABSENT: Entry(
            _("A lookup has proved that the server created nothing for this call."),
            _("Giving up with a reason: nothing happened outside."),
            _("A new key for the same call node: the ledger refuses that."),
        ),
    }
)

VERDICTS: Mapping[Verdict, tuple[_StrPromise, _StrPromise]] = MappingProxyType(
    {
        Verdict.FOUND: (
            _("Found it"),
            _("Bind the id of the task that was found. Looking goes on and decides the rest."),
        ),
        Verdict.RESUBMIT: (
            _("Never created: send again"),
            _("The same key and the same bytes. Possible only after proof that nothing was created."),
        ),
        Verdict.NEVER_CREATED: (
            _("Never created: close"),
            _("The call node gets a receipt that says so. Nothing happened outside."),
        ),
        Verdict.EVIDENCED: (
            _("Ended, and the result is in evidence"),
            _("It goes on to acceptance: the stored bytes are checked like any other result."),
        ),
        Verdict.ESTABLISHED_OUTSIDE: (
            _("Outcome established outside"),
            _("You were shown what became of it. The receipt says what, and who confirmed it."),
        ),
        Verdict.GAVE_UP: (
            _("Give up: close as unknown"),
            _("The call node gets a receipt that says unknown: neither success nor failure."),
        ),
    }
)
"""Verdict -> title and what it means."""

TO_TYPE: Mapping[Verdict, _StrPromise] = MappingProxyType(
    {Verdict.GAVE_UP: _("close as unknown"), Verdict.RESUBMIT: _("may run twice")}
)
"""What somebody types by hand before the verdict, so that it is never a slip."""

NOT_FOUND: Mapping[NotFound, _StrPromise] = MappingProxyType(
    {
        NotFound.NEVER_CREATED: _("Proved: the server never created it."),
        NotFound.EXPIRED_WITH_RECEIPT: _("Expired at the server, but its end and its result are in our evidence."),
        NotFound.UNKNOWN: _("Nothing proves that it exists, and nothing proves that it was never created."),
    }
)

LOOKUPS: Mapping[str, _StrPromise] = MappingProxyType(
    {
        "none": _("Class C: this server cannot be asked by our key. Without a task id only a person can help."),
        "same_key_replay": _("Class A: sending the same key again inside its window is a lookup, not a second call."),
        "list_by_key": _("Class B: this server can be asked by our key, but does not drop repeats."),
        "client_id": _("Class B: this server can be asked by an id of ours, but does not drop repeats."),
        "session_list": _("Class B: this server can list the tasks of our session, but does not drop repeats."),
        "lookup_tool": _("Class B: a tool of this server answers for our key; it does not drop repeats."),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture of one of our own pages, drawn for each language by day and by night: on light and on dark ground."""

    name: str
    alt: _StrPromise
    says: _StrPromise

    def files(self, language: str) -> tuple[str, str]:
        """Return its static files by day and by night in this language; English where there are none of its own."""
        tongue = ".zh-hans" if language == "zh-hans" else ""
        return f"pictures/{self.name}{tongue}.png", f"pictures/{self.name}.dark{tongue}.png"


PICTURES = (
    Picture(
        name="operation",
        alt=_("The page of an operation whose server asks something"),
        says=_(
            "An operation: first what we can say for sure, our state beside the word of its server; then what you can "
            "do now, each with its promise, and what you cannot do with its reason; below, what we, the server and "
            "people did, on one line of time."
        ),
    ),
    Picture(
        name="round",
        alt=_("The page of a question with the form that answers it"),
        says=_(
            "A question: the words of the server as they came, the exact arguments of the call, what changed since the "
            "last round, and the form. The clock says how long there is time; when it is over, nothing is approved."
        ),
    ),
    Picture(
        name="reconcile",
        alt=_("The page of an item of the desk"),
        says=_(
            "An item of the desk: what we know, what is safe and what is not, a look that can be taken at once, the "
            "evidence, and of the verdicts only those that the evidence allows."
        ),
    ),
)
