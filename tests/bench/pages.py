"""What a page of a list costs out of a million operations, against what it costs out of a thousand.

`python -m tests.bench.pages [LARGE]` prints a line for each list page. Both databases stand in one throw-away cluster
and are asked in turn. A page's cost is processor time, of the site and of its database's backend together: what else
the machine does meanwhile is not in it. Every list is full at both sizes, but for one that nothing fits.

Beside it stands what the page asks its database, word for word, asked once more by psycopg alone and read to the last
row: what the page costs above that is ours (T9).
"""

import hashlib
import json
import os
import sys
import time
from pathlib import Path

import psutil

SMALL, LARGE, RUNS, WARM, RAW_RUNS = 1_200, 1_000_000, 15, 3, 30
CEILING, RAW_CEILING = 1.3, 8.0
MIDDLE = "{middle}"
"""Stands for the cursor of a row in the middle of the ledger."""
DIGITS = hashlib.md5(b"op7").hexdigest()[:12]
"""The first digits of one operation's id."""
PAGES = (
    ("operations, open", "/operations/?view=open"),
    ("operations, attention", "/operations/?view=attention"),
    ("operations, finished", "/operations/?view=done"),
    ("operations, everything", "/operations/?view=all"),
    ("operations, oldest first", "/operations/?view=all&order=oldest"),
    ("operations, far down", f"/operations/?view=all&after={MIDDLE}"),
    ("operations, one state", "/operations/?state=ACCEPTED"),
    ("operations, one server", "/operations/?view=all&server=shop"),
    ("operations, a rare server", "/operations/?view=all&server=rare"),
    ("operations, one tool", "/operations/?view=open&tool=tool"),
    ("operations, one version", "/operations/?view=all&protocol=2025-11-25"),
    ("operations, one client", "/operations/?view=open&client=client-13"),
    ("operations, nothing fits", "/operations/?view=open&client=client-3"),
    ("operations, one principal", "/operations/?view=all&principal=person-3"),
    ("operations, one call node", "/operations/?view=all&call_node=node-7"),
    ("operations, a window of time", "/operations/?view=open&window=24h"),
    ("operations, search by a task", "/operations/?q=task-7"),
    ("operations, search by digits", f"/operations/?q={DIGITS}"),
    ("desk, open", "/reconcile/"),
    ("desk, mine", "/reconcile/?tab=mine"),
    ("desk, for a second person", "/reconcile/?tab=second"),
    ("desk, effects", "/reconcile/?tab=effects"),
    ("desk, left lately", "/reconcile/?tab=left"),
    ("approvals, open", "/approvals/"),
    ("approvals, mine", "/approvals/?tab=mine"),
    ("approvals, answered", "/approvals/?tab=answered"),
    ("approvals, expired", "/approvals/?tab=expired"),
    ("audit", "/audit/"),
    ("start", "/"),
    ("navigation", "/places/?at=operations"),
)
_STATES = """(ARRAY['ACCEPTED', 'ACCEPTED', 'ACCEPTED', 'ACCEPTED', 'ACCEPTED', 'ACCEPTED', 'ACCEPTED', 'ACCEPTED',
    'CANCELLED_ACCEPTED', 'CANCELLED_ACCEPTED', 'REFUSED', 'RECONCILED', 'WORKING', 'WORKING', 'INPUT_REQUIRED',
    'INPUT_REQUIRED', 'UNKNOWN', 'UNKNOWN', 'CANCEL_REQUESTED', 'SUBMISSION_UNKNOWN'])[1 + n % 20]"""
_FINAL = "('ACCEPTED', 'CANCELLED_ACCEPTED', 'REFUSED', 'RECONCILED')"
_SEED = (
    f"""INSERT INTO operation (id, state, reason, created_at, entered_at, client, call_node, principal, submission_key,
        request_digest, arguments, server_id, tool_id, descriptor_id, protocol, release, created_epoch, session,
        task_id, protocol_status, sends, first_sent_at, budget_ends_at, round, round_open, round_deadline_at,
        cancel_requested_at, cancel_settled_at, cancel_stated)
    SELECT md5('op' || n)::uuid, {_STATES}, CASE WHEN n % 20 IN (16, 17) THEN 'NOT_FOUND' ELSE '' END,
        now() - (COUNT - n) * interval '80 ms', now() - (COUNT - n) * interval '80 ms', 'client-' || n % 20,
        'node-' || n, 'person-' || n % 20, 'key-' || n, repeat('0', 64), '{{}}',
        CASE WHEN n < 60 THEN 'rare' ELSE 'shop' END, t.id, t.descriptor_id, '2025-11-25', 'r1', 1, 'session-' || n,
        'task-' || n, 'working', 1, now(), now() + interval '20 hours', CASE WHEN n % 20 IN (14, 15) THEN 1 ELSE 0 END,
        n % 20 IN (14, 15), CASE WHEN n % 20 IN (14, 15) THEN now() + n * interval '1 second' END,
        CASE WHEN n % 20 IN (8, 9, 18) THEN now() - (COUNT - n) * interval '80 ms' END,
        CASE WHEN n % 20 = 18 THEN now() END, n % 20 = 18
    FROM generate_series(1, COUNT) n JOIN tool t ON t.server_id = CASE WHEN n < 60 THEN 'rare' ELSE 'shop' END""",
    f"""INSERT INTO receipt (id, operation_id, at, outcome, client, call_node, request_digest, tool_version, epoch,
        cancel_generation, decided_by)
    SELECT md5('receipt' || o.id)::uuid, o.id, o.entered_at, CASE o.state WHEN 'ACCEPTED' THEN 'SUCCESS'
        WHEN 'CANCELLED_ACCEPTED' THEN 'CANCELLED' ELSE o.state END, o.client, o.call_node, o.request_digest,
        repeat('0', 64), 1, 0, 'executor' FROM operation o WHERE o.state IN {_FINAL}""",
    f"""INSERT INTO due (operation_id, server_id, due_at, look)
    SELECT id, server_id, now() + interval '1 minute', 1 FROM operation WHERE state NOT IN {_FINAL}""",
    """INSERT INTO input_round (operation_id, number, status, opened_at, deadline_at, closed_at, request_digest,
        schema_digest, questions, claimed_by)
    SELECT id, 1, CASE WHEN state = 'INPUT_REQUIRED' THEN 'OPEN' WHEN state = 'ACCEPTED' THEN 'ANSWERED'
        ELSE 'EXPIRED' END, created_at, COALESCE(round_deadline_at, created_at + interval '1 hour'),
        CASE WHEN state = 'INPUT_REQUIRED' THEN NULL ELSE created_at + interval '1 hour' END, repeat('0', 64),
        repeat('0', 64), '[{"key": "0", "mode": "form", "message": "Go on?", "schema": {}, "url": "", "digest": "x"}]',
        CASE WHEN state = 'INPUT_REQUIRED' AND principal = 'person-14' THEN 'person:olga' ELSE '' END
    FROM operation WHERE state = 'INPUT_REQUIRED' OR principal IN ('person-0', 'person-8')""",
    """INSERT INTO answer (id, round_id, by, at, replies, as_shown_digest, delivery)
    SELECT md5('answer' || id)::uuid, id, 'person:ada', closed_at,
        '[{"key": "0", "action": "accept", "content": "{}"}]', repeat('0', 64), 'USED'
    FROM input_round WHERE status = 'ANSWERED'""",
    """INSERT INTO effect_record (operation_id, opened_at, cause, facts)
    SELECT id, entered_at, 'CANCEL_WON', '[]' FROM operation WHERE state = 'CANCELLED_ACCEPTED'""",
    """INSERT INTO desk_claim (operation_id, by, at)
    SELECT id, 'person:olga', now() FROM operation WHERE principal = 'person-16' ORDER BY entered_at LIMIT 60""",
    """INSERT INTO verdict_proposal (id, operation_id, verdict, seen_version, by, at, reason, content)
    SELECT md5('proposal' || id)::uuid, id, 'GAVE_UP', 1, 'person:otto', now(), 'nobody knows', '{}'
    FROM operation WHERE principal = 'person-17' ORDER BY entered_at LIMIT 60""",
    f"""INSERT INTO journal (operation_id, at, kind, event, source, target, version, epoch, cancel_generation, round,
        look, actor, detail, evidence_seqs, step)
    SELECT id, entered_at, 'STEP', 'TASK_NAMED', CASE WHEN state = 'RECONCILED' THEN 'UNKNOWN' ELSE 'SUBMITTING' END,
        CASE WHEN state IN {_FINAL} THEN state ELSE 'WORKING' END, 1, 1, 0, 0, 1, 'executor', '{{}}', '{{}}', id
    FROM operation""",
    """INSERT INTO audit_event (at, by, what, target, outcome, reason, before, after)
    SELECT created_at, 'person:olga', 'CANCEL', 'operation:' || id, CASE WHEN principal = 'person-8' THEN 'REFUSED'
        ELSE 'DONE' END, 'because', '{}', '{}' FROM operation""",
)


def seed(count):
    """Fill a database; run as a child with its address."""
    import django

    django.setup()
    from django.db import connection

    from tests.bench import seeds
    from tests.console import factories as make

    for slug in ("shop", "rare"):
        seeds.server(slug, f"http://{slug}.test/mcp", max_qps=100)
    make.person("olga", "operator", "approver")
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica; SET synchronous_commit = off")
        for statement in _SEED:
            cursor.execute(statement.replace("COUNT", str(count)))
        cursor.execute("SET session_replication_role = origin")
        cursor.execute("INSERT INTO team (slug, title, all_servers) VALUES ('all', 'All', true)")
        cursor.execute("INSERT INTO team_member (team_id, person) VALUES ('all', 'person:olga')")
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("CHECKPOINT")
    print(json.dumps({"seeded": count}))


class Site:
    """The pages over one of the two databases."""

    def __init__(self, conninfo):
        from django.db import connections
        from django.db.backends.postgresql.base import DatabaseWrapper
        from django.test import Client

        settings = dict(connections["default"].settings_dict) | {"NAME": conninfo.rpartition("dbname=")[2].split()[0]}
        settings["OPTIONS"] = {name: value for name, value in settings["OPTIONS"].items() if name != "pool"}
        self.connection, self.client = DatabaseWrapper(settings, alias="default"), Client()
        self.use()
        from django.contrib.auth.models import User

        self.client.force_login(User.objects.get(username="olga"))
        with self.connection.cursor() as cursor:
            cursor.execute(
                "SELECT created_at, id FROM operation ORDER BY created_at OFFSET (SELECT count(*) / 2 "
                "FROM operation) LIMIT 1"
            )
            at, key = cursor.fetchone()
            cursor.execute("SELECT pg_backend_pid()")
            self.backend = psutil.Process(cursor.fetchone()[0])
        self.middle = f"{at.isoformat()}_{key.hex}".replace("+", "%2B")

    def use(self):
        from django.db import connections

        connections["default"] = self.connection

    def seconds(self, address):
        """Processor seconds that the site spends on one page."""
        self.use()
        began = time.process_time()
        answer = self.client.get(address.replace(MIDDLE, self.middle), follow=True)
        spent = time.process_time() - began
        if answer.status_code != 200:
            raise RuntimeError(f"{address} answered {answer.status_code}")
        return spent

    def database_seconds(self):
        """Processor seconds that this site's backend has spent so far."""
        fine = Path(f"/proc/{self.backend.pid}/schedstat")
        if fine.exists():  # in nanoseconds; the other is in hundredths of a second
            return int(fine.read_text().split()[0]) / 1e9
        times = self.backend.cpu_times()
        return times.user + times.system

    def raw(self, address):
        """Milliseconds of the page's own statements, asked by psycopg alone."""
        asked = []

        def note(execute, sql, params, many, context):
            if sql.lstrip().startswith(("SELECT", "WITH")):
                asked.append((sql, params))
            return execute(sql, params, many, context)

        with self.connection.execute_wrapper(note):
            self.seconds(address)
        began, own = self.database_seconds(), time.process_time()
        with self.connection.connection.cursor() as cursor:
            for sql, params in asked * RAW_RUNS:
                cursor.execute(sql, params)
                cursor.fetchall()
        return 1000 * (time.process_time() - own + self.database_seconds() - began) / RAW_RUNS


def costs(sites, address, runs):
    """Milliseconds of one page, for each site, and of the last site's statements alone."""
    for _ in range(WARM):
        for site in sites:
            site.seconds(address)
    began = [site.database_seconds() for site in sites]
    turns = [[site.seconds(address) for site in sites] for _ in range(runs)]
    ended = [site.database_seconds() for site in sites]
    own = [sum(spent) for spent in zip(*turns, strict=True)]
    pages = [1000 * (own[n] + ended[n] - began[n]) / runs for n in range(len(sites))]
    return [*pages, sites[-1].raw(address)]


def compare(small, large, runs):
    """Time every page over both databases in turn; run as a child."""
    import django

    django.setup()
    from django.conf import settings
    from django.test import override_settings

    # Nobody has collected the static files here, and what they are called costs the same out of a million.
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    override_settings(ALLOWED_HOSTS=["*"], STORAGES=settings.STORAGES | {"staticfiles": plain}).enable()
    sites, found = (Site(small), Site(large)), {}
    for name, address in PAGES:
        found[name] = costs(sites, address, runs)
    for site in sites:
        site.connection.close()
    print(json.dumps(found))


def lines(made, *, large=LARGE):
    """Measure every list page on a ground; give two lines for each: out of many and few, and above its own SQL."""
    from tests.bench.table import Line

    databases = [made.database(), made.database()]
    for conninfo, count in zip(databases, (SMALL, large), strict=True):
        began = time.monotonic()
        made.child("tests.bench.pages", "seed", count, conninfo=conninfo)
        made.tell(f"  {count:,} operations seeded in {time.monotonic() - began:.0f} s")
    found = made.child("tests.bench.pages", "time", *databases, RUNS, conninfo=databases[0])
    for name, (few, many, raw) in found.items():
        what = f"out of {large:,} and of {SMALL:,}: {many:.1f} ms, {few:.1f} ms of processor"
        yield Line(name, what, (many / few,), f"≤ {CEILING} times", ceiling=CEILING)
        what = f"beside its own SQL alone: {many:.1f} ms, {raw:.1f} ms of processor"
        yield Line(name, what, (many / raw,), f"≤ {RAW_CEILING:.0f} times", ceiling=RAW_CEILING)


def main(words):
    match words:
        case ["seed", count]:
            seed(int(count))
        case ["time", small, large, runs]:
            compare(small, large, int(runs))
        case _:
            from tests.bench.ground import ground

            with ground(print) as made:
                for line in lines(made, large=int(words[0]) if words else LARGE):
                    print(f"{line.value:6.2f} {line.verdict:7} {line.name:32} {line.what}", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    main(sys.argv[1:])
