"""Many at once: each row goes through the ledger's own step, once, and only if it still stands as it was shown."""

import uuid

import pytest

from operations import ledger
from operations.ledger import BatchKind, bulk
from operations.machine import State
from operations.models import Batch, BatchRow
from operations.verdicts import Verdict
from tests.operations.room import NOON, break_commit, together

pytestmark = pytest.mark.usefixtures("committed")
OLGA, OTTO = "person:olga", "person:otto"


def anybody(by, kind, server):
    return True


def prepared(kind, rows, *, by=OLGA, **wish):
    made = ledger.Wish(id=uuid.uuid4(), kind=kind, by=by, **wish)
    ledger.keep_batch(made, rows, now=NOON)
    return made.id


def begun(kind, rows, *, by=OLGA, reason="the outage of the morning", **wish):
    batch = prepared(kind, rows, by=by, **wish)
    ledger.start_batch(batch, by=by, reason=reason, now=NOON)
    return batch


def given_up(operations):
    rows = ledger.foresee_verdicts(operations, Verdict.GAVE_UP)
    return begun(BatchKind.VERDICT, rows, content={"verdict": "GAVE_UP"})


class Ticking:
    """A clock that a test moves."""

    def __init__(self, now):
        self.now = now

    def __call__(self):
        return self.now


def run(may=anybody):
    return ledger.run_batches(seconds=60, may=may, clock=Ticking(NOON))


def rows_of(batch):
    return {str(row.operation_id): row for row in BatchRow.objects.filter(batch=batch)}


def came(batch):
    return {operation: (row.status, row.came or row.why) for operation, row in rows_of(batch).items()}


def cancels(*operations):
    return ledger.foresee_cancels(operations)


class TestCancel:
    def test_c5_c9_the_preview_says_what_a_press_comes_to_for_each(self, room):
        states = (State.SUBMITTING, State.WORKING, State.SUBMISSION_UNKNOWN, State.ACCEPTED, State.CANCEL_REQUESTED)
        operations = [room.at(state) for state in states]

        foreseen = cancels(*operations)

        assert [(one.forecast, one.against) for one in foreseen] == [
            ("CLOSED_UNSENT", ""),
            ("REQUESTED", ""),
            ("INTENT", ""),
            ("FINISHED", "FINISHED"),
            ("ALREADY_REQUESTED", "ALREADY_REQUESTED"),
        ]

    def test_c1_each_row_is_asked_by_its_own_step_with_its_own_journal(self, room):
        first, second = room.at(State.WORKING), room.submit()
        batch = begun(BatchKind.CANCEL, cancels(first, second))

        run()

        assert came(batch) == {first: ("DONE", "REQUESTED"), second: ("DONE", "CLOSED_UNSENT")}
        assert room.row(first).state is State.CANCEL_REQUESTED
        assert room.row(second).state is State.CANCELLED_ACCEPTED
        assert room.journal(first, event="CANCEL_PRESSED")[0].actor == OLGA
        assert Batch.objects.get(id=batch).status == "DONE"

    def test_a_draft_does_nothing(self, room):
        operation = room.at(State.WORKING)
        batch = prepared(BatchKind.CANCEL, cancels(operation))

        run()

        assert came(batch)[operation] == ("WAITING", "")
        assert room.row(operation).state is State.WORKING

    def test_c10_a_row_that_ended_in_between_is_left_alone_and_the_others_are_done(self, room):
        ended, working = room.at(State.WORKING), room.at(State.WORKING)
        batch = begun(BatchKind.CANCEL, cancels(ended, working))
        room.saw(ended, room.ended(ended))

        run()

        assert came(batch)[ended][0] == "REFUSED"
        assert "already finished" in came(batch)[ended][1]
        assert came(batch)[working] == ("DONE", "REQUESTED")

    def test_c1_a_row_that_somebody_else_cancelled_in_between_is_left_alone(self, room):
        operation = room.at(State.WORKING)
        batch = begun(BatchKind.CANCEL, cancels(operation))
        room.press(operation, by=OTTO)

        run()

        assert came(batch)[operation] == ("REFUSED", "cancel generation has moved from 0 to 1")
        assert room.row(operation).cancel_requested_by == OTTO

    def test_a_row_that_would_come_to_something_else_than_was_shown_is_left_alone(self, room):
        operation = room.submit()
        batch = begun(BatchKind.CANCEL, cancels(operation))
        room.answer_submit(operation, room.working(operation))

        run()

        assert came(batch)[operation] == (
            "REFUSED",
            "it would now come to REQUESTED, the preview said CLOSED_UNSENT",
        )
        assert room.row(operation).state is State.WORKING

    def test_w_a_role_that_was_taken_away_ends_the_power_of_a_batch(self, room):
        operation = room.at(State.WORKING)
        batch = begun(BatchKind.CANCEL, cancels(operation))

        run(may=lambda by, kind, server: False)

        assert came(batch)[operation] == ("REFUSED", "NO_LONGER_ALLOWED")
        assert room.row(operation).state is State.WORKING

    def test_r9_the_same_form_twice_is_one_batch_and_a_second_start_starts_nothing(self, room):
        operation = room.at(State.WORKING)
        wish = ledger.Wish(id=uuid.uuid4(), kind=BatchKind.CANCEL, by=OLGA)

        assert ledger.keep_batch(wish, cancels(operation), now=NOON)
        assert not ledger.keep_batch(wish, cancels(operation), now=NOON)
        assert ledger.start_batch(wish.id, by=OLGA, reason="enough", now=NOON)
        assert not ledger.start_batch(wish.id, by=OLGA, reason="enough", now=NOON)

    def test_only_its_own_person_starts_a_preview(self, room):
        batch = prepared(BatchKind.CANCEL, cancels(room.at(State.WORKING)))

        with pytest.raises(ledger.NotYours):
            ledger.start_batch(batch, by=OTTO, reason="enough", now=NOON)

    def test_what_a_stop_comes_before_stays_as_it_was(self, room):
        operation = room.at(State.WORKING)
        batch = begun(BatchKind.CANCEL, cancels(operation))

        assert ledger.stop_batch(batch, by=OTTO, now=NOON)
        run()

        assert came(batch)[operation] == ("WAITING", "")
        assert room.row(operation).state is State.WORKING
        assert not ledger.stop_batch(batch, by=OTTO, now=NOON)

    def test_r9_a_commit_whose_answer_was_lost_is_not_done_twice(self, room, monkeypatch):
        operation = room.at(State.WORKING)
        batch = begun(BatchKind.CANCEL, cancels(operation))
        key = ledger.batches.waiting(batch, limit=1)[0].key

        def press():
            ledger.request_cancel(
                operation,
                seen_generation=0,
                by=OLGA,
                reason="enough",
                now=NOON,
                also=lambda step, press: ledger.batches.done(step, key, press),
            )

        break_commit(monkeypatch, after=True)
        press()
        run()

        assert came(batch)[operation] == ("DONE", "REQUESTED")
        assert room.row(operation).cancel_generation == 1

    def test_of_two_workers_at_once_each_row_is_done_by_one(self, room):
        operations = [room.at(State.WORKING) for _ in range(6)]
        batch = begun(BatchKind.CANCEL, cancels(*operations))
        BatchRow.objects.filter(batch=batch).update(status="WAITING")

        made = together(run, run)

        assert sum(made) == 6
        assert {row.cancel_generation for row in map(room.row, operations)} == {1}


class TestVerdict:
    def test_x4_each_row_is_carried_out_only_where_its_evidence_allows(self, room):
        gone, sure = room.at(State.UNKNOWN), room.at(State.SUBMISSION_UNKNOWN)
        batch = given_up([gone, sure])

        run()

        assert came(batch)[gone] == ("DONE", "CARRIED_OUT")
        assert came(batch)[sure] == ("REFUSED", "The lookup is still under way.")
        assert room.row(gone).state is State.RECONCILED
        assert room.row(sure).state is State.SUBMISSION_UNKNOWN

    def test_w_one_second_person_confirms_the_whole_batch_with_one_press(self, rooms):
        risky = rooms(effect="EXTERNAL")
        operations = [risky.at(State.UNKNOWN) for _ in range(3)]
        batch = given_up(operations)
        run()
        assert {row.state for row in map(risky.row, operations)} == {State.UNKNOWN}

        second = ledger.foresee_second(batch, by=OTTO, confirm=True)
        begun(BatchKind.CONFIRM, second, by=OTTO, parent=batch)
        run()

        assert {row.state for row in map(risky.row, operations)} == {State.RECONCILED}
        assert {risky.receipt(operation).decided_by for operation in operations} == {f"{OLGA} and {OTTO}"}

    def test_w_nobody_confirms_their_own_batch(self, rooms):
        risky = rooms(effect="EXTERNAL")
        operation = risky.at(State.UNKNOWN)
        batch = given_up([operation])
        run()

        second = ledger.foresee_second(batch, by=OLGA, confirm=True)
        own = begun(BatchKind.CONFIRM, second, parent=batch)
        run()

        assert came(own)[operation] == ("REFUSED", "OWN_PROPOSAL")
        assert risky.row(operation).state is State.UNKNOWN

    def test_x4_evidence_that_came_after_the_proposal_leaves_its_row_alone(self, rooms):
        risky = rooms(effect="EXTERNAL")
        healed, still = risky.at(State.UNKNOWN), risky.at(State.UNKNOWN)
        batch = given_up([healed, still])
        run()
        second = begun(BatchKind.CONFIRM, ledger.foresee_second(batch, by=OTTO, confirm=True), by=OTTO, parent=batch)
        risky.saw(healed, risky.working(healed))

        run()

        assert came(second)[healed][0] == "REFUSED"
        assert came(second)[still] == ("DONE", "CONFIRMED")
        assert risky.row(healed).state is State.WORKING

    def test_a_second_person_turns_the_whole_batch_down(self, rooms):
        risky = rooms(effect="EXTERNAL")
        operation = risky.at(State.UNKNOWN)
        batch = given_up([operation])
        run()

        begun(BatchKind.REFUSE, ledger.foresee_second(batch, by=OTTO, confirm=False), by=OTTO, parent=batch)
        run()

        assert risky.row(operation).state is State.UNKNOWN
        assert ledger.foresee_second(batch, by=OTTO, confirm=True) == []


class TestLookAndClaim:
    def test_x4_a_look_makes_each_row_due_before_all_others_where_there_is_something_to_ask(self, room):
        known, parked = room.at(State.UNKNOWN), room.submit()
        room._to_submission_unknown(parked)
        batch = begun(BatchKind.LOOK, ledger.foresee_looks([known, parked]))

        run()

        assert came(batch) == {known: ("DONE", "LOOK"), parked: ("REFUSED", "NOTHING_TO_ASK")}
        assert room.due(known)[1]

    def test_a_claim_names_its_holder_on_each_row(self, room):
        operation = room.at(State.UNKNOWN)
        batch = begun(BatchKind.CLAIM, ledger.foresee_claims([operation]))

        run()

        assert came(batch)[operation] == ("DONE", "CLAIMED")


def test_one_poisonous_row_does_not_hold_up_the_others(room, monkeypatch, caplog):
    bad, good = room.at(State.WORKING), room.at(State.WORKING)
    batch = begun(BatchKind.CANCEL, cancels(bad, good))
    whole = bulk.cancel.request_cancel

    def sometimes(operation, **named):
        if operation == bad:
            raise ValueError("poison")
        return whole(operation, **named)

    monkeypatch.setattr(bulk.cancel, "request_cancel", sometimes)
    run()

    assert came(batch)[bad][0] == "REFUSED"
    assert came(batch)[good] == ("DONE", "REQUESTED")
    assert "row of a batch failed" in caplog.text


def test_a_batch_whose_worker_died_is_taken_on_by_another_after_its_lease(room):
    operation = room.at(State.WORKING)
    batch = begun(BatchKind.CANCEL, cancels(operation))
    ledger.batches.take(until=NOON + bulk.LEASE, now=NOON)

    run()
    assert came(batch)[operation] == ("WAITING", "")
    ledger.run_batches(seconds=60, may=anybody, clock=Ticking(NOON + bulk.LEASE))

    assert came(batch)[operation] == ("DONE", "REQUESTED")
