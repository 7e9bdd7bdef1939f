"""The schedule that runs in a thread of the worker."""

import os
import signal
import subprocess
import sys

import pytest

from console.ground.home import PROJECT
from console.ground.valkey import Broker

WORKER = """
import sys, time
from celery import Celery
from console.celery import BeatThread

app = Celery("ticking", broker=sys.argv[1])
app.conf.update(
    beat_schedule={"tick": {"task": "tick", "schedule": 0.2, "options": {"expires": 1}}},
    worker_hijack_root_logger=False,
)
app.steps["worker"].add(BeatThread)

@app.task(name="tick")
def tick():
    with open(sys.argv[2], "a") as file:
        file.write("tick\\n")

app.Worker(pool="threads", concurrency=1, loglevel="ERROR").start()
"""


@pytest.fixture
def worker(where, tmp_path):
    broker = Broker(where)
    broker.start()
    log = tmp_path / "ticks"
    log.touch()
    surroundings = dict(os.environ) | {"PYTHONWARNINGS": "ignore:::celery.platforms"}
    surroundings["PYTHONPATH"] = str(PROJECT)
    process = subprocess.Popen([sys.executable, "-c", WORKER, broker.url, str(log)], cwd=tmp_path, env=surroundings)
    process.folder = tmp_path
    process.ticks = lambda: log.read_text().count("tick")
    process.broker = broker
    yield process
    process.kill()
    process.wait()
    broker.stop()


def test_it_ticks_with_its_worker_and_stops_with_it(worker, soon):
    assert soon(lambda: worker.ticks() >= 3)

    worker.send_signal(signal.SIGTERM)

    assert worker.wait(60) == 0
    assert [path.name for path in worker.folder.iterdir()] == ["ticks"]


@pytest.mark.faults
def test_it_goes_on_after_the_broker_was_away(worker, soon):
    assert soon(lambda: worker.ticks() >= 1)
    worker.broker.stop()
    before = worker.ticks()

    worker.broker.start()

    assert soon(lambda: worker.ticks() >= before + 3)


def test_a_worker_may_be_told_not_to_tick(settings):
    from console.celery import BeatThread, app

    class Worker:
        pass

    worker = Worker()
    worker.app = app
    step = BeatThread(worker)

    assert step.include_if(worker) is True
    settings.BEAT = False
    assert step.include_if(worker) is False
