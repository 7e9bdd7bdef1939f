"""Start everything on this machine."""

import os
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from console.ground.home import PROJECT, from_environment


class Command(BaseCommand):
    help = "Start the database, the broker, the site, the worker and the demo; Ctrl-C stops them all."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="of the site, on 127.0.0.1 (8000)")
        parser.add_argument("--home", type=Path, help="the run folder (LONGCALL_HOME, or var/ of the checkout)")
        parser.add_argument("--demo-port", type=int, default=8765, help="of the demo's tool servers (8765)")
        parser.add_argument("--without-demo", action="store_true", help="no demo servers, people or workflow")

    def handle(self, *, port: int, demo_port: int, home: Path | None, without_demo: bool, **options: Any) -> None:
        root = home.resolve() if home else from_environment().root
        # The supervisor replaces us: it runs for weeks and needs neither Django nor a database client.
        os.chdir(PROJECT)
        ports = [str(port), "0" if without_demo else str(demo_port)]
        os.execv(sys.executable, [sys.executable, "-m", "console.ground", str(root), *ports])  # noqa: S606 - our own interpreter, no shell
