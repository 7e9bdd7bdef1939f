"""The gates measured from real rows, the minute's check, and proofs that are checked without a ledger (G1 to G6)."""

import copy
import json
import uuid
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db import connection

from operations import ledger, proof
from operations import watch as watching
from operations.gates import LIMITS, Figure, Gate
from operations.machine import Event, Reason, State
from operations.models import LedgerCheck, Server
from operations.queries import gates
from operations.queries import proof as proofs
from tests.operations.room import NOON

DAY = NOON.date()


def measured(gate, *, now):
    return next(figure for figure in gates.measure(DAY, now=now) if figure.gate is gate)


def behind(operation, *, now):
    return [one for one in gates.behind(now=now) if one.operation == operation]


# Measuring --------------------------------------------------------------------------------------------


def test_g4_a_cancel_counts_until_it_is_settled(room):
    operation = room.at(State.CANCEL_REQUESTED)
    before = measured(Gate.CANCEL, now=room.now).count
    room.now += timedelta(seconds=20)
    room.step(ledger.cancel_won, operation, permit=uuid.uuid4(), exchanges=())

    figure = measured(Gate.CANCEL, now=NOON + timedelta(hours=1))

    assert (figure.count, behind(operation, now=room.now)) == (before, [])


def test_g4_a_cancel_nobody_settled_breaks_the_gate_and_is_named(room):
    operation = room.at(State.CANCEL_REQUESTED)
    late = room.now + timedelta(seconds=61)

    [one] = behind(operation, now=late)

    assert (one.gate, one.breaks, one.took) == (Gate.CANCEL, True, 61.0)
    assert measured(Gate.CANCEL, now=late).breaches >= 1


def test_g4_a_cancel_stated_to_a_person_in_its_time_is_within(room):
    operation = room.at(State.CANCEL_REQUESTED)
    ledger.state_overdue(now=room.now + timedelta(seconds=46))

    assert [one.breaks for one in behind(operation, now=room.now + timedelta(hours=1))] == [False]


def test_c9_g4_an_intent_does_not_count_before_there_is_a_task(room):
    operation = room.at(State.SUBMISSION_UNKNOWN)
    room.press(operation)

    assert [one.gate for one in behind(operation, now=room.now + timedelta(minutes=14))] == [Gate.UNKNOWN]


def test_g5_an_unknown_counts_from_its_first_word_to_the_last(room):
    operation = room.at(State.SUBMISSION_UNKNOWN)
    room.now += timedelta(minutes=10)
    room.step(ledger.hand_to_person, operation, event=Event.NO_LOOKUP, reason=Reason.SUBMIT_LOST, next_at=room.now)

    [one] = behind(operation, now=NOON + timedelta(minutes=16))

    assert (one.gate, one.breaks, one.took) == (Gate.UNKNOWN, True, 960.0)


def test_g5_one_that_turned_up_again_counts_no_longer(room):
    operation = room.at(State.UNKNOWN)
    room.now += timedelta(minutes=2)
    room.saw(operation, room.working(operation))

    assert behind(operation, now=NOON + timedelta(hours=3)) == []


def test_g2_and_g6_count_what_was_submitted_and_what_advanced(room):
    before = {figure.gate: figure for figure in gates.measure(DAY, now=room.now)}
    room.at(State.ACCEPTED)

    after = {figure.gate: figure for figure in gates.measure(DAY, now=room.now)}

    assert after[Gate.SECOND_OPERATION].count == before[Gate.SECOND_OPERATION].count + 1
    assert after[Gate.TRACE].count == before[Gate.TRACE].count + 1
    assert (after[Gate.TRACE].breaches, after[Gate.TRACE].worst) == (0, 100.0)


def test_g3_the_fullest_second_of_a_server_is_measured_against_its_limit(rooms):
    room = rooms(max_qps=2)
    for _ in range(6):
        ledger.reserve_slot(room.server, now=room.now)

    used = {one.server: one for one in ledger.measure_servers(now=room.now + timedelta(seconds=30))}

    assert used[room.server].peak == 2
    assert Server.objects.get(slug=room.server).slots_given == 6
    again = {one.server: one for one in ledger.measure_servers(now=room.now + timedelta(seconds=90))}
    assert again[room.server].peak == 0


@pytest.mark.parametrize(
    "gate, breaches, worst, holds",
    [
        (Gate.CANCEL, 1, 59.0, True),
        (Gate.CANCEL, 3, 61.0, False),
        (Gate.UNKNOWN, 0, 800.0, True),
        (Gate.UNKNOWN, 1, 900.0, False),
        (Gate.DIVERGENCE, 1, 1.0, False),
    ],
)
def test_when_a_gate_holds(gate, breaches, worst, holds):
    assert Figure(gate=gate, day=DAY, count=300, breaches=breaches, worst=worst).holds is holds


def test_each_gate_has_a_limit():
    assert set(LIMITS) == set(Gate)


# The watch --------------------------------------------------------------------------------------------


@pytest.fixture
def minute(committed):
    """A moment at which nobody has checked yet."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM ledger_check")
        cursor.execute("DELETE FROM gate_day")
    return NOON


def test_g1_a_minute_is_checked_once_however_many_workers_tick(room, minute):
    assert watching.watch(clock=lambda: minute)
    assert not watching.watch(clock=lambda: minute + timedelta(seconds=5))
    assert watching.watch(clock=lambda: minute + timedelta(seconds=60))

    check = gates.last_check()
    assert check.at == minute + timedelta(seconds=60)
    assert check.invariants > 30


def test_g1_what_must_never_be_true_is_kept_named_and_logged(room, minute, caplog):
    operation = room.at(State.ACCEPTED)
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("UPDATE operation SET sends = 2 WHERE id = %s", [operation])
        cursor.execute("SET session_replication_role = origin")

    watching.watch(clock=lambda: minute)

    check = gates.last_check()
    assert check.breaches >= 1
    assert operation in {one["operation"] for one in check.found}
    assert "must never be true" in caplog.text
    trend = next(trend for trend in gates.trends(now=minute) if trend.gate is Gate.DIVERGENCE)
    assert not trend.holds
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("UPDATE operation SET sends = 1 WHERE id = %s", [operation])
        cursor.execute("SET session_replication_role = origin")


def test_old_checks_go_and_thirty_days_of_points_stay(minute):
    long_ago = minute - timedelta(days=40)
    ledger.begin_check(now=long_ago)

    ledger.begin_check(now=minute)

    assert not LedgerCheck.objects.filter(at=long_ago).exists()
    assert all(len(trend.figures) == 30 for trend in gates.trends(now=minute))


# Proofs -----------------------------------------------------------------------------------------------


@pytest.fixture
def document(room):
    """A proof, as a file holds it."""
    operation = room.at(State.ACCEPTED)
    return json.loads(json.dumps(proofs.compose(uuid.UUID(operation), now=room.now)))


@pytest.mark.parametrize("state", [State.ACCEPTED, State.CANCELLED_ACCEPTED, State.REFUSED, State.RECONCILED])
def test_g6_every_kind_of_advance_has_a_proof_that_holds(room, state):
    operation = room.at(state)

    made = proofs.compose(uuid.UUID(operation), now=room.now)

    assert [finding for finding in proof.check(made) if not finding.holds] == []


def test_without_a_receipt_there_is_nothing_to_prove(room):
    assert proofs.compose(uuid.UUID(room.at(State.WORKING)), now=room.now) is None


def _steps(told):
    return [row for row in told["journal"] if row["kind"] == "STEP"]


def _cut_evidence(told):
    del told["evidence"][0]


def _cut_journal(told):
    del told["journal"][1]


SPOILED = {
    "another result": lambda told: told["receipt"].update(result="e30="),
    "another fact": lambda told: told["receipt"].update(task_id="t-other"),
    "another epoch": lambda told: told["receipt"].update(epoch=99),
    "another operation": lambda told: told["receipt"].update(operation="0"),
    "other bytes": lambda told: told["evidence"][0].update(raw="AAAA"),
    "no base64": lambda told: told["evidence"][0].update(raw="?"),
    "a piece less": _cut_evidence,
    "a row less": _cut_journal,
    "an illegal step": lambda told: _steps(told)[0].update(event="CANCEL_DUE"),
    "another client": lambda told: told["delivery"].update(client="others"),
    "ready too early": lambda told: told["delivery"].update(ready_at="2020-01-01T00:00:00+00:00"),
    "a member less": lambda told: told.pop("permits"),
    "a second submit": lambda told: told["permits"].append(dict(told["permits"][0])),
    "another outcome": lambda told: told["receipt"].update(outcome="CANCELLED"),
    "another form": lambda told: told.update(format="longcall-proof/9"),
}


@pytest.mark.parametrize("how", SPOILED)
def test_g6_a_proof_that_was_tampered_with_does_not_hold(document, how):
    told = copy.deepcopy(document)
    SPOILED[how](told)

    assert not all(finding.holds for finding in proof.check(told))


def test_g6_purged_bytes_are_no_fault_their_digests_stay(document):
    for one in document["evidence"]:
        one["raw"] = None

    assert all(finding.holds for finding in proof.check(document))


def test_the_command_checks_a_file_and_fails_on_a_wrong_one(document, tmp_path, capsys):
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(document))
    SPOILED["another result"](document)
    bad.write_text(json.dumps(document))

    call_command("check_proof", good)
    with pytest.raises(SystemExit):
        call_command("check_proof", bad)

    said = capsys.readouterr().out
    assert said.count("WRONG") == 1
    assert "the payload is not the one of the result digest" in said
