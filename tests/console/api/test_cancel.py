"""POST /api/v1/operations/{id}/cancel"""

import pytest

from operations import ledger
from tests.console.api import world

pytestmark = pytest.mark.django_db

WISH = {"reason": "the order was withdrawn"}


def test_a_cancel_is_received_and_has_not_won(node):
    """C1, C11, P3"""
    operation = node.submitted()
    world.working(operation)

    answer = node.post(f"operations/{operation}/cancel", WISH)

    body = answer.json()
    assert (answer.status_code, body["press"]) == (202, "REQUESTED")
    assert (body["operation"]["state"], body["operation"]["final"]) == ("CANCEL_REQUESTED", False)
    assert body["operation"]["cancel"]["requested_by"] == "client:billing"
    assert body["operation"]["cancel"]["reason"] == WISH["reason"]


def test_a_call_of_which_nothing_was_sent_is_closed_at_once(node):
    """C9"""
    operation = node.submitted()

    answer = node.post(f"operations/{operation}/cancel", WISH)

    assert (answer.status_code, answer.json()["press"]) == (200, "CLOSED_UNSENT")
    assert answer.json()["operation"]["receipt"]["outcome"] == "CANCELLED"


def test_a_second_press_changes_nothing(node):
    """C10"""
    operation = node.submitted()
    world.working(operation)
    first = node.post(f"operations/{operation}/cancel", WISH).json()

    second = node.post(f"operations/{operation}/cancel", {"reason": "again"})

    assert (second.status_code, second.json()["press"]) == (202, "ALREADY_REQUESTED")
    assert second.json()["cancel_generation"] == first["cancel_generation"]
    assert second.json()["operation"]["cancel"]["reason"] == WISH["reason"]


def test_a_server_without_cancel_is_told_at_once(node):
    """C5"""
    world.register_server(cancels=False)
    operation = node.submitted()
    world.working(operation)

    answer = node.post(f"operations/{operation}/cancel", WISH)

    assert (answer.status_code, answer.json()["press"]) == (202, "NO_CANCEL")
    assert "cannot cancel" in answer.json()["what_happened"]
    assert answer.json()["operation"]["state"] == "WORKING"


def test_a_finished_call_is_not_cancelled_and_its_end_is_told(node):
    """C10"""
    operation = node.submitted()
    world.working(operation)
    world.completed(operation)

    refused = node.post(f"operations/{operation}/cancel", WISH)

    problem = refused.json()
    assert refused.status_code == 409
    assert (problem["state"], problem["terminal_status"]) == ("TERMINAL_OBSERVED", "completed")
    assert problem["at"] in problem["detail"]


def test_an_outdated_view_does_not_cancel(node):
    operation = node.submitted()
    world.working(operation)

    refused = node.post(f"operations/{operation}/cancel", WISH | {"seen_generation": 3})

    assert refused.status_code == 409
    assert refused.json()["type"].endswith("/out-of-date")
    assert node.get(f"operations/{operation}").json()["state"] == "WORKING"


def test_a_foreign_operation_is_not_cancelled(node, stranger):
    operation = node.submitted()

    refused = stranger.post(f"operations/{operation}/cancel", WISH)

    assert refused.status_code == 404
    assert ledger.read([operation])[operation].state == "SUBMITTING"


@pytest.mark.parametrize(
    "body", [{}, {"reason": ""}, {"reason": "x", "seen_generation": "0"}, {"reason": "x", "by": "me"}]
)
def test_a_cancel_needs_a_reason_and_nothing_else(node, body):
    operation = node.submitted()

    assert node.post(f"operations/{operation}/cancel", body).status_code == 422
    assert node.get(f"operations/{operation}").json()["cancel"] is None
