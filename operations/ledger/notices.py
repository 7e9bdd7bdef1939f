"""Writes what people have to be told, in the transaction in which it happened (the outbox of notices).

A notice holds no argument and no words of a server: it says what happened and where to look. Who is told, by which
way and when is decided later, so that no setting and no mail server can ever touch the operation itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import connection

from operations.notice import Kind

_INSERT = """INSERT INTO notice (at, kind, item, operation_id, server_id, team, also, facts)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (kind, item) DO NOTHING"""


def row(
    kind: Kind,
    item: str,
    *,
    now: datetime,
    operation: str | None = None,
    server: str | None = None,
    team: str = "",
    also: str = "",
    facts: Mapping[str, Any] | None = None,
) -> tuple[str, list[Any]]:
    """Return the statement that writes a notice, for a step that writes it with its own change."""
    return _INSERT, [now, kind, item, operation, server, team, also, json.dumps(facts or {})]


def tell(
    kind: Kind,
    item: str,
    *,
    now: datetime,
    operation: str | None = None,
    server: str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Write a notice inside the transaction that is open; the same item of a kind is told of once."""
    with connection.cursor() as cursor:
        cursor.execute(*row(kind, item, now=now, operation=operation, server=server, facts=facts))
