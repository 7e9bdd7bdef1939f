"""Our adapter against PyPI `fastmcp[tasks]` 4.1.4, the one published runtime of the tasks extension.

Where this peer leaves the contract, the test says so: a new release of it that no longer does fails here.
"""

import asyncio

import pytest

from adapters.contract import (
    Absent,
    Action,
    CancelRefused,
    Continuation,
    Ended,
    Handle,
    MaybeSent,
    NeedsInput,
    ProtocolStatus,
    RefusalKind,
    Refused,
    ToolResult,
    Working,
)
from tests.verified.talk_2026 import (
    ADAPTER,
    a_call,
    begin,
    call_at_once,
    go_on,
    happened,
    look_until,
    losing_answers,
    reply,
    text_of,
    until,
    wired,
)

pytestmark = [pytest.mark.verified, pytest.mark.asyncio]

REGION = {"properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}


async def test_it_declares_what_it_can(fastmcp_4_server):
    async with wired(fastmcp_4_server) as wire:
        found = await ADAPTER.negotiate(wire)

    told = found.capabilities
    assert (told.server_name, told.server_version) == ("peer-fastmcp-4", "4.1.4")
    assert (told.creates_tasks, told.cancels_tasks, told.lists_tasks) == (True, True, False)
    assert {"slow", "ask", "ask_before", "region"} <= {tool.name for tool in found.tools}
    assert found.left_out == ()


async def test_a_task_is_submitted_and_looked_at_until_its_result_is_there(fastmcp_4_server):
    async with wired(fastmcp_4_server) as wire:
        handle, first = await begin(wire, "slow", {"secs": 0.5})
        ended = await look_until(wire, handle, Ended)
        again = await ADAPTER.fetch(wire, handle, ended.status)

    assert isinstance(first, Working)
    assert (first.task.ttl_ms, first.task.poll_ms, first.task.anomalies) == (900_000, 500, ())
    assert ended.status is ProtocolStatus.COMPLETED
    assert text_of(ended.result) == "done"
    assert again.raw == ended.result.raw


async def test_two_questions_of_one_round_are_answered_one_by_one(fastmcp_4_server):
    """B175: a part of the answers is taken, the other key stays open. Its keys are random: so is their order."""
    async with wired(fastmcp_4_server) as wire:
        handle, _ = await begin(wire, "ask")
        both = await look_until(wire, handle, NeedsInput)
        first, second = sorted(both.questions, key=lambda question: question.message)
        await ADAPTER.answer(wire, handle, [reply(first)])
        one = await look_until(wire, handle, NeedsInput)
        await ADAPTER.answer(wire, handle, [reply(second, Action.DECLINE)])
        ended = await look_until(wire, handle, Ended)

    assert (first.message, second.message) == ("first?", "second?")
    assert one.questions == (second,)
    assert text_of(ended.result) == "a accept {'ok': True}, b decline None"


async def test_an_answer_that_comes_twice_or_too_late_is_taken_without_a_word(fastmcp_4_server):
    """I6, I7: why the acknowledgement is no evidence, and why a repeat is harmless."""
    async with wired(fastmcp_4_server) as wire:
        handle, _ = await begin(wire, "ask")
        seen = await look_until(wire, handle, NeedsInput)
        for _ in range(2):
            await ADAPTER.answer(wire, handle, [reply(question, Action.DISMISS) for question in seen.questions])
        ended = await look_until(wire, handle, Ended)
        await ADAPTER.answer(wire, handle, [reply(seen.questions[0])])

    assert text_of(ended.result) == "a cancel None, b cancel None"


async def test_questions_before_the_call_and_the_call_goes_on(fastmcp_4_server):
    """The state is sealed; the same leg sent twice runs the tool twice."""
    call = a_call("ask_before")
    async with wired(fastmcp_4_server) as wire:
        asked = await ADAPTER.submit(wire, Handle(), call)
        legs = [
            await ADAPTER.submit(wire, Handle(), a_call("ask_before", continuation=go_on(asked, action=action)))
            for action in (Action.ACCEPT, Action.DECLINE)
        ]

    assert isinstance(asked, NeedsInput)
    assert asked.task is None
    assert [text_of(leg.result) for leg in legs] == ["accept half way", "decline half way"]


async def test_a_state_that_was_tampered_with_is_refused(fastmcp_4_server):
    goes_on = Continuation(number=1, state='"v1.forged"', replies=())
    async with wired(fastmcp_4_server) as wire:
        with pytest.raises(Refused) as caught:
            await ADAPTER.submit(wire, Handle(), a_call("ask_before", continuation=goes_on))

    assert caught.value.kind is RefusalKind.REQUEST


async def test_a_protocol_error_is_failed_and_its_error_is_the_result(fastmcp_4_server):
    """R2."""
    async with wired(fastmcp_4_server) as wire:
        handle, _ = await begin(wire, "rpc_error")
        ended = await look_until(wire, handle, Ended)

    assert ended.status is ProtocolStatus.FAILED
    assert ended.result.value == {"code": -32050, "message": "rpc level error"}


async def test_work_that_swallows_its_cancel_has_its_effect_all_the_same(fastmcp_4_server):
    """C6: `cancelled`, and it happened."""
    async with wired(fastmcp_4_server) as wire:
        handle, _ = await begin(wire, "stubborn", {"secs": 2, "name": "swallowed"})
        await ADAPTER.cancel(wire, handle)
        after = await look_until(wire, handle, Ended)
        effects = await happened(wire, "swallowed")

    assert after.status is ProtocolStatus.CANCELLED
    assert "swallowed" in effects


async def test_an_unknown_task_is_absent_with_http_400(fastmcp_4_server):
    """X1."""
    unknown = Handle(task_id="nö pe")
    async with wired(fastmcp_4_server) as wire:
        seen = await ADAPTER.look(wire, unknown, expect_question=False)
        answer = await ADAPTER.cancel(wire, unknown)

    assert isinstance(seen, Absent)
    assert (seen.code, seen.exchanges[0].http_status) == (-32602, 400)
    assert isinstance(answer, CancelRefused)


async def test_leaving_a_call_that_runs_at_once_cancels_it(fastmcp_4_server):
    """C8: why a submit waits its whole deadline."""
    left, stayed_for = ({"secs": 2, "name": name} for name in ("left alone", "stayed for"))
    async with wired(fastmcp_4_server) as wire:
        call = asyncio.create_task(ADAPTER.submit(wire, Handle(), a_call("slow", left, as_task=False)))
        await until(lambda: call_at_once(wire, "begun"), lambda begun: "left alone" in begun)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await ADAPTER.submit(wire, Handle(), a_call("slow", stayed_for, as_task=False))
        effects = await happened(wire, "stayed for")

    assert "left alone" not in effects


async def test_a_task_whose_answer_was_lost_runs_on_and_nobody_can_be_asked(fastmcp_4_server):
    """F1, B203: class C."""
    async with wired(fastmcp_4_server) as wire, losing_answers(fastmcp_4_server) as unlucky:
        with pytest.raises(MaybeSent):
            await ADAPTER.submit(unlucky, Handle(), a_call("slow", {"name": "orphan"}))
        effects = await happened(wire, "orphan")

    assert effects.count("orphan") == 1


@pytest.mark.parametrize("text", ["eu", " größe ", "=?base64?x?="])
async def test_a_marked_argument_passes_in_its_header(fastmcp_4_server, text):
    async with wired(fastmcp_4_server) as wire:
        found = await ADAPTER.negotiate(wire)
        tool = next(tool for tool in found.tools if tool.name == "region")
        call = a_call("region", {"region": text}, input_schema=tool.input_schema)
        seen = await ADAPTER.submit(wire, Handle(), call)

    assert tool.input_schema["properties"]["region"]["x-mcp-header"] == "Region"
    assert isinstance(seen.result, ToolResult)
    assert text_of(seen.result) == text
