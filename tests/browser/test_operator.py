"""An operator's day, in Chromium, against the whole product: watch, cancel, reconcile, by mouse, by key, by phone."""

import re
import uuid

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import barriers

pytestmark = [pytest.mark.browser]


@pytest.fixture
def running(product):
    """A log analysis that works for four minutes; its id."""
    operation = product.submit("analysis", "log_analysis", {"days": 3}, node=f"logs-{uuid.uuid4()}")
    product.reached(operation, "WORKING")
    return operation


@pytest.fixture
def lost(product):
    """An export whose answer was lost: it stands on the desk; its id."""
    operation = product.submit("exports", "flaky_export", {"table": "orders"}, node=f"lost-{uuid.uuid4()}")
    product.reached(operation, "UNKNOWN")
    return operation


def page_of(operation):
    return f"/operations/{operation}/"


def rooms(running, lost):
    """Each page of these rooms, with something on it."""
    tabs = [page_of(running) + f"?tab={tab}" for tab in ("history", "evidence", "receipt", "journal", "record")]
    return [
        "/",
        "/operations/?view=all",
        *tabs,
        page_of(running) + "evidence/1/",
        page_of(running) + "cancel/",
        "/reconcile/",
        f"/reconcile/{lost}/",
        "/help/",
    ]


def test_a_cancel_is_asked_watched_and_told_as_it_happens(product, visit, running):
    """Who asked reads how it ended; who has the page open reads and hears it without reloading."""
    olga, vera = visit("olga", page_of(running)), visit("vera", page_of(running))
    expect(vera.locator("body")).to_have_attribute("data-live", "on")
    expect(vera.locator("#op-badge")).to_have_text("Working")
    vera.evaluate("window.notReloaded = true")
    olga.get_by_role("link", name="Request cancel").click()
    olga.get_by_label("No longer needed").check()
    olga.get_by_label("In your words").fill("The incident is over")
    olga.get_by_role("button", name="Request cancel").click()

    for person in (olga, vera):
        expect(person.locator("#op-badge")).to_have_text("Cancelled")
    expect(vera.locator("#say")).to_have_text("Cancelled.")
    assert vera.evaluate("window.notReloaded")
    told = product.reached(running, "CANCELLED_ACCEPTED")
    assert told["receipt"]["outcome"] == "CANCELLED"


def test_an_outcome_nobody_can_tell_is_closed_by_two_people(product, visit, lost):
    """The first proposes with a reason and typed words, the second confirms, and the call node gets one receipt."""
    olga, otto = visit("olga", f"/reconcile/{lost}/"), visit("otto", "/reconcile/?tab=second")
    olga.get_by_label("Give up: close as unknown").check()
    olga.get_by_label("Reason").fill("The export's owner found no file")
    olga.get_by_label("To confirm").fill("close as unknown")
    olga.get_by_role("button", name="Give this verdict").click()
    expect(olga.get_by_role("status").first).to_contain_text("Nothing closes before a second operator")

    otto.reload()
    otto.locator(f"a[href='/reconcile/{lost}/']").click()
    expect(otto.locator("main")).to_contain_text("The export's owner found no file")
    otto.get_by_role("button", name="Confirm and carry out").click()

    expect(otto.locator("main")).to_contain_text("Closed by a person.")
    assert product.reached(lost, "RECONCILED")["receipt"]["outcome"] == "RECONCILED"


def test_without_script_a_cancel_is_asked_all_the_same(visit, running):
    """Links and forms are real: the script only adds comfort."""
    olga = visit("olga", page_of(running) + "cancel/", java_script_enabled=False)
    olga.get_by_label("Runs too long").check()
    olga.get_by_label("In your words").fill("Four minutes are too many")
    olga.get_by_role("button", name="Request cancel").click()

    expect(olga.locator(".say")).to_contain_text(re.compile("not yet honoured|Cancelled"))


def test_keys_move_open_and_search(visit, running, lost):
    """j and k move, o opens, g and a letter go places, the slash searches; in a field they are letters."""
    olga = visit("olga", "/operations/?view=all")
    first, second = (olga.locator("tbody a.t").nth(n) for n in (0, 1))
    for keys, focused in (("jj", second), ("k", first), ("j", second)):
        for key in keys:
            olga.keyboard.press(key)
        expect(focused).to_be_focused()
    goal = second.get_attribute("href")
    olga.keyboard.press("o")
    olga.wait_for_url(f"**{goal}")

    olga.keyboard.press("g")
    olga.keyboard.press("o")
    olga.wait_for_url("**/operations/")
    olga.keyboard.press("/")
    olga.keyboard.type("jk?")
    expect(olga.locator("#q")).to_have_value("jk?")


def test_single_keys_that_are_switched_off_do_nothing(visit, running):
    """Some people speak to their computer: a stray letter must not move the page."""
    olga = visit("olga", "/help/")
    olga.locator(".me summary").click()
    olga.get_by_label("Single-key shortcuts").uncheck()
    with olga.expect_navigation():
        olga.get_by_role("button", name="Keep these").click()
    olga.goto("/operations/")

    olga.keyboard.press("j")

    assert olga.evaluate("document.activeElement === document.body")


def test_times_are_told_in_the_browsers_own_zone_until_one_is_chosen(visit, running):
    """Two zones on one page would be worse than the wrong one."""
    olga = visit("olga", page_of(running), timezone_id="Asia/Tokyo")

    titles = olga.eval_on_selector_all("time", "times => times.map(time => time.title)")

    assert titles
    assert all(title.endswith(" Asia/Tokyo") for title in titles)


def test_new_rows_wait_and_the_ones_shown_stay_where_they_are(product, visit, running):
    """A list that jumps under the mouse makes people press on the wrong row."""
    olga = visit("olga", "/operations/?view=all")
    first = olga.locator("tbody a.t").first.get_attribute("href")

    product.submit("reports", "quarterly_report", {"quarter": "2026-Q3"}, node=f"new-{uuid.uuid4()}")

    expect(olga.locator(".live")).to_contain_text("new operation")
    assert olga.locator("tbody a.t").first.get_attribute("href") == first


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_stands_in_anybodys_way(visit, running, lost, theme):
    """No page breaks a rule of axe, in either theme."""
    olga = visit("olga", color_scheme=theme, reduced_motion="reduce")

    for address in rooms(running, lost):
        olga.goto(address)
        assert barriers(olga) == [], address


@pytest.mark.parametrize("width", [360, 768, 1024])
def test_no_page_is_wider_than_its_window(visit, running, lost, width):
    """From a phone to a desk, nothing has to be pushed sideways to be read."""
    olga = visit("olga", viewport={"width": width, "height": 800})

    for address in rooms(running, lost):
        olga.goto(address)
        spare = olga.evaluate("document.documentElement.clientWidth - document.documentElement.scrollWidth")
        assert spare >= 0, address
