"""The gates measured from the ledger, their trends, and the operations behind each breach (G1 to G6).

A day is measured from indexes on time and kept as one row a gate: a page of thirty days reads those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from django.db import connection

from operations.gates import LIMITS, NOTHING, Figure, Gate, Interleavings
from operations.machine import FINAL, State
from operations.models import GateDay, InterleavingRun, LedgerCheck, Operation
from operations.queries.scope import within

DAYS = 30
SHOWN = 20
_UNKNOWN = "('SUBMISSION_UNKNOWN', 'UNKNOWN')"
_SPELLS = f"""SELECT j.operation_id AS id, j.at, EXTRACT(EPOCH FROM COALESCE(l.at, %(now)s) - j.at) AS took
    FROM journal j LEFT JOIN LATERAL (
        SELECT n.at FROM journal n WHERE n.operation_id = j.operation_id AND n.id > j.id AND n.kind = 'STEP'
            AND n.target NOT IN {_UNKNOWN} ORDER BY n.id LIMIT 1) l ON true
    WHERE j.at >= %(since)s AND j.at < %(until)s AND j.kind = 'STEP'
        AND j.target IN {_UNKNOWN} AND j.source NOT IN {_UNKNOWN}"""
"""G5: each time an outcome became unknown, until it was known again; going from one unknown to the other counts on."""
_CANCELS = """SELECT id, cancel_requested_at AS at, EXTRACT(EPOCH FROM COALESCE(cancel_settled_at,
        CASE WHEN state <> 'CANCEL_REQUESTED' THEN entered_at END, %(now)s) - cancel_requested_at) AS took
    FROM operation WHERE cancel_requested_at >= %(since)s AND cancel_requested_at < %(until)s AND NOT cancel_intent"""
"""G4: an intent does not count before there is a task to cancel (C9)."""
_UNTRACED = """SELECT o.id, b.ready_at AS at, 0 AS took FROM outbox b JOIN receipt r ON r.id = b.receipt_id
    JOIN operation o ON o.id = r.operation_id
    WHERE b.ready_at >= %(since)s AND b.ready_at < %(until)s AND (NOT o.state = ANY(%(final)s)
        OR (r.client, r.call_node) <> (o.client, o.call_node)
        OR r.result_digest IS DISTINCT FROM o.result_digest)"""
_SECONDS = """SELECT id, created_at AS at, sends - sends_disproved AS took FROM operation
    WHERE created_at >= %(since)s AND created_at < %(until)s AND sends - sends_disproved > 1"""
_MEASURES: Mapping[Gate, str] = {
    Gate.DIVERGENCE: """SELECT count(*), COALESCE(max(breaches), 0), COALESCE(max(breaches), 0) FROM ledger_check
        WHERE at >= %(since)s AND at < %(until)s AND took_ms IS NOT NULL""",
    Gate.SECOND_OPERATION: f"""SELECT (SELECT count(*) FROM operation
            WHERE created_at >= %(since)s AND created_at < %(until)s AND sends > 0),
        count(*), count(*) FROM ({_SECONDS}) q""",
    Gate.CANCEL: f"""SELECT count(*), count(*) FILTER (WHERE took >= 60),
        COALESCE(percentile_disc(0.99) WITHIN GROUP (ORDER BY took), 0) FROM ({_CANCELS}) q""",
    Gate.UNKNOWN: f"SELECT count(*), count(*) FILTER (WHERE took >= 900), COALESCE(max(took), 0) FROM ({_SPELLS}) q",
    Gate.TRACE: f"""SELECT (SELECT count(*) FROM outbox WHERE ready_at >= %(since)s AND ready_at < %(until)s),
        count(*), 0 FROM ({_UNTRACED}) q""",
}
_BEHIND: Mapping[Gate, str] = {
    Gate.SECOND_OPERATION: _SECONDS,
    Gate.CANCEL: f"SELECT * FROM ({_CANCELS}) q WHERE took >= 45",
    Gate.UNKNOWN: f"SELECT * FROM ({_SPELLS}) q WHERE took >= 675",
    Gate.TRACE: _UNTRACED,
}
"""What breaks a gate or comes within a quarter of its limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """One gate over the last thirty days."""

    gate: Gate
    figures: tuple[Figure, ...]
    """Oldest first, one a day, also for days without a measurement."""
    measured_at: datetime | None

    @property
    def today(self) -> Figure:
        """The newest day."""
        return self.figures[-1]

    @property
    def count(self) -> int:
        """What was measured in all of them."""
        return sum(figure.count for figure in self.figures)

    @property
    def breaches(self) -> int:
        """How often it did not hold in all of them."""
        return sum(figure.breaches for figure in self.figures)

    @property
    def worst(self) -> float:
        """The worst of the days that measured anything."""
        seen = [figure.worst for figure in self.figures if figure.count] or [NOTHING[self.gate]]
        return min(seen) if self.gate is Gate.TRACE else max(seen)

    @property
    def holds(self) -> bool:
        """True: it holds today, and it held yesterday, whose spells may still be open."""
        return all(figure.holds for figure in self.figures[-2:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The newest ledger check that came to its end."""

    at: datetime
    took_ms: int
    invariants: int
    breaches: int
    found: tuple[Mapping[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """One operation that breaks a gate, or comes near its limit."""

    gate: Gate
    operation: str
    title: str
    state: State
    at: datetime
    took: float
    """In the gate's own unit."""
    breaks: bool


def measure(day: date, *, now: datetime) -> tuple[Figure, ...]:
    """Measure one day, UTC, from the ledger. 5 queries. G3 is counted where requests leave, not here."""
    names = _window(day, day, now)
    return tuple(_measured(gate, day, sql, names) for gate, sql in _MEASURES.items())


def _measured(gate: Gate, day: date, sql: str, names: Mapping[str, object]) -> Figure:
    with connection.cursor() as cursor:
        cursor.execute(sql, dict(names))  # type: ignore[arg-type]
        count, breaches, worst = cursor.fetchone()
    if gate is Gate.TRACE:
        worst = 100 * (1 - breaches / count) if count else 100
    return Figure(gate=gate, day=day, count=count, breaches=breaches, worst=float(worst))


def _window(first: date, last: date, now: datetime) -> dict[str, object]:
    since = datetime.combine(first, time(), UTC)
    return {
        "since": since,
        "until": datetime.combine(last, time(), UTC) + timedelta(days=1),
        "now": now,
        "final": sorted(FINAL),
    }


def trends(*, now: datetime) -> tuple[Trend, ...]:
    """Return all six gates over the last thirty days. 1 query."""
    today = now.astimezone(UTC).date()
    days = [today - timedelta(days=back) for back in range(DAYS - 1, -1, -1)]
    kept = {(row.gate, row.day): row for row in GateDay.objects.filter(day__gte=days[0])}
    found = []
    for gate in Gate:
        rows = [row for (name, _day), row in kept.items() if name == gate]
        figures = tuple(_figure(gate, day, kept.get((gate.value, day))) for day in days)
        measured_at = max((row.measured_at for row in rows), default=None)
        found.append(Trend(gate=gate, figures=figures, measured_at=measured_at))
    return tuple(found)


def _figure(gate: Gate, day: date, row: GateDay | None) -> Figure:
    if row is None:
        return Figure(gate=gate, day=day, count=0, breaches=0, worst=NOTHING[gate])
    return Figure(gate=gate, day=day, count=row.count, breaches=row.breaches, worst=row.worst)


def last_check() -> Check | None:
    """Return the newest ledger check that came to its end; None before the first. 1 query."""
    row = LedgerCheck.objects.filter(took_ms__isnull=False).order_by("-at").first()
    if row is None or row.took_ms is None:
        return None
    return Check(
        at=row.at,
        took_ms=row.took_ms,
        invariants=row.invariants,
        breaches=row.breaches,
        found=tuple(row.found),
    )


def behind(*, now: datetime) -> tuple[Behind, ...]:
    """Return the operations of the last two days that break a gate or come near it, worst first. 5 queries."""
    today = now.astimezone(UTC).date()
    names = _window(today - timedelta(days=1), today, now)
    hits = [(gate, *hit) for gate, sql in _BEHIND.items() for hit in _hits(sql, names)]
    rows = {
        str(row.id): row
        for row in within(Operation.objects.filter(id__in={hit[1] for hit in hits}))
        .select_related("tool", "descriptor")
        .only("state", "tool__name", "descriptor__title")
    }
    found = [_behind(gate, rows[id_], at, took) for gate, id_, at, took in hits if id_ in rows]
    return tuple(sorted(found, key=lambda one: (not one.breaks, one.gate, -one.took)))


def _hits(sql: str, names: Mapping[str, object]) -> Sequence[tuple[str, datetime, float]]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT id::text, at, took FROM ({sql}) b ORDER BY took DESC, id LIMIT {SHOWN}", dict(names))  # type: ignore[arg-type]
        return [(id_, at, float(took)) for id_, at, took in cursor.fetchall()]


def _behind(gate: Gate, row: Operation, at: datetime, took: float) -> Behind:
    over = took >= LIMITS[gate] if gate in {Gate.CANCEL, Gate.UNKNOWN} else True
    return Behind(
        gate=gate,
        operation=str(row.id),
        title=row.descriptor.title or row.tool.name,
        state=State(row.state),
        at=at,
        took=took,
        breaks=over,
    )


def count_broken(*, now: datetime) -> int:
    """Count the gates that do not hold today or did not yesterday, for the navigation. 1 query."""
    yesterday = now.astimezone(UTC).date() - timedelta(days=1)
    rows = GateDay.objects.filter(day__gte=yesterday)
    return len({row.gate for row in rows if not _figure(Gate(row.gate), row.day, row).holds})


def settled_p99(*, now: datetime) -> tuple[tuple[str, int, float], ...]:
    """Return per contract how many cancels won in thirty days, and their 99th percentile in seconds. 1 query."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT protocol, count(*), percentile_disc(0.99) WITHIN GROUP (
                ORDER BY EXTRACT(EPOCH FROM entered_at - cancel_requested_at))
            FROM operation WHERE cancel_requested_at >= %s AND state = 'CANCELLED_ACCEPTED' GROUP BY 1 ORDER BY 1""",
            [now - timedelta(days=DAYS)],
        )
        return tuple((version, count, float(took)) for version, count, took in cursor.fetchall())


@dataclass(frozen=True, slots=True, kw_only=True)
class LastInterleavings:
    """The newest run of the interleavings that was put on record."""

    at: datetime
    run: Interleavings


def last_interleavings() -> LastInterleavings | None:
    """Return the newest run on record (G1, G2); None before the first. 1 query."""
    row = InterleavingRun.objects.order_by("-at").first()
    if row is None:
        return None
    run = Interleavings(
        seed=row.seed,
        runs=row.runs,
        wire_runs=row.wire_runs,
        histories=row.histories,
        divergences=row.divergences,
        took=timedelta(seconds=row.took_s),
    )
    return LastInterleavings(at=row.at, run=run)
