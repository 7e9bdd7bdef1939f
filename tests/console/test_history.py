"""The story of an operation: every event has its words, and the picture holds what the list tells."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from django.urls import reverse
from django.utils import timezone

from adapters.contract import Ended, Exchange, ProtocolStatus, Working
from console import history, timeline
from console.history import Lane
from operations import ledger
from operations.machine import Event
from operations.queries import dossier
from tests.console import factories as make

PROJECT = Path(__file__).resolve().parents[2]


def test_every_event_of_the_machine_has_its_words():
    for event in Event:
        assert history.event_words(event) != event.value


def test_every_note_that_the_ledger_writes_has_its_words():
    written = {"ANSWER_SENT", "ANSWER_STORED", "ANSWER_UNCERTAIN", "ANSWER_USED"}  # put together from the delivery
    for module in (PROJECT / "operations" / "ledger").glob("*.py"):
        written |= set(re.findall(r'\.note\(\s*"([A-Z_]+[A-Z])"[,)]', module.read_text()))

    assert len(written) > 20
    assert {name for name in written if history.event_words(name) == name} == set()


def test_every_fact_that_an_effect_record_may_hold_has_its_words():
    written = {f"late {status}" for status in ("completed", "failed", "cancelled")}
    for module in (PROJECT / "operations" / "ledger").glob("*.py"):
        written |= set(re.findall(r"['\"]what['\"][:,]\s*['\"]([a-z ]*[a-z])['\"]", module.read_text()))

    assert written >= {"answer out", "second task"}
    assert {name for name in written if history.fact_words(name) == name} == set()


@pytest.fixture
def story(db):
    """An operation that was asked once and then cancelled, as told."""
    make.server()
    operation = make.asking()
    ledger.request_cancel(operation, seen_generation=0, by="person:olga", reason="no need", now=timezone.now())
    number = UUID(operation)
    op = dossier.read(number)
    return op, history.tell(
        op,
        journal=dossier.journal(number),
        rounds=dossier.rounds(number),
        permits=dossier.permits(number),
        evidence=dossier.evidence(number),
    )


def test_what_happened_stands_in_the_order_of_time(story):
    moments = [happening.at for happening in story[1].happenings]

    assert moments == sorted(moments)


def test_our_states_follow_each_other_without_a_gap(story):
    ours = [stretch for stretch in story[1].stretches if stretch.lane is Lane.WE]

    assert [stretch.says for stretch in ours] == ["Submitting", "Working", "Question asked", "Cancel requested"]
    assert [stretch.until for stretch in ours[:-1]] == [stretch.since for stretch in ours[1:]]
    assert ours[-1].until is None


def test_an_answer_that_was_cut_off_is_told_as_cut_off(db):
    make.server()
    operation, now = make.working(), timezone.now()
    cut = Exchange(label="tasks/get", request=b"{}", body=b'{"res', http_status=200, media_type="", complete=False)
    whole = Exchange(label="tasks/get", request=b"{}", body=b"{}", http_status=200, media_type="")
    seen = Working(task=make.task_now(operation, ProtocolStatus.WORKING), exchanges=(whole, cut))
    ledger.saw(operation, ticket=make.ticket_of(operation), seen=seen, next_at=now, now=now)

    told = history.tell(
        dossier.read(UUID(operation)), journal=(), rounds=(), permits=(), evidence=dossier.evidence(UUID(operation))
    )

    wire = [happening.says for happening in told.happenings if happening.lane is Lane.SERVER]
    assert sorted(wire) == ["On the wire: tasks/get, HTTP 200", "On the wire: tasks/get, HTTP 200, cut off"]


def test_the_servers_words_stay_quoted_in_their_own_lane(story):
    theirs = [stretch.says for stretch in story[1].stretches if stretch.lane is Lane.SERVER]

    assert theirs == ["“working”", "“input_required”"]


def test_what_a_person_did_stands_in_the_lane_of_people_with_the_name(story):
    people = [happening.says for happening in story[1].happenings if happening.lane is Lane.PEOPLE]

    assert any("Cancel requested" in says and "olga" in says for says in people)


@pytest.mark.parametrize("later", [timedelta(), timedelta(minutes=3), timedelta(hours=30), timedelta(days=400)])
def test_the_picture_keeps_within_its_frame_at_any_age(story, later):
    op, told = story

    picture = timeline.draw(told, now=op.created_at + later, budget_ends_at=op.budget_ends_at)

    for x in re.findall(r'(?: x| cx)="(-?[0-9]+)"', picture):
        assert 0 <= int(x) <= 900
    assert picture.count('class="axis"') <= 12


def test_c6_whoever_settles_an_effect_reads_which_second_task_there_is(db):
    """The words and the id, on the page of the operation and on the desk."""
    make.server()
    operation, now = make.working(), timezone.now()
    told = {"seen_generation": 0, "by": "person:olga", "reason": "no need", "now": now}
    ledger.request_cancel(operation, **told)
    ended = Ended(status=ProtocolStatus.CANCELLED, task=make.task_now(operation, ProtocolStatus.CANCELLED))
    ledger.saw(operation, ticket=make.ticket_of(operation), seen=ended, next_at=now, now=now)
    other = Working(task=replace(make.task_now(operation, ProtocolStatus.WORKING), task_id="another-task"))
    with pytest.raises(ledger.IdentityChanged):
        ledger.submit_answered(
            operation, permit=uuid4(), ticket=make.ticket_of(operation), seen=other, next_at=now, now=now
        )

    olga = make.signed_in("olga", "operator")
    for page in ("operation", "reconcile_item"):
        words = olga.get(reverse(page, args=[operation])).content.decode()
        assert "the same key brought a second task" in words
        assert "another-task" in words
