"""Whatever becomes of each send, and whenever it is heard: one at a time may be out (L4, A5, P6, X2, C9).

A second machine beside `test_ledger_stateful`. Here each submit permit has a fate that the ledger does not know: its
send made a task, was answered by a question before there is a task, or made nothing. Holders that were overtaken
tell it late and twice; lookups and people say only what is true of all the fates together.
"""

import uuid
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from adapters.contract import NeedsInput
from operations import ledger
from operations.ledger.step import LedgerError
from operations.machine import FINAL, Event, Reason, State, StepError, Ticket
from operations.verdicts import Verdict
from tests.operations.room import Room, breaches, fence_off, question, seen

MADE, ASKED, NOTHING = "made a task", "asked before a task", "made nothing"
WHICH = st.integers(min_value=0, max_value=5)


@dataclass
class Send:
    """One permitted submit. `fate` stays None until something depends on it."""

    permit: uuid.UUID
    ticket: Ticket
    fate: str | None = None


class Sends(RuleBasedStateMachine):
    """One operation of a server that can be asked by key and honours none (class B)."""

    @initialize()
    def begin(self):
        self.room = Room(effect="EXTERNAL")
        self.operation = self.room.submit()
        self.ticket = self.room.ticket(self.operation)
        self.sends, self.questions = [], 0

    def teardown(self):
        if hasattr(self, "room"):
            self.room.close()

    def _try(self, function, **named):
        """Run a step under the ticket in hand; True when it was taken."""
        try:
            function(self.operation, **({"ticket": self.ticket, "now": self.room.now} | named))
        except (StepError, LedgerError):
            return False
        return True

    @property
    def row(self):
        return self.room.row(self.operation)

    @rule(raises=st.booleans())
    def claim(self, raises):
        if raises and self.room.due(self.operation):
            self.room.claims(self.operation)
        self.ticket = self.room.ticket(self.operation)

    @rule()
    def leave(self):
        """Ask for leave to send; it is given only while no send may be out."""
        permit, may_be_out = uuid.uuid4(), [one for one in self.sends if one.fate not in {NOTHING, ASKED}]
        if self._try(ledger.permit_submit, permit=permit, as_task=True):
            self.sends.append(Send(permit, self.ticket))
            assert not may_be_out, "a second submit while the first may have made a task"

    @precondition(lambda self: self.sends)
    @rule(which=WHICH, fate=st.sampled_from([MADE, ASKED, NOTHING]))
    def news(self, which, fate):
        """A holder tells what became of its send, under the ticket it set out with."""
        send = self.sends[which % len(self.sends)]
        send.fate = send.fate or fate
        self._tell(send)

    def _tell(self, send):
        named = {"permit": send.permit, "ticket": send.ticket, "next_at": self.room.later()}
        if send.fate == NOTHING:
            self._try(ledger.submit_not_sent, why="no connection", misses=1, **named)
            return
        number = self.sends.index(send)
        task_id = f"task-of-{self.operation}" + (f"-{number}" if number else "")
        observed = self.room.working(self.operation, task_id=task_id) if send.fate == MADE else self._question()
        self._try(ledger.submit_answered, seen=observed, **named)

    def _question(self):
        self.questions += 1
        return NeedsInput(task=None, questions=(question(f"Which {self.questions}?"),), exchanges=seen())

    @rule()
    def lost(self):
        self._try(ledger.submit_lost, why="its holder is gone")

    @precondition(lambda self: all(one.fate != MADE for one in self.sends))
    @rule()
    def not_there(self):
        """A lookup, after the quarantine: what has made no task by now never will."""
        named = {"reason": Reason.PROVED_ABSENT, "why": "not there", "next_at": self.room.later()}
        if self.row.state is State.SUBMISSION_UNKNOWN and self._try(ledger.nothing_created, **named):
            for one in self.sends:
                one.fate = one.fate or NOTHING

    @rule()
    def to_a_person(self):
        named = {"event": Event.NO_LOOKUP, "reason": Reason.SUBMIT_LOST, "next_at": self.room.later()}
        self._try(ledger.hand_to_person, **named)

    @rule(verdict=st.sampled_from([Verdict.RESUBMIT, Verdict.RESUBMIT, Verdict.GAVE_UP, Verdict.NEVER_CREATED]))
    def ordered(self, verdict):
        told = {"seen_version": self.row.version, "by": "person:olga", "reason": "it says so", "now": self.room.now}
        try:
            judged = ledger.judge(self.operation, verdict, **told)
            if judged.proposal:
                ledger.confirm(judged.proposal, by="person:otto", now=self.room.now)
        except (StepError, LedgerError):
            return
        if verdict is Verdict.NEVER_CREATED:
            assert all(one.fate == NOTHING for one in self.sends), "called never created, but it was"

    @rule()
    def pressed(self):
        try:
            self.room.press(self.operation)
        except StepError:
            return

    @rule()
    def closed(self):
        if self._try(ledger.close_unsent):
            assert all(one.fate in {NOTHING, ASKED} for one in self.sends), "closed as never sent, but it was"

    @precondition(lambda self: self.row.round_open)
    @rule()
    def answered(self):
        try:
            self.room.answer(self.operation)
        except StepError:
            return

    @rule()
    def goes_on(self):
        self._try(ledger.go_on)

    @rule()
    def looked(self):
        if self.row.task_id:
            observed = self.room.working(self.operation, task_id=self.row.task_id)
            self._try(ledger.saw, seen=observed, next_at=self.room.later())

    @rule()
    def roll_back(self):
        fence_off()

    @invariant()
    def every_invariant_holds(self):
        if hasattr(self, "operation"):
            assert breaches(self.operation) == []

    @invariant()
    def nothing_counts_as_unsent_that_may_be_out(self):
        if hasattr(self, "operation") and self.row.nothing_sent and self.row.state not in FINAL:
            assert all(one.fate in {NOTHING, ASKED} for one in self.sends)


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("examples, steps", [(25, 25), pytest.param(500, 50, marks=pytest.mark.long)])
def test_however_late_its_fate_is_heard_one_send_at_a_time_is_out(examples, steps):
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    run_state_machine_as_test(
        Sends,
        settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=quiet),
    )
