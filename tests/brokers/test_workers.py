"""Several worker processes on a real Redis and a real RabbitMQ: the ledger is the queue, whatever carries the hints."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg
import pytest

from console.ground.home import PROJECT
from tests.bench.ground import ground
from tests.brokers.servers import BROKERS, free_port

pytestmark = [pytest.mark.long, pytest.mark.faults, pytest.mark.xdist_group("brokers")]
MOVES_AGAIN_S = 30.0
PATIENCE_S = 120.0


class Installation:
    """A database, a tool server, a broker, and groups of workers that share nothing else."""

    def __init__(self, made, broker):
        self._made = made
        self.database = made.database()
        self._surroundings = made.surroundings(self.database, LONGCALL_BOOTSTRAP="0") | {"CELERY_BROKER_URL": broker}
        self._running = []
        port = free_port()
        self._start("demo-servers", "-m", "console.management.bare", "demo_servers", "--port", port, "--speed", 2)
        url = f"http://127.0.0.1:{port}/reports/mcp"
        self._until(lambda: self.manage("register_server", "reports", url, "--allow-private", "--max-qps", "50"))

    def manage(self, *words):
        """Run a command; give what it said, or None where it failed."""
        command = [sys.executable, "manage.py", *map(str, words)]
        done = subprocess.run(
            command, cwd=PROJECT, env=self._surroundings, capture_output=True, text=True, timeout=60, check=False
        )
        return done.stdout or "done" if done.returncode == 0 else None

    def _start(self, name, *words):
        with (self._made.home / f"{name}.log").open("ab") as log:
            started = subprocess.Popen(
                [sys.executable, *map(str, words)],
                cwd=PROJECT,
                env=self._surroundings,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._running.append(started)
        return started

    def workers(self, name, processes=2):
        """Start a group of workers, as on a host of its own."""
        return self._start(name, "manage.py", "worker", "--processes", processes, "--name", f"drives@{name}")

    def submit(self, count):
        for number in range(count):
            assert self.manage(
                "submit", "reports", "quarterly_report", '{"quarter": "2026-Q3"}', "--call-node", f"n{number}"
            )

    def ask(self, sql):
        with psycopg.connect(self.database, autocommit=True) as connection:
            return connection.execute(sql).fetchall()

    def states(self):
        return [state for (state,) in self.ask("SELECT state FROM operation")]

    def _until(self, holds, seconds=PATIENCE_S):
        ends = time.monotonic() + seconds
        while not (value := holds()):
            assert time.monotonic() < ends, self._said()
            time.sleep(0.2)
        return value

    def until(self, holds, seconds=PATIENCE_S):
        """Wait until it holds; give the seconds that took."""
        began = time.monotonic()
        self._until(holds, seconds)
        return time.monotonic() - began

    def _said(self):
        return "".join(path.read_text(errors="replace")[-2000:] for path in self._made.home.glob("*.log"))

    def end(self):
        for process in self._running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="module")
def made():
    with ground(print) as place:
        yield place


@pytest.fixture(scope="module", params=list(BROKERS))
def broker(request):
    home = Path(tempfile.mkdtemp(prefix="longcall-broker-"))
    with BROKERS[request.param](home) as url:
        yield url
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def installation(made, broker):
    running = Installation(made, broker)
    yield running
    running.end()


def test_two_processes_bring_every_call_to_its_one_receipt(installation):
    """Issue 7: the same life as with one embedded worker."""
    group = installation.workers("one")
    installation.submit(4)

    installation.until(lambda: installation.states() == ["ACCEPTED"] * 4)

    assert installation.ask("SELECT count(*), count(DISTINCT operation_id) FROM receipt") == [(4, 4)]
    assert installation.ask("SELECT max(sends) FROM operation") == [(1,)]
    group.terminate()
    assert group.wait(30) == 0


def test_what_a_killed_group_held_moves_again_in_time(installation):
    """Kill -9 of one host's whole group: the leases end, and the other group goes on (P2, L4)."""
    first, _second = installation.workers("one"), installation.workers("two")
    installation.submit(6)
    installation.until(lambda: set(installation.states()) == {"WORKING"} or "ACCEPTED" in installation.states())

    os.killpg(first.pid, signal.SIGKILL)
    before = dict(installation.ask("SELECT operation_id, look FROM due"))
    took = installation.until(
        lambda: all(look > before.get(operation, 0) for operation, look in _looks(installation, before)), MOVES_AGAIN_S
    )
    installation.until(lambda: installation.states() == ["ACCEPTED"] * 6)

    assert took <= MOVES_AGAIN_S
    assert installation.ask("SELECT count(*), count(DISTINCT operation_id) FROM receipt") == [(6, 6)]
    assert installation.ask("SELECT max(sends) FROM operation") == [(1,)]


def _looks(installation, before):
    """How often each operation was claimed; one that has ended is no longer waited for."""
    now = dict(installation.ask("SELECT operation_id, look FROM due"))
    return [(operation, now.get(operation, sys.maxsize)) for operation in before]
