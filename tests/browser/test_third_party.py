"""The whole product against tool servers that other people wrote, with a person in Chromium in the middle."""

import uuid

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.verified]


def acknowledged(product, receipt):
    """Pull the outbox until the receipt is there, and acknowledge it; return it as delivered."""
    _status, told = product.api("outbox?limit=100")
    [delivered] = [row for row in told["items"] if row["receipt"] == receipt]
    status, _told = product.api("outbox/acknowledge", {"receipts": [receipt]})
    assert status == 200
    _status, told = product.api("outbox?limit=100")
    assert receipt not in [row["receipt"] for row in told["items"]]
    return delivered


def test_a_research_query_of_the_reference_server(product, visit, everything_server):
    """Submitted over the API, approved in a browser, one receipt with the validated result, acknowledged (R5, R6)."""
    product.manage("register_server", "everything", everything_server, "--allow-private")
    arguments = {"topic": "durable operations", "ambiguous": True}
    operation = product.submit("everything", "simulate-research-query", arguments, node=f"research-{uuid.uuid4()}")
    ada = visit("ada", "/approvals/")

    asked = ada.locator(f"#open-{operation}-1")
    expect(asked).to_be_visible()
    asked.click()
    ada.locator("main form input[type=radio]").first.check()
    ada.get_by_role("button", name="Submit").click()
    expect(ada.locator("#round-state")).to_contain_text("delivered and confirmed")

    product.reached(operation, "ACCEPTED")
    _status, receipt = product.api(f"operations/{operation}/receipt")
    assert receipt["outcome"] == "SUCCESS"
    delivered = acknowledged(product, receipt["id"])
    assert "durable operations" in str(delivered["result"])


def test_two_rounds_of_the_official_python_server(product, visit, mcp_130_server):
    """The SDK that swallows questions of dropped streams still gets both of its answers, each once (I4, I6)."""
    product.manage("register_server", "python-sdk", mcp_130_server, "--allow-private")
    operation = product.submit("python-sdk", "ask", {"n": 2}, node=f"twice-{uuid.uuid4()}")
    ada = visit("ada", "/approvals/")

    for number in (1, 2):
        asked = ada.locator(f"#open-{operation}-{number}")
        expect(asked).to_be_visible()
        asked.click()
        ada.get_by_role("radio", name="Yes").check()
        ada.get_by_role("button", name="Submit").click()
        expect(ada.locator("#round-state")).to_contain_text("delivered and confirmed")
        ada.goto("/approvals/")

    product.reached(operation, "ACCEPTED")
