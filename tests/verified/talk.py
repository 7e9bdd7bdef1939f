"""A call to a real server in few words."""

import asyncio
import json
import time
import uuid
from typing import Any

from adapters import registry
from adapters.contract import Absent, Call, Handle
from tests.verified.places import losing_answers, wired

__all__ = ["ADAPTER", "PATIENCE", "a_call", "begin", "look_until", "losing_answers", "text_of", "until", "wired"]


ADAPTER: Any = registry.adapter("2025-11-25", "r1")  # Any: the tests say which observation they got
PATIENCE = 20.0  # seconds for a task to get somewhere


def text_of(result: Any):
    """The text of a result; a list of nothing has none at some servers."""
    return "".join(part["text"] for part in result.value["content"])


def a_call(tool, arguments=None, *, as_task=True, **more):
    """A call under a key of its own."""
    return Call(
        submission_key=uuid.uuid4().hex,
        tool=tool,
        arguments=json.dumps(arguments or {}).encode(),
        ttl_ms=60_000,
        as_task=as_task,
        **more,
    )


async def begin(wire, tool, arguments=None):
    """Open a session and submit; give back the handle and what the submit showed."""
    opened = await ADAPTER.open(wire)
    seen = await ADAPTER.submit(wire, Handle(session=opened.session), a_call(tool, arguments))
    assert not isinstance(seen, Absent), seen
    assert seen.task is not None, seen
    return Handle(session=opened.session, task_id=seen.task.task_id), seen


async def look_until(wire, handle, wanted, *, expect_question=True):
    """Look until the observation is of this kind (and holds a question, where it can)."""
    return await until(
        lambda: ADAPTER.look(wire, handle, expect_question=expect_question),
        lambda seen: isinstance(seen, wanted) and getattr(seen, "questions", True),
    )


async def until(ask, good):
    """Ask the server again until its answer is good; return that answer. No test counts the seconds of a server."""
    deadline = time.monotonic() + PATIENCE
    while not good(seen := await ask()):
        assert time.monotonic() < deadline, seen
        await asyncio.sleep(0.1)
    return seen
