"""What stands before a person: the reconciliation desk and the counts in the navigation."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet

from adapters.contract import Lookup
from operations.machine import FINAL, State
from operations.models import (
    EffectRecord,
    EffectStatus,
    IncidentItem,
    Operation,
    VerdictProposal,
)
from operations.queries import CAP, PAGE, Cursor
from operations.queries.scope import clause, within

BEFORE_A_PERSON = (State.SUBMISSION_UNKNOWN, State.NOT_FOUND_SAFE, State.UNKNOWN)
# Sorted, as in the index that holds them: the planner compares word by word.
_UNCONFIRMED = Q(cancel_stated=True) & ~Q(state__in=sorted(FINAL))
_FINAL_LISTED = ", ".join(f"'{state}'" for state in sorted(FINAL))
CLOCK = timedelta(minutes=15)
OPEN_EFFECTS = (EffectStatus.OPEN,)
_PROPOSALS = VerdictProposal.objects.filter(confirmed__isnull=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """How much waits for people; a number at the cap reads "1 000+"."""

    rounds: int
    desk: int


def count_waiting() -> Waiting:
    """Count open rounds and items of the desk, each once however many reasons it has. One query.

    Every page's navigation asks it: put together by hand, as building it anew took longer than the answer (T9). The
    joins are outer ones, which the planner leaves out where nothing is asked of the operation.
    """
    here, seen = clause("o.server_id")
    with connection.cursor() as cursor:
        cursor.execute(
            f"""SELECT (SELECT count(*) FROM (
                    SELECT FROM input_round r LEFT JOIN operation o ON o.id = r.operation_id
                    WHERE r.status = 'OPEN' AND {here} LIMIT %s) AS asked),
                (SELECT count(*) FROM (
                    (SELECT o.id FROM operation o WHERE o.state = ANY(%s) AND {here} LIMIT %s)
                    UNION (SELECT o.id FROM operation o WHERE o.cancel_stated AND NOT (o.state IN ({_FINAL_LISTED}))
                        AND {here} LIMIT %s)
                    UNION (SELECT e.operation_id FROM effect_record e LEFT JOIN operation o ON o.id = e.operation_id
                        WHERE e.status = ANY(%s) AND {here} LIMIT %s)
                    LIMIT %s) AS unsettled)""",
            [*seen, CAP, list(BEFORE_A_PERSON), *seen, CAP, *seen, CAP, list(OPEN_EFFECTS), *seen, CAP, CAP],
        )
        rounds, items = cursor.fetchone()
    return Waiting(rounds=rounds, desk=items)


class Kind(enum.StrEnum):
    """Why something is on the desk."""

    OUTCOME = "OUTCOME"
    """We cannot tell what became of the call."""
    CANCEL = "CANCEL"
    """A cancel is not confirmed within its time (C12)."""
    EFFECT = "EFFECT"
    """Something may have happened outside (C6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing on the desk: an operation whose outcome we cannot tell, or an effect record."""

    operation: str
    kind: Kind
    state: State
    outcome: str
    reason: str
    title: str
    server: str
    protocol: str
    call_node: str
    task_id: str | None
    lookup: str
    submits_open: bool
    since: datetime
    due_at: datetime
    """When its 15 minutes are over (X4, G5)."""
    next_look_at: datetime | None
    cancel_requested_at: datetime | None
    effect_cause: str
    claimed_by: str
    proposed_by: str
    """Who has proposed a verdict that waits for a second person; empty without one."""

    @property
    def waits_for_submits(self) -> bool:
        """True: it could only be asked by the same submit again, and submits are shut (O5)."""
        is_replayed = self.lookup == Lookup.SAME_KEY_REPLAY and self.task_id is None
        return self.kind is Kind.OUTCOME and is_replayed and not self.submits_open


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """One page of the desk, oldest clock first."""

    items: tuple[Item, ...]
    after: Cursor | None
    """Where the next page starts; None on the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What of the desk is asked for."""

    kinds: frozenset[Kind] = frozenset(Kind)
    mine: str = ""
    """Only what this person has claimed; empty: everybody's."""
    proposed: bool = False
    """Only what waits for a second person."""
    incident: uuid.UUID | None = None
    """Only the items of this incident."""
    single: bool = False
    """Without what an incident stands for."""


def find_items(wanted: Wanted, *, after: Cursor | None = None, limit: int = PAGE) -> Desk:
    """Return a page of the desk. 5 queries.

    An operation that stands there for its outcome and has an effect record too shows twice: they are settled apart.
    """
    keys: list[tuple[datetime, uuid.UUID, Kind]] = []
    if wanted.kinds & {Kind.OUTCOME, Kind.CANCEL}:
        keys += _operation_keys(wanted, after, limit)
    if Kind.EFFECT in wanted.kinds and not (wanted.proposed or wanted.incident):
        keys += _effect_keys(wanted, after, limit)
    keys.sort()
    items = _items(keys[:limit])
    last = keys[limit - 1] if len(keys) > limit else None
    return Desk(items=items, after=Cursor(at=last[0], id=last[1]) if last else None)


def _operation_keys(wanted: Wanted, after: Cursor | None, limit: int) -> list[tuple[datetime, uuid.UUID, Kind]]:
    """One slice for each kind: each reads its own small index from the oldest on, and no more than a page of it."""
    conditions = {
        Kind.OUTCOME: Q(state__in=BEFORE_A_PERSON),
        Kind.CANCEL: _UNCONFIRMED & ~Q(state__in=BEFORE_A_PERSON),
    }
    keys: list[tuple[datetime, uuid.UUID, Kind]] = []
    for kind in wanted.kinds & set(conditions):
        found = _wanted(Operation.objects.filter(conditions[kind]), wanted)
        if after is not None:
            found = found.filter(
                Q(entered_at__gt=after.at) | Q(entered_at=after.at, id__gt=after.id), entered_at__gte=after.at
            )
        rows = found.order_by("entered_at", "id").values_list("entered_at", "id")
        keys += [(at, key, kind) for at, key in rows[: limit + 1]]
    return keys


def _wanted(found: QuerySet[Operation], wanted: Wanted) -> QuerySet[Operation]:
    if wanted.mine:
        found = found.filter(deskclaim__by=wanted.mine)
    if wanted.proposed:
        found = found.filter(Exists(_PROPOSALS.filter(operation=OuterRef("id"))))
    held = IncidentItem.objects.filter(operation=OuterRef("id"), left_at__isnull=True)
    if wanted.incident is not None:
        found = found.filter(Exists(held.filter(incident=wanted.incident)))
    elif wanted.single:
        found = found.filter(~Exists(held))
    return within(found)


def _effect_keys(wanted: Wanted, after: Cursor | None, limit: int) -> list[tuple[datetime, uuid.UUID, Kind]]:
    found = EffectRecord.objects.filter(status__in=OPEN_EFFECTS).order_by("opened_at", "operation_id")
    if wanted.mine:
        found = found.filter(operation__deskclaim__by=wanted.mine)
    found = within(found, server="operation__server_id")
    if after is not None:
        found = found.filter(
            Q(opened_at__gt=after.at) | Q(opened_at=after.at, operation_id__gt=after.id), opened_at__gte=after.at
        )
    return [(at, key, Kind.EFFECT) for at, key in found.values_list("opened_at", "operation_id")[: limit + 1]]


def _items(keys: Sequence[tuple[datetime, uuid.UUID, Kind]]) -> tuple[Item, ...]:
    rows = (
        Operation.objects.filter(id__in={key for _, key, _ in keys})
        .select_related("tool", "descriptor", "server", "protocol", "due", "receipt", "effectrecord", "deskclaim")
        .defer("arguments", "descriptor__raw", "descriptor__input_schema", "descriptor__output_schema")
        .defer("receipt__result")
    )
    by_id = {row.id: row for row in rows}
    proposed = dict(_PROPOSALS.filter(operation__in=by_id).values_list("operation_id", "by"))
    return tuple(_item(by_id[key], kind, at, proposed.get(key, "")) for at, key, kind in keys if key in by_id)


def _item(row: Operation, kind: Kind, since: datetime, proposed_by: str) -> Item:
    due, receipt = getattr(row, "due", None), getattr(row, "receipt", None)
    effect, claim = getattr(row, "effectrecord", None), getattr(row, "deskclaim", None)
    return Item(
        operation=str(row.id),
        kind=kind,
        state=State(row.state),
        outcome=receipt.outcome if receipt else "",
        reason=row.reason,
        title=row.descriptor.title or row.tool.name,
        server=row.server_id,
        protocol=row.protocol_id,
        call_node=row.call_node,
        task_id=row.task_id,
        lookup=row.server.lookup,
        submits_open=row.protocol.submits_open and row.server.submits_open and row.tool.submits_open,
        since=since,
        due_at=since + CLOCK,
        next_look_at=due.due_at if due else None,
        cancel_requested_at=row.cancel_requested_at,
        effect_cause=effect.cause if effect else "",
        claimed_by=claim.by if claim else "",
        proposed_by=proposed_by,
    )
