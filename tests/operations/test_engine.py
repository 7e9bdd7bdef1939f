"""The engine inside a worker: one server that hangs holds up no other, and a stop lets drives end (P2, L4)."""

import asyncio
import time

import pytest

from operations import engine as engines
from operations import ledger
from operations.machine import State
from operations.models import Due


@pytest.fixture
def engine():
    made = engines.Engine()
    yield made
    made.stop(1)


def _driven(engine, monkeypatch, hangs):
    """Replace the drives: those of `hangs` take seconds, the others end at once."""
    done = []

    async def drive(works):
        for work in works:
            if work.server.slug == hangs:
                await asyncio.sleep(3)
            done.append(work.row.id)

    monkeypatch.setattr(engine._driver, "drive", drive)
    return done


def test_a_server_that_hangs_holds_up_neither_the_others_nor_the_next_slice(rooms, engine, monkeypatch):
    slow, quick = rooms(), rooms()
    for room in (slow, quick):
        room.now = engines.utcnow()
    hanging = [slow.submit() for _ in range(engines.PER_SERVER + 4)]
    others = [quick.submit() for _ in range(4)]
    Due.objects.filter(operation_id__in=[*hanging, *others]).update(due_at=engines.utcnow())
    done = _driven(engine, monkeypatch, slow.server)

    begun = time.monotonic()
    engine.slice(1)
    taken = time.monotonic() - begun

    assert taken < 2.5
    assert set(others) <= set(done)
    leased = Due.objects.filter(operation_id__in=hanging, lease_until__isnull=False).count()
    assert leased <= engines.PER_SERVER


def test_a_stop_lets_a_drive_end_and_starts_no_other(rooms, monkeypatch):
    engine = engines.Engine()
    room = rooms()
    room.now = engines.utcnow()
    operation = room.submit()
    Due.objects.filter(operation_id=operation).update(due_at=engines.utcnow())
    done = _driven(engine, monkeypatch, room.server)
    engine.slice(0.5)
    assert done == []

    engine.stop(5)

    assert done == [operation]
    assert engine.slice(1) == 0
    assert ledger.read([operation])[operation].state is State.SUBMITTING
