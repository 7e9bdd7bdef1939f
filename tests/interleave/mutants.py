"""Faults planted in the product on purpose: the harness must find each of them.

Each is a patch over the real code for the time of some runs; nothing of it is in the product.
`canary` fails in every run that makes an operation.
"""

from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from unittest import mock

from adapters.contract import Ended, Lookup, ProtocolStatus, ToolResult
from adapters.simulator.scenario import CancelStyle
from operations import deeds, ledger, lookups, machine, plan
from operations.ledger import acceptance, cancel, claims, looks, rounds, step, submission
from operations.machine import FINAL, State
from operations.plan import Deed
from tests.interleave.lines import ACTS, KILLED_BEFORE, LOST_AFTER
from tests.interleave.plan import LATER


@dataclass(frozen=True)
class Mutant:
    """One planted fault: `patches` are (where, name, what stands there instead)."""

    clause: str
    what: str
    patches: tuple
    wants: Callable = lambda _plan: True
    """Whether a run of this plan can show it at all; the search passes over the others."""
    script: tuple = ()
    """For what chance meets too seldom: pairs (part of a choice's words, what is chosen there the first time)."""


def _checked_but(*spared):
    """The check of a ticket that forgets some of its fences."""
    real = machine.check_ticket

    def check(standing, ticket):
        known = {"epoch": standing.epoch, "cancel_generation": standing.cancel_generation}
        known |= {"round": standing.round, "look": standing.look}
        real(standing, replace(ticket, **{name: known[name] for name in spared}))

    return check


def _deeds(**changed):
    return {**plan._DEEDS, **{State(name): deed for name, deed in changed.items()}}


def _nothing(*_args, **_named):
    return None


_real_give = submission.give
_real_press = cancel._press
_real_observe = looks.observe
_real_absent = looks._absent
_real_find = deeds.Drive._find
_real_journal = step.Step._journal
_real_call = deeds.Drive._call
_real_permit_answer = ledger.permit_answer
_real_close = rounds.close
_real_means = lookups.means


def _give_always(a_step, permit, kind, *, allowed):
    return _real_give(a_step, permit, kind, allowed=True)


def _submit_whatever(row, _means, _now):
    return Deed.LOOK if row.task_id else Deed.CLOSE_UNSENT if row.cancel_intent and row.nothing_sent else Deed.SUBMIT


def _submit_in_spite(row, _means, _now):
    return Deed.LOOK if row.task_id else Deed.DECLARE_LOST if not row.nothing_sent else Deed.SUBMIT


def _new_key(self, **how):
    call = _real_call(self, **how)
    again = self._work.row.sends
    return replace(call, submission_key=f"{call.submission_key}-{again}") if again else call


async def _find_without_quarantine(self):
    self._work = replace(self._work, server=replace(self._work.server, quarantine_s=0))
    return await _real_find(self)


def _close_and_lose(a_step, reason, **how):
    with mock.patch.object(rounds, "_deliver", _nothing):
        _real_close(a_step, reason, **how)


def _go_on_after_cancel(a_step, *, summary):
    a_step.due(a_step.now, urgent=True)


def _absent_is_cancelled(a_step, *, next_at):
    if a_step.row.state is State.CANCEL_REQUESTED:
        a_step.set(cancel_acked=True)
        looks.close_cancelled(a_step, summary="the server no longer knows it")
    else:
        _real_absent(a_step, next_at=next_at)


def _journal_miscounts(self, *what):
    row, self.row = self.row, replace(self.row, version=self.row.version + 1)
    _real_journal(self, *what)
    self.row = row


@wraps(_real_permit_answer)
def _answer_after_press(operation, **how):
    with mock.patch.object(rounds, "give", _give_always):
        return _real_permit_answer(operation, **how | {"ticket": None})


def _turn_up_at_work(a_step):
    if a_step.row.state is State.NOT_FOUND_SAFE:
        a_step.move(machine.Event.TASK_NAMED)


def _listed_for_ever(work, promises):
    return replace(_real_means(work, promises), listed=None)


def _completed_is_enough(a_step, seen, *, next_at):
    """Take the word `completed` for the result."""
    if isinstance(seen, Ended) and seen.status is ProtocolStatus.COMPLETED and seen.result is None:
        seen = replace(seen, result=_invented(seen))
    _real_observe(a_step, seen, next_at=next_at)


def _invented(seen):
    raw = b'{"content": [], "structuredContent": {"node": "nobody"}}'
    return ToolResult(raw=raw, value={}, is_error=False, task_id=seen.task.task_id if seen.task else None)


def _cancels(plan):
    return plan.presses and plan.cancel is not CancelStyle.REFUSES and plan.tool == "long" and plan.declares_tasks


def _submits(plan):
    return plan.hot == "tools/call" and plan.tool == "long" and plan.declares_tasks


def _looks(plan):
    return plan.hot == "tasks/get" and plan.tool == "long" and plan.declares_tasks


def _asks(plan):
    return plan.asks and plan.approvers and plan.tool == "long" and plan.declares_tasks


MUTANTS = {
    "canary": Mutant("L7", "the journal counts its versions wrongly", ((step.Step, "_journal", _journal_miscounts),)),
    "an older look overwrites": Mutant(
        "P4", "no look number", ((step, "check_ticket", _checked_but("look")),), wants=_looks
    ),
    "an old epoch decides": Mutant(
        "F7",
        "no execution epoch",
        ((step, "check_ticket", _checked_but("epoch")),),
        script=(("saw", ACTS),),
        wants=_looks,
    ),
    "an old generation decides": Mutant(
        "C1",
        "no cancel generation",
        ((step, "check_ticket", _checked_but("cancel_generation", "look")),),
        wants=_cancels,
    ),
    "no ticket at all": Mutant("P6", "nothing is checked", ((step, "check_ticket", _nothing),), wants=_cancels),
    "no output guard": Mutant(
        "R2",
        "any result is accepted",
        ((acceptance.outputguard, "inspect", lambda *a, **k: ()),),
        wants=lambda plan: plan.end == "breaks its schema" and plan.tool != "refused",
    ),
    "completed is enough": Mutant("A2", "success without a fetch", ((looks, "observe", _completed_is_enough),)),
    "a cancelled task goes on to its result": Mutant(
        "A3",
        "a won cancel is fetched like a completion",
        ((looks, "close_cancelled", _go_on_after_cancel),),
        wants=lambda plan: _cancels(plan) and plan.works_on,
    ),
    "a new key for every send": Mutant(
        "L4", "the submission key changes", ((deeds.Drive, "_call", _new_key),), wants=_submits
    ),
    "sent again without proof": Mutant(
        "A5",
        "a lost submit is sent again",
        ((plan, "_DEEDS", _deeds(SUBMITTING=_submit_whatever)), (submission, "give", _give_always)),
        wants=_submits,
    ),
    "sent in spite of a cancel": Mutant(
        "C9",
        "a cancel intent does not stop the submit",
        ((plan, "_DEEDS", _deeds(SUBMITTING=_submit_in_spite)), (submission, "give", _give_always)),
        script=(("tools/call", "no connection"), ("submit_not_sent", ACTS)),
        wants=_submits,
    ),
    "no quarantine": Mutant(
        "X2",
        "an early absence is proof",
        ((deeds.Drive, "_DEEDS", {**deeds.Drive._DEEDS, Deed.FIND: _find_without_quarantine}),),
        wants=lambda plan: _submits(plan) and plan.lookup in {Lookup.LIST_BY_KEY, Lookup.SESSION_LIST},
        script=(("tools/call", "request hangs, then acts"),),
    ),
    "a submit without permit": Mutant("L4", "the permit is not written", ((ledger, "permit_submit", _nothing),)),
    "a cancel without permit": Mutant(
        "L4", "the permit is not written", ((ledger, "permit_cancel", _nothing),), wants=_cancels
    ),
    "an answer without permit": Mutant(
        "L4", "the permit is not written", ((ledger, "permit_answer", _nothing),), wants=_asks
    ),
    "an answer after a cancel": Mutant(
        "C11",
        "the permit forgets the generation",
        ((ledger, "permit_answer", _answer_after_press),),
        script=(("permit_answer", ACTS),),
        wants=_asks,
    ),
    "a cancel voids no answer": Mutant(
        "C11",
        "rounds stay open",
        ((rounds, "void_answers", _nothing),),
        wants=lambda plan: _asks(plan) and _cancels(plan),
    ),
    "an answer is lost": Mutant(
        "I7",
        "a closed round says nothing of its answer",
        ((rounds, "close", _close_and_lose),),
        script=(("answer", "no connection"),),
        wants=_asks,
    ),
    "an answered round reopens": Mutant(
        "I4",
        "no replay is known",
        ((rounds, "is_replay", lambda *_a: False),),
        wants=lambda plan: _asks(plan) and plan.contract == LATER and plan.poll_ms < 6000,
        script=(("answer", "request lost"),),
    ),
    "what turns up is at work in spite of a cancel": Mutant(
        "C9",
        "a task that was thought absent forgets the intent",
        ((looks, "_turn_up", _turn_up_at_work),),
        wants=lambda plan: plan.list_lies or plan.desk_errs,
    ),
    "a forgotten task is proof of absence": Mutant(
        "X2",
        "no lookup ever gets too late",
        ((lookups, "means", _listed_for_ever), (lookups, "proves_absence", lambda *_a, **_n: True)),
        wants=lambda plan: _submits(plan) and plan.lookup is Lookup.LIST_BY_KEY and not plan.list_lies,
        script=(("tools/call", "answer lost"), *(("tasks/list", "request lost"),) * 12),
    ),
    "a cancel intent is forgotten": Mutant(
        "C9",
        "nothing follows an intent",
        ((looks, "bind_intent", _nothing),),
        wants=lambda plan: _cancels(plan) and plan.first.get("tools/call") == ("answer slow",),
    ),
    "a cancel is forgotten at the desk": Mutant(
        "C9",
        "a task that is seen again after the request has ended with a person goes on",
        ((looks, "_is_under_cancel", lambda a_step: a_step.row.cancel_intent),),
        wants=lambda plan: _cancels(plan) and _asks(plan),
    ),
    "no effect record": Mutant(
        "C6", "nothing is in doubt", ((acceptance, "_leaves_doubt", lambda *_a: False),), wants=_cancels
    ),
    "a late end is not recorded": Mutant(
        "C4",
        "the audit opens nothing",
        ((looks, "open_effect", _nothing),),
        wants=lambda plan: (
            _cancels(plan) and plan.cancel is CancelStyle.LIES and not plan.is_cooperative and plan.policy != "harmless"
        ),
        script=(("tasks/cancel is answered", "finishes first"),),
    ),
    "any acknowledgement ends a cancel": Mutant(
        "C5",
        "a cooperative cancel counts as won",
        ((deeds.Drive, "_is_terminal", lambda *_a: True),),
        wants=lambda plan: _cancels(plan) and plan.is_cooperative and plan.cancel is CancelStyle.IGNORES,
    ),
    "a cancel after the end": Mutant(
        "C10",
        "a press is taken too late",
        ((cancel, "FINISHED", FINAL),),
        script=(("fetch_started", ACTS),),
    ),
    "absent after a cancel is cancelled": Mutant(
        "C12",
        "a 404 wins",
        ((looks, "_absent", _absent_is_cancelled),),
        wants=lambda plan: _cancels(plan) and plan.ttl_ms,
    ),
    "a clash is not seen": Mutant(
        "P8", "no other owner is found", ((looks, "bound_elsewhere", _nothing),), wants=lambda plan: plan.reuses_ids
    ),
    "a lease for ten days": Mutant(
        "A6",
        "the dead keep their claims",
        ((claims, "LEASE", claims.LEASE * 28_800),),
        script=(("permit_submit", KILLED_BEFORE),),
    ),
    "a lost commit is not read back": Mutant(
        "R9",
        "it is done twice",
        ((step, "read_back", _nothing),),
        script=(("fetch_started", LOST_AFTER),),
    ),
}
"""Every planted fault, by name."""


@contextmanager
def planted(name):
    """Plant one fault for the time of the context; no name plants none."""
    with ExitStack() as stack:
        for where, attribute, instead in MUTANTS[name].patches if name else ():
            stack.enter_context(mock.patch.object(where, attribute, instead))
        yield
