"""A call to a real server in few words."""

import asyncio
import json
import time
import uuid
from typing import Any

from adapters import registry
from adapters.contract import Absent, Call, Handle
from tests.verified.places import losing_answers, wired

__all__ = ["ADAPTER", "PATIENCE", "a_call", "begin", "look_until", "losing_answers", "text_of", "wired"]


ADAPTER: Any = registry.adapter("2025-11-25", "r1")  # Any: the tests say which observation they got
PATIENCE = 20.0  # seconds for a task to get somewhere


def text_of(result: Any):
    """The text of a result that has one."""
    (part,) = result.value["content"]
    return part["text"]


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
    deadline = time.monotonic() + PATIENCE
    while True:
        seen = await ADAPTER.look(wire, handle, expect_question=expect_question)
        if isinstance(seen, wanted) and getattr(seen, "questions", True):
            return seen
        assert time.monotonic() < deadline, seen
        await asyncio.sleep(0.1)
