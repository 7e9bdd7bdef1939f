"""Long polls: hold a request until something has changed, or its time is up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from console.api.door import in_thread

T = TypeVar("T")

_LOOK_AGAIN_S = 1.0


async def wait_for(check: Callable[[], T | None], *, operation: str | None, wait_s: float) -> T | None:
    """Run `check` until it returns something; None when `wait_s` seconds have passed without.

    A caller that goes away ends the wait and nothing else (C8).
    """
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + wait_s
    while (found := await in_thread(check)) is None:
        if (left_s := ends_at - loop.time()) <= 0:
            return None
        await asyncio.sleep(min(left_s, _LOOK_AGAIN_S))
    return found
