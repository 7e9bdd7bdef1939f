"""Bring the catalogues to what the sources hold."""

from typing import Any

from django.core.management.base import BaseCommand

from console import catalogue


class Command(BaseCommand):
    help = "Find every text of the pages and put it into the catalogues; say what has no translation yet."
    requires_system_checks = ()

    def handle(self, **options: Any) -> None:
        for language in catalogue.LANGUAGES:
            catalogue.refresh(language)
            lines = catalogue.problems(language)
            self.stdout.write("\n".join([*lines, f"{language}: {len(lines)} to mend"]))
