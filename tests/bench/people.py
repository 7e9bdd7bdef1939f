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
import uuid
from functools import partial

from tests.bench.ground import Remote, soon
from tests.bench.table import Line

IN_FLIGHT, SOCKETS, GAP_S = 50_000, 100, 0.25
PATIENCE_S = 30.0
FORM = 'id="answer"'
TEXT, PING, PONG, FINAL, MASKED, LONGER = 0x1, 0x9, 0xA, 0x80, 0x80, 126
"""Of RFC 6455."""


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


class Browser(asyncio.Protocol):
    """One socket, read as it comes with next to no work: what is measured is the product, not who measures."""

    def __init__(self, request, heard):
        self._request, self._heard, self._held, self._is_open = request, heard, b"", False
        self.opened = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data):
        at = time.monotonic()
        self._held += data
        if not self._is_open:
            head, found, rest = self._held.partition(b"\r\n\r\n")
            if not found:
                return
            if b" 101 " not in head.split(b"\r\n", 1)[0]:
                self.opened.set_exception(ConnectionError(head.decode("latin-1")))
                return
            self._is_open, self._held = True, rest
            self.opened.set_result(None)
        while (frame := self._frame()) is not None:
            kind, told = frame
            if kind == TEXT:
                self._heard(told, at)
            elif kind == PING:
                # A client masks what it sends; with zeros, that changes nothing.
                self._transport.write(bytes([FINAL | PONG, MASKED | len(told)]) + bytes(4) + told)

    def _frame(self):
        """Take one whole frame off what is held: its kind and what it says; None where it is not whole yet."""
        if len(self._held) < 2:
            return None
        begins, size = 2, self._held[1]
        if size == LONGER:
            begins, size = 4, int.from_bytes(self._held[2:4], "big")
        if len(self._held) < begins + size:
            return None
        kind, told = self._held[0] & 0x0F, self._held[begins : begins + size]
        self._held = self._held[begins + size :]
        return kind, told


class Browsers:
    """A hundred browsers on one page each, and one of them that opens the form as soon as there is one."""

    def __init__(self, address, session):
        self._address, self._session = address, session
        self.heard = {}
        """By operation and version: when each socket heard of it."""
        self.asked, self.shown, self._opening = set(), {}, set()

    @contextlib.asynccontextmanager
    async def watching(self):
        import httpx

        headers, host = {"Cookie": f"sessionid={self._session}"}, self._address.partition("//")[2]
        request = (
            f"GET /ws/live HTTP/1.1\r\nHost: {host}\r\nOrigin: {self._address}\r\nCookie: {headers['Cookie']}\r\n"
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        ).encode()
        name, port = host.split(":")
        async with httpx.AsyncClient(
            base_url=self._address, headers=headers, trust_env=False, timeout=PATIENCE_S
        ) as self._pages:
            made = [
                await asyncio.get_running_loop().create_connection(
                    partial(Browser, request, partial(self._hear, number)), name, int(port)
                )
                for number in range(SOCKETS)
            ]
            for _, browser in made:
                await browser.opened
            yield
            for transport, _ in made:
                transport.abort()

    def _hear(self, number, text, at):
        if not text.startswith(b'{"op"'):
            return
        told = json.loads(text)
        self.heard.setdefault(told["op"], {}).setdefault(told["v"], {}).setdefault(number, at)
        if number == 0 and told["op"] in self.asked - self.shown.keys():
            opening = asyncio.get_running_loop().create_task(self._open(told["op"]))
            self._opening.add(opening)
            opening.add_done_callback(self._opening.discard)

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
    rounds += 1  # the first one warms the pages up, and counts for nothing
    chosen = await asyncio.to_thread(_choose, 2 * rounds * each)
    async with browsers.watching():
        await _all_listening(browsers)
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
    print(json.dumps({"rounds": told[1:]}))


async def _all_listening(browsers):
    """Announce something until every socket has heard of it: before, a move may be told to some of them only."""
    mark, ends, version = str(uuid.uuid4()), time.monotonic() + PATIENCE_S, 0
    while len(browsers.told(mark, 0.0)) < SOCKETS:
        if time.monotonic() > ends:
            raise TimeoutError("not every socket listens")
        version += 1
        await asyncio.to_thread(_announce, mark, version)
        await asyncio.sleep(0.2)


def _announce(operation, version):
    from django.db import connection

    from operations import announce

    announce.moved(operation, version)
    connection.close()


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
