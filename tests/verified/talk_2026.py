"""A call to a real server of MCP 2026-07-28 in few words."""

from typing import Any

from adapters import registry
from adapters.contract import Absent, Action, Continuation, Handle, NeedsInput, Reply
from tests.verified.talk import a_call, losing_answers, text_of, until, wired

__all__ = [
    "ADAPTER", "YES", "a_call", "begin", "call_at_once", "go_on", "happened", "look_until", "losing_answers", "reply",
    "text_of", "until", "wired",
]  # fmt: skip

ADAPTER: Any = registry.adapter("2026-07-28", "r1")  # Any: the tests say which observation they got
YES = b'{"ok":true}'


async def begin(wire, tool, arguments=None):
    """Submit; give back the handle and what the submit showed."""
    seen = await ADAPTER.submit(wire, Handle(), a_call(tool, arguments))
    assert not isinstance(seen, Absent), seen
    assert seen.task is not None, seen
    return Handle(task_id=seen.task.task_id), seen


async def call_at_once(wire, tool, arguments=None):
    """Run a tool without a task; give back the text of its result."""
    seen = await ADAPTER.submit(wire, Handle(), a_call(tool, arguments, as_task=False))
    return text_of(seen.result)


async def happened(wire, name):
    """Wait until the work of this name had its effect; return every effect so far as the server tells them."""
    return await until(lambda: call_at_once(wire, "effects"), lambda effects: name in effects)


async def look_until(wire, handle, wanted):
    """Look until the observation is of this kind (and holds a question, where it can)."""
    return await until(
        lambda: ADAPTER.look(wire, handle, expect_question=True),
        lambda seen: isinstance(seen, wanted) and (not isinstance(seen, NeedsInput) or seen.questions),
    )


def reply(question, action=Action.ACCEPT):
    """Answer a question with yes, or with this action."""
    return Reply(key=question.key, action=action, content=YES if action is Action.ACCEPT else None)


def go_on(asked, *, number=1, action=Action.ACCEPT):
    """Go on with a call that was answered by questions."""
    replies = tuple(reply(question, action) for question in asked.questions)
    return Continuation(number=number, state=asked.continuation_state, replies=replies)
