"""Run a Celery worker: the hands that drive due operations."""

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from console.celery import app


class Command(BaseCommand):
    help = "Run a worker (the same as `celery -A console.celery worker`, without the memory of Celery's command line)."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--concurrency", type=int, default=4, help="threads (4)")

    def handle(self, *, concurrency: int, **options: Any) -> None:
        # Threads: a drive step waits for the network and the database, and a process costs 50 MB.
        worker = app.Worker(
            pool="threads",
            concurrency=concurrency,
            loglevel="WARNING",
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
        )
        worker.start()
        sys.exit(worker.exitcode)
