"""Holding standing streams: how many, how long, and what a loss costs. The server and the ledger are faked."""

import asyncio
import contextlib
import uuid
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from adapters.contract import (
    Exchange,
    Handle,
    Hinted,
    MaybeSent,
    Mode,
    Overheard,
    Question,
    RefusalKind,
    Refused,
    SessionLost,
)
from operations import ledger, streams
from operations.streams import Streams

pytestmark = pytest.mark.asyncio

NOON = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def heard(message, event_id=""):
    question = Question(key="0", mode=Mode.FORM, message=message, schema={}, raw=b"{}", digest=message)
    return Overheard(
        question=question, task_id=None, event_id=event_id, exchange=Exchange(label="GET stream", request=b"")
    )


class Stream:
    """One stream: says what it has, then stays open, ends or breaks."""

    def __init__(self, *said, ends=None, retry_s=None):
        self.said = said
        self.ends = ends
        self.retry_s = retry_s
        self.last_event_id = ""

    async def heard(self):
        for one in self.said:
            self.last_event_id = getattr(one, "event_id", "")
            yield one
        if self.ends is None:
            await asyncio.Event().wait()
        if isinstance(self.ends, Exception):
            raise self.ends


class Server:
    """A server's side: what each GET brings, and from where it was resumed."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    @contextlib.asynccontextmanager
    async def listen(self, wire, handle, *, last_event_id, total_s):
        self.asked.append(last_event_id)
        answer = self.answers.pop(0) if self.answers else Stream()
        if isinstance(answer, Exception):
            raise answer
        yield answer


class Ledger:
    """Stands in for the ledger's functions, by name."""

    def __init__(self):
        self.calls = []
        self.grants = True
        self.wanted = None
        self.broken = None

    async def run(self, step, /, *args, **named):
        self.calls.append(step.__name__)
        if step.__name__ == self.broken:
            raise RuntimeError("the database is away")
        if step is ledger.take_stream:
            return "" if self.grants else None
        if step is ledger.renew_streams:
            return dict.fromkeys(args[0], "s") if self.wanted is None else self.wanted
        return NOON if step is ledger.reserve_slot else None

    def count(self, name):
        return self.calls.count(name)


class Place:
    def __init__(self, *answers):
        self.server: Any = Server(*answers)
        self.ledger, wire = Ledger(), cast("Any", object())
        self.now = NOON
        self.streams = Streams(
            adapter_for=lambda _version, _release: self.server,
            wire_for=lambda _work, _gate: wire,
            run=self.ledger.run,
            clock=lambda: self.now,
        )

    async def hold(self, operation=None, *, slug="shop", session="s"):
        row = SimpleNamespace(id=operation or str(uuid.uuid4()))
        work = SimpleNamespace(row=row, protocol="p", release="r1", server=SimpleNamespace(slug=slug))
        await asyncio.wait_for(self.streams.hold(work, Handle(session=session)), 5)
        await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def place(*answers):
    made = Place(*answers)
    try:
        yield made
    finally:
        await made.streams.aclose()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(streams, "LONGEST_AWAY_S", 0.02)
    monkeypatch.setattr(streams, "OPENING_S", 0.1)


async def test_what_is_heard_is_stored_in_order():
    async with place(Stream(heard("one"), heard("two"))) as here:
        await here.hold()

        assert here.ledger.count("overheard") == 2
        assert here.ledger.count("nudge") == 0


async def test_p7_a_hint_brings_the_look_forward_and_a_storm_of_them_no_more():
    """I1, P2: nothing of it is stored."""
    async with place(Stream(*[Hinted()] * 50)) as here:
        await here.hold()
        first = here.ledger.count("nudge")
        here.now += streams.HINT_GAP
        await here.streams._hint("op", next(iter(here.streams._held.values())))

        assert (first, here.ledger.count("nudge")) == (1, 2)
        assert here.ledger.count("overheard") == 0


@pytest.mark.parametrize("ends", ["at its end", MaybeSent("gone")], ids=["ended", "broken"])
async def test_p7_a_lost_stream_costs_one_look_and_is_resumed_where_it_was(ends):
    async with place(Stream(heard("one", "e-7"), ends=ends)) as here:
        await here.hold()
        await asyncio.sleep(0.05)

        assert here.server.asked == ["", "e-7"]
        assert here.ledger.count("nudge") == 1


async def test_a_server_that_breaks_every_stream_is_asked_less_and_less(monkeypatch):
    monkeypatch.setattr(streams, "LONGEST_AWAY_S", 30.0)
    held, away = streams._Held("s"), []
    for losses in range(1, 9):
        held.losses = losses
        away.append(held.away_s())

    assert away == [1, 2, 4, 8, 16, 30, 30, 30]


async def test_after_something_was_heard_a_loss_counts_as_the_first(monkeypatch):
    losses = [Stream(ends="at once"), Stream(ends="at once"), Stream(heard("one"))]
    async with place(*losses) as here:
        await here.hold("op")
        await asyncio.sleep(0.1)

        assert here.streams._held["op"].losses == 0


@pytest.mark.parametrize("wish, granted", [(7.0, 7.0), (0.0, 0.5), (None, 0.5), (3600.0, 30.0)])
async def test_a_wish_to_stay_away_is_granted_up_to_a_bound(monkeypatch, wish, granted):
    monkeypatch.setattr(streams, "LONGEST_AWAY_S", 30.0)
    held = streams._Held("s")
    held.wish_s = wish

    assert held.away_s() == granted


async def test_b122_a_server_that_refuses_is_not_asked_again_for_a_while():
    async with place(Refused("HTTP 405", kind=RefusalKind.ADMIN)) as here:
        await here.hold()
        await here.hold()

        assert here.server.asked == [""]
        assert here.ledger.count("drop_stream") == 1


async def test_b122_nobody_waits_for_a_stream_that_never_opens():
    class Silent(Server):
        @contextlib.asynccontextmanager
        async def listen(self, wire, handle, *, last_event_id, total_s):
            await asyncio.Event().wait()
            yield

    async with place() as here:
        here.server = Silent()

        await here.hold()


async def test_a_lost_session_ends_the_listening_and_leaves_the_rest_to_the_next_look():
    async with place(SessionLost("gone")) as here:
        await here.hold()

        assert here.server.asked == [""]
        assert here.ledger.count("nudge") == 0


async def test_there_is_room_for_so_many_and_no_more(monkeypatch):
    monkeypatch.setattr(streams, "MOST", 2)
    async with place() as here:
        for _ in range(4):
            await here.hold()

        assert len(here.server.asked) == 2


async def test_one_operation_has_one_stream():
    async with place() as here:
        await here.hold("op")
        await here.hold("op")

        assert len(here.server.asked) == 1


async def test_what_another_process_holds_is_left_to_it():
    async with place() as here:
        here.ledger.grants = False
        await here.hold()

        assert here.server.asked == []


async def test_without_a_session_there_is_nothing_to_hold():
    async with place() as here:
        await here.hold(session=None)

        assert here.ledger.calls == []


@pytest.mark.parametrize("wanted", [{}, {"op": "another"}], ids=["ended", "other session"])
async def test_what_is_no_longer_wanted_is_left(monkeypatch, wanted):
    monkeypatch.setattr(streams, "RENEW_S", 0.01)
    async with place() as here:
        here.ledger.wanted = wanted
        await here.hold("op")
        await asyncio.sleep(0.05)

        assert here.ledger.count("drop_stream") == 1
        assert here.streams._held == {}


@pytest.mark.parametrize("broken", ["overheard", "renew_streams", "drop_stream", "take_stream"])
async def test_a_database_that_is_away_ends_no_process(monkeypatch, caplog, broken):
    monkeypatch.setattr(streams, "RENEW_S", 0.01)
    async with place(Stream(heard("one"))) as here:
        here.ledger.broken = broken
        await here.hold("op")
        await asyncio.sleep(0.05)
        here.ledger.broken = None

        await here.hold("other")
        assert "other" in here.streams._held
