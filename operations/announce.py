"""Tells the web processes that an operation has moved, and the workers what cannot wait for their next turn.

NOTIFY is a transaction of its own after the commit: inside the one that commits it would make commits
wait for each other. It may travel with that COMMIT (`news`). A notification that gets lost is repaired by the
page's own refresh, and by the worker's own rest, which is short.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import Error, connection

CHANNEL = "longcall"
WORKERS = "longcall_workers"
"""Channel that the workers hear: `{}` for urgent work, or a `server` and `until` when it is to be left alone."""
_NOTIFY = "SELECT pg_notify(%s, %s)"
_NOTIFY_EACH = "SELECT pg_notify(%s, word) FROM unnest(%s::text[]) word"
log = logging.getLogger(__name__)


def moved(operation: str, version: int) -> None:
    """Announce that the operation now stands at this version. Never raises."""
    _notify((CHANNEL, _moved(operation, version)))


def begun(operation: str, version: int) -> None:
    """Announce a new operation, which is due at once. Never raises."""
    _notify((CHANNEL, _moved(operation, version)), (WORKERS, {}))


def news(moves: Sequence[tuple[str, int]], *, is_urgent: bool) -> list[tuple[str, list[Any]]]:
    """What `moved` would say of each, as statements to be sent behind a COMMIT.

    `is_urgent`: something is due by it that a person or a call node waits for.
    """
    told: list[tuple[str, list[Any]]] = []
    if moves:
        told.append((_NOTIFY_EACH, [CHANNEL, [_written(_moved(*move)) for move in moves]]))
    return [*told, (_NOTIFY, [WORKERS, _written({})])] if is_urgent else told


def paused(server: str, until: datetime) -> None:
    """Announce that nothing may leave for this server before `until` (P1, F10). Never raises."""
    _notify((WORKERS, {"server": server, "until": until.isoformat()}))


def _notify(*told: tuple[str, dict[str, object]]) -> None:
    """Say each in its channel, all in one statement."""
    sql = "SELECT " + ", ".join(["pg_notify(%s, %s)"] * len(told))
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql, [word for channel, what in told for word in (channel, _written(what))])
    except Error:
        log.warning("announcement lost", extra={"told": told})


def _moved(operation: str, version: int) -> dict[str, object]:
    return {"op": operation, "v": version}


def _written(told: dict[str, object]) -> str:
    return json.dumps(told, separators=(",", ":"))
