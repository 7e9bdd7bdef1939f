"""A server's limit, over eight workers together: never above it, nearly all of it used, and silence while it says so.

`python -m tests.bench.limiting SECONDS JUMPS` is one worker; with JUMPS its machine's clock is an hour wrong, and
jumps. The judge is the server's own log of arrivals.
"""

import os
import signal
import sys
import time
from bisect import bisect_right
from datetime import datetime, timedelta

from tests.bench.table import Line

WORKERS, JUMPY, LIMIT = 8, 3, 200
RETRY_AFTER_S, REACH_S = 2.0, 0.3
SECOND = 1.0
PARTS = 5


class JumpingDatetime(datetime):
    """A wall clock that nobody should trust."""

    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) + timedelta(hours=1 if int(time.monotonic()) % 4 < 2 else -1)


def work(seconds, jumps):
    """Run slices as a worker process does, until the time is over."""
    import logging

    import django

    django.setup()
    logging.disable(logging.WARNING)
    from operations import engine

    if jumps:
        engine.datetime = JumpingDatetime
    ends, worker = time.monotonic() + seconds, engine.engine()
    print("ready", flush=True)
    while time.monotonic() < ends:
        worker.slice(1.0)
    worker.stop(3)


def seed(url):
    import django

    django.setup()
    from tests.bench import seeds

    seeds.server("bench", url + "/mcp", max_qps=LIMIT)
    seeds.operations("bench", 50_000, due="now() - random() * interval '1 minute'")
    seeds.analyse()
    print("{}")


def fullest(came):
    """The most arrivals in any second that begins with one of them."""
    return max((bisect_right(came, at + SECOND - 1e-9) - number for number, at in enumerate(came)), default=0)


def lines(ground, quick):
    seconds, closings = (14, 2) if quick else (40, 5)
    database = ground.database()
    with ground.remote("--retry-after", RETRY_AFTER_S) as remote:
        ground.child("tests.bench.limiting", "seed", remote.url, conninfo=database)
        told = _under_faults(ground, remote, database, seconds, closings)
    ground.drop(database)
    came, refused = told["came"], told["refused"]
    used = tuple(_shares(came, told["calm_from"], told["calm_to"]))
    what = f"most requests in any second / the limit of {LIMIT}: {WORKERS} workers, 429s, kills, clocks that jump"
    yield Line("T8", what, (fullest(came) / LIMIT,), "1.00", ceiling=1.0)
    yield Line("T8", "share of the limit that is used while work is due", used, "0.9", 0.9)
    late = tuple(_after(refused, came, began) for began in told["closed"])
    what = f"requests from {REACH_S} s after the first 429 until Retry-After has passed"
    yield Line("T11", what, late, "0", ceiling=0)
    yield Line(
        "", "requests in the first 0.3 s after a 429", tuple(_at_once(refused, began) for began in told["closed"])
    )


def _shares(came, begins, ends):
    """The share of the limit that was used, in each part of the calm time."""
    long = (ends - begins) / PARTS
    for number in range(PARTS):
        starts = begins + number * long
        yield sum(starts <= at < starts + long for at in came) / long / LIMIT


def _first(refused, began):
    return next((at for at in refused if at >= began), None)


def _after(refused, came, began):
    first = _first(refused, began)
    if first is None:
        return 0
    return sum(first + REACH_S < at < first + RETRY_AFTER_S - 0.05 for at in came)


def _at_once(refused, began):
    first = _first(refused, began)
    return 0 if first is None else sum(first <= at <= first + REACH_S for at in refused)


def _under_faults(ground, remote, database, seconds, closings):
    def start(number):
        return ground.begin("tests.bench.limiting", "work", 600, int(number < JUMPY), conninfo=database)

    workers = [start(number) for number in range(WORKERS)]
    for worker in workers:
        worker.stdout.readline()
    time.sleep(2)
    calm_from = remote.ask("/log")["now"]
    time.sleep(seconds / 3)
    calm_to = remote.ask("/log")["now"]
    closed = []
    for number in range(closings):
        closed.append(remote.ask("/close")["now"])
        victim = number % WORKERS
        os.kill(workers[victim].pid, signal.SIGKILL)
        workers[victim].wait()
        workers[victim] = start(victim)
        time.sleep(2 / 3 * seconds / closings)
    told = remote.ask("/log")
    for worker in workers:
        worker.kill()
        worker.wait()
    return told | {"calm_from": calm_from, "calm_to": calm_to, "closed": closed}


if __name__ == "__main__":
    if sys.argv[1] == "seed":
        seed(sys.argv[2])
    else:
        work(float(sys.argv[2]), sys.argv[3] == "1")
