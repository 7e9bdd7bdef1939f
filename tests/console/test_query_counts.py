"""A list of many asks the database as often as a list of few: every list that has no such test among its own.

Operations, the desk, the first page and the navigation are counted in `test_complaints`, the others beside their pages.
"""

import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from operations import ledger
from operations.machine import Event, Outcome, Reason
from operations.notice import Kind, Way
from operations.queries import incidents
from tests.console import factories as make
from tests.console.test_shadows import compared

pytestmark = pytest.mark.django_db
V = make.VERSION


@pytest.fixture
def everyone():
    """Somebody with every role, signed in, who sees every server."""
    make.server()
    ledger.set_policy("shop", "change_prices", ledger.ToolPolicy(effect="NONE"))  # what may be tried in a trial
    return make.signed_in("eve", "approver", "operator", "admin")


def note():
    return ledger.Note(by="person:adam", reason="a try", now=timezone.now())


def claimed_round():
    operation = make.asking()
    ledger.claim_round(operation, round=1, by="person:eve", now=timezone.now())


def answered_round():
    make.answer(make.asking())


def expired_round():
    make.expire(make.asking())


def forgotten_call():
    make.unknown(event=Event.NOT_FOUND, reason=Reason.NOT_FOUND)
    ledger.gather_incidents(now=timezone.now())


def difference():
    compared(f"node-{uuid.uuid4()}", told=Outcome.TOOL_ERROR, seen=Outcome.SUCCESS)


def team():
    name = f"t{uuid.uuid4().hex[:8]}"
    ledger.save_team(name, title=name, all_servers=False, servers=("shop",), note=note())
    make.person(f"p{name}", "operator", team=name)


def told_team():
    """One more way for the first team, and one more thing to tell by each."""
    kinds, address = tuple(kind.value for kind in Kind), f"{uuid.uuid4().hex[:8]}@example.org"
    ledger.save_route(ledger.NewRoute(team="everybody", way=Way.EMAIL, address=address, kinds=kinds), note=note())
    make.asking()


def tool():
    make.server(f"s{uuid.uuid4().hex[:8]}", tools=("change_prices", "count_stock"))


LISTS = {
    "approvals, mine": (claimed_round, lambda: reverse("approvals") + "?tab=mine"),
    "approvals, answered": (answered_round, lambda: reverse("approvals") + "?tab=answered"),
    "approvals, expired": (expired_round, lambda: reverse("approvals") + "?tab=expired"),
    "who has to agree": (tool, lambda: reverse("approval_policies")),
    "an incident": (forgotten_call, lambda: reverse("reconcile_incident", args=[incidents.find_open()[0].id])),
    "a trial": (difference, lambda: reverse("shadows", args=[V])),
    "what is in flight before a rollback": (make.working, lambda: reverse("adapter_rollback", args=[V])),
    "teams": (team, lambda: reverse("teams")),
    "what a team was told": (told_team, lambda: reverse("team", args=["everybody"])),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_many_asks_as_often_as_a_list_of_few(everyone, name):
    one_more, address = LISTS[name]
    ledger.put_on_trial(V, "r2", note=note())
    for _ in range(3):  # fewer are no incident
        one_more()
    few = _queries(everyone, address())
    for _ in range(5):
        one_more()

    many = _queries(everyone, address())

    assert many == few


def _queries(client, address):
    with CaptureQueriesContext(connection) as seen:
        assert client.get(address).status_code == 200
    return len(seen)
