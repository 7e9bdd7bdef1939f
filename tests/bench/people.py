"""What a person waits for while fifty thousand operations are in flight and the poller works without rest.

The poll load (a worker, its backends, the tool server) keeps one core; what people wait for has the other.

`python -m tests.bench.people watch ADDRESS SESSION REMOTE ROUNDS EACH` is one person, with a crowd beside: in each
round it presses cancel here and there and makes servers ask, and tells when each was committed, heard of, sent, shown.
"""

import asyncio
import contextlib
import json
import os
import socket
import statistics
import sys
import time
import uuid

from console.ground.processes import UVICORN
from tests.bench.ground import Remote, soon
from tests.bench.table import Line

IN_FLIGHT, INTERVAL_S, SOCKETS, GAP_S = 50_000, 50, 100, 0.25
PATIENCE_S = 30.0
FORM = 'id="answer"'
POLLER = "bench_poller"
CORES = (0, 1)
"""The poll load's, and everybody else's."""


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

    seeds.server("bench", url + "/fast/mcp", max_qps=2_000, poll_floor_ms=INTERVAL_S * 1_000)
    seeds.operations("bench", IN_FLIGHT, due=f"now() + random() * interval '{INTERVAL_S} s'")
    seeds.analyse()
    person = make.person("olga", "operator", "approver")
    session = SessionStore()
    session[SESSION_KEY] = str(person.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = person.get_session_auth_hash()
    session.save()
    print(json.dumps({"session": session.session_key}))


class Person:
    """One person's browser: it clicks, and opens a form as soon as it hears of something that asks."""

    def __init__(self, address, session):
        self._address, self._session = address, session
        self.asked, self.shown, self._opening = set(), {}, set()

    @contextlib.asynccontextmanager
    async def present(self):
        import httpx

        from tests.bench.crowd import Browser

        browser = Browser(self._address, self._session)
        browser.open()
        loop, headers = asyncio.get_running_loop(), {"Cookie": f"sessionid={self._session}"}
        async with httpx.AsyncClient(
            base_url=self._address, headers=headers, trust_env=False, timeout=PATIENCE_S
        ) as self._pages:
            loop.add_reader(browser.socket, self._hear, browser)
            yield
            loop.remove_reader(browser.socket)
            browser.socket.close()

    def _hear(self, browser):
        for _, _, told in browser.hear():
            if told["op"] in self.asked - self.shown.keys():
                opening = asyncio.get_running_loop().create_task(self._open(told["op"]))
                self._opening.add(opening)
                opening.add_done_callback(self._opening.discard)

    async def _open(self, operation):
        answer = await self._pages.get(f"/approvals/{operation}/1/")
        if answer.status_code == 200 and FORM in answer.text:
            self.shown.setdefault(operation, time.time())

    async def press(self, operation):
        """Click on cancel, and look at the page that the click leads to; tell when it was clicked."""
        form = await self._pages.get(f"/operations/{operation}/cancel/")
        token = form.cookies.get("csrftoken") or self._pages.cookies["csrftoken"]
        told = {"kind": "need", "reason": "The bench no longer needs it.", "seen_generation": 0}
        began = time.time()
        cookies = f"sessionid={self._session}; csrftoken={token}"
        answer = await self._pages.post(
            f"/operations/{operation}/cancel/", data=told, headers={"X-CSRFToken": token, "Cookie": cookies}
        )
        if answer.status_code != 302:
            raise RuntimeError(f"a cancel was answered with {answer.status_code}")
        await self._pages.get(answer.headers["Location"])
        await asyncio.sleep(GAP_S)
        return began

    async def stamps(self):
        """When each commit returned in the site, and when the site itself heard of it."""
        return (await self._pages.get("/bench/stamps")).json()


class Crowd:
    """The hundred browsers, in a process of their own."""

    def __init__(self, address, session):
        self._words = ("-m", "tests.bench.crowd", address, session, str(SOCKETS))

    @contextlib.asynccontextmanager
    async def present(self):
        pipe = asyncio.subprocess.PIPE
        self._played = await asyncio.create_subprocess_exec(
            sys.executable, *self._words, stdin=pipe, stdout=pipe, limit=2**26
        )
        try:
            await self._played.stdout.readline()
            yield
        finally:
            self._played.kill()
            await self._played.wait()

    async def told(self, moves):
        """Of each (operation, version): by socket, when it or a later version came, and when that was read."""
        self._played.stdin.write(b"\n")
        heard = json.loads(await self._played.stdout.readline())
        return {(operation, version): _first(heard.get(operation, {}), version) for operation, version in moves}

    async def all_told(self, moves):
        """As above, once every socket has heard of every one."""
        ends = time.monotonic() + PATIENCE_S
        while True:
            told = await self.told(moves)
            if all(len(at) == SOCKETS for at in told.values()):
                return told
            if time.monotonic() > ends:
                raise TimeoutError("not every socket has heard of it")
            await asyncio.sleep(0.2)


def _first(heard, version):
    first = {}
    for its_version, told in heard.items():
        for number, came, read in told:
            if int(its_version) >= version and came < first.get(number, (float("inf"),))[0]:
                first[number] = (came, read)
    return first


async def watch(address, session, remote, rounds, each):
    import django

    django.setup()
    import logging

    logging.disable(logging.WARNING)
    person, crowd, told = Person(address, session), Crowd(address, session), []
    chosen = await asyncio.to_thread(_choose, 2 * (rounds + 1) * each)
    async with person.present(), crowd.present():
        await _all_listening(crowd)
        for number in range(rounds + 1):  # the first one warms the pages up, and counts for nothing
            mine = chosen[2 * number * each : 2 * (number + 1) * each]
            told.append(await _round(person, crowd, remote, mine[:each], mine[each:]))
    print(json.dumps({"rounds": told[1:]}))


async def _round(person, crowd, remote, to_cancel, to_ask):
    clicked = {task: await person.press(operation) for operation, task in to_cancel}
    began = {}
    for operation, task in to_ask:
        person.asked.add(operation)
        began[operation] = await asyncio.to_thread(_ask, remote, operation, task)
        await asyncio.sleep(GAP_S)
    await _until(lambda: person.shown.keys() >= began.keys())
    stamps = await person.stamps()
    mine, moves = {operation for operation, _ in to_cancel}, {}
    for move, at in stamps["committed"].items():
        operation, version = move.split()
        if operation in mine:
            moves[operation, int(version)] = (at, stamps["heard"].get(move, at))
    told = await crowd.all_told(moves)
    return {
        "heard": [1e3 * (heard - at) for at, heard in moves.values()],
        "came": [1e3 * (came - moves[move][0]) for move, at in told.items() for came, _ in at.values()],
        "read": [1e3 * (read - moves[move][0]) for move, at in told.items() for _, read in at.values()],
        "clicked": clicked,
        "shown": [1e3 * (person.shown[one] - at) for one, at in began.items()],
    }


async def _all_listening(crowd):
    """Announce something until every socket has heard of it: before, a move may be told to some of them only."""
    mark, ends, version = str(uuid.uuid4()), time.monotonic() + PATIENCE_S, 0
    while len((await crowd.told([(mark, 1)]))[mark, 1]) < SOCKETS:
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
        raise TimeoutError("not everybody saw the form")


def _choose(count):
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT id::text, task_id FROM operation ORDER BY call_node LIMIT %s", [count])
        return cursor.fetchall()


def _ask(remote, operation, task):
    """Make the server ask for input, and hint at it as a push would (P7); tell when it began to ask."""
    from datetime import UTC, datetime

    from django.db import connection

    from operations import ledger

    Remote(remote).ask(f"/ask/{task}")
    began = time.time()
    ledger.nudge(operation, now=datetime.now(UTC))
    connection.close()
    return began


class Load:
    """The poll load, on a core of its own: a worker as the product runs it, its backends, and the tool server."""

    def __init__(self, ground, remote, database):
        import psutil

        self._ground, self._remote, self._database = ground, remote, database
        own = f"{database} application_name={POLLER}"
        self._worker = ground.begin("tests.bench.limiting", "work", 600, 0, conninfo=own)
        # Before it has a thread: each of them comes to where the one was that made it.
        self._processes = [psutil.Process(self._worker.pid), psutil.Process(remote.pid)]
        self._pin(self._processes, CORES[0])
        self._worker.stdout.readline()
        self._held = {}

    def settle(self, others):
        """Pin what has come up by now, the others to the other core."""
        import psutil
        import psycopg

        with psycopg.connect(self._database, autocommit=True) as asked:
            rows = asked.execute("SELECT pid FROM pg_stat_activity WHERE application_name = %s", [POLLER]).fetchall()
        backends = [psutil.Process(pid) for (pid,) in rows]
        self._pin(backends, CORES[0])
        self._pin([psutil.Process(one.pid) for one in others], CORES[1])
        self._processes = self._processes[:2] + backends

    def _pin(self, processes, core):
        import psutil

        if psutil.cpu_count() > max(CORES):
            for one in processes:
                for thread in one.threads():
                    os.sched_setaffinity(thread.id, {core})

    def spent(self):
        """Processor seconds of all of it so far."""
        return sum(sum(one.cpu_times()[:2]) for one in self._processes)

    def end(self):
        self._worker.kill()
        self._worker.wait()


def lines(ground, quick):
    rounds, each = (2, 8) if quick else (5, 20)
    database = ground.database()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with ground.remote() as remote:
        session = ground.child("tests.bench.people", "seed", remote.url, conninfo=database)["session"]
        ground.child("django", "prepare", conninfo=database)
        web = ground.begin("uvicorn", "tests.bench.stamped:application", "--port", port, *UVICORN, conninfo=database)
        soon(lambda: _answers(port))
        load = Load(ground, remote, database)
        time.sleep(2)
        load.settle([web])
        began, spent, came = time.monotonic(), load.spent(), remote.ask("/count")["came"]
        words = ["watch", f"http://127.0.0.1:{port}", session, remote.url, rounds, each]
        told = ground.child("tests.bench.people", *words, conninfo=database)["rounds"]
        lasted = time.monotonic() - began
        share, looks = (load.spent() - spent) / lasted, (remote.ask("/count")["came"] - came) / lasted
        cancels = remote.ask("/log")["cancels"]
        load.end()
        web.kill()
        web.wait()
    ground.drop(database)
    # The tool server's log is by the monotonic clock.
    shift = time.time() - time.monotonic()
    sent = [[1e3 * (cancels[task] + shift - at) for task, at in one["clicked"].items()] for one in told]
    yield from _lines(f"commit to browser, {SOCKETS} sockets", [one["came"] for one in told], name="T10", ceiling=50)
    yield from _lines("  of it until the site itself hears of it", [one["heard"] for one in told])
    yield from _lines("  and until one process has read all sockets", [one["read"] for one in told])
    yield from _lines("cancel clicked to request sent", sent, name="G4")
    yield from _lines("input required at the server to form in the browser", [one["shown"] for one in told], name="T10")
    yield Line("", f"meanwhile the poll load kept so much of its core, at {looks:,.0f} looks/s", (share,))


def _lines(what, rounds, *, name="", ceiling=None):
    """The 99th percentile and the median of each round."""
    shown = f"{what}, {IN_FLIGHT:,} in flight"
    judged = {} if ceiling is None else {"target": str(ceiling), "ceiling": ceiling}
    yield Line(name, f"{shown}, p99 ms", tuple(percentile(one, 0.99) for one in rounds), **judged)
    yield Line(name, f"{shown}, p50 ms", tuple(statistics.median(one) for one in rounds))


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
