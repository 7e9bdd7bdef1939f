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
    frame = ada.locator(".tl").bounding_box()

    for lane in ("We", "Server", "People"):
        name = ada.locator(".lanes span", has_text=re.compile(f"^{lane}$"))
        expect(name).to_be_visible()
        box = name.bounding_box()
        assert 0 <= box["x"] <= frame["x"] + 1 - box["width"]
    now = ada.locator(".tl .nowt").bounding_box()
    assert frame["x"] <= now["x"] <= frame["x"] + frame["width"] - now["width"]


@pytest.mark.parametrize("window", [WIDE, PHONE], ids=["wide", "phone"])
def test_the_bar_of_decisions_covers_no_field_that_has_the_focus(product, visit, huge, window):
    ada = visit("ada", f"/approvals/{huge}/1/", viewport=window)
    bar = ada.locator(".actbar")

    for field in ada.locator("#answer input:visible, #answer textarea:visible").all():
        ada.evaluate("scrollTo(0, 0)")
        field.focus()
        box = field.bounding_box()
        assert box["y"] + box["height"] <= bar.bounding_box()["y"]
