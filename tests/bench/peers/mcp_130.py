"""The official Python SDK's own polling loop: `poll_task` of PyPI `mcp` 1.30.0, fifty tasks on one session.

Runs in an environment of its own: `python mcp_130.py URL SECONDS`. The server answers at an interval of 0, so the loop
never rests.
"""

import json
import sys
import time

import anyio
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamablehttp_client

AT_ONCE = 50
WARM_S = 0.5


async def main(url, seconds):
    polls, ends = 0, 0.0

    async def follow(session, number):
        nonlocal polls
        async for _ in session.experimental.poll_task(f"task-{number}"):
            polls += 1
            if time.monotonic() >= ends:
                return

    async with streamablehttp_client(url + "/fast/mcp") as (reads, writes, _), ClientSession(reads, writes) as session:
        await session.initialize()
        for duration in (WARM_S, seconds):
            polls, ends = 0, time.monotonic() + duration
            cpu, began = time.process_time(), time.monotonic()
            async with anyio.create_task_group() as tasks:
                for number in range(AT_ONCE):
                    tasks.start_soon(follow, session, number)
            spent = {"own": time.process_time() - cpu, "postgres": 0.0, "looks": polls}
            spent["wall"] = time.monotonic() - began
        print(json.dumps(spent), flush=True)


anyio.run(main, sys.argv[1], float(sys.argv[2]))
