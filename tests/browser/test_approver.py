"""An approver's day, in Chromium, against the whole product with its simulated tool server."""

import re
import uuid

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import barriers

pytestmark = [pytest.mark.browser]


@pytest.fixture
def asked(product):
    """A bulk price change, on its way to its first question."""
    return product.submit("pricing", "bulk_price_change", {"percent": 5}, node=f"day-{uuid.uuid4()}")


def round_of(operation, number=1):
    return f"/approvals/{operation}/{number}/"


def in_inbox(page, operation, number=1):
    return page.locator(f"#open-{operation}-{number}")


def test_both_rounds_of_a_price_change(product, visit, asked):
    """The inbox fills by itself, the first answer wins, the second person learns who won, and a receipt comes of it."""
    product.person("bob", "approver")
    ada = visit("ada", "/approvals/")
    ada.evaluate("window.notReloaded = true")

    expect(in_inbox(ada, asked)).to_be_visible()
    assert ada.evaluate("window.notReloaded")
    in_inbox(ada, asked).click()
    bob = visit("bob", round_of(asked), java_script_enabled=False)

    ada.get_by_label("Garden (412 products)").check()
    ada.get_by_label("At most this many products").fill("300")
    ada.get_by_role("button", name="Submit").click()
    expect(ada.locator("#round-state")).to_contain_text("You answered: Submit")

    bob.get_by_label("Kitchen (1,038 products)").check()
    bob.get_by_label("Comment for the record").fill("kitchen first")
    bob.get_by_role("button", name="Submit").click()
    expect(bob.get_by_role("heading", level=1)).to_have_text("Round 1 was already answered")
    expect(bob.locator("main")).to_contain_text(re.compile(r"Ada answered .+ before you"))
    expect(bob.locator("table")).to_contain_text("Kitchen (1,038 products)")
    expect(bob.locator("main")).to_contain_text("kitchen first")

    expect(ada.locator("#round-state")).to_contain_text("delivered and confirmed")
    expect(ada.locator("#round-state")).to_contain_text("Round 2 is open")
    ada.get_by_role("link", name="Open round 2").click()
    expect(ada.locator(".quote")).to_contain_text("300 prices are ready")
    expect(ada.locator(".diff")).to_contain_text("300 prices are ready")
    ada.get_by_role("radio", name="Yes").check()
    ada.get_by_role("button", name="Submit").click()

    product.reached(asked, "ACCEPTED")
    _status, receipt = product.api(f"operations/{asked}/receipt")
    assert receipt["outcome"] == "SUCCESS"
    expect(ada.locator("#round-state")).to_contain_text("delivered and confirmed")


def test_a_form_that_closes_while_somebody_types(product, visit, asked):
    """The draft stays, the buttons go, and a page that is opened again brings the draft back."""
    product.reached(asked, "INPUT_REQUIRED")
    slow, quick = visit("ada", round_of(asked)), visit(product.person("bob", "approver"), round_of(asked))

    slow.get_by_label("At most this many products").fill("77")
    slow.get_by_label("Comment for the record").fill("still thinking")
    expect(slow.locator("#draft-note")).to_contain_text("Draft kept")
    slow.reload()
    expect(slow.get_by_label("At most this many products")).to_have_value("77")
    expect(slow.locator("#draft-note")).to_contain_text("Your draft is back")
    quick.get_by_role("button", name="Decline").click()

    expect(slow.locator("#round-state")).to_contain_text("Bob answered: Decline")
    expect(slow.locator("#closed-note")).to_be_visible()
    expect(slow.get_by_role("button", name="Submit")).to_be_hidden()
    expect(slow.get_by_label("Comment for the record")).to_have_value("still thinking")
    expect(slow.locator("#closed-note")).to_contain_text("Bob answered first: Decline.")
    slow.get_by_role("button", name="See both answers side by side").click()
    expect(slow.get_by_role("heading", level=1)).to_have_text("Round 1 was already answered")
    expect(slow.locator("main")).to_contain_text("still thinking")
    product.reached(asked, "ACCEPTED")


def test_a_double_click_is_one_answer(product, visit, asked):
    """B169"""
    product.reached(asked, "INPUT_REQUIRED")
    ada = visit("ada", round_of(asked))

    ada.get_by_role("button", name="Decline").dblclick()

    expect(ada.locator("#round-state")).to_contain_text("You answered: Decline")
    product.reached(asked, "ACCEPTED")


def test_a_page_whose_socket_is_gone_heals(product, visit, asked):
    """B232: the page says so by its state, connects again and reads everything anew."""
    ada = visit("ada", "/approvals/", may_complain=True)
    expect(ada.locator("body")).to_have_attribute("data-live", "on")

    ada.context.set_offline(True)
    expect(ada.locator("body")).to_have_attribute("data-live", "lost")
    product.reached(asked, "INPUT_REQUIRED")
    ada.context.set_offline(False)

    expect(in_inbox(ada, asked)).to_be_visible()
    expect(ada.locator("body")).to_have_attribute("data-live", "on")


def test_no_barrier_and_no_sideways_scrolling(product, visit, asked):
    """WCAG 2.2 AA as far as axe sees it, in both themes, on a desk and on a phone: every page of a round's life."""
    product.reached(asked, "INPUT_REQUIRED")
    still = {"reduced_motion": "reduce"}
    pages = {
        (theme, width): visit(
            "ada", "/approvals/", color_scheme=theme, viewport={"width": width, "height": 900}, **still
        )
        for theme in ("light", "dark")
        for width in (1280, 390)
    }
    found = {}

    def look(name, path=None):
        for kind, page in pages.items():
            if path:
                page.goto(path)
            found[name, *kind] = barriers(page)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (name, kind)

    look("inbox", "/approvals/")
    look("open", round_of(asked))
    for page in pages.values():
        page.get_by_role("button", name="Submit").click()
        expect(page.locator("main")).to_contain_text("Nothing was sent")
    look("errors")
    for page in pages.values():
        # By the form itself: in all but the first browser the button goes before anybody could press it.
        with page.expect_navigation():
            page.locator("#answer").evaluate("form => form.requestSubmit(form.querySelector('[value=decline]'))")
    look("conflict")
    look("answered", round_of(asked))
    look("history", "/approvals/?tab=answered")

    assert {place: rules for place, rules in found.items() if rules} == {}
