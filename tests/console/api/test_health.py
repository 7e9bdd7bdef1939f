"""GET /livez, GET /readyz"""

import asyncio
import socket
import threading
from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from console import live
from console.api import health
from operations import ledger
from operations.queries.servers import oldest_overdue
from tests.ports import free_port


def test_a_live_process_touches_no_database(client):
    """Without the db mark any query would fail this test."""
    assert client.get("/livez").json() == {"status": "alive"}


@pytest.fixture
def no_broker(settings):
    settings.CELERY_BROKER_URL = None


@pytest.mark.usefixtures("no_broker")
@pytest.mark.django_db
def test_a_ready_process_has_a_database_and_every_migration(client):
    answer = client.get("/readyz")

    assert answer.status_code == 200
    assert answer.json() == {
        "status": "ready",
        "database": "answers",
        "migrations": "complete",
        "listener": "idle",
        "broker": "not configured",
        "looks": "on time",
        "oldest_overdue_s": 0.0,
    }


@pytest.mark.django_db
def test_a_lost_database_is_told_without_its_address(client, monkeypatch):
    def broken():
        raise OperationalError("connection to 10.0.0.7 failed")

    monkeypatch.setattr(health.connection, "cursor", broken)

    answer = client.get("/readyz")

    assert answer.status_code == 503
    assert answer.json() == {"status": "not ready", "database": "does not answer"}


@pytest.mark.django_db
def test_a_missing_migration_is_not_ready(client, monkeypatch):
    monkeypatch.setattr(health.MigrationExecutor, "migration_plan", lambda self, targets: ["0002"])

    answer = client.get("/readyz")

    assert (answer.status_code, answer.json()["migrations"]) == (503, "1 missing")


@pytest.mark.django_db
def test_a_lost_broker_is_told_without_its_address_and_keeps_the_pages_reachable(client, settings):
    """A message is only a wake-up: the ledger is the queue."""
    settings.CELERY_BROKER_URL = f"redis://127.0.0.1:{free_port()}/0"

    answer = client.get("/readyz")

    assert (answer.status_code, answer.json()["broker"]) == (200, "does not answer")
    assert "127.0.0.1" not in answer.content.decode()


@pytest.mark.django_db
def test_a_broker_that_answers_is_told(client, settings):
    with socket.create_server(("127.0.0.1", 0)) as broker:
        settings.CELERY_BROKER_URL = f"redis://127.0.0.1:{broker.getsockname()[1]}/0"
        threading.Thread(target=_answer_as_redis, args=(broker,), daemon=True).start()

        assert client.get("/readyz").json()["broker"] == "answers"


def _answer_as_redis(broker):
    """Say OK to whatever a client introduces itself with, and PONG to a ping."""
    connection, _ = broker.accept()
    with connection:
        while asked := connection.recv(4096):
            commands = asked.count(b"*")
            connection.sendall(b"+PONG\r\n" if b"PING" in asked else b"+OK\r\n" * commands)


@pytest.mark.django_db
@pytest.mark.parametrize("ready, said", [(True, "listening"), (False, "connecting")])
def test_a_listener_that_somebody_needs_is_told(client, monkeypatch, ready, said):
    loop = asyncio.new_event_loop()
    one = live.Listener()
    monkeypatch.setattr(one, "_task", object())
    if ready:
        one.ready.set()
    monkeypatch.setattr(live, "_listeners", {loop: one})
    loop.close()

    assert client.get("/readyz").json()["listener"] == said


class TestOverdueLooks:
    def test_they_are_told_and_keep_the_pages_reachable(self, client, node, monkeypatch):
        """B217: liveness is progress; but a page that says so must be reachable."""
        node.submit()
        monkeypatch.setattr(health.timezone, "now", lambda: _later(minutes=5))

        answer = client.get("/readyz")

        assert (answer.status_code, answer.json()["looks"]) == (200, "late")
        assert answer.json()["oldest_overdue_s"] > 290

    def test_a_row_in_a_workers_hands_is_not_overdue(self, client, node, monkeypatch):
        node.submit()
        ledger.claim(limit=1, now=_later(seconds=1))
        monkeypatch.setattr(health.timezone, "now", lambda: _later(seconds=80))

        assert client.get("/readyz").json()["looks"] == "on time"

    def test_a_paused_server_is_not_overdue(self, client, node, monkeypatch):
        node.submit()
        ledger.pause_server("reports", until=_later(minutes=5), reason="429")
        monkeypatch.setattr(health.timezone, "now", lambda: _later(minutes=5))

        assert client.get("/readyz").json()["looks"] == "on time"

    def test_after_a_pause_they_are_overdue_since_its_end(self, client, node, monkeypatch):
        node.submit()
        ledger.pause_server("reports", until=_later(minutes=1), reason="429")
        monkeypatch.setattr(health.timezone, "now", lambda: _later(minutes=5))

        assert 230 < client.get("/readyz").json()["oldest_overdue_s"] < 250

    @pytest.mark.django_db
    def test_what_is_not_due_yet_is_not_read_were_it_a_million_rows(self):
        with CaptureQueriesContext(connection) as asked:
            oldest_overdue(now=_later())

        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute(f"EXPLAIN {asked[0]['sql']}")
            plan = "\n".join(line for (line,) in cursor.fetchall())
        assert "due_by_server" in plan
        assert "due_at <= " in plan.partition("due_by_server")[2].partition("Cond:")[2].splitlines()[0]


_NOW = timezone.now


def _later(**span):
    return _NOW() + timedelta(**span)
