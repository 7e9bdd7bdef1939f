"""A tool server on PyPI `fastmcp[tasks]` 4.1.4: MCP 2026-07-28 with the tasks extension.

Runs in an environment of its own: `python fastmcp_4.py PORT`. The tools:

- `slow` (task or not): sleeps `secs`, then does its effect.
- `only_tasks` (required): the same, refused without a task.
- `stubborn` (task): swallows its cancellation and does its effect all the same.
- `ask` (task): asks two questions in one round. `rounds` (task): asks `n` rounds of one.
- `boom` (task): raises. `rpc_error` (task): ends with a JSON-RPC error.
- `ask_before` (no task): asks before it runs, with a state. `region` (no task): marks an argument for a header.
- `effects` (no task): what happened so far. `begun` (no task): each `slow` that was begun.
"""

import asyncio
import sys
from datetime import timedelta

from fastmcp import Context, FastMCP
from fastmcp.tools import Tool
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension
from mcp.shared.exceptions import MCPError
from mcp.types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

FORM = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
OFTEN = timedelta(milliseconds=500)

server = FastMCP("peer-fastmcp-4")
server.add_extension(TasksExtension())
begun_work, done = [], []


def questions(**messages):
    return {
        key: ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=FORM))
        for key, message in messages.items()
    }


def asked(state=None, **messages):
    return InputRequiredResult(result_type="input_required", input_requests=questions(**messages), request_state=state)


@server.tool(task=TaskConfig(mode="optional", poll_interval=OFTEN))
async def slow(secs: float = 0, name: str = "slow") -> str:
    begun_work.append(name)
    await asyncio.sleep(secs)
    done.append(name)
    return "done"


@server.tool(task=TaskConfig(mode="required", poll_interval=OFTEN))
async def only_tasks(secs: float = 0) -> str:
    await asyncio.sleep(secs)
    return "done"


@server.tool(task=True)
async def stubborn(secs: float = 1, name: str = "stubborn") -> str:
    work = asyncio.create_task(asyncio.sleep(secs))
    while not work.done():
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            continue
    done.append(name)
    return "finished anyway"


@server.tool(task=True)
async def ask(ctx: Context) -> str | InputRequiredResult:
    given = ctx.input_responses
    if given is None:
        return asked(a="first?", b="second?")
    return ", ".join(f"{key} {given[key].action} {given[key].content}" for key in sorted(given))


@server.tool(task=True)
async def rounds(ctx: Context, n: int = 2) -> str | InputRequiredResult:
    so_far = int(ctx.request_state or 0)
    if so_far < n:
        return asked(state=str(so_far + 1), q=f"round {so_far}")
    return f"{so_far} rounds"


@server.tool(task=True)
async def boom() -> str:
    raise RuntimeError("kaboom")


@server.tool(task=True)
async def rpc_error() -> str:
    raise MCPError(code=-32050, message="rpc level error")


@server.tool
async def ask_before(ctx: Context) -> str | InputRequiredResult:
    given = ctx.input_responses
    return asked(state="half way", a="sure?") if given is None else f"{given['a'].action} {ctx.request_state}"


async def region(region: str) -> str:
    return region


marked = Tool.from_function(region)
marked.parameters["properties"]["region"]["x-mcp-header"] = "Region"
server.add_tool(marked)


@server.tool
async def effects() -> list[str]:
    return done


@server.tool
async def begun() -> list[str]:
    return begun_work


if __name__ == "__main__":
    server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False, log_level="warning")
