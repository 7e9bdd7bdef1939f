"""POST /api/v1/shadows, GET /api/v1/shadows/{id}, POST /api/v1/shadows/{id}/outcome (O1, O2)"""

import pytest

from tests.console.api import world

pytestmark = pytest.mark.django_db

TOLD = {"outcome": "SUCCESS", "ended_at": "2026-11-29T12:00:00Z", "looks": 4}


@pytest.fixture
def trial(node):
    """A release on trial, and a tool that is registered as free of side effects."""
    world.put_on_trial()
    return node


def test_a_call_of_an_existing_path_is_watched_and_goes_on(trial):
    answer = trial.post("shadows", world.EXISTING)

    body = answer.json()
    assert (answer.status_code, body["state"], body["adapter_release"]) == (201, "OBSERVING", "r2")
    assert body["fall_back_allowed"] is True
    assert answer.headers["Location"] == body["links"]["self"]


def test_registering_again_is_harmless(trial):
    first = trial.post("shadows", world.EXISTING).json()

    again = trial.post("shadows", world.EXISTING)

    assert (again.status_code, again.json()["id"]) == (200, first["id"])


@pytest.mark.parametrize(
    "changed, told",
    [
        ({"task_id": "t-9"}, "another task"),
        ({"call_node": "invoice-9/report"}, "watched for another call node"),
    ],
)
def test_one_call_node_has_one_task_and_one_task_one_call_node(trial, changed, told):
    trial.post("shadows", world.EXISTING)

    answer = trial.post("shadows", world.EXISTING | changed)

    assert (answer.status_code, answer.json()["type"]) == (409, "/api/v1/problems/shadow-clash")
    assert told in answer.json()["detail"]


def test_a_tool_that_may_have_effects_is_refused_with_the_reason(node):
    world.put_on_trial(effect="EXTERNAL")

    answer = node.post("shadows", world.EXISTING)

    assert (answer.status_code, answer.json()["type"]) == (409, "/api/v1/problems/tool-has-effects")
    assert "reports/report is not registered as free of side effects" in answer.json()["detail"]
    assert "existing path" in answer.json()["not_done"]


def test_without_a_release_on_trial_nobody_would_look(node):
    answer = node.post("shadows", world.EXISTING | {"tool": "note"})
    assert answer.json()["type"] == "/api/v1/problems/tool-has-effects"
    world.put_on_trial()
    world.end_trial()

    answer = node.post("shadows", world.EXISTING)

    assert (answer.status_code, answer.json()["type"]) == (409, "/api/v1/problems/nothing-on-trial")


def test_o2_a_call_node_that_is_watched_is_told_to_keep_its_path_for_ever(trial):
    trial.post("shadows", world.EXISTING)

    answer = trial.submit(call_node=world.EXISTING["call_node"])

    assert (answer.status_code, answer.json()["fall_back_allowed"]) == (409, True)


def test_o2_a_call_node_whose_call_is_in_the_ledger_has_no_existing_path_to_watch(trial):
    trial.submitted(call_node=world.EXISTING["call_node"])

    answer = trial.post("shadows", world.EXISTING)

    assert answer.status_code == 409
    assert "in the ledger already" in answer.json()["detail"]


def test_p8_the_task_of_an_operation_is_nobody_elses(trial):
    world.working(trial.submitted(), task="t-8")

    answer = trial.post("shadows", world.EXISTING)

    assert answer.status_code == 409
    assert "belongs to an operation" in answer.json()["detail"]


def test_how_it_ended_is_reported_once_and_not_changed(trial):
    shadow = trial.post("shadows", world.EXISTING).json()["id"]
    at = f"shadows/{shadow}/outcome"
    first = trial.post(at, TOLD)

    assert (first.status_code, first.json()["reported_at"] is not None) == (200, True)
    assert trial.post(at, TOLD).json()["reported_at"] == first.json()["reported_at"]
    assert trial.post(at, TOLD | {"outcome": "CANCELLED"}).status_code == 409


@pytest.mark.parametrize(
    "changed, member",
    [
        ({"outcome": "LOST"}, "outcome"),
        ({"ended_at": "2026-11-29T12:00:00"}, "ended_at"),
        ({"ended_at": "noon"}, "ended_at"),
        ({"ended_at": 5}, "ended_at"),
        ({"looks": -1}, "looks"),
        ({"state": "WORKING"}, "state"),
    ],
)
def test_what_cannot_be_read_is_named(trial, changed, member):
    shadow = trial.post("shadows", world.EXISTING).json()["id"]

    answer = trial.post(f"shadows/{shadow}/outcome", TOLD | changed)

    assert (answer.status_code, [one["member"] for one in answer.json()["errors"]]) == (422, [member])


def test_a_foreign_shadow_is_not_there(trial, stranger):
    shadow = trial.post("shadows", world.EXISTING).json()["id"]

    assert stranger.get(f"shadows/{shadow}").status_code == 404
    assert stranger.post(f"shadows/{shadow}/outcome", TOLD).status_code == 404
    assert trial.get(f"shadows/{shadow}").json()["reported_at"] is None
