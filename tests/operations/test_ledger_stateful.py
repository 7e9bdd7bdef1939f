"""Any order of ledger calls, from two connections, under fresh and old tickets, keeps every invariant (A1-A6, L5)."""

import uuid
from functools import partial

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from operations import ledger
from operations.ledger.step import LedgerError
from operations.machine import Delivery, Event, Reason, StepError
from operations.verdicts import Verdict
from tests.operations.room import Room, breaches, fence_off, result, seen, together

LOOKS = st.sampled_from(["working", "asking", "ended", "absent"])
WHO = st.booleans()
RIVALS = st.sampled_from(
    ["leaves", "asks_again", "is_lost", "presses", "answers", "delivers", "works", "ends", "runs_out", "is_closed"]
)


class Ledger(RuleBasedStateMachine):
    """One operation. `_try` runs a step under the ticket in hand, here or on another connection."""

    @initialize()
    def begin(self):
        self.room = Room(effect="EXTERNAL")
        self.operation = self.room.submit()
        self.ticket = self.room.ticket(self.operation)
        self.permits = [uuid.uuid4()]

    def teardown(self):
        if hasattr(self, "room"):
            self.room.close()

    def _try(self, elsewhere, function, **named):
        def step():
            return function(self.operation, ticket=self.ticket, now=self.room.now, **named)

        (came,) = together(step) if elsewhere else (_caught(step),)
        assert came is None or not isinstance(came, Exception) or isinstance(came, StepError | LedgerError), came

    @rule(raises=st.booleans())
    def claim(self, raises):
        if raises and self.room.due(self.operation):
            self.room.claims(self.operation)
        self.ticket = self.room.ticket(self.operation)

    @rule(elsewhere=WHO)
    def permit(self, elsewhere):
        self.permits.append(uuid.uuid4())
        self._try(elsewhere, ledger.permit_submit, permit=self.permits[-1], as_task=True)

    @rule(elsewhere=WHO, which=st.sampled_from([0, -1]))
    def not_sent(self, elsewhere, which):
        if self.room.permits(self.operation):
            named = {"permit": self.room.permits(self.operation)[which].id, "why": "", "misses": 1}
            self._try(elsewhere, ledger.submit_not_sent, next_at=self.room.later(), **named)

    @rule(elsewhere=WHO, look=st.sampled_from(["working", "asking", "ended"]))
    def answered(self, elsewhere, look):
        if self.room.permits(self.operation):
            observed = getattr(self.room, look)(self.operation)
            named = {"permit": self.permits[-1], "seen": observed, "next_at": self.room.later()}
            self._try(elsewhere, ledger.submit_answered, **named)

    @rule(elsewhere=WHO)
    def lost(self, elsewhere):
        self._try(elsewhere, ledger.submit_lost, why="")

    @rule(elsewhere=WHO, look=LOOKS, status=st.sampled_from(["completed", "failed", "cancelled"]))
    def looked(self, elsewhere, look, status):
        if self.room.row(self.operation).task_id is None:
            return
        observed = (
            self.room.absent()
            if look == "absent"
            else self.room.ended(self.operation, status)
            if look == "ended"
            else getattr(self.room, look)(self.operation)
        )
        self._try(elsewhere, ledger.saw, seen=observed, next_at=self.room.later())

    @rule(elsewhere=WHO)
    def pressed(self, elsewhere):
        def press(operation, *, ticket, now):
            return self.room.press(operation)

        self._try(elsewhere, press)

    @rule(elsewhere=WHO)
    def answer(self, elsewhere):
        def answered(operation, *, ticket, now):
            return self.room.answer(operation)

        if self.room.round(self.operation):
            self._try(elsewhere, answered)

    @rule(elsewhere=WHO, delivery=st.sampled_from([Delivery.SENT, Delivery.UNCERTAIN, Delivery.STORED]))
    def deliver(self, elsewhere, delivery):
        permit = uuid.uuid4()
        self._try(elsewhere, ledger.permit_answer, permit=permit)
        if self.room.row(self.operation).answer_delivery is Delivery.PERMITTED:
            named = {"permit": permit, "delivery": delivery, "why": "", "next_at": self.room.later()}
            self._try(elsewhere, ledger.answer_settled, **named)

    @rule(elsewhere=WHO, won=st.booleans())
    def cancel(self, elsewhere, won):
        permit = uuid.uuid4()
        self._try(elsewhere, ledger.permit_cancel, permit=permit)
        if won and permit in {one.id for one in self.room.permits(self.operation)}:
            self._try(elsewhere, ledger.cancel_won, permit=permit, exchanges=seen())

    @rule(elsewhere=WHO)
    def fetch(self, elsewhere):
        self._try(elsewhere, ledger.fetch_started)
        row = self.room.row(self.operation)
        if row.state.value == "FETCHING_RESULT":
            self._try(elsewhere, ledger.result_fetched, result=result())
            self._try(elsewhere, ledger.accept_result, facts=ledger.Facts.held_by(self.room.row(self.operation)))

    @rule(elsewhere=WHO)
    def give_out(self, elsewhere):
        named = {"event": Event.BUDGET_ENDED, "reason": Reason.BUDGET_ENDED, "next_at": self.room.later()}
        self._try(elsewhere, ledger.hand_to_person, **named)

    @rule(first=RIVALS, second=RIVALS)
    def at_once(self, first, second):
        """Two connections set out at the same moment under the same ticket: the row's lock decides."""
        came = together(
            *(partial(getattr(self, f"_{name}"), self.room.ticket(self.operation)) for name in (first, second))
        )

        for one in came:
            assert not isinstance(one, Exception) or isinstance(one, StepError | LedgerError), one

    def _step(self, ticket, function, **named):
        return function(self.operation, ticket=ticket, now=self.room.now, **named)

    def _leaves(self, ticket):
        self._step(ticket, ledger.permit_submit, permit=uuid.uuid4(), as_task=True)

    def _asks_again(self, ticket):
        self._step(ticket, ledger.permit_replay, permit=uuid.uuid4())

    def _is_lost(self, ticket):
        self._step(ticket, ledger.submit_lost, why="")

    def _presses(self, _ticket):
        self.room.press(self.operation)

    def _answers(self, _ticket):
        if self.room.round(self.operation):
            self.room.answer(self.operation)

    def _delivers(self, ticket):
        self._step(ticket, ledger.permit_answer, permit=uuid.uuid4())

    def _works(self, ticket):
        if self.room.row(self.operation).task_id:
            self._step(ticket, ledger.saw, seen=self.room.working(self.operation), next_at=self.room.later())

    def _ends(self, ticket):
        if self.room.row(self.operation).task_id:
            self._step(ticket, ledger.saw, seen=self.room.ended(self.operation), next_at=self.room.later())

    def _runs_out(self, ticket):
        named = {"event": Event.BUDGET_ENDED, "reason": Reason.BUDGET_ENDED, "next_at": self.room.later()}
        self._step(ticket, ledger.hand_to_person, **named)

    def _is_closed(self, _ticket):
        version = self.room.row(self.operation).version
        told = {"seen_version": version, "by": "person:olga", "reason": "nobody knows"}
        ledger.judge(self.operation, Verdict.GAVE_UP, now=self.room.now, **told)

    @rule(elsewhere=WHO)
    def replay(self, elsewhere):
        self._try(elsewhere, ledger.permit_replay, permit=uuid.uuid4())

    @rule(elsewhere=WHO, which=st.sampled_from([0, -1]), proves=st.sampled_from(["lost", "not_sent", "disproved"]))
    def replayed(self, elsewhere, which, proves):
        replays = [one.id for one in self.room.permits(self.operation) if one.kind == "REPLAY"]
        if replays:
            named = {"settlement": proves, "why": "", "misses": 1, "next_at": self.room.later()}
            self._try(elsewhere, ledger.replay_failed, permit=replays[which], **named)

    @rule()
    def roll_back(self):
        fence_off()

    @invariant()
    def every_invariant_holds(self):
        if hasattr(self, "operation"):
            assert breaches(self.operation) == []


def _caught(step):
    try:
        return step()
    except (StepError, LedgerError) as error:
        return error


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("examples, steps", [(25, 25), pytest.param(500, 50, marks=pytest.mark.long)])
def test_any_order_of_calls_keeps_every_invariant(examples, steps):
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large]
    run_state_machine_as_test(
        Ledger,
        settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=quiet),
    )
