"""Every interleaving up to small bounds: nothing wrong is reached, a receipt or a person always is (A1-A6)."""

import gc
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import pytest

from operations import machine, plan
from operations.ledger import acceptance, permits, submission
from operations.machine import State
from operations.plan import Deed
from tests.model.explore import Bounds, Explorer

STATES = 150_000
NOTHING = Bounds(rounds=0, presses=0, rollbacks=0, deaths=0, losses=0, doubles=0, vanishes=0, hours=0)

WHOLE = {
    "a press": replace(NOTHING, presses=1),
    "a rollback and a loss, where lost submits can be looked up": replace(NOTHING, lookup=True, rollbacks=1, losses=1),
    "an end that flips, a task that vanishes, and a press": replace(NOTHING, presses=1, flips=1, vanishes=1),
    "a lost submit that people order to be sent again": replace(NOTHING, lookup=True, losses=1, orders=1),
}
"""Explored to the last state, so that being stuck would be seen too."""
PARTS = {
    "everything": (Bounds(), 25_000),
    "everything, where lost submits can be looked up": (Bounds(lookup=True), 25_000),
    "two rounds and a double": (replace(NOTHING, rounds=2, doubles=1, losses=1), 15_000),
    "a round, a press and the hours": (replace(NOTHING, rounds=1, presses=1, hours=3), 15_000),
}


@pytest.fixture(scope="module", autouse=True)
def _few_fetches():
    """Two fetches in vain are as good as six, and far fewer states."""
    with patch.object(plan, "MAX_FETCHES", 2):
        yield


@pytest.fixture(scope="module")
def explored(_few_fetches):
    gc.disable()  # nothing here goes in circles, and looking for circles takes half of the time
    found = {name: Explorer(bounds).run(limit=STATES) for name, bounds in WHOLE.items()}
    found |= {name: Explorer(bounds).run(limit=limit) for name, (bounds, limit) in PARTS.items()}
    gc.enable()
    return found


@pytest.mark.parametrize("name", [*WHOLE, *PARTS])
def test_nothing_wrong_is_reached(explored, name):
    found = explored[name]

    assert not found.wrong, "\n - ".join([found.wrong, *found.trace])


@pytest.mark.parametrize("name", WHOLE)
def test_a6_from_everywhere_there_is_a_fair_way_to_a_receipt_or_a_person(explored, name):
    assert explored[name].complete


def test_enough_of_it_was_seen(explored):
    states = {state for found in explored.values() for state in found.reached}
    deeds = {deed for found in explored.values() for deed in found.deeds}

    assert sum(found.states for found in explored.values()) >= STATES
    assert states == set(State) - {State.REFUSED, State.RECONCILED}  # a refusal and a verdict need no race
    assert deeds >= set(Deed) - {Deed.RESUBMIT, Deed.GO_ON}  # this contract neither replays nor asks before a task
    assert {"SUCCESS", "TOOL_ERROR", "CANCELLED: never sent", "CANCELLED: asked by us"} <= {
        outcome for found in explored.values() for outcome in found.outcomes
    }


def _given_freely(module):
    give = module.give
    return patch.object(
        module, "give", lambda planned, permit, kind, allowed: give(planned, permit, kind, allowed=True)
    )


@contextmanager
def _sent_again():
    with patch.dict(plan._DEEDS, {State.SUBMITTING: lambda *_: Deed.SUBMIT}), _given_freely(submission):
        yield


PLANTED = {
    "a submit that is out is sent again": (
        _sent_again,
        NOTHING,
        "second submit",
    ),
    "an id that comes late is dropped": (
        lambda: patch.object(submission, "_bind_late", lambda *_args, **_named: None),
        replace(NOTHING, rollbacks=1),
        "A4",
    ),
    "whatever was sent counts as unsent": (
        lambda: patch.object(machine.Standing, "nothing_sent", property(lambda _row: True)),
        replace(NOTHING, presses=1),
        "",
    ),
    "no effect record is opened": (
        lambda: patch.object(acceptance, "open_effect", lambda *_args, **_named: None),
        replace(NOTHING, presses=1),
        "C6",
    ),
    "a send that is proved to have made nothing can be proved so again": (
        lambda: patch.object(submission, "account_for", lambda planned, word: permits.settle(planned, None, word)),
        replace(NOTHING, lookup=True, losses=1, orders=1),
        "L4",
    ),
    "nobody ends the waiting": (
        lambda: patch.dict(plan._DEEDS, {State.SUBMISSION_UNKNOWN: lambda *_: Deed.WAIT}),
        replace(NOTHING, losses=1),
        "A6",
    ),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_the_exploration_can_fail(fault):
    """A fault that is planted is found, and its shortest trace is told in words."""
    planted, bounds, words = PLANTED[fault]

    with planted():
        found = Explorer(bounds).run(limit=60_000)

    assert words in found.wrong
    assert found.wrong
    assert found.trace
    assert all(isinstance(move, str) for move in found.trace)
