"""What people decide, and what the evidence lets them (X2 to X4, C6, W)."""

import pytest

from operations import ledger
from operations.machine import FINAL, Event, Reason, StaleStep, State
from operations.models import EffectStatus
from operations.verdicts import Verdict
from tests.operations.room import together


@pytest.fixture
def risky(rooms):
    """A tool that may have effects outside."""
    return rooms(effect="EXTERNAL")


def judge(room, operation, verdict, *, by="person:olga", **named):
    version = named.pop("seen_version", room.row(operation).version)
    return ledger.judge(operation, verdict, seen_version=version, by=by, reason="because", now=room.now, **named)


def lost(room):
    operation = room.at(State.SUBMISSION_UNKNOWN)
    named = {"event": Event.NO_LOOKUP, "reason": Reason.SUBMIT_LOST, "next_at": room.later()}
    room.step(ledger.hand_to_person, operation, **named)
    return operation


class TestLookNow:
    @pytest.mark.parametrize("state", sorted(set(State) - FINAL))
    def test_x4_makes_an_open_operation_due_before_all_others(self, room, state):
        operation = room.at(state)

        ledger.look_now(operation, by="person:olga", now=room.now)

        assert room.due(operation)[:2] == (room.now, True)

    @pytest.mark.parametrize("state", sorted(FINAL))
    def test_an_ended_one_has_nothing_left_to_look_up(self, room, state):
        with pytest.raises(ledger.NotAllowedByEvidence):
            ledger.look_now(room.at(state), by="person:olga", now=room.now)


class TestGiveUp:
    def test_closes_with_a_receipt_that_says_so_and_never_with_a_payload(self, room):
        operation = room.at(State.UNKNOWN)

        judge(room, operation, Verdict.GAVE_UP)

        receipt = room.receipt(operation)
        assert (receipt.outcome, receipt.verdict, receipt.result) == ("RECONCILED", "GAVE_UP", None)
        assert (room.outbox(operation), room.due(operation)) == (1, None)

    def test_w_of_an_effectful_tool_waits_for_a_second_person(self, risky):
        operation = risky.at(State.UNKNOWN)

        judged = judge(risky, operation, Verdict.GAVE_UP)

        assert (risky.row(operation).state, risky.receipt(operation)) == (State.UNKNOWN, None)
        with pytest.raises(ledger.NeedsSecondPerson):
            ledger.confirm(judged.proposal, by="person:olga", now=risky.now)
        ledger.confirm(judged.proposal, by="person:otto", now=risky.now)
        assert risky.receipt(operation).decided_by == "person:olga and person:otto"
        assert risky.effect(operation).cause == "RECONCILED"

    @pytest.mark.parametrize("state", sorted(set(State) - {State.UNKNOWN}))
    def test_x4_not_where_evidence_can_still_settle_it(self, room, state):
        operation = room.at(state)
        receipt = room.receipt(operation)

        with pytest.raises(ledger.NotAllowedByEvidence):
            judge(room, operation, Verdict.GAVE_UP)

        assert room.row(operation).state is state
        assert room.receipt(operation) == receipt

    def test_r9_on_an_old_page_it_is_stale(self, room):
        operation = room.at(State.UNKNOWN)

        with pytest.raises(StaleStep):
            judge(room, operation, Verdict.GAVE_UP, seen_version=1)

    def test_of_two_at_once_one_is_carried_out(self, room):
        operation = room.at(State.UNKNOWN)
        version = room.row(operation).version

        came = together(*[lambda: judge(room, operation, Verdict.GAVE_UP, seen_version=version)] * 3)

        assert sorted(type(one).__name__ for one in came).count("Judged") == 1
        assert room.outbox(operation) == 1


class TestProposal:
    def test_one_that_was_withdrawn_cannot_be_confirmed(self, risky):
        judged = judge(risky, risky.at(State.UNKNOWN), Verdict.GAVE_UP)
        ledger.withdraw(judged.proposal, by="person:otto", now=risky.now)

        with pytest.raises(ledger.NoSuchProposal):
            ledger.confirm(judged.proposal, by="person:otto", now=risky.now)

    def test_evidence_that_came_meanwhile_makes_it_stale(self, risky):
        operation = risky.at(State.UNKNOWN)
        judged = judge(risky, operation, Verdict.GAVE_UP)
        risky.saw(operation, risky.working(operation))

        with pytest.raises(StaleStep):
            ledger.confirm(judged.proposal, by="person:otto", now=risky.now)

    @pytest.mark.parametrize("times", range(4))
    def test_confirmed_and_withdrawn_at_once_only_one_of_them_is_true(self, risky, times):
        operation = risky.at(State.UNKNOWN)
        judged = judge(risky, operation, Verdict.GAVE_UP)

        came = together(
            lambda: ledger.confirm(judged.proposal, by="person:otto", now=risky.now),
            lambda: ledger.withdraw(judged.proposal, by="person:otto", now=risky.now),
        )

        assert sum(isinstance(one, Exception) for one in came) == 1
        carried_out = risky.receipt(operation) is not None
        assert carried_out is isinstance(came[1], Exception)

    def test_w_a_row_that_moved_before_the_lock_may_have_come_to_need_two(self, risky, monkeypatch):
        operation = lost(risky)
        old = risky.row(operation)
        from operations.ledger import desk

        free = desk.Case(row=old, has_effects=False, deduplicates=False)
        monkeypatch.setattr(desk, "_case", lambda _operation: free)
        monkeypatch.setattr(desk, "replace", lambda case, row: desk.Case(row=row, has_effects=True, deduplicates=False))

        with pytest.raises(ledger.NeedsSecondPerson):
            judge(risky, operation, Verdict.GAVE_UP)


class TestFound:
    def test_x4_binds_the_task_and_lets_looking_decide(self, room):
        operation = lost(room)

        judge(room, operation, Verdict.FOUND, content={"task_id": f"found-{operation}"})
        room.saw(operation, room.working(operation, task_id=f"found-{operation}"))

        assert room.row(operation).state is State.WORKING

    def test_p8_not_one_of_another_operation(self, room):
        other, operation = room.at(State.WORKING), lost(room)

        with pytest.raises(ledger.NotAllowedByEvidence, match="P8"):
            judge(room, operation, Verdict.FOUND, content={"task_id": room.row(other).task_id})

    def test_p8_after_a_clash_it_is_looked_at_again(self, room):
        first, operation = room.at(State.WORKING), room.submit()
        room.answer_submit(operation, room.working(operation, task_id=room.row(first).task_id))

        judge(room, operation, Verdict.FOUND, content={"task_id": f"its-own-{operation}"})
        room.saw(operation, room.working(operation, task_id=f"its-own-{operation}"))

        assert room.row(operation).state is State.WORKING

    @pytest.mark.parametrize("task_id", ["", "a\x00b"])
    def test_needs_an_id_that_can_be_one(self, room, task_id):
        with pytest.raises(ledger.NotAllowedByEvidence):
            judge(room, lost(room), Verdict.FOUND, content={"task_id": task_id})


class TestResubmit:
    def test_x2_after_a_repairable_refusal_one_person_is_enough(self, risky):
        operation = risky.at(State.NOT_FOUND_SAFE)

        judge(risky, operation, Verdict.RESUBMIT)

        assert risky.row(operation).state is State.SUBMITTING

    def test_x2_w_after_an_absence_that_was_looked_up_it_needs_two(self, room):
        operation = room.at(State.SUBMISSION_UNKNOWN)
        named = {"reason": Reason.PROVED_ABSENT, "why": "none", "next_at": room.later()}
        room.step(ledger.nothing_created, operation, **named)

        judged = judge(room, operation, Verdict.RESUBMIT)
        assert room.row(operation).state is State.NOT_FOUND_SAFE
        ledger.confirm(judged.proposal, by="person:otto", now=room.now)

        assert room.row(operation).state is State.SUBMITTING

    @pytest.mark.parametrize("state", sorted(set(State) - {State.NOT_FOUND_SAFE}))
    def test_x2_never_without_the_proof(self, room, state):
        operation = room.at(state)

        with pytest.raises(ledger.NotAllowedByEvidence):
            judge(room, operation, Verdict.RESUBMIT)

        assert room.row(operation).state is state


class TestClosing:
    def test_what_was_never_created_is_closed_as_that_without_an_effect_record(self, risky):
        operation = risky.at(State.NOT_FOUND_SAFE)

        judge(risky, operation, Verdict.NEVER_CREATED)

        assert risky.receipt(operation).verdict == "NEVER_CREATED"
        assert risky.effect(operation) is None

    def test_w_an_outcome_established_outside_always_needs_two(self, room):
        operation = room.at(State.UNKNOWN)

        judged = judge(room, operation, Verdict.ESTABLISHED_OUTSIDE, content={"outcome": "done by hand"})
        ledger.confirm(judged.proposal, by="person:otto", now=room.now)

        receipt = room.receipt(operation)
        assert (receipt.outcome, receipt.result) == ("RECONCILED", None)
        assert receipt.verdict == "ESTABLISHED_OUTSIDE: done by hand"

    def test_x3_a_terminal_status_alone_is_no_evidence_of_a_result(self, room):
        operation = room.at(State.FETCHING_RESULT)
        named = {"reason": Reason.RESULT_LOST, "findings": (), "next_at": room.later()}
        room.step(ledger.result_unusable, operation, **named)

        with pytest.raises(ledger.NotAllowedByEvidence, match="alone is not a result"):
            judge(room, operation, Verdict.EVIDENCED)


class TestEffect:
    def test_c6_is_decided_once_and_may_stay_open_with_an_owner_first(self, risky):
        operation = risky.at(State.CANCELLED_ACCEPTED)
        ledger.decide_effect(operation, EffectStatus.STILL_OPEN, by="a", note="", owner="otto", now=risky.now)
        ledger.decide_effect(operation, EffectStatus.COMPENSATED, by="a", note="refunded", now=risky.now)

        with pytest.raises(ledger.EffectDecided):
            ledger.decide_effect(operation, EffectStatus.NONE, by="b", note="", now=risky.now)

        assert risky.effect(operation).status == "COMPENSATED"
        assert risky.row(operation).state is State.CANCELLED_ACCEPTED

    def test_there_must_be_one(self, room):
        with pytest.raises(ledger.EffectDecided):
            ledger.decide_effect(room.at(State.ACCEPTED), EffectStatus.NONE, by="a", note="", now=room.now)


def test_a_desk_item_is_held_by_its_newest_claim_and_given_back_by_its_holder(room):
    operation = room.at(State.UNKNOWN)
    ledger.claim_item(operation, by="a", now=room.now)
    ledger.claim_item(operation, by="b", now=room.now)

    assert not ledger.release_item(operation, by="a", now=room.now)
    assert _holder(operation) == "b"

    assert ledger.release_item(operation, by="b", now=room.now)
    assert _holder(operation) is None


def _holder(operation):
    from operations.models import DeskClaim

    return DeskClaim.objects.filter(operation_id=operation).values_list("by", flat=True).first()


class TestAudit:
    """W: every decision of the desk is noted by the ledger itself, through whatever door it came."""

    def rows(self, operation):
        from operations.models import AuditEvent

        kept = AuditEvent.objects.filter(target=f"operation:{operation}").order_by("id")
        return list(kept.values_list("by", "what", "outcome", "reason"))

    def test_a_claim_and_its_release(self, room):
        operation = room.at(State.UNKNOWN)
        ledger.claim_item(operation, by="person:olga", now=room.now)
        ledger.release_item(operation, by="person:otto", now=room.now)
        ledger.release_item(operation, by="person:olga", now=room.now)

        assert self.rows(operation) == [
            ("person:olga", "ITEM_CLAIMED", "DONE", ""),
            ("person:otto", "ITEM_RELEASED", "REFUSED", "it is not this person's claim"),
            ("person:olga", "ITEM_RELEASED", "DONE", ""),
        ]

    def test_an_effect_record_and_the_decision_that_came_too_late(self, risky):
        operation = risky.at(State.CANCELLED_ACCEPTED)
        before = len(self.rows(operation))
        ledger.decide_effect(operation, EffectStatus.COMPENSATED, by="person:olga", note="refunded", now=risky.now)
        with pytest.raises(ledger.EffectDecided):
            ledger.decide_effect(operation, EffectStatus.NONE, by="person:otto", note="nothing", now=risky.now)

        assert self.rows(operation)[before:] == [
            ("person:olga", "EFFECT_DECIDED", "DONE", "refunded"),
            ("person:otto", "EFFECT_DECIDED", "REFUSED", "there is no open effect record of it"),
        ]

    def test_a_verdict_with_its_reason_and_one_that_the_evidence_does_not_allow(self, room):
        operation = room.at(State.UNKNOWN)
        with pytest.raises(ledger.NotAllowedByEvidence):
            judge(room, operation, Verdict.NEVER_CREATED)
        judge(room, operation, Verdict.GAVE_UP)

        (refused, done) = self.rows(operation)
        assert refused[1:3] == ("NotAllowedByEvidence", "REFUSED")
        assert done[1:3] == ("VERDICT", "DONE")
        assert done[3]

    def test_a_proposal_its_confirmation_and_who_gave_which(self, room):
        operation = room.at(State.UNKNOWN)
        judged = judge(room, operation, Verdict.ESTABLISHED_OUTSIDE, content={"outcome": "done by hand"})
        ledger.confirm(judged.proposal, by="person:otto", now=room.now)

        proposed, confirmed = self.rows(operation)
        assert proposed[1:3] == ("VERDICT_PROPOSED", "DONE")
        assert confirmed[:3] == ("person:otto", "VERDICT", "DONE")
        assert proposed[0] != confirmed[0]
        assert proposed[3] == confirmed[3] != ""
