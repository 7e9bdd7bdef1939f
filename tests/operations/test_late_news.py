"""Late, doubled and reordered facts: none makes a second submit, a second receipt, or a success nobody validated.

Each test is a way in which news of an earlier send reaches an operation that has gone on without it.
"""

import uuid

import pytest

from adapters.contract import NeedsInput
from operations import ledger
from operations.ledger.permits import NothingIsOut, PermitSettled
from operations.machine import Delivery, Event, IllegalStep, NotFound, Reason, StaleStep, State
from operations.models import Operation, Receipt
from operations.verdicts import Verdict
from tests.operations.room import breaches, question, result, seen


def nothing_created(room, operation, **named):
    told = {"reason": Reason.PROVED_ABSENT, "why": "not there", "next_at": room.later()}
    return room.step(ledger.nothing_created, operation, **(told | named))


def overtaken(room):
    """A submit whose holder was taken for dead; return what only that holder knows."""
    operation = room.submit()
    return operation, *overtakes(room, operation)


def overtakes(room, operation):
    permit, ticket = room.permit(operation), room.ticket(operation)
    room.claims(operation)
    room.step(ledger.submit_lost, operation, why="its holder is gone")
    return permit, ticket


def says_not_sent(room, operation, permit, ticket):
    told = {"permit": permit, "why": "no connection", "misses": 1, "next_at": room.later(), "ticket": ticket}
    with pytest.raises(StaleStep):
        room.step(ledger.submit_not_sent, operation, **told)


def ordered(room, operation, verdict, **content):
    """Two people say so, where it needs two."""
    told = {"seen_version": room.row(operation).version, "by": "person:olga", "reason": "seen there"}
    judged = ledger.judge(operation, verdict, content=content, now=room.now, **told)
    if judged.proposal:
        ledger.confirm(judged.proposal, by="person:otto", now=room.now)


def to_a_person(room, operation):
    named = {"event": Event.NO_LOOKUP, "reason": Reason.SUBMIT_LOST, "next_at": room.later()}
    room.step(ledger.hand_to_person, operation, **named)


def asked_before_a_task(room, operation, message="Which?"):
    told = NeedsInput(task=None, questions=(question(message),), exchanges=seen())
    room.answer_submit(operation, told)


def waiting_for_the_next_attempt(room):
    """A call whose question came before a task, answered, and on its way back to the server."""
    operation = room.submit()
    asked_before_a_task(room, operation)
    room.answer(operation)
    room.step(ledger.go_on, operation)
    return operation


def accepted(room, operation):
    room.saw(operation, room.ended(operation))
    room.step(ledger.fetch_started, operation)
    room.step(ledger.result_fetched, operation, result=result())
    room.step(ledger.accept_result, operation, facts=ledger.Facts.held_by(room.row(operation)))


def delivery(room, operation):
    return room.given(operation).delivery


class TestProofCountsOnce:
    """A send is disproved once, by whoever proves it first (L4, A5)."""

    def test_a5_a_late_proof_of_a_send_that_a_lookup_disproved_frees_no_second_submit(self, room):
        operation, permit, ticket = overtaken(room)
        nothing_created(room, operation)
        ordered(room, operation, Verdict.RESUBMIT)
        room.permit(operation)

        says_not_sent(room, operation, permit, ticket)

        row = room.row(operation)
        assert (row.sends, row.sends_disproved, row.nothing_sent) == (2, 1, False)
        with pytest.raises(ledger.PermitDenied):
            room.permit(operation)
        assert breaches(operation) == []

    def test_x2_nor_does_it_take_back_what_the_lookup_has_proved(self, room):
        operation, permit, ticket = overtaken(room)
        nothing_created(room, operation)

        says_not_sent(room, operation, permit, ticket)

        assert room.row(operation).nothing_sent
        ordered(room, operation, Verdict.NEVER_CREATED)
        assert breaches(operation) == []

    def test_a5_nor_one_of_a_send_whose_question_a_lookup_found(self, room):
        operation, permit, ticket = overtaken(room)
        room.saw(operation, NeedsInput(task=None, questions=(question("Which?"),), exchanges=seen()))
        room.answer(operation)
        room.step(ledger.go_on, operation)
        room.permit(operation)

        says_not_sent(room, operation, permit, ticket)

        assert not room.row(operation).nothing_sent
        with pytest.raises(ledger.PermitDenied):
            room.permit(operation)

    def test_c9_nor_does_it_shake_the_receipt_of_a_cancel(self, room):
        operation, permit, ticket = overtaken(room)
        room.press(operation)
        nothing_created(room, operation)

        says_not_sent(room, operation, permit, ticket)

        assert room.receipt(operation).verdict == "never sent"
        assert breaches(operation) == []


class TestSecondTask:
    """One key that has brought two tasks goes to a person, whichever of them was heard of first (A5, B202)."""

    def test_a5_the_answer_to_a_resubmission_after_the_first_ones_task_turned_up(self, room):
        operation, permit, ticket = overtaken(room)
        nothing_created(room, operation)
        ordered(room, operation, Verdict.RESUBMIT)
        second, in_charge = room.permit(operation), room.ticket(operation)
        room.comes_late(operation, room.working(operation), permit=permit, ticket=ticket)

        told = {"permit": second, "seen": room.working(operation, task_id="second"), "next_at": room.later()}
        with pytest.raises(ledger.IdentityChanged):
            room.step(ledger.submit_answered, operation, ticket=in_charge, **told)

        row = room.row(operation)
        assert (row.state, row.reason, row.task_id) == (State.UNKNOWN, Reason.ID_CLASH, f"task-of-{operation}")
        assert room.journal(operation, event="ID_CLASH")[-1].detail["also"] == "second"
        assert breaches(operation) == []

    def test_x4_the_answer_to_a_lost_submit_after_a_person_bound_another_task(self, room):
        operation, permit, ticket = overtaken(room)
        to_a_person(room, operation)
        ordered(room, operation, Verdict.FOUND, task_id="found")

        room.comes_late(operation, room.working(operation), permit=permit, ticket=ticket)

        assert room.row(operation).reason == Reason.ID_CLASH
        assert breaches(operation) == []

    def test_an_id_that_cannot_be_stored_and_comes_late_stays_in_evidence(self, room):
        operation, permit, ticket = overtaken(room)

        room.comes_late(operation, room.working(operation, task_id="a\x00b"), permit=permit, ticket=ticket)

        assert (room.row(operation).task_id, room.evidence(operation)) == (None, 1)


class TestAnswerBeforeATask:
    """An answer that travels with the next attempt of its call has a fate, whatever comes first (C11, I6, I7)."""

    def test_c11_a_press_voids_it_while_it_waits(self, room):
        operation = waiting_for_the_next_attempt(room)

        assert room.press(operation).press is ledger.Press.CLOSED_UNSENT

        assert (delivery(room, operation), room.receipt(operation).outcome) == (Delivery.VOID, "CANCELLED")
        assert breaches(operation) == []

    def test_i7_a_task_that_turns_up_late_supersedes_it(self, room):
        operation, permit, ticket = overtaken(room)
        room.saw(operation, NeedsInput(task=None, questions=(question("Which?"),), exchanges=seen()))
        room.answer(operation)
        room.step(ledger.go_on, operation)

        room.comes_late(operation, room.working(operation), permit=permit, ticket=ticket)
        room.saw(operation, room.working(operation))

        assert (delivery(room, operation), room.row(operation).state) == (Delivery.SUPERSEDED, State.WORKING)
        assert breaches(operation) == []

    def test_x2_i7_it_goes_with_the_next_attempt_when_its_own_was_turned_away(self, room):
        """The same bytes are sent again, and the answer is among them: nobody is asked a second time."""
        operation = waiting_for_the_next_attempt(room)
        permit = room.permit(operation)
        nothing_created(room, operation, reason=Reason.ADMIN_REFUSAL, permit=permit)

        ordered(room, operation, Verdict.RESUBMIT)

        going = ledger.continuation(operation)
        assert (delivery(room, operation), [reply.key for reply in going.replies]) == (Delivery.STORED, ["0"])
        assert breaches(operation) == []

    def test_c11_a_press_while_it_may_be_on_its_way_voids_it_once_it_is_proved_unsent(self, room):
        operation = waiting_for_the_next_attempt(room)
        permit, ticket = room.permit(operation), room.ticket(operation)
        assert room.press(operation).press is ledger.Press.INTENT

        says_not_sent(room, operation, permit, ticket)
        room.step(ledger.close_unsent, operation)

        assert (delivery(room, operation), room.receipt(operation).outcome) == (Delivery.VOID, "CANCELLED")
        assert breaches(operation) == []

    def test_i7_it_is_superseded_when_a_person_closes_the_call(self, room):
        operation = waiting_for_the_next_attempt(room)
        permit = room.permit(operation)
        nothing_created(room, operation, reason=Reason.ADMIN_REFUSAL, permit=permit)

        room.now = room.row(operation).budget_ends_at
        named = {"event": Event.BUDGET_ENDED, "reason": Reason.BUDGET_ENDED, "next_at": room.later()}
        room.step(ledger.hand_to_person, operation, **named)
        ordered(room, operation, Verdict.GAVE_UP)

        assert delivery(room, operation) == Delivery.SUPERSEDED
        assert breaches(operation) == []

    def test_i7_it_is_superseded_when_its_attempt_is_refused(self, room):
        operation = waiting_for_the_next_attempt(room)
        permit = room.permit(operation)

        room.step(ledger.refuse, operation, reason=Reason.REQUEST_REFUSED, why="no such argument", permit=permit)

        assert delivery(room, operation) == Delivery.SUPERSEDED
        assert Receipt.objects.get(operation_id=operation).outcome == "REFUSED"
        assert breaches(operation) == []


def test_x2_a_call_that_asked_before_its_next_attempt_was_turned_away_has_a_way_out(room):
    """The tool has run up to its question: nobody may say "never created", but it can be sent again or given up."""
    operation = waiting_for_the_next_attempt(room)
    nothing_created(room, operation, reason=Reason.ADMIN_REFUSAL, permit=room.permit(operation))

    allowed = {one.verdict for one in ledger.verdict_options(operation) if one.allowed}

    assert {Verdict.RESUBMIT, Verdict.GAVE_UP} <= allowed
    assert Verdict.NEVER_CREATED not in allowed


class TestEndAfterTheReceipt:
    """An end that comes after the receipt is held against it and decides nothing (C4, R10, F4)."""

    def late(self, room, operation, status, ticket):
        with pytest.raises(StaleStep):
            room.saw(operation, room.ended(operation, status), ticket=ticket)

    def test_c4_f4_a_completion_seen_before_the_cancel_won_and_told_after_it_stands_in_the_effect_record(self, rooms):
        room = rooms(effect="EXTERNAL")
        operation = room.at(State.CANCEL_REQUESTED)
        ticket = room.ticket(operation)
        room.claims(operation)
        room.saw(operation, room.ended(operation, "cancelled"))

        self.late(room, operation, "completed", ticket)

        assert [fact["what"] for fact in room.effect(operation).facts] == ["late completed"]
        assert (room.receipt(operation).outcome, room.outbox(operation)) == ("CANCELLED", 1)
        assert breaches(operation) == []

    def test_r10_another_end_than_the_accepted_one_disputes_the_receipt(self, room):
        operation = room.at(State.WORKING)
        ticket = room.ticket(operation)
        room.claims(operation)
        accepted(room, operation)

        self.late(room, operation, "failed", ticket)

        assert (room.row(operation).state, room.row(operation).disputed) == (State.ACCEPTED, True)
        assert room.receipt(operation).outcome == "SUCCESS"
        assert room.journal(operation)[-1].detail == {"status": "failed"}
        assert breaches(operation) == []

    def test_f2_the_accepted_end_told_again_disputes_nothing(self, room):
        operation = room.at(State.WORKING)
        ticket = room.ticket(operation)
        room.claims(operation)
        accepted(room, operation)

        self.late(room, operation, "completed", ticket)

        assert not room.row(operation).disputed
        assert "LATE_END" not in room.events(operation)

    def test_c6_the_end_of_a_call_that_a_person_has_given_up_is_told_to_whoever_settles_its_effects(self, rooms):
        room = rooms(effect="EXTERNAL")
        operation = room.at(State.UNKNOWN)
        ticket = room.ticket(operation)
        ordered(room, operation, Verdict.GAVE_UP)

        with pytest.raises(IllegalStep):
            room.saw(operation, room.ended(operation), ticket=ticket)

        assert "late completed" in [fact["what"] for fact in room.effect(operation).facts]
        assert room.receipt(operation).result is None
        assert breaches(operation) == []

    def test_r2_what_an_earlier_end_brought_is_never_accepted_as_the_result_of_a_later_one(self, rooms):
        room = rooms(output_schema={"type": "object", "required": ["n"]})
        operation = room.at(State.FETCHING_RESULT)
        room.step(ledger.result_fetched, operation, result=result())
        named = {"reason": Reason.RESULT_INVALID, "findings": ("no n",), "next_at": room.later()}
        room.step(ledger.result_unusable, operation, **named)
        room.saw(operation, room.working(operation))

        room.saw(operation, room.ended(operation))

        row = room.row(operation)
        assert (row.state, row.result_digest, row.fetches) == (State.TERMINAL_OBSERVED, None, 0)


class TestSecondPerson:
    """A verdict stands on what its person knew: a look that saw nothing new takes nothing from it (X4, W)."""

    def proposed(self, room, operation):
        told = {"seen_version": room.row(operation).version, "by": "person:olga", "reason": "their log says so"}
        outside = {"outcome": "done"}
        return ledger.judge(operation, Verdict.ESTABLISHED_OUTSIDE, content=outside, now=room.now, **told).proposal

    def test_w_may_take_longer_than_from_one_look_to_the_next(self, room):
        operation = room.at(State.UNKNOWN)
        proposal = self.proposed(room, operation)
        for _ in range(3):
            room.saw(operation, room.absent())
        ledger.look_now(operation, by="person:otto", now=room.now)

        ledger.confirm(proposal, by="person:otto", now=room.now)

        assert room.receipt(operation).decided_by == "person:olga and person:otto"
        assert breaches(operation) == []

    @pytest.mark.parametrize("news", ["another status", "a message", "a cancel", "an end and back"])
    def test_r9_what_they_could_not_know_makes_it_stale(self, room, news):
        operation = room.at(State.UNKNOWN)
        room.now = room.row(operation).budget_ends_at
        room.saw(operation, room.working(operation))
        proposal = self.proposed(room, operation)

        if news == "another status":
            room.saw(operation, room.absent())
        elif news == "a message":
            room.saw(operation, room.working(operation, message="41 of 900"))
        elif news == "a cancel":
            room.press(operation)
        else:
            room.saw(operation, room.ended(operation))
            room.saw(operation, room.ended(operation, "failed"))

        with pytest.raises(StaleStep):
            ledger.confirm(proposal, by="person:otto", now=room.now)
        assert room.receipt(operation) is None

    def test_i7_a_task_that_a_person_found_supersedes_the_answer_that_waited_for_the_next_attempt(self, room):
        operation = waiting_for_the_next_attempt(room)
        nothing_created(room, operation, reason=Reason.ADMIN_REFUSAL, permit=room.permit(operation))

        ordered(room, operation, Verdict.FOUND, task_id=f"found-{operation}")

        assert delivery(room, operation) == Delivery.SUPERSEDED
        assert breaches(operation) == []


class TestExpired:
    """A task that is gone: what is in evidence by then decides (X3, F9)."""

    @pytest.fixture
    def fetched(self, room):
        operation = room.at(State.FETCHING_RESULT)
        room.step(ledger.result_fetched, operation, result=result())
        return operation

    def accept(self, room, operation):
        room.step(ledger.accept_result, operation, facts=ledger.Facts.held_by(room.row(operation)))
        return room.receipt(operation).outcome

    def test_x3_f9_with_its_end_and_its_result_in_evidence_acceptance_goes_on(self, room, fetched):
        room.saw(fetched, room.absent())

        row = room.row(fetched)
        assert (row.state, room.due(fetched)[:2]) == (State.FETCHING_RESULT, (room.now, True))
        assert Operation.objects.get(id=fetched).not_found == NotFound.EXPIRED_WITH_RECEIPT
        assert self.accept(room, fetched) == "SUCCESS"
        assert breaches(fetched) == []

    def test_x3_a_person_who_says_that_it_ended_gets_the_stored_bytes_checked_like_any_result(self, room, fetched):
        named = {"event": Event.BUDGET_ENDED, "reason": Reason.BUDGET_ENDED, "next_at": room.later()}
        room.step(ledger.hand_to_person, fetched, **named)

        ordered(room, fetched, Verdict.EVIDENCED)

        assert (room.row(fetched).state, room.receipt(fetched)) == (State.TERMINAL_OBSERVED, None)
        room.step(ledger.fetch_started, fetched)
        assert self.accept(room, fetched) == "SUCCESS"
        assert breaches(fetched) == []

    def test_r2_nobody_can_say_so_of_a_result_that_was_refused(self, room, fetched):
        named = {"reason": Reason.RESULT_INVALID, "findings": ("a secret key",), "next_at": room.later()}
        room.step(ledger.result_unusable, fetched, **named)

        with pytest.raises(ledger.NotAllowedByEvidence):
            ordered(room, fetched, Verdict.EVIDENCED)

        assert room.receipt(fetched) is None


class TestAnswerThatNeverLeft:
    """The proof that an answer did not leave counts, however late it comes (P6, I7, C11)."""

    def leaves(self, room, operation):
        permit = uuid.uuid4()
        room.step(ledger.permit_answer, operation, permit=permit)
        return permit, room.ticket(operation)

    def says_not_sent(self, room, operation, permit, ticket):
        told = {"permit": permit, "delivery": Delivery.STORED, "why": "no connection", "next_at": room.later()}
        with pytest.raises(StaleStep):
            room.step(ledger.answer_settled, operation, ticket=ticket, **told)

    @pytest.fixture
    def stored(self, rooms):
        room = rooms(effect="EXTERNAL")
        operation = room.at(State.INPUT_REQUIRED)
        room.answer(operation)
        return room, operation

    def test_p6_it_goes_out_again_while_its_question_stands(self, stored):
        room, operation = stored
        permit, ticket = self.leaves(room, operation)
        room.claims(operation)
        room.step(ledger.answer_in_doubt, operation)

        self.says_not_sent(room, operation, permit, ticket)

        assert delivery(room, operation) == Delivery.STORED
        assert room.due(operation)[:2] == (room.now, True)
        self.leaves(room, operation)
        assert breaches(operation) == []

    def test_c11_under_a_cancel_it_is_void_and_no_effect_record_lists_it_as_out(self, stored):
        room, operation = stored
        permit, ticket = self.leaves(room, operation)
        room.press(operation)

        self.says_not_sent(room, operation, permit, ticket)
        room.saw(operation, room.ended(operation, "cancelled"))

        assert (delivery(room, operation), room.effect(operation).facts) == (Delivery.VOID, [])
        assert breaches(operation) == []

    def test_i7_of_one_that_was_repeated_it_says_nothing(self, stored):
        room, operation = stored
        permit, ticket = self.leaves(room, operation)
        room.claims(operation)
        room.step(ledger.answer_in_doubt, operation)
        room.step(ledger.permit_answer, operation, permit=uuid.uuid4(), again=True)

        self.says_not_sent(room, operation, permit, ticket)

        assert delivery(room, operation) == Delivery.PERMITTED
        with pytest.raises(ledger.PermitDenied):
            self.leaves(room, operation)


def test_l4_a_proof_that_is_told_twice_counts_once(room):
    """Told twice under one ticket it would outweigh a replay, or a newer submit, that may have arrived."""
    operation = room.submit()
    told = {"permit": room.permit(operation), "why": "no connection", "misses": 1, "next_at": room.later()}
    room.step(ledger.submit_not_sent, operation, **told)
    room.permit(operation)

    with pytest.raises(PermitSettled):
        room.step(ledger.submit_not_sent, operation, **told)

    row = room.row(operation)
    assert (row.sends, row.sends_disproved) == (2, 1)
    assert breaches(operation) == []


@pytest.mark.parametrize("again", ["not_sent", "lost"])
def test_l4_a_replay_that_is_told_twice_counts_once(room, again):
    operation = room.at(State.SUBMISSION_UNKNOWN)
    replays = [uuid.uuid4(), uuid.uuid4()]
    for permit in replays:
        room.step(ledger.permit_replay, operation, permit=permit)
    told = {"permit": replays[0], "why": "", "misses": 1, "next_at": room.later()}
    room.step(ledger.replay_failed, operation, settlement="not_sent", **told)

    with pytest.raises(PermitSettled):
        room.step(ledger.replay_failed, operation, settlement=again, **told)

    assert room.row(operation).replays == 1


def test_l4_i7_before_the_next_attempt_has_left_it_cannot_be_lost(room):
    """The answer that it carries has gone nowhere."""
    operation = waiting_for_the_next_attempt(room)

    with pytest.raises(NothingIsOut):
        room.step(ledger.submit_lost, operation, why="its holder is gone")

    row = room.row(operation)
    assert (row.state, row.answer_delivery) == (State.SUBMITTING, Delivery.STORED)
    assert breaches(operation) == []
