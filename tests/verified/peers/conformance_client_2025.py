"""Our adapter of MCP 2025-11-25 as the client that the conformance tool judges: `python -m … URL`.

Negotiates, opens a session with its standing stream, then calls every tool once without a task. A question is answered
as by a person who sends the form as it was shown: with its defaults.
"""

import asyncio
import contextlib
import json
import sys
from datetime import UTC, datetime

from adapters import registry
from adapters.contract import Action, AdapterError, Call, Endpoint, Handle, Refused, Reply
from adapters.http import Connections

ADAPTER = registry.adapter("2025-11-25", "r1")
SAMPLES = {"string": "x", "integer": 5, "number": 5, "boolean": True}


async def open_gate():
    """No rate limit."""


async def main(url):
    connections = Connections()
    endpoint = Endpoint(url=url, allow_private=True)
    wire = connections.wire(endpoint, gate=open_gate, clock=lambda: datetime.now(UTC))
    try:
        found = await ADAPTER.negotiate(wire)
        opened = await ADAPTER.open(wire)
        handle = Handle(session=opened.session)
        ready = asyncio.Event()
        listening = asyncio.create_task(listen(wire, handle, ready))
        await ready.wait()
        for number, tool in enumerate(found.tools):
            await call(wire, handle, tool, number)
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
    finally:
        await connections.aclose()


async def listen(wire, handle, ready):
    """Answer what the server asks on its standing stream, if it has one."""
    try:
        with contextlib.suppress(Refused):
            async with ADAPTER.listen(wire, handle, last_event_id="", total_s=30) as stream:
                ready.set()
                async for heard in stream.heard():
                    reply = Reply(key=heard.question.key, action=Action.ACCEPT, content=as_shown(heard.question.schema))
                    await ADAPTER.answer(wire, handle, [reply])
    finally:
        ready.set()


async def call(wire, handle, tool, number):
    properties = tool.input_schema.get("properties") or {}
    arguments = {name: SAMPLES.get(about.get("type"), "x") for name, about in properties.items()}
    one = Call(
        submission_key=f"call-{number}",
        tool=tool.name,
        arguments=json.dumps(arguments).encode(),
        ttl_ms=None,
        as_task=False,
        input_schema=tool.input_schema,
    )
    try:
        seen = await ADAPTER.submit(wire, handle, one)
    except AdapterError as error:
        print(f"{tool.name}: {type(error).__name__}: {error.reason}")  # the tool says what it makes of it
    else:
        print(f"{tool.name}: {type(seen).__name__}")


def as_shown(schema):
    """The form as it was shown: every field with its default, in the server's order."""
    fields = schema.get("properties", {}).items()
    return json.dumps({name: field["default"] for name, field in fields if "default" in field}).encode()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
