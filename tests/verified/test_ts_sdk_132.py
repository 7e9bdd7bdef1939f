"""Our adapter against the official TypeScript SDK, npm `@modelcontextprotocol/sdk` 1.32.2.

The cleanest peer of MCP 2025-11-25. Where it leaves the contract, the test says so.
"""

import asyncio

import pytest

from adapters.contract import (
    Absent,
    Action,
    CancelAnswer,
    CancelRefused,
    Ended,
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
    TaskSupport,
    Working,
)
from tests.verified.peers.running import free_port, running
from tests.verified.talk import ADAPTER, a_call, begin, find_until, look_until, losing_answers, text_of, wired

pytestmark = [pytest.mark.verified, pytest.mark.asyncio]

YES = b'{"ok":true}'


async def inline(wire, tool):
    """Run a tool without a task; give back what the submit showed."""
    opened = await ADAPTER.open(wire)
    return await ADAPTER.submit(wire, Handle(session=opened.session), a_call(tool, as_task=False))


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
        "effects": TaskSupport.FORBIDDEN,
    }


@pytest.mark.parametrize(
    "tool, status, is_error, text",
    [
        ("slow", ProtocolStatus.COMPLETED, False, "done"),
        ("iserr", ProtocolStatus.FAILED, True, "the tool says no"),
    ],
)
async def test_a_task_is_submitted_looked_at_and_fetched(ts_132_server, tool, status, is_error, text):
    """R1, R2, R7."""
    async with wired(ts_132_server) as wire:
        handle, _ = await begin(wire, tool, {"secs": 0.5})
        ended = await look_until(wire, handle, Ended)
        result = await ADAPTER.fetch(wire, handle, ended.status)

    assert ended.status is status
    assert (result.is_error, result.task_id, text_of(result)) == (is_error, handle.task_id, text)


async def test_a_crash_has_no_result_and_its_error_is_one(ts_132_server):
    """R2. Deviates: the crash is told by the status alone, and its fetch by an internal error."""
    async with wired(ts_132_server) as wire:
        handle, _ = await begin(wire, "boom")
        ended = await look_until(wire, handle, Ended)
        result = await ADAPTER.fetch(wire, handle, ended.status)

    assert (ended.status, ended.task.message) == (ProtocolStatus.FAILED, "kaboom")
    assert result.is_error
    assert b"-32603" in result.raw


async def test_a_task_may_be_born_asking(ts_132_server):
    """Deviates: the contract wants `working` first. Nothing is lost by it."""
    async with wired(ts_132_server) as wire:
        _, first = await begin(wire, "ask")

    assert isinstance(first, NeedsInput)
    assert first.questions == ()


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


@pytest.mark.parametrize("action", [Action.DECLINE, Action.DISMISS])
async def test_a_refusal_reaches_the_tool_as_what_it_is(ts_132_server, action):
    """I5."""
    async with wired(ts_132_server) as wire:
        handle, _ = await begin(wire, "ask")
        seen = await look_until(wire, handle, NeedsInput)
        await answer(wire, handle, seen.questions[0], action)
        ended = await look_until(wire, handle, Ended)
        result = await ADAPTER.fetch(wire, handle, ended.status)

    assert text_of(result) == f"{action.value} nothing"


async def test_a_task_is_cancelled_its_session_lives_and_its_work_runs_on(ts_132_server):
    """C2, C4. Why a won cancel opens an effect record: the effect happens all the same."""
    async with wired(ts_132_server) as wire:
        before = text_of((await inline(wire, "effects")).result)
        handle, _ = await begin(wire, "slow", {"secs": 1})
        told = await ADAPTER.cancel(wire, handle)
        await asyncio.sleep(1.5)
        after = await ADAPTER.look(wire, handle, expect_question=False)
        late = await ADAPTER.fetch(wire, handle, ProtocolStatus.CANCELLED)
        effects = text_of((await inline(wire, "effects")).result)

    assert isinstance(told, CancelAnswer)
    assert (told.task.status, after.status) == (ProtocolStatus.CANCELLED, ProtocolStatus.CANCELLED)
    assert isinstance(late, NotReady)
    assert len(effects) > len(before)


async def test_a_finished_task_is_not_cancelled(ts_132_server):
    """C3."""
    async with wired(ts_132_server) as wire:
        handle, _ = await begin(wire, "slow")
        await look_until(wire, handle, Ended)
        told = await ADAPTER.cancel(wire, handle)
        after = await ADAPTER.look(wire, handle, expect_question=False)

    assert isinstance(told, CancelRefused)
    assert (told.code, after.status) == (-32602, ProtocolStatus.COMPLETED)


async def test_an_unknown_task_is_absent_and_no_more(ts_132_server):
    """X1."""
    async with wired(ts_132_server) as wire:
        opened = await ADAPTER.open(wire)
        unknown = Handle(session=opened.session, task_id="nope")
        seen = await ADAPTER.look(wire, unknown, expect_question=False)
        told = await ADAPTER.cancel(wire, unknown)

    assert isinstance(seen, Absent)
    assert not seen.by_key
    assert isinstance(told, CancelRefused)


async def test_a_task_whose_answer_was_lost_is_found_in_its_session(ts_132_server):
    """F1, L4. With an event store a broken answer is one that can be resumed, so the whole connection is lost here."""
    call = a_call("slow", {"secs": 5})
    async with wired(ts_132_server) as wire, losing_answers(ts_132_server) as unlucky:
        opened = await ADAPTER.open(wire)
        handle = Handle(session=opened.session)
        before = await ADAPTER.find(wire, handle, call, Lookup.SESSION_LIST)
        with pytest.raises(MaybeSent):
            await ADAPTER.submit(unlucky, handle, call)
        found = await find_until(wire, handle, call, Working)

    assert isinstance(before, Absent)
    assert before.by_key
    assert found.task.task_id


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


async def test_a_tool_that_needs_a_task_refuses_in_words_without_one(ts_132_server):
    """Deviates: the contract wants an error."""
    async with wired(ts_132_server) as wire:
        seen = await inline(wire, "ask")

    assert isinstance(seen, Ended)
    assert seen.result.is_error


async def test_a_tool_that_takes_no_task_is_run_all_the_same_and_then_refused(ts_132_server):
    """N2. Deviates: -32602 for its own result, after the work. Why a task is asked for only where the tool says so."""
    async with wired(ts_132_server) as wire:
        opened = await ADAPTER.open(wire)
        with pytest.raises(Refused, match="Invalid task creation result") as caught:
            await ADAPTER.submit(wire, Handle(session=opened.session), a_call("effects"))

    assert caught.value.kind is RefusalKind.REQUEST


async def test_a_restarted_server_knows_neither_session_nor_task(ts_132_command):
    """B106, X1: the new session is honest work, and what it does not know proves nothing."""
    port = free_port()
    command = [*ts_132_command, str(port)]
    with running("ts-sdk-1.32.2-restarted", command, port=port) as url:
        async with wired(url) as wire:
            handle, _ = await begin(wire, "slow", {"secs": 30})
    with running("ts-sdk-1.32.2-restarted", command, port=port) as url:
        async with wired(url) as wire:
            with pytest.raises(SessionLost):
                await ADAPTER.look(wire, handle, expect_question=False)
            opened = await ADAPTER.open(wire)
            seen = await ADAPTER.look(
                wire, Handle(session=opened.session, task_id=handle.task_id), expect_question=False
            )

    assert isinstance(seen, Absent)
    assert not seen.by_key
