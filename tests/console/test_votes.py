"""Policies at every entry of the approvers' rooms: the form, the confirmation, the fragment, a post by hand (I3, W)."""

import re

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from operations import ledger
from operations.approval import Policy
from operations.ledger import Note
from operations.models import Answer, AuditEvent, Vote
from operations.queries import rounds
from tests.console import factories as make

pytestmark = pytest.mark.django_db
TWO = Policy(needed=2)


@pytest.fixture
def shop():
    make.server()


@pytest.fixture
def ada(shop):
    return signed_in("ada")


@pytest.fixture
def bob(shop):
    return signed_in("bob")


def signed_in(name, role="approver", **team):
    client = Client()
    client.force_login(make.person(name, role, **team))
    return client


def decide(policy, *, server="shop", tool="change_prices"):
    ledger.set_approval(policy, server=server, tool=tool, note=Note(by="person:adam", reason="", now=timezone.now()))


def asking(policy, **call):
    decide(policy)
    return make.asking(**call)


def address(operation):
    return reverse("round", args=[operation, 1])


def seals(client, operation):
    page = client.get(address(operation)).content.decode()
    return {name: re.findall(rf'name="{name}" value="([^"]+)"', page)[-1] for name in ("round_token", "form_id")}


def give(client, operation, *, ok="true", action="accept", sealed=None, **more):
    sealed = sealed or seals(client, operation)
    return client.post(address(operation), {**sealed, "action": action, "q0f0": ok, **more})


def confirm(client, operation, vote, *, sealed=None, **more):
    sealed = sealed or seals(client, operation)
    return client.post(address(operation), {**sealed, "confirm": str(vote), **more})


def standing(operation):
    return list(Vote.objects.filter(round__operation_id=operation, withdrawn_at=None).order_by("at"))


def page_of(operation):
    return rounds.round_page(operation, number=1)


class TestTwoHaveToAgree:
    def test_the_first_answer_is_shown_as_a_proposal_to_the_second_person(self, ada, bob):
        operation = asking(TWO)

        told = give(ada, operation).url
        page = bob.get(address(operation)).content.decode()

        assert told == address(operation)
        assert "1 of 2" in page
        assert "Give the very same answer" in page
        assert page_of(operation).answer is None

    def test_the_first_person_is_told_that_nothing_was_sent(self, ada):
        operation = asking(TWO)
        give(ada, operation)

        page = ada.get(address(operation)).content.decode()

        assert "1 more person has to give the very same one; nothing was sent" in page
        assert "Take my answer back" in page
        assert "Give the very same answer" not in page

    def test_the_second_confirms_with_one_press(self, ada, bob):
        operation = asking(TWO)
        give(ada, operation)

        confirm(bob, operation, standing(operation)[0].id)

        answer = page_of(operation).answer
        assert answer.by == "person:bob"
        assert answer.replies[0].content == '{"ok": true}'

    def test_a_confirmation_takes_the_stored_answer_and_nothing_from_the_form(self, ada, bob):
        operation = asking(TWO)
        give(ada, operation)

        confirm(bob, operation, standing(operation)[0].id, q0f0="false")

        assert page_of(operation).answer.replies[0].content == '{"ok": true}'

    def test_a_disagreement_is_shown_and_nothing_leaves(self, ada, bob):
        operation = asking(TWO)
        give(ada, operation)
        give(bob, operation, ok="false")

        page = bob.get(address(operation)).content.decode()

        assert "They do not agree" in page
        assert page_of(operation).answer is None

    def test_two_tabs_of_one_person_are_one_vote(self, ada):
        operation = asking(TWO)
        tabs = [seals(ada, operation), seals(ada, operation)]

        for tab in tabs:
            give(ada, operation, sealed=tab)

        assert [vote.by for vote in standing(operation)] == ["person:ada"]
        assert page_of(operation).answer is None

    def test_a_double_click_is_one_vote(self, ada):
        operation = asking(TWO)
        sealed = seals(ada, operation)

        give(ada, operation, sealed=sealed)
        give(ada, operation, sealed=sealed)

        assert Vote.objects.filter(round__operation_id=operation).count() == 1

    def test_nobody_confirms_their_own_answer_into_two(self, ada):
        operation = asking(TWO)
        give(ada, operation)

        confirm(ada, operation, standing(operation)[0].id)

        assert page_of(operation).answer is None

    def test_a_vote_that_was_taken_back_cannot_be_confirmed(self, ada, bob):
        operation = asking(TWO)
        give(ada, operation)
        vote, sealed = standing(operation)[0].id, seals(bob, operation)
        ada.post(reverse("round_withdraw", args=[operation, 1]))

        told = confirm(bob, operation, vote, sealed=sealed)

        assert told.status_code == 409
        assert "was taken back or replaced meanwhile" in told.content.decode()
        assert standing(operation) == []

    def test_a_confirmation_needs_the_seal_of_the_page(self, ada, bob):
        operation = asking(TWO)
        give(ada, operation)

        told = bob.post(address(operation), {"confirm": str(standing(operation)[0].id)})

        assert told.status_code == 400
        assert page_of(operation).answer is None

    def test_a_vote_of_another_round_is_no_vote_here(self, ada, bob):
        first, second = asking(TWO), make.asking()
        give(ada, first)

        told = confirm(bob, second, standing(first)[0].id)

        assert told.status_code == 409
        assert standing(second) == []

    def test_one_decline_declines(self, ada):
        operation = asking(TWO)

        give(ada, operation, action="decline")

        assert page_of(operation).answer.replies[0].action == "decline"

    def test_the_deadline_passes_while_people_vote(self, ada, bob):
        operation = asking(TWO)
        give(ada, operation)
        sealed = seals(bob, operation)
        make.expire(operation)

        told = confirm(bob, operation, standing(operation)[0].id, sealed=sealed)

        assert told.status_code == 409
        assert not Answer.objects.filter(round__operation_id=operation).exists()

    def test_the_inbox_says_how_it_stands(self, ada):
        operation = asking(TWO)
        give(ada, operation)

        assert "1 answered, 2 have to agree" in ada.get(reverse("approvals")).content.decode()


class TestWhoMay:
    def test_b183_whoever_asked_sees_no_form_under_four_eyes(self, ada):
        operation = asking(Policy(four_eyes=True), principal="ada")

        page = ada.get(address(operation)).content.decode()

        assert 'id="answer"' not in page
        assert "somebody else has to answer" in page

    @pytest.mark.parametrize("htmx", [{}, {"HX-Request": "true"}])
    @pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
    def test_b183_and_is_refused_by_whatever_way_the_post_comes(self, ada, action, htmx):
        """The page before the policy, a fragment, a post by hand: there is one door."""
        operation = asking(Policy(four_eyes=True), principal="ada")
        sealed = seals_of_a_page_without_form("ada", operation)

        told = ada.post(address(operation), {**sealed, "action": action, "q0f0": "true"}, headers=htmx)

        assert told.status_code == 403
        assert standing(operation) == []
        assert AuditEvent.objects.filter(what="MayNotDecide", outcome="REFUSED").count() == 1

    def test_b183_a_confirmation_comes_through_the_same_door(self, ada, bob):
        operation = asking(Policy(needed=2, four_eyes=True), principal="ada")
        give(bob, operation)
        sealed = seals_of_a_page_without_form("ada", operation)

        told = confirm(ada, operation, standing(operation)[0].id, sealed=sealed)

        assert told.status_code == 403
        assert page_of(operation).answer is None

    def test_b182_a_role_that_is_taken_away_between_page_and_post(self, ada):
        operation = asking(Policy())
        sealed = seals(ada, operation)
        User.objects.get(username="ada").groups.clear()

        assert give(ada, operation, sealed=sealed).status_code == 403
        assert page_of(operation).answer is None

    def test_b182_a_vote_whose_giver_lost_the_role_is_shown_as_such_and_counts_no_more(self, ada, bob):
        operation = asking(TWO)
        give(ada, operation)
        Group.objects.get(name="approver").user_set.remove(User.objects.get(username="ada"))

        shown = bob.get(address(operation)).content.decode()
        confirm(bob, operation, standing(operation)[0].id)

        assert "counts no more" in shown
        assert page_of(operation).answer is None

    def test_b182_a_person_whose_account_is_closed_counts_no_more(self, ada, bob):
        operation = asking(TWO)
        give(ada, operation)
        User.objects.filter(username="ada").update(is_active=False)

        confirm(bob, operation, standing(operation)[0].id)

        assert page_of(operation).answer is None

    def test_only_the_team_of_the_policy_answers(self, ada, bob):
        make.join("bob", "finance", servers=["shop"])
        operation = asking(Policy(team="finance"))

        assert 'id="answer"' not in ada.get(address(operation)).content.decode()
        assert 'id="answer"' in bob.get(address(operation)).content.decode()

    def test_a_comment_that_is_missing_keeps_what_was_typed(self, ada):
        operation = asking(Policy(comment=True))

        told = give(ada, operation)

        assert told.status_code == 422
        assert "asks for a comment" in told.content.decode()
        assert 'value="true" checked' in told.content.decode()
        give(ada, operation, comment="checked with finance")
        assert page_of(operation).answer.comment == "checked with finance"


def seals_of_a_page_without_form(name, operation):
    """What a page that was opened in time would have carried: the seal alone opens nothing."""
    from console import roundtokens

    return {
        "round_token": roundtokens.sign(roundtokens.make(page_of(operation), person=name)),
        "form_id": str(make.uuid.uuid4()),
    }


class TestThePolicyPages:
    @pytest.fixture
    def adam(self, shop):
        return signed_in("adam", "admin")

    def given(self, **changes):
        return {"needed": "2", "four_eyes": "on", "remind_min": "60, 15", "reason": "prices are real money"} | changes

    def test_an_admin_decides_for_a_tool(self, adam):
        adam.post(reverse("approval_tool", args=["shop", "change_prices"]), self.given())

        policy = page_of(make.asking()).card.policy
        assert (policy.needed, policy.four_eyes, policy.remind_s) == (2, True, (3600, 900))
        assert AuditEvent.objects.get(what="APPROVAL_SET").target == "tool:shop/change_prices"

    def test_an_admin_decides_for_a_class_of_side_effects(self, adam):
        adam.post(reverse("approval_class", args=["EXTERNAL"]), self.given())

        assert page_of(make.asking()).card.policy.needed == 2

    def test_taking_it_away_needs_a_reason_and_brings_the_class_back(self, adam):
        decide(TWO)
        url = reverse("approval_tool", args=["shop", "change_prices"])

        assert adam.post(url, {"do": "drop"}).status_code == 422
        assert adam.post(url, {"do": "drop", "reason": "one head is enough here"}).status_code == 302
        assert page_of(make.asking()).card.policy == Policy()

    @pytest.mark.parametrize(
        "wrong", [{"needed": "0"}, {"needed": "10"}, {"remind_min": "soon"}, {"team": "nobody"}, {"reason": "ok"}]
    )
    def test_what_cannot_be_is_not_decided(self, adam, wrong):
        told = adam.post(reverse("approval_tool", args=["shop", "change_prices"]), self.given(**wrong))

        assert told.status_code == 422
        assert page_of(make.asking()).card.policy == Policy()

    @pytest.mark.parametrize("role", ["approver", "operator", "viewer"])
    def test_the_others_read_it_and_decide_nothing(self, shop, role):
        somebody = signed_in("somebody", role)

        assert somebody.get(reverse("approval_policies")).status_code == 200
        assert somebody.post(reverse("approval_class", args=["EXTERNAL"]), self.given()).status_code == 403


class TestHistory:
    def test_the_answer_says_how_long_the_question_waited_and_what_was_shown(self, ada):
        operation = asking(Policy())
        give(ada, operation)

        page = ada.get(address(operation)).content.decode()

        assert "What was shown when it was given" in page
        assert page_of(operation).answer.as_shown_digest[:8] in page
        assert re.search(r"by you\s+after", ada.get(reverse("approvals") + "?tab=answered").content.decode())
