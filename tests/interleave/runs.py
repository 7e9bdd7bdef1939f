"""Many runs, one after the other: what they covered, and what went wrong."""

import gc
import logging
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.interleave.choices import Choices, Exhausted
from tests.interleave.judge import judge
from tests.interleave.place import Place
from tests.interleave.plan import DECODED, WIRE
from tests.interleave.run import Run

BATCH = 100
"""Runs whose ledgers are checked together."""
WIRE_EVERY = 5
"""One run in so many goes through the bytes."""


@dataclass
class Outcome:
    """One run that has ended. `run` is forgotten once it is judged."""

    run: Run | None
    seed: int | None
    depth: str
    script: list
    told: list
    trace: list
    violations: list
    digest: str
    operations: dict


@dataclass
class Tally:
    """What a number of runs came to. Tallies of several processes are added up."""

    runs: int = 0
    by_depth: Counter = field(default_factory=Counter)
    edges: Counter = field(default_factory=Counter)
    faults: Counter = field(default_factory=Counter)
    pairs: Counter = field(default_factory=Counter)
    histories: set = field(default_factory=set)
    failures: list = field(default_factory=list)
    seconds: float = 0.0

    def add(self, other):
        self.runs += other.runs
        for name in ("by_depth", "edges", "faults", "pairs"):
            getattr(self, name).update(getattr(other, name))
        self.histories |= other.histories
        self.failures += other.failures
        self.seconds = max(self.seconds, other.seconds)


@contextmanager
def quiet():
    """Keep the product's logs of expected failures out of the way."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    asyncio_log = logging.getLogger("asyncio")
    asyncio_log.disabled = True
    try:
        yield
    finally:
        logging.disable(before)
        asyncio_log.disabled = False


@contextmanager
def opened():
    """A place for runs, on the database that Django is set up with."""
    with quiet():
        place = Place()
        gc.collect()
        gc.freeze()  # what is loaded by now stays: it is not looked through again after each batch
        try:
            yield place
        finally:
            gc.unfreeze()
            place.close()


def depth_of(seed, *, full=False):
    return WIRE if full or seed % WIRE_EVERY == 0 else DECODED


def one(place, *, seed=None, script=None, choices=None, depth, tally=None):
    """Run once; what came of it is judged by `settle`."""
    choices = choices or Choices(seed=seed, script=script)
    run = Run(place, choices, depth=depth)
    has_ended = False
    try:
        run.execute()
        has_ended = True
    except Exhausted:
        run.violations.append(("A6", "the run does not end"))
    place.park(list(run.names))
    if tally is not None:
        tally.runs += 1
        tally.by_depth[depth] += 1
        tally.faults.update(run.faults)
        tally.pairs.update(run.pairs)
    return Outcome(
        run=run if has_ended else None,
        seed=seed,
        depth=depth,
        script=choices.log,
        told=choices.told,
        trace=run.loop.trace,
        violations=run.violations,
        digest=run.digest(),
        operations=dict(run.names),
    )


def alone(place, **how):
    """Run once, and check its ledger at once."""
    outcome = one(place, **how)
    settle(place, [outcome], None)
    return outcome


def settle(place, outcomes, tally):
    """Judge these runs and check their ledgers; what is wrong joins their violations."""
    judge(place, [outcome.run for outcome in outcomes if outcome.run is not None])
    for outcome in outcomes:
        outcome.run = None
    if tally is not None:
        _cover(place, outcomes, tally)
    for breach in place.check():
        for outcome in outcomes:
            if breach.operation in outcome.operations:
                one = breach.invariant
                node = outcome.operations[breach.operation]
                outcome.violations.append((one.clause, f"{node}: {one.name}: {breach.what}"))


def _cover(place, outcomes, tally):
    operations = [operation for outcome in outcomes for operation in outcome.operations]
    rows = place.observer.ask(
        """SELECT operation_id, array_agg(source || ' ' || event || ' ' || target ORDER BY id)
                FILTER (WHERE kind = 'STEP'),
            md5(string_agg(kind || event || target, ',' ORDER BY id))
        FROM journal WHERE operation_id = ANY(%s::uuid[]) GROUP BY operation_id""",
        [operations],
    )
    for _, edges, history in rows:
        tally.edges.update(edges or ())
        tally.histories.add(history)


def many(place, seeds, *, full=False, most_failures=50):
    """Run every seed, or as many as it takes to fail `most_failures` times; return the tally."""
    tally, started = Tally(), time.monotonic()
    for first in range(0, len(seeds), BATCH):
        with _uncollected():
            batch = [
                one(place, seed=seed, depth=depth_of(seed, full=full), tally=tally)
                for seed in seeds[first : first + BATCH]
            ]
        settle(place, batch, tally)
        for outcome in batch:
            if outcome.violations:
                outcome.trace = []
                tally.failures.append(outcome)
        if len(tally.failures) >= most_failures:
            break
    tally.seconds = time.monotonic() - started
    return tally


@contextmanager
def _uncollected():
    """Leave the garbage where it is until the end: to look for it all the time costs a tenth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()
