"""/livez and /readyz: for whoever restarts processes and for whoever sends traffic."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any

from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from operations.queries.servers import oldest_overdue

LOOKS_MAY_BE_LATE = timedelta(seconds=60)
log = logging.getLogger(__name__)


@require_safe
def livez(_request: HttpRequest) -> HttpResponse:
    """Say that this process answers. Touches nothing else: a lost database is no reason to restart us."""
    return JsonResponse({"status": "alive"})


@require_safe
def readyz(_request: HttpRequest) -> HttpResponse:
    """Say whether this process can serve: 200 or 503, with what was found.

    Late looks are told but do not fail it: the pages must stay reachable while workers are down. An answer names no
    host and no error text: anybody may ask.
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
    return _told(ready=not missing, database="answers", migrations=migrations, **looks)


def _missing_migrations() -> int:
    executor = MigrationExecutor(connection)
    return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def _looks(now: datetime) -> dict[str, Any]:
    due_since = oldest_overdue()
    late = timedelta() if due_since is None else max(now - due_since, timedelta())
    return {
        "looks": "late" if late > LOOKS_MAY_BE_LATE else "on time",
        "oldest_overdue_s": round(late.total_seconds(), 1),
    }


def _told(*, ready: bool, **found: str | float) -> HttpResponse:
    body = {"status": "ready" if ready else "not ready", **found}
    return JsonResponse(body, status=200 if ready else 503, headers={"Cache-Control": "no-store"})
