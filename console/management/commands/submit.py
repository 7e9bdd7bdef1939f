"""Make a call from a shell."""

import getpass
import time
import uuid
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.urls import reverse
from django.utils import timezone

from operations import intake, ledger
from operations.queries import api as calls
from operations.queries.api import CallView

CLIENT = "shell"
LOOK_EVERY_S = 0.5


class Command(BaseCommand):
    help = "Submit a tool call; with --wait follow it until its receipt. Ctrl-C ends the waiting, never the call."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("server", help="as registered")
        parser.add_argument("tool", help="as the server describes it")
        parser.add_argument("arguments", nargs="?", default="{}", help="one JSON object")
        parser.add_argument("--wait", action="store_true", help="follow it until its receipt")
        parser.add_argument("--principal", default=getpass.getuser(), help="on whose behalf")
        parser.add_argument("--call-node", default="", help="name of the step that calls; it makes one call, ever")
        parser.add_argument("--key", default="", help="submission key; the same key never makes a second call")
        parser.add_argument("--budget", type=int, help="seconds until a person takes over (the tool's own)")

    def handle(self, *, wait: bool, **options: Any) -> None:
        operation = self._submit(options)
        if not wait:
            return
        try:
            call = self._follow(operation)
        except KeyboardInterrupt:
            self.stderr.write("The waiting has ended; the call goes on.")
            return
        self._tell_receipt(call)

    def _submit(self, options: dict[str, Any]) -> uuid.UUID:
        key = options["key"] or str(uuid.uuid4())
        call = ledger.NewCall(
            client=CLIENT,
            call_node=options["call_node"] or f"shell/{key}",
            submission_key=key,
            server=options["server"],
            tool=options["tool"],
            arguments=options["arguments"].encode(),
            principal=options["principal"],
            budget_s=options["budget"],
        )
        try:
            intake.check_call(call)
            submitted = ledger.submit(call, now=timezone.now())
        except (intake.BadBody, intake.BadJson, ledger.LedgerError) as error:
            raise CommandError(f"Nothing was stored: {error}.") from error
        self.stdout.write(submitted.operation if submitted.created else f"{submitted.operation} (stood there before)")
        self.stdout.write(f"{_site()}{reverse('operation', kwargs={'number': submitted.operation})}")
        return uuid.UUID(submitted.operation)

    def _follow(self, operation: uuid.UUID) -> CallView:
        told = ""
        while True:
            call = calls.call_of(CLIENT, operation)
            if call is None:
                raise CommandError("The operation is gone from the ledger.")
            if (line := _standing(call)) != told:
                self.stdout.write(told := line)
            if call.is_final:
                return call
            time.sleep(LOOK_EVERY_S)

    def _tell_receipt(self, call: CallView) -> None:
        receipt = calls.receipt_of(CLIENT, uuid.UUID(call.id))
        result = calls.result_of(CLIENT, uuid.UUID(call.id))
        if receipt is None or result is None:
            raise CommandError("A final operation without a receipt: run the ledger check.")
        self.stdout.write(f"{receipt.outcome} {receipt.verdict}".rstrip() + f", receipt {receipt.id}")
        if result.raw is not None:
            self.stdout.write(result.raw.decode())


def _site() -> str:
    """Return where people find the pages: as configured, or where `up` runs them."""
    return str(settings.ORIGIN or settings.HOME.running_services().get("ADDRESS", "http://127.0.0.1:8000"))


def _standing(call: CallView) -> str:
    parts = [call.state.value]
    if call.reason:
        parts.append(call.reason)
    if call.protocol_status:
        parts.append(f"(the server says {call.protocol_status})")
    return " ".join(parts)
