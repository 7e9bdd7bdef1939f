"""What a person waits for while fifty thousand operations are in flight and the poller works without rest.

`python -m tests.bench.people watch WS SESSION REMOTE ROUNDS EACH` opens the sockets; in each round it presses cancel
here and there and makes servers ask, and tells when each was heard of, sent, and shown.
"""

import asyncio
import contextlib
import json
import socket
import statistics
import sys
import time

from tests.bench.ground import Remote, soon
from tests.bench.table import Line

IN_FLIGHT, SOCKETS, GAP_S = 50_000, 100, 0.25
PATIENCE_S = 30.0
FORM = 'id="answer"'


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


class Browsers:
    """A hundred browsers on one page each, and one of them that opens the form as soon as there is one."""

    def __init__(self, address, session):
        self._address, self._session = address, session
        self.heard = {}
        """By operation and version: when each socket heard of it."""
        self.asked, self.shown = set(), {}

    @contextlib.asynccontextmanager
    async def watching(self):
        import httpx
        from websockets.asyncio.client import connect

        headers = {"Cookie": f"sessionid={self._session}"}
        async with contextlib.AsyncExitStack() as held:
            self._pages = await held.enter_async_context(
                httpx.AsyncClient(base_url=self._address, headers=headers, trust_env=False, timeout=PATIENCE_S)
            )
            address = self._address.replace("http:", "ws:") + "/ws/live"
            options = {"additional_headers": headers, "origin": self._address, "max_queue": None}
            sockets = [await held.enter_async_context(connect(address, **options)) for _ in range(SOCKETS)]
            listening = [asyncio.create_task(self._listen(number, one)) for number, one in enumerate(sockets)]
            yield
            for one in listening:
                one.cancel()

    async def _listen(self, number, one):
        opening = set()
        async for text in one:
            told = json.loads(text)
            if "op" not in told:
                continue
            self.heard.setdefault(told["op"], {}).setdefault(told["v"], {}).setdefault(number, time.monotonic())
            if number == 0 and told["op"] in self.asked - self.shown.keys():
                opening.add(asyncio.create_task(self._open(told["op"])))

    async def _open(self, operation):
        answer = await self._pages.get(f"/approvals/{operation}/1/")
        if answer.status_code == 200 and FORM in answer.text:
            self.shown.setdefault(operation, time.monotonic())

    def told(self, operation, since):
        """Milliseconds from a moment until each socket heard of a version of the operation that came after it."""
        first = {}
        for at_sockets in self.heard.get(operation, {}).values():
            for number, at in at_sockets.items():
                if at >= since:
                    first[number] = min(at, first.get(number, at))
        return [1e3 * (at - since) for at in first.values()]


async def watch(address, session, remote, rounds, each):
    import django

    django.setup()
    import logging

    logging.disable(logging.WARNING)
    browsers, told = Browsers(address, session), []
    chosen = await asyncio.to_thread(_choose, 2 * rounds * each)
    async with browsers.watching():
        await asyncio.sleep(2)
        for number in range(rounds):
            mine = chosen[2 * number * each : 2 * (number + 1) * each]
            pressed = await asyncio.to_thread(_press, mine[:each])
            began = {}
            for operation, task in mine[each:]:
                browsers.asked.add(operation)
                began[operation] = await asyncio.to_thread(_ask, remote, operation, task)
            await _until(lambda began=began: browsers.shown.keys() >= began.keys())
            await _until(lambda pressed=pressed: all(
                len(browsers.told(one["operation"], one["committed"])) == SOCKETS for one in pressed
            ))  # fmt: skip
            told.append(
                {
                    "told": [ms for one in pressed for ms in browsers.told(one["operation"], one["committed"])],
                    "pressed": {one["task"]: one["began"] for one in pressed},
                    "shown": [1e3 * (browsers.shown[one] - at) for one, at in began.items() if one in browsers.shown],
                }
            )
    print(json.dumps({"rounds": told}))


async def _until(holds):
    ends = time.monotonic() + PATIENCE_S
    while not holds() and time.monotonic() < ends:  # noqa: ASYNC110 - two things at once, in three processes
        await asyncio.sleep(0.05)
    if not holds():
        raise TimeoutError("not everybody heard of it, or saw the form")


def _choose(count):
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT id::text, task_id FROM operation ORDER BY call_node LIMIT %s", [count])
        return cursor.fetchall()


def _press(chosen):
    """Press cancel here and there; note when each press began and when it was committed."""
    from datetime import UTC, datetime
    from unittest import mock

    from django.db import connection

    from operations import announce, ledger

    committed, moved, pressed = {}, announce.moved, []

    def noted(operation, version):
        committed.setdefault(operation, time.monotonic())
        moved(operation, version)

    with mock.patch.object(announce, "moved", noted):
        for operation, task in chosen:
            began = time.monotonic()
            ledger.request_cancel(operation, seen_generation=None, by="person:olga", reason="", now=datetime.now(UTC))
            pressed.append({"operation": operation, "task": task, "began": began, "committed": committed[operation]})
            time.sleep(GAP_S)
    connection.close()
    return pressed


def _ask(remote, operation, task):
    """Make the server ask for input, and hint at it as a push would (P7); tell when it began to ask."""
    from datetime import UTC, datetime

    from django.db import connection

    from operations import ledger

    began = Remote(remote).ask(f"/ask/{task}")["now"]
    ledger.nudge(operation, now=datetime.now(UTC))
    connection.close()
    time.sleep(GAP_S)
    return began


def lines(ground, quick):
    rounds, each = (2, 8) if quick else (5, 20)
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
        words = ["watch", f"http://127.0.0.1:{port}", session, remote.url, rounds, each]
        told = ground.child("tests.bench.people", *words, conninfo=database)["rounds"]
        cancels = remote.ask("/log")["cancels"]
        for one in (poller, web):
            one.kill()
            one.wait()
    ground.drop(database)
    sent = [[1e3 * (cancels[task] - at) for task, at in one["pressed"].items() if task in cancels] for one in told]
    yield from _lines(f"commit to browser, {SOCKETS} sockets", [one["told"] for one in told], name="T10", ceiling=50)
    yield from _lines("cancel pressed to request sent", sent)
    yield from _lines("input required at the server to form in the browser", [one["shown"] for one in told])


def _lines(what, rounds, *, name="", ceiling=None):
    """The 99th percentile and the median of each round."""
    shown = f"{what}, {IN_FLIGHT:,} in flight"
    judged = {} if ceiling is None else {"target": str(ceiling), "ceiling": ceiling}
    yield Line(name, f"{shown}, p99 ms", tuple(percentile(one, 0.99) for one in rounds), **judged)
    yield Line("", f"{shown}, p50 ms", tuple(statistics.median(one) for one in rounds))


def _answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


if __name__ == "__main__":
    if sys.argv[1] == "seed":
        seed(sys.argv[2])
    else:
        address, session, remote, *numbers = sys.argv[2:]
        asyncio.run(watch(address, session, remote, *map(int, numbers)))
