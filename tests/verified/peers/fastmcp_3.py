"""A tool server on PyPI `fastmcp[tasks]` 3.4.11: MCP 2025-11-25, badly behaved.

Runs in an environment of its own: `python fastmcp_3.py PORT`. The tools:

- `slow` (optional): sleeps `secs`, then does its effect.
- `ask` (optional): asks `n` questions one after the other, ends with the answers.
- `sorry` (optional): raises the tool's own error.
- `ask_at_once` (forbidden): asks on the stream of its answer.
- `effects` (forbidden): what happened so far.
"""

import asyncio
import sys

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError

server = FastMCP("peer-fastmcp-3.4.11")
done = []


@server.tool(task=True)
async def slow(secs: float = 0) -> str:
    await asyncio.sleep(secs)
    done.append("slow")
    return "done"


@server.tool(task=True)
async def ask(ctx: Context, n: int = 1) -> str:
    answers = [await ctx.elicit(f"question {number}", response_type=bool) for number in range(n)]
    return ", ".join(f"{answer.action} {getattr(answer, 'data', None)}" for answer in answers)


@server.tool(task=True)
async def sorry() -> str:
    raise ToolError("the tool says no")


@server.tool
async def ask_at_once(ctx: Context) -> str:
    answer = await ctx.elicit("sure?", response_type=bool)
    return str(answer.action)


@server.tool
async def effects() -> list[str]:
    return done


if __name__ == "__main__":
    server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False, log_level="warning")
