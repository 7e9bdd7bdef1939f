"""The table of L5, written out a second time, and everything that is made from it."""

import itertools
import re
from dataclasses import replace
from pathlib import Path

import pytest
from django.db import IntegrityError, connection, transaction

from operations import machine, refusals
from operations.machine import FINAL, FINAL_OUTCOMES, TRANSITIONS, Event, IllegalStep, Outcome, StaleStep, State
from operations.models import Operation, Receipt

# L5 as it stands in the contract, line by line: from, to, on.
L5 = """
SUBMITTING          WORKING             TASK_NAMED
SUBMITTING          INPUT_REQUIRED      ASKED
SUBMITTING          TERMINAL_OBSERVED   ENDED
SUBMITTING          SUBMISSION_UNKNOWN  ANSWER_LOST
SUBMITTING          NOT_FOUND_SAFE      NOTHING_CREATED
SUBMITTING          REFUSED             REQUEST_REFUSED
SUBMITTING          CANCELLED_ACCEPTED  CANCEL_WON
SUBMITTING          UNKNOWN             BUDGET_ENDED ID_CLASH
SUBMISSION_UNKNOWN  WORKING             TASK_NAMED
SUBMISSION_UNKNOWN  INPUT_REQUIRED      ASKED
SUBMISSION_UNKNOWN  TERMINAL_OBSERVED   ENDED
SUBMISSION_UNKNOWN  CANCEL_REQUESTED    CANCEL_DUE
SUBMISSION_UNKNOWN  NOT_FOUND_SAFE      NOTHING_CREATED
SUBMISSION_UNKNOWN  UNKNOWN             NO_LOOKUP BUDGET_ENDED ID_CLASH
NOT_FOUND_SAFE      SUBMITTING          RESUBMIT
NOT_FOUND_SAFE      WORKING             TASK_NAMED
NOT_FOUND_SAFE      CANCEL_REQUESTED    CANCEL_DUE
NOT_FOUND_SAFE      CANCELLED_ACCEPTED  CANCEL_WON
NOT_FOUND_SAFE      RECONCILED          VERDICT
NOT_FOUND_SAFE      UNKNOWN             BUDGET_ENDED ID_CLASH
WORKING             INPUT_REQUIRED      ASKED
WORKING             TERMINAL_OBSERVED   ENDED
WORKING             CANCEL_REQUESTED    CANCEL_PRESSED CANCEL_DUE
WORKING             UNKNOWN             BUDGET_ENDED NOT_FOUND ID_CLASH
INPUT_REQUIRED      WORKING             RESUMED
INPUT_REQUIRED      TERMINAL_OBSERVED   ENDED
INPUT_REQUIRED      CANCEL_REQUESTED    CANCEL_PRESSED CANCEL_DUE
INPUT_REQUIRED      UNKNOWN             BUDGET_ENDED NOT_FOUND ID_CLASH
INPUT_REQUIRED      SUBMITTING          CONTINUE
INPUT_REQUIRED      CANCELLED_ACCEPTED  CANCEL_WON
CANCEL_REQUESTED    CANCELLED_ACCEPTED  CANCEL_WON
CANCEL_REQUESTED    TERMINAL_OBSERVED   ENDED
CANCEL_REQUESTED    UNKNOWN             BUDGET_ENDED NOT_FOUND ID_CLASH
TERMINAL_OBSERVED   FETCHING_RESULT     FETCH_STARTED
TERMINAL_OBSERVED   CANCELLED_ACCEPTED  CANCEL_WON
TERMINAL_OBSERVED   UNKNOWN             CONTRADICTED ID_CLASH BUDGET_ENDED
FETCHING_RESULT     ACCEPTED            RESULT_ACCEPTED
FETCHING_RESULT     UNKNOWN             RESULT_UNUSABLE CONTRADICTED NOT_FOUND ID_CLASH BUDGET_ENDED
UNKNOWN             WORKING             TASK_NAMED
UNKNOWN             INPUT_REQUIRED      ASKED
UNKNOWN             CANCEL_REQUESTED    CANCEL_DUE
UNKNOWN             TERMINAL_OBSERVED   ENDED
UNKNOWN             NOT_FOUND_SAFE      NOTHING_CREATED
UNKNOWN             RECONCILED          VERDICT
"""
STEPS = {
    (State(source), Event(event), State(target))
    for source, target, *events in (line.split() for line in L5.split("\n") if line)
    for event in events
}
LEGAL_PAIRS = {(source, target) for source, _, target in STEPS}


def test_l5_the_table_is_the_contracts():
    assert set(machine.edges()) == STEPS


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_l5_each_event_leads_where_the_contract_says_or_nowhere(state, event):
    target = next((to for source, on, to in STEPS if (source, on) == (state, event)), None)

    if target is not None:
        assert machine.step(state, event) is target
    else:
        with pytest.raises(IllegalStep) as refused:
            machine.step(state, event)
        assert (refused.value.state, refused.value.event) == (state, event)


def test_l5_every_event_and_every_state_but_the_first_is_reached_by_some_step():
    assert {event for _, event, _ in STEPS} == set(Event)
    assert {target for _, _, target in STEPS} == set(State)


def test_l5_a_final_state_has_no_way_out_and_every_other_has():
    assert {State.ACCEPTED, State.CANCELLED_ACCEPTED, State.REFUSED, State.RECONCILED} == FINAL
    assert all(not TRANSITIONS[state] for state in FINAL)
    assert all(TRANSITIONS[state] for state in set(State) - FINAL)


def test_a6_a_final_state_can_be_reached_from_everywhere():
    reaching = set(FINAL)
    for _ in State:
        reaching |= {source for source, _, target in STEPS if target in reaching}

    assert reaching == set(State)


def test_a6_from_every_open_state_a_person_can_be_reached():
    for state in set(State) - FINAL - {State.UNKNOWN}:
        assert State.UNKNOWN in TRANSITIONS[state].values(), state


def test_r3_each_final_state_has_its_outcomes_and_no_outcome_two_states():
    assert set(FINAL_OUTCOMES) == FINAL
    said = [outcome for outcomes in FINAL_OUTCOMES.values() for outcome in outcomes]
    assert sorted(said) == sorted(Outcome)


class TestCheckTicket:
    @pytest.fixture
    def standing(self, room):
        operation = room.at(State.INPUT_REQUIRED)
        room.claims(operation)
        return room.row(operation)

    def test_a_ticket_that_fits_passes(self, standing):
        machine.check_ticket(standing, machine.Ticket(epoch=standing.epoch, cancel_generation=0, round=1, look=1))

    @pytest.mark.parametrize(
        ("moved", "fence"),
        [
            ({"epoch": 1000}, "execution epoch"),
            ({"cancel_generation": 1}, "cancel generation"),
            ({"round": 2}, "input round"),
            ({"look": 2}, "look number"),
        ],
    )
    def test_p6_each_fence_alone_makes_it_stale(self, standing, moved, fence):
        ticket = machine.Ticket(epoch=standing.epoch, cancel_generation=0, round=1, look=1)

        with pytest.raises(StaleStep) as stale:
            machine.check_ticket(replace(standing, **moved), ticket)

        assert stale.value.fence == fence
        assert stale.value.now == next(iter(moved.values()))

    @pytest.mark.parametrize("field", ["epoch", "cancel_generation", "round"])
    def test_a_ticket_from_the_future_is_as_stale(self, standing, field):
        held = {"epoch": standing.epoch, "cancel_generation": 0, "round": 1, "look": 1}

        with pytest.raises(StaleStep):
            machine.check_ticket(standing, machine.Ticket(**(held | {field: held[field] + 1})))


def _may_go(operation, target):
    try:
        with transaction.atomic():
            Operation.objects.filter(id=operation).update(state=target)
            transaction.set_rollback(True)
    except IntegrityError as error:
        if "no legal step from" not in str(error):
            raise
        return False
    return True


class TestTheDatabase:
    """L5: the database refuses what the table refuses."""

    def test_its_trigger_lets_exactly_the_contracts_pairs_through(self, room):
        operations = {state: room.at(state) for state in State}

        pairs = itertools.permutations(State, 2)
        let_through = {(source, target) for source, target in pairs if _may_go(operations[source], target)}

        assert let_through == LEGAL_PAIRS

    def test_its_function_holds_the_pairs_that_the_table_makes_now(self, committed):
        with connection.cursor() as cursor:
            cursor.execute("SELECT prosrc FROM pg_proc WHERE proname = 'guard_operation'")
            (source,) = cursor.fetchone()

        held = set(re.findall(r"'([A-Z_]+>[A-Z_]+)'", source))
        assert held == set(refusals.pairs())

    def test_the_choices_of_the_model_are_the_machines_words(self):
        assert [value for value, _ in Operation._meta.get_field("state").choices] == list(State)
        assert [value for value, _ in Receipt._meta.get_field("outcome").choices] == list(Outcome)


def test_the_machine_imports_nothing_that_reads_a_clock_or_a_wire():
    source = Path(machine.__file__).read_text()

    imported = set(re.findall(r"^(?:from|import) (\w+)", source, re.MULTILINE))
    assert imported == {"__future__", "collections", "dataclasses", "datetime", "enum", "types"}
