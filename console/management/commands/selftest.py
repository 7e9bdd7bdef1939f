"""Run every check and every test."""

import sys
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand

from console.ground import checks


class Command(BaseCommand):
    help = "Lint, types, layers, then every test: selftest [--all] [pytest arguments]. --all adds the long ones."
    requires_system_checks = ()

    def run_from_argv(self, argv: list[str]) -> None:
        # Past Django's parser: what it does not know belongs to pytest.
        words = argv[2:]
        if "--help" in words:
            super().run_from_argv(argv)
        self.handle(with_long="--all" in words, pytest_arguments=[word for word in words if word != "--all"])

    def handle(self, *, with_long: bool = False, pytest_arguments: Sequence[str] = (), **options: Any) -> None:
        sys.exit(checks.run(with_long=with_long, pytest_arguments=pytest_arguments, tell=self._tell))

    def _tell(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()
