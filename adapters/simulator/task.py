"""One task of a simulated server: a script, moved forward by the clock.

A task is lazy: nothing happens between two requests, yet `advance` puts every step at the moment
at which it would have happened. So a run depends on the times of requests only through what the
script was asked, never through how often somebody looked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from adapters.contract import Json
from adapters.simulator.scripts import Answer, Ask, Crash, Finish, Outcome, Running, Work

TERMINAL = frozenset({"completed", "failed", "cancelled"})


@dataclass(slots=True, kw_only=True)
class Task:
    """The server's side of one call. `on_effect` is called with a time and a name."""

    task_id: str
    session: str | None
    running: Running
    created_at: float
    speed: float
    ttl_ms: int | None
    on_effect: Callable[[float, str], None]
    status: str = "working"
    message: str = ""
    changed_at: float = 0.0
    outcome: Outcome | None = None
    error_fails: bool = True
    """A result that is the tool's own error makes the task `failed`; otherwise it is `completed`."""
    open: dict[int, Ask] = field(default_factory=dict)
    """The questions that wait for an answer, by number. Numbers start at 1 and never come again."""
    round_start: int = 0
    """The number of the first question that was asked together with the open ones."""
    question_id: Json = None
    delivered: bool = False
    """The first open question went out on some stream."""
    _given: dict[int, Answer] = field(default_factory=dict, init=False)
    _numbers: int = field(default=0, init=False)
    _cancelled_at: float | None = field(default=None, init=False)
    _works_on: bool = field(default=False, init=False)
    _until: float | None = field(default=0.0, init=False)
    """When the running step ends. None: it waits for an answer, or nothing is left to run."""

    def __post_init__(self) -> None:
        self.changed_at = self._until = self.created_at

    @property
    def is_over(self) -> bool:
        """The status is terminal. The work behind it may go on."""
        return self.status in TERMINAL

    @property
    def asked(self) -> Ask | None:
        """The first open question."""
        return next(iter(self.open.values()), None)

    @property
    def asked_number(self) -> int:
        """The number of the first open question; 0 when there is none."""
        return next(iter(self.open), 0)

    @property
    def can_move(self) -> bool:
        """Something is left that the clock alone can do."""
        return self._until is not None or (self._cancelled_at is not None and not self.is_over)

    def advance(self, now: float) -> None:
        """Run every step that ends by `now`, and be cancelled in between if that is due."""
        if self._cancelled_at is not None and self._cancelled_at <= now:
            due, self._cancelled_at = self._cancelled_at, None
            self.advance(due)
            if not self.is_over:
                self.cancel(due, works_on=self._works_on)
        while self._until is not None and self._until <= now:
            self._step(self._until, None)

    def answer(self, now: float, answer: Answer, *, number: int | None = None) -> bool:
        """Take the answer to a question, to the first open one by default. False: it is not open.

        The script goes on when its last open question is answered.
        """
        number = self.asked_number if number is None else number
        if self.open.pop(number, None) is None:
            return False
        self._given[number] = answer
        self.question_id, self.delivered = None, False
        if self.open:
            return True
        first, *others = (self._given[given] for given in sorted(self._given))
        self._given.clear()
        self._show(now, "working", self.message)
        self._step(now, replace(first, others=tuple(others)))
        return True

    def cancel_later(self, at: float, *, works_on: bool) -> None:
        """Be cancelled at `at`, unless the task is over by then."""
        self._cancelled_at, self._works_on = at, works_on

    def cancel(self, now: float, *, works_on: bool) -> None:
        """Be cancelled. With `works_on` the script does not notice."""
        self._show(now, "cancelled", "cancelled by the client")
        if not works_on:
            self._until = None
            self.open.clear()
            self.running.close()

    def finish(self, now: float) -> None:
        """Run everything that is left at once, up to a question."""
        while self._until is not None:
            self._step(now, None)

    def is_expired(self, now: float) -> bool:
        """The time to live has passed: the server need not know the task any more."""
        return self.ttl_ms is not None and now >= self.created_at + self.ttl_ms / 1000

    def facts(self, poll_ms: int | None) -> dict[str, Json]:
        """The task object as the protocol shows it."""
        shown: dict[str, Json] = {
            "taskId": self.task_id,
            "status": self.status,
            "createdAt": instant(self.created_at),
            "lastUpdatedAt": instant(self.changed_at),
            "ttl": self.ttl_ms,
        }
        if self.message:
            shown["statusMessage"] = self.message
        if poll_ms is not None:
            shown["pollInterval"] = poll_ms
        return shown

    def _step(self, at: float, answer: Answer | None) -> None:
        try:
            step = self.running.send(answer)
        except StopIteration as stop:
            self._end(at, stop.value)
            return
        if isinstance(step, Work):
            self._until = at + step.seconds / self.speed
            self._show(at, "working", step.message or self.message)
        elif isinstance(step, Ask):
            self._until, self.delivered = None, False
            self.round_start = self._numbers + 1
            for question in (step, *step.also):
                self._numbers += 1
                self.open[self._numbers] = question
            self._show(at, "input_required", step.message)
        else:
            self._until = at
            self.on_effect(at, step.name)

    def _end(self, at: float, outcome: Outcome) -> None:
        self._until = None
        self.outcome = outcome
        failed = isinstance(outcome, Crash) or (outcome.is_error and self.error_fails)
        self._show(at, "failed" if failed else "completed", message_of(outcome))

    def _show(self, at: float, status: str, message: str) -> None:
        # A terminal status never changes, whatever the work behind it goes on to do.
        if not self.is_over:
            self.status, self.message, self.changed_at = status, message, at


def message_of(outcome: Outcome) -> str:
    """The status message of a task that ended so."""
    return outcome.message if isinstance(outcome, Crash) else ""


def result_of(outcome: Finish) -> dict[str, Json]:
    """The tool result as the protocol shows it."""
    result: dict[str, Json] = {
        "content": [{"type": "text", "text": outcome.text}],
        "isError": outcome.is_error,
    }
    if outcome.structured is not None:
        result["structuredContent"] = dict(outcome.structured)
    return result


def instant(at: float) -> str:
    """The moment as the protocol writes it."""
    return datetime.fromtimestamp(at, tz=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
