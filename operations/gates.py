"""The six gates: what each measures, and when it holds (G1 to G6). Arithmetic alone."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from types import MappingProxyType


class Gate(enum.StrEnum):
    """One promise of the product that is measured from its own ledger."""

    DIVERGENCE = "G1"
    """Invariants of the ledger that do not hold, in the worst check of the day."""
    SECOND_OPERATION = "G2"
    """Calls with more than one submit that is not disproved."""
    QPS = "G3"
    """Per cent of a server's limit that its fullest second used."""
    CANCEL = "G4"
    """Seconds from a cancel's commit until it is settled or stated to a person: the 99th percentile."""
    UNKNOWN = "G5"
    """Seconds that an outcome was unknown: the longest."""
    TRACE = "G6"
    """Per cent of the advances that trace to a terminal receipt."""


LIMITS: Mapping[Gate, float] = MappingProxyType(
    {Gate.DIVERGENCE: 0, Gate.SECOND_OPERATION: 0, Gate.QPS: 100, Gate.CANCEL: 60, Gate.UNKNOWN: 900, Gate.TRACE: 100}
)
NOTHING: Mapping[Gate, float] = MappingProxyType({gate: 100.0 if gate is Gate.TRACE else 0.0 for gate in Gate})
"""What `worst` is where nothing was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What a gate measured over one day, UTC."""

    gate: Gate
    day: date
    count: int
    """What was measured: checks, submits, seconds with requests, cancels, unknowns, advances."""
    breaches: int
    worst: float
    """In the gate's own unit."""

    @property
    def holds(self) -> bool:
        """True: on this day the promise was kept. Of cancels one in a hundred may take longer (p99)."""
        return self.worst < LIMITS[self.gate] if self.gate is Gate.CANCEL else self.breaches == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Interleavings:
    """What one run of the interleavings came to."""

    seed: int
    """The first; the runs are those of the seeds that follow it."""
    runs: int
    wire_runs: int
    """Of these, through real adapters and httpx."""
    histories: int
    """Distinct histories of an operation that came of them."""
    divergences: int
    took: timedelta
