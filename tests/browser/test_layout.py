"""What a page looks like is a promise too: nothing foreign makes it wider than the window or endless."""

import re
import uuid

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser]
WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
ENDLESS = 6_000  # pixels: some screens, not some dozens


@pytest.fixture
def huge(product):
    """A question for a call with a name of 200 letters and 90 kB of arguments; its id."""
    arguments = {"percent": 4.5, **{f"item {n}": "x" * 60 for n in range(1200)}}
    operation = product.submit(
        "pricing", "bulk_price_change", arguments, node="n" * 160 + uuid.uuid4().hex, principal="p" * 200
    )
    product.reached(operation, "INPUT_REQUIRED")
    return operation


@pytest.mark.parametrize("window", [WIDE, PHONE], ids=["wide", "phone"])
def test_nothing_foreign_makes_a_page_wide_or_endless(product, visit, huge, window):
    pages = [f"/operations/{huge}/?tab=record", f"/approvals/{huge}/1/", "/approvals/", "/operations/"]
    ada = visit("ada", viewport=window)

    for address in pages:
        ada.goto(address)
        assert ada.evaluate("document.documentElement.scrollWidth") <= window["width"], address
        assert ada.evaluate("document.documentElement.scrollHeight") < ENDLESS, address


def test_a_phone_shows_the_names_of_the_lanes_and_now(product, visit, huge):
    ada = visit("ada", f"/operations/{huge}/", viewport=PHONE)

    for lane in ("We", "Server", "People"):
        expect(ada.locator(".lanes span", has_text=re.compile(f"^{lane}$"))).to_be_visible()
    ada.wait_for_function(_LANES_BESIDE_THE_PICTURE)
    ada.wait_for_function(_NOW_IS_IN_SIGHT)


# Asked until they hold: a live page may draw its picture anew between two measurements, never within one.
_LANES_BESIDE_THE_PICTURE = """() => {
    const frame = document.querySelector(".tl").getBoundingClientRect();
    const names = [...document.querySelectorAll(".lanes span")].map((name) => name.getBoundingClientRect());
    return names.every((name) => name.left >= 0 && name.right <= frame.left + 1);
}"""
_NOW_IS_IN_SIGHT = """() => {
    const frame = document.querySelector(".tl").getBoundingClientRect();
    const now = document.querySelector(".tl .nowt").getBoundingClientRect();
    return now.left >= frame.left && now.right <= frame.right;
}"""


@pytest.mark.parametrize("window", [WIDE, PHONE], ids=["wide", "phone"])
def test_the_bar_of_decisions_covers_no_field_that_has_the_focus(product, visit, huge, window):
    ada = visit("ada", f"/approvals/{huge}/1/", viewport=window)

    for field in ada.locator("#answer input:visible, #answer textarea:visible").all():
        ada.evaluate("scrollTo(0, 0)")
        field.focus()
        ada.wait_for_function(_CLEAR_OF_THE_BAR, arg=field.element_handle())


_CLEAR_OF_THE_BAR = """(field) =>
    field.getBoundingClientRect().bottom <= document.querySelector(".actbar").getBoundingClientRect().top"""
