"""Our adapter of MCP 2026-07-28 as the client that the conformance tool judges: `python -m … URL`.

Negotiates, then calls every tool once and goes on where it is asked something. What the tool wants called with which
arguments is in MCP_CONFORMANCE_CONTEXT.
"""

import asyncio
import json
import os
import sys
from datetime import UTC, datetime

from adapters import registry
from adapters.contract import Action, AdapterError, Call, Continuation, Endpoint, Handle, NeedsInput, Refused, Reply
from adapters.http import Connections

ADAPTER = registry.adapter("2026-07-28", "r1")
YES = b'{"confirmed":true}'
SAMPLES = {"string": "x", "integer": 1, "number": 1, "boolean": True}
MOST_ROUNDS = 5


async def open_gate():
    """No rate limit."""


async def main(url):
    connections = Connections()
    endpoint = Endpoint(url=url, allow_private=True)
    wire = connections.wire(endpoint, gate=open_gate, clock=lambda: datetime.now(UTC))
    tools = {tool.name: tool for tool in (await negotiate(wire)).tools}
    for number, (name, arguments) in enumerate(wanted_calls(tools)):
        if name in tools:
            await call(wire, f"key-{number}", tools[name], arguments)
    await connections.aclose()


async def negotiate(wire):
    """Ask twice, as an admin would: one scenario refuses the first request to see what comes next."""
    try:
        return await ADAPTER.negotiate(wire)
    except Refused:
        return await ADAPTER.negotiate(wire)


def wanted_calls(tools):
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    if "toolCalls" in context:
        return [(entry["name"], entry.get("arguments", {})) for entry in context["toolCalls"]]
    return [(name, samples(tool)) for name, tool in tools.items()]


def samples(tool):
    properties = tool.input_schema.get("properties", {})
    return {name: SAMPLES.get(told.get("type"), "x") for name, told in properties.items()}


async def call(wire, key, tool, arguments):
    goes_on = None
    for number in range(1, MOST_ROUNDS):
        try:
            seen = await ADAPTER.submit(wire, Handle(), a_call(key, tool, arguments, goes_on))
        except AdapterError as error:
            print(f"{tool.name}: {error!r}", file=sys.stderr)
            return
        if not isinstance(seen, NeedsInput):
            return
        replies = tuple(Reply(key=asked.key, action=Action.ACCEPT, content=YES) for asked in seen.questions)
        goes_on = Continuation(number=number, state=seen.continuation_state, replies=replies)


def a_call(key, tool, arguments, goes_on):
    return Call(
        submission_key=key,
        tool=tool.name,
        arguments=json.dumps(arguments).encode(),
        ttl_ms=None,
        input_schema=tool.input_schema,
        continuation=goes_on,
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
