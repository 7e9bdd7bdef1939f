"""Votes under a round's policy: one door, rights of the moment, the very same answer (I3, I5, R9, W)."""

import uuid
from datetime import timedelta

import pytest

from operations import ledger
from operations.approval import Bar, Policy
from operations.ledger import Note
from operations.machine import Delivery
from operations.models import Answer, AuditEvent, Vote
from tests.approvers import approver, everybody
from tests.operations.room import together

TWO = Policy(needed=2)


def note(room):
    return Note(by="person:adam", reason="two heads", now=room.now)


@pytest.fixture
def asked(room):
    """An operation whose round was opened under a policy."""

    def under(policy, **call):
        ledger.set_approval(policy, server=room.server, tool="tool", note=note(room))
        operation = room.submit(**call)
        room.answer_submit(operation, room.working(operation))
        room.saw(operation, room.asking(operation))
        return operation

    return under


def vote(room, operation, by, *, content='{"ok": true}', action="accept", people=everybody, form=None, comment=""):
    asked = room.round(operation)
    reply = {"action": action, "content": content if action == "accept" else None}
    return ledger.answer_round(
        operation,
        round=asked.number,
        request_digest=asked.request_digest,
        as_shown_digest="0" * 64,
        form_id=form or uuid.uuid4(),
        replies=[ledger.GivenReply(key=one["key"], **reply) for one in asked.questions],
        by=by,
        people=people,
        comment=comment,
        now=room.now,
    )


class TestSeveralHaveToAgree:
    def test_the_first_vote_is_a_proposal_and_nothing_leaves(self, room, asked):
        operation = asked(TWO)

        recorded = vote(room, operation, "person:ada")

        assert (recorded.decided, recorded.missing) == (False, 1)
        assert room.round(operation).status == "OPEN"
        assert room.given(operation) is None
        assert room.row(operation).answer_delivery is None

    def test_the_second_same_answer_decides(self, room, asked):
        operation = asked(TWO)
        vote(room, operation, "person:ada")

        recorded = vote(room, operation, "person:bob", content='{ "ok" : true }')

        assert recorded.decided
        assert room.given(operation).by == "person:bob"
        assert room.row(operation).answer_delivery is Delivery.STORED
        assert room.journal(operation, event="ANSWER_STORED")[0].detail["agreed"] == ["person:ada", "person:bob"]

    def test_a_different_answer_does_not(self, room, asked):
        operation = asked(TWO)
        vote(room, operation, "person:ada")

        recorded = vote(room, operation, "person:bob", content='{"ok": false}')

        assert not recorded.decided
        assert Vote.objects.filter(round=room.round(operation), withdrawn_at=None).count() == 2
        assert room.given(operation) is None

    def test_the_same_person_twice_is_one_vote(self, room, asked):
        """Two tabs, two forms, one pair of eyes."""
        operation = asked(TWO)
        vote(room, operation, "person:ada")

        recorded = vote(room, operation, "person:ada")

        assert not recorded.decided
        assert Vote.objects.filter(round=room.round(operation), withdrawn_at=None).count() == 1

    def test_the_same_form_twice_is_told_the_same(self, room, asked):
        operation, form = asked(TWO), uuid.uuid4()
        vote(room, operation, "person:ada", form=form)

        again = vote(room, operation, "person:ada", form=form)

        assert again.again
        assert room.events(operation).count("VOTE_STORED") == 1

    def test_two_at_the_same_moment_make_one_answer(self, room, asked):
        operation = asked(TWO)

        came = together(lambda: vote(room, operation, "person:ada"), lambda: vote(room, operation, "person:bob"))

        assert sorted(recorded.decided for recorded in came) == [False, True]
        assert Answer.objects.filter(round=room.round(operation)).count() == 1

    def test_one_decline_ends_it_as_declined(self, room, asked):
        operation = asked(Policy(needed=3))
        vote(room, operation, "person:ada")

        recorded = vote(room, operation, "person:bob", action="decline")

        assert recorded.decided
        assert room.given(operation).replies[0]["action"] == "decline"

    def test_the_deadline_passes_while_people_vote(self, room, asked):
        """Half an agreement approves nothing (I5)."""
        operation = asked(TWO)
        vote(room, operation, "person:ada")
        room.now += timedelta(minutes=31)

        with pytest.raises(ledger.RoundGone) as gone:
            vote(room, operation, "person:bob")

        assert gone.value.fate.status == "EXPIRED"
        assert room.given(operation) is None

    def test_votes_stand_when_the_round_gets_more_time(self, room, asked):
        operation = asked(TWO)
        vote(room, operation, "person:ada")
        room.now += timedelta(minutes=31)
        room.step(ledger.expire_round, operation, next_at=room.later())
        ledger.extend_round(operation, round=1, until=room.later(600), by="person:olga", now=room.now)

        assert vote(room, operation, "person:bob").decided


class TestTakingAVoteBack:
    def test_it_counts_no_more(self, room, asked):
        operation = asked(TWO)
        vote(room, operation, "person:ada")
        ledger.withdraw_vote(operation, round=1, by="person:ada", now=room.now)

        assert not vote(room, operation, "person:bob").decided

    def test_nobody_takes_back_what_is_not_theirs(self, room, asked):
        operation = asked(TWO)
        vote(room, operation, "person:ada")

        with pytest.raises(ledger.NoVote):
            ledger.withdraw_vote(operation, round=1, by="person:bob", now=room.now)

    def test_an_answer_that_is_bound_is_not_taken_back(self, room, asked):
        operation = asked(Policy())
        vote(room, operation, "person:ada")

        with pytest.raises(ledger.RoundGone):
            ledger.withdraw_vote(operation, round=1, by="person:ada", now=room.now)


class TestWhoMay:
    def test_b183_whoever_asked_may_not_answer_under_four_eyes(self, room, asked):
        operation = asked(Policy(four_eyes=True), principal="ada")

        with pytest.raises(ledger.MayNotDecide) as refused:
            vote(room, operation, "person:ada")

        assert refused.value.bar is Bar.OWN_REQUEST
        assert room.round(operation).status == "OPEN"
        assert room.journal(operation, event="MayNotDecide")[0].detail["bar"] == "OWN_REQUEST"

    def test_b183_without_the_policy_it_is_allowed_and_recorded(self, room, asked):
        operation = asked(Policy(), principal="ada")

        assert vote(room, operation, "person:ada").decided
        assert room.given(operation).by == "person:ada"

    @pytest.mark.parametrize(
        "rights, bar",
        [
            ({"approves": False}, Bar.NO_ROLE),
            ({"servers": frozenset({"elsewhere"})}, Bar.OTHER_SERVER),
        ],
    )
    def test_b182_rights_are_those_of_the_moment_of_the_answer(self, room, asked, rights, bar):
        operation = asked(Policy())

        with pytest.raises(ledger.MayNotDecide) as refused:
            vote(room, operation, "person:ada", people=lambda names: {n: approver(n, **rights) for n in names})

        assert refused.value.bar is bar

    def test_b182_a_vote_of_somebody_who_lost_the_role_since_counts_no_more(self, room, asked):
        operation = asked(TWO)
        vote(room, operation, "person:ada")

        def without_ada(names):
            return {name: approver(name, approves=name != "person:ada") for name in names}

        assert not vote(room, operation, "person:bob", people=without_ada).decided

    def test_a_comment_the_policy_wants_is_wanted_by_the_ledger_too(self, room, asked):
        operation = asked(Policy(comment=True))

        with pytest.raises(ledger.MayNotDecide) as refused:
            vote(room, operation, "person:ada")

        assert refused.value.bar is Bar.NO_COMMENT
        assert vote(room, operation, "person:ada", comment="checked the list").decided

    def test_an_open_round_keeps_the_policy_it_was_opened_under(self, room, asked):
        """Nobody loosens what has been asked."""
        operation = asked(TWO)
        ledger.set_approval(Policy(), server=room.server, tool="tool", note=note(room))

        assert not vote(room, operation, "person:ada").decided

    def test_a_tool_without_a_policy_takes_the_one_of_its_side_effects(self, rooms):
        room = rooms(effect="EXTERNAL")
        ledger.set_approval(TWO, effect="EXTERNAL", note=note(room))
        try:
            operation = room.submit()
            room.answer_submit(operation, room.working(operation))
            room.saw(operation, room.asking(operation))

            assert room.round(operation).policy["needed"] == 2
        finally:
            ledger.set_approval(None, effect="EXTERNAL", note=note(room))


class TestAudit:
    def test_what_a_person_did_stands_there_once(self, room, asked):
        operation = asked(TWO)
        vote(room, operation, "person:ada")

        [row] = AuditEvent.objects.filter(target=f"operation:{operation}", by="person:ada")

        assert (row.what, row.outcome, row.server) == ("VOTE_STORED", "DONE", room.server)

    def test_what_a_person_was_refused_stands_there_too(self, room, asked):
        operation = asked(Policy(four_eyes=True), principal="ada")
        with pytest.raises(ledger.MayNotDecide):
            vote(room, operation, "person:ada")

        [row] = AuditEvent.objects.filter(target=f"operation:{operation}", by="person:ada")

        assert (row.what, row.outcome) == ("MayNotDecide", "REFUSED")
        assert "OWN_REQUEST" in row.reason

    def test_no_answer_and_no_argument_stands_in_it(self, room, asked):
        operation = asked(Policy(), arguments=b'{"card": "4111-1111"}')
        vote(room, operation, "person:ada", content='{"ok": true, "pin": "9876"}')

        told = str(list(AuditEvent.objects.filter(target=f"operation:{operation}").values()))

        assert "9876" not in told
        assert "4111" not in told

    def test_what_an_executor_does_is_the_journals(self, room):
        operation = room.submit()
        room.answer_submit(operation, room.working(operation))

        assert not AuditEvent.objects.filter(target=f"operation:{operation}", by="executor").exists()

    def test_a_row_carries_where_it_comes_from(self, room, asked):
        operation = asked(Policy())
        with ledger.coming_from(ledger.Origin(by="person:ada", ip="10.1.2.3", session="abc")) as origin:
            vote(room, operation, "person:somebody-else")

        row = AuditEvent.objects.get(target=f"operation:{operation}", what="ANSWER_STORED")

        assert (row.by, row.ip, row.session) == ("person:ada", "10.1.2.3", "abc")
        assert origin.written == 1
