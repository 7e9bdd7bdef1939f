"""Bring the database and the files up to date."""

from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser

from console import catalogue

# Commands to run after the migrations, in this order.
AFTER_MIGRATE_DEMO = ["demo_seed"]


class Command(BaseCommand):
    help = "Migrate the database, collect static files, compile translations; with --demo also write the demo data."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--demo", action="store_true", help="also write the demo people, servers and tools")

    def handle(self, *, demo: bool, **options: Any) -> None:
        call_command("migrate", interactive=False, verbosity=0)
        call_command("collectstatic", interactive=False, verbosity=0)
        catalogue.compile_into(settings.HOME)
        if demo:
            for name in AFTER_MIGRATE_DEMO:
                call_command(name)
