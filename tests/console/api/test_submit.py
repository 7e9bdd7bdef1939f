"""POST /api/v1/operations"""

import json

import pytest
from django.utils import timezone

from operations import ledger
from tests.console.api.world import PROTOCOL

pytestmark = pytest.mark.django_db


def test_a_new_call_is_stored_before_anything_is_sent(node):
    answer = node.submit()

    body = answer.json()
    assert answer.status_code == 201
    assert (body["state"], body["protocol_status"], body["task_id"]) == ("SUBMITTING", None, None)
    assert body["submission_key"] == "key-1"
    assert answer["Location"].endswith(f"/api/v1/operations/{body['id']}")


def test_b207_the_same_call_again_is_the_same_operation(node):
    first = node.submit()

    again = node.submit()

    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["id"] == first.json()["id"]


def test_b207_the_same_key_with_another_body_is_refused_and_names_the_operation_there_is(node):
    first = node.submit().json()

    refused = node.submit(arguments={"quarter": "Q4"})

    problem = refused.json()
    assert refused.status_code == 409
    assert refused["Content-Type"] == "application/problem+json"
    assert problem["clash"] == "submission_key"
    assert problem["operation"] == first["id"]
    assert "Nothing was stored" in problem["not_done"]
    assert node.get(f"operations/{first['id']}").json() == first


def test_another_key_for_the_same_call_node_is_refused(node):
    """L1: a call node makes one call, ever."""
    first = node.submit().json()

    refused = node.submit(submission_key="key-2")

    assert refused.status_code == 409
    assert refused.json()["clash"] == "call_node"
    assert refused.json()["operation_url"].endswith(first["id"])
    assert node.get("operations?submission_key=key-2").json() == {"items": []}


def test_two_clients_may_use_the_same_names(node, stranger):
    mine = node.submit().json()["id"]

    theirs = stranger.submit()

    assert theirs.status_code == 201
    assert theirs.json()["id"] != mine


def test_the_arguments_are_kept_byte_for_byte(node):
    """X2: what is sent, each time, are the very bytes that came."""
    arguments = b'{ "quarter":"Q3",  "limit": 12345678901234567890, "rate": 1.10 }'
    whole = json.dumps(node.call(arguments=None)).encode().replace(b'"arguments": null', b'"arguments":' + arguments)

    answer = node.post("operations", whole)

    assert answer.status_code == 201, answer.content
    [work] = [work for work in _claimed() if work.row.id == answer.json()["id"]]
    assert work.arguments == arguments


def _claimed():
    from django.utils import timezone

    return ledger.claim(limit=10, now=timezone.now())


@pytest.mark.parametrize(
    "changes, member",
    [
        ({"call_node": ""}, "call_node"),
        ({"call_node": "   "}, "call_node"),
        ({"call_node": "n" * 201}, "call_node"),
        ({"submission_key": 7}, "submission_key"),
        ({"principal": "\x00"}, "principal"),
        ({"arguments": []}, "arguments"),
        ({"arguments": "{}"}, "arguments"),
        ({"arguments": {}}, "arguments"),
        ({"wait_budget_s": 0}, "wait_budget_s"),
        ({"wait_budget_s": True}, "wait_budget_s"),
        ({"wait_budget_s": 1e3}, "wait_budget_s"),
        ({"budget": 60}, "budget"),
    ],
)
def test_a_body_that_does_not_fit_is_refused_by_the_name_of_the_member(node, changes, member):
    refused = node.submit(**changes)

    assert refused.status_code == 422
    assert [fault["member"] for fault in refused.json()["errors"]] == [member]
    assert node.get("operations?submission_key=key-1").json() == {"items": []}


def test_all_faults_of_a_body_are_told_at_once(node):
    refused = node.post("operations", {"arguments": 1, "colour": "red"})

    members = {fault["member"] for fault in refused.json()["errors"]}
    assert members == {"call_node", "submission_key", "server", "tool", "principal", "arguments", "colour"}


@pytest.mark.parametrize(
    "raw",
    [
        b" ",
        b"[]",
        b'{"a": 1,}',
        b'{"a": NaN}',
        b'{"a": 1, "a": 2}',
        b'{"a": {"b": 1, "b": 2}}',
        b'{"a": "\xff"}',
        b'{"a": ' + b"[" * 40 + b"]" * 40 + b"}",
        b"{} {}",
    ],
)
def test_a_body_that_two_readers_could_read_differently_is_refused(node, raw):
    refused = node.post("operations", raw)

    assert refused.status_code == 400
    assert refused.json()["type"].endswith("/not-json")


def test_a_body_over_a_megabyte_is_refused(node):
    refused = node.submit(arguments={"quarter": "x" * 1_000_001})

    assert refused.status_code == 413
    assert node.get("operations?submission_key=key-1").json() == {"items": []}


@pytest.mark.parametrize("changes", [{"server": "elsewhere"}, {"tool": "unheard-of"}])
def test_an_unregistered_tool_is_refused(node, changes):
    refused = node.submit(**changes)

    assert refused.status_code == 422
    assert refused.json()["type"].endswith("/no-such-tool")


@pytest.mark.parametrize("scope, name", [("protocol", PROTOCOL), ("server", "reports"), ("tool", "reports/report")])
def test_closed_submits_are_refused_and_forbid_falling_back(node, scope, name):
    """O4, O5: the refusal says why, and that calling and timing out is no way out."""
    ledger.set_submits(scope, name, is_open=False, reason="rolled back at noon")

    refused = node.submit()

    problem = refused.json()
    assert refused.status_code == 423
    assert (problem["scope"], problem["fall_back_allowed"]) == (scope, False)
    assert "rolled back at noon" in problem["detail"]
    assert "forbidden" in problem["detail"]


def test_a_call_that_stands_is_given_back_also_when_submits_are_closed(node):
    """The lost answer to a submit must be readable after a rollback."""
    first = node.submit().json()["id"]
    ledger.set_submits("server", "reports", is_open=False, reason="")

    again = node.submit()

    assert (again.status_code, again.json()["id"]) == (200, first)


def test_a_form_post_is_refused(node):
    refused = node._http.post("/api/v1/operations", {"call_node": "x"})

    assert refused.status_code == 415


def test_o2_a_call_that_no_release_takes_keeps_its_existing_path(node):
    """It is told so every time, may fall back, and nothing is stored but the decision."""
    why = ledger.Note(by="person:adam", reason="begin with a few", now=timezone.now())
    ledger.set_share(PROTOCOL, "r1", share=1, note=why)

    answers = {node.submit(call_node=f"n{i}", submission_key=f"n{i}").status_code for i in range(20)}
    kept = next(
        name for name in (f"n{i}" for i in range(20)) if not node.get(f"operations?call_node={name}").json()["items"]
    )
    ledger.set_share(PROTOCOL, "r1", share=100, note=why)
    refused = node.submit(call_node=kept, submission_key=kept)

    assert 409 in answers
    assert refused.status_code == 409
    assert refused.json()["type"].endswith("keep-existing-path")
    assert refused.json()["fall_back_allowed"] is True
