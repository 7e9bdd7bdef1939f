"""The process that serves the pages dies: it is started again, and every open page heals by itself."""

import os
import signal
import time
import urllib.error
import urllib.request
import uuid

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import START_SECONDS

pytestmark = [pytest.mark.browser]
HEALS = 180_000  # milliseconds: its next try to connect may be most of a minute away


@pytest.fixture
def asked(product):
    """A bulk price change that asks its first question; its id."""
    operation = product.submit("pricing", "bulk_price_change", {"percent": 5}, node=f"restart-{uuid.uuid4()}")
    product.reached(operation, "INPUT_REQUIRED")
    return operation


def wait_for_another(product, old):
    """Wait until another web process than this one answers."""
    deadline = time.monotonic() + START_SECONDS
    while product.web_process() in {old, None} or not answers(product):
        assert time.monotonic() < deadline, "no other web process has come"
        time.sleep(0.2)


def answers(product):
    try:
        with urllib.request.urlopen(f"{product.url}/readyz", timeout=10) as told:
            return told.status == 200
    except (urllib.error.URLError, OSError):
        return False


def test_pages_heal_by_themselves_and_what_was_typed_is_still_there(product, visit, asked):
    """Nobody presses anything: the page connects again, and shows what has happened since (item 5)."""
    ada = visit("ada", f"/approvals/{asked}/1/", may_complain=True)
    ada.get_by_label("Comment for the record").fill("asked finance, they agree")
    expect(ada.locator("body")).to_have_attribute("data-live", "on")

    old = product.web_process()
    os.kill(old, signal.SIGKILL)
    wait_for_another(product, old)
    product.api(f"operations/{asked}/cancel", {"reason": "only for the restart"})
    product.reached(asked, "CANCELLED_ACCEPTED")

    expect(ada.locator("#closed-note")).to_be_visible(timeout=HEALS)
    expect(ada.locator("body")).to_have_attribute("data-live", "on", timeout=HEALS)
    expect(ada.get_by_label("Comment for the record")).to_have_value("asked finance, they agree")
