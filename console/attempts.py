"""How often somebody may be turned away before nobody listens any more: at the login, and at the API's door (W).

Only refusals count. Whoever has the right token, or the right password in time, is never held up by what others do.
The counts stand in the database, so that all web processes share them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection
from django.db.models import F
from django.db.models.functions import Greatest
from django.utils.crypto import salted_hmac

from console.models import Attempts

SALT = "longcall.attempts"
_KEPT = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """So many refusals of one source within a span; the span begins with the first of them."""

    kind: str
    most: int
    span: timedelta


LOGIN_OF_ONE = Limit(kind="login-name", most=10, span=timedelta(minutes=15))
"""One user name from one address: a stranger elsewhere locks nobody out."""
LOGIN_FROM_ONE = Limit(kind="login-address", most=100, span=timedelta(minutes=15))
"""All user names from one address."""
API = Limit(kind="api", most=60, span=timedelta(minutes=1))
"""Refusals of one API client, or of one address where no token was known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a source stands, the attempt at hand included."""

    count: int
    most: int
    ends_at: datetime

    @property
    def is_over(self) -> bool:
        """True: this attempt is one too many."""
        return self.count > self.most

    @property
    def is_first_over(self) -> bool:
        """True: it is the first one too many, the one that is worth a line of the audit."""
        return self.count == self.most + 1

    def wait_s(self, now: datetime) -> int:
        """Return after how many whole seconds the source is listened to again; 1 at least."""
        return max(1, -int((now - self.ends_at).total_seconds() // 1))


def count(limit: Limit, *source: str, now: datetime) -> Standing:
    """Count one more attempt of a source and return where it stands. One statement: no two attempts get one number."""
    key = _key(limit, source)
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO attempts AS a (source, since, count) VALUES (%(key)s, %(now)s, 1)
            ON CONFLICT (source) DO UPDATE SET
                count = CASE WHEN a.since <= %(over)s OR a.since > %(now)s THEN 1 ELSE a.count + 1 END,
                since = CASE WHEN a.since <= %(over)s OR a.since > %(now)s THEN %(now)s ELSE a.since END
            RETURNING count, since""",
            {"key": key, "now": now, "over": now - limit.span},
        )
        number, since = cursor.fetchone()
    if number == 1:
        _sweep(now)
    return Standing(count=number, most=limit.most, ends_at=since + limit.span)


def forget(limit: Limit, *source: str) -> None:
    """Count a source from nothing again."""
    Attempts.objects.filter(pk=_key(limit, source)).delete()


def give_back(limit: Limit, *source: str) -> None:
    """Take one attempt of a source back: it was none."""
    Attempts.objects.filter(pk=_key(limit, source)).update(count=Greatest(F("count") - 1, 0))


def _sweep(now: datetime) -> None:
    # SKIP LOCKED: two sweeps, or a sweep and a count, never wait for each other.
    with connection.cursor() as cursor:
        cursor.execute(
            """DELETE FROM attempts WHERE source IN
                (SELECT source FROM attempts WHERE since < %s LIMIT 1000 FOR UPDATE SKIP LOCKED)""",
            [now - _KEPT],
        )


def _key(limit: Limit, source: tuple[str, ...]) -> str:
    return salted_hmac(SALT, "\0".join((limit.kind, *source)), algorithm="sha256").hexdigest()
