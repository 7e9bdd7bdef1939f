"""Who may answer, and when enough people have (I3): pure arithmetic."""

from datetime import UTC, datetime, timedelta

import pytest

from operations.approval import Ballot, Bar, Matter, Policy, decides, may_decide, tally
from tests.approvers import approver

NOON = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
MATTER = Matter(server="shop", principal="ann")
ADA, BOB, CY = (approver(f"person:{name}") for name in ("ada", "bob", "cy"))


def ballot(person, digest="yes", *, accepts=True, minute=0):
    return Ballot(by=person.by, digest=digest, accepts=accepts, at=NOON + timedelta(minutes=minute))


def rights(*people):
    return {person.by: person for person in people}


class TestMayDecide:
    def test_an_approver_may_where_nothing_else_is_asked(self):
        assert may_decide(Policy(), MATTER, ADA) is None

    def test_somebody_unknown_may_not(self):
        assert may_decide(Policy(), MATTER, None) is Bar.NO_ROLE

    @pytest.mark.parametrize(
        "person, policy, bar",
        [
            (approver("person:ada", approves=False), Policy(), Bar.NO_ROLE),
            (approver("person:ada", servers=frozenset({"bank"})), Policy(), Bar.OTHER_SERVER),
            (approver("person:ada", servers=frozenset()), Policy(), Bar.OTHER_SERVER),
            (ADA, Policy(team="finance"), Bar.OTHER_TEAM),
            (approver("person:ann"), Policy(four_eyes=True), Bar.OWN_REQUEST),
        ],
    )
    def test_each_bar_stands_by_itself(self, person, policy, bar):
        assert may_decide(policy, MATTER, person) is bar

    @pytest.mark.parametrize("principal", ["ann", "ANN ", "person:ann", "ann@example.org"])
    def test_four_eyes_knows_a_person_under_every_name_a_call_may_carry(self, principal):
        ann = approver("person:ann", names=frozenset({"ann", "ann@example.org"}))

        assert may_decide(Policy(four_eyes=True), Matter(server="shop", principal=principal), ann) is Bar.OWN_REQUEST

    def test_without_four_eyes_one_may_answer_for_oneself(self):
        assert may_decide(Policy(), MATTER, approver("person:ann")) is None

    @pytest.mark.parametrize(
        "comment, bar", [("", Bar.NO_COMMENT), ("  \n", Bar.NO_COMMENT), ("why", None), (None, None)]
    )
    def test_a_comment_is_asked_for_only_with_an_answer(self, comment, bar):
        assert may_decide(Policy(comment=True), MATTER, ADA, comment=comment) is bar


class TestTally:
    def test_one_approver_is_enough_by_default(self):
        counted = tally(Policy(), MATTER, [ballot(ADA)], rights(ADA))

        assert decides(counted, ballot(ADA))

    def test_two_people_have_to_give_the_very_same_answer(self):
        policy = Policy(needed=2)
        differing = [ballot(ADA, "yes"), ballot(BOB, "no", minute=1)]

        counted = tally(policy, MATTER, differing, rights(ADA, BOB))

        assert counted.disagree
        assert counted.missing("yes") == counted.missing("no") == 1
        assert not decides(counted, ballot(BOB, "no"))

    def test_the_third_decides_between_two_who_disagree(self):
        votes = [ballot(ADA, "yes"), ballot(BOB, "no", minute=1), ballot(CY, "no", minute=2)]

        counted = tally(Policy(needed=2), MATTER, votes, rights(ADA, BOB, CY))

        assert counted.agreeing == {"yes": ("person:ada",), "no": ("person:bob", "person:cy")}
        assert decides(counted, ballot(CY, "no"))

    def test_a_vote_counts_no_more_once_its_giver_has_lost_the_right(self):
        votes = [ballot(ADA), ballot(BOB, minute=1)]
        without = rights(approver("person:ada", approves=False), BOB)

        counted = tally(Policy(needed=2), MATTER, votes, without)

        assert counted.lost == {"person:ada"}
        assert not decides(counted, ballot(BOB))

    def test_a_refusal_needs_nobody_else(self):
        """Only a consent takes several people: a decline ends the round as declined (I3)."""
        counted = tally(Policy(needed=3), MATTER, [ballot(ADA, "refused", accepts=False)], rights(ADA))

        assert decides(counted, ballot(ADA, "refused", accepts=False))


class TestPolicy:
    def test_a_round_keeps_it_whole(self):
        policy = Policy(needed=2, four_eyes=True, team="finance", comment=True, remind_s=(900, 60), escalate_to="leads")

        assert Policy.of(policy.facts()) == policy

    def test_a_round_from_before_there_were_policies_asks_for_one_approver(self):
        assert Policy.of({}) == Policy()
