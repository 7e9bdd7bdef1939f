"""Our own processes: started, watched, started again, stopped, and never left behind."""

import os
import signal
import subprocess
import sys

import pytest

from console.ground import supervisor as module
from console.ground.home import PROJECT
from console.ground.processes import Process, table
from console.ground.supervisor import Supervisor

SLEEPER = "import sys, time; print('here', sys.argv[1:], flush=True); time.sleep(60)"
ORDERLY = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit("asked to stop"))
print("here", flush=True)
time.sleep(60)
"""
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('here', flush=True); time.sleep(60)"
)


@pytest.fixture
def told():
    return []


@pytest.fixture
def supervisor(tmp_path, told):
    for name, text in {"sleeper": SLEEPER, "stubborn": STUBBORN, "crasher": "raise SystemExit(3)"}.items():
        (tmp_path / f"{name}.py").write_text(text)
    supervisor = Supervisor(
        environment=dict(os.environ) | {"PYTHONPATH": str(tmp_path)}, logs=tmp_path, tell=told.append
    )
    yield supervisor
    supervisor.stop()


def test_a_process_gets_its_arguments_and_writes_into_its_log(supervisor, soon):
    child = supervisor.start(Process("one", "sleeper", ("--fast", "7")))

    assert soon(lambda: "here ['--fast', '7']" in child.said())


def test_a_dead_process_is_started_again_after_a_pause_that_grows(supervisor, told, soon, monkeypatch):
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.1)
    child = supervisor.start(Process("one", "crasher", ()))

    def third_death():
        supervisor.watch()
        return child.deaths == 3

    assert soon(third_death)
    assert [line.split("; ")[1].split(" (")[0] for line in told] == [
        "again in 0.1 s",
        "again in 0.2 s",
        "again in 0.4 s",
    ]
    assert told[0].startswith("one ended with 3")


def test_a_process_that_ran_steadily_starts_again_with_the_first_pause(supervisor, told, soon, monkeypatch):
    monkeypatch.setattr(module, "STEADY", 0.0)
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.1)
    child = supervisor.start(Process("one", "crasher", ()))

    def third_note():
        supervisor.watch()
        return len(told) == 3

    assert soon(third_note)
    assert child.deaths == 1


def test_stopping_is_orderly_and_ends_everything(supervisor, soon):
    children = [supervisor.start(Process(name, "sleeper", ())) for name in ("one", "two")]
    assert soon(lambda: all("here" in child.said() for child in children))

    supervisor.stop()

    assert [child.running.returncode for child in children] == [-signal.SIGTERM] * 2


def test_a_process_that_will_not_stop_is_killed_and_that_is_said(supervisor, told, soon, monkeypatch):
    monkeypatch.setattr(module, "STOP_PATIENCE", 0.3)
    child = supervisor.start(Process("one", "stubborn", ()))
    assert soon(lambda: "here" in child.said())

    supervisor.stop()

    assert child.running.returncode == -signal.SIGKILL
    assert told == ["one did not stop in 0 s; killed"]


def test_a_long_log_is_moved_aside_at_the_next_start(supervisor, tmp_path, soon, monkeypatch):
    monkeypatch.setattr(module, "LARGEST_LOG", 10)
    (tmp_path / "one.log").write_text("an old and very long log")

    child = supervisor.start(Process("one", "sleeper", ()))

    assert soon(lambda: "here" in child.said())
    assert "old" not in child.said()
    assert (tmp_path / "one.log.1").read_text() == "an old and very long log"


@pytest.mark.faults
def test_a_process_ends_when_the_supervisor_is_killed(tmp_path, processes_of, soon):
    (tmp_path / "orderly.py").write_text(ORDERLY)
    program = (
        "import os, sys, time; from pathlib import Path; from console.ground import processes, supervisor;"
        "s = supervisor.Supervisor(environment=os.environ, logs=Path(sys.argv[1]), tell=print);"
        "s.start(processes.Process('one', 'orderly', (sys.argv[1],))); time.sleep(60)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        cwd=PROJECT,
        env=dict(os.environ) | {"PYTHONPATH": str(tmp_path)},
    )
    assert soon(lambda: (tmp_path / "one.log").exists() and "here" in (tmp_path / "one.log").read_text())

    parent.kill()
    parent.wait()

    assert soon(lambda: not processes_of(str(tmp_path)))
    assert "asked to stop" in (tmp_path / "one.log").read_text()


def test_the_demo_is_left_out_on_request():
    everything, bare = (table(port=8000, demo_port=demo_port) for demo_port in (8765, None))

    assert [process.name for process in bare] == ["web", "worker"]
    assert [process.name for process in everything if not process.is_demo] == ["web", "worker"]
