"""The one command: `manage.py up` starts everything, survives what breaks, and leaves nothing behind."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.request
from pathlib import Path

import psycopg
import pytest

from console.ground.home import PROJECT
from tests.ground.conftest import PATIENCE
from tests.ports import free_port

# One worker for all of them: two products at once on two cores would measure each other.
pytestmark = [pytest.mark.xdist_group("up"), pytest.mark.faults]


class Up:
    """One `manage.py up` in a folder of its own."""

    def __init__(self, home, port, *words, **services):
        self.home = home
        self.address = f"http://127.0.0.1:{port}"
        ours = ("DATABASE_URL", "CELERY_BROKER_URL", "LONGCALL_DEBUG", "LONGCALL_HOME")
        surroundings = {name: value for name, value in os.environ.items() if name not in ours} | services
        command = [sys.executable, "manage.py", "up", "--home", str(home), "--port", str(port), *words]
        self.process = subprocess.Popen(
            command, cwd=PROJECT, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.output = ""
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        with self.process.stdout as lines:
            for line in lines:
                self.output += line

    def answers(self):
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.address}/login/", timeout=5) as page:
            return page.status == 200
        return False

    def end(self, number=signal.SIGINT):
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        return code


@contextlib.contextmanager
def folder():
    path = Path(tempfile.mkdtemp(prefix="longcall-up-"))
    yield path
    shutil.rmtree(path)


@contextlib.contextmanager
def running(home, soon):
    up = Up(home, free_port(), "--without-demo")
    assert soon(lambda: "is running at" in up.output or up.process.poll() is not None)
    assert up.process.poll() is None, up.output
    yield up
    if up.process.poll() is None:
        up.end()


@pytest.fixture
def home():
    with folder() as path:
        yield path


@pytest.fixture
def up(home, soon):
    """The product without its demo, running; the test may end it or break it."""
    with running(home, soon) as up:
        yield up


@pytest.fixture(scope="module")
def steady(soon):
    """The same, shared by the tests that leave it running."""
    with folder() as home, running(home, soon) as up:
        yield up


def pid_of(home, text):
    """Return the process of this product with a word in its command line; its environment names the folder."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            if text.encode() in words and f"LONGCALL_HOME={home}".encode() in (entry / "environ").read_bytes():
                return int(entry.name)
    return None


def test_it_starts_says_where_it_is_and_stops_on_ctrl_c(up, home, processes_of):
    assert up.answers()
    assert f"Longcall is running at {up.address}/" in up.output
    services = json.loads((home / "services.json").read_text())
    with psycopg.connect(services["DATABASE_URL"]) as connection:
        (migrations,) = connection.execute("SELECT count(*) FROM django_migrations").fetchone() or (0,)
    assert migrations > 10

    up.process.send_signal(signal.SIGINT)

    assert up.process.wait(PATIENCE) == 0
    up.reader.join(PATIENCE)
    assert up.output.endswith("stopped\n")
    assert processes_of(str(home)) == []
    assert not (home / "services.json").exists()


def test_a_second_one_in_the_same_folder_says_so_and_does_not_disturb_the_first(steady):
    second = Up(steady.home, free_port(), "--without-demo")
    code = second.process.wait(PATIENCE)
    second.reader.join(PATIENCE)

    assert code == 1
    assert f"Longcall is already running in {steady.home}" in second.output
    assert steady.answers()


def test_a_port_that_is_taken_is_named(steady, home):
    port = int(steady.address.rsplit(":", 1)[1])
    second = Up(home, port, "--without-demo")
    code = second.process.wait(PATIENCE)
    second.reader.join(PATIENCE)

    assert code == 1
    assert f"Port {port} cannot be used" in second.output
    assert "--port" in second.output


def test_after_kill_nothing_is_left_and_the_next_start_works(up, home, processes_of, soon):
    up.process.kill()
    up.process.wait()

    assert soon(lambda: processes_of(str(home)) == [])
    again = Up(home, free_port(), "--without-demo")
    assert soon(again.answers), again.output
    assert again.end() == 0


def test_what_is_killed_comes_back(up, home, soon):
    server = int((home / "servers" / "postgres" / "postmaster.pid").read_text().split()[0])
    worker = pid_of(home, "worker")
    assert worker

    os.kill(server, signal.SIGKILL)
    os.kill(worker, signal.SIGKILL)

    assert soon(lambda: "Cluster ended; starting it again" in up.output)
    assert soon(lambda: "worker ended with -9" in up.output)
    assert soon(lambda: pid_of(home, "worker") not in {None, worker})
    assert soon(up.answers)


def test_the_whole_group_stops_when_the_terminal_closes(up, home, processes_of):
    assert up.end(signal.SIGHUP) == 0

    assert processes_of(str(home)) == []


def test_a_database_and_a_broker_of_ones_own_are_used_and_left_running(steady, home, soon):
    services = json.loads((steady.home / "services.json").read_text())

    second = Up(home, free_port(), "--without-demo", **services)

    assert soon(second.answers), second.output
    assert second.end() == 0
    assert not (home / "servers").exists()
    psycopg.connect(services["DATABASE_URL"]).close()
    assert steady.answers()
