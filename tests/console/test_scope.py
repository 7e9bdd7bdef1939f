"""Whoever does not look after a server sees nothing of it: no page, no row, no fragment, no id on a socket (W)."""

import uuid

import pytest
from django.test import Client
from django.urls import URLPattern, reverse
from django.urls.converters import IntConverter, UUIDConverter

from console import urls
from operations import ledger
from tests.console import factories as make

pytestmark = pytest.mark.django_db
NODE = "node-of-the-bank"
NOT_OF_A_SERVER = {"team", "adapter", "approval_class", "batch", "saved_view", "list", "incident", "shadow", "rollback"}
"""Prefixes of addresses whose names are not those of a server or an operation."""


@pytest.fixture
def olga():
    """Somebody who may do everything, at the shop alone."""
    make.server("shop")
    make.server("bank", tools=("move_money",))
    client = Client()
    client.force_login(make.person("olga", "approver", "operator", "admin", "viewer", team=""))
    make.join("olga", "shopkeepers", servers=["shop"])
    return client


@pytest.fixture
def foreign(olga):
    """An operation of the bank with an open question, and one that stands before a person."""
    make.unknown(make.working(server="bank", tool="move_money", call_node=f"{NODE}-2"))
    return make.asking(server="bank", tool="move_money", call_node=NODE)


def addresses():
    return [route for route in urls.urlpatterns if isinstance(route, URLPattern) and route.name]


def parts(route, operation):
    """What the address of a foreign object is made of; None: it names none."""
    held = {}
    for name, converter in route.pattern.converters.items():
        if isinstance(converter, UUIDConverter):
            held[name] = operation
        elif isinstance(converter, IntConverter):
            held[name] = 1
        elif name == "slug":
            held[name] = "bank"
        elif name == "name":
            held[name] = "move_money"
        else:
            return None
    return held or None


ABOUT_ONE = [
    route.name
    for route in addresses()
    if parts(route, uuid.UUID(int=0)) and not route.name.startswith(tuple(NOT_OF_A_SERVER))
]
LISTS = [route.name for route in addresses() if not route.pattern.converters]
FOR_MACHINES = {"metrics", "livez", "readyz"}
OF_TEAMS = {"teams", "team_new"}
"""Whoever makes teams has to see every server, or nobody could ever be given one."""


def test_the_addresses_are_the_real_ones():
    assert {"operation", "round", "cancel", "evidence", "reconcile_item", "server", "tool", "proof"} <= set(ABOUT_ONE)
    assert {"operations", "approvals", "reconcile", "servers", "gates", "audit", "approval_policies"} <= set(LISTS)


@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.parametrize("name", ABOUT_ONE)
def test_a_page_about_it_is_not_there(olga, foreign, name, method):
    [route] = [route for route in addresses() if route.name == name]

    answer = getattr(olga, method)(reverse(name, kwargs=parts(route, foreign)))

    assert answer.status_code in {404, 405}
    assert "Move money" not in answer.content.decode()


@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true"}])
@pytest.mark.parametrize("name", sorted(set(LISTS) - FOR_MACHINES - OF_TEAMS))
def test_no_row_of_it_is_in_any_list_or_fragment(olga, foreign, name, headers):
    told = olga.get(reverse(name), headers=headers).content.decode()

    assert foreign not in told
    assert NODE not in told
    assert "Move money" not in told
    assert "move_money" not in told
    assert "Bank" not in told


def test_neither_a_search_nor_rows_asked_for_by_id_bring_it(olga, foreign):
    searched = olga.get(reverse("operations"), {"q": foreign})
    rows = olga.get(reverse("operation_rows"), {"id": foreign})

    assert searched.status_code == 200
    assert f'id="op-{foreign}"' not in searched.content.decode()
    assert foreign not in rows.content.decode()


def test_the_navigation_counts_only_what_is_seen(olga, foreign):
    told = olga.get(reverse("places")).content.decode()

    assert "open question" not in told
    assert "open item" not in told


def test_one_s_own_is_all_there(olga, foreign):
    mine = make.asking(server="shop")

    assert olga.get(reverse("operation", args=[mine])).status_code == 200
    assert mine in olga.get(reverse("approvals")).content.decode()


def test_a_server_that_is_given_to_the_team_is_there_at_the_next_request(olga, foreign):
    hidden = olga.get(reverse("operation", args=[foreign])).status_code
    note = ledger.Note(by="person:adam", reason="", now=make.timezone.now())
    ledger.save_team(
        "shopkeepers",
        title="Shopkeepers",
        all_servers=False,
        servers=["shop", "bank"],
        members=["person:olga"],
        note=note,
    )

    assert (hidden, olga.get(reverse("operation", args=[foreign])).status_code) == (404, 200)


def test_whoever_is_in_no_team_sees_nothing(foreign):
    client = Client()
    client.force_login(make.person("nemo", "operator", team=""))

    assert client.get(reverse("operation", args=[foreign])).status_code == 404
    assert foreign not in client.get(reverse("operations") + "?view=all").content.decode()


def test_a_look_at_what_is_not_seen_is_noted(olga, foreign):
    from operations.models import AuditEvent

    olga.post(reverse("look_now", args=[foreign]))

    row = AuditEvent.objects.get(by="person:olga")
    assert (row.what, row.outcome, row.server) == ("LOOK_NOW", "REFUSED", "bank")
