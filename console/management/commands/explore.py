"""Explore every interleaving of one operation, two workers and one server up to small bounds."""

import logging
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser


class Command(BaseCommand):
    help = (
        "Go through every order in which one operation can meet its server, its workers, people and faults, with the "
        "product's own decisions and no database. Exit code 1 where anything that must never be is reached."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--states", type=int, default=150_000, help="how many states at most (150 000)")

    def handle(self, **options: Any) -> None:
        try:
            from tests.model import worlds  # it comes with a checkout, not with the product
        except ImportError as error:
            raise CommandError(f"The exploration needs a checkout with its tests: {error}.") from error
        logging.disable(logging.WARNING)
        sys.exit(worlds.explore(states=options["states"], tell=self._tell))

    def _tell(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()
