"""GET /api/v1/operations, GET /api/v1/operations/{id}"""

import threading
import time
import uuid

import httpx
import pytest
from django.db import connection

from tests.console.api import world

pytestmark = pytest.mark.django_db


def test_our_word_and_the_servers_word_are_told_apart(node):
    """L6: `state` is ours, `protocol_status` is the server's."""
    operation = node.submitted()
    world.working(operation)

    body = node.get(f"operations/{operation}").json()

    assert (body["state"], body["protocol_status"], body["task_id"]) == ("WORKING", "working", "t-1")
    assert "status" not in body


def test_an_open_question_is_shown_with_its_deadline(node):
    operation = node.submitted()
    world.working(operation)
    world.asking(operation)

    body = node.get(f"operations/{operation}").json()

    assert body["state"] == "INPUT_REQUIRED"
    assert (body["input"]["round"], body["input"]["open"]) == (1, True)
    assert body["input"]["deadline_at"] is not None


@pytest.mark.parametrize("query", ["call_node=invoice-7/report", "submission_key=key-1"])
def test_a_lost_id_is_found_again_by_what_the_caller_knows(node, query):
    """A4"""
    operation = node.submitted()

    found = node.get(f"operations?{query}").json()["items"]

    assert [item["id"] for item in found] == [operation]


def test_a_lookup_needs_a_name(node):
    assert node.get("operations").status_code == 400


@pytest.mark.parametrize("query", ["call_node=invoice-7/report", "submission_key=key-1"])
def test_a_foreign_operation_is_not_found_by_name(node, stranger, query):
    node.submitted()

    assert stranger.get(f"operations?{query}").json() == {"items": []}


@pytest.mark.parametrize("part", ["", "/receipt", "/result"])
def test_a_foreign_operation_reads_like_one_that_does_not_exist(node, stranger, part):
    operation = world.accepted(node)

    foreign = stranger.get(f"operations/{operation}{part}")
    unknown = stranger.get(f"operations/{uuid.uuid4()}{part}")

    assert foreign.status_code == unknown.status_code == 404
    assert foreign.content == unknown.content


def test_an_unchanged_operation_is_not_sent_again(node):
    operation = node.submitted()
    shown = node.get(f"operations/{operation}")

    again = node.get(f"operations/{operation}", **{"If-None-Match": shown["ETag"]})

    assert (again.status_code, again.content) == (304, b"")


def test_a_changed_operation_has_another_etag(node):
    operation = node.submitted()
    before = node.get(f"operations/{operation}")["ETag"]
    world.working(operation)

    after = node.get(f"operations/{operation}", **{"If-None-Match": before})

    assert after.status_code == 200
    assert after["ETag"] != before


@pytest.mark.parametrize("wait", ["-1", "61", "soon", "1.5", "٣"])
def test_a_wait_that_cannot_be_read_is_refused(node, wait):
    operation = node.submitted()

    assert node.get(f"operations/{operation}?wait={wait}").status_code == 400


def test_a_final_operation_is_never_waited_for(node):
    operation = world.accepted(node)
    began = time.monotonic()

    answer = node.get(f"operations/{operation}?wait=60")

    assert answer.json()["final"] is True
    assert time.monotonic() - began < 40


def test_a_wait_ends_with_its_time(node):
    operation = node.submitted()
    began = time.monotonic()

    answer = node.get(f"operations/{operation}?wait=1")

    assert answer.json()["state"] == "SUBMITTING"
    assert time.monotonic() - began > 0.9


@pytest.mark.django_db(transaction=True)
class TestWaiting:
    @pytest.fixture
    def waiting(self, live_site):
        """Give a function that asks in a thread, and one that returns the answer."""
        world.register_server()
        node = world.Node()
        answers = []

        def ask(path, **headers):
            headers |= {"Authorization": f"Bearer {node.token}"}
            answers.append(httpx.get(f"{live_site}/api/v1/{path}", headers=headers, timeout=90, trust_env=False))

        def start(path, **headers):
            thread = threading.Thread(target=ask, args=(path,), kwargs=headers)
            thread.start()
            return thread

        return node, start, answers

    def test_a_waiting_caller_is_told_as_soon_as_something_changes(self, waiting, only_told):
        node, start, answers = waiting
        operation = node.submitted()
        thread = start(f"operations/{operation}?wait=60")
        only_told(operation)

        world.working(operation)

        thread.join(40)
        assert answers[0].json()["state"] == "WORKING"

    def test_a_change_before_the_wait_is_not_missed(self, waiting):
        node, start, answers = waiting
        operation = node.submitted()
        etag = node.get(f"operations/{operation}")["ETag"]
        world.working(operation)

        start(f"operations/{operation}?wait=60", **{"If-None-Match": etag}).join(40)

        assert answers[0].json()["state"] == "WORKING"

    def test_a_waiting_caller_holds_no_database_connection(self, waiting, only_told):
        """There are fewer connections than callers who may wait."""
        node, start, answers = waiting
        operation = node.submitted()
        threads = [start(f"operations/{operation}?wait=60") for _ in range(30)]
        only_told(operation, callers=30)

        held = _fewest_connections()

        assert not answers
        assert held < 10
        world.working(operation)
        for thread in threads:
            thread.join(40)
        assert [answer.status_code for answer in answers] == [200] * 30


def _fewest_connections():
    """The connections to this database once their number falls no more: who has just asked lets go a moment later."""
    seen = []
    while len(seen) < 5 or min(seen[-3:]) < min(seen[:-3]):
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
            seen += cursor.fetchone()
        time.sleep(0.3)
    return min(seen)
