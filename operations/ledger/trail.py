"""The audit: who did what to what, from where, and who tried and was refused. Rows are only ever added (W).

What changes the ledger notes itself, in the transaction of the change. Where somebody comes from is not passed from
hand to hand: whoever lets a person in says it once, with `coming_from`, and every row written inside carries it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from adapters import strictjson
from operations.models import AuditOutcome

LONGEST_REASON = 2000


@dataclass(slots=True, kw_only=True)
class Origin:
    """Where a request comes from. `written` counts the rows that were written on its behalf."""

    by: str
    """Who the session says it is, such as `person:ada`; empty where nobody has signed in."""
    ip: str
    session: str
    """A keyed hash of the session's id."""
    written: int = 0


_origin: ContextVar[Origin | None] = ContextVar("origin", default=None)


@contextmanager
def coming_from(origin: Origin) -> Iterator[Origin]:
    """Let every row that is written inside carry where it comes from."""
    token = _origin.set(origin)
    try:
        yield origin
    finally:
        _origin.reset(token)


def audit(
    by: str,
    what: str,
    target: str,
    *,
    now: datetime,
    server: str = "",
    reason: str = "",
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    """Note something that was done, inside the transaction that does it; of `before` and `after` only what differs.

    `what` is a verb in capitals, `target` a kind and a name. Who the session says it is goes before `by`.
    """
    was, is_now = before or {}, after or {}
    changed = sorted(name for name in {*was, *is_now} if was.get(name) != is_now.get(name))
    told = [json.dumps({name: side[name] for name in changed if name in side}) for side in (was, is_now)]
    _write((by, what, target), AuditOutcome.DONE, server=server, reason=reason, told=told, now=now)


def audit_refused(by: str, what: str, target: str, *, now: datetime, reason: str, server: str = "") -> None:
    """Note something that was refused, where the refusal undid the transaction it came in."""
    with transaction.atomic():
        _write((by, what, target), AuditOutcome.REFUSED, server=server, reason=reason, now=now)


def refused_within(by: str, what: str, target: str, *, now: datetime, reason: str, server: str) -> None:
    """Note a refusal inside a transaction that is committed all the same."""
    _write((by, what, target), AuditOutcome.REFUSED, server=server, reason=reason, now=now)


def _write(
    deed: tuple[str, str, str],
    outcome: AuditOutcome,
    *,
    server: str,
    reason: str,
    told: Sequence[str] = ("{}", "{}"),
    now: datetime,
) -> None:
    by, what, target = deed
    origin = _origin.get()
    who = (origin.by if origin else "") or by
    server = server or _server_in(target)
    words = strictjson.printable(reason)[:LONGEST_REASON]
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO audit_event (at, by, what, target, server, outcome, reason, before, after, ip, session)
            VALUES (%s, %s, %s, %s, COALESCE(NULLIF(%s, ''), (SELECT server_id FROM operation WHERE id = %s), ''),
                %s, %s, %s, %s, %s, %s)""",
            [now, who, what, strictjson.printable(target), server, _operation_in(target), outcome, words, *told]
            + [origin.ip if origin else "", origin.session if origin else ""],
        )
    if origin:
        origin.written += 1


def _server_in(target: str) -> str:
    kind, _colon, name = target.partition(":")
    return name.partition("/")[0] if kind in {"server", "tool"} else ""


def _operation_in(target: str) -> uuid.UUID | None:
    kind, _colon, name = target.partition(":")
    try:
        return uuid.UUID(name) if kind == "operation" else None
    except ValueError:
        return None
