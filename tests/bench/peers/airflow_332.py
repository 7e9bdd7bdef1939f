"""Airflow's own polling loop: the coroutine of `HttpEventTrigger`, PyPI `apache-airflow` 3.3.2, fifty on a loop.

Runs in an environment of its own: `python airflow_332.py URL SECONDS`. Its rest between two polls is set to nothing. It
is measured without what a triggerer does beside it: no row in its database, and the function that judges an answer is
handed over, where Airflow loads its module anew for each poll. Both are in its favour.
"""

import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time

AT_ONCE = 50
WARM_S = 0.5
HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2025-11-25",
    "mcp-session-id": "session-1",
    "user-agent": "bare",
}


async def main(url, seconds):
    from airflow.providers.http.triggers.http import HttpEventTrigger

    polls, ends = 0, 0.0

    async def has_ended(response):
        nonlocal polls
        told = response.json()["result"]
        if told["status"] != "working":
            raise ValueError("an answer to something else")
        polls += 1
        return time.monotonic() >= ends

    class Trigger(HttpEventTrigger):
        async def _import_from_response_check_path(self):
            return has_ended

    async def follow(number):
        body = {"jsonrpc": "2.0", "id": number, "method": "tasks/get", "params": {"taskId": f"task-{number}"}}
        trigger = Trigger(
            "given", method="POST", endpoint="mcp", data=json.dumps(body), headers=HEADERS, poll_interval=0
        )
        async with contextlib.aclosing(trigger.run()) as events:
            async for _event in events:
                return

    for duration in (WARM_S, seconds):
        polls, ends = 0, time.monotonic() + duration
        cpu, began = time.process_time(), time.monotonic()
        await asyncio.gather(*(follow(number) for number in range(AT_ONCE)))
        spent = {"own": time.process_time() - cpu, "postgres": 0.0, "looks": polls, "wall": time.monotonic() - began}
    print(json.dumps(spent), flush=True)


with tempfile.TemporaryDirectory(prefix="longcall-airflow-") as home:
    # Read when Airflow is imported: where it keeps its settings, and the one server that it knows.
    os.environ |= {"AIRFLOW_HOME": home, "AIRFLOW_CONN_HTTP_DEFAULT": sys.argv[1]}
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
