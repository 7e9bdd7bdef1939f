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
"""Drives at once in one process: a slow server holds at most these up."""
IDLE_S = 0.2
"""How long to rest when nothing is due."""


def utcnow() -> datetime:
    """The one clock of the engine."""
    return datetime.now(UTC)


class Engine:
    """The long-lived half of a worker process."""

    def __init__(self) -> None:
        self._one_slice = threading.Lock()
        self._threads = ThreadPoolExecutor(DB_THREADS, thread_name_prefix="ledger")
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="drive", daemon=True).start()
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
        if not self._one_slice.acquire(blocking=False):
            return 0
        try:
            return asyncio.run_coroutine_threadsafe(self._drive_for(seconds), self._loop).result()
        finally:
            self._one_slice.release()

    async def _drive_for(self, seconds: float) -> int:
        ends, made = time.monotonic() + seconds, 0
        await self._run(ledger.state_overdue, now=utcnow())
        under_way: set[asyncio.Task[None]] = set()
        while time.monotonic() < ends:
            works = await self._run(ledger.claim, limit=IN_FLIGHT - len(under_way), now=utcnow())
            under_way |= {asyncio.ensure_future(self._driver.drive([work])) for work in works}
            made += len(works)
            under_way = await _some_done(under_way)
        if under_way:
            await asyncio.wait(under_way)
        return made

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


async def _some_done(under_way: set[asyncio.Task[None]]) -> set[asyncio.Task[None]]:
    if not under_way:
        await asyncio.sleep(IDLE_S)
        return under_way
    _, still = await asyncio.wait(under_way, timeout=IDLE_S, return_when=asyncio.FIRST_COMPLETED)
    return still


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
