"""Give an API client a token."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from console import tokens
from console.ground.home import write_private
from console.models import Scope


class Command(BaseCommand):
    help = "Make a token for an API client. It is shown once, or written to a private file; only its hash is kept."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("client", help="the client's name; it is made with its first token")
        parser.add_argument(
            "--scopes", nargs="+", choices=[scope.value for scope in Scope], default=[scope.value for scope in Scope]
        )
        parser.add_argument("--days", type=int, default=tokens.LONGEST_LIFE.days, help="how long it is valid")
        parser.add_argument("--note", default="", help="what it is for")
        parser.add_argument("--to", type=Path, help="write it to this file, readable by nobody else")
        parser.add_argument(
            "--keep", action="store_true", help="with --to: leave a file alone whose token still works for a day"
        )

    def handle(
        self,
        *,
        client: str,
        scopes: list[str],
        days: int,
        note: str,
        to: Path | None,
        keep: bool,
        **options: Any,
    ) -> None:
        now = timezone.now()
        if to and keep and _still_works(to, client):
            return
        try:
            issued = tokens.issue_token(
                client,
                scopes={Scope(scope) for scope in scopes},
                by=f"person:{os.environ.get('USER', 'shell')}",
                now=now,
                life=timedelta(days=days),
                note=note,
            )
        except ValueError as error:
            raise CommandError(str(error)) from error
        if to:
            write_private(to, issued.secret)
            self.stdout.write(f"{issued.prefix}… for {client}, until {issued.expires_at:%Y-%m-%d}, is in {to}")
        else:
            self.stdout.write(issued.secret)


def _still_works(path: Path, client: str) -> bool:
    if not path.exists():
        return False
    try:
        caller = tokens.recognise(path.read_text().strip(), now=timezone.now() + timedelta(days=1))
    except tokens.BadToken:
        return False
    return caller.client == client
