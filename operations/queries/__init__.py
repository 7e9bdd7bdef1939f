"""Every read there is: one module a page family. They return frozen rows, never models.

Pages of 50 by keyset, counts capped at 1 000, and as many queries for a page of 50 as for a page of one.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime

CAP = 1000
"""Counting stops here: a count that nobody reads to the end must not cost a scan."""
PAGE = 50


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
