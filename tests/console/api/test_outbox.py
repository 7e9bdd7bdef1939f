"""GET /api/v1/outbox, POST /api/v1/outbox/acknowledge"""

import threading
import uuid

import httpx
import pytest
from django.db import connection

from tests.console.api import world

pytestmark = pytest.mark.django_db


def pulled(node, query=""):
    return node.get(f"outbox{query}").json()["items"]


def test_an_accepted_call_is_handed_out_with_its_result(node):
    """R6"""
    operation = world.accepted(node)

    answer = node.get("outbox")

    [item] = answer.json()["items"]
    assert (item["operation"], item["outcome"], item["call_node"]) == (operation, "SUCCESS", "node-1")
    assert world.RESULT in answer.content
    assert item["receipt"] == node.get(f"operations/{operation}/receipt").json()["id"]


def test_a_call_without_a_receipt_is_never_handed_out(node):
    """A2: completed is not accepted."""
    operation = node.submitted()
    world.working(operation)
    world.completed(operation)

    assert pulled(node) == []


def test_b245_a_repeated_delivery_is_the_same_bytes_under_the_same_id(node):
    world.accepted(node)
    first = node.get("outbox")

    second = node.get("outbox")

    assert second.content == first.content
    assert _deliveries() == [2]


def test_an_acknowledged_receipt_is_not_handed_out_again(node):
    world.accepted(node)
    [item] = pulled(node)

    answer = node.post("outbox/acknowledge", {"receipts": [item["receipt"]]})

    assert answer.json() == {"acknowledged": [item["receipt"]], "unknown": []}
    assert pulled(node) == []


def test_acknowledging_twice_is_harmless(node):
    operation = world.accepted(node)
    [item] = pulled(node)
    node.post("outbox/acknowledge", {"receipts": [item["receipt"]]})
    first = node.get(f"operations/{operation}/receipt").json()["acknowledged_at"]

    answer = node.post("outbox/acknowledge", {"receipts": [item["receipt"], item["receipt"]]})

    assert answer.json()["acknowledged"] == [item["receipt"]]
    assert node.get(f"operations/{operation}/receipt").json()["acknowledged_at"] == first


def test_nobody_takes_over_the_receipts_of_another_client(node, stranger):
    world.accepted(node)
    [item] = pulled(node)

    answer = stranger.post("outbox/acknowledge", {"receipts": [item["receipt"]]})

    assert pulled(stranger) == []
    assert answer.json() == {"acknowledged": [], "unknown": [item["receipt"]]}
    assert len(pulled(node)) == 1


def test_an_unknown_receipt_is_told_and_the_others_are_taken(node):
    world.accepted(node)
    [item] = pulled(node)
    unknown = str(uuid.uuid4())

    answer = node.post("outbox/acknowledge", {"receipts": [unknown, item["receipt"]]})

    assert answer.json() == {"acknowledged": [item["receipt"]], "unknown": [unknown]}


@pytest.mark.parametrize("receipts", [[], "x", ["x"], [1], None, [str(uuid.uuid4())] * 501])
def test_an_acknowledgement_must_be_a_list_of_ids(node, receipts):
    assert node.post("outbox/acknowledge", {"receipts": receipts}).status_code == 422


def test_the_pages_of_one_pass_hold_everything_once_in_order(node):
    operations = [world.accepted(node, number=number) for number in range(1, 6)]

    found, after, more = [], 0, True
    while more:
        page = node.get(f"outbox?limit=2&after={after}").json()
        found += [item["operation"] for item in page["items"]]
        after, more = page["next_after"], page["more"]

    assert found == operations


def test_b227_a_receipt_that_was_committed_late_is_found_by_the_next_pass(node):
    """A smaller number may be committed after a bigger one: no cursor may skip it."""
    early, late = world.accepted(node, number=1), world.accepted(node, number=2)
    with connection.cursor() as cursor:
        # The first transaction is still open somewhere: its row cannot be seen yet.
        cursor.execute(
            "UPDATE outbox SET client = 'open' WHERE receipt_id = (SELECT id FROM receipt WHERE operation_id = %s)",
            [early],
        )
    [item] = pulled(node)
    node.post("outbox/acknowledge", {"receipts": [item["receipt"]]})
    with connection.cursor() as cursor:
        cursor.execute("UPDATE outbox SET client = 'billing' WHERE client = 'open'")

    assert item["operation"] == late
    assert [item["operation"] for item in pulled(node)] == [early]


def test_a_big_result_comes_by_its_address(node):
    big = b'{"content": [], "structuredContent": {"text": "' + b"x" * 40_000 + b'"}}'
    operation = world.accepted(node, raw=big)

    [item] = pulled(node)

    assert (item["result"], item["result_size"]) == (None, len(big))
    assert item["result_url"].endswith(f"/operations/{operation}/result")
    assert node.get(f"operations/{operation}/result").content == big


def test_a_receipt_without_a_result_is_handed_out_too(node):
    operation = node.submitted()
    node.post(f"operations/{operation}/cancel", {"reason": "not needed"})

    [item] = pulled(node)

    assert (item["outcome"], item["result"], item["result_url"], item["result_size"]) == ("CANCELLED", None, None, None)


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "after=-1", "after=" + "9" * 30, "wait=61"])
def test_a_query_that_cannot_be_read_is_refused(node, query):
    assert node.get(f"outbox?{query}").status_code == 400


@pytest.mark.django_db(transaction=True)
def test_a_waiting_caller_gets_a_receipt_as_soon_as_it_exists(live_site, only_told):
    world.register_server()
    node, answers = world.Node(), []
    headers = {"Authorization": f"Bearer {node.token}"}
    url = f"{live_site}/api/v1/outbox?wait=60"
    thread = threading.Thread(
        target=lambda: answers.append(httpx.get(url, headers=headers, timeout=90, trust_env=False))
    )
    thread.start()
    only_told(None)

    operation = world.accepted(node)

    thread.join(40)
    assert [item["operation"] for item in answers[0].json()["items"]] == [operation]


def _deliveries():
    with connection.cursor() as cursor:
        cursor.execute("SELECT deliveries FROM outbox")
        return [row[0] for row in cursor.fetchall()]
