"""Measure the product on this machine against its own targets and against its peers."""

import logging
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser


class Command(BaseCommand):
    help = (
        "Measure on a throw-away PostgreSQL and tool servers of its own, all on this machine, and print one table. "
        "Exit code 1 when a required target is missed."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--only", nargs="+", metavar="NAME", help="these parts only")
        parser.add_argument("--quick", action="store_true", help="smaller and shorter: not for the record")

        parser.add_argument(
            "--markdown", action="store_true", help="print what belongs to a target as a table for the README"
        )

    def handle(self, **options: Any) -> None:
        try:
            from tests.bench import command  # the bench comes with a checkout, not with the product
        except ImportError as error:
            raise CommandError(f"The bench needs a checkout with its tests: {error}.") from error
        unknown = set(options["only"] or ()) - set(command.PARTS)
        if unknown:
            raise CommandError(f"There is no {', '.join(sorted(unknown))}; there are {', '.join(command.PARTS)}.")
        logging.disable(logging.WARNING)
        chosen = {name: options[name] for name in ("only", "quick", "markdown")}
        sys.exit(command.run(**chosen, tell=self._tell))

    def _tell(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()
