"""Start everything on this machine."""

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.ground import account, home, place, postgres, product, valkey

CANNOT_START = (
    product.CannotStartError,
    account.NoAccountError,
    place.UnsafeFolderError,
    postgres.PostgresError,
    valkey.ValkeyError,
)


class Command(BaseCommand):
    help = "Start the database, the broker, the site, the worker and the demo; Ctrl-C stops them all."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="of the site, on 127.0.0.1 (8000)")
        parser.add_argument("--home", type=Path, help="the run folder (LONGCALL_HOME, or var/ of the checkout)")
        parser.add_argument("--without-demo", action="store_true", help="no demo servers, people or workflow")

    def handle(self, *, port: int, home: Path | None, without_demo: bool, **options: Any) -> None:
        where = _run_folder(home)
        running = product.Product(home=where, port=port, with_demo=not without_demo, tell=self._tell)
        try:
            running.run(greet=lambda: self._greet(running))
        except CANNOT_START as error:
            raise CommandError(str(error)) from error
        self._tell("stopped")

    def _tell(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()

    def _greet(self, running: product.Product) -> None:
        self._tell(f"\nLongcall is running at {running.address}/   (Ctrl-C stops it; logs in {running.home.logs})\n")
        if running.with_demo and running.home.people.exists():
            self._tell("Sign in as")
            for person in json.loads(running.home.people.read_text()):
                roles = ", ".join(person["roles"])
                self._tell(f"  {person['username']:<10} {person['password']:<16} {roles}")
            self._tell("\nFirst: sign in, press a button under “Try it”, and watch the operation live.\n")
        elif not running.with_demo:
            self._tell("First: make an admin with `python3 manage.py createsuperuser` in another shell.\n")


def _run_folder(given: Path | None) -> home.Home:
    return home.Home(given.resolve()) if given else home.from_environment()
