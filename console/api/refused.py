"""What the API's door turns away: each attempt stands in the audit, and whoever goes on and on is told to wait (W)."""

from __future__ import annotations

import logging
from datetime import datetime

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest

from console import attempts
from console.api.problem import Problem
from operations import ledger

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_AT_THE_DOOR = frozenset({"no-token", "scope-missing"})
log = logging.getLogger(__name__)


def is_attempt(request: HttpRequest, problem: Problem, origin: ledger.Origin) -> bool:
    """True: somebody reached for what is not theirs, and no row tells of it yet.

    What stands against a call of one's own (a used key, closed submits) is an answer about the call, and no attempt.
    """
    if problem.name in _AT_THE_DOOR:
        return True
    return problem.name == "not-found" and request.method not in SAFE and not origin.written


def note(request: HttpRequest, problem: Problem, origin: ledger.Origin, *, now: datetime) -> Problem:
    """Note the attempt in the audit and return what it is answered with.

    One source too many times in a minute: the answer is 429, and of such attempts only the first is noted, so that
    nobody fills the audit, which is never emptied.
    """
    try:
        standing = attempts.count(attempts.API, origin.by or origin.ip, now=now)
        if not standing.is_over:
            _audit(request, origin, problem.detail, now=now)
            return problem
        if standing.is_first_over:
            _audit(
                request, origin, f"more than {standing.most} refusals in a minute; further ones are not listed", now=now
            )
    except (OperationalError, InterfaceError) as error:
        log.warning("a refused attempt could not be noted", exc_info=error)
        return problem
    wait_s = standing.wait_s(now)
    return Problem(
        "too-many-refused",
        f"{standing.most} attempts in a minute were refused. The next is looked at in {wait_s} s.",
        headers={"Retry-After": str(wait_s)},
    )


def _audit(request: HttpRequest, origin: ledger.Origin, reason: str, *, now: datetime) -> None:
    match = request.resolver_match
    name = (match.url_name or "" if match else "").upper()
    operation = match.kwargs.get("operation") if match else None
    target = f"operation:{operation}" if operation else f"page:{request.path[:200]}"
    ledger.audit_refused(origin.by, f"API_{name}", target, now=now, reason=reason)
