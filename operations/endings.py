"""Has what ends in the same moment accepted together: one journey, one flush."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from operations import ledger
from operations.machine import Ticket
from operations.sending import StepRunner

MOST = 50
"""So many in one transaction: it holds their rows, and the share lock a rollback waits for, some 20 ms."""


class Endings:
    """Takes along, whenever a journey begins, all who have asked while the one before was under way.

    So nobody waits for company: whoever comes alone goes at once, and the more there are, the more go together.
    """

    def __init__(self, run: StepRunner) -> None:
        self._run = run
        self._waiting: list[_Asked] = []
        self._journeys: asyncio.Task[None] | None = None

    async def accept_result(
        self, operation: str, *, ticket: Ticket, facts: ledger.Facts, now: datetime
    ) -> ledger.Moved:
        """As `ledger.accept_result`."""
        acceptance = ledger.Acceptance(operation=operation, ticket=ticket, facts=facts, now=now)
        mine = _Asked(acceptance, asyncio.get_running_loop().create_future())
        self._waiting.append(mine)
        if self._journeys is None:
            self._journeys = asyncio.create_task(self._go())
        return await mine.fate

    async def _go(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(0)  # whoever asks in this turn of the loop comes along
                asked, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
                await self._accept(asked)
        finally:
            self._journeys = None

    async def _accept(self, asked: Sequence[_Asked]) -> None:
        fates: Sequence[ledger.Moved | Exception]
        try:
            fates = await self._run(ledger.accept_results, [each.acceptance for each in asked])
        except Exception as error:  # noqa: BLE001 - everybody who asked gets it
            fates = [error] * len(asked)
        for each, fate in zip(asked, fates, strict=True):
            if each.fate.done():
                continue  # nobody waits for it any more
            if isinstance(fate, ledger.Moved):
                each.fate.set_result(fate)
            else:
                each.fate.set_exception(fate)


class _Asked(NamedTuple):
    acceptance: ledger.Acceptance
    fate: asyncio.Future[ledger.Moved]
