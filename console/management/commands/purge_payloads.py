"""Let go of old evidence bytes, by policy."""

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from operations import ledger


class Command(BaseCommand):
    help = "Let go of the evidence bytes of calls that ended long ago. Their digests, journals and receipts stay."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--older-than-days", type=int, required=True, help="how long ago a call must have ended")
        parser.add_argument("--reason", required=True, help="stays in the audit")

    def handle(self, *, older_than_days: int, reason: str, **_options: Any) -> None:
        now = timezone.now()
        note = ledger.Note(by="machine", reason=reason, now=now)
        ended_before = now - timedelta(days=older_than_days)
        while (done := ledger.purge_payloads(ended_before=ended_before, note=note)).pieces:
            self.stdout.write(f"{done.operations} calls: {done.pieces} pieces, {done.size} bytes")
        self.stdout.write("Nothing older is left.")
