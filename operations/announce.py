"""Tells the web processes that an operation has moved, and the workers what cannot wait for their next turn.

NOTIFY is a statement of its own after the commit: inside the transaction it would make commits
wait for each other. A notification that gets lost is repaired by the page's own refresh, and by the
worker's own rest, which is short.
"""

from __future__ import annotations

import json
import logging
from datetime import datetime

from django.db import Error, connection

CHANNEL = "longcall"
WORKERS = "longcall_workers"
"""Channel that the workers hear: `{}` for urgent work, or a `server` and `until` when it is to be left alone."""
log = logging.getLogger(__name__)


def moved(operation: str, version: int) -> None:
    """Announce that the operation now stands at this version. Never raises."""
    _notify(CHANNEL, {"op": operation, "v": version})


def urgent() -> None:
    """Announce that something is due which a person or a call node waits for. Never raises."""
    _notify(WORKERS, {})


def paused(server: str, until: datetime) -> None:
    """Announce that nothing may leave for this server before `until` (P1, F10). Never raises."""
    _notify(WORKERS, {"server": server, "until": until.isoformat()})


def _notify(channel: str, told: dict[str, object]) -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [channel, json.dumps(told, separators=(",", ":"))])
    except Error:
        log.warning("announcement lost", extra={"channel": channel, "told": told})
