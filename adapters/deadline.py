"""One moment at which every wait for the network ends, over all the waits of one exchange.

`asyncio.timeout_at` makes a timer for each wait: of a look that is answered at once, that was more
work than reading the answer.
"""

from __future__ import annotations

import asyncio
from types import TracebackType


class Deadline:
    """A context manager to be entered for each wait. Raises TimeoutError out of the one in which time is up.

    What runs between two waits is never cancelled. A wait that begins too late still gets what is there already.
    """

    __slots__ = ("_before", "_is_over", "_loop", "_struck", "_timer", "_waits")

    def __init__(self, *, at: float) -> None:
        """`at`: on the running loop's clock."""
        self._loop = asyncio.get_running_loop()
        self._waits: asyncio.Task[object] | None = None
        self._before = 0
        self._is_over = self._struck = False
        self._timer: asyncio.Handle = self._loop.call_at(at, self._strike)

    def end(self) -> None:
        """Forget the moment: there is nothing left to wait for."""
        self._timer.cancel()

    def _strike(self) -> None:
        self._is_over = True
        if self._waits is not None:
            self._struck = True
            self._waits.cancel()

    def __enter__(self) -> None:
        task = asyncio.current_task(self._loop)
        assert task is not None, "a wait belongs to a task"  # noqa: S101 - for the type checker
        self._waits, self._before = task, task.cancelling()
        if self._is_over:
            self._timer = self._loop.call_soon(self._strike)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        task, self._waits = self._waits, None
        if not self._struck or task is None:
            return
        self._struck = False
        # Somebody else may have cancelled the task as well: then that counts, and not the time.
        if task.uncancel() <= self._before and kind is asyncio.CancelledError:
            raise TimeoutError from error
