"""Our adapter against the official TypeScript SDK, npm `@modelcontextprotocol/sdk` 1.32.2.

The cleanest peer of MCP 2025-11-25. Where it leaves the contract, the test says so.
"""

import pytest

from adapters.contract import (
    Action,
    CancelAnswer,
    Ended,
    Handle,
    NeedsInput,
    NotReady,
    ProtocolStatus,
    RefusalKind,
    Refused,
    Reply,
    TaskSupport,
)
from tests.verified.talk import ADAPTER, a_call, begin, look_until, text_of, until, wired

pytestmark = [pytest.mark.verified, pytest.mark.long, pytest.mark.asyncio]

YES = b'{"ok":true}'


async def inline(wire, tool):
    """Run a tool without a task; give back what the submit showed."""
    opened = await ADAPTER.open(wire)
    return await ADAPTER.submit(wire, Handle(session=opened.session), a_call(tool, as_task=False))


async def happened_so_far(wire):
    return text_of((await inline(wire, "effects")).result)


async def answer(wire, handle, question, action=Action.ACCEPT):
    content = YES if action is Action.ACCEPT else None
    await ADAPTER.answer(wire, handle, [Reply(key=question.key, action=action, content=content)])


async def test_it_declares_what_it_can(ts_132_server):
    async with wired(ts_132_server) as wire:
        found = await ADAPTER.negotiate(wire)

    told = found.capabilities
    assert (told.server_version, told.creates_tasks, told.cancels_tasks, told.lists_tasks) == ("1.32.2", *[True] * 3)
    assert {tool.name: tool.task_support for tool in found.tools} == {
        "slow": TaskSupport.OPTIONAL,
        "ask": TaskSupport.REQUIRED,
        "boom": TaskSupport.REQUIRED,
        "iserr": TaskSupport.REQUIRED,
        "resume": TaskSupport.FORBIDDEN,
        "ask_at_once": TaskSupport.FORBIDDEN,
        "effects": TaskSupport.FORBIDDEN,
    }


async def test_a_crash_has_no_result_and_its_error_is_one(ts_132_server):
    """R2. Deviates: the crash is told by the status alone, and its fetch by an internal error."""
    async with wired(ts_132_server) as wire:
        handle, _ = await begin(wire, "boom")
        ended = await look_until(wire, handle, Ended)
        result = await ADAPTER.fetch(wire, handle, ended.status)

    assert (ended.status, ended.task.message) == (ProtocolStatus.FAILED, "kaboom")
    assert result.is_error
    assert b"-32603" in result.raw


async def test_three_rounds_are_asked_and_answered(ts_132_server):
    """I4. The ids are 0, 1, 2: the first is falsy."""
    asked = []
    async with wired(ts_132_server) as wire:
        handle, _ = await begin(wire, "ask", {"n": 3})
        for _ in range(3):
            seen = await look_until(wire, handle, NeedsInput)
            (question,) = seen.questions
            asked.append((question.key, question.message))
            await answer(wire, handle, question)
        ended = await look_until(wire, handle, Ended)
        result = await ADAPTER.fetch(wire, handle, ended.status)

    assert asked == [("0", "question 0"), ("1", "question 1"), ("2", "question 2")]
    assert text_of(result) == "accept true, accept true, accept true"


async def test_a_task_is_cancelled_its_session_lives_and_its_work_runs_on(ts_132_server):
    """C2, C4. Why a won cancel opens an effect record: the effect happens all the same."""
    async with wired(ts_132_server) as wire:
        before = await happened_so_far(wire)
        handle, _ = await begin(wire, "slow", {"secs": 1})
        told = await ADAPTER.cancel(wire, handle)
        effects = await until(lambda: happened_so_far(wire), lambda effects: len(effects) > len(before))
        after = await ADAPTER.look(wire, handle, expect_question=False)
        late = await ADAPTER.fetch(wire, handle, ProtocolStatus.CANCELLED)

    assert isinstance(told, CancelAnswer)
    assert (told.task.status, after.status) == (ProtocolStatus.CANCELLED, ProtocolStatus.CANCELLED)
    assert isinstance(late, NotReady)
    assert len(effects) > len(before)


async def test_a_stream_that_the_server_closes_is_resumed(ts_132_server):
    """L4: the answer comes on the resumed stream, and the tool ran once."""
    async with wired(ts_132_server) as wire:
        seen = await inline(wire, "resume")

    assert text_of(seen.result) == "resumed"
    assert [exchange.label for exchange in seen.exchanges] == ["tools/call", "GET stream"]


async def test_a_session_has_one_standing_stream(ts_132_server):
    """B122: nothing is said on it here, and the second of a session is refused."""
    async with wired(ts_132_server) as wire:
        opened = await ADAPTER.open(wire)
        handle = Handle(session=opened.session)
        async with ADAPTER.listen(wire, handle, last_event_id="", total_s=5):
            second = ADAPTER.listen(wire, handle, last_event_id="", total_s=5)
            with pytest.raises(Exception, match="409"):
                await second.__aenter__()


async def test_a_tool_that_takes_no_task_is_run_all_the_same_and_then_refused(ts_132_server):
    """N2. Deviates: -32602 for its own result, after the work. Why a task is asked for only where the tool says so."""
    async with wired(ts_132_server) as wire:
        opened = await ADAPTER.open(wire)
        with pytest.raises(Refused, match="Invalid task creation result") as caught:
            await ADAPTER.submit(wire, Handle(session=opened.session), a_call("effects"))

    assert caught.value.kind is RefusalKind.REQUEST
