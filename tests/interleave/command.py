"""The command line of the interleavings: many runs, one replay, or the shrinking of a failure."""

import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from operations import ledger
from operations.gates import Interleavings
from tests.interleave import cores, cover, fleet, hunt, mutants, runs, shrink
from tests.interleave.hunt import CORPUS
from tests.interleave.plan import WIRE

MOST_SHRUNK = 3


def run(*, count: int, seed: int, full: bool, processes: int, tell: Callable[[str], None], record: bool = False) -> int:
    """Run the corpus, then `count` seeds from `seed` on; return the exit code.

    `record`: put what came of it on record in the database that Django is set up with.
    """
    # A database of its own for what comes before and after: what a run finds there is a part of it.
    with fleet.cluster(processes + 1) as (aside, *names):
        broken = _run_corpus(aside, tell)
        tell(f"corpus: {len(list(schedules()))} schedules, {broken} broken")
        started = time.monotonic()
        tally = fleet.together(names, range(seed, seed + count), full=full)
        _report(tally, time.monotonic() - started, tell)
        _explain(aside, tally.failures, tell)
    if record:
        _record(tally, seed, tell)
    missing = cover.missing(tally)
    judged = tally.runs >= cover.JUDGED_FROM
    if missing:
        tell("must have happened:" if judged else f"seldom or never (judged from {cover.JUDGED_FROM} runs on):")
        for words in missing:
            tell(f"  {words}")
    return 1 if broken or tally.failures or (judged and missing) else 0


def _record(tally, seed, tell):
    run = Interleavings(
        seed=seed,
        runs=tally.runs,
        wire_runs=tally.by_depth[WIRE],
        histories=len(tally.histories),
        divergences=len(tally.failures),
        took=timedelta(seconds=tally.seconds),
    )
    ledger.note_interleavings(run, now=datetime.now(UTC))
    tell("on record")


def replay(path: Path, *, tell: Callable[[str], None]) -> int:
    """Run one kept schedule and tell all of it; return the exit code."""
    kept = shrink.load(path)
    with fleet.cluster(1) as names:
        fleet.use(names[0])
        with mutants.planted(kept["mutant"]), runs.opened() as place:
            outcome = runs.alone(place, script=kept["script"], depth=kept["depth"])
    for seconds, words in outcome.trace:
        tell(f"{seconds:>10.3f} s  {words}")
    for line in shrink.in_words(outcome):
        tell(line)
    return 1 if outcome.violations else 0


def hunt_all(*, tell: Callable[[str], None]) -> int:
    """Look for every planted fault anew, and keep a schedule that shows each; return the exit code.

    To be done after every change of the plan or of what is chosen in a run: a kept schedule is a list of choices.
    """
    with fleet.cluster(1) as names:
        fleet.use(names[0])
        with cores.one(0), runs.opened() as place:
            found = [hunt.keep(place, name, tell=tell) for name in mutants.MUTANTS if name != "canary"]
    return 0 if all(found) else 1


def schedules():
    """The kept schedules of the product as it is: each was a defect once."""
    for path in sorted(CORPUS.glob("*.json")):
        if not shrink.load(path)["mutant"]:
            yield path


def _run_corpus(name, tell):
    fleet.use(name)
    broken = 0
    with runs.opened() as place:
        for path in schedules():
            kept = shrink.load(path)
            outcome = runs.alone(place, script=kept["script"], depth=kept["depth"])
            if outcome.violations:
                broken += 1
                tell(f"corpus {path.name}: {outcome.violations}")
    return broken


def _report(tally, seconds, tell):
    depths = ", ".join(f"{count} {depth}" for depth, count in sorted(tally.by_depth.items()))
    tell(f"{tally.runs} runs ({depths}) in {seconds:.0f} s, {1000 * seconds / max(1, tally.runs):.1f} ms each")
    tell(f"{len(tally.histories)} distinct histories of an operation")
    tell("transitions:")
    for name in cover.edge_names():
        reason = f"   never: {cover.NEVER[name]}" if name in cover.NEVER else ""
        tell(f"  {tally.edges[name]:>7}  {name}{reason}")
    tell("faults:")
    for name in cover.fault_names():
        tell(f"  {tally.faults[name]:>7}  {name}")
    tell(f"{len(tally.pairs)} pairs of fault and local state, {sum(tally.pairs.values())} times")
    tell(f"{len(tally.failures)} runs failed")


def _explain(name, failures, tell):
    fleet.use(name)
    with runs.opened() as place:
        for outcome in failures[:MOST_SHRUNK]:
            tell(f"seed {outcome.seed} ({outcome.depth}) broke: {outcome.violations[0]}")
            small = shrink.shrink(place, outcome, patience_s=40.0)
            small.seed = outcome.seed
            path = Path(tempfile.mkdtemp(prefix="longcall-interleave-")) / f"seed-{outcome.seed}.json"
            shrink.save(small, path)
            for line in shrink.in_words(small):
                tell(line)
            tell(f"replay: manage.py interleave --replay {path}")
    for outcome in failures[MOST_SHRUNK:]:
        tell(f"seed {outcome.seed} ({outcome.depth}) broke: {outcome.violations[0]}")
