"""What holds for every endpoint."""

from datetime import timedelta

import pytest
from django.db import OperationalError
from django.test import Client
from django.urls import get_resolver
from django.utils import timezone

from console import tokens
from console.api import operations as endpoints
from console.api.problem import PROBLEMS, TYPES
from console.models import Scope

pytestmark = pytest.mark.django_db

ANY = "00000000-0000-4000-8000-000000000000"
ENDPOINTS = [
    ("POST", "operations", Scope.SUBMIT),
    ("GET", "operations?call_node=x", Scope.READ),
    ("GET", f"operations/{ANY}", Scope.READ),
    ("GET", f"operations/{ANY}/receipt", Scope.READ),
    ("GET", f"operations/{ANY}/result", Scope.READ),
    ("POST", f"operations/{ANY}/cancel", Scope.CANCEL),
    ("GET", "outbox", Scope.READ),
    ("POST", "outbox/acknowledge", Scope.ACKNOWLEDGE),
    ("POST", "shadows", Scope.SUBMIT),
    ("GET", f"shadows/{ANY}", Scope.READ),
    ("POST", f"shadows/{ANY}/outcome", Scope.SUBMIT),
]


def asked(method, path, *, token=None, **more):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return Client().generic(method, f"/api/v1/{path}", b"{}", "application/json", headers=headers, **more)


def test_every_endpoint_is_in_this_table():
    methods = {(method, pattern.name) for pattern in _routes() for method in getattr(pattern.callback, "methods", {})}

    assert len(methods) == len(ENDPOINTS)


def _routes():
    api = next(found for found in get_resolver().url_patterns if getattr(found, "app_name", None) == "api")
    return api.url_patterns


@pytest.mark.parametrize("method, path, scope", ENDPOINTS)
class TestEveryEndpoint:
    def test_without_a_token_it_is_closed(self, method, path, scope):
        refused = asked(method, path)

        assert refused.status_code == 401
        assert refused["WWW-Authenticate"] == "Bearer"

    @pytest.mark.parametrize("token", ["lc_unknown", "x", "\u00e9", "a b"])
    def test_with_an_unknown_token_it_is_closed(self, method, path, scope, token):
        assert asked(method, path, token=token).status_code == 401

    def test_an_expired_token_is_refused(self, method, path, scope):
        past = timezone.now() - timedelta(days=2)
        token = tokens.issue_token("c", scopes={scope}, by="t", now=past, life=timedelta(days=1)).secret

        assert asked(method, path, token=token).status_code == 401

    def test_a_token_with_every_other_scope_is_refused(self, method, path, scope):
        others = set(Scope) - {scope}
        token = tokens.issue_token("c", scopes=others, by="t", now=timezone.now()).secret

        refused = asked(method, path, token=token)

        assert refused.status_code == 403
        assert scope.value in refused.json()["detail"]

    def test_a_signed_in_browser_opens_nothing(self, method, path, scope, admin_client):
        answer = admin_client.generic(method, f"/api/v1/{path}", b"{}", "application/json")

        assert answer.status_code == 401

    def test_another_method_is_refused_with_what_is_allowed(self, method, path, scope):
        refused = asked("DELETE", path)

        assert refused.status_code == 405
        assert method in refused["Allow"]

    def test_no_answer_may_be_kept_by_a_cache(self, method, path, scope):
        token = tokens.issue_token("c", scopes={scope}, by="t", now=timezone.now()).secret

        assert asked(method, path, token=token)["Cache-Control"] == "no-store"


def test_a_token_in_the_address_is_no_token():
    token = tokens.issue_token("c", scopes=set(Scope), by="t", now=timezone.now()).secret

    assert asked("GET", f"outbox?access_token={token}").status_code == 401


def test_an_unknown_address_answers_in_the_language_of_the_api():
    refused = asked("GET", "operation")

    assert (refused.status_code, refused["Content-Type"]) == (404, "application/problem+json")


def test_a_ledger_that_is_away_is_told_as_unknown_and_repeatable(node, monkeypatch):
    """L4: a lost commit is neither done nor not done."""

    def broken(*args, **kwargs):
        raise OperationalError("server closed the connection, password=hunter2")

    monkeypatch.setattr(endpoints.ledger, "submit", broken)

    refused = node.submit()

    assert (refused.status_code, refused["Retry-After"]) == (503, "2")
    assert refused.json()["not_done"].startswith("Unknown")
    assert b"hunter2" not in refused.content


def test_a_fault_of_ours_quotes_nothing(node, monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("secret detail")

    monkeypatch.setattr(endpoints.ledger, "submit", broken)

    refused = node.submit()

    assert refused.status_code == 500
    assert b"secret detail" not in refused.content


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_type_of_a_problem_is_an_address_that_explains_it(client, name):
    described = client.get(TYPES + name)

    assert described.status_code == 200
    assert described.json()["advice"]


def test_a_refusal_says_what_was_done_and_what_was_not(node):
    problem = node.get(f"operations/{ANY}").json()

    assert {"type", "title", "status", "detail", "done", "not_done", "advice"} <= set(problem)
