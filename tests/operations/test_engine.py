"""The engine inside a worker: one server that hangs holds up no other, and a stop lets drives end (P2, L4)."""

import asyncio
import time
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from operations import engine as engines
from operations import ledger
from operations.machine import State
from operations.models import Due
from tests.operations.room import result

PATIENCE_S = 60.0


@pytest.fixture
def engine():
    made = engines.Engine()
    yield made
    made.stop(1)


@dataclass
class Drives:
    """Stands in for the driver: drives of the server that hangs end only once the engine is being stopped."""

    engine: engines.Engine
    hangs: str
    begun: list = field(default_factory=list)
    done: list = field(default_factory=list)

    async def drive(self, work):
        self.begun.append(work.row.id)
        while work.server.slug == self.hangs and not self.engine._stopping:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.01)
        self.done.append(work.row.id)

    def until(self, holds):
        """Make short slices until it holds; none of them waits for a drive that hangs, or this would never end."""
        ends = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < ends
            self.engine.slice(0.2)

    def until_idle(self):
        """Make some more slices: nothing that would still begin is left to begin."""
        for _ in range(5):
            self.engine.slice(0.2)


def _driven(engine, monkeypatch, hangs):
    drives = Drives(engine, hangs)
    monkeypatch.setattr(engine._driver, "drive_one", drives.drive)
    return drives


def test_a_server_that_hangs_holds_up_neither_the_others_nor_the_next_slice(rooms, engine, monkeypatch):
    slow, quick = rooms(), rooms()
    for room in (slow, quick):
        room.now = engines.utcnow()
    monkeypatch.setattr(engines, "IN_FLIGHT", 12)
    hanging = [slow.submit() for _ in range(12)]
    others = [quick.submit() for _ in range(4)]
    Due.objects.filter(operation_id__in=[*hanging, *others]).update(due_at=engines.utcnow())
    drives = _driven(engine, monkeypatch, slow.server)

    drives.until(lambda: set(others) <= set(drives.done) and len(drives.begun) == 6 + len(others))
    drives.until_idle()

    assert set(drives.done) == set(others)
    assert Due.objects.filter(operation_id__in=hanging, lease_until__isnull=False).count() == 6


def test_a_stop_lets_a_drive_end_and_starts_no_other(rooms, monkeypatch):
    engine = engines.Engine()
    room = rooms()
    room.now = engines.utcnow()
    operation = room.submit()
    Due.objects.filter(operation_id=operation).update(due_at=engines.utcnow())
    drives = _driven(engine, monkeypatch, room.server)
    drives.until(lambda: drives.begun)
    assert drives.done == []

    engine.stop(PATIENCE_S)

    assert drives.done == [operation]
    assert engine.slice(1) == 0
    assert ledger.read([operation])[operation].state is State.SUBMITTING


class Ended:
    """Stands in for a drive that has ended."""

    def __init__(self, unchanged):
        self.unchanged = unchanged

    def cancelled(self):
        return False

    def result(self):
        return self.unchanged


def test_so_many_looks_that_brought_nothing_are_worth_a_turn_and_fewer_wait_for_them(engine):
    """Note [Turns]; one drive more is under way all the time."""
    quiet = ledger.Unchanged(operation="o", look=1, next_at=engines.utcnow() + timedelta(hours=1))
    engine._worth_a_turn = asyncio.Event()
    engine._still = []
    drives = [Ended(quiet) for _ in range(engines.ENOUGH)]
    engine._under_way = dict.fromkeys([*drives, Ended(quiet)], "server")
    engine._held["server"] = len(engine._under_way)

    for drive in drives[:-1]:
        engine._ended(drive)
    waits = engine._worth_a_turn.is_set()
    engine._ended(drives[-1])

    assert not waits
    assert engine._worth_a_turn.is_set()
    assert engine._held["server"] == 1
    engine._still, engine._under_way = [], {}


def test_hands_that_are_empty_are_worth_a_turn_unless_one_is_claiming_for_them(engine):
    """Note [Turns]; or every other turn would claim the few that had ended meanwhile."""
    quiet = ledger.Unchanged(operation="o", look=1, next_at=engines.utcnow() + timedelta(hours=1))
    engine._worth_a_turn = asyncio.Event()
    one, other = Ended(quiet), Ended(quiet)

    engine._under_way, engine._is_claiming = {one: "server"}, True
    engine._ended(one)
    waits = engine._worth_a_turn.is_set()
    engine._under_way, engine._is_claiming = {other: "server"}, False
    engine._ended(other)

    assert not waits
    assert engine._worth_a_turn.is_set()
    engine._still = []


def test_urgent_news_are_worth_a_turn_at_once(engine):
    engine._worth_a_turn = asyncio.Event()

    engine._hurry()

    assert engine._worth_a_turn.is_set()


def test_what_has_its_result_is_accepted_on_the_journeys_that_take_others_along(rooms, engine, monkeypatch):
    room, told, accept = rooms(), [], ledger.accept_results
    room.now = engines.utcnow()
    operations = [room.at(State.FETCHING_RESULT) for _ in range(3)]
    for operation in operations:
        room.step(ledger.result_fetched, operation, result=result())
    Due.objects.filter(operation_id__in=operations).update(due_at=engines.utcnow())

    def overheard(asked):
        told.extend(asked)
        return accept(asked)

    monkeypatch.setattr(ledger, "accept_results", overheard)
    ends = time.monotonic() + PATIENCE_S
    while {row.state for row in ledger.read(operations).values()} != {State.ACCEPTED}:
        assert time.monotonic() < ends
        engine.slice(0.2)

    assert sorted(one.operation for one in told) == sorted(operations)
    assert [room.outbox(operation) for operation in operations] == [1] * 3
