"""The least that a poll can be: a loop that asks and reads, and keeps nothing.

`python -m tests.bench.bare KIND URL SECONDS`, where KIND is
`httpx`: one client as a careful user sets it up: ten connections, no environment, bytes in and out.
`kept`: our own transport under httpx's API, without wire, adapter or ledger.
"""

import asyncio
import itertools
import json
import sys
import time

import httpx

AT_ONCE = 50
CONNECTIONS = 10
WARM_S = 0.5
HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2025-11-25",
    "mcp-session-id": "session-1",
    "user-agent": "bare",
}
NUMBERS = itertools.count(1)


def body():
    number = next(NUMBERS)
    told = {"jsonrpc": "2.0", "id": number, "method": "tasks/get", "params": {"taskId": f"task-{number}"}}
    return number, json.dumps(told).encode()


def check(number, raw):
    told = json.loads(raw)
    if told["id"] != number or told["result"]["status"] != "working":
        raise ValueError("an answer to something else")


async def by_httpx(url):
    limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
    client = httpx.AsyncClient(trust_env=False, limits=limits, headers=HEADERS, timeout=None)

    async def ask():
        number, content = body()
        check(number, (await client.post(url, content=content)).content)

    return ask


async def by_kept(url):
    from adapters import pools

    transport = pools.KeptTransport(tls=httpx.create_ssl_context(trust_env=False), allow_private=True)

    async def note(_event, _info):
        return None

    extensions = {"trace": note, "timeout": {"connect": 5.0, "pool": 5.0}}

    async def ask():
        number, content = body()
        request = httpx.Request("POST", url, headers=HEADERS, content=content, extensions=extensions)
        response = await transport.handle_async_request(request)
        check(number, await response.aread())
        await response.aclose()

    return ask


async def main(kind, url, seconds):
    ask = await {"httpx": by_httpx, "kept": by_kept}[kind](url)
    polls, ends = 0, 0.0

    async def go_on():
        nonlocal polls
        while time.monotonic() < ends:
            await ask()
            polls += 1

    for duration in (WARM_S, seconds):
        polls, ends = 0, time.monotonic() + duration
        cpu, began = time.process_time(), time.monotonic()
        await asyncio.gather(*(go_on() for _ in range(AT_ONCE)))
    spent = {"own": time.process_time() - cpu, "postgres": 0.0, "looks": polls, "wall": time.monotonic() - began}
    print(json.dumps(spent))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2] + "/mcp", float(sys.argv[3])))
