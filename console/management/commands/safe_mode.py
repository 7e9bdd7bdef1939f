"""Tell the ledger that it came back from a backup (O6)."""

import os
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from operations import ledger


class Command(BaseCommand):
    help = (
        "After a restore from a backup, before any worker starts: shut all submits, raise every epoch, count every "
        "call that may have been sent after the backup as perhaps sent, and have all others looked at first. "
        "May be run again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--reason", required=True, help="which backup, and why; refused callers read it")

    def handle(self, *, reason: str, **options: Any) -> None:
        by = f"person:{os.environ.get('USER', 'shell')}"
        done = ledger.enter_safe_mode(note=ledger.Note(by=by, reason=reason, now=timezone.now()))
        self.stdout.write(
            f"submits are shut and the epoch is raised: {', '.join(done.versions) or 'no protocol version'}"
        )
        self.stdout.write(f"{done.doubted} calls count as perhaps sent; {done.looked_at} others are looked at first")
        self.stdout.write("Start the workers, clear the desk, then open the submits under Adapters.")
