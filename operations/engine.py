"""Drives due operations inside a worker process, in slices (P2).

One process has one loop, one set of connections and one pool of database threads, and keeps them:
a loop or a client for each task costs more than the looks themselves. A slice runs inside a Celery
task; Celery supervises and distributes, the ledger says what is due.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError, connection

from adapters import registry
from adapters.contract import Endpoint, Wire
from adapters.http import Connections
from operations import ledger
from operations.driver import Driver
from operations.ledger import Work
from operations.sending import Gate
from operations.streams import Streams

T = TypeVar("T")

DB_THREADS = 4
IN_FLIGHT = 50
"""Drives at once in one process."""
PER_SERVER = 16
"""Of these, for one server: one that hangs must not hold up the others."""
IDLE_S = 0.2
"""How long to rest when nothing is due."""


def utcnow() -> datetime:
    """The one clock of the engine."""
    return datetime.now(UTC)


class Engine:
    """The long-lived half of a worker process."""

    def __init__(self) -> None:
        self._one_slice = threading.Lock()
        self._stopping = False
        self._under_way: dict[asyncio.Task[None], str] = {}
        self._threads = ThreadPoolExecutor(DB_THREADS, thread_name_prefix="ledger")
        self._all_threads = threading.Barrier(DB_THREADS)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="drive", daemon=True)
        self._thread.start()
        self._connections = Connections()
        self._streams = Streams(adapter_for=registry.adapter, wire_for=self._wire_for, run=self._run, clock=utcnow)
        self._driver = Driver(
            adapter_for=registry.adapter,
            wire_for=self._wire_for,
            run=self._run,
            clock=utcnow,
            chance=random.Random(),  # noqa: S311 - jitter is no secret
            listen=self._streams.hold,
        )

    def slice(self, seconds: float) -> int:
        """Drive what is due for some seconds; return how many drives were made.

        Two slices at once in one process would only share the same loop: the second returns at once.
        """
        if self._stopping or not self._one_slice.acquire(blocking=False):
            return 0
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
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _finish(self, patience: float) -> None:
        if self._under_way:
            _, late = await asyncio.wait(self._under_way, timeout=patience)
            for drive in late:
                drive.cancel()  # its lease ends by itself, as after a kill
            await asyncio.gather(*late, return_exceptions=True)
        await self._streams.aclose()
        await self._connections.aclose()

    async def _drive_for(self, seconds: float) -> int:
        """Claim and start drives until the time is over; what is under way then goes on by itself."""
        ends, made = time.monotonic() + seconds, 0
        await self._run(ledger.state_overdue, now=utcnow())
        while time.monotonic() < ends and not self._stopping:
            made += await self._start_due()
            await self._pause()
        return made

    async def _start_due(self) -> int:
        held = Counter(self._under_way.values())
        room = IN_FLIGHT - len(self._under_way)
        works = await self._run(ledger.claim, limit=room, per_server=PER_SERVER, held=held, now=utcnow())
        for work in works:
            task = asyncio.ensure_future(self._driver.drive([work]))
            self._under_way[task] = work.server.slug
            task.add_done_callback(self._under_way.pop)
        return len(works)

    async def _pause(self) -> None:
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=IDLE_S, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(IDLE_S)

    async def _run(self, step: Callable[..., T], /, *args: Any, **named: Any) -> T:  # noqa: ANN401
        return await self._loop.run_in_executor(self._threads, partial(_with_connection, step, *args, **named))

    def _wire_for(self, work: Work, gate: Gate) -> Wire:
        server = work.server
        endpoint = Endpoint(
            url=server.url,
            credential=os.environ.get(server.credential_ref) if server.credential_ref else None,
            allow_private=server.allow_private,
        )
        return self._connections.wire(endpoint, gate=gate, clock=utcnow)


def _disconnect(all_threads: threading.Barrier) -> None:
    """Close this thread's own connection, once every thread has come to do the same."""
    all_threads.wait()
    connection.close()


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
    return Engine()
