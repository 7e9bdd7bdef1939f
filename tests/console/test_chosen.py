"""Rows that a person ticks: a cancel, a look, a claim or a verdict for these and for no other."""

import re
import uuid

import pytest
from django.urls import reverse
from django.utils import timezone

from console.bulk import still_may
from operations import ledger
from operations.machine import Event, Reason, State
from operations.models import AuditEvent, DeskClaim
from operations.queries import batches, incidents
from tests.console import factories as make

pytestmark = pytest.mark.django_db
TICKED = re.compile(r'name="one" value="([0-9a-f-]{36})"')


def post(client, name, *args, **fields):
    return client.post(reverse(name, args=args), {"id": uuid.uuid4()} | fields)


def rows_of(answer):
    """The operations of the batch that an answer leads to."""
    number = uuid.UUID(answer.url.strip("/").split("/")[-1])
    return {line.operation for line in batches.find_lines(number)}


def run():
    ledger.run_batches(seconds=60, may=still_may, clock=timezone.now)


def outage():
    """Three items of one incident: their ids and its number."""
    operations = [make.unknown(event=Event.NOT_FOUND, reason=Reason.NOT_FOUND) for _ in range(3)]
    ledger.gather_incidents(now=timezone.now())
    return operations, incidents.find_open()[0].id


class TestCancel:
    def test_only_the_ticked_ones_are_in_the_preview(self, olga):
        ticked, other = make.working(), make.working()

        answer = post(olga, "operation_cancel_many", only="chosen", one=[ticked])

        assert rows_of(answer) == {ticked}
        assert ledger.read([other])[other].state is State.WORKING

    def test_the_button_for_all_takes_all_whatever_is_ticked(self, olga):
        ticked, other = make.working(), make.working()

        assert rows_of(post(olga, "operation_cancel_many", query="", one=[ticked])) == {ticked, other}

    def test_without_a_tick_nothing_is_prepared(self, olga):
        make.working()

        page = olga.post(reverse("operation_cancel_many"), {"only": "chosen", "query": "view=all"}, follow=True)

        assert "Tick the rows first" in page.content.decode()
        assert page.redirect_chain[-1][0].endswith("?view=all")
        assert AuditEvent.objects.get(by="person:olga").outcome == "REFUSED"

    def test_the_same_form_after_going_back_and_ticking_another_is_another_preview(self, olga):
        first, second, form = make.working(), make.working(), {"id": uuid.uuid4(), "only": "chosen"}

        answers = [
            olga.post(reverse("operation_cancel_many"), form | {"one": [one]}) for one in (first, second, second)
        ]

        assert [rows_of(answer) for answer in answers] == [{first}, {second}, {second}]
        assert answers[1].url == answers[2].url

    def test_a_row_of_a_server_that_is_not_seen_is_not_taken(self, olga):
        make.server("bank", tools=("move_money",))
        foreign = make.working(server="bank", tool="move_money")
        nina = make.person("nina", "operator", team="")
        make.join("nina", "shopkeepers", servers=["shop"])
        olga.force_login(nina)

        page = olga.post(reverse("operation_cancel_many"), {"only": "chosen", "one": [foreign]}, follow=True)

        assert "Tick the rows first" in page.content.decode()

    def test_what_can_be_ticked_is_what_has_not_ended_and_only_by_whoever_may_cancel(self, olga):
        going, ended = make.working(), make.accepted()
        address = reverse("operations") + "?view=all"

        assert TICKED.findall(olga.get(address).content.decode()) == [going]
        rows = olga.get(reverse("operation_rows"), {"id": [going, ended]}).content.decode()
        assert TICKED.findall(rows) == [going]
        assert TICKED.findall(make.signed_in("vera", "viewer").get(address).content.decode()) == []


class TestDesk:
    @pytest.mark.parametrize("deed", ["look", "claim"])
    def test_the_ticked_items_are_looked_up_or_claimed(self, olga, deed):
        ticked, other = make.unknown(), make.unknown()

        answer = post(olga, "reconcile_many", many=deed, one=[ticked])
        run()

        assert rows_of(answer) == {ticked}
        assert DeskClaim.objects.filter(operation=ticked).exists() == (deed == "claim")
        what = "ITEM_CLAIMED" if deed == "claim" else "LOOK_ORDERED"
        assert list(AuditEvent.objects.filter(what=what).values_list("target", flat=True)) == [f"operation:{ticked}"]
        assert ledger.read([other])[other].state is State.UNKNOWN

    def test_without_a_tick_it_says_so(self, olga):
        page = olga.post(reverse("reconcile_many"), {"many": "look"}, follow=True)

        assert "Tick the rows first" in page.content.decode()

    def test_each_item_but_an_effect_can_be_ticked(self, olga):
        operation = make.unknown()
        make.cancel(make.working())

        page = olga.get(reverse("reconcile")).content.decode()

        assert TICKED.findall(page) == [operation]
        assert page.count('form="many"') == 1
        assert 'id="many"' in page

    def test_a_viewer_ticks_nothing(self, olga):
        make.unknown()

        page = make.signed_in("vera", "viewer").get(reverse("reconcile")).content.decode()

        assert TICKED.findall(page) == []
        assert make.signed_in("vic", "viewer").post(reverse("reconcile_many")).status_code == 403


class TestIncident:
    def test_a_verdict_is_previewed_for_the_ticked_items_of_it_alone(self, olga):
        (first, second, _third), number = outage()
        stranger = make.unknown()

        given = {"do": "verdict", "verdict": "GAVE_UP", "only": "chosen", "one": [first, second, stranger]}
        answer = post(olga, "reconcile_incident_act", number, **given)

        assert rows_of(answer) == {first, second}

    def test_without_a_tick_it_comes_back_to_the_incident(self, olga):
        _items, number = outage()

        answer = post(olga, "reconcile_incident_act", number, do="verdict", verdict="GAVE_UP", only="chosen")

        assert answer.url == reverse("reconcile_incident", args=[number])

    def test_looking_the_ticked_ones_up_is_noted_at_the_incident(self, olga):
        (first, *_others), number = outage()

        answer = post(olga, "reconcile_many", many="look", one=[first], incident=number)

        assert rows_of(answer) == {first}
        assert [one.kind for one in batches.find_recent(incident=number)] == ["LOOK"]

    def test_its_rows_belong_to_the_form_of_the_page(self, olga):
        operations, number = outage()

        page = olga.get(reverse("reconcile_incident", args=[number])).content.decode()

        assert set(TICKED.findall(page)) == set(operations)
        assert page.count('id="many"') == 1
