"""Shares, rollback and retirement on real commits: what was begun before finishes nothing (O2-O5, F7; B265, B266)."""

import itertools
import threading
import uuid

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from operations import ledger
from operations.machine import Delivery, StaleStep, State
from operations.models import AdapterRelease, AuditEvent, Operation, ProtocolVersion, Receipt, RoutingDecision
from operations.queries import adapters
from operations.rollout import Mode, bucket_of
from tests.operations.room import EVERY_STATE, NOON, VERSION, result, together

KNOWN = ("r1", "r2")
_numbers = itertools.count()


def note(reason="errors rise since 11:07"):
    return ledger.Note(by="person:adam", reason=reason, now=NOON)


@pytest.fixture
def room(room):
    """The room, in a version that stands as if newly registered, whatever the test before did to it."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE protocol_version SET submits_open = true, closed_reason = '', release = 'r1'")
        cursor.execute("DELETE FROM adapter_release")
    ledger.set_share(VERSION, "r1", share=100, note=note())
    return room


def epoch():
    return ProtocolVersion.objects.get(version=VERSION).epoch


def roll_back(**named):
    told = {"seen_epoch": epoch(), "known": KNOWN, "in_flight": 0, "note": note()}
    return ledger.roll_back(VERSION, **(told | named))


def release_of(operation):
    """Who looks after an operation, as a claim sees it."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE due SET due_at = %s, lease_until = NULL WHERE operation_id = %s", [NOON, operation])
    [work] = [work for work in ledger.claim(limit=1000, now=NOON) if work.row.id == operation]
    return work.release


def node_in(room, low, high):
    """A call node whose bucket lies in a range."""
    names = (f"node {next(_numbers)}" for _ in itertools.repeat(None, 100_000))
    return next(name for name in names if low <= bucket_of("tests", name) < high)


# Rollback --------------------------------------------------------------------------------------------


def test_o3_a_rollback_stops_creating_raises_the_epoch_and_names_who_takes_over(room):
    ledger.set_share(VERSION, "r2", share=5, note=note())
    before = epoch()

    done = roll_back()

    assert (done.epoch, done.stops, done.takes_over) == (before + 1, "r2", "r1")
    assert epoch() == before + 1
    with pytest.raises(ledger.SubmitsClosed, match="rolled back: errors rise"):
        room.submit()


def test_o3_what_is_in_flight_is_looked_after_by_the_release_that_took_over(room):
    ledger.set_share(VERSION, "r2", share=100, note=note())
    operation = room.at(State.WORKING)
    assert release_of(operation) == "r2"

    roll_back()

    assert release_of(operation) == "r1"
    assert Operation.objects.get(id=operation).release == "r2"


def test_o3_where_no_release_is_left_the_same_one_goes_on_and_creates_nothing(room):
    operation = room.at(State.WORKING)

    done = roll_back()

    assert done.takes_over == "r1"
    assert release_of(operation) == "r1"
    ledger.set_submits("protocol", VERSION, is_open=True, reason="")
    with pytest.raises(ledger.SubmitsClosed, match="no release of it takes new calls"):
        room.submit()


def test_o3_a_rollback_costs_the_same_however_much_is_in_flight(room):
    with CaptureQueriesContext(connection) as few:
        roll_back()
    ledger.set_submits("protocol", VERSION, is_open=True, reason="")
    ledger.set_share(VERSION, "r1", share=100, note=note())
    for _ in range(20):
        room.submit()

    with CaptureQueriesContext(connection) as many:
        roll_back()

    assert len(many) == len(few)
    assert not any('UPDATE "operation"' in query["sql"] or "UPDATE operation" in query["sql"] for query in many)


def test_two_admins_who_were_shown_the_same_epoch_roll_back_once(room):
    seen = epoch()

    came = together(*[lambda: roll_back(seen_epoch=seen)] * 3)

    assert [type(one).__name__ for one in came].count("RolledBack") == 1
    assert [type(one).__name__ for one in came].count("EpochMoved") == 2
    assert epoch() == seen + 1


def test_o3_a_rollback_waits_for_the_step_under_way_and_no_longer(room):
    operation = room.at(State.WORKING)
    done = threading.Event()

    def rolls():
        try:
            roll_back()
            done.set()
        finally:
            connection.close()

    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM operation o JOIN protocol_version p ON p.version = o.protocol"
            " WHERE o.id = %s FOR UPDATE OF o FOR SHARE OF p",
            [operation],
        )
        admin = threading.Thread(target=rolls)
        admin.start()
        assert not done.wait(0.5)
    admin.join(20)

    assert done.is_set()


def test_a_version_nobody_registered_is_not_rolled_back(room):
    with pytest.raises(ledger.NoSuchVersion):
        ledger.roll_back("1999-01-01", seen_epoch=1, known=KNOWN, in_flight=0, note=note())


def test_o5_who_why_before_and_after_are_kept_with_it(room):
    roll_back(in_flight=7)

    event = AuditEvent.objects.filter(what="ROLLED_BACK").order_by("-id").first()
    assert (event.by, event.target, event.reason) == (
        "person:adam",
        f"protocol:{VERSION}",
        "errors rise since 11:07",
    )
    assert event.after["epoch"] == event.before["epoch"] + 1
    assert adapters.in_flight_at_rollback(VERSION) == 7


@pytest.mark.parametrize("table", ["audit_event", "routing_decision"])
@pytest.mark.parametrize("sql", ["UPDATE {table} SET at = at", "DELETE FROM {table}"])
def test_o2_o5_what_was_decided_is_never_rewritten(room, table, sql):
    room.submit()
    roll_back()

    with pytest.raises(IntegrityError, match=f"{table} is append-only"), transaction.atomic():
        connection.cursor().execute(sql.format(table=table))


# A worker that was stopped in the middle (F7, B266) --------------------------------------------------------


def test_f7_b266_a_result_fetched_before_is_not_accepted_after(room):
    operation = room.at(State.FETCHING_RESULT)
    old, fetched = room.ticket(operation), result()
    roll_back()

    with pytest.raises(StaleStep, match="execution epoch"):
        room.step(ledger.result_fetched, operation, result=fetched, ticket=old)

    assert room.row(operation).state is State.FETCHING_RESULT
    assert room.receipt(operation) is None


def test_f7_b266_an_acceptance_under_the_old_epoch_writes_no_receipt_and_the_new_one_writes_one(room):
    operation = room.at(State.FETCHING_RESULT)
    room.step(ledger.result_fetched, operation, result=result())
    old, facts = room.ticket(operation), ledger.Facts.held_by(room.row(operation))
    roll_back()

    with pytest.raises(StaleStep, match="execution epoch"):
        room.step(ledger.accept_result, operation, facts=facts, ticket=old)
    assert room.receipt(operation) is None
    room.step(ledger.accept_result, operation, facts=ledger.Facts.held_by(room.row(operation)))

    assert Receipt.objects.filter(operation_id=operation).count() == 1
    assert room.receipt(operation).epoch == epoch()


def test_f7_a_submit_that_waits_for_its_moment_gets_no_permit_any_more(room):
    operation = room.submit()
    old = room.ticket(operation)
    roll_back()

    with pytest.raises(StaleStep, match="execution epoch"):
        room.permit(operation, ticket=old)

    assert room.permits(operation) == []


def test_f7_the_id_in_a_late_answer_to_a_submit_is_kept_and_decides_nothing(room):
    operation = room.submit()
    old, permit = room.ticket(operation), room.permit(operation)
    roll_back()

    room.comes_late(operation, room.working(operation), permit=permit, ticket=old)

    assert room.row(operation).state is State.SUBMITTING
    assert room.row(operation).task_id == f"task-of-{operation}"


def test_f7_an_answer_prepared_before_leaves_only_under_the_new_epoch(room):
    operation = room.at(State.INPUT_REQUIRED)
    room.answer(operation)
    old = room.ticket(operation)
    roll_back()

    with pytest.raises(StaleStep, match="execution epoch"):
        room.step(ledger.permit_answer, operation, permit=uuid.uuid4(), ticket=old)
    assert room.given(operation).delivery == Delivery.STORED
    room.step(ledger.permit_answer, operation, permit=uuid.uuid4())

    assert room.given(operation).delivery == Delivery.PERMITTED


def test_f7_a_cancel_acknowledged_to_the_old_epoch_ends_nothing(room):
    operation = room.at(State.CANCEL_REQUESTED)
    old, permit = room.ticket(operation), uuid.uuid4()
    room.step(ledger.permit_cancel, operation, permit=permit)
    roll_back()

    with pytest.raises(StaleStep, match="execution epoch"):
        room.step(ledger.cancel_won, operation, permit=permit, exchanges=(), ticket=old)

    assert room.row(operation).state is State.CANCEL_REQUESTED
    assert room.receipt(operation) is None


@pytest.mark.parametrize("state", EVERY_STATE)
def test_o3_a_rollback_itself_moves_no_operation_and_touches_no_receipt(room, state):
    operation = room.at(state)
    before, receipt = room.row(operation), room.receipt(operation)

    roll_back()

    after = room.row(operation)
    assert (after.state, after.version, after.task_id) == (before.state, before.version, before.task_id)
    assert room.receipt(operation) == receipt


def test_b265_everything_in_flight_goes_on_to_one_receipt_each(room):
    flying = [room.at(State.WORKING), room.at(State.INPUT_REQUIRED), room.at(State.CANCEL_REQUESTED)]
    roll_back()

    for operation in flying:
        room.saw(operation, room.ended(operation))
        room.step(ledger.fetch_started, operation)
        room.step(ledger.result_fetched, operation, result=result())
        room.step(ledger.accept_result, operation, facts=ledger.Facts.held_by(room.row(operation)))

    assert [Receipt.objects.filter(operation_id=one).count() for one in flying] == [1, 1, 1]
    assert [len(room.permits(one)) for one in flying] == [1, 1, 1]


# Shares ----------------------------------------------------------------------------------------------


def test_o2_a_call_that_is_not_chosen_keeps_its_path_for_ever(room):
    ledger.set_share(VERSION, "r1", share=5, note=note())
    node = node_in(room, 500, 10_000)
    call = room.call(call_node=node)

    with pytest.raises(ledger.KeepExistingPath):
        ledger.submit(call, now=NOON)
    ledger.set_share(VERSION, "r1", share=100, note=note())
    with pytest.raises(ledger.KeepExistingPath):
        ledger.submit(call, now=NOON)

    assert not Operation.objects.filter(call_node=node).exists()
    assert RoutingDecision.objects.get(call_node=node).release is None


def test_o2_a_call_that_was_chosen_stays_whatever_the_share_becomes(room):
    ledger.set_share(VERSION, "r1", share=5, note=note())
    call = room.call(call_node=node_in(room, 0, 500))
    first = ledger.submit(call, now=NOON)

    ledger.set_share(VERSION, "r1", share=1, note=note())
    roll_back()

    again = ledger.submit(call, now=NOON)
    assert (again.operation, again.created) == (first.operation, False)


def test_o4_after_a_rollback_nobody_is_told_to_fall_back(room):
    ledger.set_share(VERSION, "r2", share=5, note=note())
    roll_back()
    call = room.call(call_node=node_in(room, 500, 10_000))

    with pytest.raises(ledger.SubmitsClosed):
        ledger.submit(call, now=NOON)

    assert not RoutingDecision.objects.filter(call_node=call.call_node).exists()


def test_o2_two_releases_share_the_new_calls_by_bucket(room):
    ledger.set_share(VERSION, "r2", share=5, note=note())

    chosen = ledger.submit(room.call(call_node=node_in(room, 0, 500)), now=NOON).operation
    left = ledger.submit(room.call(call_node=node_in(room, 500, 10_000)), now=NOON).operation

    assert Operation.objects.get(id=chosen).release == "r2"
    assert Operation.objects.get(id=left).release == "r1"


def test_o2_two_requests_of_one_call_node_across_a_share_are_told_the_same(room):
    ledger.set_share(VERSION, "r1", share=5, note=note())
    calls = [room.call(call_node=node_in(room, 500, 10_000)) for _ in range(6)]

    def asks(call):
        try:
            return ledger.submit(call, now=NOON).operation
        except ledger.KeepExistingPath:
            return "keep"

    for call in calls:
        came = together(
            lambda call=call: asks(call),
            lambda: ledger.set_share(VERSION, "r1", share=100, note=note()),
            lambda call=call: asks(call),
        )
        assert came[0] == came[2] == asks(call)
        ledger.set_share(VERSION, "r1", share=5, note=note())


def test_n1_a_retired_release_does_not_come_back(room):
    ledger.set_share(VERSION, "r2", share=0, note=note())
    AdapterRelease.objects.filter(release="r2").update(mode=Mode.RETIRED)

    with pytest.raises(ledger.Retired):
        ledger.set_share(VERSION, "r2", share=5, note=note())


# Retirement ------------------------------------------------------------------------------------------


def test_o5_a_version_is_retired_only_when_its_last_operation_has_ended(rooms):
    ledger.register_protocol("aip-151", release="r1")
    with pytest.raises(ledger.NoSuchVersion):
        ledger.retire("1999-01-01", note=note())
    one = rooms(protocol="aip-151")
    operation = one.submit()

    with pytest.raises(ledger.NotDrained) as open_:
        ledger.retire("aip-151", note=note())
    assert open_.value.open == 1
    one.press(operation)
    ledger.retire("aip-151", note=note())

    assert AdapterRelease.objects.get(protocol="aip-151").mode == Mode.RETIRED
    with pytest.raises(ledger.SubmitsClosed, match="retired"):
        one.submit()
