"""Our adapter against npm `@modelcontextprotocol/server` 2.4.0: the official TypeScript SDK's transport of 2026-07-28.

The SDK has no tasks; the peer's own small runtime passes through it, and can do what fastmcp cannot: a cancel that is
done late or never, and answers that are used late.
"""

import pytest

from adapters.contract import (
    Absent,
    Action,
    CancelAnswer,
    CancelRefused,
    Ended,
    Handle,
    MaybeSent,
    NeedsInput,
    ProtocolStatus,
    Working,
)
from tests.verified.talk_2026 import (
    ADAPTER,
    a_call,
    begin,
    happened,
    look_until,
    losing_answers,
    reply,
    text_of,
    until,
    wired,
)

pytestmark = [pytest.mark.verified, pytest.mark.long, pytest.mark.asyncio]


async def test_it_declares_what_it_can(ts_2026_server):
    async with wired(ts_2026_server) as wire:
        found = await ADAPTER.negotiate(wire)

    assert (found.capabilities.server_name, found.capabilities.creates_tasks) == ("peer-ts-2026", True)
    assert [tool.name for tool in found.tools] == ["slow", "stubborn", "ask", "effects", "marked"]


async def test_a_task_is_submitted_and_looked_at_until_its_result_is_there(ts_2026_server):
    """Its answer to the submit also carries an empty `content`: the type decides."""
    async with wired(ts_2026_server) as wire:
        handle, first = await begin(wire, "slow", {"secs": 0.5})
        ended = await look_until(wire, handle, Ended)

    assert isinstance(first, Working)
    assert b'"content":[]' in first.exchanges[0].body
    assert (ended.status, text_of(ended.result)) == (ProtocolStatus.COMPLETED, "done")


async def test_an_answered_question_is_still_listed_for_a_while(ts_2026_server):
    """I7, B176: the same key, the same digest; the answer may be repeated."""

    async def look():
        return await ADAPTER.look(wire, handle, expect_question=False)

    async with wired(ts_2026_server) as wire:
        handle, _ = await begin(wire, "ask")
        first = await look_until(wire, handle, NeedsInput)
        await ADAPTER.answer(wire, handle, [reply(first.questions[0])])
        at_once = await look()
        await ADAPTER.answer(wire, handle, [reply(first.questions[0])])
        later = await until(look, lambda seen: seen.questions != first.questions)
        await ADAPTER.answer(wire, handle, [reply(later.questions[0], Action.DECLINE)])
        ended = await look_until(wire, handle, Ended)

    assert [question.key for question in first.questions] == ['"a"', '"b"']
    assert at_once.questions == first.questions
    assert later.questions == first.questions[1:]
    assert text_of(ended.result) == "accept decline"


async def test_a_cancel_is_done_later_than_it_is_acknowledged(ts_2026_server):
    """C5: what fastmcp cannot show."""
    async with wired(ts_2026_server) as wire:
        handle, _ = await begin(wire, "slow", {"secs": 3})
        answer = await ADAPTER.cancel(wire, handle)
        at_once = await ADAPTER.look(wire, handle, expect_question=False)
        after = await look_until(wire, handle, Ended)

    assert isinstance(answer, CancelAnswer)
    assert isinstance(at_once, Working)
    assert after.status is ProtocolStatus.CANCELLED


async def test_a_cancel_may_never_be_done(ts_2026_server):
    """C12: the work ends as if nobody had asked."""
    async with wired(ts_2026_server) as wire:
        handle, _ = await begin(wire, "stubborn", {"secs": 1.5})
        await ADAPTER.cancel(wire, handle)
        after = await look_until(wire, handle, Ended)

    assert after.status is ProtocolStatus.COMPLETED


async def test_an_unknown_task_is_absent_with_http_200(ts_2026_server):
    """X1: fastmcp says 400; the body decides."""
    async with wired(ts_2026_server) as wire:
        seen = await ADAPTER.look(wire, Handle(task_id="nope"), expect_question=False)
        answer = await ADAPTER.cancel(wire, Handle(task_id="nope"))

    assert isinstance(seen, Absent)
    assert (seen.code, seen.exchanges[0].http_status) == (-32602, 200)
    assert isinstance(answer, CancelRefused)


async def test_a_name_beyond_ascii_passes_its_strict_headers(ts_2026_server):
    async with wired(ts_2026_server) as wire:
        seen = await ADAPTER.look(wire, Handle(task_id=" größe "), expect_question=False)

    assert isinstance(seen, Absent), "a header that did not match would have been -32020"


async def test_a_marked_argument_passes_in_its_header(ts_2026_server):
    async with wired(ts_2026_server) as wire:
        tool = next(tool for tool in (await ADAPTER.negotiate(wire)).tools if tool.name == "marked")
        call = a_call("marked", {"region": "größe"}, input_schema=tool.input_schema)
        seen = await ADAPTER.submit(wire, Handle(), call)

    assert text_of(seen.result) == "größe"


async def test_a_task_whose_answer_was_lost_runs_on(ts_2026_server):
    """F1, B203: class C."""
    async with wired(ts_2026_server) as wire, losing_answers(ts_2026_server) as unlucky:
        with pytest.raises(MaybeSent):
            await ADAPTER.submit(unlucky, Handle(), a_call("slow", {"name": "orphan"}))
        effects = await happened(wire, "orphan")

    assert effects.count("orphan") == 1
