"""The command line of the bench: every line side by side in one run, one table, an exit code."""

import os
import platform
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench import accepting, claiming, ground, limiting, looking, pages, people, table

LARGE, QUICK_LARGE = 1_000_000, 100_000


def _pages(place: ground.Ground, quick: bool) -> Iterator[table.Line]:
    """The list pages, and the worst of them by itself, in either respect: that one is the target's."""
    large = QUICK_LARGE if quick else LARGE
    found = list(pages.lines(place, large=large))
    respects = {
        pages.CEILING: f"a list page out of {large:,} / out of {pages.SMALL:,}",
        pages.RAW_CEILING: "a list page / its own SQL asked by psycopg alone",
    }
    for ceiling, what in respects.items():
        alike = [line for line in found if line.ceiling == ceiling]
        worst = max(alike, key=lambda line: line.value)
        told = f"{what}: the worst of {len(alike)} ({worst.name})"
        yield table.Line("T9", told, worst.values, f"{ceiling}", ceiling=ceiling)
    yield from found


PARTS = {
    "looks": looking.lines,
    "claims": claiming.lines,
    "ends": accepting.lines,
    "limits": limiting.lines,
    "people": people.lines,
    "pages": _pages,
}


def run(*, only: list[str] | None, quick: bool, tell: Callable[[str], None], markdown: bool = False) -> int:
    """Measure and print; return 1 where a required target is missed. `markdown`: the judged lines, for the README."""
    made: list[table.Line] = []
    with ground.ground(tell) as place:
        on = f"{_machine()}, PostgreSQL {place.version()}{', a quick run' if quick else ''}"
        for name, part in PARTS.items():
            if only and name not in only:
                continue
            began = time.monotonic()
            made += part(place, quick)
            tell(f"{name}: measured in {time.monotonic() - began:.0f} s")
    tell("")
    tell(on + "\n")
    tell("\n".join(table.markdown(made)) if markdown else table.text(made))
    missed = [line for line in made if not line.is_met and not line.is_wish]
    for line in missed:
        tell(f"MISSED  {line.name}  {line.what}: {table.shown(line.value)}, wanted {line.target}")
    return 1 if missed else 0


def _machine() -> str:
    """Say what it was measured on."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    cores, python = os.cpu_count(), platform.python_version()
    return f"{cores} cores of {model or platform.machine()}, {platform.system()}, Python {python}"
