"""Ask the ledger whether anything is true that must never be (A1 to A6)."""

import sys
from collections import Counter
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from operations.queries.invariants import INVARIANTS, Breach, breaches

MOST_SHOWN = 200


class Command(BaseCommand):
    help = "Check every invariant over the whole ledger. Exit code 1 and a table when one does not hold."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--list", action="store_true", help="only say what would be checked")

    def handle(self, **options: Any) -> None:
        if options["list"]:
            for one in INVARIANTS:
                self.stdout.write(f"{one.clause:<4} {one.name:<26} {one.holds}")
            return
        found = breaches()
        if not found:
            self.stdout.write(f"{len(INVARIANTS)} invariants hold.")
            return
        self._tell(found)
        sys.exit(1)

    def _tell(self, found: tuple[Breach, ...]) -> None:
        self.stdout.write(f"{'clause':<7}{'invariant':<28}{'operation':<38}what")
        for breach in found[:MOST_SHOWN]:
            one = breach.invariant
            self.stdout.write(f"{one.clause:<7}{one.name:<28}{breach.operation:<38}{breach.what}")
        if len(found) > MOST_SHOWN:
            self.stdout.write(f"... and {len(found) - MOST_SHOWN} more")
        counts = Counter(breach.invariant.name for breach in found)
        self.stdout.write(", ".join(f"{name}: {count}" for name, count in counts.most_common()))
