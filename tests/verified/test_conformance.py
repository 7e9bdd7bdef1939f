"""The official conformance tool, npm `@modelcontextprotocol/conformance`, judges both ends of MCP 2026-07-28.

Our adapter is its client; our simulated server is its server, so that a fake which the other tests rely on is judged by
somebody else.
"""

import asyncio
import os
import socket
import sys
import threading
import time

import pytest
import uvicorn

from adapters.simulator import face, modern
from adapters.simulator.scenario import Scenario
from adapters.simulator.scripts import Ask, Crash, Finish, Tool, Work
from console.ground.environment import PROJECT

pytestmark = [pytest.mark.verified, pytest.mark.long, pytest.mark.asyncio]

PATIENCE = 90.0  # seconds for one scenario
CLIENT = f"{sys.executable} -m tests.verified.peers.conformance_client"
CONFIRM = {"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]}


async def judge(conformance, *arguments):
    """Run the tool; give back its verdict and what it printed."""
    process = await asyncio.create_subprocess_exec(
        *conformance,
        *arguments,
        cwd=PROJECT,
        env=os.environ | {"NO_COLOR": "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    except TimeoutError:
        process.kill()
        raise
    return process.returncode, said.decode()


@pytest.mark.parametrize(
    "scenario",
    [
        "request-metadata",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "sep-2322-client-request-state",
        "json-schema-ref-no-deref",
    ],
)
async def test_our_adapter_is_a_conforming_client(conformance, scenario):
    code, said = await judge(conformance, "client", "--command", CLIENT, "--scenario", scenario)

    assert code == 0, said
    assert ", 0 failed" in said


@pytest.mark.parametrize(
    "scenario",
    [
        "tasks-lifecycle",
        "tasks-capability-negotiation",
        "tasks-wire-fields",
        "tasks-request-state-removal",
        "tasks-mrtr-input",
        "tasks-request-headers",
        "tasks-dispatch-and-envelope",
        "tasks-required-task-error",
    ],
)
async def test_our_simulated_server_is_a_conforming_server(conformance, simulated, scenario):
    code, said = await judge(conformance, "server", "--url", simulated, "--scenario", scenario)

    assert code == 0, said
    assert ", 0 failed" in said


@pytest.fixture(scope="module")
def simulated():
    """The simulated server on a socket, with the tools that the scenarios want to find."""
    server = modern.ModernToolServer(Scenario(tools=TOOLS, poll_ms=100, ttl_ms=600_000), clock=time.time)
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(face.ToolServersApp({"/mcp": server}), log_level="critical", lifespan="off")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    running.should_exit = True
    thread.join(10)
    listener.close()


def _greet(arguments):
    yield from ()
    return Finish(text=f"Hello, {arguments.get('name')}!")


def _slow_compute(arguments):
    yield Work(seconds=float(arguments.get("seconds", 0)))
    return Finish(text="computed")


def _failing_job(arguments):
    yield Work(seconds=0.2)
    return Finish(text="it did not work", is_error=True)


def _protocol_error_job(arguments):
    yield Work(seconds=0.2)
    return Crash(message="internal failure")


def _confirm_delete(arguments):
    answer = yield Ask(message=f"Delete {arguments.get('filename')}?", schema=CONFIRM)
    return Finish(text="deleted" if answer.action == "accept" else "kept")


def _multi_input(arguments):
    answer = yield Ask(message="first", schema=CONFIRM, also=(Ask(message="second", schema=CONFIRM),))
    return Finish(text=f"{answer.action} {answer.others[0].action}")


def _tool(name, script, support="optional", /, **properties):
    schema = {"type": "object", "properties": properties}
    return Tool(name=name, title=name, description=name, script=script, input_schema=schema, task_support=support)


TOOLS = (
    _tool("greet", _greet, "forbidden", name={"type": "string"}),
    _tool("slow_compute", _slow_compute, seconds={"type": "number"}, label={"type": "string"}),
    _tool("failing_job", _failing_job, "required"),
    _tool("protocol_error_job", _protocol_error_job),
    _tool("confirm_delete", _confirm_delete, filename={"type": "string"}),
    _tool("multi_input", _multi_input),
)
