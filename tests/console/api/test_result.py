"""GET /api/v1/operations/{id}/result"""

import base64
import hashlib

import pytest

from tests.console.api import world

pytestmark = pytest.mark.django_db


def test_the_validated_bytes_come_as_they_were_accepted(node):
    operation = world.accepted(node)

    result = node.get(f"operations/{operation}/result")

    assert result.content == world.RESULT
    digest = base64.b64encode(hashlib.sha256(world.RESULT).digest()).decode()
    assert result["Content-Digest"] == f"sha-256=:{digest}:"
    assert result["Longcall-Result-Digest"] == hashlib.sha256(world.RESULT).hexdigest()


def test_a_tools_own_error_is_told_apart_from_a_success(node):
    """R7"""
    operation = world.accepted(node, is_error=True)

    result = node.get(f"operations/{operation}/result")

    assert (result.status_code, result["Longcall-Outcome"]) == (200, "TOOL_ERROR")


def test_a_completed_task_has_no_result_before_it_was_accepted(node):
    """A2: seen as completed is not accepted."""
    operation = node.submitted()
    world.working(operation)
    world.completed(operation)

    refused = node.get(f"operations/{operation}/result")

    assert refused.status_code == 404
    assert refused.json()["state"] == "TERMINAL_OBSERVED"


def test_a_cancelled_call_has_no_result(node):
    operation = node.submitted()
    node.post(f"operations/{operation}/cancel", {"reason": "not needed"})

    refused = node.get(f"operations/{operation}/result")

    assert refused.status_code == 404
    assert (refused.json()["type"].rpartition("/")[2], refused.json()["outcome"]) == ("no-result", "CANCELLED")
