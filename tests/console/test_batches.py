"""Many at once: a preview that is kept, one start, live progress, and the one press of a second person."""

import re
import uuid

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from console.bulk import still_may
from operations import ledger
from operations.machine import State
from operations.queries import batches
from tests.console import factories as make

pytestmark = pytest.mark.django_db
WHY = {"kind": "need", "reason": "The incident is over"}
VERDICT = {"reason": "The shop's log shows none of them", "typed": "close as unknown"}


def words(answer):
    return re.sub(r"\s+", " ", answer.content.decode())


def prepare(client, query="", **fields):
    """Press "Cancel all of these" of a list; return the address of the preview."""
    answer = client.post(reverse("operation_cancel_many"), {"id": uuid.uuid4(), "query": query} | fields)
    assert answer.status_code == 302, words(answer)
    return answer.url


def start(client, preview, **fields):
    return client.post(f"{preview}start/", WHY | fields)


def run():
    """What the worker does, with the console's own question whether the person still may."""
    ledger.run_batches(seconds=60, may=still_may, clock=timezone.now)


def state(operation):
    return ledger.read([operation])[operation].state


def batch_of(address):
    return batches.read(uuid.UUID(address.strip("/").split("/")[-1]))


class TestPreview:
    def test_it_says_what_would_happen_to_each_by_its_contract_and_changes_nothing(self, olga):
        working, unsent = make.working(), make.submitted()
        make.complete(late := make.working())

        page = words(olga.get(prepare(olga)))

        assert "A preview: nothing has happened yet" in page
        assert "“cancelled” ends the call at once" in page
        assert "Cancelled at once: nothing was ever sent" in page
        assert "Not done: The work has ended; this comes too late." in page
        assert "Request cancel of 2 operations" in page
        assert [state(one) for one in (working, unsent, late)] == [
            State.WORKING,
            State.SUBMITTING,
            State.TERMINAL_OBSERVED,
        ]

    def test_it_holds_what_the_list_was_narrowed_to_and_nothing_else(self, olga):
        make.server("other", tools=("count_stock",))
        here, there = make.working(), make.working(server="other", tool="count_stock")

        preview = olga.get(prepare(olga, "server=other"))

        assert reverse("operation", args=[there]) in words(preview)
        assert reverse("operation", args=[here]) not in words(preview)

    def test_it_warns_of_tools_that_may_have_changed_something(self, olga):
        make.working()

        assert "1 of them may have changed something outside" in words(olga.get(prepare(olga)))

    def test_the_same_form_twice_is_one_preview(self, olga):
        make.working()
        form = {"id": uuid.uuid4(), "query": ""}

        first = olga.post(reverse("operation_cancel_many"), form)
        second = olga.post(reverse("operation_cancel_many"), form)

        assert first.url == second.url

    def test_of_nothing_there_is_none(self, olga):
        answer = olga.post(reverse("operation_cancel_many"), {"query": "server=nowhere"}, follow=True)

        assert "No operation fits this list any more." in words(answer)

    @pytest.mark.parametrize("role", ["viewer", "approver", "admin"])
    def test_only_operators_prepare_one(self, olga, role):
        make.working()

        answer = make.signed_in("somebody", role).post(reverse("operation_cancel_many"), {"query": ""})

        assert answer.status_code == 403

    @pytest.mark.parametrize("role", ["viewer", "approver", "admin"])
    def test_others_read_it_and_cannot_start_it(self, olga, role):
        operation = make.working()
        preview = prepare(olga)
        other = make.signed_in("somebody", role)

        assert "Request cancel of" not in words(other.get(preview))
        assert start(other, preview).status_code == 403
        run()
        assert state(operation) is State.WORKING

    def test_another_operator_cannot_start_what_one_has_prepared(self, olga, otto):
        operation = make.working()
        preview = prepare(olga)

        answer = otto.post(f"{preview}start/", WHY, follow=True)
        run()

        assert "Somebody else prepared this." in words(answer)
        assert state(operation) is State.WORKING

    @pytest.mark.parametrize(
        "fields, complaint",
        [
            ({"reason": ""}, "Say why"),
            ({"reason": "no"}, "at least 8 characters"),
            ({"kind": ""}, "Choose the reason that fits best."),
        ],
    )
    def test_without_a_reason_nothing_starts_and_the_words_stay(self, olga, fields, complaint):
        operation = make.working()
        preview = prepare(olga)

        answer = start(olga, preview, **fields)
        run()

        assert answer.status_code == 422
        assert complaint in words(answer)
        assert state(operation) is State.WORKING


class TestProgress:
    def test_each_row_is_asked_and_the_page_says_what_came_of_it(self, olga):
        working, unsent = make.working(), make.submitted()
        preview = prepare(olga)
        start(olga, preview)
        before = words(olga.get(preview))

        run()
        after = words(olga.get(preview))

        assert "0 of 2 have had their turn." in before
        assert 'hx-trigger="every 1s' in before
        assert "2 of 2 have had their turn." in after
        assert "every 1s" not in after
        assert [state(working), state(unsent)] == [State.CANCEL_REQUESTED, State.CANCELLED_ACCEPTED]
        assert ledger.read([working])[working].cancel_requested_by == "person:olga"

    def test_back_reload_double_press_and_a_second_tab_start_it_once(self, olga):
        operation = make.working()
        preview = prepare(olga)

        start(olga, preview)
        start(olga, preview)
        run()
        again = olga.post(f"{preview}start/", WHY, follow=True)
        run()

        assert "It was started already; nothing was started twice." in words(again)
        assert ledger.read([operation])[operation].cancel_generation == 1

    def test_b185_two_people_at_once_each_row_is_asked_once_and_the_second_is_told(self, olga, otto):
        """B185"""
        operation = make.working()
        hers, his = prepare(olga), prepare(otto)
        start(olga, hers)
        start(otto, his)

        run()

        row = ledger.read([operation])[operation]
        assert (row.cancel_generation, row.cancel_requested_by) == (1, "person:olga")
        assert "cancel generation has moved from 0 to 1" in words(otto.get(his))

    def test_a_row_that_moves_between_preview_and_press_is_left_alone(self, olga):
        moved, still = make.working(), make.working()
        preview = prepare(olga)
        make.complete(moved)
        assert words(olga.get(preview)).count("has moved since; it will be left alone") == 1
        start(olga, preview)

        run()

        page = words(olga.get(preview + "?only=REFUSED"))
        assert "already finished: completed" in page
        assert reverse("operation", args=[still]) not in page
        assert [state(moved), state(still)] == [State.TERMINAL_OBSERVED, State.CANCEL_REQUESTED]

    def test_a_role_that_is_taken_away_after_the_start_ends_it(self, olga):
        operation = make.working()
        preview = prepare(olga)
        start(olga, preview)
        User.objects.get(username="olga").groups.remove(Group.objects.get(name="operator"))

        run()

        assert state(operation) is State.WORKING
        assert "may not do it any more" in words(make.signed_in("vera", "viewer").get(preview))

    def test_a_stop_leaves_what_has_not_had_its_turn(self, olga, otto):
        operation = make.working()
        preview = prepare(olga)
        start(olga, preview)

        page = words(otto.post(f"{preview}stop/", follow=True))
        run()

        assert "Stopped. What was done before stays done." in page
        assert "1 was left as it was." in page
        assert state(operation) is State.WORKING

    def test_the_living_part_comes_alone(self, olga):
        make.working()
        preview = prepare(olga)
        start(olga, preview)

        part = olga.get(preview, headers={"HX-Request": "true"}).content.decode()

        assert "<html" not in part
        assert 'id="batch-badge" hx-swap-oob="true"' in part

    def test_a_batch_of_many_rows_costs_as_many_queries_as_one_of_few(self, olga):
        make.working()
        few = _queries(olga, prepare(olga))
        for _ in range(4):
            make.working()

        assert _queries(olga, prepare(olga)) == few


@pytest.mark.parametrize("verb", ["", "start/", "stop/", "second/"])
def test_one_that_does_not_exist_is_not_found(olga, verb):
    address = reverse("batch", args=[uuid.uuid4()]) + verb

    assert (olga.post(address) if verb else olga.get(address)).status_code == 404


def _queries(client, address):
    with CaptureQueriesContext(connection) as seen:
        client.get(address)
    return len(seen)
