"""The words of notices: what people are told of, and by which way. Plain Python."""

from __future__ import annotations

import enum


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
