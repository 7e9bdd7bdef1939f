"""The command line of the bench: every line side by side in one run, one table, an exit code."""

import time
from collections.abc import Callable

from tests.bench import accepting, claiming, ground, limiting, looking, pages, people, table

PARTS = {
    "looks": looking.lines,
    "claims": claiming.lines,
    "ends": accepting.lines,
    "limits": limiting.lines,
    "people": people.lines,
    "pages": lambda made, quick: pages.lines(made, large=100_000 if quick else 1_000_000),
}


def run(*, only: list[str] | None, quick: bool, tell: Callable[[str], None]) -> int:
    """Measure and print; return 1 where a required target is missed."""
    made = []
    with ground.ground(tell) as place:
        for name, part in PARTS.items():
            if only and name not in only:
                continue
            began = time.monotonic()
            made += part(place, quick)
            tell(f"{name}: measured in {time.monotonic() - began:.0f} s")
    tell("")
    tell(table.text(made))
    missed = [line for line in made if not line.is_met and not line.is_wish]
    for line in missed:
        tell(f"MISSED  {line.name}  {line.what}: {table.shown(line.value)}, wanted {line.target}")
    return 1 if missed else 0
