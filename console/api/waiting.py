"""Long polls: hold a request until something has changed, or its time is up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVar

from console import live
from console.api.door import in_thread

T = TypeVar("T")

_UNHEARD_S = 1.0
"""How often to look while nothing can be heard."""
_HEARD_S = 5.0
"""How often to look all the same: an announcement can get lost."""
_GAP_S = 0.2
"""A burst of announcements wakes every waiting caller; it must not become a burst of queries."""


async def wait_for(check: Callable[[], T | None], *, operation: str | None, wait_s: float) -> T | None:
    """Run `check` until it returns something; None when `wait_s` seconds have passed without.

    It runs at once, and then whenever the operation has moved (None: any operation). A caller that goes away ends
    the wait and nothing else (C8).
    """
    if not wait_s:
        return await in_thread(check)
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + wait_s
    async with live.listener().watching(operation) as moved:
        while True:
            # Cleared before the check: a change that comes during the check is seen by the next one.
            moved.clear()
            if (found := await in_thread(check)) is not None:
                return found
            if (left_s := ends_at - loop.time()) <= 0:
                return None
            await _moved_or_late(moved, left_s)


async def _moved_or_late(moved: asyncio.Event, left_s: float) -> None:
    patience_s = _HEARD_S if live.listener().ready.is_set() else _UNHEARD_S
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(moved.wait(), min(left_s, patience_s))
        await asyncio.sleep(min(left_s, _GAP_S))
