"""What the watch writes down every minute: ledger checks, the gates' figures, each server's use of its limit (G)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection, transaction

from operations.gates import Figure, Interleavings

EVERY = timedelta(seconds=50)
"""Less than the minute that the watch runs at: a second worker's tick finds the check taken."""
KEPT = timedelta(days=31)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerUse:
    """How much of its limit a server was asked for since the measurement before."""

    server: str
    max_qps: float
    peak: int
    """The most requests that left in one second."""


def begin_check(*, now: datetime) -> int | None:
    """Take the check of this minute; None when another worker has it."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('ledger_check'))")
        cursor.execute("DELETE FROM ledger_check WHERE at < %s", [now - KEPT])
        cursor.execute(
            """INSERT INTO ledger_check (at, invariants, breaches, found)
            SELECT %s, 0, 0, '[]' WHERE NOT EXISTS (SELECT FROM ledger_check WHERE at > %s) RETURNING id""",
            [now, now - EVERY],
        )
        made = cursor.fetchone()
    return int(made[0]) if made else None


def end_check(
    check: int, *, took: timedelta, invariants: int, breaches: int, found: Sequence[Mapping[str, str]]
) -> None:
    """Write what a check came to. `found` are the first breaches."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE ledger_check SET took_ms = %s, invariants = %s, breaches = %s, found = %s WHERE id = %s",
            [int(took.total_seconds() * 1000), invariants, breaches, json.dumps(list(map(dict, found))), check],
        )


def measure_servers(*, now: datetime) -> tuple[ServerUse, ...]:
    """Close the measurement of every server's requests and begin the next (G3)."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            """UPDATE server s SET measured_slots = s.slots_given, measured_at = %s, peak_slots = 0,
                used_qps = (s.slots_given - s.measured_slots)
                    / GREATEST(EXTRACT(EPOCH FROM %s - COALESCE(s.measured_at, %s)), 1)
            FROM (SELECT slug, peak_slots FROM server ORDER BY slug FOR UPDATE) was
            WHERE was.slug = s.slug RETURNING s.slug, s.max_qps, was.peak_slots""",
            [now, now, now - timedelta(minutes=1)],
        )
        return tuple(ServerUse(server=slug, max_qps=qps, peak=peak) for slug, qps, peak in cursor.fetchall())


def keep_figures(figures: Sequence[Figure], *, now: datetime) -> None:
    """Keep points of the trends; a day that is measured again is replaced."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.executemany(
            """INSERT INTO gate_day (gate, day, count, breaches, worst, measured_at) VALUES (%s, %s, %s, %s, %s, %s)
            ON CONFLICT (gate, day) DO UPDATE SET count = EXCLUDED.count, breaches = EXCLUDED.breaches,
                worst = EXCLUDED.worst, measured_at = EXCLUDED.measured_at""",
            [[one.gate, one.day, one.count, one.breaches, one.worst, now] for one in figures],
        )
        cursor.execute("DELETE FROM gate_day WHERE day < %s", [(now - KEPT).date()])


def add_figure(figure: Figure, *, now: datetime) -> None:
    """Add a measurement to its day: counts add up, the worst stays."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO gate_day (gate, day, count, breaches, worst, measured_at) VALUES (%s, %s, %s, %s, %s, %s)
            ON CONFLICT (gate, day) DO UPDATE SET count = gate_day.count + EXCLUDED.count,
                breaches = gate_day.breaches + EXCLUDED.breaches,
                worst = GREATEST(gate_day.worst, EXCLUDED.worst), measured_at = EXCLUDED.measured_at""",
            [figure.gate, figure.day, figure.count, figure.breaches, figure.worst, now],
        )


def note_interleavings(run: Interleavings, *, now: datetime) -> None:
    """Put a run of the interleavings on record, for the page of the gates (G1, G2)."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO interleaving_run (at, seed, runs, wire_runs, histories, divergences, took_s)
            VALUES (%s, %s, %s, %s, %s, %s, %s)""",
            [now, run.seed, run.runs, run.wire_runs, run.histories, run.divergences, run.took.total_seconds()],
        )
