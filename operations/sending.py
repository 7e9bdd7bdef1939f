"""How a request gets to a server: its moment under the server's limit, and the way there (P2)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeVar

from adapters.contract import NotSent, Wire
from operations import ledger, pacing
from operations.ledger import Work

T = TypeVar("T")


class StepRunner(Protocol):
    """Runs one sync ledger function to its end and gives its result."""

    async def __call__(self, step: Callable[..., T], /, *args: Any, **named: Any) -> T:  # noqa: ANN401
        """Give what `step` gives; raise what it raises."""
        ...


LONG_S = 0.2
"""Who waited longer for a moment asks the database again whether the server is paused by now (P1)."""

Gate = Callable[[], Awaitable[None]]
WireFor = Callable[[Work, Gate], Wire]


class Pauses:
    """The pauses that this process has heard of: known at the moment of sending, without a journey (P1, F10)."""

    def __init__(self) -> None:
        self._ends: dict[str, datetime] = {}

    def hear(self, server: str, until: datetime) -> None:
        """Leave the server alone until then; a longer pause stands."""
        self._ends[server] = max(until, self._ends.get(server, until))

    def end_of(self, server: str) -> datetime | None:
        """When the longest pause of this server ends that was heard of, ended or not."""
        return self._ends.get(server)


class SendGate:
    """Lets one request leave at a moment reserved for it (P2). See Note [Send slots].

    `until`: when the claim ends under which it leaves; None for what no claim covers.
    `slot`: the moment that the claim has brought for its first request.
    `pauses`: what is heard of pauses while it waits.
    """

    def __init__(
        self,
        server: str,
        run: StepRunner,
        clock: Callable[[], datetime],
        *,
        until: datetime | None = None,
        slot: datetime | None = None,
        pauses: Pauses | None = None,
    ) -> None:
        self._pauses = pauses or Pauses()
        self._server = server
        self._run = run
        self._clock = clock
        self._until = until
        self._reserved = slot

    async def ahead(self) -> None:
        """Take the moment for the next request and wait for it, before its permit is asked for."""
        self._reserved = await self._moment()

    async def __call__(self) -> None:
        """Return when the request may leave. Raises NotSent when the claim ends before."""
        await self._moment()

    async def _moment(self) -> datetime:
        """Wait for the reserved moment; where it is gone, or a pause came meanwhile, for another."""
        slot, self._reserved = self._reserved, None
        while True:
            now = self._clock()
            if slot is None or now - slot > pacing.LATE:
                slot = await self._reserve()
                now = self._clock()
            if slot <= now and slot >= self._free_from(slot):
                return slot
            wait = (slot - now).total_seconds()
            await asyncio.sleep(max(wait, 0.0))
            if slot < self._free_from(slot) or (wait > LONG_S and await self._is_paused()):
                slot = None

    def _free_from(self, now: datetime) -> datetime:
        """The end of a pause that was heard of, where it comes after `now`."""
        return max(now, self._pauses.end_of(self._server) or now)

    async def _reserve(self) -> datetime:
        # The news of a pause may be here before the pause itself is committed.
        slot = await self._run(ledger.reserve_slot, self._server, now=self._free_from(self._clock()), by=self._until)
        if self._until is not None and slot >= self._until:
            raise NotSent("the claim ends before this server's next free moment")
        return slot

    async def _is_paused(self) -> bool:
        until = await self._run(ledger.paused_until, self._server)
        return until is not None and until > self._clock()


class Together:
    """Takes send moments in one journey for all who ask in the same moment."""

    def __init__(self, run: StepRunner) -> None:
        self._run = run
        self._asked: dict[str, list[_Asked]] = {}
        self._journeys: set[asyncio.Task[None]] = set()

    async def reserve_slot(self, server: str, *, now: datetime, by: datetime | None = None) -> datetime:
        """As `ledger.reserve_slot`."""
        mine = _Asked(now, by, asyncio.get_running_loop().create_future())
        waiting = self._asked.setdefault(server, [])
        waiting.append(mine)
        if len(waiting) == 1:
            journey = asyncio.create_task(self._go(server))
            self._journeys.add(journey)
            journey.add_done_callback(self._journeys.discard)
        return await mine.slot

    async def _go(self, server: str) -> None:
        await asyncio.sleep(0)  # whoever asks in this turn of the loop comes along
        asked = self._asked.pop(server)
        try:
            now = max(each.now for each in asked)
            slots = await self._run(ledger.reserve_slots, server, [each.by for each in asked], now=now)
        except Exception as error:  # noqa: BLE001 - everybody who asked gets it
            for each in asked:
                if not each.slot.done():
                    each.slot.set_exception(error)
            return
        for each, slot in zip(asked, slots, strict=True):
            if not each.slot.done():
                each.slot.set_result(slot)


class _Asked(NamedTuple):
    now: datetime
    by: datetime | None
    slot: asyncio.Future[datetime]
