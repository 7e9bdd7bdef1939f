"""An admin's day, in Chromium, against the whole product: watch, stop, share, roll back, drain, prove."""

import json
import uuid

import pytest
from playwright.sync_api import expect

from operations import proof
from tests.browser.conftest import barriers

pytestmark = [pytest.mark.browser]
VERSION = "2025-11-25"


@pytest.fixture
def own(product):
    """An installation whose version may be rolled back: what is stopped by the test is let in again at its end."""
    yield product
    product.manage("shell", "--no-imports", given=_AS_BEFORE)


_AS_BEFORE = f"""
from django.utils import timezone
from operations import ledger
note = ledger.Note(by="person:tests", reason="as it was before the test", now=timezone.now())
ledger.set_submits("protocol", "{VERSION}", is_open=True, reason="", note=note)
ledger.set_share("{VERSION}", "r1", share=100, note=note)
"""


def rooms():
    """Each page of the admin's rooms."""
    version = f"/adapters/{VERSION}/"
    return [
        "/adapters/",
        version,
        version + "rollback/",
        version + "drain/",
        "/servers/",
        "/servers/new/",
        "/servers/pricing/",
        "/servers/pricing/edit/",
        "/servers/pricing/tools/bulk_price_change/",
        "/gates/",
        "/gates/proof/",
        "/people/",
        "/people/new/",
        "/people/of/adam/",
        "/password/",
        "/tokens/",
        "/tokens/new/",
    ]


def test_an_admin_stops_rolls_back_and_watches_the_drain(own, visit):
    """Two calls in flight, one waiting for an answer: new calls are refused, and both go on to one receipt each."""
    asking = own.submit("pricing", "bulk_price_change", {"percent": 5}, node=f"asks-{uuid.uuid4()}")
    going = own.submit("analysis", "log_analysis", {"days": 3}, node=f"goes-{uuid.uuid4()}")
    own.reached(asking, "INPUT_REQUIRED")
    own.reached(going, "WORKING")

    adam = visit("adam", "/adapters/")
    adam.get_by_role("link", name=VERSION, exact=True).click()
    adam.get_by_role("link", name="Roll back…").click()
    expect(adam.locator("main")).to_contain_text("look, answer, cancel")
    confirm = adam.locator("form", has=adam.get_by_label("Type the version"))
    confirm.get_by_label("Reason").fill("Odd answers since 11:07, see the incident")
    confirm.get_by_label("Type the version").fill(VERSION)
    adam.get_by_role("button", name=f"Roll back {VERSION}").click()

    expect(adam.locator("main")).to_contain_text("were in flight")
    status, told = own.api(
        "operations",
        {"call_node": f"late-{uuid.uuid4()}", "submission_key": f"late-{uuid.uuid4()}", "server": "reports"}
        | {"tool": "quarterly_report", "arguments": {"quarter": "2026-Q3"}, "principal": "the planner"},
    )
    assert (status, told["fall_back_allowed"]) == (423, False)
    assert "Odd answers since 11:07" in told["detail"]
    for operation in (asking, going):
        own.api(f"operations/{operation}/cancel", {"reason": "the day is over"})
    for operation in (asking, going):
        assert own.reached(operation, "CANCELLED_ACCEPTED")["receipt"]["outcome"] == "CANCELLED"


def test_a_connection_is_tested_and_a_server_is_stopped_and_let_in_again(own, visit):
    """What a server declares is shown before anything is kept; a stop needs a reason and stands on record."""
    adam = visit("adam", "/servers/reports/")
    adam.get_by_role("button", name="Test connection").click()
    expect(adam.get_by_role("status").first).to_contain_text("quarterly_report")

    stop = adam.locator("#stop")
    stop.get_by_label("Reason").fill("Its operator asked for an hour of peace")
    stop.get_by_role("button", name="Stop new calls").click()
    expect(adam.locator("main")).to_contain_text("New calls are stopped")

    stop.get_by_label("Reason").fill("The hour is over")
    stop.get_by_role("button", name="Let new calls in").click()
    expect(adam.locator("main")).to_contain_text("SUBMITS_OPENED")


def test_an_advance_is_proved_from_the_page_to_a_file(product, visit, tmp_path):
    """The exported file is enough: the same checks hold without a ledger."""
    operation = product.submit("analysis", "log_analysis", {"days": 3}, node=f"proof-{uuid.uuid4()}")
    product.reached(operation, "WORKING")
    product.api(f"operations/{operation}/cancel", {"reason": "only for the proof"})
    product.reached(operation, "CANCELLED_ACCEPTED")

    adam = visit("adam", "/gates/proof/")
    adam.get_by_label("Any id").fill(operation)
    adam.get_by_role("button", name="Find").click()
    with adam.expect_download() as file:
        adam.get_by_role("link", name="Export as JSON").click()

    file.value.save_as(tmp_path / "proof.json")
    findings = proof.check(json.loads((tmp_path / "proof.json").read_text()))
    assert [finding.what for finding in findings if not finding.holds] == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_stands_in_anybodys_way(product, visit, theme):
    """No page of the admin breaks a rule of axe, in either theme."""
    product.reached(product.submit("analysis", "log_analysis", {"days": 3}, node=f"axe-{uuid.uuid4()}"), "WORKING")
    adam = visit("adam", color_scheme=theme, reduced_motion="reduce")

    for address in rooms():
        adam.goto(address)
        assert barriers(adam) == [], address


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_token_is_shown_once(visit, theme):
    """Its page stands in nobody's way either."""
    adam = visit("adam", "/tokens/new/", color_scheme=theme, reduced_motion="reduce")
    adam.get_by_label("API client").fill("night-shift")
    adam.get_by_label("Reason").fill("For the night's reports")
    adam.get_by_role("button", name="Make this token").click()

    expect(adam.get_by_role("heading", name="A token of night-shift")).to_be_visible()
    expect(adam.locator("main")).to_contain_text("It is shown now and never again")
    assert barriers(adam) == []
    adam.reload()
    expect(adam.get_by_role("heading", name="A token of night-shift")).to_be_visible()
    expect(adam.locator("main")).not_to_contain_text("It is shown now and never again")


@pytest.mark.parametrize("width", [360, 768, 1024])
def test_no_page_is_wider_than_its_window(visit, width):
    """From a phone to a desk, nothing has to be pushed sideways to be read."""
    adam = visit("adam", viewport={"width": width, "height": 800})

    for address in rooms():
        adam.goto(address)
        spare = adam.evaluate("document.documentElement.clientWidth - document.documentElement.scrollWidth")
        assert spare >= 0, address
