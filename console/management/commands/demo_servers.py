"""Run the tool servers of the demo."""

import os
import random
import time
from typing import Any

import uvicorn
from django.core.management.base import BaseCommand, CommandError, CommandParser

from adapters.simulator import aip151_face, demo, face


class Command(BaseCommand):
    help = "Run the simulated tool servers of the demo, all in this process. What they did: /truth, /archive/v1/truth."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
        parser.add_argument("--port", type=int, default=8765, help="port to listen on (8765)")
        speed = os.environ.get("LONGCALL_DEMO_SPEED", "1")
        parser.add_argument("--speed", type=float, default=speed, help="how many times faster the tools work (1)")

    def handle(self, *, host: str, port: int, speed: float, **options: Any) -> None:
        if speed <= 0:
            raise CommandError("--speed must be above 0")
        # From the system's chance: ids of an earlier run must not come back, they are in the ledger (P8).
        chance = random.SystemRandom()
        mcp = demo.servers(speed=speed, clock=time.time, chance=chance)
        operations = demo.operations(speed=speed, clock=time.time, chance=chance)
        for path in (*mcp, *operations):
            self.stdout.write(f"http://{host}:{port}{path}")
        # "critical": a lost answer is made by leaving in the middle, which uvicorn reports as an error.
        uvicorn.run(
            aip151_face.OperationsApp(operations, otherwise=face.ToolServersApp(mcp)),
            host=host,
            port=port,
            log_level="critical",
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=1,
        )
