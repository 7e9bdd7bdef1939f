"""Every read there is: one module a page family. They return frozen rows, never models.

Pages of 50 by keyset, counts capped at 1 000, and as many queries for a page of 50 as for a page of one.
"""

from __future__ import annotations

import enum
import uuid
from dataclasses import dataclass
from datetime import datetime

from operations.machine import State

CAP = 1000
"""Counting stops here: a count that nobody reads to the end must not cost a scan."""
PAGE = 50


class Asked(enum.StrEnum):
    """How it stands with the question of an operation that the server still asks."""

    NOTHING = ""
    """The server asks nothing now."""
    OPEN = "OPEN"
    """People can answer."""
    EXPIRED = "EXPIRED"
    """Nobody answered in time, and the tool was told nothing (I5)."""
    ANSWERED = "ANSWERED"
    """It has its answer; the server has not moved on yet (I6)."""


def asked(state: State, *, is_open: bool, delivery: str | None) -> Asked:
    """Tell a question without an open round that has an answer from one that has none."""
    if state is not State.INPUT_REQUIRED:
        return Asked.NOTHING
    if is_open:
        return Asked.OPEN
    return Asked.ANSWERED if delivery else Asked.EXPIRED


def is_parked(state: State, *, task_id: str | None, lookup: str, nothing_sent: bool) -> bool:
    """Whether no look can bring anything new: there is no task to ask for, and no other way to ask (L4, X4)."""
    if task_id is not None:
        return False
    if state is State.INPUT_REQUIRED:
        return True
    stands = state in {State.SUBMISSION_UNKNOWN, State.NOT_FOUND_SAFE, State.UNKNOWN}
    return stands and (lookup == "none" or nothing_sent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The last row of a page: the next one goes on behind it."""

    at: datetime
    id: uuid.UUID

    def __str__(self) -> str:
        """Write it for an address."""
        return f"{self.at.isoformat()}_{self.id.hex}"

    @classmethod
    def read(cls, text: str) -> Cursor | None:
        """Read what `str` wrote; None for anything else."""
        at, _, number = text.replace(" ", "+").partition("_")
        try:
            moment = datetime.fromisoformat(at)
            return cls(at=moment, id=uuid.UUID(hex=number)) if moment.tzinfo else None
        except ValueError:
            return None
