"""The adapter against the simulated AIP-151 server, without a socket: each step, each fault."""

import asyncio
import json
import random
import uuid

import pytest

from adapters.aip_151 import Aip151
from adapters.contract import (
    Absent,
    BrokenPeer,
    Call,
    CancelAnswer,
    CancelRefused,
    Ended,
    Endpoint,
    Handle,
    Lookup,
    MaybeSent,
    ProtocolStatus,
    RefusalKind,
    Refused,
    Throttled,
    ToolResult,
    Working,
    WrongProtocol,
)
from adapters.http import HttpWire
from adapters.simulator import aip151, aip151_face
from adapters.simulator.aip151_scenario import CancelStyle, Fault, FaultKind, Scenario
from adapters.simulator.scripts import Ask, Crash, Effect, Finish, Tool, Work
from tests.adapters.inprocess import InProcessTransport
from tests.adapters.scripted import NOON, open_gate

pytestmark = pytest.mark.asyncio

ADAPTER = Aip151()
PLACE = "projects/p/locations/l"
KEY = str(uuid.UUID(int=0x7B0C8E0E6D3C4B1E9A9E0D6F3C2B1A00))


def _work(arguments):
    yield Work(seconds=10, message="halfway")
    yield Effect(name="paid")
    return Finish(text="done", structured={"n": 9007199254740993})


def _ask(arguments):
    answer = yield Ask(message="Sure?")
    return Finish(text=f"told to {answer.action}")


def _crash(arguments):
    yield Work(seconds=1)
    return Crash(message="kaboom")


def _sorry(arguments):
    yield Work(seconds=1)
    return Finish(text="quota exceeded", is_error=True)


def _tool(name, script):
    schema: dict = {"type": "object"}
    return Tool(name=f"{PLACE}/{name}:run", title=name, description="", script=script, input_schema=schema)


TOOLS = tuple(_tool(script.__name__.strip("_"), script) for script in (_work, _ask, _crash, _sorry))


class World:
    """One simulated server, one operation's handle, and the time."""

    def __init__(self, *faults, **character):
        self.now = 1_790_000_000.0
        scenario = Scenario(tools=TOOLS, faults=faults, **character)
        self.server = aip151.OperationsServer(scenario, clock=lambda: self.now, chance=random.Random(7))
        self.truth = self.server.truth
        self.wire = HttpWire(
            transport=InProcessTransport(aip151_face.OperationsApp({"/jobs/v1": self.server})),
            endpoint=Endpoint(url="http://127.0.0.1/jobs/v1", allow_private=True),
            gate=open_gate,
            clock=lambda: NOON,
        )
        self.handle = Handle()
        self.call = Call(submission_key=KEY, tool=TOOLS[0].name, arguments=b"{}", ttl_ms=None)

    async def submit(self, tool="work", **arguments):
        raw = json.dumps(arguments).encode()
        self.call = Call(submission_key=KEY, tool=f"{PLACE}/{tool}:run", arguments=raw, ttl_ms=None)
        seen = await ADAPTER.submit(self.wire, self.handle, self.call)
        if seen.task is not None:
            self.handle = Handle(task_id=seen.task.task_id)
        return seen

    async def look(self):
        return await ADAPTER.look(self.wire, self.handle, expect_question=False)

    async def find(self, lookup):
        return await ADAPTER.find(self.wire, Handle(), self.call, lookup)

    async def cancel(self):
        return await ADAPTER.cancel(self.wire, self.handle)

    async def fetch(self, status=ProtocolStatus.COMPLETED):
        return await ADAPTER.fetch(self.wire, self.handle, status)


class TestSteps:
    @pytest.mark.parametrize("writes_defaults", [False, True], ids=["google", "grpc-gateway"])
    async def test_an_operation_from_submit_to_result(self, writes_defaults):
        world = World(writes_defaults=writes_defaults)

        first = await world.submit()
        world.now += 5
        during = await world.look()
        world.now += 5
        ended = await world.look()
        fetched = await world.fetch(ended.status)

        assert isinstance(first, Working)
        assert isinstance(during, Working)
        assert during.task.message == "halfway"
        assert during.task.created_at.startswith("2026-")
        assert ended.status is ProtocolStatus.COMPLETED
        assert ended.result.value["value"] == {"n": 9007199254740993}
        assert isinstance(fetched, ToolResult)
        assert fetched.raw == ended.result.raw
        assert len(world.truth.tasks_of(KEY)) == 1

    async def test_what_the_server_offers(self):
        world = World(cancel=CancelStyle.REFUSES, lists=False)

        found = await ADAPTER.negotiate(world.wire)

        told = found.capabilities
        assert (told.creates_tasks, told.cancels_tasks, told.lists_tasks) == (True, False, False)
        assert [tool.name for tool in found.tools] == [tool.name for tool in TOOLS]
        assert world.truth.created == []

    async def test_a_server_without_a_tools_document(self):
        with pytest.raises(Refused):
            await ADAPTER.negotiate(World(publishes_tools=False).wire)

    @pytest.mark.parametrize(
        "tool, words", [("crash", "INTERNAL: kaboom"), ("sorry", "FAILED_PRECONDITION: quota exceeded")]
    )
    async def test_a_failure_is_its_own_result(self, tool, words):
        """R2, R7."""
        world = World()
        await world.submit(tool)
        world.now += 5

        ended = await world.look()

        assert ended.status is ProtocolStatus.FAILED
        assert ended.result.is_error
        assert ended.task.message == words

    async def test_a_tool_that_would_ask_goes_on_without_an_answer(self):
        world = World()

        seen = await world.submit("ask")

        assert seen.result.value["value"] == {"text": "told to cancel"}

    async def test_a_cancel_is_taken_and_loses(self):
        """C11: a completion may win until code 1 is seen."""
        world = World(cancel_after_s=30)
        await world.submit()

        answer = await world.cancel()
        world.now += 60
        after = await world.look()

        assert isinstance(answer, CancelAnswer)
        assert after.status is ProtocolStatus.COMPLETED
        assert [cancel.won for cancel in world.truth.cancels] == [False]

    async def test_a_cancel_is_taken_and_ignored(self):
        world = World(cancel=CancelStyle.IGNORES)
        await world.submit()

        assert isinstance(await world.cancel(), CancelAnswer)
        world.now += 60

        assert (await world.look()).status is ProtocolStatus.COMPLETED

    @pytest.mark.parametrize("writes_defaults", [False, True])
    async def test_b139_a_cancel_is_refused(self, writes_defaults):
        world = World(cancel=CancelStyle.REFUSES, writes_defaults=writes_defaults)
        await world.submit()

        refused = await world.cancel()

        assert isinstance(refused, CancelRefused)
        assert refused.message == "Operations of this service cannot be cancelled"

    async def test_a_method_that_is_not_there(self):
        """Nothing was created, and an admin can repair it."""
        with pytest.raises(Refused) as caught:
            await World().submit("nothing")

        assert caught.value.kind is RefusalKind.ADMIN

    async def test_wait_and_delete_are_never_sent(self):
        """Delete destroys evidence."""
        world = World()
        await world.submit()
        await world.find(Lookup.LIST_BY_KEY)
        await world.look()
        await world.cancel()
        world.now += 60
        await world.fetch()

        assert {arrival.method for arrival in world.truth.arrivals} == {"submit", "list", "get", "cancel"}


class TestFaults:
    @pytest.mark.parametrize("lookup", [Lookup.SAME_KEY_REPLAY, Lookup.LIST_BY_KEY])
    async def test_f1_the_answer_to_the_submit_is_lost_and_the_operation_is_found(self, lookup):
        """F1, L4, A5: there is one, and stays one."""
        world = World(Fault(on="submit", kind=FaultKind.ANSWER_LOST))

        with pytest.raises(MaybeSent):
            await world.submit()
        found = await world.find(lookup)

        assert isinstance(found, Working)
        assert [entry.task_id for entry in world.truth.tasks_of(KEY)] == [found.task.task_id]

    async def test_a_lost_request_is_absent_in_the_list(self):
        world = World(Fault(on="submit", kind=FaultKind.REQUEST_LOST))

        with pytest.raises(MaybeSent):
            await world.submit()
        found = await world.find(Lookup.LIST_BY_KEY)

        assert isinstance(found, Absent)
        assert found.by_key

    async def test_after_its_window_the_same_key_is_a_second_operation(self):
        """X2: why a replay outside the window is forbidden."""
        world = World(key_window_s=60)
        await world.submit()
        world.now += 61

        await world.find(Lookup.SAME_KEY_REPLAY)

        assert len(world.truth.tasks_of(KEY)) == 2

    async def test_a_server_that_ignores_the_key_says_nothing_about_it(self):
        """N2: why the lookup must be proved for each server."""
        world = World(honours_request_id=False)
        await world.submit()

        await world.find(Lookup.SAME_KEY_REPLAY)

        assert len(world.truth.tasks_of(KEY)) == 2

    async def test_a_server_that_echoes_no_key_proves_no_absence(self):
        world = World(echoes_request_id=False)
        await world.submit()

        with pytest.raises(BrokenPeer):
            await world.find(Lookup.LIST_BY_KEY)

    async def test_a_replay_with_other_bytes_is_refused(self):
        world = World()
        await world.submit()
        with pytest.raises(Refused) as caught:
            await world.submit(rows=2)

        assert caught.value.kind is RefusalKind.REQUEST
        assert len(world.truth.created) == 1

    async def test_many_pages_of_operations(self):
        world = World(page_size=2)
        for number in range(5):
            call = Call(submission_key=str(uuid.UUID(int=number + 1)), tool=TOOLS[0].name, arguments=b"{}", ttl_ms=None)
            await ADAPTER.submit(world.wire, Handle(), call)
        await world.submit()

        found = await world.find(Lookup.LIST_BY_KEY)

        assert found.task.task_id == world.handle.task_id
        assert len(found.exchanges) == 4

    async def test_f2_an_old_look_arrives_after_a_new_one(self):
        world = World(Fault(on="get", kind=FaultKind.ANSWER_DELAYED, seconds=0.2))
        await world.submit()

        late = asyncio.create_task(world.look())
        await asyncio.sleep(0.05)
        world.now += 60
        early = await world.look()

        assert isinstance(early, Ended)
        assert not late.done()
        assert isinstance(await late, Working)

    async def test_f4_completion_and_cancel_arrive_together(self):
        world = World(Fault(on="cancel", kind=FaultKind.FINISHES_FIRST))
        await world.submit()

        answer = await world.cancel()

        assert isinstance(answer, CancelAnswer)
        assert (await world.look()).status is ProtocolStatus.COMPLETED

    async def test_f5_the_answer_to_the_cancel_is_lost(self):
        world = World(Fault(on="cancel", kind=FaultKind.ANSWER_LOST))
        await world.submit()

        with pytest.raises(MaybeSent):
            await world.cancel()
        world.now += 5

        assert (await world.look()).status is ProtocolStatus.CANCELLED

    @pytest.mark.parametrize(
        "kind, error", [(FaultKind.ANSWER_TRUNCATED, MaybeSent | BrokenPeer), (FaultKind.ANSWER_LOST, MaybeSent)]
    )
    async def test_f6_the_result_is_lost_on_its_way(self, kind, error):
        world = World(Fault(on="get", kind=kind))
        await world.submit()
        world.now += 60

        with pytest.raises((MaybeSent, BrokenPeer)) as caught:
            await world.look()
        again = await world.look()

        assert isinstance(caught.value, error)
        assert again.result.value["value"] == {"n": 9007199254740993}

    async def test_f8_a_reused_name_is_told_as_it_is(self):
        """P8: the ledger sees the clash."""
        world = World(reuse_id="op-1", honours_request_id=False)

        first = await world.submit()
        second = await world.submit()

        assert first.task.task_id == second.task.task_id == f"{PLACE}/operations/op-1"

    async def test_f9_an_expired_operation_is_absent(self):
        world = World(keeps_s=30)
        await world.submit()
        world.now += 31

        assert isinstance(await world.look(), Absent)

    @pytest.mark.parametrize("code, error", [(8, Throttled), (14, BrokenPeer)])
    @pytest.mark.parametrize("writes_defaults", [False, True])
    async def test_f10_a_busy_server_names_its_floor(self, code, error, writes_defaults):
        """P1."""
        fault = Fault(on="get", kind=FaultKind.API_ERROR, code=code, retry_after="2")
        world = World(fault, writes_defaults=writes_defaults)
        await world.submit()

        with pytest.raises(error) as caught:
            await world.look()

        assert caught.value.retry_after_s == 2
        assert isinstance(await world.look(), Working)

    @pytest.mark.parametrize(
        "fault, error",
        [
            ({"body": '{"name":"NAME","done":true}'}, BrokenPeer),
            ({"body": '{"name":"NAME","done":true,"error":{"code":1},"response":{"@type":"t/R"}}'}, BrokenPeer),
            ({"body": '{"name":"NAME-2","done":true,"response":{"@type":"t/R"}}'}, WrongProtocol),
            ({"body": '{"id":"/x","name":"NAME","status":"InProgress"}'}, WrongProtocol),
            ({"body": '{"kind":"compute#operation","name":"NAME","status":"DONE"}'}, WrongProtocol),
            ({"body": "<html>", "headers": (("content-type", "text/html"),)}, BrokenPeer),
            ({"body": "", "status": 202, "headers": (("location", "/x"),)}, WrongProtocol),
            ({"body": "", "status": 302, "headers": (("location", "/v1/x"),)}, Refused),
        ],
    )
    async def test_n3_an_answer_that_is_none_moves_nothing(self, fault, error):
        world = World(Fault(on="get", kind=FaultKind.REPLACED, **fault))
        await world.submit()

        with pytest.raises(error) as caught:
            await world.look()

        assert len(caught.value.exchanges) == 1
        assert isinstance(await world.look(), Working)
