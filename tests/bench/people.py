"""What a person waits for while fifty thousand operations are in flight and the poller works without rest.

`python -m tests.bench.people watch WS PRESSES` opens the sockets, presses cancel, and tells when each was heard of.
"""

import asyncio
import contextlib
import json
import socket
import statistics
import sys
import time

from tests.bench.ground import soon
from tests.bench.table import Line

IN_FLIGHT, SOCKETS, GAP_S = 50_000, 100, 0.25


def percentile(values, share):
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


def seed(url):
    """Make the operations, and a person who sees them all; tell the person's session."""
    import django

    django.setup()
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.sessions.backends.db import SessionStore

    from tests.bench import seeds
    from tests.console import factories as make

    seeds.server("bench", url + "/mcp", max_qps=2_000)
    seeds.operations("bench", IN_FLIGHT, due="now() - random() * interval '1 minute'")
    seeds.analyse()
    person = make.person("olga", "operator", "approver")
    session = SessionStore()
    session[SESSION_KEY] = str(person.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = person.get_session_auth_hash()
    session.save()
    print(json.dumps({"session": session.session_key}))


async def watch(url, session, presses):
    import django

    django.setup()
    import logging

    logging.disable(logging.WARNING)
    from websockets.asyncio.client import connect

    heard, committed, pressed = {}, {}, {}
    headers = {"Cookie": f"sessionid={session}"}
    origin = url.replace("ws:", "http:").rpartition("/ws")[0]
    async with contextlib.AsyncExitStack() as held:
        sockets = [
            await held.enter_async_context(connect(url, additional_headers=headers, origin=origin, max_queue=None))
            for _ in range(SOCKETS)
        ]

        async def listen(one):
            async for text in one:
                told = json.loads(text)
                if "op" in told:
                    heard.setdefault(told["op"], []).append(time.monotonic())

        listening = [asyncio.create_task(listen(one)) for one in sockets]
        await asyncio.sleep(2)
        await asyncio.to_thread(_press, presses, committed, pressed)
        await asyncio.sleep(2)
        for one in listening:
            one.cancel()
    told = [
        1e3 * (at - committed[operation])
        for operation in pressed.values()
        for at in sorted(heard.get(operation, ()))[:SOCKETS]
    ]
    print(json.dumps({"told": told, "pressed": {task: committed[f"began {op}"] for task, op in pressed.items()}}))


def _press(presses, committed, pressed):
    """Press cancel here and there; note when each press began and when it was committed."""
    from datetime import UTC, datetime

    from django.db import connection

    from operations import announce, ledger

    moved = announce.moved

    def noted(operation, version):
        committed.setdefault(operation, time.monotonic())
        moved(operation, version)

    announce.moved = noted
    with connection.cursor() as cursor:
        cursor.execute("SELECT id::text, task_id FROM operation ORDER BY call_node LIMIT %s", [presses])
        chosen = cursor.fetchall()
    for operation, task in chosen:
        committed[f"began {operation}"] = time.monotonic()
        ledger.request_cancel(operation, seen_generation=None, by="person:olga", reason="", now=datetime.now(UTC))
        pressed[task] = operation
        time.sleep(GAP_S)
    connection.close()


def lines(ground, quick):
    presses = 20 if quick else 80
    database = ground.database()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with ground.remote() as remote:
        session = ground.child("tests.bench.people", "seed", remote.url, conninfo=database)["session"]
        web = ground.begin(
            "uvicorn", "console.asgi:application", "--port", port, "--log-level", "warning", "--lifespan", "off",
            "--ws", "websockets-sansio", conninfo=database, LONGCALL_DEBUG=1,
        )  # fmt: skip
        soon(lambda: _answers(port))
        poller = ground.begin("tests.bench.limiting", "work", 600, 0, conninfo=database)
        poller.stdout.readline()
        address = f"ws://127.0.0.1:{port}/ws/live"
        told = ground.child("tests.bench.people", "watch", address, session, presses, conninfo=database)
        cancels = remote.ask("/log")["cancels"]
        for one in (poller, web):
            one.kill()
            one.wait()
    ground.drop(database)
    sent = [1e3 * (cancels[task] - began) for task, began in told["pressed"].items() if task in cancels]
    under = f"{IN_FLIGHT:,} in flight"
    yield Line(
        "T10",
        f"commit to browser, {SOCKETS} sockets, {under}, p99 ms",
        (percentile(told["told"], 0.99),),
        "50",
        ceiling=50,
    )
    yield Line("", f"commit to browser, {SOCKETS} sockets, {under}, p50 ms", (statistics.median(told["told"]),))
    yield Line("", f"cancel pressed to request sent, {under}, p50 ms", (statistics.median(sent),))
    yield Line("", f"cancel pressed to request sent, {under}, p99 ms", (percentile(sent, 0.99),))


def _answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


if __name__ == "__main__":
    if sys.argv[1] == "seed":
        seed(sys.argv[2])
    else:
        asyncio.run(watch(sys.argv[2], sys.argv[3], int(sys.argv[4])))
