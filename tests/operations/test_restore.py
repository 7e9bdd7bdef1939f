"""A ledger from a backup believes nothing that the time after the backup may have changed (O6)."""

from datetime import timedelta

import pytest

from adapters.contract import NeedsInput
from operations import ledger
from operations.machine import FINAL, Delivery, StaleStep, State
from operations.models import AuditEvent, Operation, ProtocolVersion
from tests.operations.room import EVERY_STATE, NOON, VERSION, breaches, question, seen

LATER = NOON + timedelta(hours=9)


def restore():
    return ledger.enter_safe_mode(note=ledger.Note(by="person:adam", reason="backup of Sunday", now=LATER))


@pytest.fixture
def room(room):
    yield room
    ledger.set_submits("protocol", VERSION, is_open=True, reason="")


def is_urgent(room, operation):
    return room.due(operation)[1]


def test_it_shuts_every_submit_raises_every_epoch_and_tells_the_audit(room):
    before = ProtocolVersion.objects.get(version=VERSION).epoch

    done = restore()

    after = ProtocolVersion.objects.get(version=VERSION)
    assert VERSION in done.versions
    assert (after.epoch, after.submits_open) == (before + 1, False)
    assert after.closed_reason == "the ledger was restored from a backup: backup of Sunday"
    with pytest.raises(ledger.SubmitsClosed, match="backup of Sunday"):
        room.submit()
    noted = AuditEvent.objects.filter(what="SAFE_MODE", target=f"protocol:{VERSION}").latest("id")
    assert (noted.by, noted.reason) == ("person:adam", "backup of Sunday")


def test_a_call_that_the_backup_saw_unsent_counts_as_perhaps_sent(room):
    operation = room.submit()

    restore()

    row = room.row(operation)
    assert (row.state, row.nothing_sent, row.reason) == (State.SUBMISSION_UNKNOWN, False, "SUBMIT_LOST")
    assert [permit.settlement for permit in room.permits(operation)] == ["lost"]
    assert row.first_sent_at == Operation.objects.get(id=operation).created_at, "a key window counts from the earliest"
    assert is_urgent(room, operation)
    assert breaches(operation) == []


def test_what_set_out_before_the_restore_decides_nothing(room):
    """F7: nor does it send."""
    operation = room.submit()
    ticket = room.ticket(operation)

    restore()

    with pytest.raises(StaleStep):
        room.permit(operation, ticket=ticket)


@pytest.mark.parametrize("state", [state for state in EVERY_STATE if state not in FINAL])
def test_whatever_is_in_flight_is_looked_at_first_and_never_sent_again_by_itself(room, state):
    operation = room.at(state)

    restore()

    row = room.row(operation)
    assert is_urgent(room, operation)
    assert "RESTORED" in room.events(operation)
    assert row.task_id is not None or not row.nothing_sent
    assert row.state not in {State.SUBMITTING, State.NOT_FOUND_SAFE}
    assert breaches(operation) == []


def test_a_question_that_came_before_a_task_may_have_been_answered_since(room):
    """I7: the call may have gone on and run, so that no answer may send it once more."""
    operation = room.submit()
    told = NeedsInput(task=None, questions=(question("Which?"),), exchanges=seen())
    room.answer_submit(operation, told)

    restore()

    row = room.row(operation)
    assert (row.state, row.reason, row.round_open, row.nothing_sent) == (State.UNKNOWN, "SUBMIT_LOST", False, False)
    with pytest.raises(ledger.RoundGone):
        room.answer(operation)
    assert breaches(operation) == []


def test_an_answer_that_travels_with_a_lost_submit_is_uncertain(room):
    operation = room.submit()
    room.answer_submit(operation, NeedsInput(task=None, questions=(question("Which?"),), exchanges=seen()))
    room.answer(operation)
    room.step(ledger.go_on, operation)

    restore()

    row = room.row(operation)
    assert (row.state, row.answer_delivery) == (State.SUBMISSION_UNKNOWN, Delivery.UNCERTAIN)
    assert breaches(operation) == []


@pytest.mark.parametrize("state", sorted(FINAL))
def test_what_has_ended_stays_as_it_is(room, state):
    operation = room.at(state)
    before = room.row(operation)

    restore()

    assert room.row(operation).version == before.version


def test_run_again_it_doubts_nothing_twice(room):
    operation = room.submit()
    restore()

    again = restore()

    assert again.doubted == 0
    assert len(room.permits(operation)) == 1
    assert breaches(operation) == []
