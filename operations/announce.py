"""Tells the web processes that an operation has moved: its id and version, nothing else.

NOTIFY is a statement of its own after the commit: inside the transaction it would make commits
wait for each other. A notification that gets lost is repaired by the page's own refresh.
"""

from __future__ import annotations

import json
import logging

from django.db import Error, connection

CHANNEL = "longcall"
log = logging.getLogger(__name__)


def moved(operation: str, version: int) -> None:
    """Announce that the operation now stands at this version. Never raises."""
    payload = json.dumps({"op": operation, "v": version}, separators=(",", ":"))
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, payload])
    except Error:
        log.warning("announcement lost", extra={"operation": operation, "version": version})
