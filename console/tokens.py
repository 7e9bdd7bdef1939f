"""API tokens: issue, recognise, revoke, list. Who made or revoked one stands in the audit (W)."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db import connection, transaction
from django.db.models import Case, Q, When

from console.models import ApiClient, ApiToken, Scope
from operations import ledger

if TYPE_CHECKING:
    import uuid
    from collections.abc import Collection

LONGEST_LIFE = timedelta(days=90)
_MARK = "lc_"
"""So that scanners for leaked secrets can find our tokens."""
PREFIX_LENGTH = len(_MARK) + 8
_USE_IS_NOTED_EVERY = timedelta(minutes=1)


class FormUsed(Exception):
    """A token was made with this form already; `prefix` names it."""

    def __init__(self, prefix: str) -> None:
        super().__init__(f"The token {prefix}… was made with this form.")
        self.prefix = prefix


class BadToken(Exception):
    """No token, or none that is valid. The message is for its sender and tells nothing about other tokens.

    `prefix` names the token where it was one of ours, and is empty otherwise.
    """

    def __init__(self, message: str, *, prefix: str = "") -> None:
        super().__init__(message)
        self.prefix = prefix


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
    prefix: str
    """Of the token that was shown."""

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
    form: uuid.UUID | None = None,
) -> IssuedToken:
    """Make a token for an API client, and the client on its first token.

    Raises ValueError for an empty set of scopes and for a life of nothing or of more than 90 days, and FormUsed where
    the form with this id has made its token before.
    """
    if not scopes:
        raise ValueError("a token without a scope is good for nothing")
    if not timedelta() < life <= LONGEST_LIFE:
        raise ValueError(f"a token lives for up to {LONGEST_LIFE.days} days")
    if form is not None:
        _once(form)
    ApiClient.objects.get_or_create(slug=client, defaults={"created_at": now, "created_by": by})
    secret = _MARK + secrets.token_urlsafe(32)
    row = ApiToken.objects.create(
        client_id=client,
        prefix=secret[:PREFIX_LENGTH],
        digest=_digest(secret),
        scopes=sorted(scope.value for scope in scopes),
        note=note,
        created_at=now,
        created_by=by,
        expires_at=now + life,
        form=form,
    )
    after = {"client": client, "scopes": row.scopes, "expires_at": row.expires_at.isoformat()}
    ledger.audit(by, "TOKEN_ISSUED", f"token:{row.prefix}", now=now, reason=note, after=after)
    return IssuedToken(
        secret=secret, prefix=row.prefix, client=client, scopes=frozenset(scopes), expires_at=row.expires_at
    )


def recognise(secret: str, *, now: datetime) -> Caller:
    """Return whom a bearer token speaks for, and note its use. Raises BadToken."""
    row = ApiToken.objects.filter(prefix=secret[:PREFIX_LENGTH]).first()
    # Compared also without a row: the time taken does not tell whether a prefix exists.
    same = hmac.compare_digest(_digest(secret), row.digest if row else _digest(""))
    if row is None or not same:
        raise BadToken("This token is not known.")
    if row.revoked_at is not None:
        raise BadToken("This token has been revoked.", prefix=row.prefix)
    if row.expires_at <= now:
        raise BadToken("This token has expired.", prefix=row.prefix)
    _note_use(row, now)
    return Caller(client=row.client_id, scopes=frozenset(Scope(scope) for scope in row.scopes), prefix=row.prefix)


@transaction.atomic
def revoke_token(prefix: str, *, by: str, now: datetime, reason: str = "") -> bool:
    """Make a token useless from now on. False: there is no such token, or it was revoked before."""
    changed = ApiToken.objects.filter(prefix=prefix, revoked_at__isnull=True).update(revoked_at=now, revoked_by=by)
    if changed:
        ledger.audit(by, "TOKEN_REVOKED", f"token:{prefix}", now=now, reason=reason)
    return changed == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenView:
    """A token as people see it: everything but itself."""

    prefix: str
    client: str
    scopes: tuple[str, ...]
    note: str
    created_at: datetime
    created_by: str
    expires_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str

    def works(self, now: datetime) -> bool:
        """True: whoever shows it is let in."""
        return self.revoked_at is None and self.expires_at > now


MOST_LISTED = 500
"""Rows of the list at most; whoever works comes first."""


def find(*, now: datetime) -> tuple[TokenView, ...]:
    """Return the tokens, those that work first, then by client. One query."""
    ended = Q(revoked_at__isnull=False) | Q(expires_at__lte=now)
    rows = ApiToken.objects.annotate(ended=Case(When(ended, then=1), default=0)).order_by(
        "ended", "client_id", "-created_at", "-id"
    )
    return tuple(_view(row) for row in rows[:MOST_LISTED])


def read(prefix: str) -> TokenView | None:
    """Return one token by its first characters; None where there is none."""
    row = ApiToken.objects.filter(prefix=prefix).first()
    return _view(row) if row else None


def clients() -> tuple[str, ...]:
    """Return every API client that ever had a token."""
    return tuple(ApiClient.objects.order_by("slug").values_list("slug", flat=True))


def _view(row: ApiToken) -> TokenView:
    names = set(TokenView.__dataclass_fields__) - {"client", "scopes"}
    held = {name: getattr(row, name) for name in names}
    return TokenView(client=row.client_id, scopes=tuple(row.scopes), **held)


def _once(form: uuid.UUID) -> None:
    # Two posts of one form at once would both find nothing; the lock lets the second see what the first has made.
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [str(form)])
    if made := ApiToken.objects.filter(form=form).values_list("prefix", flat=True).first():
        raise FormUsed(made)


def _note_use(row: ApiToken, now: datetime) -> None:
    # A row written by every request would make all requests of one client queue for its lock.
    if row.last_used_at is not None and now - row.last_used_at < _USE_IS_NOTED_EVERY:
        return
    unnoted = Q(last_used_at__isnull=True) | Q(last_used_at__lte=now - _USE_IS_NOTED_EVERY)
    ApiToken.objects.filter(unnoted, pk=row.pk).update(last_used_at=now)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
