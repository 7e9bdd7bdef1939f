"""What the API's door turns away stands in the audit, with who, what, target and from where (W)."""

from datetime import timedelta

import pytest
from django.db import OperationalError
from django.test import Client
from django.utils import timezone

from console import attempts, tokens
from console.attempts import Limit
from console.models import Scope
from operations.models import AuditEvent

pytestmark = pytest.mark.django_db
SOMEBODY = {"REMOTE_ADDR": "10.9.8.7"}


def asked(method, path, *, token="", body=b"{}"):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return Client(**SOMEBODY).generic(method, f"/api/v1/{path}", body, "application/json", headers=headers)


def only(**named):
    [row] = AuditEvent.objects.filter(outcome="REFUSED", **named)
    return row


def test_nobody_knows_this_token(node):
    asked("GET", "outbox", token="lc_made_up")

    row = only()
    assert (row.by, row.what, row.target, row.ip) == ("", "API_OUTBOX", "page:/api/v1/outbox", "10.9.8.7")
    assert row.reason == "This token is not known."
    assert "made_up" not in str(AuditEvent.objects.values_list().get(pk=row.pk))


def test_a_token_that_was_revoked_is_named_by_its_beginning(node):
    issued = tokens.issue_token("billing", scopes=set(Scope), by="t", now=timezone.now())
    tokens.revoke_token(issued.prefix, by="t", now=timezone.now())

    assert asked("GET", "outbox", token=issued.secret).status_code == 401
    assert (only().session, only().by) == (issued.prefix, "")


def test_a_scope_that_is_missing(node):
    operation = node.submitted()
    reader = tokens.issue_token("billing", scopes={Scope.READ}, by="t", now=timezone.now())

    assert asked("POST", f"operations/{operation}/cancel", token=reader.secret).status_code == 403

    row = only()
    assert (row.by, row.what, row.target) == ("client:billing", "API_CANCEL", f"operation:{operation}")
    assert (row.ip, row.session, row.server) == ("10.9.8.7", reader.prefix, "reports")
    assert "'cancel'" in row.reason


def test_a_cancel_of_somebody_else_s_operation(node, stranger):
    operation = node.submitted()

    assert stranger.post(f"operations/{operation}/cancel", {"reason": "not mine"}).status_code == 404

    assert (only().by, only().target) == ("client:stranger", f"operation:{operation}")


def test_what_stands_against_one_s_own_call_is_no_attempt(node):
    node.submit()

    assert node.submit(principal="somebody else").status_code == 409
    assert not AuditEvent.objects.filter(outcome="REFUSED").exists()


def test_a_cancel_that_is_taken_says_where_it_came_from_and_by_which_token(node):
    operation = node.submitted()

    asked("POST", f"operations/{operation}/cancel", token=node.token, body=b'{"reason": "wrong quarter"}')

    row = AuditEvent.objects.filter(target=f"operation:{operation}", by="client:billing").latest("id")
    assert (row.outcome, row.ip, node.token.startswith(row.session)) == ("DONE", "10.9.8.7", True)
    assert row.session


class TestTooMany:
    @pytest.fixture(autouse=True)
    def _few(self, monkeypatch):
        monkeypatch.setattr(attempts, "API", Limit(kind="api", most=3, span=timedelta(minutes=1)))

    def test_after_so_many_the_answer_is_to_wait(self, node):
        statuses = [asked("GET", "outbox", token="lc_x").status_code for _ in range(5)]
        refused = asked("GET", "outbox", token="lc_x")

        assert statuses == [401, 401, 401, 429, 429]
        assert 0 < int(refused["Retry-After"]) <= 60
        assert refused.json()["type"].endswith("too-many-refused")
        assert "Nothing was changed" in refused.json()["not_done"]

    def test_the_audit_is_not_filled_by_it(self, node):
        for _ in range(20):
            asked("GET", "outbox", token="lc_x")

        reasons = AuditEvent.objects.filter(outcome="REFUSED").order_by("id").values_list("reason", flat=True)
        assert len(reasons) == 4
        assert "more than 3" in reasons[3]

    def test_a_valid_token_is_let_in_from_the_same_address(self, node):
        for _ in range(5):
            asked("GET", "outbox", token="lc_x")

        assert asked("GET", "outbox", token=node.token).status_code == 200

    def test_one_client_s_refusals_are_not_another_s(self, node, stranger):
        for _ in range(5):
            node.post("operations/00000000-0000-4000-8000-000000000000/cancel", {"reason": "none"})

        answer = stranger.post("operations/00000000-0000-4000-8000-000000000000/cancel", {"reason": "none"})

        assert answer.status_code == 404


def test_a_ledger_that_is_away_does_not_change_what_is_said(node, monkeypatch):
    def broken(*args, **kwargs):
        raise OperationalError("away")

    monkeypatch.setattr(attempts, "count", broken)

    assert asked("GET", "outbox", token="").status_code == 401
