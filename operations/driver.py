"""Drives claimed operations: plan, ledger step, HTTP, ledger step.

The seam: clock, chance, wires and "run this ledger step" are constructor arguments. Nothing here
makes a loop, a thread or a clock, so a scheduler that hands them in can hold every single step.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from adapters.contract import Adapter, Handle
from operations import ledger, pacing
from operations.deeds import Drive
from operations.ledger import Work
from operations.machine import StaleStep, State, StepError
from operations.sending import Pauses, SendGate, StepRunner, WireFor

log = logging.getLogger(__name__)
T = TypeVar("T")


Listen = Callable[[Work, Handle], Awaitable[None]]


async def _nobody_listens(_work: Work, _handle: Handle) -> None:
    """Hold no standing stream."""


class Driver:
    """Drives one claimed operation at a time; many drives may run at once on one loop."""

    def __init__(
        self,
        *,
        adapter_for: Callable[[str, str], Adapter],
        wire_for: WireFor,
        run: StepRunner,
        clock: Callable[[], datetime],
        chance: random.Random,
        listen: Listen = _nobody_listens,
        pauses: Pauses | None = None,
    ) -> None:
        self._pauses = pauses or Pauses()
        self._adapter_for = adapter_for
        self._wire_for = wire_for
        self._run = run
        self._clock = clock
        self._chance = chance
        self.listen = listen
        self._recoveries: dict[str, asyncio.Lock] = {}

    async def drive(self, works: Sequence[Work]) -> None:
        """Do one deed for each claim. Never raises; what fails is tried again later, by itself."""
        quiet = await asyncio.gather(*(self.drive_one(work) for work in works))
        still = [unchanged for unchanged in quiet if unchanged is not None]
        if still:
            await self._run(ledger.unchanged, still)

    async def drive_one(self, work: Work) -> ledger.Unchanged | None:
        """Do one deed; give what is left to write, which may be written together with others' (`ledger.unchanged`)."""
        try:
            adapter = self._adapter_for(work.protocol, work.release)
            gate = self._gate(work)
            return await Drive(self, work, adapter, self._wire_for(work, gate), gate).do()
        except StaleStep as error:
            # Somebody else moved the operation; whoever holds the newest claim goes on.
            log.info("late", extra={"operation": work.row.id, "why": str(error)})
            return self.later(work, self._clock(), misses=work.misses)
        except StepError as error:
            # Refused for what it is, such as a shut submit switch: at once it would only be refused again.
            log.info("refused", extra={"operation": work.row.id, "why": str(error)})
            return self.later(work, self.retry_at(work), misses=work.misses + 1)
        except Exception:
            # One poisonous operation must not stop the others, nor be tried in a tight loop.
            log.exception("drive failed", extra={"operation": work.row.id})
            return self.later(work, self.retry_at(work), misses=work.misses + 1)

    def _gate(self, work: Work) -> SendGate:
        until, slot, pauses = work.lease_until, work.slot, self._pauses
        return SendGate(work.server.slug, self._run, self._clock, until=until, slot=slot, pauses=pauses)

    def later(self, work: Work, next_at: datetime, *, misses: int, trouble: str = "") -> ledger.Unchanged:
        """The claim brought nothing to write: come again at `next_at`."""
        return ledger.Unchanged(
            operation=work.row.id,
            look=work.ticket.look,
            next_at=next_at,
            misses=misses,
            trouble=trouble,
            at=self._clock() if trouble else None,
            place=work.place,
        )

    def retry_at(self, work: Work) -> datetime:
        """When to try again what brought nothing usable."""
        cap_ms = work.server.poll_cap_ms
        retry = pacing.retry_at(self._clock(), misses=work.misses, cap_ms=cap_ms, chance=self._chance)
        return self.in_budget(work, retry)

    def in_budget(self, work: Work, at: datetime) -> datetime:
        """The end of the wait budget, where it comes before `at`: nobody may sleep through it (P5)."""
        ends = work.row.budget_ends_at
        return at if at <= ends or self._clock() >= ends else ends

    def look_at(self, work: Work, *, poll_ms: int | None = None, misses: int = 0) -> datetime:
        """When the next routine look is due (P1)."""
        if work.row.state is State.UNKNOWN:
            return self._clock() + pacing.SLOW
        look = pacing.next_look(
            self._clock(),
            poll_ms=poll_ms if poll_ms is not None else work.poll_ms,
            floor_ms=work.server.poll_floor_ms,
            cap_ms=work.server.poll_cap_ms,
            misses=misses,
            chance=self._chance,
        )
        return self.in_budget(work, look)

    async def run(self, step: Callable[..., T], /, *args: Any, **named: Any) -> T:  # noqa: ANN401
        """Run one ledger step."""
        return await self._run(step, *args, **named)

    def now(self) -> datetime:
        """The time, from the clock that was handed in."""
        return self._clock()

    def recovery(self, server: str) -> asyncio.Lock:
        """One lost session of a server is replaced at a time (B109)."""
        return self._recoveries.setdefault(server, asyncio.Lock())
