"""Standing streams, on which a server may ask at any time: few, capped, optional for each server (P7).

Nothing is decided here. What is heard is stored by the ledger before anything else, and the next look
takes it up. A stream that is lost costs one look; one that was never opened costs what its server says
only there. Its holder is one process at a time: a second stream of a session is refused by its server.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from adapters.contract import Adapter, AdapterError, Handle, Hinted, Listens, Refused, SessionLost, StandingStream
from operations import ledger
from operations.ledger import Work
from operations.sending import SendGate, StepRunner, WireFor

log = logging.getLogger(__name__)

MOST = 20
"""Streams held by one process: each keeps one of the few connections to its server."""
OPENING_S = 3.0
"""How long a submit waits for its stream: a server may keep us waiting for ever (B122)."""
STREAM_S = 900.0
LEASE = timedelta(seconds=45)
RENEW_S = 15.0
ASK_AGAIN = timedelta(minutes=10)
"""A server that refused its stream is not asked for one again before this."""
LONGEST_AWAY_S = 30.0
HINT_GAP = timedelta(seconds=5)
"""A server that pushes every step of its work brings at most one look forward in this time (P1, P2)."""


class Streams:
    """The standing streams of this process."""

    def __init__(
        self,
        *,
        adapter_for: Callable[[str, str], Adapter],
        wire_for: WireFor,
        run: StepRunner,
        clock: Callable[[], datetime],
    ) -> None:
        self._adapter_for = adapter_for
        self._wire_for = wire_for
        self._run = run
        self._clock = clock
        self._holder = uuid.uuid4()
        self._held: dict[str, _Held] = {}
        self._deaf: dict[str, datetime] = {}
        self._renewing: asyncio.Task[None] | None = None

    async def hold(self, work: Work, handle: Handle) -> None:
        """Hold the stream of this operation's session, if nobody does; return when it is open, or soon after."""
        operation, session = work.row.id, handle.session
        adapter = self._adapter_for(work.protocol, work.release)
        if session is None or not isinstance(adapter, Listens) or not self._has_room(operation, work.server.slug):
            return
        held = _Held(session)
        self._held[operation] = held
        held.task = asyncio.create_task(self._keep(work, handle, adapter, held))
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(OPENING_S):
                await held.settled.wait()

    def _has_room(self, operation: str, server: str) -> bool:
        refused_at = self._deaf.get(server)
        deaf = refused_at is not None and self._clock() < refused_at + ASK_AGAIN
        return operation not in self._held and len(self._held) < MOST and not deaf

    async def aclose(self) -> None:
        """Leave every stream and give its lease back."""
        tasks = [held.task for held in self._held.values() if held.task is not None]
        tasks += [self._renewing] if self._renewing is not None else []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self, work: Work, handle: Handle, adapter: Listens, held: _Held) -> None:
        operation = work.row.id
        wire = self._wire_for(work, SendGate(work.server.slug, self._run, self._clock))
        try:
            while (event_id := await self._take(operation, held)) is not None:
                resume_at = held.event_id or event_id
                try:
                    listening = adapter.listen(wire, handle, last_event_id=resume_at, total_s=STREAM_S)
                    async with listening as stream:
                        held.settled.set()
                        await self._store(operation, held, stream)
                except Refused:
                    self._deaf[work.server.slug] = self._clock()
                    return
                except SessionLost:
                    return  # the next look finds it lost too, and opens another
                except AdapterError as error:
                    log.info("stream lost", extra={"operation": operation, "why": error.reason})
                held.losses += 1
                await self._run(ledger.nudge, operation, now=self._clock())
                await asyncio.sleep(held.away_s())
        except Exception:
            log.exception("stream failed", extra={"operation": operation})
        finally:
            self._held.pop(operation, None)
            held.settled.set()
            with contextlib.suppress(Exception):  # a lease that is not given back ends by itself
                await self._run(ledger.drop_stream, operation, holder=self._holder)

    async def _take(self, operation: str, held: _Held) -> str | None:
        now = self._clock()
        return await self._run(
            ledger.take_stream, operation, session=held.session, holder=self._holder, until=now + LEASE, now=now
        )

    async def _store(self, operation: str, held: _Held, stream: StandingStream) -> None:
        try:
            async for heard in stream.heard():
                if isinstance(heard, Hinted):
                    await self._hint(operation, held)
                    continue
                await self._run(ledger.overheard, operation, session=held.session, heard=heard, now=self._clock())
                held.losses = 0
        finally:
            held.event_id, held.wish_s = stream.last_event_id, stream.retry_s

    async def _hint(self, operation: str, held: _Held) -> None:
        """P7, I1: a push brings the next look forward, whatever it says."""
        now = self._clock()
        if held.hinted_at is None or now >= held.hinted_at + HINT_GAP:
            held.hinted_at = now
            await self._run(ledger.nudge, operation, now=now)

    async def _renew(self) -> None:
        """Keep the leases, and leave what is no longer wanted: an operation that ended, another session."""
        while self._held:
            await asyncio.sleep(RENEW_S)
            until = self._clock() + LEASE
            try:
                still = await self._run(ledger.renew_streams, list(self._held), holder=self._holder, until=until)
            except Exception:
                log.exception("leases of streams not renewed")
                continue
            for operation, held in list(self._held.items()):
                if still.get(operation) != held.session and held.settled.is_set() and held.task is not None:
                    held.task.cancel()


class _Held:
    """One stream: how it stands, and how it was lost."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.task: asyncio.Task[Any] | None = None
        self.settled = asyncio.Event()
        """Open, or given up: nobody need wait for it."""
        self.event_id = ""
        self.losses = 0
        self.wish_s: float | None = None
        self.hinted_at: datetime | None = None

    def away_s(self) -> float:
        """How long to stay away after a loss: at least what the server wants, and longer each time."""
        return min(max(self.wish_s or 0.0, 2.0**self.losses / 2), LONGEST_AWAY_S)
