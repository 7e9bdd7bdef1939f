"""The reconciliation desk: what stands on it, who works on it, and how an item is closed without knowing."""

import datetime as dt
import re
import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from operations import ledger
from operations.machine import Event, Outcome, Reason, State
from operations.queries import desk, dossier
from operations.queries.desk import Wanted
from tests.console import factories as make

pytestmark = pytest.mark.django_db
VERDICT = {"verdict": "GAVE_UP", "reason": "The shop's log shows no such change", "typed": "close as unknown"}


def unknown(*, now=None):
    """An operation whose waiting time is over; return its id."""
    operation, now = make.working(), now or timezone.now()
    ledger.hand_to_person(
        operation,
        event=Event.BUDGET_ENDED,
        reason=Reason.BUDGET_ENDED,
        ticket=make.ticket_of(operation),
        next_at=now,
        now=now,
    )
    return operation


def give_up(client, operation, *, seen=None, follow=False, **fields):
    seen = seen or ledger.read([operation])[operation].version
    return client.post(reverse("judge", args=[operation]), VERDICT | {"seen_version": seen} | fields, follow=follow)


def second(client, operation, do):
    proposal = dossier.proposal(uuid.UUID(operation))
    return client.post(reverse("second", args=[operation]), {"proposal": proposal.id, "do": do})


def settle(client, operation, **fields):
    return client.post(reverse("settle_effect", args=[operation]), fields, follow=True)


def words(answer):
    return re.sub(r"\s+", " ", answer.content.decode())


def on_desk(client, query=""):
    return re.findall(r'id="desk-([0-9a-f-]{36})-', client.get(reverse("reconcile") + query).content.decode())


class TestQueue:
    def test_the_oldest_clock_stands_first_and_what_goes_well_is_not_there(self, olga):
        make.working()
        now = timezone.now()
        young, old = unknown(now=now), unknown(now=now - dt.timedelta(minutes=9))

        assert on_desk(olga) == [old, young]

    def test_each_item_carries_its_clock_and_says_when_it_is_over(self, olga):
        unknown(now=timezone.now() - dt.timedelta(minutes=17))

        page = words(olga.get(reverse("reconcile")))

        assert 'class="clock bad"' in page
        assert "over by 2 min" in page

    def test_an_item_says_the_next_useful_step(self, olga):
        unknown()

        assert "Look up by task id; new evidence moves it by itself" in words(olga.get(reverse("reconcile")))

    def test_a_cancel_that_was_not_confirmed_in_time_stands_here(self, olga):
        operation, now = make.working(), timezone.now()
        ledger.request_cancel(operation, seen_generation=0, by="person:olga", reason="stop it", now=now)
        ledger.state_unconfirmed(operation, ticket=make.ticket_of(operation), now=now)

        assert on_desk(olga) == [operation]
        assert "Cancel not confirmed" in words(olga.get(reverse("reconcile")))

    def test_mine_shows_what_this_person_has_claimed(self, olga):
        unknown()
        mine = unknown()

        olga.post(reverse("claim", args=[mine]))

        assert on_desk(olga, "?tab=mine") == [mine]

    def test_an_empty_desk_says_what_would_stand_here(self, olga):
        assert "Here stands what no evidence could settle" in words(olga.get(reverse("reconcile")))

    def test_pages_follow_each_other_without_gap_or_repetition(self, olga):
        made = [unknown() for _ in range(5)]

        first = desk.find_items(Wanted(), limit=3)
        rest = desk.find_items(Wanted(), after=first.after, limit=3)

        assert [item.operation for item in (*first.items, *rest.items)] == made
        assert rest.after is None

    def test_many_items_cost_as_many_queries_as_one(self, olga):
        unknown()
        one = _queries(olga, reverse("reconcile"))
        for _ in range(4):
            unknown()

        assert _queries(olga, reverse("reconcile")) == one


class TestClaim:
    def test_a_claim_names_its_holder_to_everybody(self, olga):
        operation = unknown()
        olga.post(reverse("claim", args=[operation]))

        page = words(make.signed_in("otto", "operator").get(reverse("reconcile_item", args=[operation])))

        assert "claimed by olga" in page

    def test_a_claim_is_given_back_by_its_holder(self, olga):
        operation = unknown()
        olga.post(reverse("claim", args=[operation]))

        olga.post(reverse("claim", args=[operation]), {"do": "release"})

        assert dossier.claim(uuid.UUID(operation)) is None

    @pytest.mark.parametrize("role", ["viewer", "approver", "admin"])
    def test_only_operators_claim(self, olga, role):
        operation = unknown()

        assert make.signed_in("somebody", role).post(reverse("claim", args=[operation])).status_code == 403
        assert dossier.claim(uuid.UUID(operation)) is None


class TestItem:
    def test_it_says_what_is_known_what_is_safe_and_what_is_not(self, olga):
        page = words(olga.get(reverse("reconcile_item", args=[unknown()])))

        assert "Our waiting time is over. The server" in page
        assert "Calling it failed. Calling it cancelled." in page

    def test_looking_up_now_leads_back_here(self, olga):
        operation = unknown()
        here = reverse("reconcile_item", args=[operation])

        answer = olga.post(reverse("look_now", args=[operation]), {"next": here})

        assert answer.url == here

    @pytest.mark.parametrize("role", ["viewer", "approver", "admin"])
    def test_others_read_and_are_told_which_role_decides(self, olga, role):
        page = words(make.signed_in("somebody", role).get(reverse("reconcile_item", args=[unknown()])))

        assert "Needs the role operator." in page
        assert "<textarea" not in page

    def test_what_evidence_can_still_settle_cannot_be_given_up(self, olga):
        page = words(olga.get(reverse("reconcile_item", args=[make.working()])))

        assert 'name="verdict"' not in page


class TestVerdict:
    def test_only_what_the_evidence_allows_can_be_chosen(self, olga):
        page = olga.get(reverse("reconcile_item", args=[unknown()])).content.decode()

        offered = dict(re.findall(r'name="verdict" value="([A-Z_]+)"( disabled)?', page))
        assert offered["GAVE_UP"] == offered["ESTABLISHED_OUTSIDE"] == ""
        assert (
            offered["FOUND"] == offered["NEVER_CREATED"] == offered["RESUBMIT"] == offered["EVIDENCED"] == " disabled"
        )
        assert "A task is bound already." in page

    def test_giving_up_on_a_tool_with_effects_waits_for_a_second_person(self, olga):
        operation = unknown()

        answer = give_up(olga, operation, follow=True)

        assert "Nothing is closed until a second operator has confirmed it." in words(answer)
        assert ledger.read([operation])[operation].state is State.UNKNOWN
        assert on_desk(olga, "?tab=second") == [operation]

    def test_the_second_person_carries_it_out(self, olga):
        operation = unknown()
        give_up(olga, operation)

        second(make.signed_in("otto", "operator"), operation, "confirm")

        receipt = dossier.receipt(uuid.UUID(operation))
        assert receipt.outcome == Outcome.RECONCILED
        assert receipt.decided_by == "person:olga and person:otto"
        assert receipt.summary == VERDICT["reason"]

    def test_w_what_was_established_outside_is_said_by_one_and_confirmed_by_another_who_looked_first(self, olga):
        operation, otto = unknown(), make.signed_in("otto", "operator")
        told = {"verdict": "ESTABLISHED_OUTSIDE", "outcome": "41 prices changed", "typed": ""}

        give_up(olga, operation, **told)
        assert dossier.receipt(uuid.UUID(operation)) is None
        assert "41 prices changed" in words(otto.get(reverse("reconcile_item", args=[operation])))
        otto.post(reverse("look_now", args=[operation]))
        second(otto, operation, "confirm")

        receipt = dossier.receipt(uuid.UUID(operation))
        assert (receipt.outcome, receipt.verdict) == (Outcome.RECONCILED, "ESTABLISHED_OUTSIDE: 41 prices changed")
        assert receipt.decided_by == "person:olga and person:otto"
        assert on_desk(olga, "?tab=effects") == [operation], "what happened outside is still to be settled (C6)"

    def test_nobody_is_their_own_second_person(self, olga):
        operation = unknown()
        give_up(olga, operation)

        answer = second(olga, operation, "confirm")

        assert answer.status_code == 409
        assert "cannot confirm it" in words(answer)
        assert dossier.receipt(uuid.UUID(operation)) is None

    def test_what_is_turned_down_closes_nothing(self, olga):
        operation = unknown()
        give_up(olga, operation)

        second(make.signed_in("otto", "operator"), operation, "withdraw")

        assert dossier.proposal(uuid.UUID(operation)) is None
        assert ledger.read([operation])[operation].state is State.UNKNOWN

    def test_a_proposal_that_is_gone_changes_nothing(self, olga):
        operation = unknown()

        for proposal in (str(uuid.uuid4()), "no-id"):
            page = reverse("second", args=[operation])
            answer = olga.post(page, {"proposal": proposal, "do": "confirm"}, follow=True)

            assert "not open any more" in words(answer)

    def test_giving_up_on_a_tool_without_effects_needs_one_person(self, olga):
        ledger.set_policy("shop", "change_prices", ledger.ToolPolicy(effect="NONE"))
        operation = unknown()

        answer = give_up(olga, operation)

        assert answer.url == reverse("operation", args=[operation])
        assert dossier.receipt(uuid.UUID(operation)).outcome == Outcome.RECONCILED

    @pytest.mark.parametrize(
        "fields, complaint",
        [
            ({"verdict": ""}, "Choose what fits."),
            ({"reason": ""}, "Say why, in words that others understand."),
            ({"reason": "dunno"}, "at least 8 characters"),
            ({"typed": "yes"}, "Type exactly: close as unknown"),
            ({"typed": ""}, "Type exactly: close as unknown"),
            ({"verdict": "FOUND"}, "Give the id of the task that was found."),
            ({"verdict": "ESTABLISHED_OUTSIDE"}, "Say in a few words what became of it."),
        ],
    )
    def test_what_a_verdict_lacks_is_said_and_nothing_is_changed(self, olga, fields, complaint):
        operation = unknown()

        answer = give_up(olga, operation, **fields)

        assert answer.status_code == 422
        assert complaint in words(answer)
        assert dossier.proposal(uuid.UUID(operation)) is None

    def test_case_and_spaces_of_the_typed_words_do_not_matter(self, olga):
        operation = unknown()

        give_up(olga, operation, typed="  Close  as UNKNOWN ")

        assert dossier.proposal(uuid.UUID(operation)) is not None

    def test_a_verdict_the_evidence_does_not_allow_is_refused_though_it_was_posted(self, olga):
        operation = unknown()

        answer = give_up(olga, operation, verdict="NEVER_CREATED")

        assert answer.status_code == 409
        assert "proof by the submission key" in words(answer)

    def test_what_has_moved_since_the_page_was_drawn_is_not_closed_and_the_words_are_kept(self, olga):
        operation = unknown()
        seen = ledger.read([operation])[operation].version
        press = {"seen_generation": None, "by": "person:otto", "reason": "stop it"}
        ledger.request_cancel(operation, now=timezone.now(), **press)

        answer = give_up(olga, operation, seen=seen)

        assert answer.status_code == 409
        assert "log shows no such change" in words(answer)
        assert dossier.proposal(uuid.UUID(operation)) is None

    def test_twice_is_once(self, olga):
        ledger.set_policy("shop", "change_prices", ledger.ToolPolicy(effect="NONE"))
        operation = unknown()
        seen = ledger.read([operation])[operation].version
        give_up(olga, operation, seen=seen)

        answer = give_up(olga, operation, seen=seen)

        assert answer.status_code == 409
        assert ledger.read([operation])[operation].state is State.RECONCILED

    @pytest.mark.parametrize("role", ["viewer", "approver", "admin"])
    def test_only_operators_judge(self, olga, role):
        operation = unknown()
        client = make.signed_in("somebody", role)
        give_up(olga, operation)

        assert give_up(client, operation).status_code == 403
        assert second(client, operation, "confirm").status_code == 403
        assert dossier.receipt(uuid.UUID(operation)) is None


class TestEffect:
    @pytest.fixture
    def doubtful(self, olga):
        """An operation that two people have closed; what it did outside is not known."""
        operation = unknown()
        give_up(olga, operation)
        second(make.signed_in("otto", "operator"), operation, "confirm")
        return operation

    def test_it_stands_on_the_desk_after_its_operation_has_ended(self, olga, doubtful):
        assert on_desk(olga) == [doubtful]
        assert on_desk(olga, "?tab=effects") == [doubtful]
        assert "Effect to check" in words(olga.get(reverse("reconcile")))

    def test_it_is_settled_by_saying_what_happened_and_how_one_knows(self, olga, doubtful):
        settle(olga, doubtful, status="NONE", note="The shop's log shows no change")

        record = dossier.effect(uuid.UUID(doubtful))
        assert (record.status, record.decided_by) == ("NONE", "person:olga")
        assert on_desk(olga) == []

    def test_the_first_decision_stands(self, olga, doubtful):
        settle(olga, doubtful, status="NONE", note="The shop's log shows no change")

        page = words(settle(olga, doubtful, status="COMPENSATED", note="Set back by hand"))

        assert "Somebody has settled it meanwhile" in page
        assert dossier.effect(uuid.UUID(doubtful)).status == "NONE"

    @pytest.mark.parametrize(
        "fields, complaint",
        [
            ({"status": "", "note": "The log shows nothing"}, "Choose what fits."),
            ({"status": "NONE", "note": ""}, "Say why, in words that others understand."),
            ({"status": "STILL_OPEN", "note": "Prices are wrong"}, "Say who takes care of it from now on."),
        ],
    )
    def test_what_is_missing_is_said(self, olga, doubtful, fields, complaint):
        answer = settle(olga, doubtful, **fields)

        assert answer.status_code == 422
        assert complaint in words(answer)

    @pytest.mark.parametrize("role", ["viewer", "approver", "admin"])
    def test_only_operators_settle_it(self, doubtful, role):
        answer = settle(make.signed_in("somebody", role), doubtful, status="NONE", note="The log shows nothing")

        assert answer.status_code == 403
        assert dossier.effect(uuid.UUID(doubtful)).decided_by == ""


def _queries(client, page):
    with CaptureQueriesContext(connection) as seen:
        assert client.get(page).status_code == 200
    return len(seen)
