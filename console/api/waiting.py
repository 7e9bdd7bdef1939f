"""Long polls: hold a request until something has changed, or its time is up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from console import live
from console.api.door import in_thread

T = TypeVar("T")

_FIRST_FALLBACK_S = 1.0
_LONGEST_FALLBACK_S = 5.0
_LEAST_GAP_S = 0.2


async def wait_for(check: Callable[[], T | None], *, operation: str | None, wait_s: float) -> T | None:
    """Run `check` until it returns something; None when `wait_s` seconds have passed without.

    An announcement wakes the wait (`operation` None: of any operation), but none is relied on: one can get lost, so
    the check also runs every few seconds. A caller that goes away ends the wait and nothing else (C8).
    """
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + wait_s
    fallback_s = _FIRST_FALLBACK_S
    while (found := await in_thread(check)) is None:
        left_s = ends_at - loop.time()
        if left_s <= 0:
            return None
        woken_at = loop.time() + _LEAST_GAP_S
        woken = await live.wait_for_change(operation, timeout=min(left_s, fallback_s))
        if woken:
            # A burst of announcements, each of which wakes everybody, must not become a burst of queries.
            await asyncio.sleep(max(0.0, min(woken_at, ends_at) - loop.time()))
        else:
            fallback_s = min(2 * fallback_s, _LONGEST_FALLBACK_S)
    return found
