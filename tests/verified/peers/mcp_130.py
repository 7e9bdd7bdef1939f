"""A tool server on PyPI `mcp` 1.30.0, the official Python SDK, with its experimental tasks.

Runs in an environment of its own: `python mcp_130.py PORT`. The tools:

- `slow` (optional): sleeps `secs`, then does its effect.
- `ask` (required): asks `n` questions one after the other, ends with the answers.
- `boom` (required): raises.
- `iserr` (required): ends with the tool's own error.
- `ask_at_once` (forbidden): runs at once and asks on the stream of its answer.

Every effect and every task is one line of standard output.
"""

import contextlib
import sys
import warnings

import anyio
import uvicorn
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.routing import Mount

warnings.simplefilter("ignore")  # the SDK calls its tasks experimental, each time

SUPPORT = {"slow": "optional", "ask": "required", "boom": "required", "iserr": "required", "ask_at_once": "forbidden"}
INPUT = {"type": "object", "properties": {"secs": {"type": "number"}, "n": {"type": "integer"}}}
FORM = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}

server = Server("peer-mcp-1.30.0")
server.experimental.enable_tasks()


@server.list_tools()
async def list_tools():
    return [
        types.Tool(name=name, inputSchema=INPUT, execution=types.ToolExecution(taskSupport=support))
        for name, support in SUPPORT.items()
    ]


@server.call_tool()
async def call_tool(name, arguments):
    task_calls = server.request_context.experimental
    if not task_calls.is_task:
        task_calls.validate_task_mode(SUPPORT[name])
        if name == "ask_at_once":
            context = server.request_context
            answer = await context.session.elicit("sure?", FORM, related_request_id=context.request_id)
            return [types.TextContent(type="text", text=answer.action)]
        await anyio.sleep(arguments.get("secs", 0))
        return [types.TextContent(type="text", text="ran inline")]

    async def work(task):
        print("TASK", name, task.task_id, flush=True)
        return await TOOLS[name](task, arguments)

    return await task_calls.run_task(work)


async def slow(task, arguments):
    await anyio.sleep(arguments.get("secs", 0))
    print("EFFECT", task.task_id, flush=True)
    return said("done")


async def ask(task, arguments):
    answers = [
        await task.elicit(message=f"question {number}", requestedSchema=FORM) for number in range(arguments.get("n", 1))
    ]
    return said(", ".join(f"{answer.action} {answer.content}" for answer in answers))


async def boom(_task, _arguments):
    raise RuntimeError("kaboom")


async def iserr(_task, _arguments):
    return said("the tool says no", is_error=True)


TOOLS = {"slow": slow, "ask": ask, "boom": boom, "iserr": iserr}


def said(text, *, is_error=False):
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], isError=is_error)


def main():
    sessions = StreamableHTTPSessionManager(app=server)

    @contextlib.asynccontextmanager
    async def lifespan(_app):
        async with sessions.run():
            yield

    app = Starlette(routes=[Mount("/mcp", app=sessions.handle_request)], lifespan=lifespan)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")


if __name__ == "__main__":
    main()
