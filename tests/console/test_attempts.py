"""Whoever is turned away too often is not listened to for a while, and nobody else is held up (W)."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.urls import reverse

from console import attempts
from console.attempts import Limit
from console.models import Attempts
from operations.models import AuditEvent
from tests.console import factories as make

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
THREE = Limit(kind="test", most=3, span=timedelta(minutes=5))
RIGHT = {"username": "ada", "password": make.PASSWORD}
WRONG = RIGHT | {"password": "wrong"}


def counted(times, *source, at=NOW):
    return [attempts.count(THREE, *source, now=at) for _ in range(times)]


class TestCounting:
    def test_it_is_over_with_the_one_after_the_last_that_is_allowed(self):
        assert [(one.is_over, one.is_first_over) for one in counted(5, "a")] == [
            (False, False),
            (False, False),
            (False, False),
            (True, True),
            (True, False),
        ]

    def test_sources_do_not_count_for_each_other(self):
        counted(3, "a")

        assert counted(1, "b")[0].count == 1
        assert counted(1, "a", "b")[0].count == 1

    def test_the_span_begins_with_the_first_and_then_all_begins_anew(self):
        counted(4, "a")

        [still] = counted(1, "a", at=NOW + timedelta(minutes=5) - timedelta(seconds=1))
        [anew] = counted(1, "a", at=NOW + timedelta(minutes=5))

        assert (still.is_over, still.wait_s(NOW + timedelta(minutes=4, seconds=59))) == (True, 1)
        assert (anew.count, anew.wait_s(NOW + timedelta(minutes=5))) == (1, 300)

    def test_a_clock_that_was_put_back_locks_nobody_out(self):
        counted(4, "a", at=NOW + timedelta(days=300))

        assert counted(1, "a")[0].count == 1

    def test_what_was_given_back_was_none(self):
        counted(3, "a")
        attempts.give_back(THREE, "a")

        assert not counted(1, "a")[0].is_over

    def test_what_was_typed_as_a_name_is_not_kept(self):
        counted(1, "my-password-by-mistake")

        assert "password" not in Attempts.objects.get().source

    def test_old_counts_are_swept_away(self):
        counted(1, "long-ago")

        counted(1, "now", at=NOW + timedelta(days=2))

        assert Attempts.objects.count() == 1


def sign_in(given, *, address="10.0.0.1"):
    return Client(REMOTE_ADDR=address).post(reverse("login"), given)


class TestLogin:
    @pytest.fixture(autouse=True)
    def _ada(self):
        make.person("ada", "approver")

    def test_after_ten_failures_even_the_right_password_has_to_wait(self):
        for _ in range(attempts.LOGIN_OF_ONE.most):
            assert sign_in(WRONG).status_code == 200

        refused = sign_in(RIGHT)

        assert refused.status_code == 429
        assert 0 < int(refused["Retry-After"]) <= 900
        assert "Too many attempts" in refused.content.decode()

    def test_somebody_elsewhere_locks_nobody_out(self):
        for _ in range(attempts.LOGIN_OF_ONE.most + 1):
            sign_in(WRONG)

        assert sign_in(RIGHT, address="10.0.0.2").status_code == 302

    def test_another_spelling_of_the_name_is_the_same_name(self):
        for name in ["ada", "ADA", " ada "] * 4:
            refused = sign_in(WRONG | {"username": name})

        assert refused.status_code == 429

    def test_many_names_from_one_address_are_too_many_too(self, monkeypatch):
        monkeypatch.setattr(attempts, "LOGIN_FROM_ONE", Limit(kind="few", most=5, span=timedelta(minutes=15)))
        for n in range(5):
            sign_in(WRONG | {"username": f"name-{n}"})

        assert sign_in(RIGHT).status_code == 429

    def test_whoever_comes_in_has_not_failed(self, monkeypatch):
        """A whole office signs in from one address every morning."""
        monkeypatch.setattr(attempts, "LOGIN_FROM_ONE", Limit(kind="few", most=5, span=timedelta(minutes=15)))

        assert {sign_in(RIGHT).status_code for _ in range(20)} == {302}

    def test_a_flood_of_guesses_leaves_one_line_more_than_the_limit(self):
        for _ in range(attempts.LOGIN_OF_ONE.most + 5):
            sign_in(WRONG)

        kept = AuditEvent.objects.filter(what="LOGIN", outcome="REFUSED").order_by("-id")
        assert kept.count() == attempts.LOGIN_OF_ONE.most + 1
        assert "too many attempts" in kept[0].reason
        assert kept[0].ip == "10.0.0.1"

    def test_whoever_is_signed_in_goes_on_working(self):
        make.server()
        inside = Client(REMOTE_ADDR="10.0.0.1")
        inside.force_login(make.person("bob", "approver"))
        for _ in range(attempts.LOGIN_OF_ONE.most + 1):
            sign_in(WRONG)

        assert inside.get(reverse("approvals")).status_code == 200
