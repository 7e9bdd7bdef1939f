"""Makes a failing schedule short and dull, so that what is left is the cause."""

import json
import time
from pathlib import Path

from tests.interleave import runs

PATIENCE_S = 120.0


def rules_of(outcome):
    """Name what an outcome broke, without the words that differ from run to run."""
    return {clause for clause, _ in outcome.violations}


def shrink(place, outcome, *, run=runs.alone, patience_s=PATIENCE_S):
    """Return the shortest, dullest outcome found that breaks one of the same rules."""
    wanted, until = rules_of(outcome), time.monotonic() + patience_s
    best = outcome

    def attempt(script):
        nonlocal best
        while script and script[-1] == 0:
            script = script[:-1]
        if len(script) >= len(best.script) and sum(map(bool, script)) >= sum(map(bool, best.script)):
            return False
        tried = run(place, script=script, depth=outcome.depth)
        if not wanted & rules_of(tried):
            return False
        tried.script = script
        best = tried
        return True

    attempt(list(outcome.script))
    _dull(lambda: best.script, attempt, until)
    _cut(lambda: best.script, attempt, until)
    _dull(lambda: best.script, attempt, until)
    return best


def _dull(script, attempt, until):
    """Make blocks of choices dull, from large blocks to single ones."""
    size = max(1, len(script()) // 2)
    while size and time.monotonic() < until:
        start = 0
        while start < len(script()) and time.monotonic() < until:
            now = script()
            if any(now[start : start + size]):
                attempt(now[:start] + [0] * len(now[start : start + size]) + now[start + size :])
            start += size
        size //= 2


def _cut(script, attempt, until):
    """Take blocks of choices out."""
    size = max(1, len(script()) // 2)
    while size and time.monotonic() < until:
        start = 0
        while start < len(script()) and time.monotonic() < until:
            now = script()
            if not attempt(now[:start] + now[start + size :]):
                start += size
        size //= 2


def in_words(outcome):
    """Tell what an outcome broke, and every choice of it that was not dull."""
    lines = [f"{clause}: {words}" for clause, words in outcome.violations]
    lines.append(f"{len(outcome.script)} choices, {len(outcome.told)} of them not dull:")
    lines += [f"  {number:>3}. {words}" for number, (_, words) in enumerate(outcome.told, start=1)]
    return lines


def save(outcome, path, *, note="", mutant=""):
    """Keep a schedule as a file that `--replay` takes."""
    kept = {
        "note": note,
        "mutant": mutant,
        "seed": outcome.seed,
        "depth": outcome.depth,
        "broke": sorted(rules_of(outcome)),
        "words": [words for _, words in outcome.told],
        "script": outcome.script,
    }
    Path(path).write_text(json.dumps(kept, indent=1) + "\n")


def load(path):
    return json.loads(Path(path).read_text())
