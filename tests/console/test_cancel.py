"""The cancel page: what it promises, what a press does, and what it says when the press comes too late."""

import re
import uuid

import pytest
from django.urls import reverse
from django.utils import timezone

from adapters.contract import Capabilities, Negotiation
from operations import ledger
from operations.machine import State
from operations.queries import dossier
from tests.console import factories as make

pytestmark = pytest.mark.django_db
WHY = {"kind": "need", "reason": "The shop is closed this week"}


def unsent():
    """A call of which no byte has left; return its id."""
    number = uuid.uuid4().hex
    call = ledger.NewCall(
        client="flows",
        call_node=number,
        submission_key=number,
        server="shop",
        tool="change_prices",
        arguments=b"{}",
        principal="ann",
    )
    return ledger.submit(call, now=timezone.now()).operation


def press(client, operation, *, seen=0, follow=True, **fields):
    page = reverse("cancel", args=[operation])
    return client.post(page, WHY | {"seen_generation": seen} | fields, follow=follow)


def state_of(operation):
    return ledger.read([operation])[operation].state


def words(answer):
    return re.sub(r"\s+", " ", answer.content.decode())


def test_opening_the_page_asks_for_nothing(olga):
    operation = make.working()

    olga.get(reverse("cancel", args=[operation]))

    assert state_of(operation) is State.WORKING


def test_the_page_says_what_this_contract_promises(olga):
    page = words(olga.get(reverse("cancel", args=[make.working()])))

    assert "the server&#x27;s “cancelled” ends the call at once" in page or "the server's “cancelled” ends" in page
    assert "If the work ended first, the server refuses" in page


def test_the_page_warns_of_effects_outside(olga):
    assert "A cancel does not put back what was already done" in words(
        olga.get(reverse("cancel", args=[make.working()]))
    )


def test_a_tool_free_of_effects_needs_no_warning(olga):
    ledger.set_policy("shop", "change_prices", ledger.ToolPolicy(effect="NONE"))

    page = words(olga.get(reverse("cancel", args=[make.working()])))

    assert "does not put back" not in page
    assert "registered as free of them" in page


def test_a_press_requests_and_claims_no_more_than_that(olga):
    operation = make.working()

    page = words(press(olga, operation))

    assert state_of(operation) is State.CANCEL_REQUESTED
    assert "Your request was recorded, to be sent to the server." in page
    assert "not yet honoured" in page
    held = dossier.read(uuid.UUID(operation))
    assert (held.cancel_requested_by, held.cancel_generation) == ("person:olga", 1)
    assert held.cancel_reason == "No longer needed: The shop is closed this week"


def test_a_second_press_changes_nothing_and_says_so(olga):
    operation = make.working()
    press(olga, operation)

    page = words(press(olga, operation, seen=1))

    assert "It was requested already. Nothing was changed." in page
    assert ledger.read([operation])[operation].cancel_generation == 1


def test_a_press_on_what_the_page_no_longer_shows_is_refused_and_the_words_are_kept(olga):
    operation = make.working()
    press(olga, operation)

    answer = press(olga, operation, seen=0, reason="Stop it, please")

    assert answer.status_code == 409
    assert "Something changed since this page was drawn" in words(answer)
    assert "Stop it, please" in words(answer)
    assert 'name="seen_generation" value="1"' in words(answer)


def test_a_press_after_the_end_says_when_it_ended_and_with_what(olga):
    operation = make.working()
    make.complete(operation)

    answer = press(olga, operation)

    assert answer.status_code == 409
    assert "Too late: the work has ended" in words(answer)
    assert "The server said “completed”" in words(answer)
    assert state_of(operation) is State.TERMINAL_OBSERVED


def test_a_call_of_which_nothing_was_sent_is_cancelled_at_once(olga):
    operation = unsent()

    page = words(press(olga, operation))

    assert state_of(operation) is State.CANCELLED_ACCEPTED
    assert "Cancelled: nothing had been sent, and nothing will be." in page


def test_a_server_without_cancel_is_said_so_before_and_after_the_press(olga):
    operation = make.working()
    bare = Capabilities(
        server_name="shop", server_version="1", creates_tasks=True, cancels_tasks=False, lists_tasks=False
    )
    ledger.save_negotiation("shop", Negotiation(capabilities=bare, tools=()), now=timezone.now())

    before = words(olga.get(reverse("cancel", args=[operation])))
    after = words(press(olga, operation))

    assert "This server cannot cancel" in before
    assert "this server cannot cancel. The work goes on" in after
    assert state_of(operation) is State.WORKING


@pytest.mark.parametrize(
    "fields, complaint",
    [
        ({"reason": ""}, "Say why, in words that others understand."),
        ({"reason": "no"}, "at least 8 characters"),
        ({"kind": ""}, "Choose the reason that fits best."),
    ],
)
def test_a_press_without_a_reason_is_refused_and_changes_nothing(olga, fields, complaint):
    operation = make.working()

    answer = press(olga, operation, **fields)

    assert answer.status_code == 422
    assert complaint in words(answer)
    assert state_of(operation) is State.WORKING


@pytest.mark.parametrize("role", ["viewer", "approver", "admin"])
def test_only_operators_ask_for_a_cancel(olga, role):
    operation = make.working()
    client = make.signed_in("somebody", role)

    assert client.get(reverse("cancel", args=[operation])).status_code == 403
    assert press(client, operation).status_code == 403
    assert state_of(operation) is State.WORKING


def test_an_open_question_closes_with_the_press(olga):
    operation = make.asking()

    press(olga, operation)

    assert not ledger.read([operation])[operation].round_open


def test_the_odds_are_counted_from_what_happened(olga):
    page = reverse("cancel", args=[make.working()])
    assert "there is nothing measured to go by" in words(olga.get(page))
    press(olga, unsent())
    press(olga, unsent())
    lost = make.working()
    press(olga, lost)

    after = words(olga.get(page))

    assert "How it went the last 2 times" in after
    assert "2 cancelled, 0 finished first, 0 went to a person" in after
    assert "1 more is not settled yet." in after


def test_the_odds_change_with_one_more_that_ended_cancelled(olga):
    asked = make.working()
    page = reverse("cancel", args=[asked])
    make.cancel(make.working())
    before = words(olga.get(page))

    make.cancel(make.working())
    after = words(olga.get(page))

    assert "1 cancelled, 0 finished first, 0 went to a person" in before
    assert "2 cancelled, 0 finished first, 0 went to a person" in after


def test_a_cancel_that_came_too_late_is_shown_as_a_race_with_both_times(olga):
    operation = make.working()
    press(olga, operation)
    make.complete(operation)

    page = words(olga.get(reverse("operation", args=[operation])))

    assert "The cancel and the end met" in page
    assert "so the call ends as finished" in page


def test_a_cancel_of_a_known_task_that_cannot_be_told_looks_once_and_then_asks(olga):
    """C9: the task is known, so nobody is told that it is not."""
    operation = make.unknown()

    before = words(olga.get(reverse("cancel", args=[operation])))
    after = words(press(olga, operation))

    assert "We look once and then ask for the cancel." in before
    assert "If the server does not show the task, nothing is asked" in before
    assert "The task is looked at once; if it has not ended, its cancel is asked for." in after
    for page in (before, after):
        assert "No task" not in page
        assert "no task is known" not in page
        assert "turned up" not in page


def test_a_cancel_of_a_call_whose_answer_was_lost_waits_for_its_task(olga):
    """C9"""
    operation = make.lost()

    page = words(press(olga, operation))

    assert "No task was known; the first that turns up is to be cancelled." in page


def test_the_page_of_a_cancelled_call_says_so_and_promises_nothing(olga):
    operation = make.working()
    make.cancel(operation)

    page = words(olga.get(reverse("cancel", args=[operation])))

    assert "This call is cancelled already" in page
    assert "What a cancel means here" not in page
    assert "If you press now" not in page
    assert "<textarea" not in page


def test_a_press_on_a_cancelled_call_does_not_say_that_the_work_ended_first(olga):
    operation = make.working()
    make.cancel(operation)

    answer = press(olga, operation, seen=1)

    assert answer.status_code == 409
    assert "This call is cancelled already" in words(answer)
    assert "Too late" not in words(answer)


def test_the_reason_says_how_long_it_has_to_be_before_and_after(olga):
    operation = make.working()

    before = words(olga.get(reverse("cancel", args=[operation])))
    after = words(press(olga, operation, reason="no"))

    assert 'aria-describedby="reason-hint"' in before
    assert "at least 8 characters" in before
    assert "Say a little more: at least 8 characters, so that others understand it." in after
    assert "Ensure this value" not in after


def test_a_cancel_of_nothing_is_not_found(olga):
    assert olga.get(reverse("cancel", args=[uuid.uuid4()])).status_code == 404


def test_a_page_of_what_is_asked_already_offers_no_second_press(olga):
    operation = make.working()
    press(olga, operation)

    page = words(olga.get(reverse("cancel", args=[operation])))

    assert "Requested already, not yet honoured" in page
    assert "seen_generation" not in page
