"""Our own poller at work: the engine of a worker process, as Celery runs it, over a ledger full of looks that are due.

`python -m tests.bench.ours URL COUNT SECONDS` prints what it cost. CPU is this process and PostgreSQL's.
"""

import json
import logging
import resource
import sys
import time

import django

django.setup()

from django.db import connection  # noqa: E402 - Django is set up first

from operations.engine import engine  # noqa: E402 - as above
from tests.bench import seeds  # noqa: E402 - as above
from tests.bench.ground import Remote, postgres_seconds  # noqa: E402 - as above

WARM_S = 1.5


def main(url, count, seconds):
    logging.disable(logging.WARNING)
    seeds.server("bench", url + "/mcp", max_qps=1_000_000)
    seeds.operations("bench", count, due="now() - random() * interval '1 minute'")
    seeds.analyse()
    remote, worker = Remote(url), engine()
    worker.slice(WARM_S)
    before, own, postgres, started = remote.ask("/count")["came"], time.process_time(), postgres_seconds(), time.time()
    worker.slice(seconds)
    spent = {"own": time.process_time() - own, "postgres": postgres_seconds() - postgres}
    looks = remote.ask("/count")["came"] - before
    spent |= {"looks": looks, "wall": time.time() - started}
    spent["resident"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    worker.stop(5)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM due WHERE lease_until IS NOT NULL")
        spent["leased"] = cursor.fetchone()[0]
    connection.close()
    print(json.dumps(spent))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
