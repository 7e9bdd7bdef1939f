"""A whole small world in one process and in virtual time: real ledger, real driver, simulated servers.

Nothing waits: the loop's clock jumps to whatever is due next. Ledger steps run inline, all in one
context, because Django keeps one connection per context while a loop runs.
"""

import asyncio
import contextvars
import random
import selectors
import uuid
from datetime import UTC, datetime, timedelta

from django.db import connection

from adapters import registry
from adapters.contract import Endpoint
from adapters.http import Connections
from adapters.simulator.core import ToolServer
from adapters.simulator.face import ToolServersApp
from operations import ledger
from operations.driver import Driver
from operations.machine import State
from tests.adapters.inprocess import InProcessTransport
from tests.approvers import everybody

START = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
IDLE_S = 0.2
VERSION = "2025-11-25"


class JumpingSelector(selectors.BaseSelector):
    """Waits for nothing: moves the loop's clock instead."""

    def __init__(self):
        self.now = 0.0

    def select(self, timeout=None):
        if timeout is None:
            raise RuntimeError("everybody waits for somebody else")
        self.now += timeout
        return []

    def register(self, fileobj, events, data=None):
        return selectors.SelectorKey(fileobj, 0, events, data)

    def unregister(self, fileobj):
        return None

    def get_map(self):
        return {}


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is the selector's."""

    def __init__(self):
        self.jumping = JumpingSelector()
        super().__init__(selector=self.jumping)

    def time(self):
        return self.jumping.now


def _serve_mcp(scenario, *, clock, chance):
    server = ToolServer(scenario, clock=clock, chance=chance)
    return server, ToolServersApp({"/mcp": server}), "/mcp"


class World:
    """One simulated server, registered and negotiated, with a driver over it.

    `serve` makes the server, and the application that answers for it at a path.
    """

    def __init__(self, scenario, *, seed=0, slug="sim", version=VERSION, serve=_serve_mcp, **profile):
        self.loop = VirtualLoop()
        self.context = contextvars.copy_context()
        self.server, self.app, path = serve(scenario, clock=self.loop.time, chance=random.Random(seed))
        self.slug = slug
        self.version = version
        self.connections = Connections(transport_for=lambda _endpoint: InProcessTransport(self.app))
        self.driver = Driver(
            adapter_for=registry.adapter,
            wire_for=self.wire,
            run=self.step,
            clock=self.now,
            chance=random.Random(seed),
        )
        ledger.register_protocol(version, release="r1")
        url = f"http://{slug}.test{path}"
        ledger.register_server(
            ledger.NewServer(slug=slug, title=slug, url=url, protocol=version, **({"max_qps": 50} | profile))
        )
        self.run(self._negotiate(url))

    async def _negotiate(self, url):
        wire = self.connections.wire(Endpoint(url=url), gate=_open_gate, clock=self.now)
        negotiation = await registry.adapter(self.version, "r1").negotiate(wire)
        await self.step(ledger.save_negotiation, self.slug, negotiation, now=self.now())

    def now(self):
        return START + timedelta(seconds=self.loop.time())

    async def step(self, function, /, *args, **named):
        return self.context.run(function, *args, **named)

    def close(self):
        """End the world: what is due in it, its loop, and the connection of its steps."""

        async def disconnect():
            await self.connections.aclose()
            await self.step(self._leave_nothing_due)  # another test's claim must not find it
            await self.step(lambda: connection.close())  # noqa: PLW0108 - looked up inside the steps' context

        self.run(disconnect())
        self.loop.close()

    def _leave_nothing_due(self):
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM due WHERE server_id = %s", [self.slug])

    def wire(self, work, gate):
        return self.connections.wire(Endpoint(url=work.server.url), gate=gate, clock=self.now)

    def run(self, coroutine):
        return self.loop.run_until_complete(coroutine)

    def submit(self, tool, arguments=b"{}", *, node=None, key=None, budget_s=None):
        node = node or f"node-{uuid.uuid4()}"
        call = ledger.NewCall(
            client="tests",
            call_node=node,
            submission_key=key or f"key-{node}",
            server=self.slug,
            tool=tool,
            arguments=arguments,
            principal="ann",
            budget_s=budget_s,
        )
        return ledger.submit(call, now=self.now()).operation

    def row(self, operation):
        return ledger.read([operation])[operation]

    def until(self, operation, *states, within_s=600.0):
        """Drive until the operation stands in one of `states`; fail after `within_s` of virtual time."""
        wanted = {State(state) for state in states}
        ends = self.loop.time() + within_s

        async def work():
            while (row := await self.step(self.row, operation)).state not in wanted:
                assert self.loop.time() < ends, f"still {row}"
                await self.turn()

        self.run(work())
        return self.row(operation)

    async def turn(self):
        """Claim and drive once; let time pass when nothing is due."""
        works = await self.step(ledger.claim, limit=20, now=self.now())
        if works:
            await self.driver.drive(works)
        else:
            await asyncio.sleep(IDLE_S)

    def together(self, workers, seconds):
        """Let several workers, each with claims of its own, run for some virtual seconds at once."""
        ends = self.loop.time() + seconds

        async def work():
            while self.loop.time() < ends:
                await self.turn()

        async def all_of_them():
            await asyncio.gather(*(work() for _ in range(workers)))

        self.run(all_of_them())

    def idle(self, seconds):
        """Let the poller run for some virtual seconds."""
        ends = self.loop.time() + seconds

        async def work():
            while self.loop.time() < ends:
                await self.turn()

        self.run(work())

    def answer(self, operation, content, *, action="accept", by="person:ada"):
        """Answer the newest round of the operation as a person would."""
        from operations.models import Round

        row = self.row(operation)
        asked = Round.objects.get(operation_id=operation, number=row.round)
        replies = [
            ledger.GivenReply(key=question["key"], action=action, content=content) for question in asked.questions
        ]
        return ledger.answer_round(
            operation,
            round=row.round,
            request_digest=asked.request_digest,
            as_shown_digest="0" * 64,
            form_id=uuid.uuid4(),
            replies=replies,
            people=everybody,
            by=by,
            now=self.now(),
        )


async def _open_gate():
    return None
