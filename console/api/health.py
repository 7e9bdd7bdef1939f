"""/livez and /readyz: for whoever restarts processes and for whoever sends traffic."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any

import redis
from django.conf import settings
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from console import live
from operations.queries.servers import oldest_overdue

LOOKS_MAY_BE_LATE = timedelta(seconds=60)
BROKER_S = 1.0
"""How long the broker may take to answer: whoever asks this page waits for it."""
log = logging.getLogger(__name__)


@require_safe
def livez(_request: HttpRequest) -> HttpResponse:
    """Say that this process answers. Touches nothing else: a lost database is no reason to restart us."""
    return JsonResponse({"status": "alive"})


@require_safe
def readyz(_request: HttpRequest) -> HttpResponse:
    """Say whether this process can serve: 200 or 503, with what was found.

    Late looks, a listener that reconnects and a lost broker are told but do not fail it: the pages must stay reachable
    while workers are down, they ask again by themselves, and the ledger is the queue. An answer names no host and no
    error text: anybody may ask.
    """
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        missing = _missing_migrations()
        looks = {} if missing else _looks(timezone.now())
    except Error:
        log.warning("not ready: the database does not answer", exc_info=True)
        return _told(ready=False, database="does not answer")
    migrations = f"{missing} missing" if missing else "complete"
    beside = {"listener": live.state(), "broker": _broker()}
    return _told(ready=not missing, database="answers", migrations=migrations, **beside, **looks)


def _missing_migrations() -> int:
    executor = MigrationExecutor(connection)
    return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def _broker() -> str:
    url = settings.CELERY_BROKER_URL
    if not url:
        return "not configured"
    try:
        with redis.Redis.from_url(url, socket_timeout=BROKER_S, socket_connect_timeout=BROKER_S) as broker:
            broker.ping()
    except (redis.RedisError, OSError, ValueError):
        log.warning("the broker does not answer", exc_info=True)
        return "does not answer"
    return "answers"


def _looks(now: datetime) -> dict[str, Any]:
    due_since = oldest_overdue(now=now)
    late = timedelta() if due_since is None else max(now - due_since, timedelta())
    return {
        "looks": "late" if late > LOOKS_MAY_BE_LATE else "on time",
        "oldest_overdue_s": round(late.total_seconds(), 1),
    }


def _told(*, ready: bool, **found: str | float) -> HttpResponse:
    body = {"status": "ready" if ready else "not ready", **found}
    return JsonResponse(body, status=200 if ready else 503, headers={"Cache-Control": "no-store"})
