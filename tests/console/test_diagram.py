"""The state diagram and the manual: both are about the machine's table, and about all of it."""

import re

import pytest

from console import diagram, manual, words
from operations.machine import FINAL, TRANSITIONS, NotFound, Reason, State, edges
from operations.verdicts import Verdict


def test_every_state_has_its_place():
    assert set(diagram.PLACES) == set(State)


def test_no_two_states_stand_on_each_other():
    boxes = list(diagram.PLACES.values())

    for n, (x, y) in enumerate(boxes):
        for u, v in boxes[n + 1 :]:
            assert abs(x - u) >= 160 or abs(y - v) >= 40


def test_the_arrows_are_the_tables_steps_no_more_and_no_less():
    drawn = {(arrow.source, event, arrow.target) for arrow in diagram.arrows() for event in arrow.events}

    assert drawn == set(edges())


@pytest.mark.parametrize("state", list(State))
def test_what_can_follow_is_drawn_as_such(state):
    picture = diagram.svg(lit=state)

    assert picture.count('class="e next"') == len(set(TRANSITIONS[state].values()))
    assert re.search(rf'class="node lit[^"]*">.*?>{state}<', picture)


def test_the_way_taken_is_drawn_as_such():
    picture = diagram.svg(lit=State.WORKING, way=[State.SUBMITTING, State.WORKING, State.INPUT_REQUIRED])

    took = re.findall(r'class="e took"[^>]*><title>([^:]+):', picture)
    assert sorted(took) == ["INPUT_REQUIRED → WORKING", "SUBMITTING → WORKING"]


def test_the_text_for_the_readme_holds_every_step_and_every_end():
    text = diagram.mermaid()

    for source, event, target in edges():
        if event in diagram.COMMON:
            assert source in text.split("note right of UNKNOWN")[1]
        else:
            assert re.search(rf"^    {source} --> {target}: .*\b{event}\b", text, re.MULTILINE)
    for state in FINAL:
        assert f"    {state} --> [*]\n" in text


def test_every_state_reason_class_and_verdict_is_explained():
    assert set(manual.STATES) == set(words.STATES) == set(State)
    assert set(manual.REASONS) == set(Reason)
    assert set(manual.NOT_FOUND) == set(NotFound)
    assert set(manual.VERDICTS) == set(Verdict)


def test_no_two_states_share_icon_and_word():
    looks = [(look.icon, str(look.word)) for look in words.STATES.values()]

    assert len(set(looks)) == len(State)
