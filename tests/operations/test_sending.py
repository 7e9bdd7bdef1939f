"""The gate before every request: its moment, none inside a pause, none after its claim (P1, P2, F10)."""

import asyncio
from datetime import timedelta

import pytest

from adapters.contract import NotSent
from operations import ledger, pacing
from operations.sending import Pauses, SendGate, Together
from tests.operations.room import NOON
from tests.operations.world import VirtualLoop

GAP = timedelta(milliseconds=100)


class Server:
    """The ledger's side of one server's moments, in virtual time."""

    def __init__(self, loop):
        self.loop = loop
        self.next_at = NOON
        self.paused_until = None
        self.asked = []

    def now(self):
        return NOON + timedelta(seconds=self.loop.time())

    async def run(self, step, /, *args, **named):
        self.asked.append(step.__name__)
        if step is ledger.paused_until:
            return self.paused_until
        bys = [named.get("by")] if step is ledger.reserve_slot else args[1]
        slots = [self._slot(by, named["now"]) for by in bys]
        return slots[0] if step is ledger.reserve_slot else slots

    def _slot(self, by, now):
        slot = max(now, self.next_at, self.paused_until or now)
        if by is None or slot < by:
            self.next_at = slot + GAP
        return slot

    def gate(self, **named):
        return SendGate("s", self.run, self.now, **named)


@pytest.fixture
def server():
    loop = VirtualLoop()
    yield Server(loop)
    loop.close()


def run(server, coroutine):
    return server.loop.run_until_complete(coroutine)


def test_the_claims_own_moment_is_used_and_nothing_is_asked_for(server):
    at = NOON + timedelta(milliseconds=80)

    run(server, server.gate(slot=at)())

    assert server.now() >= at
    assert server.asked == []


def test_p2_a_moment_that_has_gone_by_is_never_used(server):
    gone = NOON - pacing.LATE - timedelta(milliseconds=1)

    run(server, server.gate(slot=gone)())

    assert server.asked == ["reserve_slot"]


def test_a_second_request_asks_for_a_moment_of_its_own(server):
    gate = server.gate(slot=NOON)

    run(server, gate())
    run(server, gate())

    assert server.asked == ["reserve_slot"]


def test_the_moment_before_a_permit_is_the_moment_of_its_request(server):
    gate = server.gate()

    run(server, gate.ahead())
    run(server, gate())

    assert server.asked == ["reserve_slot"]


def test_f10_who_waited_long_asks_whether_a_pause_came_meanwhile(server):
    server.next_at = NOON + timedelta(seconds=2)
    pause_ends = NOON + timedelta(seconds=10)
    server.loop.call_later(1, lambda: setattr(server, "paused_until", pause_ends))

    run(server, server.gate(until=NOON + timedelta(seconds=25))())

    assert server.now() >= pause_ends


def test_f10_a_pause_that_is_heard_of_holds_back_what_already_has_its_moment(server):
    pauses, ends = Pauses(), NOON + timedelta(seconds=10)
    server.loop.call_later(0.05, lambda: pauses.hear("s", ends))

    run(server, server.gate(slot=NOON + GAP, until=NOON + timedelta(seconds=25), pauses=pauses)())

    assert server.now() >= ends


def test_f10_a_pause_that_is_heard_of_before_it_is_committed_is_kept(server):
    pauses, ends = Pauses(), NOON + timedelta(seconds=10)
    pauses.hear("s", ends)

    run(server, server.gate(until=NOON + timedelta(seconds=25), pauses=pauses)())

    assert server.now() >= ends


def test_f10_a_pause_that_is_heard_of_beyond_the_claim_sends_nothing(server):
    pauses = Pauses()
    pauses.hear("s", NOON + timedelta(seconds=60))

    with pytest.raises(NotSent):
        run(server, server.gate(slot=NOON + GAP, until=NOON + timedelta(seconds=25), pauses=pauses)())


def test_a_pause_of_another_server_holds_nobody_back(server):
    pauses = Pauses()
    pauses.hear("another", NOON + timedelta(seconds=60))

    run(server, server.gate(slot=NOON + GAP, pauses=pauses)())

    assert server.now() == NOON + GAP
    assert server.asked == []


def test_of_two_pauses_the_longer_one_stands():
    pauses, ends = Pauses(), NOON + timedelta(seconds=10)

    pauses.hear("s", ends)
    pauses.hear("s", NOON + timedelta(seconds=5))

    assert pauses.end_of("s") == ends


def test_p1_a_pause_beyond_the_claim_sends_nothing(server):
    server.paused_until = NOON + timedelta(seconds=60)

    with pytest.raises(NotSent):
        run(server, server.gate(until=NOON + timedelta(seconds=25))())

    assert server.next_at == NOON


def test_who_asks_in_the_same_moment_is_served_in_one_journey(server):
    together = Together(server.run)

    async def ask():
        asked = (together.reserve_slot("s", now=NOON) for _ in range(5))
        return await asyncio.gather(*asked)

    slots = run(server, ask())

    assert server.asked == ["reserve_slots"]
    assert slots == [NOON + number * GAP for number in range(5)]


def test_what_breaks_the_journey_breaks_it_for_all_who_wait(server):
    async def broken(*_args, **_named):
        raise RuntimeError("the database is away")

    together = Together(broken)

    async def ask():
        asked = (together.reserve_slot("s", now=NOON) for _ in range(3))
        return await asyncio.gather(*asked, return_exceptions=True)

    assert [type(error) for error in run(server, ask())] == [RuntimeError] * 3
