"""An event loop in which nothing waits and a chosen order decides who goes next.

Ordinary callbacks run in their order at once. A *point* is a place where a scheduler may let somebody
else go first: before every ledger step, before every send, after every receive. When nothing else can
run, one of the waiting points is let go; when no point waits, time jumps to the next timer.
"""

import asyncio
import heapq


class Deadlock(Exception):
    """Everybody waits for somebody else."""


class Loop(asyncio.BaseEventLoop):
    """Virtual time in seconds, no sockets, no threads."""

    def __init__(self, choices):
        super().__init__()
        self._now = 0.0
        self._choices = choices
        self._points = []
        self.trace = []
        """What went on, in order: (seconds, words)."""

    def time(self):
        return self._now

    def call_soon(self, callback, *args, context=None):  # type: ignore[override]
        # As in asyncio, without the checks: no other thread calls, and nothing is called when it has ended.
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def get_debug(self):
        return False

    async def point(self, words):
        """Wait for one's turn."""
        turn = self.create_future()
        self._points.append((turn, words))
        await turn

    def note(self, words):
        self.trace.append((round(self._now, 3), words))

    def _run_once(self):
        ready = self._ready
        if not ready and not self._let_go():
            self._jump()
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _let_go(self):
        waiting = [point for point in self._points if not point[0].done()]
        if not waiting:
            self._points = waiting
            return False
        number = self._choices.pick(min(len(waiting), 6), "order", "goes first") if len(waiting) > 1 else 0
        turn, words = waiting.pop(number)
        if number:
            place, _ = self._choices.told[-1]
            self._choices.told[-1] = (place, f"{self._now:.1f} s: {words} goes before {waiting[0][1]}")
        self._points = waiting
        turn.set_result(None)
        return True

    def _jump(self):
        timers = self._scheduled
        while timers and timers[0]._cancelled:
            heapq.heappop(timers)._scheduled = False
        if not timers:
            raise Deadlock
        self._now = max(self._now, timers[0]._when)
        while timers and timers[0]._when <= self._now:
            handle = heapq.heappop(timers)
            handle._scheduled = False
            if not handle._cancelled:
                self._ready.append(handle)

    def _timer_handle_cancelled(self, handle):
        pass

    def _process_events(self, event_list):
        pass

    def _write_to_self(self):
        pass

    def run_in_executor(self, executor, func, *args):  # type: ignore[override]
        raise RuntimeError("no threads here")
