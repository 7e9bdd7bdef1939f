"""Take a server back that was registered by mistake."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from operations import ledger


class Command(BaseCommand):
    help = "Remove a server that was registered and never got further: no call was made there, no tool described."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="its short name")

    def handle(self, *, slug: str, **_options: Any) -> None:
        try:
            ledger.remove_server(slug)
        except ledger.LedgerError as error:
            raise CommandError(f"Nothing was removed: {error}.") from error
        self.stdout.write(f"{slug} is removed.")
