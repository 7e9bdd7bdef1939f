"""Point Longcall at a tool server."""

import os
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from operations import registration
from operations.ledger import NewServer
from operations.registration import ServerOutlook


class Command(BaseCommand):
    help = "Register a tool server, ask it what it offers, and say what a call of each of its tools will be."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="short name, as in submit SLUG TOOL")
        parser.add_argument("url", help="such as https://tools.example.org/mcp")
        parser.add_argument("--title", default="", help="name for people (the slug)")
        parser.add_argument("--protocol", default=registration.protocols()[0], choices=registration.protocols())
        parser.add_argument("--max-qps", type=float, default=5, help="requests a second, over all workers (5)")
        parser.add_argument("--allow-private", action="store_true", help="its address is not a public one")
        parser.add_argument(
            "--credential-ref", default="", help="environment variable that holds the Authorization header's value"
        )
        parser.add_argument("--listens", action="store_true", help="it asks people on a stream of its own")
        parser.add_argument("--moved", action="store_true", help="the same server, with its tasks, has a new address")
        parser.add_argument(
            "--tools", type=Path, metavar="FILE", help="its tools document (JSON), where it cannot be asked (AIP-151)"
        )
        parser.add_argument("--lookup", default="none", help="proved way to find a lost submit (none)")
        parser.add_argument("--lookup-tool", default="", help="the read-only tool that the lookup lookup_tool asks")
        parser.add_argument("--key-window", type=int, default=0, help="seconds that it honours a submission key (0)")

    def handle(self, *, slug: str, **options: Any) -> None:
        try:
            document = _document(options["tools"], options["protocol"])
            registration.register(_profile(slug, options), moves=options["moved"])
            if document is not None:
                outlook = registration.describe(slug, document, clock=timezone.now)
            else:
                outlook = registration.negotiate(slug, clock=timezone.now, environ=os.environ)
        except (registration.CannotRegister, registration.CannotDescribe) as error:
            raise CommandError(f"Nothing was stored: {error}.") from error
        except registration.CannotNegotiate as error:
            message = f"{slug} is registered, but could not be asked what it offers: {error.reason}. {error.advice}"
            raise CommandError(message) from error
        self._tell(outlook)

    def _tell(self, outlook: ServerOutlook) -> None:
        name = f"{outlook.server_name} {outlook.server_version}".strip() or "a server without a name"
        self.stdout.write(f"{outlook.server} is {name}")
        self.stdout.write(f"  protocol {outlook.protocol_version} ({outlook.stability}), adapter {outlook.release}")
        offers = {"tasks": outlook.creates_tasks, "cancel": outlook.cancels_tasks, "list": outlook.lists_tasks}
        declared = ", ".join(f"{word}: {'yes' if offered else 'no'}" for word, offered in offers.items())
        self.stdout.write(f"  declared {declared}")
        for tool in outlook.tools:
            self.stdout.write(f"  {tool.tool} (task {tool.task_support}): {tool.what_happens}")
        if outlook.lookup_problem:
            self.stdout.write(f"  look out: {outlook.lookup_problem}")
        if not outlook.tools:
            self.stdout.write("  it describes no tools")


def _document(path: Path | None, protocol: str) -> bytes | None:
    """Read the tools document, and see that it can be used before anything is stored."""
    if path is None:
        return None
    try:
        document = path.read_bytes()
    except OSError as error:
        raise CommandError(f"Nothing was stored: {path} cannot be read: {error.strerror}.") from error
    registration.read_tools(protocol, document)
    return document


def _profile(slug: str, options: dict[str, Any]) -> NewServer:
    return NewServer(
        slug=slug,
        title=options["title"] or slug,
        url=options["url"],
        protocol=options["protocol"],
        credential_ref=options["credential_ref"],
        allow_private=options["allow_private"],
        max_qps=options["max_qps"],
        lookup=options["lookup"],
        lookup_tool=options["lookup_tool"],
        key_window_s=options["key_window"],
        listens=options["listens"],
    )
