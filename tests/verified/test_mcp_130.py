"""Our adapter against the official Python SDK, PyPI `mcp` 1.30.0.

Where this peer leaves the contract, the test says so: a new release of it that no longer does fails here.
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
    ProtocolStatus,
    Reply,
    SessionLost,
    TaskSupport,
    ToolResult,
    Working,
)
from tests.verified.talk import ADAPTER, a_call, begin, find_until, look_until, losing_answers, text_of, wired

pytestmark = [pytest.mark.verified, pytest.mark.asyncio]

YES = b'{"ok":true}'


async def test_it_declares_what_it_can(mcp_130_server):
    async with wired(mcp_130_server) as wire:
        found = await ADAPTER.negotiate(wire)

    told = found.capabilities
    assert (told.server_version, told.creates_tasks, told.cancels_tasks, told.lists_tasks) == ("1.30.0", *[True] * 3)
    assert {tool.name: tool.task_support for tool in found.tools} == {
        "slow": TaskSupport.OPTIONAL,
        "ask": TaskSupport.REQUIRED,
        "boom": TaskSupport.REQUIRED,
        "iserr": TaskSupport.REQUIRED,
    }


async def test_a_task_is_submitted_looked_at_and_fetched(mcp_130_server):
    async with wired(mcp_130_server) as wire:
        handle, first = await begin(wire, "slow", {"secs": 0.5})
        ended = await look_until(wire, handle, Ended)
        result = await ADAPTER.fetch(wire, handle, ended.status)

    assert isinstance(first, Working)
    assert (first.task.ttl_ms, first.task.poll_ms) == (60_000, 500)
    assert ended.status is ProtocolStatus.COMPLETED
    assert isinstance(result, ToolResult)
    assert (result.task_id, result.is_error) == (handle.task_id, False)
    assert text_of(result) == "done"


async def test_three_rounds_are_asked_and_answered_each_on_a_stream_of_its_own(mcp_130_server):
    """I4, B019: this peer loses the next question to a dropped stream whose request was not cancelled."""
    messages = []
    async with wired(mcp_130_server) as wire:
        handle, _ = await begin(wire, "ask", {"n": 3})
        for _ in range(3):
            seen = await look_until(wire, handle, NeedsInput)
            (question,) = seen.questions
            messages.append(question.message)
            await ADAPTER.answer(wire, handle, [Reply(key=question.key, action=Action.ACCEPT, content=YES)])
        ended = await look_until(wire, handle, Ended)
        result = await ADAPTER.fetch(wire, handle, ended.status)

    assert messages == ["question 0", "question 1", "question 2"]
    assert text_of(result).count("accept {'ok': True}") == 3


@pytest.mark.parametrize("action", [Action.DECLINE, Action.DISMISS])
async def test_a_refusal_reaches_the_tool_as_what_it_is(mcp_130_server, action):
    """I5."""
    async with wired(mcp_130_server) as wire:
        handle, _ = await begin(wire, "ask")
        seen = await look_until(wire, handle, NeedsInput)
        await ADAPTER.answer(wire, handle, [Reply(key=seen.questions[0].key, action=action)])
        ended = await look_until(wire, handle, Ended)
        result = await ADAPTER.fetch(wire, handle, ended.status)

    assert text_of(result) == f"{action.value} None"


async def test_a_question_is_delivered_once_and_can_still_be_answered(mcp_130_server):
    async with wired(mcp_130_server) as wire:
        handle, _ = await begin(wire, "ask")
        seen = await look_until(wire, handle, NeedsInput)
        again = await ADAPTER.look(wire, handle, expect_question=False)
        await ADAPTER.answer(wire, handle, [Reply(key=seen.questions[0].key, action=Action.ACCEPT, content=YES)])
        ended = await look_until(wire, handle, Ended)

    assert isinstance(again, NeedsInput)
    assert again.questions == ()
    assert ended.status is ProtocolStatus.COMPLETED


async def test_a_crash_is_failed_and_its_empty_answer_is_the_result(mcp_130_server):
    """R2. Deviates: a success with neither content nor error."""
    async with wired(mcp_130_server) as wire:
        handle, _ = await begin(wire, "boom")
        ended = await look_until(wire, handle, Ended)
        result = await ADAPTER.fetch(wire, handle, ended.status)

    assert ended.status is ProtocolStatus.FAILED
    assert result.is_error
    assert b"content" not in result.raw


async def test_the_tools_own_error_is_an_error(mcp_130_server):
    """R7. Deviates: `completed` where the contract wants `failed`."""
    async with wired(mcp_130_server) as wire:
        handle, _ = await begin(wire, "iserr")
        ended = await look_until(wire, handle, Ended)
        result = await ADAPTER.fetch(wire, handle, ended.status)

    assert ended.status is ProtocolStatus.COMPLETED
    assert result.is_error


async def test_a_cancel_is_answered_with_the_cancelled_task(mcp_130_server):
    """C2."""
    async with wired(mcp_130_server) as wire:
        handle, _ = await begin(wire, "slow", {"secs": 30})
        answer = await ADAPTER.cancel(wire, handle)
        after = await ADAPTER.look(wire, handle, expect_question=False)

    assert isinstance(answer, CancelAnswer)
    assert answer.task.status is ProtocolStatus.CANCELLED
    assert isinstance(after, Ended)
    assert after.status is ProtocolStatus.CANCELLED


async def test_a_session_dies_when_cancelled_work_ends(mcp_130_server):
    """Deviates: the work runs on, and its end takes the session down: all later looks are SessionLost."""
    async with wired(mcp_130_server) as wire:
        handle, _ = await begin(wire, "slow", {"secs": 0.5})
        await ADAPTER.cancel(wire, handle)
        await asyncio.sleep(1)

        with pytest.raises(SessionLost):
            await ADAPTER.look(wire, handle, expect_question=False)


async def test_a_finished_task_is_not_cancelled(mcp_130_server):
    """C3."""
    async with wired(mcp_130_server) as wire:
        handle, _ = await begin(wire, "slow")
        await look_until(wire, handle, Ended)
        answer = await ADAPTER.cancel(wire, handle)
        after = await ADAPTER.look(wire, handle, expect_question=False)

    assert isinstance(answer, CancelRefused)
    assert answer.code == -32602
    assert after.status is ProtocolStatus.COMPLETED


async def test_an_unknown_task_is_absent_and_no_more(mcp_130_server):
    """X1."""
    async with wired(mcp_130_server) as wire:
        opened = await ADAPTER.open(wire)
        unknown = Handle(session=opened.session, task_id="nope")
        seen = await ADAPTER.look(wire, unknown, expect_question=False)
        answer = await ADAPTER.cancel(wire, unknown)

    assert isinstance(seen, Absent)
    assert not seen.by_key
    assert isinstance(answer, CancelRefused)


async def test_a_task_is_out_of_sight_from_another_session(mcp_130_server):
    """Why -32602 proves nothing, and why a session is kept."""
    async with wired(mcp_130_server) as wire:
        handle, _ = await begin(wire, "slow", {"secs": 2})
        other = await ADAPTER.open(wire)
        seen = await ADAPTER.look(wire, Handle(session=other.session, task_id=handle.task_id), expect_question=False)
        own = await ADAPTER.look(wire, handle, expect_question=False)

    assert isinstance(seen, Absent)
    assert isinstance(own, Working)


async def test_a_session_that_never_was_is_lost(mcp_130_server):
    async with wired(mcp_130_server) as wire:
        with pytest.raises(SessionLost):
            await ADAPTER.look(wire, Handle(session="never", task_id="t"), expect_question=False)


async def test_a_task_whose_answer_was_lost_is_found_in_its_session(mcp_130_server):
    """F1, L4: no key is honoured, but the list of this operation's session holds the one task."""
    call = a_call("slow", {"secs": 5})
    async with wired(mcp_130_server) as wire, losing_answers(mcp_130_server) as unlucky:
        opened = await ADAPTER.open(wire)
        handle = Handle(session=opened.session)
        before = await ADAPTER.find(wire, handle, call, Lookup.SESSION_LIST)
        with pytest.raises(MaybeSent):
            await ADAPTER.submit(unlucky, handle, call)
        found = await find_until(wire, handle, call, Working)

    assert isinstance(before, Absent)
    assert before.by_key
    assert found.task.task_id


async def test_the_same_submit_twice_is_two_tasks(mcp_130_server):
    """Why there is never a blind second submit: neither the id nor the key of the request is looked at."""
    call = a_call("slow", {"secs": 1})
    async with wired(mcp_130_server) as wire:
        opened = await ADAPTER.open(wire)
        handle = Handle(session=opened.session)
        one = await ADAPTER.submit(wire, handle, call)
        two = await ADAPTER.submit(wire, handle, call)

    assert one.task.task_id != two.task.task_id
