"""Faults planted in the product on purpose: the harness must find each of them.

Each is a patch over the real code for the time of some runs; nothing of it is in the product.
`canary` fails in every run that makes an operation.
"""

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from unittest import mock

from adapters.contract import Ended, ProtocolStatus, ToolResult
from operations import driver, ledger, machine, plan
from operations.ledger import acceptance, cancel, claims, looks, rounds, step, submission
from operations.machine import FINAL, Reason, State, Ticket
from operations.plan import Deed


@dataclass(frozen=True)
class Mutant:
    """One planted fault: `patches` are (where, name, what stands there instead)."""

    clause: str
    what: str
    patches: tuple


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
_real_find = driver._Drive._find
_real_journal = step.Step._journal
_real_call = driver._Drive._call
_real_permit_answer = ledger.permit_answer
_real_close = rounds.close


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


def _answer_after_press(operation, *, permit, ticket, now):
    row = step.read([operation])[operation]
    fresh = Ticket(epoch=row.epoch, cancel_generation=row.cancel_generation, round=row.round, look=row.look)
    with mock.patch.object(rounds, "give", _give_always):
        return _real_permit_answer(operation, permit=permit, ticket=fresh, now=now)


def _completed_is_enough(a_step, seen, *, next_at):
    """Take the word `completed` for the result."""
    if isinstance(seen, Ended) and seen.status is ProtocolStatus.COMPLETED and seen.result is None:
        seen = replace(seen, result=_invented(seen))
    _real_observe(a_step, seen, next_at=next_at)


def _invented(seen):
    raw = b'{"content": [], "structuredContent": {"node": "nobody"}}'
    return ToolResult(raw=raw, value={}, is_error=False, task_id=seen.task.task_id if seen.task else None)


MUTANTS = {
    "canary": Mutant("L7", "the journal counts its versions wrongly", ((step.Step, "_journal", _journal_miscounts),)),
    "an older look overwrites": Mutant("P4", "no look number", ((step, "check_ticket", _checked_but("look")),)),
    "an old epoch decides": Mutant("F7", "no execution epoch", ((step, "check_ticket", _checked_but("epoch")),)),
    "an old generation decides": Mutant(
        "C1", "no cancel generation", ((step, "check_ticket", _checked_but("cancel_generation", "look")),)
    ),
    "no ticket at all": Mutant("P6", "nothing is checked", ((step, "check_ticket", _nothing),)),
    "no output guard": Mutant(
        "R2", "any result is accepted", ((acceptance.outputguard, "inspect", lambda *a, **k: ()),)
    ),
    "completed is enough": Mutant("A2", "success without a fetch", ((looks, "observe", _completed_is_enough),)),
    "a cancelled task goes on to its result": Mutant(
        "A3", "a won cancel is fetched like a completion", ((looks, "close_cancelled", _go_on_after_cancel),)
    ),
    "a new key for every send": Mutant("L4", "the submission key changes", ((driver._Drive, "_call", _new_key),)),
    "sent again without proof": Mutant(
        "A5",
        "a lost submit is sent again",
        ((plan, "_DEEDS", _deeds(SUBMITTING=_submit_whatever)), (submission, "give", _give_always)),
    ),
    "sent in spite of a cancel": Mutant(
        "C9",
        "a cancel intent does not stop the submit",
        ((plan, "_DEEDS", _deeds(SUBMITTING=_submit_in_spite)), (submission, "give", _give_always)),
    ),
    "no quarantine": Mutant("X2", "an early absence is proof", ((driver._Drive, "_find", _find_without_quarantine),)),
    "a submit without permit": Mutant("L4", "the permit is not written", ((ledger, "permit_submit", _nothing),)),
    "a cancel without permit": Mutant("L4", "the permit is not written", ((ledger, "permit_cancel", _nothing),)),
    "an answer without permit": Mutant("L4", "the permit is not written", ((ledger, "permit_answer", _nothing),)),
    "an answer after a cancel": Mutant(
        "C11", "the permit forgets the generation", ((ledger, "permit_answer", _answer_after_press),)
    ),
    "a cancel voids no answer": Mutant("C11", "rounds stay open", ((rounds, "void_answers", _nothing),)),
    "an answer is lost": Mutant(
        "I7", "a closed round says nothing of its answer", ((rounds, "close", _close_and_lose),)
    ),
    "an answered round reopens": Mutant("I4", "no replay is known", ((rounds, "is_replay", lambda *_a: False),)),
    "a cancel intent is forgotten": Mutant("C9", "nothing follows an intent", ((looks, "bind_intent", _nothing),)),
    "no effect record": Mutant("C6", "nothing is in doubt", ((acceptance, "_leaves_doubt", lambda *_a: False),)),
    "a late end is not recorded": Mutant("C4", "the audit opens nothing", ((looks, "open_effect", _nothing),)),
    "any acknowledgement ends a cancel": Mutant(
        "C5", "a cooperative cancel counts as won", ((driver._Drive, "_is_terminal", lambda *_a: True),)
    ),
    "a cancel after the end": Mutant("C10", "a press is taken too late", ((cancel, "FINISHED", FINAL),)),
    "absent after a cancel is cancelled": Mutant("C12", "a 404 wins", ((looks, "_absent", _absent_is_cancelled),)),
    "a clash is not seen": Mutant("P8", "no other owner is found", ((looks, "bound_elsewhere", _nothing),)),
    "the budget never ends": Mutant("P5", "nobody takes over", ((plan, "_WAITING", frozenset()),)),
    "a lease for ten days": Mutant("A6", "the dead keep their claims", ((claims, "LEASE", claims.LEASE * 28_800),)),
    "a lost commit is not read back": Mutant("R9", "it is done twice", ((step, "_read_back", _nothing),)),
    "a refusal proves nothing": Mutant(
        "L5",
        "a refused submit counts as lost and as absent",
        (
            (
                ledger,
                "refuse",
                lambda operation, *, ticket, now, **_k: ledger.submit_lost(
                    operation, why=Reason.REQUEST_REFUSED, ticket=ticket, now=now
                ),
            ),
        ),
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
