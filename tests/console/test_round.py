"""The page of one round: what it shows, which answers it takes, and what it says about those it does not."""

import datetime as dt
import re
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from operations import ledger
from operations.models import Answer, Due
from operations.queries import dossier, rounds
from tests.console import factories as make

pytestmark = pytest.mark.django_db


def address(operation, number=1):
    return reverse("round", args=[operation, number])


def hidden(client, operation, number=1):
    """The hidden fields of a freshly opened page."""
    page = client.get(address(operation, number)).content.decode()
    names = ("round_token", "form_id")
    return {name: re.search(rf'name="{name}" value="([^"]+)"', page)[1] for name in names}


def answer(client, operation, number=1, *, action="accept", sealed=None, **fields):
    sealed = sealed or hidden(client, operation, number)
    return client.post(address(operation, number), {**sealed, "action": action, **fields})


def held(operation, number=1):
    return rounds.round_page(operation, number=number).answer


def fates(operation, number=1):
    """How the ledger holds the round now."""
    return rounds.round_page(operation, number=number).card.status


class TestThePage:
    def test_it_shows_question_arguments_form_and_deadline(self, ada):
        operation = make.asking(arguments=b'{"percent": 12.0, "list": [1, 2]}')

        page = ada.get(address(operation)).content.decode()

        assert "Deploy v42?" in page
        assert "&quot;percent&quot;: 12.0" in page
        assert "Deploy now" in page
        assert "Not answered" in page

    def test_everything_from_the_server_is_plain_text(self, ada):
        """B162: in the text, in attributes, in options, in the list as well."""
        hostile = '<script>alert(1)</script><img src=x onerror=alert(1)>" onmouseover=alert(1) x="http://evil.example'
        schema = {
            "type": "object",
            "properties": {
                "x": {"type": "string", "title": hostile, "description": hostile, "enum": [hostile, "b"]},
                "y": {"type": "string", "default": hostile, "maxLength": 150},
            },
        }
        operation = make.asking(make.question(f"\u202e{hostile}", schema), principal=hostile)

        for page in (ada.get(address(operation)), ada.get(reverse("approvals"))):
            text = page.content.decode()
            assert "<script>alert" not in text
            assert "<img src" not in text
            assert '" onmouseover' not in text
            assert 'href="http://evil' not in text
            assert "\u202e" not in text
        assert "⟨U+202E⟩" in text

    def test_it_is_never_cached(self, ada):
        """B239"""
        operation = make.asking()

        assert "no-store" in ada.get(address(operation))["Cache-Control"]

    def test_opening_it_decides_nothing_and_brings_one_look_forward(self, ada):
        """I1, B181: an approver's opening makes the operation due, at most every ten seconds."""
        operation = make.asking()
        before = due(operation)

        ada.get(address(operation))
        after = due(operation)
        ada.get(address(operation))

        assert after < before
        assert due(operation) == after
        assert fates(operation) == "OPEN"
        assert held(operation) is None

    def test_a_viewer_brings_no_look_forward_and_gets_no_form(self, ada):
        operation = make.asking()
        before = due(operation)

        page = make.signed_in("vera", "viewer").get(address(operation))

        assert due(operation) == before
        assert b'name="round_token"' not in page.content
        assert b"You do not have this role" in page.content

    def test_a_live_fragment_asks_the_server_nothing(self, ada):
        operation = make.asking()
        before = due(operation)

        page = ada.get(address(operation), headers={"HX-Request": "true"})

        assert due(operation) == before
        assert b"<html" not in page.content
        assert b'id="round-state"' in page.content
        assert b'name="q0f0"' not in page.content

    def test_a_round_that_does_not_exist_is_not_found(self, ada):
        operation = make.working()

        assert ada.get(address(operation, 1)).status_code == 404
        assert ada.get(address(uuid.uuid4())).status_code == 404

    def test_strangers_are_sent_to_the_login(self, ada):
        operation = make.asking()

        page = Client().get(address(operation))

        assert page.status_code == 302
        assert reverse("login") in page["Location"]

    def test_the_number_of_queries_does_not_depend_on_what_there_is(self, ada, django_assert_num_queries):
        operation = make.asking()
        ada.get(address(operation))
        with CaptureQueriesContext(connection) as few:
            ada.get(address(operation))
        count = len(few)
        for _ in range(3):
            other = make.asking(make.question(schema=BIG))
            answer(make.signed_in(f"p{uuid.uuid4().hex[:6]}", "approver"), other, action="decline")

        with django_assert_num_queries(count):
            ada.get(address(operation))


class TestDifferences:
    def test_the_previous_round_of_the_operation(self, ada):
        operation = make.asking(
            make.question("Which range?", {"type": "object", "properties": {"r": {"type": "string"}}})
        )
        answer(ada, operation, q0f0="all", comment="keep it small")
        make.deliver(operation)
        make.resume(operation)
        make.ask(operation, make.question("Write now?", key='"q2"'))

        page = ada.get(address(operation, 2)).content.decode()

        assert "What changed since round 1" in page
        assert "Which range?" in page
        assert "form: ok" in page
        assert "keep it small" in page

    def test_the_last_approved_call_of_the_same_tool(self, ada):
        first = make.asking(arguments=b'{"percent": 18.0, "currency": "EUR"}')
        answer(ada, first, q0f0="true")
        declined = make.asking(arguments=b'{"percent": 50.0}')
        answer(ada, declined, action="decline")
        operation = make.asking(arguments=b'{"percent": 12.0, "currency": "EUR"}')

        changes = page_context(ada, operation)["changes"]

        assert [(change.sign, change.name, change.text) for change in changes] == [
            ("-", "percent", "18.0"),
            ("+", "percent", "12.0"),
        ]

    def test_only_the_same_round_of_another_call_is_compared(self, ada):
        """The second question of a tool has nothing to do with its first."""
        first = make.asking(make.question("Which range?"))
        answer(ada, first, q0f0="true")
        make.deliver(first)
        make.resume(first)
        make.ask(first, make.question("Write now?", key='"q2"'))
        answer(ada, first, 2, q0f0="true")

        compared = page_context(ada, make.asking(make.question("Which range?")))["compared"]

        assert (compared.operation, compared.number) == (first, 1)


class TestAnAnswer:
    @pytest.mark.parametrize(
        "fields, action, content",
        [
            ({"action": "accept", "q0f0": "false"}, "accept", '{"ok": false}'),
            ({"action": "decline", "q0f0": "true"}, "decline", None),
            ({"action": "cancel"}, "cancel", None),
        ],
    )
    def test_is_stored_with_what_was_shown_and_who_gave_it(self, ada, fields, action, content):
        """I2, I5, B143, B181"""
        operation = make.asking()
        shown = page_context(ada, operation)["as_shown"]

        page = answer(ada, operation, comment="as agreed", **fields)

        given = held(operation)
        assert (page.status_code, page["Location"]) == (302, address(operation))
        assert [(reply.action, reply.content) for reply in given.replies] == [(action, content)]
        assert (given.by, given.comment, given.delivery) == ("person:ada", "as agreed", "STORED")
        assert stored_digest(operation) == shown

    def test_the_name_of_the_person_comes_from_the_session_only(self, ada):
        operation = make.asking()

        answer(ada, operation, q0f0="true", by="person:eve", username="eve", person="eve")

        assert held(operation).by == "person:ada"

    def test_what_it_says_about_itself_follows_the_delivery(self, ada):
        """I6: stored, delivered, confirmed; never earlier than it is true."""
        operation = make.asking()
        answer(ada, operation, q0f0="true")
        stored = ada.get(address(operation)).content.decode()
        make.deliver(operation)
        delivered = ada.get(address(operation)).content.decode()
        make.resume(operation)
        confirmed = ada.get(address(operation)).content.decode()

        assert "Not delivered yet" in stored
        assert "Delivered to the server" in delivered
        assert "Not confirmed yet" in delivered
        assert "delivered and confirmed" in confirmed

    def test_what_is_wrong_is_said_and_what_was_typed_is_kept(self, ada):
        """A rejected input keeps the round open."""
        schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 5}, "s": {"type": "string"}}}
        operation = make.asking(make.question(schema=schema))

        page = answer(ada, operation, q0f0="6", q0f1="keep me", comment="and me")

        text = page.content.decode()
        assert page.status_code == 422
        assert "At most 5." in text
        assert "keep me" in text
        assert "and me" in text
        assert fates(operation) == "OPEN"

    def test_the_form_comes_from_the_ledger_and_not_from_the_post(self, ada):
        operation = make.asking()

        page = answer(ada, operation, q0f0="maybe", q0f1="x", schema="{}", q0json="{}")

        assert page.status_code == 422
        assert held(operation) is None

    def test_several_questions_take_one_post(self, ada):
        """B175"""
        operation = make.asking(make.question(key="1"), make.question("And then?", key="2"))

        page = answer(ada, operation, q0choice="accept", q0f0="true", q1choice="decline")

        assert page.status_code == 302
        assert [(reply.key, reply.action) for reply in held(operation).replies] == [("1", "accept"), ("2", "decline")]

    def test_a_page_to_visit_is_shown_in_full_and_consented_to(self, ada):
        """B164, B165"""
        operation = make.asking(make.question("Sign in", url="http://xn--pple-43d.example/x?y=1"))

        page = ada.get(address(operation)).content.decode()
        answer(ada, operation)

        assert "<b>xn--pple-43d.example</b>/x?y=1" in page
        assert 'rel="noopener noreferrer"' in page
        assert "not encrypted" in page
        assert "punycode" in page
        assert held(operation).replies[0].content is None

    def test_a_blocked_page_is_no_link(self, ada):
        """B164"""
        operation = make.asking(make.question("Sign in", url="javascript:alert(1)"))

        page = ada.get(address(operation)).content.decode()
        refused = answer(ada, operation)

        assert "This address is blocked" in page
        assert 'href="javascript' not in page
        assert 'value="accept"' not in page
        assert refused.status_code == 422

    def test_an_answer_to_a_secret_is_not_shown_again(self, ada):
        """B167"""
        schema = {"type": "object", "properties": {"api_key": {"type": "string"}}}
        operation = make.asking(make.question(schema=schema))

        warned = ada.get(address(operation)).content
        answer(ada, operation, q0f0="hunter2-secret")

        assert b"looks like a secret" in warned
        assert b"hunter2-secret" not in ada.get(address(operation)).content

    def test_long_digits_reach_the_ledger(self, ada):
        schema = {"type": "object", "properties": {"n": {"type": "number"}}}
        operation = make.asking(make.question(schema=schema))

        answer(ada, operation, q0f0="12345678901234567890.10")

        assert held(operation).replies[0].content == '{"n": 12345678901234567890.10}'


class TestTwice:
    def test_the_same_form_posted_again_is_one_answer(self, ada):
        """R9, B169: a double click and a browser's own retry."""
        operation = make.asking()
        sealed = hidden(ada, operation)

        pages = [answer(ada, operation, sealed=sealed, q0f0="true") for _ in range(3)]

        assert [page.status_code for page in pages] == [302, 302, 302]
        assert answer_count(operation) == 1
        assert b"recorded before" in ada.get(address(operation)).content

    def test_the_second_person_is_told_who_won(self, ada):
        """I3, B168: when, with what, and nothing of theirs is lost."""
        operation = make.asking()
        bob = make.signed_in("bob", "approver")
        sealed = hidden(bob, operation)
        answer(ada, operation, q0f0="true")

        page = answer(bob, operation, sealed=sealed, q0f0="false", comment="my reasons")

        text = page.content.decode()
        assert page.status_code == 409
        assert re.search(r"Ada answered .* before you", text)
        assert [(pair.theirs, pair.mine) for pair in page.context["pairs"]] == [("accept", "accept"), ("Yes", "No")]
        assert "my reasons" in text
        assert held(operation).by == "person:ada"

    def test_a_form_that_closed_under_somebody_leads_to_both_answers(self, ada):
        """I3: the live part says who was first; comparing answers nothing."""
        operation = make.asking()
        bob = make.signed_in("bob", "approver")
        sealed = hidden(bob, operation)
        answer(ada, operation, q0f0="true")

        part = bob.get(address(operation), headers={"HX-Request": "true"}).content.decode()
        page = bob.post(address(operation), sealed | {"compare": "yes", "q0f0": "false"})

        assert 'data-won="Ada answered first: Submit."' in part
        assert page.status_code == 409
        assert [(pair.theirs, pair.mine) for pair in page.context["pairs"]] == [("accept", ""), ("Yes", "No")]
        assert sum(row.event == "RoundGone" for row in dossier.journal(uuid.UUID(operation))) == 0

    def test_comparing_answers_no_open_round(self, ada):
        operation = make.asking()

        page = ada.post(
            address(operation), hidden(ada, operation) | {"compare": "yes", "action": "accept", "q0f0": "true"}
        )

        assert page.status_code == 302
        assert fates(operation) == "OPEN"

    def test_a_losing_page_that_is_reloaded_tells_the_same_and_adds_nothing(self, ada):
        """R9: the browser sends the form again; it was turned away once."""
        operation = make.asking()
        bob = make.signed_in("bob", "approver")
        sealed = hidden(bob, operation)
        answer(ada, operation, q0f0="true")

        first, again = (answer(bob, operation, sealed=sealed, q0f0="false") for _ in range(2))

        assert again.status_code == 409
        assert again.context["came_at"] == first.context["came_at"]
        assert again.context["ahead"] == first.context["ahead"]
        assert sum(row.event == "RoundGone" for row in dossier.journal(uuid.UUID(operation))) == 1

    def test_the_history_tells_whose_answer_was_not_taken_and_who_was_first(self, ada):
        operation = make.asking()
        bob = make.signed_in("bob", "approver")
        sealed = hidden(bob, operation)
        answer(ada, operation, q0f0="true")
        answer(bob, operation, sealed=sealed, q0f0="false")

        page = ada.get(reverse("operation", args=[operation])).content.decode()

        assert "The answer of bob was not taken: ada had answered first" in page
        assert "the round is gone" not in page

    @pytest.mark.django_db(transaction=True)
    def test_two_people_at_the_same_moment_leave_one_answer(self, ada):
        """B168, with real threads: one is stored, the other sees who won."""
        operation = make.asking()
        clients = [make.signed_in(f"p{n}", "approver") for n in range(4)]
        seals = [hidden(client, operation) for client in clients]

        def press(n):
            try:
                return answer(clients[n], operation, sealed=seals[n], q0f0="true").status_code
            finally:
                connection.close()

        with ThreadPoolExecutor(4) as pool:
            codes = sorted(pool.map(press, range(4)))

        assert codes == [302, 409, 409, 409]
        assert answer_count(operation) == 1

    def test_two_tabs_of_one_person(self, ada):
        """B240"""
        operation = make.asking()
        first, second = hidden(ada, operation), hidden(ada, operation)
        answer(ada, operation, sealed=first, q0f0="true")

        page = answer(ada, operation, sealed=second, q0f0="false")

        assert page.status_code == 409
        assert b"You had answered" in page.content

    def test_back_and_submit_again_shows_the_stored_answer(self, ada):
        """B239"""
        operation = make.asking()
        sealed = hidden(ada, operation)
        answer(ada, operation, sealed=sealed, q0f0="true")
        make.deliver(operation)
        make.resume(operation)

        page = answer(ada, operation, sealed=sealed | {"form_id": str(uuid.uuid4())}, q0f0="true")

        assert page.status_code == 409
        assert [pair.same for pair in page.context["pairs"]] == [True, True]


class TestTooLate:
    def test_an_answer_for_an_older_round(self, ada):
        """B170: nothing is sent, the newer round is offered with an empty form."""
        operation = make.asking()
        sealed = hidden(ada, operation)
        bob = make.signed_in("bob", "approver")
        answer(bob, operation, q0f0="true")
        make.deliver(operation)
        make.resume(operation)
        make.ask(operation, make.question("Round two?", key='"q2"'))

        page = answer(ada, operation, sealed=sealed, q0f0="true")

        assert page.status_code == 409
        assert address(operation, 2) in page.content.decode()
        assert held(operation, 2) is None
        assert form_is_empty(ada, operation, 2)

    def test_a_token_of_one_round_does_not_open_another(self, ada):
        """I3, B170"""
        operation = make.asking()
        sealed = hidden(ada, operation)
        answer(ada, operation, sealed=sealed, q0f0="true")
        make.deliver(operation)
        make.resume(operation)
        make.ask(operation, make.question("Round two?", key='"q2"'))

        page = answer(ada, operation, 2, sealed=sealed, q0f0="true")

        assert page.status_code == 400
        assert b"belongs to another round" in page.content
        assert held(operation, 2) is None

    def test_an_expired_round(self, ada):
        """I5, B178: too late is said, and a deadline never approves."""
        operation = make.asking()
        sealed = hidden(ada, operation)
        make.expire(operation)

        page = answer(ada, operation, sealed=sealed, q0f0="true")

        assert page.status_code == 409
        assert b"too late and was not sent" in page.content
        assert held(operation) is None

    def test_a_deadline_that_has_just_passed(self, ada):
        """The ledger's clock decides, not the housekeeping that closes the round a moment later."""
        operation = make.asking(now=timezone.now() - dt.timedelta(seconds=1801))
        sealed = hidden(ada, operation)

        page = answer(ada, operation, sealed=sealed, q0f0="true")

        assert page.status_code == 409
        assert page.context["fate"].status == "EXPIRED"

    def test_a_question_that_has_gone(self, ada):
        """I1: with the reason, on screen too."""
        operation = make.asking()
        sealed = hidden(ada, operation)
        make.resume(operation)

        page = answer(ada, operation, sealed=sealed, q0f0="true")

        assert page.status_code == 409
        assert b"The server no longer asks" in page.content
        assert b"The server no longer asks" in ada.get(address(operation)).content

    def test_a_task_that_has_ended_meanwhile(self, ada):
        """B179"""
        operation = make.asking()
        sealed = hidden(ada, operation)
        make.complete(operation)

        page = answer(ada, operation, sealed=sealed, q0f0="true")

        assert page.status_code == 409
        assert b"Ended, being checked" in page.content
        assert held(operation) is None

    def test_a_cancel_closes_the_form(self, ada):
        """C11"""
        operation = make.asking()
        sealed = hidden(ada, operation)
        ledger.request_cancel(operation, seen_generation=0, by="person:olga", reason="wrong list", now=timezone.now())

        page = answer(ada, operation, sealed=sealed, q0f0="true")

        assert page.status_code == 409
        assert b"cancel was requested" in page.content

    def test_a_round_that_is_over_shows_no_form(self, ada):
        operation = make.asking()
        make.expire(operation)

        assert b'name="round_token"' not in ada.get(address(operation)).content

    def test_an_unfinished_form_for_a_closed_round_is_told_that_it_is_closed(self, ada):
        operation = make.asking()
        sealed = hidden(ada, operation)
        make.expire(operation)

        page = answer(ada, operation, sealed=sealed, q0f0="")

        assert page.status_code == 409


class TestTheSeal:
    def test_a_page_of_another_person_is_refused(self, ada):
        operation = make.asking()
        sealed = hidden(ada, operation)

        page = answer(make.signed_in("bob", "approver"), operation, sealed=sealed, q0f0="true")

        assert page.status_code == 400
        assert b"made for another person" in page.content
        assert held(operation) is None

    @pytest.mark.parametrize(
        "broken", [{"round_token": ""}, {"round_token": "x:y:z"}, {"form_id": "7"}, {"form_id": ""}]
    )
    def test_a_form_without_its_seal_is_refused(self, ada, broken):
        operation = make.asking()

        page = answer(ada, operation, sealed=hidden(ada, operation) | broken, q0f0="true")

        assert page.status_code == 400
        assert held(operation) is None

    @pytest.mark.parametrize("action", ["", "yes", "ACCEPT"])
    def test_a_button_that_does_not_exist_decides_nothing(self, ada, action):
        operation = make.asking()

        page = answer(ada, operation, action=action, q0f0="true")

        assert page.status_code == 400
        assert held(operation) is None

    def test_a_page_open_for_too_long_is_shown_anew_with_what_was_typed(self, ada, monkeypatch):
        operation = make.asking(make.question(schema={"type": "object", "properties": {"s": {"type": "string"}}}))
        sealed = hidden(ada, operation)
        monkeypatch.setattr("console.roundtokens.MAX_AGE", dt.timedelta(seconds=-1))

        page = answer(ada, operation, sealed=sealed, q0f0="still here")

        assert page.status_code == 409
        assert b"still here" in page.content
        assert held(operation) is None

    def test_a_question_other_than_the_one_shown_is_not_answered(self, ada, monkeypatch):
        """I3: what the person saw is what the answer is bound to."""
        operation = make.asking()
        sealed = hidden(ada, operation)
        monkeypatch.setattr("console.roundtokens.as_shown_digest", lambda page: "f" * 64)

        page = answer(ada, operation, sealed=sealed, q0f0="true")

        assert page.status_code == 409
        assert page.context["fate"].status == "CHANGED"
        assert held(operation) is None


class TestRights:
    @pytest.mark.parametrize("role", ["viewer", "operator", "admin"])
    def test_only_approvers_answer(self, ada, role):
        operation = make.asking()
        sealed = hidden(ada, operation)

        page = answer(make.signed_in("pat", role), operation, sealed=sealed, q0f0="true")

        assert page.status_code == 403
        assert held(operation) is None

    def test_a_right_that_was_taken_away_meanwhile(self, ada):
        """B182"""
        operation = make.asking()
        sealed = hidden(ada, operation)
        User.objects.get(username="ada").groups.clear()

        assert answer(ada, operation, sealed=sealed, q0f0="true").status_code == 403
        assert held(operation) is None

    def test_a_session_that_has_ended_meanwhile(self, ada):
        """B182, B237: an htmx request leads the whole page to the login."""
        operation = make.asking()
        sealed = hidden(ada, operation)
        ada.logout()

        page = answer(ada, operation, sealed=sealed, q0f0="true")
        fragment = ada.get(address(operation), headers={"HX-Request": "true", "HX-Current-URL": "http://testserver/a"})

        assert page.status_code == 302
        assert "/login/" in fragment["HX-Redirect"]
        assert held(operation) is None

    def test_the_page_after_a_stale_form_claims_no_draft_where_no_script_keeps_one(self, ada):
        operation = make.asking()
        strict = Client(enforce_csrf_checks=True)
        strict.force_login(User.objects.get(username="ada"))

        page = strict.post(address(operation), {"action": "accept"}).content.decode()

        assert re.search(r"<p [^>]*data-needs-script hidden>What you typed", page)
        assert "<noscript>" in page
        assert "Without JavaScript nothing that you typed is kept here." in page

    def test_a_post_without_the_csrf_token_does_nothing(self, ada):
        """B236"""
        operation = make.asking()
        strict = Client(enforce_csrf_checks=True)
        strict.cookies = ada.cookies

        page = answer(strict, operation, sealed=hidden(ada, operation), q0f0="true")

        assert page.status_code == 403
        assert b"Nothing was sent" in page.content
        assert address(operation) in page.content.decode()
        assert held(operation) is None


class TestClaims:
    def test_a_claim_is_seen_and_can_be_given_back(self, ada):
        operation = make.asking()

        ada.post(reverse("round_claim", args=[operation, 1]), {"do": "claim"})
        claimed = rounds.round_page(operation, number=1).card.claimed_by
        ada.post(reverse("round_claim", args=[operation, 1]), {"do": "release"})

        assert claimed == "person:ada"
        assert rounds.round_page(operation, number=1).card.claimed_by == ""

    def test_a_claim_keeps_nobody_from_answering(self, ada):
        operation = make.asking()
        ada.post(reverse("round_claim", args=[operation, 1]), {"do": "claim"})

        assert answer(make.signed_in("bob", "approver"), operation, q0f0="true").status_code == 302

    def test_viewers_claim_nothing(self, ada):
        operation = make.asking()

        page = make.signed_in("vera", "viewer").post(reverse("round_claim", args=[operation, 1]), {"do": "claim"})

        assert page.status_code == 403

    def test_it_returns_only_to_pages_of_this_site(self, ada):
        operation = make.asking()

        page = ada.post(reverse("round_claim", args=[operation, 1]), {"do": "claim", "next": "https://evil.example/"})

        assert page["Location"] == address(operation)


class TestMoreTime:
    def test_an_operator_gives_more_time_also_to_an_expired_round(self, ada):
        """I2"""
        operation = make.asking()
        make.expire(operation)
        olga = make.signed_in("olga", "operator")

        olga.post(reverse("round_extend", args=[operation, 1]), {"minutes": "15"})

        assert fates(operation) == "OPEN"
        assert answer(ada, operation, q0f0="true").status_code == 302

    def test_never_past_the_wait_budget(self, ada):
        """I2"""
        operation = make.asking(budget_s=600)
        before = rounds.round_page(operation, number=1).card.deadline_at
        olga = make.signed_in("olga", "operator")

        olga.post(reverse("round_extend", args=[operation, 1]), {"minutes": "240"})

        assert rounds.round_page(operation, number=1).card.deadline_at == before
        assert b"was not extended" in olga.get(address(operation)).content

    def test_approvers_give_no_time(self, ada):
        operation = make.asking()

        assert ada.post(reverse("round_extend", args=[operation, 1]), {"minutes": "15"}).status_code == 403


BIG = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(30)}}


def page_context(client, operation, number=1):
    return client.get(address(operation, number)).context


def form_is_empty(client, operation, number):
    form = page_context(client, operation, number)["form"]
    return not form.is_bound and form.questions[0]["q0f0"].value() == ""


def due(operation):
    return Due.objects.get(operation_id=operation).due_at


def stored_digest(operation):
    return Answer.objects.get(round__operation_id=operation).as_shown_digest


def answer_count(operation):
    return Answer.objects.filter(round__operation_id=operation).count()
