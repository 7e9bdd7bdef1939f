"""Servers that could not be asked the last time, and how many calls wait because of it (X1, P5)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from operations.queries import CAP, PAGE
from operations.queries.scope import clause


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTrouble:
    """One server that did not answer for some of its calls."""

    server: str
    title: str
    since: datetime
    """When the longest trouble among its calls began."""
    why: str
    """What stood against the newest try, in words."""
    calls: int
    """How many calls it concerns, capped."""


def find_servers(*, limit: int = PAGE) -> tuple[ServerTrouble, ...]:
    """Return the servers in trouble, longest first. 1 query over one small index."""
    here, seen = clause("d.server_id")
    with connection.cursor() as cursor:
        cursor.execute(
            f"""SELECT s.slug, s.title, min(d.trouble_since),
                (array_agg(d.trouble ORDER BY d.trouble_since DESC))[1], least(count(*), %s)
            FROM due d JOIN server s ON s.slug = d.server_id
            WHERE d.trouble_since IS NOT NULL AND {here} GROUP BY s.slug, s.title ORDER BY 3, 1 LIMIT %s""",
            [CAP, *seen, limit],
        )
        rows = cursor.fetchall()
    return tuple(
        ServerTrouble(server=slug, title=title, since=since, why=why, calls=calls)
        for slug, title, since, why, calls in rows
    )
