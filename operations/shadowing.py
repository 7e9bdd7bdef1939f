"""Drives shadows: a release on trial looks at what somebody else's path does (O1).

It is handed `OnlyLooks`, three of an adapter's verbs, so that there is no word for it to do anything with.
Each request takes its moment from the server's own limit like every other one (P2), and a shadow is
claimed only where nobody waits for that server.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol

from adapters import strictjson
from adapters.contract import (
    Absent,
    AdapterError,
    Ended,
    Exchange,
    Handle,
    NeedsInput,
    NotReady,
    NotSent,
    Observation,
    Opened,
    Promises,
    ProtocolStatus,
    SessionLost,
    Throttled,
    ToolResult,
    Wire,
    Working,
)
from operations import comparison, ledger, pacing
from operations.ledger import ShadowLook, ShadowWork
from operations.machine import Outcome
from operations.sending import Gate, SendGate, StepRunner

MAX_MISSES = 5
"""Fetches and looks in a row that brought nothing, before what is known is compared as it is."""
NEVER_REPORTED = "the existing path has not reported how it ended"
NO_TRIAL = "the release is not on trial any more"
FORGOTTEN = "the server forgot the task before its end was seen"

log = logging.getLogger(__name__)


class OnlyLooks(Protocol):
    """What a shadow may ask an adapter for. Every verb may raise any AdapterError."""

    promises: Promises

    async def open(self, wire: Wire) -> Opened:
        """Open a session to look in. Starts no work."""
        ...

    async def look(self, wire: Wire, handle: Handle, *, expect_question: bool) -> Observation:
        """Ask for the task's status."""
        ...

    async def fetch(self, wire: Wire, handle: Handle, status: ProtocolStatus) -> ToolResult | NotReady:
        """Read the result of a task that has ended."""
        ...


WireFor = Callable[[ShadowWork, Gate], Wire]


class Shadowing:
    """Looks at claimed shadows; many looks may run at once on one loop."""

    def __init__(
        self,
        *,
        adapter_for: Callable[[str, str], OnlyLooks],
        wire_for: WireFor,
        run: StepRunner,
        clock: Callable[[], datetime],
        chance: random.Random,
    ) -> None:
        self._adapter_for = adapter_for
        self._wire_for = wire_for
        self._run = run
        self._clock = clock
        self._chance = chance

    async def watch(self, work: ShadowWork) -> None:
        """Do the one next thing for a shadow. Never raises; what fails is tried again later."""
        try:
            await self._watch(work)
        except Exception:
            log.exception("shadow failed", extra={"shadow": work.id})
            await self._nothing(work, "something broke on our side")

    async def _watch(self, work: ShadowWork) -> None:
        now = self._clock()
        if not work.on_trial:
            await self._run(ledger.abandon_shadow, work, why=NO_TRIAL, now=now)
        elif now >= work.ends_at and work.told_at is None:
            await self._run(ledger.abandon_shadow, work, why=NEVER_REPORTED, now=now)
        elif self._is_enough(work, now):
            await self._compare(work)
        else:
            await self._look(work)

    def _is_enough(self, work: ShadowWork, now: datetime) -> bool:
        """Whether the existing path has ended so long ago that waiting for the release's own word is over."""
        if work.told_ended_at is None or work.told_at is None:
            return False
        waited = now > max(work.told_ended_at, work.told_at) + comparison.patience(work.interval)
        return (waited and not work.has_ended) or work.misses > MAX_MISSES

    async def _look(self, work: ShadowWork) -> None:
        adapter = self._adapter_for(work.protocol, work.release)
        gate = SendGate(work.server.slug, self._run, self._clock, until=work.lease_until)
        wire, handle = self._wire_for(work, gate), Handle(session=work.session, task_id=work.task_id)
        try:
            if handle.session is None and adapter.promises.needs_session:
                handle = replace(handle, session=(await adapter.open(wire)).session)
            seen = await adapter.look(wire, handle, expect_question=False)
            result = await self._result(adapter, wire, handle, work, seen)
        except AdapterError as error:
            await self._missed(work, handle, error)
            return
        await self._seen(work, handle, seen, result)

    async def _result(
        self, adapter: OnlyLooks, wire: Wire, handle: Handle, work: ShadowWork, seen: Observation
    ) -> ToolResult | NotReady | None:
        """The result, where it came with the look or may be fetched now. See Note [A shadow has no hands]."""
        if not isinstance(seen, Ended) or seen.status is ProtocolStatus.CANCELLED:
            return None
        if seen.result is not None or work.told_at is None:
            return seen.result
        return await adapter.fetch(wire, handle, seen.status)

    async def _missed(self, work: ShadowWork, handle: Handle, error: AdapterError) -> None:
        if isinstance(error, Throttled):
            wait = error.retry_after_s or min(pacing.PAUSE_S, 2.0 ** min(work.misses, 5))
            until = self._clock() + timedelta(seconds=wait)
            await self._run(ledger.pause_server, work.server.slug, until=until, reason=error.reason)
        if isinstance(error, NotSent | Throttled):
            # Not the release's fault: it got no answer to read.
            look = _look_of(handle, next_at=self._retry_at(work))
        else:
            session = None if isinstance(error, SessionLost) else handle.session
            look = ShadowLook(
                next_at=self._retry_at(work),
                answered=True,
                session=session,
                trouble=error.reason,
                answer=_last_bytes(error.exchanges),
            )
        await self._run(ledger.shadow_looked, work, look)

    async def _seen(
        self, work: ShadowWork, handle: Handle, seen: Observation, result: ToolResult | NotReady | None
    ) -> None:
        now = self._clock()
        if isinstance(seen, Absent):
            await self._absent(work, handle, seen)
            return
        look = _look_of(handle, next_at=self._next_at(work, seen), seen=seen)
        if isinstance(seen, Ended):
            look = _with_end(replace(look, ended_at=now), seen, result)
        await self._run(ledger.shadow_looked, work, look)
        if look.outcome is not None and work.told_at is not None:
            await self._compare(work)

    async def _absent(self, work: ShadowWork, handle: Handle, seen: Absent) -> None:
        """X1: a task that is gone says nothing. One that was never seen is a difference; one that was is no more."""
        if work.status and work.told_at is not None:
            await self._run(ledger.abandon_shadow, work, why=FORGOTTEN, now=self._clock())
            return
        look = _look_of(handle, next_at=self._retry_at(work))
        trouble = f"{seen.code}: {seen.message}"
        look = replace(look, answered=True, trouble=trouble, answer=_last_bytes(seen.exchanges))
        await self._run(ledger.shadow_looked, work, look)

    async def _compare(self, work: ShadowWork) -> None:
        differences = await self._run(ledger.compare_shadow, work, now=self._clock())
        for one in differences or ():
            log.warning(
                "divergence",
                extra={"shadow": work.id, "release": work.release, "event": one.kind.value}
                | {"source": one.told, "target": one.seen},
            )

    async def _nothing(self, work: ShadowWork, why: str) -> None:
        look = ShadowLook(next_at=self._retry_at(work), answered=False, session=work.session, trouble=why)
        await self._run(ledger.shadow_looked, work, look)

    def _next_at(self, work: ShadowWork, seen: Observation) -> datetime:
        if isinstance(seen, Ended) and work.told_at is None:
            return work.ends_at  # the report brings it forward
        poll_ms = seen.task.poll_ms if isinstance(seen, Working | NeedsInput) and seen.task is not None else None
        look = pacing.next_look(
            self._clock(),
            poll_ms=poll_ms,
            floor_ms=work.server.poll_floor_ms,
            cap_ms=work.server.poll_cap_ms,
            misses=0,
            chance=self._chance,
        )
        return min(look, max(work.ends_at, self._clock()))

    def _retry_at(self, work: ShadowWork) -> datetime:
        cap_ms = work.server.poll_cap_ms
        return pacing.retry_at(self._clock(), misses=work.misses, cap_ms=cap_ms, chance=self._chance)


def _look_of(handle: Handle, *, next_at: datetime, seen: Observation | None = None) -> ShadowLook:
    found = ShadowLook(next_at=next_at, answered=False, session=handle.session)
    if seen is None or isinstance(seen, Absent):
        return found
    status = seen.task.status if seen.task is not None else ProtocolStatus.COMPLETED
    return replace(found, answered=True, status=status.value, answer=_last_bytes(seen.exchanges))


def _last_bytes(exchanges: tuple[Exchange, ...]) -> bytes:
    return exchanges[-1].body if exchanges else b""


def _with_end(look: ShadowLook, seen: Ended, result: ToolResult | NotReady | None) -> ShadowLook:
    """Add what a look at an ended task says of its outcome; nothing of it while the result is not there."""
    if seen.status is ProtocolStatus.CANCELLED:
        return replace(look, outcome=Outcome.CANCELLED)
    if result is None:
        return look
    if isinstance(result, NotReady):
        return replace(look, trouble=f"{result.code}: {result.message}", answer=_last_bytes(result.exchanges))
    failed = result.is_error or seen.status is ProtocolStatus.FAILED
    return replace(
        look,
        outcome=Outcome.TOOL_ERROR if failed else Outcome.SUCCESS,
        # The canonical form: two paths may be given the same result with other blanks.
        result_digest=strictjson.digest_of(result.value),
        answer=_last_bytes(result.exchanges) or result.raw,
    )
