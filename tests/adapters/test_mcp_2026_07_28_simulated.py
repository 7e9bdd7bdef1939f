"""The adapter of MCP 2026-07-28 against the simulated server: each step, and each fault as it looks from here."""

import asyncio
import json
import random

import pytest

from adapters.contract import (
    Absent,
    Action,
    BrokenPeer,
    Call,
    CancelRefused,
    Continuation,
    Ended,
    Endpoint,
    Handle,
    Limits,
    Lookup,
    MaybeSent,
    NeedsInput,
    NotReady,
    ProtocolStatus,
    RefusalKind,
    Refused,
    Reply,
    Throttled,
    ToolResult,
    Working,
    WrongProtocol,
)
from adapters.http import HttpWire
from adapters.mcp_2026_07_28 import Mcp20260728
from adapters.simulator import face, modern
from adapters.simulator.scenario import CancelStyle, Fault, FaultKind, Scenario
from adapters.simulator.scripts import Ask, Effect, Finish, Tool, Work
from tests.adapters.inprocess import InProcessTransport
from tests.adapters.scripted import NOON, open_gate

pytestmark = pytest.mark.asyncio

ADAPTER = Mcp20260728()
YES = b'{"ok":true}'
FORM = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


def _work(arguments):
    yield Work(seconds=10, message="halfway")
    yield Effect(name="paid")
    return Finish(text="done", structured={"n": 9007199254740993})


def _ask(arguments):
    for number in range(arguments.get("rounds", 1)):
        answer = yield Ask(message=f"question {number}", schema=FORM)
        if answer.action != "accept":
            return Finish(text=f"told to {answer.action}")
    yield Effect(name="approved")
    return Finish(text="approved")


def _ask_both(arguments):
    answer = yield Ask(message="first", schema=FORM, also=(Ask(message="Please pay", url="https://example.org/pay"),))
    return Finish(text=f"{answer.action} {answer.others[0].action}")


def _ask_late(arguments):
    yield Work(seconds=10)
    answer = yield Ask(message="go on?", schema=FORM)
    yield Work(seconds=10)
    return Finish(text=f"told to {answer.action}")


def _tool(name, script, support="optional", schema=None):
    return Tool(name=name, title=name, description="", script=script, input_schema=schema or {}, task_support=support)


MARKED = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "deep": {"type": "object", "properties": {"dry": {"type": "boolean", "x-mcp-header": "Dry-Run"}}},
        "count": {"type": "integer", "x-mcp-header": "Count"},
    },
}
BADLY_MARKED = {"type": "object", "properties": {"x": {"type": "number", "x-mcp-header": "X"}}}

TOOLS = (
    _tool("work", _work),
    _tool("ask", _ask),
    _tool("ask both", _ask_both),
    _tool("asklate", _ask_late, "forbidden"),
    _tool("inline", _work, "forbidden"),
    _tool("only-tasks", _work, "required"),
    _tool("größe", _work, schema=MARKED),
)


class World:
    """One simulated server, one operation's handle, and the time."""

    def __init__(self, *faults, tools=TOOLS, **character):
        self.now = 1_790_000_000.0
        scenario = Scenario(tools=tools, faults=faults, **character)
        self.server = modern.ModernToolServer(scenario, clock=lambda: self.now, chance=random.Random(7))
        self.truth = self.server.truth
        app = face.ToolServersApp({"/mcp": self.server}, tick_s=0.005)
        self.wire = HttpWire(
            transport=InProcessTransport(app),
            endpoint=Endpoint(url="http://127.0.0.1/mcp", allow_private=True),
            gate=open_gate,
            clock=lambda: NOON,
            limits=Limits(total_s=5.0),
        )
        self.handle = Handle()

    async def submit(self, tool="work", *, as_task=True, schema=None, continuation=None, **arguments):
        call = Call(
            submission_key="key-1",
            tool=tool,
            arguments=json.dumps(arguments).encode(),
            ttl_ms=600_000,
            as_task=as_task,
            input_schema=schema or {},
            continuation=continuation,
        )
        seen = await ADAPTER.submit(self.wire, self.handle, call)
        if seen.task is not None:
            self.handle = Handle(task_id=seen.task.task_id)
        return seen

    async def go_on(self, asked, tool, *, number=1, action=Action.ACCEPT, **named):
        replies = tuple(reply_to(question, action) for question in asked.questions)
        goes_on = Continuation(number=number, state=asked.continuation_state, replies=replies)
        return await self.submit(tool, continuation=goes_on, **named)

    async def submit_while_time_passes(self, *args, **named):
        async def pass_time():
            await asyncio.sleep(0.05)
            self.now += 60

        seen, _ = await asyncio.gather(self.submit(*args, **named), pass_time())
        return seen

    async def look(self):
        return await ADAPTER.look(self.wire, self.handle, expect_question=False)

    async def answer(self, *questions, action=Action.ACCEPT):
        return await ADAPTER.answer(self.wire, self.handle, [reply_to(question, action) for question in questions])

    async def cancel(self):
        return await ADAPTER.cancel(self.wire, self.handle)

    async def fetch(self, status=ProtocolStatus.COMPLETED):
        return await ADAPTER.fetch(self.wire, self.handle, status)


def reply_to(question, action=Action.ACCEPT):
    return Reply(key=question.key, action=action, content=YES if action is Action.ACCEPT else None)


class TestNegotiate:
    async def test_many_pages_of_tools_each_may_become_a_task(self):
        world = World(tools_per_page=2)

        found = await ADAPTER.negotiate(world.wire)

        assert [tool.name for tool in found.tools] == [tool.name for tool in TOOLS]
        assert (found.capabilities.creates_tasks, found.capabilities.cancels_tasks) == (True, True)
        assert not found.capabilities.lists_tasks

    async def test_a_server_without_the_extension_creates_no_tasks(self):
        """N2."""
        found = await ADAPTER.negotiate(World(declares_tasks=False).wire)

        assert not found.capabilities.creates_tasks

    async def test_a_tool_that_marks_an_argument_wrongly_is_left_out_with_the_reason(self):
        world = World(tools=(*TOOLS, _tool("bad", _work, schema=BADLY_MARKED)))

        found = await ADAPTER.negotiate(world.wire)

        assert "bad" not in [tool.name for tool in found.tools]
        assert found.left_out == ("bad: the argument for the header X is neither text, nor integer, nor boolean",)


class TestSteps:
    @pytest.mark.parametrize("json_only", [False, True], ids=["events", "json"])
    async def test_a_task_from_submit_to_result(self, json_only):
        world = World(json_only=json_only, ttl_ms=600_000)

        first = await world.submit()
        world.now += 5
        during = await world.look()
        world.now += 5
        ended = await world.look()
        again = await world.fetch()

        assert isinstance(first, Working)
        assert (first.task.ttl_ms, first.task.poll_ms) == (600_000, 1000)
        assert isinstance(during, Working)
        assert during.task.message == "halfway"
        assert ended.status is ProtocolStatus.COMPLETED
        assert b"9007199254740993" in ended.result.raw
        assert again.raw == ended.result.raw
        assert len(world.truth.tasks_of("key-1")) == 1

    async def test_a_question_comes_with_every_look_until_it_is_answered(self):
        """I4: the same key and the same digest are the same question."""
        world = World()
        await world.submit("ask", rounds=2)

        once, again = await world.look(), await world.look()
        await world.answer(*once.questions)
        other = await world.look()
        await world.answer(*other.questions)
        ended = await world.look()

        assert once.questions == again.questions
        assert other.questions[0].key != once.questions[0].key
        assert other.questions[0].message == "question 1"
        assert isinstance(ended, Ended)
        assert [answer.used for answer in world.truth.answers] == [True, True]

    async def test_two_questions_in_one_round_answered_one_by_one(self):
        """B175: the other key stays open."""
        world = World()
        await world.submit("ask both")
        both = await world.look()

        await world.answer(both.questions[0])
        one = await world.look()
        await world.answer(both.questions[1], action=Action.DECLINE)
        ended = await world.look()

        assert [question.url for question in both.questions] == ["", "https://example.org/pay"]
        assert one.questions == both.questions[1:]
        assert ended.result.value["content"][0]["text"] == "accept decline"

    @pytest.mark.parametrize("inline", [{"as_task": False}, {}], ids=["we want no task", "the server has none"])
    async def test_a_call_that_runs_at_once(self, inline):
        """N2, B017."""
        world = World(declares_tasks=bool(inline))

        seen = await world.submit_while_time_passes("work", **inline)

        assert isinstance(seen, Ended)
        assert seen.task is None
        assert seen.status is ProtocolStatus.COMPLETED
        assert seen.result.value["structuredContent"] == {"n": 9007199254740993}

    async def test_a_tool_that_runs_only_as_a_task_refuses_to_run_without(self):
        """B018: -32021 is for an admin, and nothing was created."""
        world = World()

        with pytest.raises(Refused) as caught:
            await world.submit("only-tasks", as_task=False)

        assert (caught.value.kind, caught.value.code) == (RefusalKind.ADMIN, -32021)
        assert world.truth.created == []

    async def test_an_unknown_tool_is_the_requests_fault(self):
        with pytest.raises(Refused) as caught:
            await World().submit("nope")

        assert caught.value.kind is RefusalKind.REQUEST

    async def test_an_unknown_task(self):
        """X1."""
        world = World()
        world.handle = Handle(task_id="nope")

        assert isinstance(await world.look(), Absent)
        assert isinstance(await world.cancel(), CancelRefused)
        assert isinstance(await world.fetch(), NotReady)
        with pytest.raises(Refused):
            await world.answer()

    @pytest.mark.parametrize("as_200", [False, True], ids=["400", "200"])
    async def test_the_body_decides_before_the_status(self, as_200):
        world = World(errors_as_200=as_200)
        world.handle = Handle(task_id="nope")

        seen = await world.look()

        assert (seen.code, seen.exchanges[0].http_status) == (-32602, 200 if as_200 else 400)

    async def test_the_protocol_has_no_lookup_of_its_own(self):
        """B203: class C, unless the server has a tool of its own for it."""
        world = World()
        call = Call(submission_key="k", tool="work", arguments=b"{}", ttl_ms=None)

        assert frozenset({Lookup.LOOKUP_TOOL, Lookup.NONE}) == ADAPTER.promises.lookups
        with pytest.raises(Refused):
            await ADAPTER.find(world.wire, Handle(), call, Lookup.SESSION_LIST)
        assert not world.truth.arrivals


class TestHeaders:
    async def test_a_name_beyond_ascii_and_marked_arguments_pass_a_strict_server(self):
        world = World()

        seen = await world.submit("größe", schema=MARKED, region=" Hello, 世界 ", deep={"dry": False}, count=7)

        assert isinstance(seen, Working)

    async def test_arguments_that_are_absent_or_null_have_no_header(self):
        world = World()

        assert isinstance(await world.submit("größe", schema=MARKED, region=None), Working)

    async def test_a_call_without_the_headers_it_needs_is_refused_for_an_admin(self):
        """A descriptor that changed: -32020, nothing was created."""
        world = World()

        with pytest.raises(Refused) as caught:
            await world.submit("größe", schema={}, region="eu")

        assert (caught.value.kind, caught.value.code) == (RefusalKind.ADMIN, -32020)
        assert world.truth.created == []


class TestBeforeTheTask:
    async def test_rounds_before_the_task_create_one_task_in_the_end(self):
        """MRTR: each leg is a request of its own, under the same key."""
        world = World(asks_before_task=True)

        first = await world.submit("ask", rounds=2)
        second = await world.go_on(first, "ask", rounds=2)
        task = await world.go_on(second, "ask", number=2, rounds=2)
        ended = await world.look()

        assert [asked.questions[0].message for asked in (first, second)] == ["question 0", "question 1"]
        assert first.task is None
        assert task.task is not None
        assert ended.result.value["content"][0]["text"] == "approved"
        assert len(world.truth.tasks_of("key-1")) == 1

    async def test_a_call_that_runs_at_once_may_ask_before_and_in_between(self):
        world = World()

        asked = await world.submit_while_time_passes("asklate")
        ended = await world.submit_while_time_passes(
            "asklate",
            continuation=Continuation(
                number=1, state=asked.continuation_state, replies=(reply_to(asked.questions[0], Action.DECLINE),)
            ),
        )

        assert isinstance(asked, NeedsInput)
        assert ended.result.value["content"][0]["text"] == "told to decline"

    async def test_a_round_that_is_not_answered_is_asked_again(self):
        world = World(asks_before_task=True)
        first = await world.submit("ask both")

        goes_on = Continuation(number=1, state=first.continuation_state, replies=(reply_to(first.questions[0]),))
        again = await world.submit("ask both", continuation=goes_on)

        assert again.questions == first.questions
        assert world.truth.created == []

    async def test_a_state_that_the_server_does_not_know_is_refused_for_good(self):
        world = World(asks_before_task=True)

        with pytest.raises(Refused) as caught:
            await world.submit("ask", continuation=Continuation(number=1, state='"forged"', replies=()))

        assert caught.value.kind is RefusalKind.REQUEST


class TestCancel:
    async def test_a_late_cancel_may_be_too_late(self):
        """F4: the work ends between the acknowledgement and the cancel."""
        world = World(cancel=CancelStyle.LATE)
        await world.submit()
        world.now += 9

        await world.cancel()
        world.now += 2
        after = await world.look()

        assert after.status is ProtocolStatus.COMPLETED
        assert [done.name for done in world.truth.effects] == ["paid"]

    async def test_a_cancel_may_be_ignored(self):
        world = World(cancel=CancelStyle.IGNORES)
        await world.submit()

        await world.cancel()
        world.now += 60

        assert (await world.look()).status is ProtocolStatus.COMPLETED

    async def test_a_server_may_have_no_cancel(self):
        world = World(cancel=CancelStyle.REFUSES)
        await world.submit()

        answer = await world.cancel()

        assert isinstance(answer, CancelRefused)
        assert answer.code == -32601

    async def test_an_answer_after_the_cancel_is_taken_and_unused(self):
        world = World()
        await world.submit("ask")
        seen = await world.look()
        await world.cancel()

        await world.answer(*seen.questions)

        assert [answer.used for answer in world.truth.answers] == [False]

    async def test_work_that_goes_on_after_a_won_cancel_has_its_effect_and_no_result(self):
        """C4, C6."""
        world = World(works_on_after_cancel=True)
        await world.submit()
        await world.cancel()
        world.now += 60

        after = await world.look()
        late = await world.fetch(ProtocolStatus.CANCELLED)

        assert after.status is ProtocolStatus.CANCELLED
        assert isinstance(late, NotReady)
        assert [done.name for done in world.truth.effects] == ["paid"]

    async def test_leaving_the_stream_of_a_call_cancels_it(self):
        """C8: why a submit is never given up while its deadline runs."""
        world = World()
        call = asyncio.create_task(world.submit("inline"))
        await asyncio.sleep(0.05)

        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        world.now += 60
        world.server._advance(world.now)

        assert world.truth.effects == []


class TestFaults:
    async def test_f1_the_answer_to_the_submit_is_lost_and_the_task_lives_on(self):
        world = World(Fault(on="tools/call", kind=FaultKind.ANSWER_LOST))

        with pytest.raises(MaybeSent):
            await world.submit()
        world.now += 60
        world.server._advance(world.now)

        assert len(world.truth.tasks_of("key-1")) == 1
        assert [done.name for done in world.truth.effects] == ["paid"]

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

    async def test_f3_an_answered_question_is_still_listed_for_a_while(self):
        """I7: the same key and digest; to repeat the answer is harmless."""
        world = World(answered_listed_s=2.0)
        await world.submit("ask", rounds=2)
        first = await world.look()
        await world.answer(*first.questions)

        both = await world.look()
        await world.answer(*first.questions)
        world.now += 3
        second = await world.look()

        assert [question.message for question in both.questions] == ["question 0", "question 1"]
        assert both.questions[0] == first.questions[0]
        assert second.questions == both.questions[1:]
        assert [answer.used for answer in world.truth.answers] == [True, False]

    async def test_f3_a_key_that_comes_again_with_another_question_shows_another_digest(self):
        """A violation that the ledger can see."""
        world = World(reuses_keys=True)
        await world.submit("ask", rounds=2)
        first = await world.look()
        await world.answer(*first.questions)

        second = await world.look()

        assert second.questions[0].key == first.questions[0].key
        assert second.questions[0].digest != first.questions[0].digest

    async def test_f4_completion_and_cancel_arrive_together(self):
        world = World(Fault(on="tasks/cancel", kind=FaultKind.FINISHES_FIRST))
        await world.submit()

        await world.cancel()

        assert (await world.look()).status is ProtocolStatus.COMPLETED

    async def test_f5_the_acknowledgement_of_the_cancel_is_lost(self):
        world = World(Fault(on="tasks/cancel", kind=FaultKind.ANSWER_LOST))
        await world.submit()

        with pytest.raises(MaybeSent):
            await world.cancel()

        assert (await world.look()).status is ProtocolStatus.CANCELLED

    async def test_the_acknowledgement_of_an_answer_is_lost_and_the_answer_repeated(self):
        """B176, I7."""
        world = World(Fault(on="tasks/update", kind=FaultKind.ANSWER_LOST))
        await world.submit("ask")
        seen = await world.look()

        with pytest.raises(MaybeSent):
            await world.answer(*seen.questions)
        await world.answer(*seen.questions)

        assert [answer.used for answer in world.truth.answers] == [True, False]

    @pytest.mark.parametrize("json_only, error", [(True, BrokenPeer), (False, MaybeSent)], ids=["json", "events"])
    async def test_f6_the_result_is_cut_off_and_is_whole_the_second_time(self, json_only, error):
        world = World(Fault(on="tasks/get", kind=FaultKind.ANSWER_TRUNCATED), json_only=json_only)
        await world.submit()
        world.now += 60

        with pytest.raises(error) as caught:
            await world.look()
        ended = await world.look()

        assert not caught.value.exchanges[0].complete
        assert isinstance(ended.result, ToolResult)

    async def test_f6_the_result_is_gone(self):
        """B046, X3."""
        world = World(ttl_ms=20_000)
        await world.submit()
        world.now += 15
        assert isinstance(await world.look(), Ended)
        world.now += 10

        assert isinstance(await world.fetch(), NotReady)

    async def test_f8_another_operations_task_id_comes_back(self):
        world = World(Fault(on="tasks/get", kind=FaultKind.TASK_ID, word="another"))
        await world.submit()

        with pytest.raises(WrongProtocol):
            await world.look()

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

    async def test_a_completed_task_without_its_result_is_no_end(self):
        """B022: never an empty success."""
        world = World(Fault(on="tasks/get", kind=FaultKind.STATUS_WORD, word="completed"))
        await world.submit()

        with pytest.raises(BrokenPeer):
            await world.look()

        assert isinstance(await world.look(), Working)

    async def test_every_verb_is_one_request(self):
        """P2."""
        world = World()
        await world.submit("ask")
        seen = await world.look()
        await world.answer(*seen.questions)
        await world.cancel()
        await world.fetch()

        methods = [arrival.method for arrival in world.truth.arrivals]
        assert methods == ["tools/call", "tasks/get", "tasks/update", "tasks/cancel", "tasks/get"]
