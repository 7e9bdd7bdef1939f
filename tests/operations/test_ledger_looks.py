"""What an observation does to an operation (L3, L5, P4, P6, P8, R10, X1, B001, B008)."""

import pytest

from adapters.contract import NeedsInput, Working
from operations import ledger
from operations.ledger import looks
from operations.machine import BEFORE_TASK, FINAL, IllegalStep, NotFound, Reason, StaleStep, State
from operations.models import JournalKind, Operation
from tests.operations.room import fence_off, result, seen, together

OPEN = sorted(set(State) - FINAL)


class TestWorking:
    @pytest.mark.parametrize("state", [*sorted(BEFORE_TASK), State.UNKNOWN])
    def test_l3_what_names_a_task_is_working(self, room, state):
        operation = room.at(state)

        room.saw(operation, room.working(operation))

        assert room.row(operation).state is State.WORKING

    def test_b222_a_look_that_repeats_what_is_known_needs_no_transaction(self, room):
        operation = room.at(State.WORKING)

        assert ledger.was_unchanged(room.row(operation), room.working(operation))

    @pytest.mark.parametrize("told", [{"message": "busy"}, {"created_at": "2026-11-29T12:00:01Z"}])
    def test_a_look_that_brings_a_word_or_another_creation_time_needs_one(self, room, told):
        operation = room.at(State.WORKING)

        assert not ledger.was_unchanged(room.row(operation), room.working(operation, **told))

    def test_i1_a_question_that_is_gone_closes_its_round_with_the_reason(self, room):
        operation = room.at(State.INPUT_REQUIRED)

        room.saw(operation, room.working(operation))

        assert room.row(operation).state is State.WORKING
        assert (room.round(operation).status, room.round(operation).closed_reason) == (
            "CLOSED",
            "the server no longer asks",
        )

    @pytest.mark.parametrize("state", [State.TERMINAL_OBSERVED, State.FETCHING_RESULT, *sorted(FINAL)])
    def test_l5_after_an_end_it_changes_nothing(self, room, state):
        operation = room.at(state)

        with pytest.raises(IllegalStep):
            room.saw(operation, room.working(operation, task_id=room.row(operation).task_id or "t-" + operation))

        assert room.row(operation).state is state

    def test_p5_after_the_budget_it_stays_before_a_person_and_is_looked_at_on(self, room):
        operation = room.at(State.UNKNOWN)
        room.now = room.row(operation).budget_ends_at

        room.saw(operation, room.working(operation), next_at=room.later(300))

        assert room.row(operation).state is State.UNKNOWN
        assert room.due(operation)[0] == room.later(300)


class TestCreationTime:
    @pytest.mark.parametrize(
        "spelled", ["2026-11-29T12:00:00+00:00", "2026-11-29T12:00:00.000Z", "2026-11-29t14:00:00+02:00"]
    )
    def test_b008_the_same_instant_spelled_otherwise_is_no_anomaly(self, room, spelled):
        operation = room.at(State.WORKING)

        room.saw(operation, room.working(operation, message="x", created_at=spelled))

        assert not room.journal(operation, event="ANOMALY")

    def test_b001_one_that_moves_is_noted_and_stops_nothing(self, room):
        operation = room.at(State.WORKING)

        room.saw(operation, room.working(operation, created_at="2026-11-29T12:00:09Z"))

        (noted,) = room.journal(operation, event="ANOMALY")
        assert noted.detail == {"created_at": ["2026-11-29T12:00:00Z", "2026-11-29T12:00:09Z"]}
        assert room.row(operation).state is State.WORKING

    @pytest.mark.parametrize("odd", ["1790071200000", "2026-09-22T10:00:60Z", "2026-09-22 10:00:00", "0001-01-01"])
    def test_b031_one_that_nobody_can_read_is_compared_as_it_is(self, room, odd):
        assert looks.is_moved(odd, odd) is False
        assert looks.is_moved(odd, odd + "0") is True


class TestAsked:
    @pytest.mark.parametrize(
        "state", [State.SUBMITTING, State.SUBMISSION_UNKNOWN, State.NOT_FOUND_SAFE, State.WORKING, State.UNKNOWN]
    )
    def test_opens_a_round_and_pauses_looking_until_its_deadline(self, room, state):
        operation = room.at(state)

        room.saw(operation, room.asking(operation))

        row = room.row(operation)
        assert (row.state, row.round, row.round_open) == (State.INPUT_REQUIRED, 1, True)
        assert room.due(operation)[0] == row.round_deadline_at

    def test_c11_after_a_press_it_is_evidence_and_no_form(self, room):
        operation = room.at(State.CANCEL_REQUESTED)

        room.saw(operation, room.asking(operation))

        assert (room.row(operation).state, room.row(operation).round) == (State.CANCEL_REQUESTED, 0)
        assert room.journal(operation, event="QUESTION_AFTER_CANCEL")

    def test_p5_after_the_budget_no_form_opens(self, room):
        operation = room.at(State.UNKNOWN)
        room.now = room.row(operation).budget_ends_at

        room.saw(operation, room.asking(operation))

        assert (room.row(operation).state, room.round(operation)) == (State.UNKNOWN, None)

    def test_b020_a_server_that_asks_without_a_question_opens_no_form_and_is_looked_at_on(self, room):
        operation = room.at(State.WORKING)
        asks_nothing = NeedsInput(task=room.facts(operation, "input_required"), questions=(), exchanges=seen())

        room.saw(operation, asks_nothing, next_at=room.later(20))

        assert (room.row(operation).state, room.round(operation)) == (State.WORKING, None)
        assert room.due(operation)[0] == room.later(20)


class TestEnded:
    @pytest.mark.parametrize("state", sorted(set(OPEN) - {State.TERMINAL_OBSERVED, State.FETCHING_RESULT}))
    @pytest.mark.parametrize("status", ["completed", "failed"])
    def test_r1_is_observed_and_fetched_next(self, room, state, status):
        operation = room.at(state)

        room.saw(operation, room.ended(operation, status))

        row = room.row(operation)
        assert (row.state, row.terminal_status) == (State.TERMINAL_OBSERVED, status)
        assert room.due(operation)[:2] == (room.now, True)
        assert room.receipt(operation) is None

    @pytest.mark.parametrize("state", sorted(set(OPEN) - {State.TERMINAL_OBSERVED, State.FETCHING_RESULT}))
    def test_r4_cancelled_is_accepted_at_once(self, room, state):
        operation = room.at(state)

        room.saw(operation, room.ended(operation, "cancelled"))

        receipt = room.receipt(operation)
        assert (receipt.outcome, receipt.terminal_status) == ("CANCELLED", "cancelled")
        origin = "asked by us" if state is State.CANCEL_REQUESTED else "cancelled at the server"
        assert receipt.verdict == origin

    def test_the_same_end_again_only_hurries_the_fetch(self, room):
        operation = room.at(State.FETCHING_RESULT)

        room.saw(operation, room.ended(operation))

        assert room.row(operation).state is State.FETCHING_RESULT

    @pytest.mark.parametrize("state", sorted(FINAL))
    def test_c4_after_a_receipt_it_changes_nothing_and_is_kept(self, room, state):
        operation = room.at(state)
        kept = room.evidence(operation)

        with pytest.raises(IllegalStep):
            room.saw(operation, room.ended(operation, task_id=room.row(operation).task_id or "t-" + operation))

        assert room.row(operation).state is state
        assert room.evidence(operation) == kept + 1


class TestContradiction:
    """R10: two different ends before acceptance take the operation to a person, for good."""

    @pytest.mark.parametrize("state", [State.TERMINAL_OBSERVED, State.FETCHING_RESULT])
    @pytest.mark.parametrize("then", ["failed", "cancelled"])
    def test_b007_while_the_first_waits_for_its_result(self, room, state, then):
        operation = room.at(state)

        room.saw(operation, room.ended(operation, then))

        assert (room.row(operation).state, room.row(operation).reason) == (State.UNKNOWN, Reason.CONTRADICTED)
        assert room.receipt(operation) is None

    @pytest.mark.parametrize("then", ["failed", "cancelled"])
    def test_b007_after_the_server_had_gone_back_to_work(self, room, then):
        operation = _lost_its_result(room)
        room.saw(operation, room.working(operation))

        room.saw(operation, room.ended(operation, then))

        assert (room.row(operation).state, room.row(operation).reason) == (State.UNKNOWN, Reason.CONTRADICTED)

    def test_from_a_question_whose_form_closes(self, room):
        operation = _lost_its_result(room)
        room.saw(operation, room.asking(operation))

        room.saw(operation, room.ended(operation, "failed"))

        assert room.row(operation).reason == Reason.CONTRADICTED
        assert room.round(operation).status == "CLOSED"

    def test_by_the_answer_to_a_cancel(self, room):
        operation = _lost_its_result(room)
        room.saw(operation, room.working(operation))
        room.press(operation)
        permit = room.permits(operation)[0].id

        room.step(ledger.cancel_won, operation, permit=permit, exchanges=seen())

        assert (room.row(operation).state, room.row(operation).reason) == (State.UNKNOWN, Reason.CONTRADICTED)
        assert room.receipt(operation) is None

    @pytest.mark.parametrize("word", ["working", "input_required", "completed", "failed", "cancelled", "absent"])
    def test_no_later_look_settles_it(self, room, word):
        operation = room.at(State.TERMINAL_OBSERVED)
        room.saw(operation, room.ended(operation, "failed"))
        looked = {
            "working": room.working(operation),
            "input_required": room.asking(operation),
            "absent": room.absent(),
        }.get(word) or room.ended(operation, word)

        room.saw(operation, looked, next_at=room.later(300))

        assert (room.row(operation).state, room.row(operation).reason) == (State.UNKNOWN, Reason.CONTRADICTED)
        assert room.journal(operation)[-1].detail["status"] == word

    def test_p2_after_the_budget_it_is_looked_at_slowly_not_at_once(self, room):
        operation = room.at(State.TERMINAL_OBSERVED)
        room.now = room.row(operation).budget_ends_at

        room.saw(operation, room.ended(operation, "failed"), next_at=room.later(300))

        assert room.due(operation)[0] == room.later(300)


class TestClash:
    """P8: one task on two operations takes both to a person, for good."""

    @pytest.fixture
    def both(self, room):
        first, second = room.at(State.WORKING), room.submit()
        room.answer_submit(second, room.working(second, task_id=room.row(first).task_id))
        return first, second

    @pytest.mark.parametrize("looked", ["working", "ended"])
    def test_no_later_look_settles_it(self, room, both, looked):
        first, _ = both

        room.saw(first, getattr(room, looked)(first))

        assert (room.row(first).state, room.row(first).reason) == (State.UNKNOWN, Reason.ID_CLASH)

    @pytest.mark.parametrize("state", OPEN)
    def test_takes_the_other_from_every_open_state(self, room, state):
        first, second = room.at(state), room.submit()
        held = room.row(first).task_id
        if held is None:
            held = f"bound-{first}"
            Operation.objects.filter(id=first).update(task_id=held)

        room.answer_submit(second, room.working(second, task_id=held))

        assert (room.row(first).state, room.row(first).reason) == (State.UNKNOWN, Reason.ID_CLASH)
        assert not room.row(first).round_open

    def test_the_evidence_is_kept_with_the_one_that_brought_it(self, room, both):
        first, second = both

        assert room.journal(second, event="ID_CLASH")[0].evidence_seqs == [1]
        assert room.journal(first, event="ID_CLASH")[0].detail == {"other": second}


class TestIdentity:
    def test_f8_an_answer_about_another_task_is_refused_and_kept(self, room):
        operation = room.at(State.WORKING)
        kept = room.evidence(operation)

        with pytest.raises(ledger.IdentityChanged):
            room.saw(operation, room.working(operation, task_id="somebody-elses"))

        assert room.row(operation).task_id == f"task-of-{operation}"
        assert room.evidence(operation) == kept + 1

    def test_an_id_that_cannot_be_stored_is_refused(self, room):
        operation = room.submit()

        with pytest.raises(ledger.IdentityChanged, match="cannot be stored"):
            room.answer_submit(operation, room.working(operation, task_id="a\x00b"))


class TestAbsent:
    @pytest.mark.parametrize("state", [State.WORKING, State.INPUT_REQUIRED, State.FETCHING_RESULT])
    def test_x1_is_classified_and_goes_to_a_person(self, room, state):
        operation = room.at(state)

        room.saw(operation, room.absent())

        row = room.row(operation)
        assert (row.state, row.reason, row.round_open) == (State.UNKNOWN, Reason.NOT_FOUND, False)
        assert _column(operation, "not_found") == NotFound.UNKNOWN

    def test_c12_after_a_press_it_is_never_cancelled(self, room):
        operation = room.at(State.CANCEL_REQUESTED)

        room.saw(operation, room.absent())

        assert room.row(operation).reason == Reason.NOT_FOUND_AFTER_CANCEL
        assert room.receipt(operation) is None

    @pytest.mark.parametrize("state", sorted(FINAL))
    def test_after_a_receipt_it_changes_nothing(self, room, state):
        operation = room.at(state)

        with pytest.raises(IllegalStep):
            room.saw(operation, room.absent())


class TestFences:
    @pytest.mark.parametrize("looked", ["working", "asking", "ended", "absent"])
    @pytest.mark.parametrize("fence", ["execution epoch", "cancel generation", "look number", "input round"])
    def test_p4_p6_a_look_that_set_out_before_decides_nothing_and_is_kept(self, room, looked, fence):
        operation = room.at(State.WORKING)
        ticket = room.ticket(operation)
        _move(room, operation, fence)
        before = room.row(operation)

        observed = room.absent() if looked == "absent" else getattr(room, looked)(operation)
        with pytest.raises(StaleStep) as stale:
            room.saw(operation, observed, ticket=ticket)

        after = room.row(operation)
        assert stale.value.fence == fence
        assert (after.state, after.version, after.evidence_count) == (
            before.state,
            before.version,
            before.evidence_count + 1,
        )

    def test_f2_of_two_looks_at_once_the_older_decides_nothing(self, room):
        operation = room.at(State.WORKING)
        old = room.ticket(operation)
        new = room.claims(operation)

        came = together(
            lambda: room.saw(operation, room.ended(operation), ticket=new),
            lambda: room.saw(operation, room.working(operation, message="long ago"), ticket=old),
        )

        assert isinstance(came[1], StaleStep)
        assert room.row(operation).state is State.TERMINAL_OBSERVED


def test_n3_an_answer_that_is_no_observation_is_kept_and_changes_no_state(room):
    operation = room.at(State.WORKING)
    kept = room.evidence(operation)

    named = {"why": "a word outside the set: runn\x00ing", "exchanges": seen(b"odd"), "misses": 1}
    room.step(ledger.looked_in_vain, operation, next_at=room.later(), **named)

    assert (room.row(operation).state, room.evidence(operation)) == (State.WORKING, kept + 1)
    assert room.due(operation)[4] == 1


class TestAudit:
    def test_c7_keeps_a_late_result_as_evidence_and_never_as_a_payload(self, rooms):
        room = rooms(effect="EXTERNAL")
        operation = room.at(State.CANCELLED_ACCEPTED)

        room.step(ledger.audited, operation, seen=room.ended(operation, "completed"), result=result().raw)

        assert room.receipt(operation).result is None
        assert [fact["what"] for fact in room.effect(operation).facts] == ["late completed"]
        assert room.due(operation) is None
        assert room.journal(operation)[-1].detail == {"status": "completed", "result_bytes": len(result().raw)}

    def test_c4_opens_no_record_for_a_tool_without_effects(self, room):
        operation = room.at(State.CANCELLED_ACCEPTED)

        room.step(ledger.audited, operation, seen=room.ended(operation, "completed"), result=None)

        assert room.effect(operation) is None

    def test_c2_a_look_that_agrees_adds_nothing_to_the_record(self, rooms):
        room = rooms(effect="EXTERNAL")
        operation = room.at(State.CANCELLED_ACCEPTED)

        room.step(ledger.audited, operation, seen=room.ended(operation, "cancelled"), result=None)

        assert room.effect(operation).facts == []


def test_an_anomaly_of_the_task_is_noted(room):
    operation = room.at(State.WORKING)
    odd = Working(task=room.facts(operation, message="m", anomalies=("ttl is missing",)), exchanges=seen())

    room.saw(operation, odd)

    assert room.journal(operation, event="ANOMALY")[0].detail == {"anomalies": ["ttl is missing"]}
    assert not room.journal(operation, kind=JournalKind.REFUSED)


def _lost_its_result(room):
    operation = room.at(State.FETCHING_RESULT)
    named = {"reason": Reason.RESULT_LOST, "findings": (), "next_at": room.later()}
    room.step(ledger.result_unusable, operation, **named)
    return operation


def _move(room, operation, fence):
    if fence == "execution epoch":
        fence_off()
    elif fence == "cancel generation":
        room.press(operation)
    elif fence == "look number":
        room.claims(operation)
    else:
        room.saw(operation, room.asking(operation))


def _column(operation, name):
    return Operation.objects.values_list(name, flat=True).get(id=operation)
