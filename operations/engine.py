"""Drives due operations inside a worker process, in slices (P2).

One process has one loop, one set of connections and one pool of database threads, and keeps them:
a loop or a client for each task costs more than the looks themselves. A slice runs inside a Celery
task; Celery supervises and distributes, the ledger says what is due.

Note [Turns]
A journey to the database, with the flush that a claim waits for, costs what sixty rows cost. So looks that
brought nothing new are written `ENOUGH` together, or after `IDLE_S`, and the same turn claims as many as there are
hands free: `claims.AHEAD` is twice as long, so no send moment is lost by it. A drive that moved something may have
left its next deed due at once, so a turn follows within `GATHER_S`. For a second after urgent news every turn does: a
cancel may wait for a look to give its lease back.

Note [What the collector looks through]
A claim makes thousands of objects that live until their looks have ended. With Python's own limit of 700 young ones the
collector looked through what was under way some fifty times a second, and through all 90,000 objects of the process
every few seconds: a fifth of a worker's time and more, in which it found nothing, for five thousand looks had left no
cycle behind. What is loaded by now stays until the end and is not looked through again; of the rest the collector sees
to `YOUNG` at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any, TypeVar, cast

from django.db import InterfaceError, OperationalError, connection

from adapters import registry
from adapters.contract import Endpoint, Wire
from adapters.http import Connections
from operations import ledger
from operations.driver import Driver
from operations.endings import Endings
from operations.ledger import ShadowWork, Unchanged, Work
from operations.news import News
from operations.sending import Gate, Pauses, Together
from operations.shadowing import Shadowing
from operations.streams import Streams

T = TypeVar("T")

DB_THREADS = 4
IN_FLIGHT = 400
"""Drives at once in one process. How many of them one server may have: see `ledger.Hands`."""
IDLE_S = 0.1
"""How long to rest where nothing is worth a turn. See Note [Turns]."""
GATHER_S = 0.02
"""How long to let drives end before a turn that somebody may wait for."""
HURRY_S = 1.0
"""How long after urgent news somebody may wait for what is under way."""
ENOUGH = 150
"""So many that have ended are worth a turn at once: of the 200 that one server may have, enough go on meanwhile."""
HAND_OVER_S = 1.2
"""How long a slice waits for the one before it: a little longer than the schedule's beat."""
SHADOWS_S = 1.0
"""How often a process asks for shadows: they come after everything that decides something (O1)."""
YOUNG = 20_000
"""Objects made and not yet gone before the collector looks for cycles among them: a few megabytes at most."""


def utcnow() -> datetime:
    """The clock of this machine."""
    return datetime.now(UTC)


class SharedClock:
    """The database's clock, read now and then.

    Send moments mean the same to every worker only if all read one clock (P2). Between two readings
    the time goes on by this machine's monotonic clock: a wall clock that jumps changes nothing.
    """

    def __init__(self) -> None:
        self.set(utcnow(), time.monotonic())

    def set(self, reading: datetime, at: float) -> None:
        """It was `reading` when the monotonic clock stood at `at`."""
        self._reading, self._at = reading, at

    def __call__(self) -> datetime:
        """Return the time."""
        return self._reading + timedelta(0, time.monotonic() - self._at)  # by name it would take twice as long


class Engine:
    """The long-lived half of a worker process."""

    def __init__(self) -> None:
        self._one_slice = threading.Lock()
        self._stopping = False
        self._under_way: dict[asyncio.Task[Unchanged | None], str] = {}
        self._held: Counter[str] = Counter()
        self._still: list[Unchanged] = []
        self._worth_a_turn = asyncio.Event()
        self._is_claiming = False
        self._threads = ThreadPoolExecutor(DB_THREADS, thread_name_prefix="ledger")
        self._all_threads = threading.Barrier(DB_THREADS)
        # A thread of its own: its connection knows these few statements, and no step of a drive is waited for.
        self._turns = ThreadPoolExecutor(1, thread_name_prefix="turns")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="drive", daemon=True)
        self._thread.start()
        self._clock = SharedClock()
        self._pauses = Pauses()
        self._hurried_until = 0.0
        self._news = News(pauses=self._pauses, urgent=self._hurry)
        self._listening: asyncio.Task[None] | None = None
        self._slots = Together(partial(self._in, self._threads))
        self._endings = Endings(partial(self._in, self._threads))
        self._connections = Connections()
        self._streams = Streams(adapter_for=registry.adapter, wire_for=self._wire_for, run=self._run, clock=self._clock)
        self._driver = Driver(
            adapter_for=registry.adapter,
            wire_for=self._wire_for,
            run=self._run,
            clock=self._clock,
            chance=random.Random(),  # noqa: S311 - jitter is no secret
            listen=self._streams.hold,
            pauses=self._pauses,
        )
        self._shadowing = Shadowing(
            adapter_for=registry.adapter,
            wire_for=self._wire_for,
            run=self._run,
            clock=self._clock,
            chance=random.Random(),  # noqa: S311 - jitter is no secret
        )
        self._shadows_at = 0.0

    def slice(self, seconds: float) -> bool:
        """Drive what is due for some seconds; return whether more was due than these hands could take.

        One slice at a time: a second one waits a moment, to follow the first without a gap, and then
        gives up.
        """
        if self._stopping or not self._one_slice.acquire(timeout=HAND_OVER_S):
            return False
        try:
            return asyncio.run_coroutine_threadsafe(self._drive_for(seconds), self._loop).result()
        finally:
            self._one_slice.release()

    def stop(self, patience: float) -> None:
        """Let what is under way end, for some seconds, and give everything back.

        A request that is cut off here would leave its call unknown for nothing (L4).
        """
        self._stopping = True
        with self._one_slice:
            asyncio.run_coroutine_threadsafe(self._finish(patience), self._loop).result()
        for _ in range(DB_THREADS):
            self._threads.submit(_disconnect, self._all_threads)
        self._threads.shutdown()
        self._turns.submit(_close)
        self._turns.shutdown()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _finish(self, patience: float) -> None:
        if self._under_way:
            _, late = await asyncio.wait(self._under_way, timeout=patience)
            for drive in late:
                drive.cancel()  # its lease ends by itself, as after a kill
            await asyncio.gather(*late, return_exceptions=True)
        await self._write_unchanged()
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
        await self._streams.aclose()
        await self._connections.aclose()

    async def _drive_for(self, seconds: float) -> bool:
        """Claim and start drives until the time is over; what is under way then goes on by itself."""
        if self._listening is None:
            self._listening = self._loop.create_task(self._news.listen())
        ends, is_short = time.monotonic() + seconds, False
        await self._set_clock()
        await self._run(ledger.state_overdue, now=self._clock())
        while time.monotonic() < ends and not self._stopping:
            is_short = await self._turn()
            await self._start_shadows()
            await self._rest()
        await self._write_unchanged()
        return is_short

    async def _set_clock(self) -> None:
        asked = time.monotonic()
        reading = await self._run(ledger.clock)
        self._clock.set(reading, (asked + time.monotonic()) / 2)

    async def _turn(self) -> bool:
        """Write what has ended, claim what is due and start it; return whether no hand was left free."""
        self._worth_a_turn.clear()  # what is heard from here on is worth the next one
        still, self._still = self._still, []
        hands = ledger.Hands(most=IN_FLIGHT, held=self._held.copy())
        self._is_claiming = True
        try:
            works = await self._in(self._turns, _turn, still, hands, self._clock)
        finally:
            self._is_claiming = False
        for work in works:
            self._start(self._driver.drive_one(work), work.server.slug)
        return len(works) >= hands.free()

    async def _start_shadows(self) -> None:
        room = IN_FLIGHT - len(self._under_way)
        if time.monotonic() < self._shadows_at or room <= 0:
            return
        self._shadows_at = time.monotonic() + SHADOWS_S
        for work in await self._run(ledger.claim_shadows, limit=room, now=self._clock()):
            self._start(self._shadowing.watch(work), work.server.slug)

    def _start(self, drive: Coroutine[Any, Any, Unchanged | None], server: str) -> None:
        task = self._loop.create_task(drive)
        self._under_way[task] = server
        self._held[server] += 1
        task.add_done_callback(self._ended)

    def _ended(self, drive: asyncio.Task[Unchanged | None]) -> None:
        self._held[self._under_way.pop(drive)] -= 1
        unchanged = None if drive.cancelled() else drive.result()
        if unchanged is not None:
            self._still.append(unchanged)
        # While a turn claims more, hands that are empty are no reason for another: it would find only these few free.
        is_idle = not self._under_way and not self._is_claiming
        if len(self._still) >= ENOUGH or is_idle:
            self._worth_a_turn.set()
        elif unchanged is None or unchanged.next_at <= self._clock():
            self._loop.call_later(GATHER_S, self._worth_a_turn.set)

    def _hurry(self) -> None:
        """Take a turn at once: something is due that somebody waits for."""
        self._hurried_until = time.monotonic() + HURRY_S
        self._worth_a_turn.set()

    async def _rest(self) -> None:
        """Wait until a turn is worth its journey to the database."""
        with contextlib.suppress(TimeoutError):
            is_hurried = self._under_way and time.monotonic() < self._hurried_until
            async with asyncio.timeout(GATHER_S if is_hurried else IDLE_S):
                await self._worth_a_turn.wait()

    async def _write_unchanged(self) -> None:
        still, self._still = self._still, []
        await self._run(ledger.unchanged, still)

    async def _run(self, step: Callable[..., T], /, *args: Any, **named: Any) -> T:  # noqa: ANN401
        if step is ledger.reserve_slot:
            return cast("T", await self._slots.reserve_slot(*args, **named))
        if step is ledger.accept_result:
            return cast("T", await self._endings.accept_result(*args, **named))
        if step is ledger.pause_server:
            self._pauses.hear(args[0], named["until"])  # for all that waits here, before anything is written
        return await self._in(self._threads, step, *args, **named)

    async def _in(self, threads: ThreadPoolExecutor, step: Callable[..., T], /, *args: Any, **named: Any) -> T:  # noqa: ANN401
        return await self._loop.run_in_executor(threads, partial(_with_connection, step, *args, **named))

    def _wire_for(self, work: Work | ShadowWork, gate: Gate) -> Wire:
        server = work.server
        endpoint = Endpoint(
            url=server.url,
            credential=os.environ.get(server.credential_ref) if server.credential_ref else None,
            allow_private=server.allow_private,
        )
        return self._connections.wire(endpoint, gate=gate, clock=self._clock)


def _turn(still: list[Unchanged], hands: ledger.Hands, clock: Callable[[], datetime]) -> list[Work]:
    ledger.unchanged(still)
    return ledger.claim(limit=hands.free(), hands=hands, now=clock()) if hands.free() > 0 else []


def _disconnect(all_threads: threading.Barrier) -> None:
    """Close this thread's own connection, once every thread has come to do the same."""
    all_threads.wait()
    _close()


def _close() -> None:
    connection.close()  # of this thread: to look it up elsewhere would find another's


def _with_connection(step: Callable[..., T], /, *args: Any, **named: Any) -> T:  # noqa: ANN401
    """Run a step on this thread's own connection; drop a connection that broke."""
    try:
        return step(*args, **named)
    except (OperationalError, InterfaceError):
        connection.close()
        raise


@cache
def engine() -> Engine:
    """The engine of this process, made on first use: after a worker has forked."""
    # See Note [What the collector looks through].
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
    return Engine()
