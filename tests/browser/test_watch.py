"""What the product does by itself. These tests come last: by then it has done so, and nobody has to wait."""

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser]


def test_the_ledger_is_checked_every_minute_without_anybody_asking(product, visit):
    """The first check comes within the worker's first minute, and the page follows by itself."""
    adam = visit("adam", "/gates/")

    expect(adam.locator("main")).to_contain_text("invariants checked", timeout=180_000)
