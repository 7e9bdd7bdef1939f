"""GET /api/v1/operations/{id}/receipt"""

import pytest

from tests.console.api import world

pytestmark = pytest.mark.django_db


def test_a_receipt_carries_its_eight_facts(node):
    """R3"""
    operation = world.accepted(node)

    receipt = node.get(f"operations/{operation}/receipt").json()

    assert receipt["outcome"] == "SUCCESS"
    assert (receipt["call_node"], receipt["task_id"], receipt["terminal_status"]) == ("node-1", "t-1", "completed")
    assert (receipt["execution_epoch"], receipt["cancel_generation"]) == (1, 0)
    assert len(receipt["request_digest"]) == len(receipt["tool_version"]) == len(receipt["result_digest"]) == 64
    assert receipt["result_url"].endswith(f"/operations/{operation}/result")


def test_while_a_call_runs_it_has_no_receipt_and_must_not_be_made_again(node):
    operation = node.submitted()
    world.working(operation)

    refused = node.get(f"operations/{operation}/receipt")

    assert refused.status_code == 404
    assert refused.json()["type"].endswith("/no-receipt-yet")
    assert refused.json()["state"] == "WORKING"


def test_a_receipt_without_a_result_links_none(node):
    operation = node.submitted()
    node.post(f"operations/{operation}/cancel", {"reason": "not needed"})

    receipt = node.get(f"operations/{operation}/receipt").json()

    assert (receipt["outcome"], receipt["result_url"]) == ("CANCELLED", None)
