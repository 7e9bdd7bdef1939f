"""API tokens: issue, recognise, revoke."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import Q

from console.models import ApiClient, ApiToken, Scope

if TYPE_CHECKING:
    from collections.abc import Collection

LONGEST_LIFE = timedelta(days=90)
_MARK = "lc_"
"""So that scanners for leaked secrets can find our tokens."""
_PREFIX_LENGTH = len(_MARK) + 8
_USE_IS_NOTED_EVERY = timedelta(minutes=1)


class BadToken(Exception):
    """No token, or none that is valid. The message is for its sender and tells nothing about other tokens."""


class ScopeMissing(Exception):
    """A valid token without the scope that is needed."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(f"This token lacks the scope {scope.value!r}.")
        self.scope = scope


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedToken:
    """A new token. `secret` is in nobody's hands but the caller's."""

    secret: str = field(repr=False)
    prefix: str
    client: str
    scopes: frozenset[Scope]
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The API client behind a request."""

    client: str
    scopes: frozenset[Scope]

    @property
    def by(self) -> str:
        """How the ledger names this client."""
        return f"client:{self.client}"

    def needs(self, scope: Scope) -> None:
        """Raise ScopeMissing unless the token carries the scope."""
        if scope not in self.scopes:
            raise ScopeMissing(scope)


@transaction.atomic
def issue_token(
    client: str,
    *,
    scopes: Collection[Scope],
    by: str,
    now: datetime,
    life: timedelta = LONGEST_LIFE,
    note: str = "",
) -> IssuedToken:
    """Make a token for an API client, and the client on its first token.

    Raises ValueError for an empty set of scopes and for a life of nothing or of more than 90 days.
    """
    if not scopes:
        raise ValueError("a token without a scope is good for nothing")
    if not timedelta() < life <= LONGEST_LIFE:
        raise ValueError(f"a token lives for up to {LONGEST_LIFE.days} days")
    ApiClient.objects.get_or_create(slug=client, defaults={"created_at": now, "created_by": by})
    secret = _MARK + secrets.token_urlsafe(32)
    row = ApiToken.objects.create(
        client_id=client,
        prefix=secret[:_PREFIX_LENGTH],
        digest=_digest(secret),
        scopes=sorted(scope.value for scope in scopes),
        note=note,
        created_at=now,
        created_by=by,
        expires_at=now + life,
    )
    return IssuedToken(
        secret=secret, prefix=row.prefix, client=client, scopes=frozenset(scopes), expires_at=row.expires_at
    )


def recognise(secret: str, *, now: datetime) -> Caller:
    """Return whom a bearer token speaks for, and note its use. Raises BadToken."""
    row = ApiToken.objects.filter(prefix=secret[:_PREFIX_LENGTH]).first()
    # Compared also without a row: the time taken does not tell whether a prefix exists.
    same = hmac.compare_digest(_digest(secret), row.digest if row else _digest(""))
    if row is None or not same:
        raise BadToken("This token is not known.")
    if row.revoked_at is not None:
        raise BadToken("This token has been revoked.")
    if row.expires_at <= now:
        raise BadToken("This token has expired.")
    _note_use(row, now)
    return Caller(client=row.client_id, scopes=frozenset(Scope(scope) for scope in row.scopes))


def revoke_token(prefix: str, *, by: str, now: datetime) -> bool:
    """Make a token useless from now on. False: there is no such token, or it was revoked before."""
    changed = ApiToken.objects.filter(prefix=prefix, revoked_at__isnull=True).update(revoked_at=now, revoked_by=by)
    return changed == 1


def _note_use(row: ApiToken, now: datetime) -> None:
    # A row written by every request would make all requests of one client queue for its lock.
    if row.last_used_at is not None and now - row.last_used_at < _USE_IS_NOTED_EVERY:
        return
    unnoted = Q(last_used_at__isnull=True) | Q(last_used_at__lte=now - _USE_IS_NOTED_EVERY)
    ApiToken.objects.filter(unnoted, pk=row.pk).update(last_used_at=now)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
