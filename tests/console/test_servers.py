"""Servers and tools: an admin registers, tries, decides and stops; everybody else may read (N1, N2, O5)."""

import dataclasses
import random
import re
import socket
import threading
import time

import pytest
import uvicorn
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from adapters.contract import Negotiation
from adapters.simulator import demo
from adapters.simulator.core import ToolServer
from adapters.simulator.face import ToolServersApp
from adapters.simulator.scenario import Scenario
from console.access import Role
from operations import ledger
from operations.models import AuditEvent, Server
from operations.queries import admin, servers
from tests.console import factories as make

pytestmark = pytest.mark.django_db
WHY = "The team asked for it, ticket 7"
PROFILE = {
    "slug": "orders",
    "title": "Orders",
    "url": "http://127.0.0.1:9/mcp",
    "protocol": "2025-11-25",
    "credential_ref": "ORDERS_TOKEN",
    "allow_private": "on",
    "max_qps": "5",
    "poll_floor_ms": "1000",
    "poll_cap_ms": "60000",
    "lookup": "none",
    "quarantine_s": "300",
    "key_window_s": "0",
    "task_ttl_s": "86400",
    "reason": WHY,
}
POLICY = {"effect": "NONE", "expected_s": "90", "budget_s": "600", "answer_within_s": "300", "reason": WHY}


@pytest.fixture
def peer():
    """A simulated tool server on a port of this machine; its address."""
    tools = ToolServer(Scenario(tools=(demo.QUARTERLY_REPORT,)), clock=time.time, chance=random.Random(1))
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(ToolServersApp({"/mcp": tools}), log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)

    yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"

    server.should_exit = True
    thread.join(10)
    listener.close()


def text_of(answer):
    return " ".join(re.sub(r"<[^>]*>", " ", answer.content.decode()).split())


def addresses():
    return [
        reverse("servers"),
        reverse("server", args=["shop"]),
        reverse("tool", args=["shop", "change_prices"]),
    ]


class TestWhoMay:
    @pytest.mark.parametrize("role", list(Role))
    def test_everybody_with_a_role_may_read(self, adam, role):
        somebody = make.signed_in("somebody", role)

        assert [somebody.get(address).status_code for address in addresses()] == [200, 200, 200]

    def test_strangers_are_sent_to_the_login_page(self, adam):
        assert [Client().get(address).status_code for address in addresses()] == [302, 302, 302]

    @pytest.mark.parametrize("role", [role for role in Role if role is not Role.ADMIN])
    def test_only_admins_change_anything(self, adam, role):
        somebody = make.signed_in("somebody", role)

        tried = [
            somebody.get(reverse("server_new")),
            somebody.post(reverse("server_new"), PROFILE),
            somebody.post(reverse("server_edit", args=["shop"]), PROFILE),
            somebody.post(reverse("server_test", args=["shop"])),
            somebody.post(reverse("server_negotiate", args=["shop"]), {"reason": WHY}),
            somebody.post(reverse("server_switch", args=["shop"]), {"do": "shut", "reason": WHY}),
            somebody.post(reverse("tool_policy", args=["shop", "change_prices"]), POLICY),
        ]

        assert [answer.status_code for answer in tried] == [403] * 7
        assert not AuditEvent.objects.filter(outcome="DONE", by="person:somebody").exists()
        assert servers.server("shop").submits_open


class TestRegister:
    def test_a_server_is_stored_with_who_and_why(self, adam):
        answer = adam.post(reverse("server_new"), PROFILE)

        assert answer.url == reverse("server", args=["orders"])
        assert servers.server("orders").credential_ref == "ORDERS_TOKEN"
        [change] = admin.changes_of("server:orders")
        assert (change.by, change.what, change.reason) == ("person:adam", "SERVER_REGISTERED", WHY)

    def test_a_name_that_is_taken_changes_nothing(self, adam):
        answer = adam.post(reverse("server_new"), PROFILE | {"slug": "shop"})

        assert answer.status_code == 422
        assert "A server of this name is registered" in text_of(answer)
        assert servers.server("shop").title == "Shop"

    @pytest.mark.parametrize(
        "wrong",
        [
            {"credential_ref": "Bearer abc"},
            {"reason": "short"},
            {"max_qps": "0"},
            {"protocol": "1999-01-01"},
            {"poll_cap_ms": "1000", "poll_floor_ms": "2000"},
            {"url": "ftp://tools.test/"},
        ],
    )
    def test_a_profile_that_cannot_work_is_refused_and_stays_in_the_form(self, adam, wrong):
        answer = adam.post(reverse("server_new"), PROFILE | wrong)

        assert answer.status_code == 422
        assert servers.server("orders") is None
        assert not AuditEvent.objects.filter(what="SERVER_REGISTERED").exists()
        assert 'value="Orders"' in answer.content.decode()

    def test_a_change_keeps_the_switches_and_says_what_differs(self, adam):
        ledger.set_submits("server", "shop", is_open=False, reason="off")

        adam.post(reverse("server_edit", args=["shop"]), PROFILE | {"title": "Shop", "max_qps": "2"})

        assert (servers.server("shop").max_qps, servers.server("shop").submits_open) == (2, False)
        [change] = admin.changes_of("server:shop")
        assert ("max_qps", 1000, 2) in change.differences
        assert "title" not in change.after

    def test_l4_p7_its_own_stream_is_asked_for_and_what_its_list_has_proved_is_shown(self, adam):
        adam.post(reverse("server_new"), PROFILE | {"lookup": "session_list", "listens": "on"})
        shown = text_of(adam.get(reverse("server", args=["orders"])))

        ledger.lookup_disproved("orders", why="a new task did not show up")
        doubted = text_of(adam.get(reverse("server", args=["orders"])))

        assert servers.server("orders").listens
        assert "not proved yet" in shown
        assert "a new task did not show up" in doubted

    def test_another_address_waits_for_the_calls_under_way_unless_the_server_itself_has_moved(self, adam):
        make.working()
        moved = PROFILE | {"url": "http://127.0.0.1:10/mcp"}

        refused = adam.post(reverse("server_edit", args=["shop"]), moved)
        assert refused.status_code == 422
        assert "1 operations are under way at shop" in text_of(refused)
        adam.post(reverse("server_edit", args=["shop"]), moved | {"moves": "on"})

        assert servers.server("shop").url == "http://127.0.0.1:10/mcp"

    def test_the_value_of_a_credential_is_never_shown(self, adam, monkeypatch):
        monkeypatch.setenv("ORDERS_TOKEN", "Bearer s3cr3t-value")
        adam.post(reverse("server_new"), PROFILE)

        pages = [adam.get(reverse(name, args=["orders"])) for name in ("server", "server_edit")]

        assert all("s3cr3t-value" not in page.content.decode() for page in pages)
        assert "set for this process" in text_of(pages[0])


class TestConnection:
    def test_a_test_shows_what_was_declared_and_keeps_nothing(self, adam, peer):
        adam.post(reverse("server_new"), PROFILE | {"url": peer, "credential_ref": ""})

        answer = adam.post(reverse("server_test", args=["orders"]))

        assert answer.status_code == 200
        assert "quarterly_report runs as a task" in text_of(answer)
        assert servers.tools_of("orders") == ()
        assert servers.server("orders").negotiated_at is None

    def test_n1_negotiating_keeps_tools_and_capabilities_with_a_note(self, adam, peer):
        adam.post(reverse("server_new"), PROFILE | {"url": peer, "credential_ref": ""})

        adam.post(reverse("server_negotiate", args=["orders"]), {"reason": WHY})

        assert [tool.name for tool in servers.tools_of("orders")] == ["quarterly_report"]
        assert servers.server("orders").declared.creates_tasks
        assert admin.changes_of("server:orders")[0].after["tools"] == ["quarterly_report"]

    def test_a_missing_credential_is_said_and_nothing_is_sent(self, adam, peer, monkeypatch):
        monkeypatch.delenv("ORDERS_TOKEN", raising=False)
        adam.post(reverse("server_new"), PROFILE | {"url": peer})

        answer = adam.post(reverse("server_test", args=["orders"]))

        assert answer.status_code == 502
        assert "the environment variable ORDERS_TOKEN is not set" in text_of(answer)
        assert Server.objects.get(slug="orders").slots_given == 0

    def test_a_server_that_is_silent_is_no_error_of_ours(self, adam):
        answer = adam.post(reverse("server_test", args=["shop"]))

        assert answer.status_code == 502
        assert "Check the URL and the network" in text_of(answer)


class TestSwitches:
    @pytest.mark.parametrize("tool", ["", "change_prices"])
    def test_o5_new_calls_stop_with_the_reason_and_are_let_in_again(self, adam, tool):
        target = reverse("server_switch", args=["shop"])

        adam.post(target, {"do": "shut", "reason": WHY, "tool": tool})
        with pytest.raises(ledger.SubmitsClosed, match=WHY):
            make.working()
        adam.post(target, {"do": "open", "reason": "It is repaired now", "tool": tool})

        assert make.working()
        changes = admin.changes_of("tool:shop/change_prices" if tool else "server:shop")
        assert [change.what for change in changes] == ["SUBMITS_OPENED", "SUBMITS_CLOSED"]

    def test_without_a_reason_nothing_is_stopped(self, adam):
        answer = adam.post(reverse("server_switch", args=["shop"]), {"do": "shut", "reason": " "})

        assert answer.status_code == 422
        assert servers.server("shop").submits_open

    def test_a_tool_nobody_described_is_not_found(self, adam):
        answer = adam.post(reverse("server_switch", args=["shop"]), {"do": "shut", "reason": WHY, "tool": "none"})

        assert answer.status_code == 404


class TestTool:
    def test_a_policy_is_decided_with_a_note(self, adam):
        adam.post(reverse("tool_policy", args=["shop", "change_prices"]), POLICY | {"sync_limit_s": "20"})

        [tool] = servers.tools_of("shop")
        assert (tool.effect, tool.expected_s, tool.sync_limit_s) == ("NONE", 90, 20)
        assert admin.changes_of("tool:shop/change_prices")[0].what == "POLICY_SET"

    def test_a_policy_that_is_wrong_is_not_decided(self, adam):
        answer = adam.post(reverse("tool_policy", args=["shop", "change_prices"]), POLICY | {"budget_s": "0"})

        assert answer.status_code == 422
        assert servers.tools_of("shop")[0].budget_s == 3600

    def test_each_description_ever_given_stands_there_with_its_digest(self, adam):
        [first] = servers.descriptors_of("shop", "change_prices")

        answer = adam.get(reverse("tool", args=["shop", "change_prices"]))

        assert first.is_current
        assert first.version in answer.content.decode()

    def test_what_a_server_says_of_itself_is_text(self, adam):
        with connection.cursor() as cursor:
            cursor.execute("UPDATE server SET title = '<script>alert(1)</script>'")

        answer = adam.get(reverse("server", args=["shop"]))

        assert "<script>alert(1)" not in answer.content.decode()


@pytest.mark.parametrize("name, args", [("servers", []), ("server", ["shop"])])
def test_many_servers_and_tools_cost_as_many_queries_as_one(adam, name, args):
    with CaptureQueriesContext(connection) as few:
        adam.get(reverse(name, args=args))
    for number in range(12):
        make.server(f"more-{number}", tools=("one", "two"))
    make.server("shop", tools=("change_prices", *(f"t{number}" for number in range(30))))

    with CaptureQueriesContext(connection) as many:
        adam.get(reverse(name, args=args))

    assert len(many) == len(few)


class TestChangedContract:
    @pytest.fixture
    def changed(self, adam):
        """A server that has withdrawn its cancels since it was negotiated with."""
        less = dataclasses.replace(make.CAPABILITIES, cancels_tasks=False)
        ledger.save_negotiation("shop", Negotiation(capabilities=less, tools=()), now=timezone.now())
        return adam

    @pytest.mark.parametrize("name, args", [("adapters", []), ("adapter", [make.VERSION]), ("server", ["shop"])])
    def test_o5_it_is_said_where_an_admin_decides_and_leads_to_the_stop(self, changed, name, args):
        said = changed.get(reverse(name, args=args)).content.decode()

        assert "may have changed" in said
        assert "#stop" in said

    def test_it_says_what_was_and_what_is(self, changed):
        said = changed.get(reverse("server", args=["shop"])).content.decode()

        assert "<code>cancels_tasks</code>: True → False" in said

    def test_an_admin_who_has_looked_takes_it_off_with_a_reason(self, changed):
        refused = changed.post(reverse("server_seen", args=["shop"]), {"reason": "short"})
        taken = changed.post(reverse("server_seen", args=["shop"]), {"reason": WHY}, follow=True)

        assert refused.status_code == 422
        assert "may have changed" not in taken.content.decode()
        assert AuditEvent.objects.get(what="CONTRACT_SEEN").reason == WHY

    @pytest.mark.parametrize("role", [role for role in Role if role is not Role.ADMIN])
    def test_nobody_else_may(self, changed, role):
        assert (
            make.signed_in("somebody", role).post(reverse("server_seen", args=["shop"]), {"reason": WHY}).status_code
            == 403
        )
        assert Server.objects.get(slug="shop").contract_changed_at is not None


def test_i3_a_tools_page_says_who_has_to_agree_and_leads_to_the_policy(adam):
    page = reverse("tool", args=["shop", "change_prices"])

    said = adam.get(page).content.decode()

    assert "Who has to agree" in said
    assert reverse("approval_tool", args=["shop", "change_prices"]) in said
    assert "Change who has to agree" not in make.signed_in("vera", "viewer").get(page).content.decode()
