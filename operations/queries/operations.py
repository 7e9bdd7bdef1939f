"""The list of operations: pages, counts, search by any id, measured odds of a cancel.

Note [One slice a state]
"Open" is nine states. Asked for as one condition, PostgreSQL would read every open row and sort. So each state gives
its own newest slice from its own index range, and the slices are merged: a page costs the same out of a million.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from django.db import connection
from django.db.models import Q, QuerySet

from operations.machine import FINAL, Outcome, State
from operations.models import Operation, ProtocolVersion, Round, Server, Tool
from operations.queries import CAP, PAGE, Asked, Cursor, asked, is_parked, scope

OPEN = tuple(state for state in State if state not in FINAL)
ATTENTION = (State.INPUT_REQUIRED, State.SUBMISSION_UNKNOWN, State.NOT_FOUND_SAFE, State.UNKNOWN)
MOST_SLICES = 130
"""More than this many slices cost more to plan than they save."""
_HEX = re.compile(r"^[0-9a-f]{6,32}$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What a list is narrowed to. Empty means "any"."""

    states: tuple[State, ...] = ()
    server: str = ""
    tool: str = ""
    protocol: str = ""
    client: str = ""
    call_node: str = ""
    principal: str = ""
    since: datetime | None = None
    until: datetime | None = None
    oldest_first: bool = False

    @property
    def is_plain(self) -> bool:
        """True: nothing but the states narrows the list."""
        named = (self.server, self.tool, self.protocol, self.client, self.call_node, self.principal)
        return not (any(named) or self.since or self.until)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One operation in a list."""

    id: str
    state: State
    reason: str
    outcome: str
    title: str
    tool: str
    server: str
    protocol: str
    client: str
    call_node: str
    principal: str
    protocol_status: str
    created_at: datetime
    entered_at: datetime
    budget_ends_at: datetime
    round: int
    asked: Asked
    round_deadline_at: datetime | None
    cancel_requested_at: datetime | None
    cancel_stated: bool
    due_at: datetime | None
    is_parked: bool
    """No look can bring anything new here."""
    trouble: str
    """Why the server could not be asked the last time; empty when it answered."""
    rounds_opened_at: tuple[datetime, ...]

    @property
    def is_final(self) -> bool:
        """True: it has its receipt."""
        return self.state in FINAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of rows, newest first."""

    rows: tuple[Row, ...]
    after: Cursor | None
    """Where the next page starts; None on the last one."""


def find(narrow: Filter, *, after: Cursor | None = None, limit: int = PAGE) -> Page:
    """Return one page of the operations that fit, newest first unless asked otherwise. 3 queries."""
    found = list(_first(narrow, after, limit + 1))
    keys, more = found[:limit], len(found) > limit
    rows = _rows([key for _, key in keys])
    last = Cursor(at=keys[-1][0], id=keys[-1][1]) if more else None
    return Page(rows=rows, after=last)


def find_ids(narrow: Filter, *, limit: int) -> list[str]:
    """Return the ids of the operations that fit, in the list's order. 1 query."""
    return [str(key) for _, key in _first(narrow, None, limit)]


def count(narrow: Filter) -> int:
    """Count the operations that fit, capped. 1 query."""
    return len(_first(narrow, None, CAP))


def _first(narrow: Filter, after: Cursor | None, limit: int) -> Sequence[tuple[datetime, uuid.UUID]]:
    """Return (created_at, id) of the first rows that fit. See Note [One slice a state]."""
    order = ("created_at", "id") if narrow.oldest_first else ("-created_at", "-id")
    base = _behind(_narrowed(narrow), after, oldest_first=narrow.oldest_first).order_by(*order)
    seen = scope.present().servers
    states = narrow.states if narrow.states or (narrow.is_plain and seen is None) else tuple(State)
    if not states:
        return list(base.values_list("created_at", "id")[:limit])
    bases = [base.filter(state=state) for state in states]
    if seen is not None and not narrow.server and len(seen) * len(states) <= MOST_SLICES:
        bases = [part.filter(server=server) for part in bases for server in sorted(seen)]
    slices = [part.values_list("created_at", "id")[:limit] for part in bases]
    if len(slices) < 2:  # noqa: PLR2004 - nothing to merge
        return list(slices[0]) if slices else []
    merged = slices[0].union(*slices[1:], all=True).order_by(*order)
    return list(merged[:limit])


def _behind(base: QuerySet[Operation], after: Cursor | None, *, oldest_first: bool) -> QuerySet[Operation]:
    if after is None:
        return base
    if oldest_first:
        return base.filter(
            Q(created_at__gt=after.at) | Q(created_at=after.at, id__gt=after.id), created_at__gte=after.at
        )
    return base.filter(Q(created_at__lt=after.at) | Q(created_at=after.at, id__lt=after.id), created_at__lte=after.at)


def _narrowed(narrow: Filter) -> QuerySet[Operation]:
    wanted = {
        "server": narrow.server,
        "protocol": narrow.protocol,
        "client": narrow.client,
        "call_node": narrow.call_node,
        "principal": narrow.principal,
        "created_at__gte": narrow.since,
        "created_at__lt": narrow.until,
    }
    found = Operation.objects.filter(**{name: value for name, value in wanted.items() if value})
    if narrow.tool:
        # By the tools' numbers: a join would hide from the planner that they come in the order of their index.
        named = Tool.objects.filter(name=narrow.tool).values_list("id", flat=True)
        found = found.filter(tool__in=list(named[:PAGE]))
    return scope.within(found)


def _rows(ids: Sequence[uuid.UUID]) -> tuple[Row, ...]:
    if not ids:
        return ()
    found = (
        scope.within(Operation.objects.filter(id__in=ids))
        .select_related("tool", "descriptor", "server", "receipt", "due")
        .defer(
            "arguments", "descriptor__raw", "descriptor__input_schema", "descriptor__output_schema", "receipt__result"
        )
    )
    opened: dict[uuid.UUID, list[datetime]] = {}
    for operation, at in (
        Round.objects.filter(operation__in=ids).order_by("number").values_list("operation_id", "opened_at")
    ):
        opened.setdefault(operation, []).append(at)
    by_id = {row.id: _row(row, tuple(opened.get(row.id, ()))) for row in found}
    return tuple(by_id[key] for key in ids if key in by_id)


def read_rows(ids: Sequence[uuid.UUID]) -> tuple[Row, ...]:
    """Return these operations in the order asked for; what does not exist is left out. 2 queries."""
    return _rows(ids)


def newest_of(page: Page) -> Cursor | None:
    """Return where a page begins; None for an empty one."""
    return Cursor(at=page.rows[0].created_at, id=uuid.UUID(page.rows[0].id)) if page.rows else None


def count_since(since: Cursor, narrow: Filter) -> int:
    """Count what has come in since and fits, up to a page. 1 query."""
    return len(_first(replace(narrow, oldest_first=True), since, PAGE))


def _row(row: Operation, opened: tuple[datetime, ...]) -> Row:
    receipt = getattr(row, "receipt", None)
    due = getattr(row, "due", None)
    return Row(
        id=str(row.id),
        state=State(row.state),
        reason=row.reason,
        outcome=receipt.outcome if receipt else "",
        title=row.descriptor.title or row.tool.name,
        tool=row.tool.name,
        server=row.server_id,
        protocol=row.protocol_id,
        client=row.client,
        call_node=row.call_node,
        principal=row.principal,
        protocol_status=row.protocol_status,
        created_at=row.created_at,
        entered_at=row.entered_at,
        budget_ends_at=row.budget_ends_at,
        round=row.round,
        asked=asked(State(row.state), is_open=row.round_open, delivery=row.answer_delivery),
        round_deadline_at=row.round_deadline_at if row.round_open else None,
        cancel_requested_at=row.cancel_requested_at,
        cancel_stated=row.cancel_stated,
        due_at=due.due_at if due else None,
        is_parked=is_parked(
            State(row.state),
            task_id=row.task_id,
            lookup=row.server.lookup,
            nothing_sent=row.sends == row.sends_disproved and not row.replays,
        ),
        trouble=due.trouble if due else "",
        rounds_opened_at=opened,
    )


def count_states() -> Mapping[State, int]:
    """Count the operations in each state, each count capped. 1 query over one index."""
    here, seen = scope.clause("o.server_id")
    with connection.cursor() as cursor:
        cursor.execute(
            f"""SELECT s.state, (SELECT count(*) FROM (
                SELECT 1 FROM operation o WHERE o.state = s.state AND {here} LIMIT %s) AS found)
            FROM unnest(%s::text[]) AS s(state)""",
            [*seen, CAP, [state.value for state in State]],
        )
        return {State(state): count for state, count in cursor.fetchall()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the filters can be set to."""

    servers: tuple[str, ...]
    tools: tuple[str, ...]
    protocols: tuple[str, ...]


def choices() -> Choices:
    """Return the names that a list can be narrowed to. 3 queries."""
    servers = scope.within(Server.objects.all(), server="slug").order_by("slug").values_list("slug", flat=True)
    tools = scope.within(Tool.objects.all()).order_by("name").values_list("name", flat=True).distinct()
    protocols = ProtocolVersion.objects.order_by("version").values_list("version", flat=True)
    return Choices(servers=tuple(servers), tools=tuple(tools), protocols=tuple(protocols))


_BY_ANY_ID = """
    SELECT id, created_at FROM operation WHERE submission_key = %(text)s
    UNION SELECT id, created_at FROM operation WHERE call_node = %(text)s
    UNION SELECT id, created_at FROM operation WHERE md5(task_id) = md5(%(text)s) AND task_id = %(text)s
"""
_BY_DIGITS = """
    UNION SELECT id, created_at FROM operation WHERE id BETWEEN %(low)s AND %(high)s
    UNION SELECT o.id, o.created_at FROM receipt r JOIN operation o ON o.id = r.operation_id
        WHERE r.id BETWEEN %(low)s AND %(high)s
"""


def find_by_any_id(text: str) -> tuple[Row, ...]:
    """Return the operations with this id of any kind, newest first, at most a page. 3 queries.

    Any id: of the operation (its first six or more digits will do), its task, its call node, its key, its receipt (A4).
    """
    text = text.strip().replace("\0", "")
    if not text:
        return ()
    digits, sql, params = text.lower().replace("-", ""), _BY_ANY_ID, {"text": text}
    if _HEX.fullmatch(digits):
        sql += _BY_DIGITS
        params |= {"low": digits.ljust(32, "0"), "high": digits.ljust(32, "f")}
    with connection.cursor() as cursor:
        cursor.execute(f"{sql} ORDER BY 2 DESC, 1 DESC LIMIT {PAGE}", params)
        ids = [row[0] for row in cursor.fetchall()]
    return _rows(ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Odds:
    """How cancels of one tool ended, measured."""

    days: int
    cancelled: int
    finished: int
    """The work ended first and was accepted."""
    person: int
    """A person had to look, or has to still."""
    pending: int
    median: timedelta | None
    """Half of those that ended cancelled had done so within this time of the press."""
    slowest: timedelta | None
    total: int = field(default=0)


def cancel_odds(tool: str, *, server: str, now: datetime, days: int = 30) -> Odds:
    """Measure how the newest cancels of one tool went, at most 1 000 and none older than `days`. 1 query."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT
                count(*) FILTER (WHERE r.outcome = %(cancelled)s),
                count(*) FILTER (WHERE r.outcome IN (%(success)s, %(tool_error)s)),
                count(*) FILTER (WHERE r.outcome IS NOT NULL AND r.outcome NOT IN
                    (%(cancelled)s, %(success)s, %(tool_error)s) OR r.outcome IS NULL AND o.state = %(unknown)s),
                count(*) FILTER (WHERE r.outcome IS NULL AND o.state <> %(unknown)s),
                percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM r.at - o.cancel_requested_at))
                    FILTER (WHERE r.outcome = %(cancelled)s),
                max(extract(epoch FROM r.at - o.cancel_requested_at)) FILTER (WHERE r.outcome = %(cancelled)s)
            FROM (SELECT o.id, o.state, o.cancel_requested_at FROM operation o
                WHERE o.tool_id = (SELECT id FROM tool WHERE server_id = %(server)s AND name = %(tool)s)
                    AND o.cancel_requested_at >= %(since)s
                ORDER BY o.cancel_requested_at DESC LIMIT %(most)s) o
            LEFT JOIN receipt r ON r.operation_id = o.id""",
            {
                "most": CAP,
                "cancelled": Outcome.CANCELLED,
                "success": Outcome.SUCCESS,
                "tool_error": Outcome.TOOL_ERROR,
                "unknown": State.UNKNOWN,
                "server": server,
                "tool": tool,
                "since": now - timedelta(days=days),
            },
        )
        cancelled, finished, person, pending, median, slowest = cursor.fetchone()
    return Odds(
        days=days,
        cancelled=cancelled,
        finished=finished,
        person=person,
        pending=pending,
        median=None if median is None else timedelta(seconds=float(median)),
        slowest=None if slowest is None else timedelta(seconds=float(slowest)),
        total=cancelled + finished + person,
    )
