"""Who calls without being a person: API clients and their tokens; and who has tried too often to come in.

The ledger knows a client by its slug only; the rows here say which bearer token speaks for which slug.
"""

from __future__ import annotations

import enum

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q


class Scope(enum.StrEnum):
    """What a token may be used for, each by itself."""

    SUBMIT = "submit"
    READ = "read"
    CANCEL = "cancel"
    ACKNOWLEDGE = "acknowledge"


class ApiClient(models.Model):
    """A workflow engine, an agent, a script: whoever owns call nodes."""

    slug = models.SlugField(primary_key=True)
    title = models.TextField(blank=True, default="")
    created_at = models.DateTimeField()
    created_by = models.TextField()

    class Meta:
        db_table = "api_client"

    def __str__(self) -> str:
        return self.slug


class ApiToken(models.Model):
    """A bearer token. The token itself is shown once and kept nowhere: only its hash is here."""

    client = models.ForeignKey(ApiClient, on_delete=models.PROTECT, related_name="tokens")
    prefix = models.CharField(max_length=16, unique=True)
    """Its first characters: how the row is found, and how people tell tokens apart."""
    digest = models.CharField(max_length=64)
    """SHA-256 of the whole token. No salt and no slow hash: 32 random bytes cannot be guessed."""
    scopes = ArrayField(models.TextField())
    note = models.TextField(blank=True, default="")
    created_at = models.DateTimeField()
    created_by = models.TextField()
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    revoked_by = models.TextField(blank=True, default="")
    last_used_at = models.DateTimeField(null=True)
    """Exact to the minute."""
    form = models.UUIDField(null=True, unique=True)
    """The form that it was made with: the same post twice makes one token (R9)."""

    class Meta:
        db_table = "api_token"
        constraints = [
            models.CheckConstraint(condition=Q(expires_at__gt=F("created_at")), name="token_ends_after_it_begins"),
            models.CheckConstraint(
                condition=Q(scopes__contained_by=[scope.value for scope in Scope], scopes__len__gt=0),
                name="token_scopes_known",
            ),
            models.CheckConstraint(
                condition=Q(revoked_at__isnull=True, revoked_by="") | (Q(revoked_at__isnull=False) & ~Q(revoked_by="")),
                name="token_revoked_by_somebody",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.prefix}… of {self.client_id}"


class Attempts(models.Model):
    """How often one source was turned away since a moment. A row whose time is over counts as none."""

    source = models.CharField(max_length=64, primary_key=True)
    """A keyed hash: what somebody typed as a name may have been a password."""
    since = models.DateTimeField(db_index=True)
    count = models.PositiveIntegerField()

    class Meta:
        db_table = "attempts"

    def __str__(self) -> str:
        return f"{self.count} since {self.since}"
