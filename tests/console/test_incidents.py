"""Outage mode: one outage is one item, looked up, claimed and settled with one press, by two people (X4)."""

import re
import uuid

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.bulk import still_may
from operations import ledger
from operations.machine import Event, Outcome, Reason, State
from operations.models import Receipt, TeamMember
from operations.queries import dossier, incidents
from tests.console import factories as make

pytestmark = pytest.mark.django_db
VERDICT = {"reason": "The shop's log shows none of them", "typed": "close as unknown"}


@pytest.fixture
def outage(olga):
    """Three calls whose outcome nobody can tell since the server forgot them; their ids."""
    operations = [make.unknown(event=Event.NOT_FOUND, reason=Reason.NOT_FOUND) for _ in range(3)]
    ledger.gather_incidents(now=timezone.now())
    return operations


def words(answer):
    return re.sub(r"\s+", " ", answer.content.decode())


def address():
    return reverse("reconcile_incident", args=[incidents.find_open()[0].id])


def act(client, what, **fields):
    where = reverse("reconcile_incident_act", args=[incidents.find_open()[0].id])
    return client.post(where, {"id": uuid.uuid4(), "do": what} | fields)


def run():
    ledger.run_batches(seconds=60, may=still_may, clock=timezone.now)
    ledger.gather_incidents(now=timezone.now())


def state(operation):
    return ledger.read([operation])[operation].state


class TestDesk:
    def test_the_items_of_one_outage_are_one_row_of_the_desk(self, olga, outage):
        alone = make.lost()

        page = olga.get(reverse("reconcile")).content.decode()

        assert "Incident at Shop" in page
        assert "3 items" in page
        assert re.findall(r'id="desk-([0-9a-f-]{36})-', page) == [alone]

    def test_an_item_leads_to_its_incident(self, olga, outage):
        page = words(olga.get(reverse("reconcile_item", args=[outage[0]])))

        assert "This is one item of an outage." in page
        assert address() in page

    def test_what_heals_by_itself_leaves_the_desk_with_a_note(self, olga, outage):
        make.complete(outage[0])
        run()

        assert "1 has left by itself" in words(olga.get(reverse("reconcile")))
        assert "By itself: new evidence settled it" in words(olga.get(reverse("reconcile") + "?tab=left"))
        assert "It left the desk by itself" in words(olga.get(reverse("reconcile_item", args=[outage[0]])))

    def test_an_incident_that_is_over_is_still_to_be_read(self, olga, outage):
        where = address()
        for operation in outage:
            make.complete(operation)
        run()

        assert incidents.find_open() == ()
        assert "Incidents that are over" in words(olga.get(reverse("reconcile") + "?tab=left"))
        assert "Nothing of it stands on the desk any more." in words(olga.get(where))


class TestAct:
    def test_all_of_it_is_looked_up_at_once(self, olga, outage):
        answer = act(olga, "look")
        run()

        assert "3 of 3 have had their turn." in words(olga.get(answer.url))
        for operation in outage:
            assert [row.event for row in dossier.journal(uuid.UUID(operation))].count("LOOK_ORDERED") == 1

    def test_all_of_it_is_claimed_at_once(self, olga, outage):
        act(olga, "claim")
        run()

        assert {dossier.claim(uuid.UUID(operation)).by for operation in outage} == {"person:olga"}
        assert "Claimed by olga" in words(olga.get(address()))

    def test_the_same_press_twice_is_one(self, olga, outage):
        form = uuid.uuid4()

        first, second = act(olga, "look", id=form), act(olga, "look", id=form)
        run()

        assert first.url == second.url
        assert [row.event for row in dossier.journal(uuid.UUID(outage[0]))].count("LOOK_ORDERED") == 1

    def test_one_verdict_is_shown_for_each_before_anything_happens(self, olga, outage):
        preview = act(olga, "verdict", verdict="GAVE_UP").url

        page = words(olga.get(preview))

        assert "Proposed; a second person has to confirm it" in page
        assert "Give this verdict on 3 items" in page
        assert {state(operation) for operation in outage} == {State.UNKNOWN}

    def test_two_people_close_a_whole_outage_with_one_press_each(self, olga, otto, outage):
        preview = act(olga, "verdict", verdict="GAVE_UP").url
        olga.post(f"{preview}start/", VERDICT)
        run()
        assert (
            "Olga proposes one verdict for many items".lower()
            in words(otto.get(reverse("reconcile") + "?tab=second")).lower()
        )

        confirmed = otto.post(f"{preview}second/", {"id": uuid.uuid4(), "do": "confirm"}).url
        run()

        assert "3 of 3 have had their turn." in words(otto.get(confirmed))
        receipts = Receipt.objects.filter(operation_id__in=outage)
        assert {(one.outcome, one.decided_by) for one in receipts} == {
            (Outcome.RECONCILED, "person:olga and person:otto")
        }
        assert incidents.find_open() == ()

    def test_the_first_person_cannot_be_the_second(self, olga, outage):
        preview = act(olga, "verdict", verdict="GAVE_UP").url
        olga.post(f"{preview}start/", VERDICT)
        run()

        page = words(olga.post(f"{preview}second/", {"id": uuid.uuid4(), "do": "confirm"}, follow=True))
        run()

        assert "somebody else has to confirm it" in page
        assert {state(operation) for operation in outage} == {State.UNKNOWN}

    def test_what_is_turned_down_closes_nothing(self, olga, otto, outage):
        preview = act(olga, "verdict", verdict="GAVE_UP").url
        olga.post(f"{preview}start/", VERDICT)
        run()

        otto.post(f"{preview}second/", {"id": uuid.uuid4(), "do": "withdraw"})
        run()

        assert {state(operation) for operation in outage} == {State.UNKNOWN}
        assert dossier.proposal(uuid.UUID(outage[0])) is None

    @pytest.mark.parametrize("typed", ["", "close it"])
    def test_a_verdict_that_is_not_typed_out_starts_nothing(self, olga, outage, typed):
        preview = act(olga, "verdict", verdict="GAVE_UP").url

        answer = olga.post(f"{preview}start/", VERDICT | {"typed": typed})
        run()

        assert answer.status_code == 422
        assert "Type exactly: close as unknown" in words(answer)
        assert dossier.proposal(uuid.UUID(outage[0])) is None

    def test_a_verdict_the_evidence_does_not_allow_is_offered_for_nothing(self, olga, outage):
        page = words(olga.get(act(olga, "verdict", verdict="NEVER_CREATED").url))

        assert "Only the server&#x27;s proof by the submission key" in page
        assert "Nothing of this can be done now" in page

    @pytest.mark.parametrize(
        "fields", [{"verdict": ""}, {"verdict": "FOUND"}, {"verdict": "ESTABLISHED_OUTSIDE", "outcome": ""}]
    )
    def test_what_a_verdict_lacks_is_said(self, olga, outage, fields):
        answer = act(olga, "verdict", **fields)

        assert answer.status_code == 422
        assert 'class="err"' in words(answer)

    @pytest.mark.parametrize("role", ["viewer", "approver", "admin"])
    def test_others_read_and_are_told_which_role_acts(self, outage, role):
        other = make.signed_in("somebody", role)

        assert "Needs the role operator." in words(other.get(address()))
        assert act(other, "look").status_code == 403


def test_one_that_does_not_exist_is_not_found(olga):
    assert olga.get(reverse("reconcile_incident", args=[uuid.uuid4()])).status_code == 404


class TestScope:
    """B242: whoever does not look after a server sees nothing of it, and does nothing to it."""

    @pytest.fixture
    def oscar(self, outage):
        """An operator who looks after another server."""
        make.server("other", tools=("count_stock",))
        client = Client()
        client.force_login(make.person("oscar", "operator", team=""))
        make.join("oscar", "stockkeepers", servers=["other"])
        return client

    def test_b242_an_incident_of_a_foreign_server_is_not_there(self, oscar, outage):
        where = address()

        assert oscar.get(where).status_code == 404
        assert oscar.post(f"{where}do/", {"do": "look"}).status_code == 404
        assert "Incident at" not in words(oscar.get(reverse("reconcile")))
        assert reverse("operation", args=[outage[0]]) not in words(oscar.get(reverse("reconcile") + "?tab=left"))

    def test_b242_a_batch_of_foreign_operations_is_not_there(self, olga, oscar, outage):
        preview = act(olga, "verdict", verdict="GAVE_UP").url

        assert oscar.get(preview).status_code == 404
        for verb in ("start/", "stop/", "second/"):
            assert oscar.post(preview + verb, VERDICT | {"do": "confirm"}).status_code == 404
        assert dossier.proposal(uuid.UUID(outage[0])) is None

    def test_b242_a_bulk_cancel_holds_only_what_one_sees(self, oscar, outage):
        mine = make.working(server="other", tool="count_stock")
        make.working()

        preview = oscar.post(reverse("operation_cancel_many"), {"query": "view=open"}).url

        page = words(oscar.get(preview))
        assert "Request cancel of 1 operation<" in page
        assert reverse("operation", args=[mine]) in page

    def test_b242_a_batch_ends_where_its_persons_servers_end(self, olga, outage):
        preview = act(olga, "verdict", verdict="GAVE_UP").url
        olga.post(f"{preview}start/", VERDICT)
        TeamMember.objects.filter(person="person:olga").delete()

        run()

        assert dossier.proposal(uuid.UUID(outage[0])) is None
