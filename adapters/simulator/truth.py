"""What really happened at a simulated server, for tests to compare the ledger with.

Nothing that is lost, delayed or bent on the wire changes a truth. Times are the server's clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

MAX_ARRIVALS = 100_000
"""Older ones are forgotten: a demo runs for weeks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A request that reached the server."""

    at: float
    method: str
    session: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """A call that began: a task, or a call that ran inline (`task_id` is None)."""

    at: float
    submission_key: str | None
    tool: str
    task_id: str | None
    session: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """An effect that nobody can take back."""

    at: float
    task_id: str | None
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An answer that arrived. `used` is False when no question waited for it."""

    at: float
    key: str
    task_id: str | None
    action: str
    content: Any
    used: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """A cancel that arrived. `won` is True when it ended the task."""

    at: float
    task_id: str
    won: bool


@dataclass(slots=True)
class Truth:
    """The server's own diary, in order of time."""

    arrivals: deque[Arrival] = field(default_factory=lambda: deque(maxlen=MAX_ARRIVALS))
    created: list[Created] = field(default_factory=list)
    effects: list[Done] = field(default_factory=list)
    answers: list[Answered] = field(default_factory=list)
    cancels: list[Cancelled] = field(default_factory=list)

    def tasks_of(self, submission_key: str) -> list[Created]:
        """Every call that really began under this key: more than one is a duplicate."""
        return [entry for entry in self.created if entry.submission_key == submission_key]

    def requests_per_second(self) -> int:
        """The most requests that arrived within any one second."""
        times = sorted(arrival.at for arrival in self.arrivals)
        return max((sum(1 for t in times if start <= t < start + 1) for start in times), default=0)

    def as_json(self) -> dict[str, Any]:
        """The diary as plain JSON values."""
        parts: dict[str, Iterable[Any]] = {
            "arrivals": self.arrivals,
            "created": self.created,
            "effects": self.effects,
            "answers": self.answers,
            "cancels": self.cancels,
        }
        return {name: [asdict(entry) for entry in entries] for name, entries in parts.items()}
