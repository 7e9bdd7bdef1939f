"""Many at once, in Chromium, against the whole product: a bulk cancel, an outage cleared by two people, a kept list."""

import re
import uuid

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import barriers

pytestmark = [pytest.mark.browser]


@pytest.fixture
def ann():
    """Somebody on whose behalf nobody else calls."""
    return f"ann-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def running(product, ann):
    """Three log analyses on behalf of one person; their ids."""
    made = [
        product.submit("analysis", "log_analysis", {"days": 3}, node=f"many-{uuid.uuid4()}", principal=ann)
        for _ in range(3)
    ]
    for operation in made:
        product.reached(operation, "WORKING")
    return made


@pytest.fixture
def outage(product):
    """Three exports whose answers were lost: one incident; their ids."""
    made = [
        product.submit("exports", "flaky_export", {"table": "orders"}, node=f"out-{uuid.uuid4()}") for _ in range(3)
    ]
    for operation in made:
        product.reached(operation, "UNKNOWN")
    return made


def to_incident(page):
    """Open the desk and follow it to the incident, which the worker gathers within some seconds."""
    page.goto("/reconcile/")
    page.get_by_role("link", name="Incident at").first.click()


def test_many_are_cancelled_after_a_preview_and_the_page_follows(product, visit, running, ann):
    """Nothing happens before the preview is agreed to; then each row is asked, and nobody has to reload."""
    olga = visit("olga", f"/operations/?principal={ann}")
    olga.get_by_role("button", name="Cancel all of these").click()
    expect(olga.get_by_role("heading", name="A preview: nothing has happened yet")).to_be_visible()
    olga.get_by_label("No longer needed").check()
    olga.get_by_label("In your words").fill("The incident is over")

    olga.get_by_role("button", name="Request cancel of 3 operations").click()

    expect(olga.get_by_text("3 of 3 have had their turn.")).to_be_visible()
    expect(olga.locator("#batch-badge")).to_have_text("done")
    for operation in running:
        assert product.reached(operation, "CANCELLED_ACCEPTED")["receipt"]["outcome"] == "CANCELLED"
    olga.go_back()
    olga.reload()
    expect(olga.locator("main")).to_contain_text("have had their turn.")


def test_two_people_clear_an_outage_with_one_press_each(product, visit, outage):
    """The first proposes one verdict for all of it, the second confirms all of it; each call node gets its receipt."""
    olga = visit("olga", "/reconcile/")
    to_incident(olga)
    olga.get_by_label("Give up: close as unknown").check()
    olga.get_by_role("button", name="Preview this verdict").click()
    olga.get_by_label("In your words").fill("The owner of the exports found no file")
    olga.get_by_label("To confirm").fill("close as unknown")
    olga.get_by_role("button", name=re.compile("Give this verdict on")).click()
    expect(olga.get_by_role("heading", name=re.compile("waits? for a second person"))).to_be_visible()
    expect(olga.locator("#batch-badge")).to_have_text("done")

    otto = visit("otto", "/reconcile/?tab=second")
    otto.get_by_role("link", name="olga proposes one verdict for many items").first.click()
    otto.get_by_role("button", name="Confirm all and carry them out").click()
    expect(otto.locator("#batch-badge")).to_have_text("done")

    for operation in outage:
        assert product.reached(operation, "RECONCILED")["receipt"]["outcome"] == "RECONCILED"


def test_without_script_many_are_cancelled_all_the_same(product, visit, running, ann):
    """Links and forms are real: a reload shows how far it has come."""
    olga = visit("olga", f"/operations/?principal={ann}", java_script_enabled=False)
    olga.get_by_role("button", name="Cancel all of these").click()
    olga.get_by_label("Runs too long").check()
    olga.get_by_label("In your words").fill("Four minutes are too many")
    olga.get_by_role("button", name="Request cancel of 3 operations").click()

    for operation in running:
        product.reached(operation, "CANCELLED_ACCEPTED")
    olga.reload()
    expect(olga.get_by_text("3 of 3 have had their turn.")).to_be_visible()


def test_a_kept_list_opens_by_itself_and_follows_the_person(visit, running, ann):
    """What is kept is kept on the server: another browser of the same person opens with it."""
    olga = visit("olga", f"/operations/?principal={ann}")
    olga.get_by_text("Keep this list").click()
    olga.get_by_label("Name", exact=True).fill(ann)
    olga.get_by_role("button", name="Keep", exact=True).click()
    olga.get_by_role("button", name="Open with this list").click()
    expect(olga.get_by_role("button", name="Do not open with this list")).to_be_visible()

    elsewhere = visit("olga", "/")
    elsewhere.get_by_role("link", name="Operations", exact=True).click()

    expect(elsewhere.get_by_role("link", name=ann)).to_have_attribute("aria-current", "page")
    expect(elsewhere.locator("tbody tr")).to_have_count(3)
    elsewhere.get_by_role("button", name="Drop this list").click()
    expect(elsewhere.get_by_role("link", name=ann)).to_have_count(0)


def test_without_a_socket_a_page_asks_by_itself_every_fifteen_seconds(product, visit, running, ann):
    """A network that lets no socket through costs some seconds, and never a wrong page."""
    olga = visit("olga", "/")
    olga.route_web_socket("**/ws/live", lambda socket: socket.close())
    olga.goto(f"/operations/?principal={ann}")
    expect(olga.locator("body")).to_have_attribute("data-live", "lost")
    expect(olga.locator("#live-lost")).to_be_visible()
    olga.evaluate("window.notReloaded = true")

    product.api(f"operations/{running[0]}/cancel", {"reason": "not needed any more"})

    expect(olga.locator("tbody .badge.off")).to_have_text("Cancelled")
    assert olga.evaluate("window.notReloaded")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_stands_in_anybodys_way_and_nothing_is_too_wide(visit, running, outage, ann, theme):
    """No page breaks a rule of axe, in either theme, nor is wider than a phone."""
    olga = visit("olga", color_scheme=theme, reduced_motion="reduce", viewport={"width": 390, "height": 844})
    olga.goto(f"/operations/?principal={ann}&order=oldest&cols=word&cols=server&cols=principal&cols=age")
    pages = [olga.url]
    olga.get_by_role("button", name="Cancel all of these").click()
    expect(olga.locator("#batch-badge")).to_have_text("preview")
    pages.append(olga.url)
    to_incident(olga)
    expect(olga.get_by_role("heading", name="Where it stands")).to_be_visible()
    pages += [olga.url, "/reconcile/", "/reconcile/?tab=left"]

    for address in pages:
        olga.goto(address)
        assert barriers(olga) == [], address
        spare = olga.evaluate("document.documentElement.clientWidth - document.documentElement.scrollWidth")
        assert spare >= 0, address
