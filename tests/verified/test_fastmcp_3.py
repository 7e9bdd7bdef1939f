"""Our adapter, and the whole product, against PyPI `fastmcp[tasks]` 3.4.11: MCP 2025-11-25, badly behaved.

It declares the list and leaves it empty, says `cancelled` of what has completed, never says that it waits for input,
and asks on the standing stream alone. Each of its lies is a test, and none of them decides anything.
"""

import asyncio
import contextlib
import contextvars
import json
import random
import time
import uuid
from datetime import UTC, datetime

import pytest
from django.db import connection

from adapters import registry
from adapters.contract import (
    Absent,
    Action,
    Ended,
    Endpoint,
    Handle,
    Hinted,
    Lookup,
    NotReady,
    ProtocolStatus,
    Reply,
    TaskSupport,
)
from adapters.http import Connections
from operations import ledger, registration
from operations.driver import Driver
from operations.machine import State
from operations.models import Receipt, Round, Server
from operations.streams import Streams
from tests.approvers import everybody
from tests.verified.talk import ADAPTER, PATIENCE, a_call, begin, look_until, text_of, wired

pytestmark = pytest.mark.verified

YES = b'{"value":true}'


@contextlib.asynccontextmanager
async def opened_and_heard(wire):
    """A session with its standing stream; what is heard goes into the queue."""
    opened = await ADAPTER.open(wire)
    handle, heard = Handle(session=opened.session), asyncio.Queue()

    async def listen(stream):
        async for one in stream.heard():
            await heard.put(one)

    async with ADAPTER.listen(wire, handle, last_event_id="", total_s=PATIENCE) as stream:
        task = asyncio.create_task(listen(stream))
        try:
            yield handle, heard
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def submitted(wire, handle, tool, arguments=None):
    seen = await ADAPTER.submit(wire, handle, a_call(tool, arguments))
    return Handle(session=handle.session, task_id=seen.task.task_id)


@pytest.mark.asyncio
class TestAdapter:
    async def test_it_declares_more_than_it_can(self, fastmcp_3_server):
        async with wired(fastmcp_3_server) as wire:
            found = await ADAPTER.negotiate(wire)

        told = found.capabilities
        assert (told.server_version, told.creates_tasks, told.cancels_tasks, told.lists_tasks) == (
            "3.4.11",
            *[True] * 3,
        )
        assert {tool.name: tool.task_support for tool in found.tools} == {
            "slow": TaskSupport.OPTIONAL,
            "ask": TaskSupport.OPTIONAL,
            "sorry": TaskSupport.OPTIONAL,
            "ask_at_once": TaskSupport.FORBIDDEN,
            "effects": TaskSupport.FORBIDDEN,
        }

    async def test_two_questions_come_on_the_standing_stream_and_the_status_never_says_so(self, fastmcp_3_server):
        """I4, P7. Deviates three times: the id 0, no name of a task, `working` while it waits. It hints at more."""
        asked, statuses, hints = [], [], 0
        async with wired(fastmcp_3_server) as wire, opened_and_heard(wire) as (session, heard):
            handle = await submitted(wire, session, "ask", {"n": 2})
            for _ in range(2):
                while isinstance(one := await asyncio.wait_for(heard.get(), PATIENCE), Hinted):
                    hints += 1
                asked.append((one.question.key, one.question.message, one.task_id, one.event_id))
                statuses.append((await ADAPTER.look(wire, handle, expect_question=True)).task.status)
                reply = Reply(key=one.question.key, action=Action.ACCEPT, content=YES)
                await ADAPTER.answer(wire, handle, [reply])
            ended = await look_until(wire, handle, Ended)
            result = await ADAPTER.fetch(wire, handle, ended.status)

        assert asked == [("0", "question 0", None, ""), ("1", "question 1", None, "")]
        assert statuses == [ProtocolStatus.WORKING] * 2
        assert hints > 0
        assert text_of(result) == "accept True, accept True"

    async def test_a_result_that_is_asked_for_too_early_is_not_ready(self, fastmcp_3_server):
        """X1, R1. Deviates: it does not wait for the end, and says that with the code of an unknown task."""
        async with wired(fastmcp_3_server) as wire:
            handle, _ = await begin(wire, "slow", {"secs": 5})
            found = await ADAPTER.fetch(wire, handle, ProtocolStatus.COMPLETED)

        assert isinstance(found, NotReady)
        assert found.code == -32602

    async def test_a_task_that_runs_is_in_no_list(self, fastmcp_3_server):
        """L4, X2. Deviates: why a list must prove itself first."""
        async with wired(fastmcp_3_server) as wire:
            handle, _ = await begin(wire, "slow", {"secs": 5})
            found = await ADAPTER.find(wire, handle, a_call("slow"), Lookup.SESSION_LIST)

        assert isinstance(found, Absent), "it lists its tasks by now: session_list may be offered"


class Product:
    """Ledger, driver and streams over a real server, in real time, in one process."""

    def __init__(self, url):
        self.slug = f"fastmcp-3-{uuid.uuid4().hex[:8]}"
        self._context = contextvars.copy_context()
        profile = {"allow_private": True, "max_qps": 50, "poll_floor_ms": 200, "lookup": "session_list"}
        server = ledger.NewServer(slug=self.slug, title="", url=url, protocol="2025-11-25", listens=True, **profile)
        registration.register(server)
        registration.negotiate(self.slug, clock=_now, environ={})

    async def step(self, function, /, *args, **named):
        return self._context.run(function, *args, **named)

    @contextlib.asynccontextmanager
    async def runs(self):
        """Drive until the context is left; yields a function that waits for a standing."""
        connections = Connections()

        def wire_for(work, gate):
            return connections.wire(Endpoint(url=work.server.url, allow_private=True), gate=gate, clock=_now)

        shared = {"adapter_for": registry.adapter, "wire_for": wire_for, "run": self.step, "clock": _now}
        streams = Streams(**shared)
        self._driver = Driver(**shared, chance=random.Random(0), listen=streams.hold)
        try:
            yield self._until
        finally:
            await streams.aclose()
            await connections.aclose()
            await self.step(lambda: connection.close())  # noqa: PLW0108 - looked up inside the steps' context

    async def _until(self, operation, wanted):
        ends = time.monotonic() + PATIENCE
        while not wanted(row := (await self.step(ledger.read, [operation]))[operation]):
            assert time.monotonic() < ends, row
            await self._driver.drive(await self.step(ledger.claim, limit=5, now=_now()))
            await asyncio.sleep(0.05)
        return row

    async def submit(self, tool, arguments):
        call = ledger.NewCall(
            client="tests",
            call_node=f"node-{uuid.uuid4()}",
            submission_key=uuid.uuid4().hex,
            server=self.slug,
            tool=tool,
            arguments=json.dumps(arguments).encode(),
            principal="ann",
        )
        return (await self.step(ledger.submit, call, now=_now())).operation

    async def answer(self, operation):
        return await self.step(self._answer, operation)

    def _answer(self, operation):
        asked = Round.objects.filter(operation_id=operation).latest("number")
        yes = [ledger.GivenReply(key=one["key"], action="accept", content=YES.decode()) for one in asked.questions]
        ledger.answer_round(
            operation,
            round=asked.number,
            request_digest=asked.request_digest,
            as_shown_digest="0" * 64,
            form_id=uuid.uuid4(),
            replies=yes,
            people=everybody,
            by="person:ada",
            now=_now(),
        )
        return asked.questions[0]["message"]


def _now():
    return datetime.now(UTC)


@pytest.mark.django_db(transaction=True)
class TestProduct:
    @pytest.fixture
    def product(self, fastmcp_3_server, monkeypatch):
        monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        return Product(fastmcp_3_server)

    def test_two_people_are_asked_and_the_call_ends_with_one_receipt(self, product):
        """I4, I6, R3: heard on the stream, asked in rounds, answered, used; the empty list is never believed."""

        async def life():
            async with product.runs() as until:
                operation = await product.submit("ask", {"n": 2})
                asked = []
                for number in (1, 2):
                    row = await until(operation, lambda row, number=number: row.round_open and row.round == number)
                    assert row.protocol_status == "working"
                    asked.append(await product.answer(operation))
                await until(operation, lambda row: row.state is State.ACCEPTED)
                return operation, asked

        operation, asked = asyncio.run(life())

        assert asked == ["question 0", "question 1"]
        receipt = Receipt.objects.get(operation_id=operation)
        assert receipt.outcome == "SUCCESS"
        assert b"accept True, accept True" in bytes(receipt.result)
        server = Server.objects.get(slug=product.slug)
        assert (server.lookup_proved_at, server.lookup_disproved != "") == (None, True)
