"""A call to a real server in few words."""

import asyncio
import contextlib
import json
import time
import uuid
from datetime import UTC, datetime
from typing import Any

import httpx

from adapters import registry
from adapters.contract import Absent, Call, Endpoint, Handle, Lookup
from adapters.http import Connections, HttpWire

ADAPTER: Any = registry.adapter("2025-11-25", "r1")  # Any: the tests say which observation they got
PATIENCE = 20.0  # seconds for a task to get somewhere


async def open_gate():
    """No rate limit."""


@contextlib.asynccontextmanager
async def wired(url):
    """A wire to `url` with its own connections."""
    connections = Connections()
    endpoint = Endpoint(url=url, allow_private=True)
    try:
        yield connections.wire(endpoint, gate=open_gate, clock=lambda: datetime.now(UTC))
    finally:
        await connections.aclose()


class _LosesAnswers(httpx.AsyncHTTPTransport):
    """Sends the request, sees the answer begin, and breaks the connection."""

    async def handle_async_request(self, request):
        response = await super().handle_async_request(request)
        await response.aclose()
        raise httpx.ReadError("the answer was lost")


@contextlib.asynccontextmanager
async def losing_answers(url):
    """A wire to `url` over which every request arrives and no answer does."""
    async with _LosesAnswers() as transport:
        yield HttpWire(
            transport=transport,
            endpoint=Endpoint(url=url, allow_private=True),
            gate=open_gate,
            clock=lambda: datetime.now(UTC),
        )


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


async def find_until(wire, handle, call, wanted):
    """Look a lost call up until the observation is of this kind."""
    deadline = time.monotonic() + PATIENCE
    while True:
        seen = await ADAPTER.find(wire, handle, call, Lookup.SESSION_LIST)
        if isinstance(seen, wanted):
            return seen
        assert time.monotonic() < deadline, seen
        await asyncio.sleep(0.1)
