"""Cancel is a request, not an undo (C1 to C12)."""

import uuid

import pytest

from operations import ledger
from operations.machine import FINISHED, Event, Reason, StaleStep, State
from operations.models import Operation
from operations.plan import CANCEL_PATIENCE
from tests.operations.room import break_commit, fence_off, result, seen, together

Press = ledger.Press


def permit(room, operation, **named):
    given = uuid.uuid4()
    room.step(ledger.permit_cancel, operation, permit=given, **named)
    return given


def settled(room, operation, given, settlement="answered", **named):
    told = {"acknowledged": False, "why": "", "misses": 1, "next_at": room.later()}
    return room.step(ledger.cancel_settled, operation, permit=given, settlement=settlement, **(told | named))


class TestPress:
    @pytest.mark.parametrize(
        "state, press",
        [
            (State.SUBMITTING, Press.CLOSED_UNSENT),
            (State.NOT_FOUND_SAFE, Press.CLOSED_UNSENT),
            (State.SUBMISSION_UNKNOWN, Press.INTENT),
            (State.WORKING, Press.REQUESTED),
            (State.INPUT_REQUIRED, Press.REQUESTED),
            (State.CANCEL_REQUESTED, Press.ALREADY_REQUESTED),
            (State.UNKNOWN, Press.INTENT),
        ],
    )
    def test_c1_c9_comes_to_what_the_state_allows(self, room, state, press):
        operation = room.at(state)

        pressed = room.press(operation)

        assert pressed.press is press
        assert pressed.generation == 1

    @pytest.mark.parametrize("state", sorted(FINISHED))
    def test_c10_once_finished_it_is_refused_with_what_is_known(self, room, state):
        operation = room.at(state)

        with pytest.raises(ledger.AlreadyFinished) as finished:
            room.press(operation)

        assert (finished.value.state, finished.value.at) == (state, room.now)
        assert room.row(operation).cancel_generation == room.row(operation).cancel_generation

    def test_b185_of_two_at_once_one_raises_the_generation(self, room):
        operation = room.at(State.WORKING)

        came = together(*[lambda: room.press(operation, seen_generation=None)] * 3)

        assert sorted(one.press for one in came) == ["ALREADY_REQUESTED", "ALREADY_REQUESTED", "REQUESTED"]
        assert room.row(operation).cancel_generation == 1

    def test_c1_under_an_old_page_it_is_stale(self, room):
        operation = room.at(State.UNKNOWN)
        room.press(operation, seen_generation=0)

        with pytest.raises(StaleStep, match="cancel generation"):
            room.press(operation, seen_generation=0)

    def test_c9_what_was_never_sent_is_closed_also_when_a_person_already_has_it(self, room):
        operation = room.submit()
        named = {"event": Event.BUDGET_ENDED, "reason": Reason.BUDGET_ENDED, "next_at": room.later()}
        room.step(ledger.hand_to_person, operation, **named)

        assert room.press(operation).press is Press.CLOSED_UNSENT

        assert room.receipt(operation).outcome == "CANCELLED"

    def test_c5_where_nobody_can_cancel_the_wish_is_on_record_and_fences_nothing(self, room):
        operation = room.at(State.WORKING)
        ticket = room.ticket(operation)

        assert room.press(operation, can_cancel=False).press is Press.NO_CANCEL

        assert (room.row(operation).state, room.row(operation).cancel_generation) == (State.WORKING, 0)
        room.saw(operation, room.ended(operation), ticket=ticket)

    @pytest.mark.parametrize("after", [True, False])
    def test_r9_whose_commit_was_lost_counts_once(self, room, monkeypatch, after):
        operation = room.at(State.WORKING)

        with monkeypatch.context() as patch:
            break_commit(patch, after=after)
            pressed = room.press(operation)

        assert (pressed.press, pressed.generation) == (Press.REQUESTED, 1)
        assert len(room.journal(operation, event="CANCEL_PRESSED")) == 1

    def test_c11_fences_whatever_was_decided_before_it(self, room):
        operation = room.at(State.WORKING)
        ticket = room.ticket(operation)
        room.press(operation)

        with pytest.raises(StaleStep, match="cancel generation"):
            room.saw(operation, room.ended(operation), ticket=ticket)

    @pytest.mark.parametrize("times", range(3))
    def test_b192_f4_against_an_acceptance_at_once_there_is_one_outcome(self, room, times):
        operation = room.at(State.FETCHING_RESULT)
        room.step(ledger.result_fetched, operation, result=result())
        facts, ticket = ledger.Facts.held_by(room.row(operation)), room.ticket(operation)

        came = together(
            lambda: ledger.accept_result(operation, ticket=ticket, facts=facts, now=room.now),
            lambda: room.press(operation),
        )

        assert isinstance(came[1], ledger.AlreadyFinished)
        assert room.receipt(operation).outcome == "SUCCESS"

    @pytest.mark.parametrize("times", range(3))
    def test_f4_against_a_completion_at_once_exactly_one_is_first(self, room, times):
        operation = room.at(State.WORKING)
        ticket = room.ticket(operation)

        came = together(
            lambda: room.saw(operation, room.ended(operation), ticket=ticket), lambda: room.press(operation)
        )

        won = room.row(operation).state
        assert won in {State.TERMINAL_OBSERVED, State.CANCEL_REQUESTED}
        loser = came[1] if won is State.TERMINAL_OBSERVED else came[0]
        assert isinstance(loser, ledger.AlreadyFinished if won is State.TERMINAL_OBSERVED else StaleStep)


class TestIntent:
    @pytest.mark.parametrize("found", ["working", "asking"])
    @pytest.mark.parametrize("state", [State.SUBMISSION_UNKNOWN, State.UNKNOWN])
    def test_c9_binds_the_task_that_turns_up(self, room, state, found):
        operation = room.at(state)
        room.press(operation)

        room.saw(operation, getattr(room, found)(operation))

        row = room.row(operation)
        assert (row.state, row.cancel_intent, row.round) == (State.CANCEL_REQUESTED, False, 0)
        assert room.due(operation)[0] == room.now

    @pytest.mark.parametrize("found, state", [("completed", State.TERMINAL_OBSERVED), ("cancelled", None)])
    def test_c3_a_task_that_turns_up_ended_is_read_as_it_ended(self, room, found, state):
        operation = room.at(State.SUBMISSION_UNKNOWN)
        room.press(operation)

        room.saw(operation, room.ended(operation, found))

        assert room.row(operation).state is (state or State.CANCELLED_ACCEPTED)

    def test_c9_pressed_after_the_budget_still_cancels_the_task_that_is_there(self, room):
        operation = room.at(State.UNKNOWN)
        room.now = room.row(operation).budget_ends_at
        room.press(operation)

        room.saw(operation, room.working(operation))

        assert room.row(operation).state is State.CANCEL_REQUESTED


class TestSend:
    def test_l4_has_its_permit_first(self, room):
        operation = room.at(State.CANCEL_REQUESTED)

        permit(room, operation)

        assert room.permits(operation)[-1].kind == "CANCEL"
        assert room.row(operation).cancel_sends == 1

    @pytest.mark.parametrize("state", sorted(set(State) - {State.CANCEL_REQUESTED}))
    def test_none_in_any_other_state(self, room, state):
        operation = room.at(state)

        with pytest.raises(ledger.PermitDenied):
            permit(room, operation)

    def test_o5_shut_submits_do_not_stop_it(self, room):
        operation = room.at(State.CANCEL_REQUESTED)
        ledger.set_submits("server", room.server, is_open=False, reason="off")

        permit(room, operation)

    def test_f5_a_lost_acknowledgement_is_followed_by_another_cancel(self, room):
        operation = room.at(State.CANCEL_REQUESTED)
        settled(room, operation, permit(room, operation), "lost")

        permit(room, operation)

        assert (room.row(operation).cancel_sends, room.row(operation).cancel_acked) == (2, False)
        assert _column(operation, "cancel_settled_at") is None

    def test_c3_a_refusal_is_no_evidence_but_settles_g4(self, room):
        operation = room.at(State.CANCEL_REQUESTED)

        settled(room, operation, permit(room, operation), why="-32602")

        assert room.row(operation).state is State.CANCEL_REQUESTED
        assert _column(operation, "cancel_settled_at") == room.now

    def test_c5_an_acknowledgement_is_kept_and_is_no_evidence(self, room):
        operation = room.at(State.CANCEL_REQUESTED)

        settled(room, operation, permit(room, operation), acknowledged=True)

        assert (room.row(operation).state, room.row(operation).cancel_acked) == (State.CANCEL_REQUESTED, True)


class TestWon:
    def test_c2_writes_the_receipt_and_asks_for_the_audits_look(self, rooms):
        room = rooms(effect="EXTERNAL")
        operation = room.at(State.CANCELLED_ACCEPTED)

        receipt = room.receipt(operation)
        assert (receipt.outcome, receipt.terminal_status, receipt.result) == ("CANCELLED", "cancelled", None)
        assert room.outbox(operation) == 1
        assert room.due(operation)[0] == room.now
        assert (room.effect(operation).status, room.effect(operation).cause) == ("OPEN", "CANCELLED")

    def test_c6_opens_no_record_for_a_tool_without_effects(self, room):
        assert room.effect(room.at(State.CANCELLED_ACCEPTED)) is None

    def test_c4_a_later_completion_advances_nothing(self, room):
        operation = room.at(State.CANCELLED_ACCEPTED)

        with pytest.raises(Exception, match="no place in CANCELLED_ACCEPTED"):
            room.saw(operation, room.ended(operation))

        assert room.outbox(operation) == 1

    @pytest.mark.parametrize("fence", ["epoch", "look"])
    def test_p6_an_answer_under_an_old_ticket_wins_nothing_and_is_kept(self, room, fence):
        operation = room.at(State.CANCEL_REQUESTED)
        given, ticket = permit(room, operation), room.ticket(operation)
        fence_off() if fence == "epoch" else room.claims(operation)
        kept = room.evidence(operation)

        with pytest.raises(StaleStep):
            room.step(ledger.cancel_won, operation, permit=given, exchanges=seen(), ticket=ticket)

        assert room.row(operation).state is State.CANCEL_REQUESTED
        assert room.evidence(operation) == kept + 1

    @pytest.mark.parametrize("times", range(3))
    def test_f4_two_winners_at_once_leave_one_receipt(self, room, times):
        operation = room.at(State.CANCEL_REQUESTED)
        given, ticket = permit(room, operation), room.ticket(operation)

        came = together(
            lambda: room.step(ledger.cancel_won, operation, permit=given, exchanges=(), ticket=ticket),
            lambda: room.saw(operation, room.ended(operation, "cancelled"), ticket=ticket),
        )

        assert sum(isinstance(one, Exception) for one in came) == 1
        assert room.outbox(operation) == 1


class TestUnconfirmed:
    def test_c12_is_stated_once_and_looking_goes_on(self, room):
        operation = room.at(State.CANCEL_REQUESTED)

        room.step(ledger.state_unconfirmed, operation)

        assert room.row(operation).cancel_stated
        assert room.row(operation).state is State.CANCEL_REQUESTED
        assert _column(operation, "cancel_settled_at") == room.now

    def test_g4_the_sweep_states_each_one_in_time_whoever_holds_its_lease(self, room):
        operation, pressed_at = room.at(State.CANCEL_REQUESTED), room.now
        ledger.pause_server(room.server, until=room.later(600), reason="429")
        room.claims(operation)

        assert not _swept(room, operation, pressed_at + CANCEL_PATIENCE / 2)
        assert _swept(room, operation, pressed_at + CANCEL_PATIENCE)

        ledger.state_overdue(now=room.later(60))
        assert len(room.journal(operation, event="CANCEL_NOT_CONFIRMED")) == 1

    @pytest.mark.parametrize("end", ["ended", "absent"])
    def test_g4_whatever_ends_the_asking_settles_it(self, room, end):
        """Found by interleavings: the cancel hung, a completion won, and its time seemed to run on."""
        operation = room.at(State.CANCEL_REQUESTED)
        room.now = room.later(9)

        room.saw(operation, room.ended(operation) if end == "ended" else room.absent())

        assert room.row(operation).state is not State.CANCEL_REQUESTED
        assert _column(operation, "cancel_settled_at") == room.now


def _swept(room, operation, now):
    ledger.state_overdue(now=now)
    return room.row(operation).cancel_stated


def _column(operation, name):
    return Operation.objects.values_list(name, flat=True).get(id=operation)


def test_c9_a_cancel_stands_when_its_task_was_lost_from_sight_and_turns_up_again(room):
    """The person who pressed was told that it is asked for: the task must not go on, nor ask anybody (C11)."""
    operation = room.at(State.CANCEL_REQUESTED)
    room.saw(operation, room.absent())
    assert room.row(operation).state is State.UNKNOWN

    room.saw(operation, room.working(operation))

    assert room.row(operation).state is State.CANCEL_REQUESTED
