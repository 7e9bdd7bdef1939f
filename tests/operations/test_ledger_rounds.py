"""Rounds and answers: bound, first valid one wins, stored before delivered, never lied about (I1 to I7, C11, R9)."""

import uuid
from dataclasses import replace
from datetime import timedelta

import pytest

from operations import ledger
from operations.machine import Delivery, Event, Reason, StaleStep, State
from operations.models import JournalKind
from tests.operations.room import break_commit, fence_off, question, seen, together


@pytest.fixture
def asked(room):
    return room.at(State.INPUT_REQUIRED)


@pytest.fixture
def stored(room, asked):
    room.answer(asked)
    return asked


def permit(room, operation, **named):
    given = uuid.uuid4()
    room.step(ledger.permit_answer, operation, permit=given, **named)
    return given


def settled(room, operation, given, delivery, **named):
    return room.step(
        ledger.answer_settled, operation, permit=given, delivery=delivery, why="", next_at=room.later(), **named
    )


def under_id(room, operation, key):
    """The question of `room.asking`, under another id of the server's."""
    told = room.asking(operation)
    return replace(told, questions=tuple(replace(one, key=key) for one in told.questions))


class TestDeadline:
    @pytest.mark.parametrize(
        "limits, ttl_ms, expected_s",
        [
            ({"budget_s": 100, "answer_within_s": 200}, None, 100),
            ({"budget_s": 200, "answer_within_s": 100}, None, 100),
            ({"budget_s": 200, "answer_within_s": 100}, 50_000, 50),
        ],
    )
    def test_i2_is_the_earliest_of_policy_ttl_and_budget(self, rooms, limits, ttl_ms, expected_s):
        room = rooms(**limits)
        operation = room.submit()

        room.answer_submit(operation, room.asking(operation, ttl_ms=ttl_ms))

        assert room.row(operation).round_deadline_at == room.now + timedelta(seconds=expected_s)

    def test_i5_one_that_passes_closes_the_form_and_approves_nothing(self, room, asked):
        room.now = room.row(asked).round_deadline_at

        room.step(ledger.expire_round, asked, next_at=room.now)

        row = room.row(asked)
        assert (row.state, row.round_open, row.answer_delivery) == (State.INPUT_REQUIRED, False, None)
        assert room.round(asked).status == "EXPIRED"
        assert room.due(asked)[0] == room.now

    def test_i3_an_answer_at_its_deadline_is_too_late_also_before_anybody_closed_it(self, room, asked):
        room.now = room.row(asked).round_deadline_at

        with pytest.raises(ledger.RoundGone) as gone:
            room.answer(asked)

        assert gone.value.fate.status == "EXPIRED"


class TestExtend:
    def extend(self, room, operation, until, number=1):
        return ledger.extend_round(operation, round=number, until=until, by="person:olga", now=room.now)

    def test_i2_moves_the_deadline(self, room, asked):
        until = room.later(3000)

        self.extend(room, asked, until)

        assert (room.row(asked).round_deadline_at, room.round(asked).deadline_at) == (until, until)

    def test_a_shorter_one_is_kept_by_the_drive_too(self, room, asked):
        until = room.later(30)

        self.extend(room, asked, until)

        assert room.due(asked)[0] == until

    def test_an_expired_round_opens_again(self, room, asked):
        room.now = room.row(asked).round_deadline_at
        room.step(ledger.expire_round, asked, next_at=room.now)

        self.extend(room, asked, room.later(60))

        assert room.round(asked).status == "OPEN"
        room.answer(asked)

    @pytest.mark.parametrize("seconds", [-1, 0, 3601])
    def test_never_into_the_past_nor_past_the_budget(self, room, asked, seconds):
        with pytest.raises(ledger.CannotExtend):
            self.extend(room, asked, room.later(seconds))

        assert room.journal(asked, kind=JournalKind.REFUSED)

    def test_not_once_it_was_answered(self, room, stored):
        with pytest.raises(ledger.CannotExtend):
            self.extend(room, stored, room.later(60))

    def test_not_another_round(self, room, asked):
        with pytest.raises(ledger.CannotExtend):
            self.extend(room, asked, room.later(60), number=2)


class TestReplay:
    def test_i4_the_same_request_is_the_same_round(self, room, asked):
        room.saw(asked, room.asking(asked))

        assert room.row(asked).round == 1

    def test_i4_another_request_is_a_new_round_and_the_first_is_closed(self, room, asked):
        room.saw(asked, room.asking(asked, "Something else?"))

        assert (room.row(asked).round, room.row(asked).round_open) == (2, True)
        assert room.journal(asked, event="RESUMED")

    def test_i4_the_same_words_under_another_id_are_the_same_round_and_the_answer_goes_to_the_new_id(self, room, asked):
        """The server's ids are its own: a question that nobody has answered is asked once, whatever it is called."""
        room.saw(asked, under_id(room, asked, "7"))
        room.answer(asked)

        (reply,) = ledger.answer_in_store(asked)
        assert (room.row(asked).round, reply.key) == (1, "7")
        assert room.events(asked).count("QUESTION_RENAMED") == 1
        assert ledger.still_asks(asked, under_id(room, asked, "7").questions)

    def test_i4_under_another_id_an_expired_question_stays_expired(self, room, asked):
        room.now = room.later(1800)
        room.step(ledger.expire_round, asked, next_at=room.later())

        room.saw(asked, under_id(room, asked, "7"))
        room.saw(asked, under_id(room, asked, "7"))

        assert (room.row(asked).round, room.row(asked).round_open) == (1, False)
        assert room.events(asked).count("QUESTION_RENAMED") == 1

    def test_i4_an_answer_in_store_follows_its_question_to_another_id(self, room, stored):
        assert not ledger.still_asks(stored, under_id(room, stored, "7").questions)

        room.saw(stored, under_id(room, stored, "7"))

        (reply,) = ledger.answer_in_store(stored)
        assert (room.row(stored).answer_delivery, reply.key) == (Delivery.STORED, "7")
        assert room.due(stored)[0] == room.now, "it is delivered at once"

    def test_i4_once_an_answer_has_left_the_same_words_under_another_id_are_asked_anew(self, room, stored):
        """What was answered was the other one; whether this is a repetition, nobody can tell."""
        settled(room, stored, permit(room, stored), Delivery.SENT)

        room.saw(stored, under_id(room, stored, "7"))

        assert (room.row(stored).round, room.row(stored).answer_delivery) == (2, None)

    def test_i4_the_same_id_with_other_words_is_a_new_round(self, room, stored):
        room.saw(stored, room.asking(stored, "Something else?"))

        assert room.row(stored).round == 2
        assert room.given(stored).delivery == Delivery.SUPERSEDED

    def test_i7_an_answered_question_that_is_shown_again_is_no_new_round(self, room, stored):
        settled(room, stored, permit(room, stored), Delivery.SENT)

        room.saw(stored, room.asking(stored))

        row = room.row(stored)
        assert (row.round, row.answer_delivery) == (1, Delivery.SENT)

    def test_i4_the_same_words_after_the_server_had_moved_on_are_a_new_round(self, room, stored):
        settled(room, stored, permit(room, stored), Delivery.SENT)
        room.saw(stored, room.working(stored))

        room.saw(stored, room.asking(stored))

        assert (room.row(stored).round, room.row(stored).answer_delivery) == (2, None)

    def test_a_question_with_what_the_database_cannot_hold_is_kept_readable(self, room):
        operation = room.at(State.WORKING)

        room.saw(operation, room.asking(operation, "NUL \x00 and half a pair \ud800"))

        assert "\x00" not in room.round(operation).questions[0]["message"]


class TestAnswer:
    def test_i6_is_stored_first_and_wakes_the_drive(self, room, asked):
        recorded = room.answer(asked)

        row = room.row(asked)
        assert recorded == ledger.Recorded(operation=asked, round=1, again=False)
        assert (row.answer_delivery, row.round_open) == (Delivery.STORED, False)
        assert room.due(asked)[:2] == (room.now, True)
        assert [reply.key for reply in ledger.answer_in_store(asked)] == ["0"]

    def test_i3_of_two_at_once_the_first_wins_and_the_second_is_told_who(self, room, asked):
        came = together(lambda: room.answer(asked, by="ada"), lambda: room.answer(asked, by="bob"))

        (lost,) = [one for one in came if isinstance(one, ledger.RoundGone)]
        assert lost.fate.status == "ANSWERED"
        assert lost.fate.by == room.given(asked).by
        assert {room.given(asked).by, "ada", "bob"} == {"ada", "bob"}
        assert room.journal(asked, kind=JournalKind.REFUSED)[0].detail["won_by"] == lost.fate.by

    def test_r9_the_same_form_twice_is_one_answer(self, room, asked):
        form = uuid.uuid4()
        room.answer(asked, form=form)

        assert room.answer(asked, form=form).again

    def test_r9_the_same_form_posted_twice_at_once_is_one_answer(self, room, asked):
        form = uuid.uuid4()

        came = together(*[lambda: room.answer(asked, form=form)] * 3)

        assert sorted(one.again for one in came) == [False, True, True]

    @pytest.mark.parametrize("after", [True, False])
    def test_r9_whose_commit_was_lost_is_recorded_once(self, room, asked, monkeypatch, after):
        with monkeypatch.context() as patch:
            break_commit(patch, after=after)
            room.answer(asked)

        assert len(room.journal(asked, event="ANSWER_STORED")) == 1

    @pytest.mark.parametrize(
        "what, fate",
        [({"number": 7}, "OTHER_ROUND"), ({"digest": "0" * 64}, "CHANGED")],
    )
    def test_i3_for_another_question_is_refused_with_what_happened(self, room, asked, what, fate):
        with pytest.raises(ledger.RoundGone) as gone:
            room.answer(asked, **what)

        assert (gone.value.fate.status, gone.value.fate.newest_round) == (fate, 1)

    def test_i3_for_a_closed_round_is_refused_with_the_reason(self, room, asked):
        room.saw(asked, room.working(asked))

        with pytest.raises(ledger.RoundGone) as gone:
            room.answer(asked)

        assert (gone.value.fate.status, gone.value.fate.reason) == ("CLOSED", "the server no longer asks")

    def test_i3_for_the_round_before_is_refused(self, room, asked):
        first = room.round(asked)
        room.saw(asked, room.asking(asked, "Something else?"))

        with pytest.raises(ledger.RoundGone):
            room.answer(asked, number=1, digest=first.request_digest)

    def test_c11_against_a_press_at_once_exactly_one_wins(self, room, asked):
        came = together(lambda: room.answer(asked), lambda: room.press(asked))

        delivery = room.row(asked).answer_delivery
        assert room.row(asked).state is State.CANCEL_REQUESTED
        assert delivery is (None if isinstance(came[0], ledger.RoundGone) else Delivery.VOID)


class TestDelivery:
    def test_l4_has_its_permit_before_it_is_sent(self, room, stored):
        permit(room, stored)

        assert room.row(stored).answer_delivery is Delivery.PERMITTED
        assert [one.kind for one in room.permits(stored)] == ["SUBMIT", "ANSWER"]

    def test_of_two_permits_at_once_one_is_given(self, room, stored):
        ticket = room.ticket(stored)

        came = together(*[lambda: permit(room, stored, ticket=ticket)] * 2)

        assert sorted(type(one).__name__ for one in came) == ["PermitDenied", "UUID"]

    @pytest.mark.parametrize(
        "delivery, settlement, is_out",
        [
            (Delivery.SENT, "answered", True),
            (Delivery.UNCERTAIN, "lost", True),
            (Delivery.STORED, "not_sent", False),
        ],
    )
    def test_i7_records_how_sending_went(self, room, stored, delivery, settlement, is_out):
        settled(room, stored, permit(room, stored), delivery)

        assert room.row(stored).answer_delivery is delivery
        assert room.permits(stored)[-1].settlement == settlement
        assert (room.given(stored).sent_at is not None) is is_out

    def test_i6_is_used_when_the_server_has_moved_on(self, room, stored):
        settled(room, stored, permit(room, stored), Delivery.SENT)

        room.saw(stored, room.working(stored))

        assert (room.given(stored).delivery, room.given(stored).used_at) == ("USED", room.now)

    def test_i7_one_in_store_when_the_question_goes_is_superseded(self, room, stored):
        room.saw(stored, room.working(stored))

        assert room.given(stored).delivery == "SUPERSEDED"

    @pytest.mark.parametrize("fence", ["generation", "look", "epoch"])
    def test_p6_no_permit_under_a_ticket_that_no_longer_fits(self, room, stored, fence):
        ticket = room.ticket(stored)
        {"generation": lambda: room.press(stored), "look": lambda: room.claims(stored)}.get(fence, fence_off)()

        with pytest.raises(StaleStep):
            permit(room, stored, ticket=ticket)

        assert [one.kind for one in room.permits(stored)] == ["SUBMIT"]

    def test_a_settlement_without_its_permit_is_refused(self, room, stored):
        with pytest.raises(ledger.RoundGone):
            settled(room, stored, uuid.uuid4(), Delivery.SENT)


class TestC11:
    def test_a_press_voids_what_has_no_permit(self, room, stored):
        room.press(stored)

        assert room.given(stored).delivery == "VOID"
        assert room.round(stored).closed_reason == "a cancel was requested"
        assert ledger.answer_in_store(stored)  # the record stays; only nobody may send it
        with pytest.raises(ledger.PermitDenied):
            permit(room, stored)

    def test_an_answer_on_its_way_is_not_called_used_and_is_listed(self, rooms):
        room = rooms(effect="EXTERNAL")
        operation = room.at(State.INPUT_REQUIRED)
        room.answer(operation)
        permit(room, operation)
        room.press(operation)
        assert room.given(operation).delivery == "PERMITTED"
        given = uuid.uuid4()
        room.step(ledger.permit_cancel, operation, permit=given)

        room.step(ledger.cancel_won, operation, permit=given, exchanges=seen())

        assert room.effect(operation).facts == [{"what": "answer out", "round": 1, "delivery": "PERMITTED"}]


class TestPage:
    def test_i1_opening_it_brings_one_look_forward_and_then_none_for_a_while(self, room, asked):
        opened = [ledger.open_round_page(asked, round=1, now=room.later(seconds)) for seconds in (0, 5, 11)]

        assert opened == [True, False, True]
        assert room.due(asked)[1] is True

    def test_a_closed_round_brings_none(self, room, stored):
        assert not ledger.open_round_page(stored, round=1, now=room.now)

    def test_a_claim_is_a_courtesy_and_can_be_given_back(self, room, asked):
        ledger.claim_round(asked, round=1, by="person:ada", now=room.now)
        assert room.round(asked).claimed_by == "person:ada"

        ledger.release_round(asked, round=1, by="person:ada", now=room.now)

        assert (room.round(asked).claimed_by, room.round(asked).claimed_at) == ("", None)
        room.answer(asked, by="person:bob")


def test_b_the_digest_of_a_request_is_over_every_question_with_its_key():
    one, other = question("A", key="0"), question("A", key='"0"')

    assert ledger.request_digest([one]) != ledger.request_digest([other])
    assert ledger.request_digest([one, other]) != ledger.request_digest([other, one])


def test_p5_when_our_waiting_ends_an_answer_that_is_out_is_not_called_used(room, stored):
    settled(room, stored, permit(room, stored), Delivery.SENT)

    named = {"event": Event.BUDGET_ENDED, "reason": Reason.BUDGET_ENDED, "next_at": room.later()}
    room.step(ledger.hand_to_person, stored, **named)

    assert room.given(stored).delivery == "SENT"
