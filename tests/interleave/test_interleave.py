"""The real ledger, driver and adapter under every fault, in virtual time (F1-F10, A1-A6, G4, G5).

`manage.py interleave` runs more of the same; see its help.
"""

import os
import pickle

import pytest

from operations import plan
from operations.machine import State
from tests.interleave import cores, cover, fleet, mutants, runs, shrink
from tests.interleave.command import CORPUS

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.faults]

RUNS = int(os.environ.get("LONGCALL_INTERLEAVINGS", "10000"))
SHARDS = [
    pytest.param(number, marks=pytest.mark.xdist_group(f"interleavings {number}"), id=str(number))
    for number in range(2)
]
"""One for each of the test command's two processes."""
KEPT = sorted(CORPUS.glob("*.json"))


@pytest.fixture
def place():
    with runs.opened() as opened:
        yield opened


@pytest.mark.parametrize("shard", SHARDS)
def test_no_run_leaves_ledger_and_server_in_disagreement(shard, tmp_path_factory):
    """Whichever shard ends last also judges what has happened in all of them together.

    Each has a server of its own: in that of the other tests each sweep of the janitors has all statements planned anew.
    """
    seeds = fleet.share(range(1, RUNS + 1), shard, len(SHARDS))
    with fleet.cluster(1) as names:
        fleet.use(names[0])
        with cores.one(shard), runs.opened() as place:
            tally = runs.many(place, seeds, most_failures=5)

    assert [(one.seed, one.depth, one.violations) for one in tally.failures] == []
    assert tally.by_depth["wire"] >= tally.runs // 5
    whole = _put_together(tally, shard, tmp_path_factory)
    if whole is not None:
        assert whole.runs == RUNS
        assert whole.runs < cover.JUDGED_FROM or cover.missing(whole) == []


def _put_together(tally, shard, tmp_path_factory):
    """Return the tally of all shards, or None while one is missing."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    folder = tmp_path_factory.getbasetemp().parent if worker else tmp_path_factory.getbasetemp()
    part = folder / f"interleavings-{shard}.new"
    part.write_bytes(pickle.dumps(tally))
    part.replace(part.with_suffix(".tally"))
    parts = sorted(folder.glob("interleavings-*.tally"))
    if len(parts) < len(SHARDS):
        return None
    whole = runs.Tally()
    for path in parts:
        whole.add(pickle.loads(path.read_bytes()))
    return whole


def test_the_same_seed_is_the_same_run(place):
    for seed in (4, 7, 11):
        first, second = (runs.alone(place, seed=seed, depth=runs.depth_of(seed)) for _ in range(2))

        assert first.trace == second.trace
        assert first.script == second.script
        assert first.digest != runs.alone(place, seed=seed + 1, depth=runs.depth_of(seed)).digest


def test_a_run_is_repeated_by_its_choices(place):
    first = runs.alone(place, seed=9, depth="decoded")

    assert runs.alone(place, script=first.script, depth="decoded").digest == first.digest


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_kept_schedule(place, path):
    """What broke once holds now; what was planted is seen."""
    kept = shrink.load(path)

    with mutants.planted(kept["mutant"]):
        outcome = runs.alone(place, script=kept["script"], depth=kept["depth"])

    if kept["mutant"]:
        assert set(kept["broke"]) & shrink.rules_of(outcome), outcome.violations
    else:
        assert outcome.violations == []


def test_every_planted_fault_has_a_schedule_that_shows_it():
    shown = {shrink.load(path)["mutant"] for path in KEPT}

    assert set(mutants.MUTANTS) - shown == {"canary"}
    assert len(shown - {""}) >= 20


def test_the_canary_dies_in_every_run(place):
    with mutants.planted("canary"):
        outcomes = [runs.alone(place, seed=seed, depth=runs.depth_of(seed)) for seed in range(1, 13)]

    assert [one.seed for one in outcomes if one.operations and not one.violations] == []


def test_a_failure_is_shrunk_to_a_few_choices_in_words(place):
    with mutants.planted("sent again without proof"):
        failures = (runs.alone(place, seed=seed, depth="decoded") for seed in range(1, 200))
        found = next(one for one in failures if "A5" in shrink.rules_of(one))
        small = shrink.shrink(place, found, patience_s=20)

    assert "A5" in shrink.rules_of(small)
    assert len(small.told) <= min(8, len(found.told))
    assert len(shrink.in_words(small)) > 2


def test_what_never_happens_is_named_with_its_reason_and_the_planner_agrees():
    assert set(cover.NEVER) <= set(cover.edge_names())
    assert all(cover.NEVER.values())
    for state in (State.TERMINAL_OBSERVED, State.FETCHING_RESULT):
        assert state not in plan._WAITING
