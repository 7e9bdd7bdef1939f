"""Take a token from an API client."""

import os
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from console import tokens


class Command(BaseCommand):
    help = "Make a token useless from now on. It is named by its first characters, as `list_tokens` shows them."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("prefix", help="its first characters, such as lc_1a2B3c4D; more is ignored")
        parser.add_argument("--reason", required=True, help="why; it stands in the audit")

    def handle(self, *, prefix: str, reason: str, **options: Any) -> None:
        prefix = prefix[: tokens.PREFIX_LENGTH]
        by = f"person:{os.environ.get('USER', 'shell')}"
        if not tokens.revoke_token(prefix, by=by, now=timezone.now(), reason=reason):
            found = tokens.read(prefix)
            raise CommandError(f"{prefix} was revoked before" if found else f"there is no token {prefix}")
        self.stdout.write(f"{prefix}… is revoked")
