"""Two people agree on the very same answer; an admin says who has to, who is told, and reads what was done."""

import uuid

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import barriers

pytestmark = [pytest.mark.browser]

_TWO = """
from django.utils import timezone
from operations import ledger
from operations.approval import Policy
note = ledger.Note(by="tests", reason="", now=timezone.now())
ledger.set_approval(Policy(needed={needed}), server="pricing", tool="bulk_price_change", note=note)
"""


@pytest.fixture
def two_needed(product):
    """A price change whose first question needs two people; its id. Later ones need one again."""
    product.person("bob", "approver")
    product.manage("shell", "--no-imports", given=_TWO.format(needed=2))
    operation = product.submit("pricing", "bulk_price_change", {"percent": 5}, node=f"two-{uuid.uuid4()}")
    product.reached(operation, "INPUT_REQUIRED")
    product.manage("shell", "--no-imports", given=_TWO.format(needed=1))
    return operation


def fill(page, most):
    page.get_by_label("Garden (412 products)").check()
    page.get_by_label("At most this many products").fill(most)
    page.get_by_role("button", name="Submit").click()


def test_two_people_disagree_and_then_agree(product, visit, two_needed):
    """Nothing leaves while they differ; each sees the other's answer come without a reload."""
    ada, bob = visit("ada", f"/approvals/{two_needed}/1/"), visit("bob", f"/approvals/{two_needed}/1/")

    fill(ada, "300")
    expect(ada.locator("main")).to_contain_text("1 more person has to give the very same one; nothing was sent")
    expect(bob.locator("#round-votes")).to_contain_text("1 of 2")
    fill(bob, "200")
    expect(bob.locator("#round-votes")).to_contain_text("They do not agree")
    expect(ada.locator("#round-votes")).to_contain_text("They do not agree")

    bob.locator("#round-votes").get_by_role("button", name="Take my answer back").click()
    expect(bob.locator("main")).to_contain_text("Your vote was taken back")
    bob.get_by_role("button", name="Give the very same answer").click()

    expect(bob.locator("#round-state")).to_contain_text("You answered: Submit")
    expect(ada.locator("#round-state")).to_contain_text("Bob answered: Submit")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_of_it_puts_anything_in_anybodys_way(product, visit, two_needed, theme, width):
    """No rule of axe is broken, and no page is wider than its window."""
    window = {"viewport": {"width": width, "height": 844}, "color_scheme": theme}
    ada, adam = visit("ada", f"/approvals/{two_needed}/1/", **window), visit("adam", "/audit/", **window)
    fill(ada, "300")
    expect(ada.locator("#round-votes")).to_contain_text("1 of 2")

    for page, address in (
        (ada, f"/approvals/{two_needed}/1/"),
        (ada, "/approvals/"),
        (ada, "/approvals/policies/"),
        (adam, "/approvals/policies/tool/pricing/bulk_price_change/"),
        (adam, "/audit/"),
        (adam, "/teams/"),
        (adam, "/teams/everybody/"),
        (adam, "/teams/everybody/edit/"),
        (adam, "/teams/everybody/ways/new/"),
    ):
        page.goto(address)
        assert barriers(page) == [], address
        assert page.evaluate("document.documentElement.scrollWidth") <= width, address
