"""A claim of fifty and its write-back, out of a thousand operations in flight and out of a million.

What is measured is CPU, ours and that of our connection at the server: a busy machine changes wall clocks, and the
sizes are measured one after the other.

`python -m tests.bench.claiming WORST ENDED CHURN HELD`: the largest number in flight, how many have ended beside them,
how many looks make the table old, and how many are made while an old snapshot is held. What makes a snapshot old is not
its minutes but the row versions that nobody may clear away for it: ten minutes at T1's two thousand looks a second are
1.2 million. Each of the two is ended after AGEING_S, and the line says how many looks it came to.
"""

import json
import statistics
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import django

django.setup()

import psycopg  # noqa: E402 - Django is set up first
from django.db import connection  # noqa: E402 - as above

from operations import ledger  # noqa: E402 - as above
from tests.bench import seeds  # noqa: E402 - as above
from tests.bench.table import Line  # noqa: E402 - as above

BATCH, ROUNDS, MEASURED, WARM = 50, 5, 40, 15
SIZES = (1_000, 10_000, 100_000, 1_000_000)
FULL = (1_000_000, 10_000_000, 1_000_000, 1_200_000)
QUICK = (100_000, 100_000, 50_000, 50_000)
AGEING = 500
"""Looks of one claim where only the age of the table counts."""
AGEING_S = 150
HOUR = 3600  # seconds for the child that fills the tables


def spent():
    """Seconds of CPU, ours and the server's for us, to the nanosecond where the server is idle."""
    backend = connection.connection.info.backend_pid
    return time.thread_time() + int(Path(f"/proc/{backend}/schedstat").read_text().split()[0]) / 1e9


def cycle(batch=BATCH):
    """Claim and give back, due again at once; return the milliseconds of both."""
    begun = spent()
    works = ledger.claim(limit=batch, now=datetime.now(UTC))
    claimed = spent()
    again = datetime.now(UTC)
    ledger.unchanged(
        [
            ledger.Unchanged(operation=work.row.id, look=work.ticket.look, next_at=again, place=work.place)
            for work in works
        ]
    )
    ended = spent()
    if len(works) != batch:
        raise RuntimeError(f"{len(works)} claimed instead of {batch}")
    return 1e3 * (claimed - begun), 1e3 * (ended - claimed)


def measured():
    """The medians of claim and write-back, one of each for each round."""
    for _ in range(WARM):
        cycle()
    told = {"claim": [], "write": []}
    for _ in range(ROUNDS):
        claims, writes = zip(*(cycle() for _ in range(MEASURED)), strict=True)
        told["claim"].append(statistics.median(claims))
        told["write"].append(statistics.median(writes))
    return told


def aged(looks):
    """Look so often, or for as long as it may take; give how often it was."""
    ends, done = time.monotonic() + AGEING_S, 0
    while done < looks and time.monotonic() < ends:
        cycle(AGEING)
        done += AGEING
    return done


def main(worst, ended, churn, held):
    told, at = {}, 0
    seeds.server("bench", "http://127.0.0.1:9/mcp", max_qps=1_000_000)
    seeds.shed_indexes()
    for size in (size for size in SIZES if size <= worst):
        if size == worst:
            seeds.operations("bench", ended, first=100_000_000, state="ACCEPTED", terminal="completed", due=None)
        seeds.operations("bench", size - at, first=at, due="now() - random() * interval '1 minute'")
        at = size
        seeds.analyse()
        told[str(size)] = measured()
    conninfo = connection.get_connection_params()
    with psycopg.connect(dbname=conninfo["dbname"], user=conninfo["user"], host=conninfo["host"]) as old:
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM due")
        told["looks_held"] = aged(held)
        told["held"] = measured()
    seeds.analyse("due", "server")
    told["looks_churned"] = aged(churn)
    told["churned"] = measured()
    connection.close()
    print(json.dumps(told))


def lines(ground, quick):
    worst, ended, churn, held = QUICK if quick else FULL
    database = ground.database()
    told = ground.child("tests.bench.claiming", worst, ended, churn, held, conninfo=database, patience=HOUR)
    ground.drop(database)
    small, large = told["1000"], told[str(worst)]
    for size in SIZES:
        if str(size) in told:
            each = told[str(size)]
            yield Line("", f"claim of {BATCH}, ms of CPU, {size:,} in flight", tuple(each["claim"]))
            what = f"write-back of {BATCH} unchanged looks, ms of CPU, {size:,} in flight"
            yield Line("", what, tuple(each["write"]))
    what = f"claim of {BATCH}, p50: {worst:,} in flight and {ended:,} ended / 1,000 in flight"
    yield Line("T5", what, _over(large, small), "1.5", ceiling=1.5)
    what = f"claim of {BATCH}, p50: after {told['looks_held']:,} looks under a held snapshot / without"
    yield Line("T5", what, _over(told["held"], large), "3", ceiling=3)
    yield Line(
        "T5", f"claim of {BATCH}, p50: after {told['looks_churned']:,} looks / before", _over(told["churned"], large)
    )


def _over(one, other):
    """The rounds of one over the median of the other: they were not measured at the same time."""
    return tuple(each / statistics.median(other["claim"]) for each in one["claim"])


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
