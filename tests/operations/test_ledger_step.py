"""The one primitive: locked, journalled, committed once, read back when nobody knows (L5, L7, R9, P6)."""

import threading
import uuid

import pytest
from django.db import OperationalError, connection, transaction

from operations import ledger
from operations.ledger import step as steps
from operations.machine import Event, IllegalStep, StaleStep, State
from operations.models import JournalKind
from tests.operations.room import (
    PATIENCE_S,
    break_commit,
    fence_off,
    result,
    seen,
    together,
    until_somebody_waits_for_a_lock,
)


def note(step):
    step.note("TRIED", detail={"by": step.actor})


def test_an_operation_that_is_not_there_is_an_error_of_its_own(room):
    with pytest.raises(ledger.NoSuchOperation):
        steps.perform(str(uuid.uuid4()), note, now=room.now)


def test_l7_a_change_raises_the_version_and_leaves_one_journal_row_with_its_evidence(room):
    operation = room.at(State.WORKING)
    before, kept = room.row(operation), room.evidence(operation)

    moved = steps.perform(operation, note, now=room.now, exchanges=seen(b"abc"))

    assert moved == ledger.Moved(operation=operation, version=before.version + 1, state=State.WORKING)
    (written,) = room.journal(operation, event="TRIED")
    assert (written.version, written.kind) == (moved.version, JournalKind.NOTE)
    assert written.evidence_seqs == [kept + 1]


def test_l5_a_refused_step_is_journalled_with_what_it_carried_and_changes_nothing_else(room):
    operation = room.at(State.WORKING)
    before = room.row(operation)

    def change(step):
        step.note("PLANNED", protocol_message="never")
        step.move(Event.RESULT_ACCEPTED)

    with pytest.raises(IllegalStep):
        steps.perform(operation, change, now=room.now, exchanges=seen(b"carried"))

    after = room.row(operation)
    (refused,) = room.journal(operation, kind=JournalKind.REFUSED)
    assert refused.detail == {"refused": "RESULT_ACCEPTED has no place in WORKING"}
    assert refused.evidence_seqs == [after.evidence_count]
    assert (after.version, after.state, after.protocol_message) == (before.version, before.state, "")
    assert not room.journal(operation, event="PLANNED")


def test_p6_a_stale_step_is_journalled_under_the_ticket_it_came_with_and_its_evidence_is_kept(room):
    operation = room.at(State.WORKING)
    old, kept = room.ticket(operation), room.evidence(operation)
    room.claims(operation)

    with pytest.raises(StaleStep):
        steps.perform(operation, note, now=room.now, ticket=old, exchanges=seen())

    (stale,) = room.journal(operation, kind=JournalKind.STALE)
    assert stale.look == old.look
    assert room.evidence(operation) == kept + 1
    assert not room.journal(operation, event="TRIED")


def test_l5_two_steps_of_one_change_are_two_journal_rows_and_both_pass_the_database(room):
    operation = room.at(State.NOT_FOUND_SAFE)

    def change(step):
        step.move(Event.TASK_NAMED, task_id="late")
        step.move(Event.ENDED, terminal_status="completed")

    moved = steps.perform(operation, change, now=room.now)

    written = [(row.source, row.target) for row in room.journal(operation)[-2:]]
    assert written == [("NOT_FOUND_SAFE", "WORKING"), ("WORKING", "TERMINAL_OBSERVED")]
    assert moved.state is State.TERMINAL_OBSERVED


class TestALostCommit:
    """R9: the journal is asked whether the change stands."""

    def test_that_happened_is_read_back_and_not_made_twice(self, room, monkeypatch):
        operation = room.at(State.WORKING)
        before = room.row(operation).version

        with monkeypatch.context() as patch:
            break_commit(patch, after=True)
            moved = steps.perform(operation, note, now=room.now, exchanges=seen())

        assert moved.version == before + 1 == room.row(operation).version
        assert len(room.journal(operation, event="TRIED")) == 1

    def test_that_did_not_happen_is_made_again(self, room, monkeypatch):
        operation = room.at(State.WORKING)

        with monkeypatch.context() as patch:
            break_commit(patch, after=False, times=2)
            steps.perform(operation, note, now=room.now, exchanges=seen())

        assert len(room.journal(operation, event="TRIED")) == 1

    def test_gives_up_after_some_runs_and_has_changed_nothing(self, room, monkeypatch):
        operation = room.at(State.WORKING)
        before = room.row(operation)

        with monkeypatch.context() as patch:
            break_commit(patch, after=False, times=steps.MAX_RUNS)
            with pytest.raises(OperationalError):
                steps.perform(operation, note, now=room.now)

        connection.close()
        assert room.row(operation) == before

    @pytest.mark.parametrize("after", [True, False])
    def test_b219_of_an_acceptance_leaves_one_receipt_and_one_outbox_row(self, room, monkeypatch, after):
        operation = room.at(State.FETCHING_RESULT)
        room.step(ledger.result_fetched, operation, result=result())
        facts, ticket = ledger.Facts.held_by(room.row(operation)), room.ticket(operation)

        with monkeypatch.context() as patch:
            break_commit(patch, after=after)
            moved = ledger.accept_result(operation, ticket=ticket, facts=facts, now=room.now)

        assert moved.state is State.ACCEPTED
        assert room.outbox(operation) == 1

    @pytest.mark.parametrize("after", [True, False])
    def test_of_a_refused_step_still_raises_what_the_step_raised(self, room, monkeypatch, after):
        operation = room.at(State.WORKING)

        with monkeypatch.context() as patch:
            break_commit(patch, after=after)
            with pytest.raises(IllegalStep):
                steps.perform(operation, lambda step: step.move(Event.VERDICT), now=room.now)

        assert room.journal(operation, kind=JournalKind.REFUSED)

    def test_leaves_a_broken_connection_behind_for_nobody(self, room, monkeypatch):
        operation = room.at(State.WORKING)

        with monkeypatch.context() as patch:
            break_commit(patch, after=True)
            steps.perform(operation, note, now=room.now)

        assert room.row(operation).state is State.WORKING


def test_b221_a_deadlock_is_run_again_as_a_whole(room):
    operation = room.at(State.WORKING)
    runs, has_the_server, has_the_operation = [], threading.Event(), threading.Event()

    def wants_the_server(step):
        runs.append(step.id)
        if len(runs) == 1:
            has_the_operation.set()
            assert has_the_server.wait(PATIENCE_S)
            # The other must stand before us: who looks for a deadlock too early looks once, and waits.
            until_somebody_waits_for_a_lock()
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM server WHERE slug = %s FOR UPDATE", [room.server])
        note(step)

    def victim():
        with connection.cursor() as cursor:
            cursor.execute("SET deadlock_timeout = '20ms'")
        return steps.perform(operation, wants_the_server, now=room.now)

    def holder():
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL deadlock_timeout = '100s'")
            cursor.execute("SELECT 1 FROM server WHERE slug = %s FOR UPDATE", [room.server])
            has_the_server.set()
            assert has_the_operation.wait(PATIENCE_S)
            cursor.execute("SELECT 1 FROM operation WHERE id = %s FOR UPDATE", [operation])
        return "done"

    came = together(victim, holder)

    assert came[1] == "done"
    assert came[0].state is State.WORKING
    assert len(runs) == 2
    assert len(room.journal(operation, event="TRIED")) == 1


def test_o3_a_raised_epoch_waits_for_the_steps_under_way_and_fences_every_later_one(room):
    operation = room.at(State.WORKING)
    ticket, order, under_way = room.ticket(operation), [], threading.Event()

    def slow(step):
        under_way.set()
        until_somebody_waits_for_a_lock()
        note(step)
        order.append("step")

    def raises():
        assert under_way.wait(PATIENCE_S)
        epoch = fence_off()
        order.append("epoch")
        return epoch

    _, epoch = together(lambda: steps.perform(operation, slow, now=room.now, ticket=ticket), raises)

    assert order == ["step", "epoch"]
    assert room.row(operation).epoch == epoch == ticket.epoch + 1
    with pytest.raises(StaleStep, match="execution epoch"):
        steps.perform(operation, note, now=room.now, ticket=ticket)


class TestDue:
    def test_a_wish_for_an_early_look_stands_when_the_drive_ends(self, room):
        operation = room.at(State.WORKING)
        early = room.now

        def wake(step):
            step.wake()

        steps.perform(operation, wake, now=early)
        room.saw(operation, room.working(operation, message="busy"), next_at=room.later(500))

        due_at, urgent, *_ = room.due(operation)
        assert (due_at, urgent) == (early, True)

    def test_a_wish_leaves_a_running_drive_alone(self, room):
        operation = room.at(State.WORKING)
        ticket = room.claims(operation)

        ledger.look_now(operation, by="person:olga", now=room.now)

        assert room.row(operation).look == ticket.look
        room.saw(operation, room.working(operation, message="still"), ticket=ticket)
