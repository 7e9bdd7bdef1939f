"""Run the real ledger, driver and adapter against a simulated server, in chosen orders, with every fault."""

import logging
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser


class Command(BaseCommand):
    help = (
        "Run interleavings in virtual time on a throw-away PostgreSQL, and check ledger and server against each "
        "other. Exit code 1 on any difference; from 10 000 runs on also when something that must happen did not."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--runs", type=int, default=1000, help="how many (1000)")
        parser.add_argument("--seed", type=int, default=1, help="the first seed (1)")
        parser.add_argument("--full", action="store_true", help="every run through the bytes of httpx")
        parser.add_argument("--processes", type=int, default=2, help="processes (2), each with its own database")
        parser.add_argument("--record", action="store_true", help="show the run on the gates' page of this product")
        parser.add_argument("--replay", type=Path, help="repeat one kept schedule, and tell all of it")
        parser.add_argument("--hunt", action="store_true", help="find every planted fault anew, and keep its schedule")

    def handle(self, **options: Any) -> None:
        try:
            from tests.interleave import command  # the harness comes with a checkout, not with the product
        except ImportError as error:
            raise CommandError(f"The interleavings need a checkout with its tests: {error}.") from error
        logging.disable(logging.WARNING)
        if options["hunt"]:
            sys.exit(command.hunt_all(tell=self._tell))
        if options["replay"] is not None:
            sys.exit(command.replay(options["replay"], tell=self._tell))
        sys.exit(
            command.run(
                count=options["runs"],
                seed=options["seed"],
                full=options["full"],
                processes=options["processes"],
                record=options["record"],
                tell=self._tell,
            )
        )

    def _tell(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()
