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
        parser.add_argument("--processes", type=int, default=0, help="that many processes instead: more than one core")
        parser.add_argument("--name", help="of this group of workers, such as drives@host-2 (celery@ and the host)")

    def handle(self, *, concurrency: int, processes: int, name: str | None, **options: Any) -> None:
        # Threads: one engine keeps a core busy, and a process costs 50 MB.
        worker = app.Worker(
            pool="prefork" if processes else "threads",
            concurrency=processes or concurrency,
            hostname=name,
            loglevel="WARNING",
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
        )
        worker.start()
        sys.exit(worker.exitcode)
