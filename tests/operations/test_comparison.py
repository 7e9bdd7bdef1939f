"""What counts as a difference between an existing path and a release on trial, and what does not (O1)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as some

from operations.comparison import OUTCOMES, Difference, Seen, Told, compare, patience
from operations.machine import Outcome

NOON = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
TOLD = Told(outcome=Outcome.SUCCESS, ended_at=NOON, looks=10, result_digest="a" * 64)
SEEN = Seen(
    since=NOON - timedelta(minutes=5),
    status="completed",
    ended_at=NOON + SECOND,
    outcome=Outcome.SUCCESS,
    looks=10,
    result_digest="a" * 64,
    interval=SECOND,
    trouble="",
)
LATE = patience(SECOND)


def kinds(told=TOLD, **seen):
    return [one.kind for one in compare(told, replace(SEEN, **seen))]


def test_two_that_agree_do_not_differ():
    assert kinds() == []


@pytest.mark.parametrize(
    "seen, kind",
    [
        ({"outcome": Outcome.TOOL_ERROR}, Difference.OUTCOME),
        ({"outcome": None, "ended_at": None, "status": "working"}, Difference.OUTCOME),
        ({"outcome": None, "status": "completed", "trouble": "-32603: no result"}, Difference.OUTCOME),
        ({"result_digest": "b" * 64}, Difference.RESULT),
        ({"status": "", "outcome": None, "ended_at": None, "trouble": "-32602: unknown task"}, Difference.UNSEEN),
        ({"ended_at": NOON + LATE + SECOND}, Difference.TIMING),
        ({"ended_at": NOON - LATE - SECOND}, Difference.TIMING),
        ({"looks": 24}, Difference.LOOKS),
    ],
)
def test_each_difference_is_found_alone(seen, kind):
    assert kinds(**seen) == [kind]


@pytest.mark.parametrize(
    "seen",
    [
        {"ended_at": NOON + LATE},
        {"ended_at": NOON - LATE},
        {"looks": 23},
        {"looks": 1},
        {"since": NOON + timedelta(minutes=9), "ended_at": NOON + timedelta(minutes=9)},
    ],
    ids=["just in time", "just not early", "twice as often and a few", "seldom", "registered after the end"],
)
def test_what_has_an_innocent_reason_is_no_difference(seen):
    assert kinds(**seen) == []


def test_what_the_existing_path_does_not_say_is_not_compared():
    silent = Told(outcome=Outcome.SUCCESS, ended_at=NOON)

    assert kinds(silent, looks=500, result_digest="b" * 64) == []


def test_both_sides_stand_in_a_difference_in_their_own_words():
    [found] = compare(TOLD, replace(SEEN, outcome=None, status="completed", trouble="-32603: no result"))

    assert (found.told, found.seen) == ("SUCCESS", "completed: -32603: no result")


@given(some.sampled_from(OUTCOMES), some.sampled_from([*OUTCOMES, None]))
def test_another_outcome_is_always_found_and_the_same_never(told, seen):
    found = kinds(replace(TOLD, outcome=told), outcome=seen)

    assert (Difference.OUTCOME in found) == (seen is not told)
