"""The first page and its "try it" panel."""

import re

import pytest
from django.urls import reverse
from django.utils import timezone

from adapters.contract import Negotiation, TaskSupport, ToolDescriptor
from console import demo
from operations import ledger
from operations.queries import operations
from operations.queries.operations import Filter
from tests.console import factories as make

pytestmark = pytest.mark.django_db


@pytest.fixture
def demo_servers():
    """The demo's servers, as they are once they have been asked."""
    for server in demo.servers(port=9):
        ledger.register_protocol(server.protocol, release="r1")
        ledger.register_server(server)
    for trial in demo.TRIALS:
        tool = ToolDescriptor(
            name=trial.tool,
            title=trial.tool,
            description="",
            task_support=TaskSupport.OPTIONAL,
            input_schema={"type": "object"},
            output_schema=None,
            raw=b"{}",
            digest=trial.tool.ljust(64, "0"),
        )
        ledger.save_negotiation(
            trial.server, Negotiation(capabilities=make.CAPABILITIES, tools=(tool,)), now=timezone.now()
        )


def test_each_tool_of_the_demo_has_a_button(demo_servers):
    page = make.signed_in("olga", "operator").get(reverse("home")).content.decode()

    assert re.findall(r'name="tool" value="([^"]+)"', page) == [trial.tool for trial in demo.TRIALS]


def test_a_press_submits_one_call_and_shows_it(demo_servers):
    ada = make.signed_in("ada", "approver")

    answer = ada.post(reverse("try_it"), {"server": "reports", "tool": "quarterly_report"})

    made = operations.find(Filter()).rows
    assert [row.tool for row in made] == ["quarterly_report"]
    assert (made[0].client, made[0].principal) == ("demo", "ada")
    assert answer.url == reverse("operation", args=[made[0].id])


def test_two_presses_are_two_calls(demo_servers):
    ada = make.signed_in("ada", "approver")

    for _ in range(2):
        ada.post(reverse("try_it"), {"server": "reports", "tool": "quarterly_report"})

    assert len(operations.find(Filter()).rows) == 2


def test_a_viewer_sees_the_buttons_locked_and_why(demo_servers):
    vera = make.signed_in("vera", "viewer")

    page = vera.get(reverse("home")).content.decode()
    answer = vera.post(reverse("try_it"), {"server": "reports", "tool": "quarterly_report"})

    assert 'aria-disabled="true"' in page
    assert "Needs the role admin / approver / operator." in page
    assert answer.status_code == 403
    assert operations.find(Filter()).rows == ()


def test_a_tool_that_is_not_of_the_demo_cannot_be_tried(demo_servers):
    make.server()

    answer = make.signed_in("ada", "approver").post(reverse("try_it"), {"server": "shop", "tool": "change_prices"})

    assert answer.status_code == 404


def test_a_closed_server_says_that_nothing_was_submitted(demo_servers):
    ledger.set_submits("server", "reports", is_open=False, reason="under repair")

    page = make.signed_in("ada", "approver").post(
        reverse("try_it"), {"server": "reports", "tool": "quarterly_report"}, follow=True
    )

    assert "Nothing was submitted" in page.content.decode()
    assert "under repair" in page.content.decode()


def test_before_the_demo_answers_the_panel_says_what_to_wait_for():
    page = make.signed_in("ada", "approver").get(reverse("home")).content.decode()

    assert "reload this page in a few seconds" in page


def test_what_was_submitted_lately_is_listed():
    make.server()
    operation = make.working()

    page = make.signed_in("ada", "approver").get(reverse("home")).content.decode()

    assert reverse("operation", args=[operation]) in page
