"""What a worker hears at once from all others: urgent work, and servers that are to be left alone.

Nothing of it has to arrive. What is not heard is found by the next turn, and a claim that was made
before a pause speaks for no more than `ledger.AHEAD`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any

import psycopg
from django.db import connection

from operations import announce
from operations.sending import Pauses

AGAIN_S = 2.0
"""How long to wait before the connection that broke is made anew."""
_DJANGOS_OWN = ("cursor_factory", "context", "prepare_threshold")
log = logging.getLogger(__name__)


class News:
    """Listens on a connection of its own, on the loop that `listen` runs in."""

    def __init__(self, *, pauses: Pauses, urgent: Callable[[], None]) -> None:
        self._pauses = pauses
        self._urgent = urgent

    async def listen(self) -> None:
        """Listen until it is cancelled; a connection that breaks is made anew."""
        given = connection.get_connection_params()
        settings = {name: value for name, value in given.items() if name not in _DJANGOS_OWN}
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(**settings, autocommit=True) as held:
                    await self._hear(held)
            except (psycopg.Error, OSError) as error:
                log.warning("news broke off: %s", type(error).__name__)
            await asyncio.sleep(AGAIN_S)

    async def _hear(self, held: psycopg.AsyncConnection[Any]) -> None:
        await held.execute(f"LISTEN {announce.WORKERS}")
        self._urgent()  # what was told while nobody listened
        async for notice in held.notifies():
            self.note(notice.payload)

    def note(self, payload: str) -> None:
        """Take in one piece of news."""
        try:
            told = dict(json.loads(payload))
            server, until = told.get("server"), str(told.get("until"))
            if server is None:
                self._urgent()
            else:
                self._pauses.hear(server, datetime.fromisoformat(until))
        except (ValueError, TypeError):
            log.warning("a piece of news could not be read")
