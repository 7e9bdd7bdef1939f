"""The worlds that are explored, and how far: each with so little in it that all of it can be seen."""

import gc
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

from operations import plan
from tests.model.explore import Bounds, Explorer, Found

STATES = 150_000
NOTHING = Bounds(rounds=0, presses=0, rollbacks=0, deaths=0, losses=0, doubles=0, vanishes=0, hours=0)

WHOLE = {
    "a press": replace(NOTHING, presses=1),
    "a rollback and a loss, where lost submits can be looked up": replace(NOTHING, lookup=True, rollbacks=1, losses=1),
    "an end that flips, a task that vanishes, and a press": replace(NOTHING, presses=1, flips=1, vanishes=1),
    "a lost submit that people order to be sent again": replace(NOTHING, lookup=True, losses=1, orders=1),
}
"""Explored to the last state, so that being stuck would be seen too."""
PARTS = {
    "everything": (Bounds(), 25_000),
    "everything, where lost submits can be looked up": (Bounds(lookup=True), 25_000),
    "two rounds and a double": (replace(NOTHING, rounds=2, doubles=1, losses=1), 15_000),
    "a round, a press and the hours": (replace(NOTHING, rounds=1, presses=1, hours=3), 15_000),
}


@contextmanager
def quickly():
    """Give up fetching after two fetches in vain, as good as six and far fewer states, and look for no circles."""
    gc.disable()  # nothing here goes in circles, and looking for them takes half of the time
    try:
        with patch.object(plan, "MAX_FETCHES", 2):
            yield
    finally:
        gc.enable()


def explore(*, states: int, tell: Callable[[str], None]) -> int:
    """Explore the whole worlds, then the others with what is left of `states`; return the exit code."""
    seen, edges, wrong = 0, 0, 0
    with quickly():
        for name, bounds in (WHOLE | {name: bounds for name, (bounds, _) in PARTS.items()}).items():
            left = max(states - seen, 0)
            limit = max(left, STATES) if name in WHOLE else left // (len(PARTS) - list(PARTS).index(name))
            started = time.monotonic()
            found = Explorer(bounds).run(limit=limit)
            seen, edges, wrong = seen + found.states, edges + found.edges, wrong + bool(found.wrong)
            _report(name, found, time.monotonic() - started, tell)
    tell(f"{seen} states, {edges} steps, {wrong} worlds in which something goes wrong")
    return 1 if wrong else 0


def _report(name: str, found: Found, took_s: float, tell: Callable[[str], None]) -> None:
    far = "all of it, and a fair way out of each" if found.complete else "so far"
    tell(f"{name}: {found.states} states ({far}), {found.edges} steps, {took_s:.0f} s")
    if found.wrong:
        tell("\n - ".join([f"  {found.wrong}", *found.trace]))
