"""The adapter against the simulated server, without a socket: each step, and each fault as it looks from here."""

import asyncio
import json
import random
import socket

import pytest
import uvicorn

from adapters.contract import (
    Absent,
    Action,
    BrokenPeer,
    Call,
    CancelRefused,
    Ended,
    Endpoint,
    Handle,
    Lookup,
    MaybeSent,
    NeedsInput,
    NotReady,
    ProtocolStatus,
    RefusalKind,
    Refused,
    Reply,
    SessionLost,
    Throttled,
    ToolResult,
    Working,
    WrongProtocol,
)
from adapters.http import Connections, HttpWire
from adapters.mcp_2025_11_25 import Mcp20251125
from adapters.simulator import core, demo, face
from adapters.simulator.scenario import Fault, FaultKind, QuestionStyle, Scenario
from adapters.simulator.scripts import Ask, Effect, Finish, Tool, Work
from tests.adapters.inprocess import InProcessTransport
from tests.adapters.scripted import NOON, open_gate

pytestmark = pytest.mark.asyncio

ADAPTER = Mcp20251125()
YES = b'{"ok":true}'


def _work(arguments):
    yield Work(seconds=10, message="halfway")
    yield Effect(name="paid")
    return Finish(text="done", structured={"n": 9007199254740993})


def _ask(arguments):
    for number in range(arguments.get("rounds", 1)):
        answer = yield Ask(message=f"question {number}", schema={"type": "object", "properties": {}})
        if answer.action != "accept":
            return Finish(text=f"told to {answer.action}")
    return Finish(text="approved")


def _visit(arguments):
    yield Ask(message="Please pay", url="https://example.org/pay")
    return Finish(text="paid")


def _tool(name, script, support="optional"):
    return Tool(name=name, title=name, description="", script=script, input_schema={}, task_support=support)


def _ask_at_once(arguments):
    answer = yield Ask(message="sure?", schema={"type": "object", "properties": {}})
    return Finish(text=f"told to {answer.action}", is_error=answer.action == "error")


TOOLS = (
    _tool("work", _work),
    _tool("ask", _ask, "required"),
    _tool("visit", _visit),
    _tool("inline", _work, "forbidden"),
    _tool("asks inline", _ask_at_once, "forbidden"),
)


class World:
    """One simulated server, one operation's handle, and the time."""

    def __init__(self, *faults, **character):
        self.now = 1_790_000_000.0
        scenario = Scenario(tools=TOOLS, faults=faults, **character)
        self.server = core.ToolServer(scenario, clock=lambda: self.now, chance=random.Random(7))
        self.truth = self.server.truth
        app = face.ToolServersApp({"/mcp": self.server}, tick_s=0.005)
        self.wire = HttpWire(
            transport=InProcessTransport(app),
            endpoint=Endpoint(url="http://127.0.0.1/mcp", allow_private=True),
            gate=open_gate,
            clock=lambda: NOON,
        )
        self.handle = Handle()
        self.call = Call(submission_key="key-1", tool="work", arguments=b"{}", ttl_ms=600_000)

    async def open(self):
        opened = await ADAPTER.open(self.wire)
        self.handle = Handle(session=opened.session)
        return opened

    async def submit(self, tool="work", *, as_task=True, **arguments):
        await self.open()
        self.call = Call(
            submission_key="key-1",
            tool=tool,
            arguments=json.dumps(arguments).encode(),
            ttl_ms=600_000,
            as_task=as_task,
        )
        seen = await ADAPTER.submit(self.wire, self.handle, self.call)
        if seen.task is not None:
            self.handle = Handle(session=self.handle.session, task_id=seen.task.task_id)
        return seen

    async def look(self, *, expect_question=False):
        return await ADAPTER.look(self.wire, self.handle, expect_question=expect_question)

    async def find(self):
        return await ADAPTER.find(self.wire, self.handle, self.call, Lookup.SESSION_LIST)

    async def answer(self, question, action=Action.ACCEPT):
        content = YES if action is Action.ACCEPT else None
        return await ADAPTER.answer(self.wire, self.handle, [Reply(key=question.key, action=action, content=content)])

    async def cancel(self):
        return await ADAPTER.cancel(self.wire, self.handle)

    async def fetch(self, status=ProtocolStatus.COMPLETED):
        return await ADAPTER.fetch(self.wire, self.handle, status)


class TestSteps:
    @pytest.mark.parametrize("json_only", [False, True], ids=["events", "json"])
    async def test_a_task_from_submit_to_result(self, json_only):
        world = World(json_only=json_only)

        first = await world.submit()
        world.now += 5
        during = await world.look()
        world.now += 5
        ended = await world.look()
        result = await world.fetch(ended.status)

        assert isinstance(first, Working)
        assert isinstance(during, Working)
        assert during.task.message == "halfway"
        assert ended.status is ProtocolStatus.COMPLETED
        assert isinstance(result, ToolResult)
        assert result.task_id == world.handle.task_id
        assert b"9007199254740993" in result.raw
        assert len(world.truth.tasks_of("key-1")) == 1

    async def test_many_pages_of_tools(self):
        world = World(tools_per_page=2)

        found = await ADAPTER.negotiate(world.wire)

        assert [tool.name for tool in found.tools] == [tool.name for tool in TOOLS]

    async def test_a_question_may_want_a_visit(self):
        world = World()
        await world.submit("visit")

        seen = await world.look(expect_question=True)

        assert seen.questions[0].url == "https://example.org/pay"

    async def test_a_call_that_runs_at_once(self):
        """N2."""
        world = World(declares_tasks=False)

        async def pass_time():
            await asyncio.sleep(0.05)
            world.now += 30

        seen, _ = await asyncio.gather(world.submit("inline"), pass_time())

        assert isinstance(seen, Ended)
        assert seen.task is None
        assert seen.result.value["structuredContent"] == {"n": 9007199254740993}

    async def test_a_question_of_a_call_that_runs_at_once_is_refused_while_its_stream_is_open(self):
        """I3, I5, N2: nobody is asked, nothing is approved, and the call has an end that is known."""
        world = World()

        seen = await world.submit("asks inline", as_task=False)

        assert isinstance(seen, Ended)
        assert (seen.status, seen.result.is_error) == (ProtocolStatus.FAILED, True)
        assert [(answer.action, answer.used) for answer in world.truth.answers] == [("error", True)]
        assert b"elicitation/create" in seen.exchanges[0].body

    async def test_a_call_without_the_task_it_requires_ends_in_words(self):
        world = World()

        seen = await world.submit("ask", as_task=False)

        assert isinstance(seen, Ended)
        assert seen.result.is_error
        assert world.truth.created == []

    async def test_a_call_as_a_task_where_none_is_possible_is_refused(self):
        world = World()

        with pytest.raises(Refused) as caught:
            await world.submit("inline")

        assert caught.value.kind is RefusalKind.TASK
        assert world.truth.created == []

    async def test_a_server_without_sessions(self):
        world = World(sessions=False)

        await world.submit()

        assert world.handle.session is None
        assert isinstance(await world.look(), Working)


class TestFaults:
    async def test_f1_the_answer_to_the_submit_is_lost_and_the_task_is_found(self):
        """F1, L4: found as the one task of the session; there is one, and stays one."""
        world = World(Fault(on="tools/call", kind=FaultKind.ANSWER_LOST))

        with pytest.raises(MaybeSent):
            await world.submit()
        found = await world.find()

        assert isinstance(found, Working)
        assert [entry.task_id for entry in world.truth.tasks_of("key-1")] == [found.task.task_id]

    async def test_a_lost_request_looks_the_same_and_nothing_is_found(self):
        world = World(Fault(on="tools/call", kind=FaultKind.REQUEST_LOST))

        with pytest.raises(MaybeSent):
            await world.submit()
        found = await world.find()

        assert isinstance(found, Absent)
        assert found.by_key

    async def test_f2_an_old_look_arrives_after_a_new_one(self):
        world = World(Fault(on="tasks/get", kind=FaultKind.ANSWER_DELAYED, seconds=0.2))
        await world.submit()

        late = asyncio.create_task(world.look())
        await asyncio.sleep(0.05)
        world.now += 60
        early = await world.look()

        assert isinstance(early, Ended)
        assert not late.done()
        assert isinstance(await late, Working)

    @pytest.mark.parametrize("style, keys", [(QuestionStyle.REPLAYED, ["0", "0"]), (QuestionStyle.RENAMED, ["0", "1"])])
    async def test_f3_a_question_comes_again_with_the_same_digest(self, style, keys):
        """I4: the digest tells a replay, the key alone does not."""
        world = World(questions=style)
        await world.submit("ask")

        seen = [(await world.look(expect_question=True)).questions[0] for _ in range(2)]

        assert [question.key for question in seen] == keys
        assert seen[0].digest == seen[1].digest

    async def test_f4_completion_and_cancel_arrive_together(self):
        world = World(Fault(on="tasks/cancel", kind=FaultKind.FINISHES_FIRST))
        await world.submit()

        answer = await world.cancel()
        after = await world.look()

        assert isinstance(answer, CancelRefused)
        assert after.status is ProtocolStatus.COMPLETED

    async def test_f5_the_acknowledgement_of_the_cancel_is_lost(self):
        """B186."""
        world = World(Fault(on="tasks/cancel", kind=FaultKind.ANSWER_LOST))
        await world.submit()

        with pytest.raises(MaybeSent):
            await world.cancel()
        again = await world.cancel()
        after = await world.look()

        assert isinstance(again, CancelRefused)
        assert after.status is ProtocolStatus.CANCELLED

    @pytest.mark.parametrize("json_only, error", [(True, BrokenPeer), (False, MaybeSent)], ids=["json", "events"])
    async def test_f6_the_result_is_cut_off_and_is_whole_the_second_time(self, json_only, error):
        world = World(Fault(on="tasks/result", kind=FaultKind.ANSWER_TRUNCATED), json_only=json_only)
        await world.submit()
        world.now += 60

        with pytest.raises(error) as caught:
            await world.fetch()
        result = await world.fetch()

        assert not caught.value.exchanges[0].complete
        assert isinstance(result, ToolResult)

    async def test_f6_the_result_is_gone(self):
        """B046."""
        world = World(ttl_ms=20_000)
        await world.submit()
        world.now += 15
        assert isinstance(await world.look(), Ended)
        world.now += 10

        found = await world.fetch()

        assert isinstance(found, NotReady)

    async def test_f8_another_operations_task_id_comes_back(self):
        world = World(Fault(on="tasks/get", kind=FaultKind.TASK_ID, word="another"))
        await world.submit()

        with pytest.raises(WrongProtocol):
            await world.look()

    async def test_f8_a_result_that_names_another_task_says_so(self):
        """R2: the mismatch is visible to whoever accepts."""
        world = World(related_task="another")
        await world.submit()
        world.now += 60

        result = await world.fetch()

        assert result.task_id == "another"

    @pytest.mark.parametrize("before_ttl", [True, False])
    async def test_f9_not_found_before_and_after_expiry_look_alike(self, before_ttl):
        """X1."""
        faults = [Fault(on="tasks/get", kind=FaultKind.RPC_ERROR, code=-32602)] if before_ttl else []
        world = World(*faults, ttl_ms=5_000)
        await world.submit()
        world.now += 0 if before_ttl else 8

        seen = await world.look()

        assert isinstance(seen, Absent)
        assert (seen.code, seen.by_key) == (-32602, False)

    async def test_f9_a_404_is_a_lost_session_and_a_new_one_does_not_see_the_task(self):
        """B106."""
        world = World(Fault(on="tasks/get", kind=FaultKind.SESSION_LOST))
        await world.submit()
        task_id = world.handle.task_id

        with pytest.raises(SessionLost):
            await world.look()
        opened = await world.open()
        world.handle = Handle(session=opened.session, task_id=task_id)

        assert isinstance(await world.look(), Absent)

    @pytest.mark.parametrize("status, error", [(429, Throttled), (503, BrokenPeer)])
    async def test_f10_a_busy_server_names_its_floor(self, status, error):
        fault = Fault(on="tasks/get", kind=FaultKind.HTTP_STATUS, status=status, retry_after="2")
        world = World(fault)
        await world.submit()

        with pytest.raises(error) as caught:
            await world.look()

        assert caught.value.retry_after_s == 2.0
        assert isinstance(await world.look(), Working)

    @pytest.mark.parametrize("word", ["running", "COMPLETED", "canceled"])
    async def test_an_unknown_word_is_not_guessed(self, word):
        """B003."""
        world = World(Fault(on="tasks/get", kind=FaultKind.STATUS_WORD, word=word))
        await world.submit()

        with pytest.raises(WrongProtocol):
            await world.look()

    async def test_two_different_terminals_are_both_seen(self):
        """B007, R10."""
        world = World(Fault(on="tasks/get", kind=FaultKind.STATUS_WORD, word="cancelled", skip=1))
        await world.submit()
        world.now += 60

        seen = [(await world.look()).status for _ in range(2)]

        assert seen == [ProtocolStatus.COMPLETED, ProtocolStatus.CANCELLED]

    async def test_work_that_goes_on_after_a_won_cancel_has_its_effect(self):
        """C4, C6, C7."""
        world = World(works_on_after_cancel=True)
        await world.submit()
        await world.cancel()
        world.now += 60

        after = await world.look()
        late = await world.fetch(ProtocolStatus.CANCELLED)

        assert after.status is ProtocolStatus.CANCELLED
        assert isinstance(late, ToolResult)
        assert [done.name for done in world.truth.effects] == ["paid"]

    async def test_a_server_keeps_its_own_time_to_live(self):
        world = World(ttl_ms=5_000)

        seen = await world.submit()

        assert seen.task.ttl_ms == 5_000

    async def test_a_question_that_is_never_delivered_is_no_question(self, monkeypatch):
        """The JSON mode of both official SDKs."""
        monkeypatch.setattr("adapters.mcp_2025_11_25.QUESTION_WAIT_S", 0.1)
        world = World(json_only=True)
        await world.submit("ask")

        seen = await world.look(expect_question=True)

        assert isinstance(seen, NeedsInput)
        assert seen.questions == ()

    async def test_no_request_goes_out_that_the_server_did_not_count(self):
        """P2: a look with a question is three requests."""
        world = World()
        await world.submit("ask")
        before = len(world.truth.arrivals)

        await world.look(expect_question=True)

        after = [arrival.method for arrival in world.truth.arrivals][before:]
        assert after == ["tasks/get", "tasks/result", "notifications/cancelled"]


async def test_the_demo_is_served_on_a_socket_and_shows_its_truth():
    """Also a lost answer: over a real connection it is cut off behind its head."""
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    servers = demo.servers(speed=100, clock=lambda: 1_790_000_000.0, chance=random.Random(1))
    config = uvicorn.Config(face.ToolServersApp(servers), log_level="critical", lifespan="off")
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    connections = Connections()

    def wire(path):
        endpoint = Endpoint(url=address + path, allow_private=True)
        return connections.wire(endpoint, gate=open_gate, clock=lambda: NOON)

    reports = await ADAPTER.negotiate(wire("/reports/mcp"))
    opened = await ADAPTER.open(wire("/exports/mcp"))
    call = Call(submission_key="k", tool="flaky_export", arguments=b"{}", ttl_ms=None)
    with pytest.raises(BrokenPeer):
        await ADAPTER.submit(wire("/exports/mcp"), Handle(session=opened.session), call)
    truth = await _get(address, "/truth")
    await connections.aclose()
    server.should_exit = True
    await running

    assert [tool.name for tool in reports.tools] == ["quarterly_report"]
    assert [created["submission_key"] for created in truth["/exports/mcp"]["created"]] == ["k"]


async def _get(address, path):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return json.loads(answer.partition(b"\r\n\r\n")[2])
