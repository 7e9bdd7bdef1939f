"""Fills a database with operations, straight into its tables: the ledger's own way would take hours for a million."""

from django.db import connection

from operations import ledger

CREATED = "2026-11-29T12:00:00Z"
SECONDARY = """SELECT indexname, indexdef FROM pg_indexes i WHERE tablename = 'operation' AND NOT EXISTS (
    SELECT FROM pg_constraint c WHERE c.conname = i.indexname) AND indexname NOT LIKE '%%pkey'"""


def server(slug, url, *, max_qps, poll_floor_ms=60_000, protocol="2025-11-25", **profile):
    """Register one server with one tool, negotiated."""
    from datetime import UTC, datetime

    from adapters.contract import Capabilities, Negotiation, TaskSupport, ToolDescriptor

    ledger.register_protocol(protocol, release="r1")
    ledger.register_server(
        ledger.NewServer(
            slug=slug,
            title=slug,
            url=url,
            protocol=protocol,
            allow_private=True,
            max_qps=max_qps,
            poll_floor_ms=poll_floor_ms,
            poll_cap_ms=max(60_000, poll_floor_ms),
            **profile,
        )
    )
    declared = Capabilities(
        server_name="bench", server_version="1", creates_tasks=True, cancels_tasks=True, lists_tasks=False
    )
    tool = ToolDescriptor(
        name="tool",
        title="",
        description="",
        task_support=TaskSupport.OPTIONAL,
        input_schema={"type": "object"},
        output_schema=None,
        raw=b"{}",
        digest="0" * 64,
    )
    negotiation = Negotiation(capabilities=declared, tools=(tool,))
    ledger.save_negotiation(slug, negotiation, now=datetime.now(UTC))
    ledger.set_policy(slug, "tool", ledger.ToolPolicy(effect="NONE", budget_s=86_400))


def operations(slug, count, *, first=0, state="WORKING", due="now()", terminal=None):
    """Make operations that have been under way for a while; `due`: SQL for when each is due, None for ended ones."""
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica; SET synchronous_commit = off")
        cursor.execute(
            """INSERT INTO operation (id, state, created_at, entered_at, client, call_node, principal, submission_key,
                request_digest, arguments, server_id, tool_id, descriptor_id, protocol, release, created_epoch,
                session, task_id, task_created_at, protocol_status, terminal_status, poll_ms, sends, first_sent_at,
                budget_ends_at, task_expires_at, reason, not_found, cancel_requested_by, cancel_reason,
                protocol_message, stream_event_id, list_cursor)
            SELECT gen_random_uuid(), %(state)s, now() - n * interval '1 ms', now(), 'bench', 'node-' || n, 'ann',
                'key-' || n, repeat('0', 64), '{}', s.slug, t.id, t.descriptor_id, s.protocol, 'r1', 1,
                'session-' || n, 'task-' || n, '2026-11-29T12:00:00Z', 'working', %(terminal)s, 60000, 1, now(),
                now() + interval '20 hours', now() + interval '20 hours', '', '', '', '', '', '', ''
            FROM server s JOIN tool t ON t.server_id = s.slug,
                generate_series(%(first)s, %(last)s) n WHERE s.slug = %(slug)s""",
            {"state": state, "terminal": terminal, "first": first, "last": first + count - 1, "slug": slug},
        )
        if due is not None:
            cursor.execute(
                f"""INSERT INTO due (operation_id, server_id, due_at, look)
                SELECT id, server_id, {due}, 1 FROM operation o
                WHERE server_id = %s AND state = %s AND NOT EXISTS (SELECT FROM due d WHERE d.operation_id = o.id)""",
                [slug, state],
            )
        cursor.execute("SET session_replication_role = origin; RESET synchronous_commit")


def analyse(*tables):
    for table in tables or ("operation", "due", "server"):
        with connection.cursor() as cursor:
            cursor.execute(f"VACUUM ANALYZE {table}")


def shed_indexes():
    """Drop the indexes that only lists read: a claim does not touch them, and filling them takes minutes."""
    with connection.cursor() as cursor:
        cursor.execute(SECONDARY)
        for name, _ in cursor.fetchall():
            cursor.execute(f'DROP INDEX "{name}"')
