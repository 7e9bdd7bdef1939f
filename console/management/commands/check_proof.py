"""Check an exported proof without ledger and without network (G6)."""

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from adapters import strictjson
from operations import proof

MOST_BYTES = 200_000_000


class Command(BaseCommand):
    help = "Check the proof of an advance, exported from its page: digests, order, one receipt. Exit code 1 if wrong."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="the exported JSON")

    def handle(self, *, file: Path, **options: Any) -> None:
        try:
            document = strictjson.parse(file.read_bytes(), max_bytes=MOST_BYTES)
        except (OSError, strictjson.BadJson) as error:
            raise CommandError(f"{file} cannot be read: {error}") from error
        if not isinstance(document, dict):
            raise CommandError(f"{file} holds no proof: a JSON object is expected.")
        findings = proof.check(document)
        for finding in findings:
            self.stdout.write(f"{'holds' if finding.holds else 'WRONG'}  {finding.what}")
            for wrong in finding.wrong:
                self.stdout.write(f"       {wrong}")
        if not all(finding.holds for finding in findings):
            sys.exit(1)
