"""What a worker hears at once: a pause, and what somebody waits for (F10, P1)."""

import asyncio
import threading
import time
from datetime import timedelta

import pytest

from operations import ledger
from operations.machine import State
from operations.news import News
from operations.sending import Pauses

PATIENCE_S = 60.0


class Hearing:
    """A worker's ears, on a loop of their own."""

    def __init__(self):
        self.pauses = Pauses()
        self.rung = []
        self.news = News(pauses=self.pauses, urgent=lambda: self.rung.append(True))


@pytest.fixture
def hearing(committed):
    """A worker that listens already: the first thing it hears is that it may have missed something."""
    ears, loop = Hearing(), asyncio.new_event_loop()
    listening = loop.create_task(ears.news.listen())
    thread = threading.Thread(target=loop.run_until_complete, args=[asyncio.wait([listening])])
    thread.start()
    _until(lambda: ears.rung)
    yield ears
    loop.call_soon_threadsafe(listening.cancel)
    thread.join()
    loop.close()


def _until(holds):
    ends = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_f10_a_pause_that_one_worker_makes_is_heard_by_the_others(room, hearing):
    until = room.now + timedelta(seconds=30)

    ledger.pause_server(room.server, until=until, reason="slow down")

    _until(lambda: hearing.pauses.end_of(room.server) == until)


def test_a_press_of_cancel_is_heard_at_once(room, hearing):
    operation = room.at(State.WORKING)
    ledger.pause_server(room.server, until=room.now, reason="the last news of all before")
    _until(lambda: hearing.pauses.end_of(room.server))
    before = len(hearing.rung)

    room.press(operation)

    _until(lambda: len(hearing.rung) > before)


@pytest.mark.parametrize("payload", ["", "no json", "[1]", "3", '{"server":"s"}', '{"server":"s","until":"soon"}'])
def test_news_that_cannot_be_read_changes_nothing(payload):
    pauses, rung = Pauses(), []

    News(pauses=pauses, urgent=lambda: rung.append(True)).note(payload)

    assert pauses.end_of("s") is None
    assert rung == []
