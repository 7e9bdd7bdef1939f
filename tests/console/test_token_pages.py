"""API tokens as admins make, see and revoke them: on the pages and by commands (W)."""

import uuid
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console import tokens
from console.models import ApiToken, Scope
from operations.models import AuditEvent

pytestmark = pytest.mark.django_db
WHY = "the billing flows move to us"


def given(**changes):
    return {"id": str(uuid.uuid4()), "client": "billing", "scopes": ["read"], "days": "30", "reason": WHY} | changes


def asked(secret):
    return Client().get("/api/v1/outbox", headers={"Authorization": f"Bearer {secret}"})


def issued(**changes):
    named = {"scopes": {Scope.READ}, "by": "person:adam", "now": timezone.now()}
    return tokens.issue_token("billing", **named | changes)


class TestMaking:
    def test_the_token_that_is_shown_opens_the_api(self, adam):
        page = adam.post(reverse("token_new"), given(), follow=True)

        secret = page.context["secret"]
        assert secret in page.content.decode()
        assert asked(secret).status_code == 200
        assert page["Cache-Control"] == "no-store"

    def test_it_is_shown_once(self, adam):
        page = adam.post(reverse("token_new"), given(), follow=True)

        again = adam.get(page.redirect_chain[-1][0])

        assert page.context["secret"] not in again.content.decode()

    def test_the_same_form_twice_makes_one(self, adam):
        form = given()
        adam.post(reverse("token_new"), form)

        page = adam.post(reverse("token_new"), form, follow=True)

        assert ApiToken.objects.count() == 1
        assert "This form has made its token already" in page.content.decode()

    def test_it_stands_in_the_audit_without_the_secret(self, adam):
        secret = adam.post(reverse("token_new"), given(), follow=True).context["secret"]

        row = AuditEvent.objects.get(what="TOKEN_ISSUED")
        assert (row.by, row.target, row.reason) == ("person:adam", f"token:{secret[:11]}", WHY)
        assert row.after["scopes"] == ["read"]
        assert secret not in str(list(AuditEvent.objects.values_list()))

    @pytest.mark.parametrize(
        "wrong",
        [{"client": "a b"}, {"scopes": []}, {"scopes": ["root"]}, {"days": "91"}, {"days": "0"}, {"reason": "ok"}],
    )
    def test_what_cannot_be_is_not_made(self, adam, wrong):
        assert adam.post(reverse("token_new"), given(**wrong)).status_code == 422
        assert not ApiToken.objects.exists()


class TestRevoking:
    def test_it_is_turned_away_from_the_next_request_on(self, adam):
        token = issued()
        before = asked(token.secret).status_code

        adam.post(reverse("token_revoke", args=[token.prefix]), {"reason": WHY})

        assert (before, asked(token.secret).status_code) == (200, 401)
        row = AuditEvent.objects.get(what="TOKEN_REVOKED")
        assert (row.by, row.target, row.reason) == ("person:adam", f"token:{token.prefix}", WHY)

    def test_twice_is_told_and_noted_as_refused(self, adam):
        token = issued()
        address = reverse("token_revoke", args=[token.prefix])
        adam.post(address, {"reason": WHY})

        page = adam.post(address, {"reason": WHY}, follow=True).content.decode()

        assert "It was revoked before" in page
        assert AuditEvent.objects.get(what="TOKEN_REVOKE").outcome == "REFUSED"

    def test_it_needs_a_reason(self, adam):
        token = issued()

        assert adam.post(reverse("token_revoke", args=[token.prefix]), {"reason": ""}).status_code == 422
        assert asked(token.secret).status_code == 200

    def test_an_unknown_one_is_not_there(self, adam):
        assert adam.post(reverse("token_revoke", args=["lc_none"]), {"reason": WHY}).status_code == 404


class TestList:
    def test_those_that_work_come_first_with_their_last_use(self, adam):
        ended = issued(now=timezone.now() - timedelta(days=2), life=timedelta(days=1))
        used = issued()
        asked(used.secret)

        page = adam.get(reverse("tokens"))

        [first, second] = page.context["tokens"]
        assert (first[0].prefix, first[1], second[0].prefix, second[1]) == (used.prefix, True, ended.prefix, False)
        assert first[0].last_used_at is not None
        assert "Ran out" in page.content.decode()
        assert used.secret not in page.content.decode()

    def test_an_empty_list_says_what_appears_here(self, adam):
        assert "No token yet" in adam.get(reverse("tokens")).content.decode()


class TestCommands:
    def test_a_token_is_listed_and_revoked(self):
        token, said = issued(), StringIO()

        call_command("list_tokens", stdout=said)
        call_command("revoke_token", token.secret, reason=WHY, stdout=said)
        call_command("list_tokens", stdout=said)

        before, told, after = said.getvalue().splitlines()
        assert "works until" in before
        assert "never used" in before
        assert told == f"{token.prefix}… is revoked"
        assert "revoked" in after
        assert token.secret not in said.getvalue()
        assert AuditEvent.objects.get(what="TOKEN_REVOKED").reason == WHY

    @pytest.mark.parametrize("twice, why", [(True, "revoked before"), (False, "no token")])
    def test_what_cannot_be_revoked_is_said(self, twice, why):
        prefix = issued().prefix if twice else "lc_12345678"
        if twice:
            call_command("revoke_token", prefix, reason=WHY, stdout=StringIO())

        with pytest.raises(CommandError, match=why):
            call_command("revoke_token", prefix, reason=WHY)
