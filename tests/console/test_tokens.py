"""API tokens."""

import hashlib
from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, connection

from console import tokens
from console.models import ApiToken, Scope
from console.tokens import BadToken, ScopeMissing

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)


def issue(**changes):
    return tokens.issue_token("billing", **{"scopes": {Scope.READ}, "by": "person:adam", "now": NOW} | changes)


def test_a_token_speaks_for_its_client_with_its_scopes():
    issued = issue(scopes={Scope.READ, Scope.SUBMIT})

    caller = tokens.recognise(issued.secret, now=NOW)

    assert (caller.client, caller.by, caller.scopes) == (
        "billing",
        "client:billing",
        frozenset({Scope.READ, Scope.SUBMIT}),
    )


def test_a_token_has_a_mark_and_32_random_bytes():
    secrets = {issue().secret for _ in range(20)}

    assert len(secrets) == 20
    assert all(secret.startswith("lc_") and len(secret) == 3 + 43 for secret in secrets)


def test_the_token_itself_is_kept_nowhere():
    """Whoever reads the table can use nothing of it."""
    secret = issue().secret

    with connection.cursor() as cursor:
        cursor.execute("SELECT row_to_json(t)::text FROM api_token t")
        [kept] = cursor.fetchone()

    assert secret not in kept
    assert hashlib.sha256(secret.encode()).hexdigest() in kept
    with pytest.raises(BadToken):
        tokens.recognise(hashlib.sha256(secret.encode()).hexdigest(), now=NOW)


@pytest.mark.parametrize(
    "spoil", [lambda s: s[:-1], lambda s: s + "x", lambda s: s[:11], lambda s: s.lower() + "A", lambda s: ""]
)
def test_a_token_must_match_whole(spoil):
    secret = issue().secret

    with pytest.raises(BadToken, match="not known"):
        tokens.recognise(spoil(secret), now=NOW)


def test_an_expired_token_is_refused_from_the_second_on_that_it_ends():
    issued = issue(life=timedelta(days=1))
    tokens.recognise(issued.secret, now=issued.expires_at - timedelta(seconds=1))

    with pytest.raises(BadToken, match="expired"):
        tokens.recognise(issued.secret, now=issued.expires_at)


def test_a_revoked_token_is_refused_at_once_and_says_who_revoked_it():
    issued = issue()

    assert tokens.revoke_token(issued.prefix, by="person:adam", now=NOW)

    with pytest.raises(BadToken, match="revoked"):
        tokens.recognise(issued.secret, now=NOW)
    assert ApiToken.objects.get().revoked_by == "person:adam"


def test_revoking_twice_keeps_the_first():
    issued = issue()
    tokens.revoke_token(issued.prefix, by="person:adam", now=NOW)

    assert not tokens.revoke_token(issued.prefix, by="person:eve", now=NOW)
    assert ApiToken.objects.get().revoked_by == "person:adam"


def test_its_use_is_noted_to_the_minute():
    issued = issue()
    noted = []
    for seconds in (0, 59, 61):
        tokens.recognise(issued.secret, now=NOW + timedelta(seconds=seconds))
        noted.append((ApiToken.objects.get().last_used_at - NOW).total_seconds())

    assert noted == [0, 0, 61]


@pytest.mark.parametrize("life", [timedelta(), timedelta(days=-1), timedelta(days=90, seconds=1)])
def test_a_token_lives_for_up_to_90_days(life):
    with pytest.raises(ValueError, match="90 days"):
        issue(life=life)


def test_a_token_without_a_scope_is_not_made():
    with pytest.raises(ValueError, match="scope"):
        issue(scopes=set())


def test_the_database_refuses_a_scope_it_does_not_know():
    issue()

    with pytest.raises(IntegrityError):
        ApiToken.objects.update(scopes=["read", "everything"])


def test_a_missing_scope_is_named():
    caller = tokens.recognise(issue().secret, now=NOW)
    caller.needs(Scope.READ)

    with pytest.raises(ScopeMissing, match="'cancel'"):
        caller.needs(Scope.CANCEL)


def test_no_secret_shows_in_a_repr():
    issued = issue()

    assert issued.secret not in repr(issued)
