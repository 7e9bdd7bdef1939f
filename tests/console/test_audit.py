"""The audit: every action and every refused attempt of a person, from every page (W, L7)."""

import csv
import datetime as dt
import io
import uuid

import pytest
from django.db import IntegrityError, connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from adapters.contract import Exchange, NeedsInput, ProtocolStatus
from operations import ledger
from operations.models import AuditEvent
from tests.console import factories as make

pytestmark = pytest.mark.django_db


@pytest.fixture
def people(client):
    make.server()

    def sign_in(name, *roles, **team):
        visitor = Client(REMOTE_ADDR="10.1.2.3")
        visitor.force_login(make.person(name, *roles, **team))
        return visitor

    return sign_in


def rows(**named):
    return list(
        AuditEvent.objects.exclude(by="tests").filter(**named).order_by("id").values_list("by", "what", "outcome")
    )


def only(**named):
    [row] = AuditEvent.objects.exclude(by="tests").filter(**named)
    return row


class TestWhatIsNoted:
    def test_a_role_that_is_missing(self, people):
        operation = make.asking()

        people("vera", "viewer").post(reverse("round_claim", args=[operation, 1]))

        row = only(outcome="REFUSED")
        assert (row.by, row.what, row.target) == ("person:vera", "ROUND_CLAIM", f"operation:{operation}")
        assert "needs the role approver" in row.reason
        assert (row.ip, row.server) == ("10.1.2.3", "shop")

    def test_a_form_that_did_not_come_from_our_page(self, people):
        operation = make.asking()

        people("ada", "approver").post(reverse("round", args=[operation, 1]), {"action": "accept"})

        assert rows() == [("person:ada", "ROUND", "REFUSED")]

    def test_an_illegal_step(self, people):
        """The ledger's own row, once: the page adds none of its own."""
        operation = make.asking()
        url = reverse("round_extend", args=[operation, 1])
        make.answer(operation)

        people("olga", "operator").post(url, {"minutes": "15"})

        assert rows(by="person:olga") == [("person:olga", "CannotExtend", "REFUSED")]

    def test_a_confirmation_that_was_typed_wrong(self, people):
        operation = make.unknown()
        given = {"verdict": "GAVE_UP", "reason": "nobody can tell any more", "typed": "wrong", "seen_version": 1}

        people("olga", "operator").post(reverse("judge", args=[operation]), given)

        assert rows(by="person:olga") == [("person:olga", "JUDGE", "REFUSED")]

    def test_a_conflict(self, people):
        operation = make.working()
        make.complete(operation)
        given = {"kind": "need", "reason": "not needed any more", "seen_generation": 0}

        answer = people("olga", "operator").post(reverse("cancel", args=[operation]), given)

        assert answer.status_code == 409
        assert rows(by="person:olga") == [("person:olga", "AlreadyFinished", "REFUSED")]

    def test_what_was_done_once(self, people):
        operation = make.asking()

        people("ada", "approver").post(reverse("round_claim", args=[operation, 1]))

        assert rows(by="person:ada") == [("person:ada", "ROUND_CLAIMED", "DONE")]

    def test_a_deed_that_changes_nothing_in_the_ledger(self, people):
        people("adam", "admin").post(reverse("logout"))

        assert ("person:adam", "LOGOUT", "DONE") in rows()

    def test_signing_in_and_failing_to(self, people, client):
        make.person("ada", "approver")

        client.post(reverse("login"), {"username": "ada", "password": "wrong"})
        client.post(reverse("login"), {"username": "ada", "password": make.PASSWORD})

        assert rows(what="LOGIN") == [("", "LOGIN", "REFUSED"), ("person:ada", "LOGIN", "DONE")]
        assert not AuditEvent.objects.filter(reason__contains="wrong").exists()

    def test_a_post_without_our_token(self, people):
        visitor = Client(enforce_csrf_checks=True)
        visitor.force_login(make.person("olga", "operator"))

        visitor.post(reverse("look_now", args=[make.working()]))

        assert rows(by="person:olga") == [("person:olga", "LOOK_NOW", "REFUSED")]

    def test_reading_raw_payloads(self, people):
        operation = make.working()
        kept = (Exchange(label="tasks/get", request=b"{}", http_status=200, body=b"{}"),)
        asked = NeedsInput(
            task=make.task_now(operation, ProtocolStatus.INPUT_REQUIRED), questions=(make.question(),), exchanges=kept
        )
        now = timezone.now()
        ledger.saw(operation, ticket=make.ticket_of(operation), seen=asked, next_at=now, now=now)

        answer = people("adam", "admin").get(reverse("evidence", args=[operation, 1]))

        assert answer.status_code == 200
        assert rows(what="EVIDENCE") == [("person:adam", "EVIDENCE", "DONE")]

    def test_looking_at_a_page_is_nothing_to_note(self, people):
        people("adam", "admin").get(reverse("operations"))

        assert rows() == []

    def test_what_a_browser_prefers_is_its_own_affair(self, people):
        people("ada", "approver").post(reverse("preferences"), {"theme": "dark"})

        assert rows() == []

    def test_who_it_was_comes_from_the_session_and_from_no_form(self, people):
        operation = make.asking()
        forged = {"by": "person:bob", "actor": "person:bob", "user": "bob", "username": "bob"}

        people("ada", "approver").post(reverse("round_claim", args=[operation, 1]), forged)

        assert rows() == [("person:ada", "ROUND_CLAIMED", "DONE")]

    def test_the_session_is_told_apart_and_not_given_away(self, people):
        visitor = people("adam", "admin")
        visitor.post(reverse("round_claim", args=[make.asking(), 1]))

        held = only(by="person:adam").session
        assert len(held) == 16
        assert visitor.session.session_key not in held


class TestNothingIsEverChanged:
    @pytest.mark.parametrize("statement", ["UPDATE audit_event SET reason = ''", "DELETE FROM audit_event"])
    def test_the_database_refuses_it(self, statement):
        ledger.audit("person:ada", "LOGIN", "page:login", now=timezone.now())

        with pytest.raises(IntegrityError, match="append-only"), connection.cursor() as cursor:
            cursor.execute(statement)


def note(n, *, by="person:ada", what="ROUND_CLAIMED", target=None, at=None, **more):
    for _ in range(n):
        ledger.audit(by, what, target or f"operation:{uuid.uuid4()}", now=at or timezone.now(), **more)


class TestPage:
    def entries(self, visitor, query=""):
        return visitor.get(reverse("audit") + query).context["page"]

    def test_it_is_paged_newest_first(self, people):
        adam = people("adam", "admin")
        note(60)

        first = self.entries(adam)
        second = self.entries(adam, f"?after={first.after}")

        assert len(first.entries) == 50
        assert first.entries[0].id > first.entries[-1].id > second.entries[0].id

    def test_it_costs_the_same_with_many_rows_as_with_one(self, people, django_assert_num_queries):
        adam = people("adam", "admin")
        note(1)
        with connection.execute_wrapper(counter := _Counter()):
            adam.get(reverse("audit"))
        note(49)

        with django_assert_num_queries(counter.count):
            adam.get(reverse("audit"))

    @pytest.mark.parametrize(
        "query, found",
        [
            ("?who=bob", ["TEAM_MADE"]),
            ("?who=person:bob", ["TEAM_MADE"]),
            ("?what=ROUND_CLAIMED", ["ROUND_CLAIMED"]),
            ("?target=tool:shop/", ["APPROVAL_SET"]),
            ("?outcome=REFUSED", ["CANCEL"]),
            ("?since=2026-03-02&until=2026-03-02", ["ROUND_CLAIMED"]),
            ("?since=not-a-day&who=bob", ["TEAM_MADE"]),
        ],
    )
    def test_it_is_narrowed(self, people, query, found):
        adam = people("adam", "admin")
        long_ago = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
        note(1, by="person:bob", what="TEAM_MADE", target="team:x", at=long_ago)
        note(1, at=dt.datetime(2026, 3, 2, 23, 59, tzinfo=dt.UTC))
        note(1, by="person:adam", what="APPROVAL_SET", target="tool:shop/change_prices", at=long_ago)
        ledger.audit_refused("person:olga", "CANCEL", "page:/x", now=long_ago, reason="no")

        assert [entry.what for entry in self.entries(adam, query).entries] == found

    def test_the_words_of_a_row_are_plain_text(self, people):
        adam = people("adam", "admin")
        ledger.audit_refused("person:x", "CANCEL", "page:<b>", now=timezone.now(), reason="<script>alert(1)</script>")

        page = adam.get(reverse("audit")).content.decode()

        assert "<script>alert(1)" not in page
        assert "&lt;script&gt;alert(1)" in page

    @pytest.mark.parametrize("role, status", [("admin", 200), ("operator", 200), ("approver", 403), ("viewer", 403)])
    def test_who_reads_it(self, people, role, status):
        assert people("somebody", role).get(reverse("audit")).status_code == status

    def test_a_door_that_stays_shut_is_not_in_the_navigation(self, people):
        assert reverse("audit") not in people("vera", "viewer").get(reverse("home")).content.decode()
        assert reverse("audit") in people("adam", "admin").get(reverse("home")).content.decode()

    def test_rows_of_a_server_that_is_not_seen_are_not_there(self, people):
        make.server("bank")
        olga = people("olga", "operator", team="")
        make.join("olga", "shopkeepers", servers=["shop"])
        note(1, target="server:shop", what="SHOP")
        note(1, target="server:bank", what="BANK")

        told = [entry.what for entry in self.entries(olga).entries]

        assert "SHOP" in told
        assert "BANK" not in told


class TestExport:
    def test_it_holds_the_filter_as_a_table_and_is_noted(self, people):
        adam = people("adam", "admin")
        note(2)
        note(1, by="person:bob")

        answer = adam.get(reverse("audit_export") + "?who=ada")

        table = list(csv.DictReader(io.StringIO(answer.content.decode())))
        assert [row["who"] for row in table] == ["person:ada", "person:ada"]
        assert rows(what="AUDIT_EXPORT") == [("person:adam", "AUDIT_EXPORT", "DONE")]

    def test_no_cell_is_a_formula(self, people):
        adam = people("adam", "admin")
        ledger.audit("person:ada", "CANCEL", "page:x", reason="=HYPERLINK(1)", now=timezone.now())

        table = list(csv.DictReader(io.StringIO(adam.get(reverse("audit_export")).content.decode())))

        assert "'=HYPERLINK(1)" in [row["reason"] for row in table]


class _Counter:
    """Counts the statements of a connection."""

    def __init__(self):
        self.count = 0

    def __call__(self, execute, sql, params, many, context):
        self.count += 1
        return execute(sql, params, many, context)
