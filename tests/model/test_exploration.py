"""Every interleaving up to small bounds: nothing wrong is reached, a receipt or a person always is (A1-A6)."""

from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import pytest

from operations import machine, plan
from operations.ledger import acceptance, permits, submission
from operations.machine import State
from operations.plan import Deed
from tests.model import worlds
from tests.model.explore import Explorer
from tests.model.worlds import NOTHING, PARTS, STATES, WHOLE


@pytest.fixture(scope="module", autouse=True)
def _quickly():
    with worlds.quickly():
        yield


@pytest.fixture(scope="module")
def explored(_quickly):
    found = {name: Explorer(bounds).run(limit=STATES) for name, bounds in WHOLE.items()}
    return found | {name: Explorer(bounds).run(limit=limit) for name, (bounds, limit) in PARTS.items()}


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


class TestCommand:
    """`manage.py explore`: the same, as far as somebody wants to wait for."""

    @pytest.fixture(autouse=True)
    def _small(self, monkeypatch):
        monkeypatch.setattr(worlds, "WHOLE", {"a press": WHOLE["a press"]})
        monkeypatch.setattr(worlds, "PARTS", {"everything": PARTS["everything"]})

    def test_it_goes_on_to_as_many_states_as_were_asked_for(self):
        told = []

        assert worlds.explore(states=8000, tell=told.append) == 0
        assert told[0].startswith("a press: 6")
        assert "all of it, and a fair way out of each" in told[0]
        assert "so far" in told[1]
        assert 8000 <= int(told[-1].split()[0]) < 8100

    def test_what_goes_wrong_is_told_in_words_and_fails_it(self):
        told = []

        with patch.object(submission, "_bind_late", lambda *_args, **_named: None):
            assert worlds.explore(states=30_000, tell=told.append) == 1

        assert any("A4: a task id that came back was lost" in one and "\n - " in one for one in told)
