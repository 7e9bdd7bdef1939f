"""What is done next, over every state and every field that matters (L4, P5, C9, I1, X2, X4)."""

import itertools
from dataclasses import replace
from datetime import timedelta

import pytest

from operations import plan
from operations.machine import FINAL, Delivery, Reason, State
from operations.plan import CANCEL_GRACE, Deed, Means, next_deed
from tests.model.notebook import NOON, first_page

NONE = Means(can_look_up=False, replays=False, key_window=timedelta(0))
BY_LIST = Means(can_look_up=True, replays=False, key_window=timedelta(0))
BY_KEY = Means(can_look_up=True, replays=True, key_window=timedelta(hours=1))
REPEATS = replace(NONE, repeats_answers=True)
OPEN = sorted(set(State) - FINAL)
WAITING = sorted(set(OPEN) - {State.TERMINAL_OBSERVED, State.FETCHING_RESULT, State.UNKNOWN})


def row(state, **fields):
    return replace(first_page().row, state=state, **fields)


def deed(state, means=NONE, *, now=NOON, **fields):
    return next_deed(row(state, **fields), means, now=now)


TABLE = [
    (State.SUBMITTING, {}, NONE, Deed.SUBMIT),
    (State.SUBMITTING, {"cancel_intent": True}, NONE, Deed.CLOSE_UNSENT),
    (State.SUBMITTING, {"sends": 1}, NONE, Deed.DECLARE_LOST),
    (State.SUBMITTING, {"sends": 1, "cancel_intent": True}, NONE, Deed.DECLARE_LOST),
    (State.SUBMITTING, {"sends": 1, "sends_disproved": 1}, NONE, Deed.SUBMIT),
    (State.SUBMITTING, {"sends": 1, "task_id": "t"}, NONE, Deed.LOOK),
    (State.SUBMISSION_UNKNOWN, {"sends": 1}, NONE, Deed.NO_LOOKUP),
    (State.SUBMISSION_UNKNOWN, {"sends": 1}, BY_LIST, Deed.FIND),
    (State.SUBMISSION_UNKNOWN, {"sends": 1, "task_id": "t"}, NONE, Deed.LOOK),
    (State.NOT_FOUND_SAFE, {"sends": 1, "sends_disproved": 1}, NONE, Deed.WAIT),
    (State.NOT_FOUND_SAFE, {"reason": Reason.PROVED_ABSENT}, BY_LIST, Deed.WAIT),
    (State.NOT_FOUND_SAFE, {"reason": Reason.PROVED_ABSENT, "first_sent_at": NOON}, BY_KEY, Deed.RESUBMIT),
    (State.NOT_FOUND_SAFE, {"reason": Reason.ADMIN_REFUSAL, "first_sent_at": NOON}, BY_KEY, Deed.WAIT),
    (State.NOT_FOUND_SAFE, {"cancel_intent": True}, BY_KEY, Deed.CLOSE_UNSENT),
    (State.NOT_FOUND_SAFE, {"task_id": "t"}, NONE, Deed.LOOK),
    (State.WORKING, {"task_id": "t"}, NONE, Deed.LOOK),
    (State.INPUT_REQUIRED, {"task_id": "t", "round_open": True}, NONE, Deed.LOOK),
    (State.INPUT_REQUIRED, {"task_id": "t", "answer_delivery": Delivery.STORED}, NONE, Deed.DELIVER),
    (State.INPUT_REQUIRED, {"task_id": "t", "answer_delivery": Delivery.UNCERTAIN}, NONE, Deed.LOOK),
    (State.INPUT_REQUIRED, {"task_id": "t", "answer_delivery": Delivery.UNCERTAIN}, REPEATS, Deed.DELIVER),
    (State.INPUT_REQUIRED, {"task_id": "t", "answer_delivery": Delivery.SENT}, REPEATS, Deed.LOOK),
    (State.INPUT_REQUIRED, {"task_id": "t", "round_open": True, "round_deadline_at": NOON}, NONE, Deed.EXPIRE_ROUND),
    (State.CANCEL_REQUESTED, {"task_id": "t"}, NONE, Deed.CANCEL),
    (State.TERMINAL_OBSERVED, {"task_id": "t"}, NONE, Deed.FETCH),
    (State.TERMINAL_OBSERVED, {"result_digest": "d"}, NONE, Deed.ACCEPT),
    (State.FETCHING_RESULT, {"fetches": plan.MAX_FETCHES - 1}, NONE, Deed.FETCH),
    (State.FETCHING_RESULT, {"fetches": plan.MAX_FETCHES}, NONE, Deed.GIVE_UP_FETCHING),
    (State.FETCHING_RESULT, {"fetches": plan.MAX_FETCHES, "result_digest": "d"}, NONE, Deed.ACCEPT),
    (State.UNKNOWN, {"task_id": "t"}, NONE, Deed.LOOK),
    (State.UNKNOWN, {"sends": 1, "reason": Reason.SUBMIT_LOST}, NONE, Deed.WAIT),
    (State.UNKNOWN, {"sends": 1, "reason": Reason.SUBMIT_LOST}, BY_LIST, Deed.FIND),
    (State.UNKNOWN, {"sends": 1, "reason": Reason.BUDGET_ENDED}, BY_LIST, Deed.FIND),
    (State.UNKNOWN, {"sends": 1, "reason": Reason.ID_CLASH}, BY_LIST, Deed.WAIT),
    (State.UNKNOWN, {"reason": Reason.BUDGET_ENDED}, BY_LIST, Deed.WAIT),
    (State.CANCELLED_ACCEPTED, {"task_id": "t"}, NONE, Deed.AUDIT),
    (State.CANCELLED_ACCEPTED, {}, NONE, Deed.WAIT),
    (State.ACCEPTED, {"task_id": "t"}, NONE, Deed.WAIT),
]


@pytest.mark.parametrize("state, fields, means, expected", TABLE)
def test_each_standing_has_its_deed(state, fields, means, expected):
    assert deed(state, means, **fields) is expected


def test_every_state_and_every_combination_has_a_deed_and_a_second_submit_is_none_of_them():
    sends, tasks, intents = ((0, 0), (1, 0), (1, 1)), (None, "t"), (False, True)
    hours, digests = (NOON, NOON + timedelta(hours=9)), (None, "d")
    combinations = itertools.product(State, sends, tasks, intents, hours, digests, (NONE, BY_LIST, BY_KEY))

    for state, (sent, disproved), task_id, intent, now, digest, means in combinations:
        fields = {"sends": sent, "sends_disproved": disproved, "task_id": task_id, "cancel_intent": intent}
        found = deed(state, means, now=now, result_digest=digest, **fields)

        assert isinstance(found, Deed)
        if found in {Deed.SUBMIT, Deed.RESUBMIT}:
            assert sent == disproved
            assert task_id is None
            assert not intent
        if found is Deed.CLOSE_UNSENT and state is State.SUBMITTING:
            assert sent == disproved
        if found is Deed.ACCEPT:
            assert digest is not None


@pytest.mark.parametrize("state", WAITING)
def test_p5_at_the_end_of_the_budget_every_waiting_state_ends_its_waiting(state):
    ends = first_page().row.budget_ends_at

    assert deed(state, now=ends, task_id="t") is Deed.END_WAITING
    assert deed(state, now=ends - timedelta(microseconds=1), task_id="t") is not Deed.END_WAITING


def test_c9_a_cancel_pressed_at_the_end_has_its_grace():
    ends = first_page().row.budget_ends_at
    pressed = {"task_id": "t", "cancel_requested_at": ends}

    assert deed(State.CANCEL_REQUESTED, now=ends, **pressed) is Deed.CANCEL
    assert deed(State.CANCEL_REQUESTED, now=ends + CANCEL_GRACE, **pressed) is Deed.END_WAITING


def test_x2_a_key_is_relied_on_inside_its_window_with_a_margin_only():
    sent = {"sends": 1, "first_sent_at": NOON}
    margin = plan.KEY_WINDOW_USED * BY_KEY.key_window

    assert deed(State.SUBMISSION_UNKNOWN, BY_KEY, now=NOON + margin - timedelta(seconds=1), **sent) is Deed.FIND
    assert deed(State.SUBMISSION_UNKNOWN, BY_KEY, now=NOON + margin, **sent) is Deed.NO_LOOKUP


@pytest.mark.parametrize(
    "fields, stated",
    [
        ({"cancel_requested_at": NOON - plan.CANCEL_PATIENCE}, True),
        ({"cancel_requested_at": NOON - plan.CANCEL_PATIENCE + timedelta(seconds=1)}, False),
        ({"cancel_requested_at": NOON - plan.CANCEL_PATIENCE, "cancel_stated": True}, False),
        ({"cancel_requested_at": None}, False),
    ],
)
def test_c12_a_cancel_is_stated_once_when_its_time_is_over(fields, stated):
    assert plan.is_unconfirmed(row(State.CANCEL_REQUESTED, **fields), now=NOON) is stated
