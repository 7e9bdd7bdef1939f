"""The words of notices: what people are told of, and by which way. Plain Python."""

from __future__ import annotations

import base64
import enum
import hmac
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo


class Kind(enum.StrEnum):
    """What a notice tells of."""

    ROUND_OPENED = "ROUND_OPENED"
    DEADLINE_NEAR = "DEADLINE_NEAR"
    ROUND_EXPIRED = "ROUND_EXPIRED"
    UNKNOWN_OPENED = "UNKNOWN_OPENED"
    CLOCK_10 = "CLOCK_10"
    CLOCK_15 = "CLOCK_15"
    CANCEL_UNCONFIRMED = "CANCEL_UNCONFIRMED"
    INCIDENT = "INCIDENT"


class Way(enum.StrEnum):
    """How a team is reached."""

    EMAIL = "EMAIL"
    CHAT = "CHAT"
    """A signed webhook with a body that chat rooms take: `{"text": ...}`."""
    PAGER = "PAGER"
    """A signed webhook with a body that pagers take: what, how grave, which item, and where to look."""


LONGEST_PAUSE = timedelta(hours=1)
FIRST_PAUSE = timedelta(seconds=30)
MOST_ATTEMPTS = 12
"""After so many attempts a delivery is given up: over six hours. It stays visible."""


def pause(attempts: int) -> timedelta | None:
    """How long to wait after this many failed attempts; None: give up."""
    if attempts >= MOST_ATTEMPTS:
        return None
    return min(FIRST_PAUSE * (1 << max(0, attempts - 1)), LONGEST_PAUSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """Hours in which nothing is sent, in a time zone of their own. They may reach over midnight."""

    start: time
    end: time
    zone: str

    def ends_at(self, now: datetime) -> datetime | None:
        """When the quiet hours that hold now are over; None outside of them. Equal ends mean no quiet hours."""
        here = now.astimezone(ZoneInfo(self.zone))
        clock = here.time().replace(tzinfo=None)
        over_midnight = self.start > self.end
        inside = clock >= self.start or clock < self.end if over_midnight else self.start <= clock < self.end
        if not inside:
            return None
        day = here.date() + timedelta(days=1 if over_midnight and clock >= self.start else 0)
        return datetime.combine(day, self.end, tzinfo=ZoneInfo(self.zone)).astimezone(UTC)


def sign(secret: str, *, message: str, timestamp: int, body: bytes) -> str:
    """Sign a webhook as Standard Webhooks does: HMAC-SHA256 over id, time and body; several versions may stand there.

    A secret that begins with `whsec_` is base64; any other is taken as it is written.
    """
    marked = secret.startswith("whsec_")
    key = base64.b64decode(secret.removeprefix("whsec_")) if marked else secret.encode()
    signed = f"{message}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
