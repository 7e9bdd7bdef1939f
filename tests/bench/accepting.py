"""How many operations end per second: `accept_terminal` by the ledger, and the same statements by pgbench.

`python -m tests.bench.accepting seed COUNT`, `capture`, and `accept FIRST COUNT THREADS TOGETHER` work on one database.
pgbench sends what the ledger sent for one operation, each statement by itself and prepared, as fast as C can; also
where the ledger accepts many together.
"""

import json
import os
import re
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

from tests.bench.table import Line

GOOD = b'{"content":[{"type":"text","text":"done"}],"isError":false}'
CONNECTIONS = (1, 2, 8)
THREADS = 4
"""Database threads of one worker process."""
PROCESSES = 2
"""Worker processes that accept many together."""
MOST = 50
"""As `operations.endings.MOST`."""


def seed(count):
    from django.db import connection

    from adapters import strictjson
    from tests.bench import seeds

    seeds.server("bench", "http://127.0.0.1:9/mcp", max_qps=1_000_000)
    seeds.operations("bench", count, state="FETCHING_RESULT", terminal="completed")
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(
            "UPDATE operation SET result_digest = %s, protocol_status = 'completed', evidence_count = 1, fetches = 1",
            [strictjson.digest(GOOD)],
        )
        cursor.execute(
            """WITH made AS (INSERT INTO evidence (operation_id, seq, at, kind, label, summary, epoch, look, media_type,
                    complete, request, digest, size)
                SELECT id, 1, now(), 'result', 'result', '', 1, 1, '', true, '', %s, %s FROM operation RETURNING id)
            INSERT INTO evidence_payload (evidence_id, raw) SELECT id, %s FROM made""",
            [strictjson.digest(GOOD), len(GOOD), GOOD],
        )
        cursor.execute("SET session_replication_role = origin")
        cursor.execute("CREATE TABLE bench_order AS SELECT id, substr(call_node, 6)::int AS n FROM operation")
        cursor.execute("CREATE UNIQUE INDEX ON bench_order (n)")
    seeds.analyse("operation", "due", "evidence", "evidence_payload", "bench_order")


def in_order(first, count):
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT id::text FROM bench_order WHERE n >= %s ORDER BY n LIMIT %s", [first, count])
        return [row[0] for row in cursor.fetchall()]


def accept(operation):
    from operations import ledger

    row = ledger.read([operation])[operation]
    facts = ledger.Facts.held_by(row)
    return lambda: ledger.accept_result(operation, ticket=ledger.ticket_of(row), facts=facts, now=datetime.now(UTC))


def capture():
    """Accept one operation; print what was said to PostgreSQL for it, as a script of pgbench."""
    import psycopg
    from django.db import connection

    from operations.ledger import journey, step

    (operation,), said = in_order(0, 1), []
    end = accept(operation)

    def overhear(statements, *, ends=False, news=()):
        given = journey.together(statements, ends=ends, news=news)
        cursor = psycopg.ClientCursor(connection.connection)
        said.extend(cursor.mogrify(sql, params) for sql, params in statements)
        if ends:
            said.extend(["COMMIT", *(cursor.mogrify(sql, params) for sql, params in news)])
        return given

    with mock.patch.object(step, "together", overhear):
        end()
    wrapped = ["BEGIN", *(" ".join(text.split()) for text in said)]
    receipt = re.search(r"INSERT INTO receipt .*?VALUES \('([0-9a-f-]{32,36})'", " ".join(wrapped))[1]
    journal = next(text for text in wrapped if "INSERT INTO journal" in text)
    its_step = re.search(r"'([0-9a-f-]{32,36})'[^']*\)\s*$", journal)[1]
    print(json.dumps({"script": _script(wrapped, operation, receipt, its_step), "statements": len(wrapped)}))


def _script(statements, operation, receipt, step):
    lines = ["\\set n :n + 1", "\\set mine :first + :n * :step + :client_id"]
    lines.append("SELECT id AS operation FROM bench_order WHERE n = :mine \\gset")
    for text in statements:
        flat = text.replace(f"'{{{operation}}}'", "ARRAY[:operation]").replace(f"'{operation}'", ":operation")
        flat = flat.replace(f"'{receipt}'", "md5('receipt' || :operation)::uuid")
        flat = flat.replace(f"'{step}'", "md5('step' || :operation)::uuid")
        flat = re.sub(r"'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^']*'", "now()", flat).replace(
            "'node-0'", "'node-' || :operation"
        )
        lines.append(flat + ";")
    return "\n".join(lines) + "\n"


def accept_together(operations):
    from operations import ledger

    found, now = ledger.read(operations), datetime.now(UTC)
    asked = [
        ledger.Acceptance(operation=one, ticket=ledger.ticket_of(row), facts=ledger.Facts.held_by(row), now=now)
        for one, row in found.items()
    ]

    def end():
        refused = [fate for fate in ledger.accept_results(asked) if not isinstance(fate, ledger.Moved)]
        if refused:
            raise refused[0]

    return end


def accept_many(first, count, threads, together):
    """Accept `count` operations on some threads with a connection each; print how long it took."""
    from django.db import connection

    share = in_order(first, count)
    barrier, took = threading.Barrier(threads + 1), []

    def work(mine):
        if together > 1:
            ends = [accept_together(mine[begin : begin + together]) for begin in range(0, len(mine), together)]
        else:
            ends = [accept(operation) for operation in mine]
        barrier.wait()
        for end in ends:
            end()
        took.append(time.perf_counter())
        connection.close()

    workers = [threading.Thread(target=work, args=(share[number::threads],)) for number in range(threads)]
    for worker in workers:
        worker.start()
    barrier.wait()
    print("ready", flush=True)
    began = time.perf_counter()
    for worker in workers:
        worker.join()
    print(json.dumps({"seconds": max(took) - began, "accepted": len(share)}))


def lines(ground, quick):
    rounds, each = (2, 240) if quick else (5, 800)
    database = ground.database()
    total = 10 + rounds * (len(CONNECTIONS) * 2 + 1) * each
    ground.child("tests.bench.accepting", "seed", total, conninfo=database)
    script = ground.child("tests.bench.accepting", "capture", conninfo=database)["script"]
    (ground.home / "accept.sql").write_text(script)
    first, ratios, rates = 10, {number: [] for number in CONNECTIONS}, {number: [] for number in CONNECTIONS}
    batches = []
    for _ in range(rounds):
        for connections in CONNECTIONS:
            ours = _ours(ground, database, first, each, connections)
            theirs = _pgbench(ground, database, first + each, each, connections)
            first += 2 * each
            ratios[connections].append(ours / theirs)
            rates[connections].append(ours)
        # `theirs` of most connections. A worker process has one journey of acceptances at a time.
        batches.append(_ours(ground, database, first, each, PROCESSES, processes=PROCESSES, together=MOST) / theirs)
        first += each
    ground.drop(database)
    for connections in CONNECTIONS:
        what = f"ends per second: accept_terminal / the same statements by pgbench, {connections} connections"
        judged = {"target": "0.7", "floor": 0.7} if connections == 8 else {}
        yield Line("T4", what, tuple(ratios[connections]), **judged)
    what = f"ends per second: together, up to {MOST} / one by one by pgbench, 8 connections"
    yield Line("T4", what, tuple(batches), "M 3", floor=3.0, is_wish=True)
    yield Line("", "ends per second by the ledger, 8 connections", tuple(rates[8]))


def _ours(ground, database, first, count, connections, *, processes=None, together=1):
    """Accepted per second by as many worker processes as it takes."""
    processes = processes or -(-connections // THREADS)
    share, threads = count // processes, -(-connections // processes)
    command = ["tests.bench.accepting", "accept"]
    running = [
        ground.begin(*command, first + number * share, share, threads, together, conninfo=database)
        for number in range(processes)
    ]
    told = [json.loads(one.communicate(timeout=300)[0].splitlines()[-1]) for one in running]
    return sum(one["accepted"] / one["seconds"] for one in told)


def _pgbench(ground, database, first, count, connections):
    options = ["-n", "-M", "prepared", "-c", connections, "-j", min(2, connections), "-t", count // connections]
    variables = ["-D", f"first={first}", "-D", f"step={connections}", "-D", "n=-1"]
    command = [Path(ground.cluster._bin) / "pgbench", *options, *variables, "-f", ground.home / "accept.sql", database]
    # Its statements are planned once, as ours are.
    surroundings = dict(os.environ) | {"PGOPTIONS": "-c plan_cache_mode=force_generic_plan"}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, env=surroundings)
    found = re.search(r"tps = ([0-9.]+) \(without", done.stdout)
    if done.returncode or not found or "failed transactions: 0" not in done.stdout:
        raise RuntimeError(f"pgbench: {done.stdout[-1500:]}{done.stderr[-1500:]}")
    return float(found[1])


if __name__ == "__main__":
    import django

    django.setup()
    import logging

    logging.disable(logging.WARNING)
    what, *numbers = sys.argv[1:]
    {"seed": seed, "capture": capture, "accept": accept_many}[what](*map(int, numbers))
