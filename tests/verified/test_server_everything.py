"""Our adapter against npm `@modelcontextprotocol/server-everything` 2026.8.31, on the official TypeScript SDK.

Its one tool with tasks is `simulate-research-query`: four stages of a second each, and with `ambiguous` one question
after the third.
"""

import json

import pytest

from adapters.contract import (
    Action,
    Ended,
    Handle,
    NeedsInput,
    ProtocolStatus,
    Reply,
    SessionLost,
    TaskSupport,
    ToolResult,
    Working,
)
from tests.verified.talk import ADAPTER, begin, look_until, text_of, wired

pytestmark = [pytest.mark.verified, pytest.mark.long, pytest.mark.asyncio]

TOOL = "simulate-research-query"


async def test_it_declares_what_it_can(everything_server):
    async with wired(everything_server) as wire:
        found = await ADAPTER.negotiate(wire)

    told = found.capabilities
    assert (told.creates_tasks, told.cancels_tasks, told.lists_tasks) == (True, True, True)
    assert [tool.name for tool in found.tools if tool.task_support is TaskSupport.REQUIRED] == [TOOL]


async def test_a_question_is_asked_and_answered_and_the_report_is_fetched(everything_server):
    """The whole life: submit, look, input, result."""
    async with wired(everything_server) as wire:
        handle, first = await begin(wire, TOOL, {"topic": "python", "ambiguous": True})
        seen = await look_until(wire, handle, NeedsInput)
        (question,) = seen.questions
        choice = _first_choice(question)
        await ADAPTER.answer(wire, handle, [Reply(key=question.key, action=Action.ACCEPT, content=choice)])
        ended = await look_until(wire, handle, Ended)
        result = await ADAPTER.fetch(wire, handle, ended.status)

    assert isinstance(first, Working)
    assert first.task.ttl_ms == 300_000, "it keeps its own time to live, whatever was asked for"
    assert ended.status is ProtocolStatus.COMPLETED
    assert isinstance(result, ToolResult)
    assert result.task_id == handle.task_id
    assert "Research Report: python" in text_of(result)


async def test_the_first_question_of_a_session_has_the_id_0(everything_server):
    """A falsy id, and the same in every session: never a name for a round (I4)."""
    keys = []
    async with wired(everything_server) as wire:
        for _ in range(2):
            handle, _ = await begin(wire, TOOL, {"topic": "x", "ambiguous": True})
            seen = await look_until(wire, handle, NeedsInput)
            keys.append(seen.questions[0].key)

    assert keys == ["0", "0"]


async def test_a_lost_session_is_said_with_400(everything_server):
    """Deviates: the contract wants 404."""
    async with wired(everything_server) as wire:
        with pytest.raises(SessionLost) as caught:
            await ADAPTER.look(wire, Handle(session="never", task_id="t"), expect_question=False)

    assert caught.value.exchanges[0].http_status == 400


def _first_choice(question):
    """Answer the one field of the form with the first choice that it offers."""
    (name, field), *_ = question.schema["properties"].items()
    choices = field.get("enum") or [option["const"] for option in field["oneOf"]]
    return json.dumps({name: choices[0]}).encode()
