"""Our adapter against the official Python SDK, PyPI `mcp` 1.30.0.

Where this peer leaves the contract, the test says so: a new release of it that no longer does fails here.
"""

import pytest

from adapters.contract import (
    Absent,
    Action,
    Ended,
    Handle,
    NeedsInput,
    ProtocolStatus,
    Reply,
    SessionLost,
    TaskSupport,
    Working,
)
from tests.verified.talk import ADAPTER, begin, look_until, until, wired

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
        "ask_at_once": TaskSupport.FORBIDDEN,
    }


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


async def test_a_session_dies_when_cancelled_work_ends(mcp_130_server):
    """Deviates: the work runs on, and its end takes the session down: all later looks are SessionLost."""
    async with wired(mcp_130_server) as wire:
        handle, _ = await begin(wire, "slow", {"secs": 1.5})
        await ADAPTER.cancel(wire, handle)

        with pytest.raises(SessionLost):
            await until(lambda: ADAPTER.look(wire, handle, expect_question=False), lambda _seen: False)


async def test_a_task_is_out_of_sight_from_another_session(mcp_130_server):
    """Why -32602 proves nothing, and why a session is kept."""
    async with wired(mcp_130_server) as wire:
        handle, _ = await begin(wire, "slow", {"secs": 10})
        other = await ADAPTER.open(wire)
        seen = await ADAPTER.look(wire, Handle(session=other.session, task_id=handle.task_id), expect_question=False)
        own = await ADAPTER.look(wire, handle, expect_question=False)

    assert isinstance(seen, Absent)
    assert isinstance(own, Working)


async def test_a_session_that_never_was_is_lost(mcp_130_server):
    async with wired(mcp_130_server) as wire:
        with pytest.raises(SessionLost):
            await ADAPTER.look(wire, Handle(session="never", task_id="t"), expect_question=False)
