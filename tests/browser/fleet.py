"""Tool servers of one test, each with one bad habit, so that a call stands in every state for as long as it is wanted.

They run in the test's own process: what they really did is read from their truth, and `let_go` ends every habit.
"""

import random
import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import uvicorn

from adapters.simulator import core, face, modern
from adapters.simulator.engine import Engine
from adapters.simulator.scenario import CancelStyle, Fault, FaultKind, Scenario
from adapters.simulator.scripts import Ask, Finish, Tool, Work
from tests.ports import free_port

ALWAYS = 1_000_000
CONFIRM = {"type": "object", "properties": {"ok": {"type": "boolean", "title": "Go on"}}, "required": ["ok"]}


class Fleet:
    """The servers by name. `url(name)` is where one answers."""

    def __init__(self):
        self._held = threading.Event()
        self.port = free_port()
        self.servers: dict[str, Engine] = {
            name: core.ToolServer(one, **self._given()) for name, one in self._scenarios().items()
        }
        modern_one = Scenario(name="modern", tools=(self._tool("report", self._reports),), poll_ms=500)
        self.servers["modern"] = modern.ModernToolServer(modern_one, **self._given())

    def url(self, name):
        return f"http://127.0.0.1:{self.port}/{name}"

    def let_go(self):
        """End every habit: what hung goes on, what failed works."""
        self._held.set()
        for server in self.servers.values():
            server.scenario = replace(server.scenario, faults=())

    def begun(self):
        """How many calls each submission key really began, over all servers."""
        counts = {}
        for server in self.servers.values():
            for one in server.truth.created:
                counts[one.submission_key] = counts.get(one.submission_key, 0) + 1
        return counts

    @contextmanager
    def serve(self):
        app = face.ToolServersApp({f"/{name}": server for name, server in self.servers.items()})
        config = uvicorn.Config(app, port=self.port, log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.should_exit = True
            thread.join(10)

    def _given(self):
        return {"clock": time.time, "chance": random.SystemRandom()}

    def _scenarios(self):
        report, at_once = self._tool("report", self._reports), self._tool("at_once", self._at_once)
        holds, asks = self._tool("holds", self._holds), self._tool("asks", self._asks)
        always = {"times": ALWAYS}
        return {
            "figures": Scenario(name="figures", tools=(report,), poll_ms=500),
            "steady": Scenario(name="steady", tools=(holds, asks), poll_ms=4000),
            "stubborn": Scenario(name="stubborn", tools=(holds,), poll_ms=2000, cancel=CancelStyle.IGNORES),
            "lossy": Scenario(
                name="lossy",
                tools=(holds,),
                faults=(
                    Fault(on="tools/call", kind=FaultKind.ANSWER_LOST, **always),
                    Fault(on="tasks/list", kind=FaultKind.HTTP_STATUS, status=503, **always),
                ),
            ),
            "forgetful": Scenario(
                name="forgetful",
                tools=(holds,),
                faults=(Fault(on="tasks/get", kind=FaultKind.RPC_ERROR, code=-32602, **always),),
            ),
            "slow": Scenario(
                name="slow",
                tools=(holds,),
                faults=(Fault(on="tools/call", kind=FaultKind.ANSWER_DELAYED, seconds=20, **always),),
            ),
            "guarded": Scenario(
                name="guarded",
                tools=(holds,),
                faults=(Fault(on="tools/call", kind=FaultKind.HTTP_STATUS, status=401, **always),),
            ),
            "torn": Scenario(
                name="torn",
                tools=(at_once,),
                # Each fetch hangs until its time is up, and it is tried again: minutes go by before that is given up.
                faults=(Fault(on="tasks/result", kind=FaultKind.ANSWER_DELAYED, seconds=3600, **always),),
            ),
        }

    def _tool(self, name, script):
        return Tool(name=name, title="", description="", script=script, input_schema={"type": "object"})

    def _holds(self, _arguments):
        while not self._held.is_set():
            yield Work(seconds=0.5, message="waiting to be let go")
        return Finish(text="done")

    @staticmethod
    def _asks(_arguments):
        yield Ask(message="Go on?", schema=CONFIRM)
        return Finish(text="done")

    @staticmethod
    def _at_once(_arguments):
        yield from ()  # a script is a generator
        return Finish(text="done")

    @staticmethod
    def _reports(arguments):
        yield Work(seconds=2, message="adding up")
        fails = bool(arguments.get("fails"))
        return Finish(text="no such quarter" if fails else "done", is_error=fails)
