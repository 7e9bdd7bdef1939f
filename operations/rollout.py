"""Which adapter release takes a new call, and which one takes over: pure arithmetic (O2, O3).

Note [One bucket for a call node]
A call node falls into one of 10 000 buckets by the hash of its client and its name, and stays there.
A share is the buckets below a bound. So the same call always lands the same way, and a share that
rises only adds calls: it never moves one off. The newest release is asked first; what it leaves goes
to the one before it, and what all leave keeps its existing path.

The ledger stores what was decided for a call node and never decides it again; this file says only
what to decide for one that is new.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

BUCKETS = 10_000
LONG_S = 30
"""A call expected to run at least this long is a long one: only those go into a share (O2)."""


class Mode(enum.StrEnum):
    """What a release of an adapter does for new calls. Looking after old ones never stops before RETIRED (O5)."""

    SHADOW = "SHADOW"
    """Takes no call. It looks at what the existing path does, so that the two can be compared (O1)."""
    SHARE = "SHARE"
    """Takes a share of the new long calls."""
    FULL = "FULL"
    """Takes every new call that no newer release takes."""
    DRAINING = "DRAINING"
    """Takes no new call and looks after its own until the last has ended."""
    RETIRED = "RETIRED"
    """Its last call has ended."""

    @classmethod
    def known(cls, word: str) -> bool:
        """True: a word of ours. Newer code may have written another; what it means is not for us to decide (B269)."""
        return word in cls.__members__


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One release as a new call meets it."""

    release: str
    mode: Mode
    share: int
    """Per cent; 100 for FULL, 0 where it takes no call."""


class Path(enum.Enum):
    """Where a call goes that no release takes."""

    KEEP_EXISTING = "keep"
    """Its existing path, which it has never left (O2)."""
    CLOSED = "closed"
    """Nowhere: this version takes no new calls at all, and there is no way back to another path (O4)."""


def mode_of(share: int) -> Mode:
    """Return the mode of a release that takes `share` per cent. Raises ValueError outside 0 to 100."""
    if not 0 <= share <= 100:  # noqa: PLR2004 - per cent
        raise ValueError(f"a share is 0 to 100 per cent, not {share}")
    return {0: Mode.DRAINING, 100: Mode.FULL}.get(share, Mode.SHARE)


def bucket_of(client: str, call_node: str) -> int:
    """Return the bucket of a call node, 0 to 9 999. The same on every machine and in every process."""
    # The length keeps ("ab", "c") and ("a", "bc") apart.
    name = f"{len(client)}:{client}{call_node}".encode()
    return int.from_bytes(hashlib.sha256(name).digest()[:8]) % BUCKETS


def choose(offers: Sequence[Offer], *, bucket: int, expected_s: int) -> str | Path:
    """Return the release that takes a new call, or where it goes without one.

    `offers` stand oldest first. See Note [One bucket for a call node].
    """
    creating = [offer for offer in offers if offer.mode in {Mode.SHARE, Mode.FULL}]
    for offer in reversed(creating):
        if offer.mode is Mode.FULL or (expected_s >= LONG_S and bucket < offer.share * BUCKETS // 100):
            return offer.release
    # Where everything is still on trial, no call was ever taken: the existing path is the only one there is.
    only_trials = bool(offers) and all(offer.mode is Mode.SHADOW for offer in offers)
    return Path.KEEP_EXISTING if creating or only_trials else Path.CLOSED


def on_trial(offers: Sequence[Offer]) -> str | None:
    """Return the release that watches what an existing path does; None: there is nothing to try out (O1).

    The newest on trial; without one, the newest that has only a share yet: it goes on being compared.
    """
    for mode in (Mode.SHADOW, Mode.SHARE):
        found = [offer.release for offer in offers if offer.mode is mode]
        if found:
            return found[-1]
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """Who steps back and who takes over in a rollback."""

    stops: str
    """The release that creates nothing any more."""
    takes_over: str
    """The release that looks after everything in flight; the same where no other is left (O3)."""


def hand_over(offers: Sequence[Offer], *, looks_after: str, known: Sequence[str]) -> Handover:
    """Say who takes over when the newest release that creates calls is rolled back.

    `offers` stand oldest first; `known` are the releases that this installation has code for. Where
    none creates, the release that looks after everything is the one rolled back.
    """
    order = [offer.release for offer in offers]
    creating = [offer.release for offer in offers if offer.mode in {Mode.SHARE, Mode.FULL}]
    stops = creating[-1] if creating else looks_after
    before = order[: order.index(stops)] if stops in order else order
    never = {Mode.RETIRED, Mode.SHADOW}  # over, or never trusted with a call
    able = [offer.release for offer in offers if offer.release in before and offer.mode not in never]
    able = [release for release in able if release in known]
    return Handover(stops=stops, takes_over=able[-1] if able else stops)
