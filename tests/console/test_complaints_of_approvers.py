"""What users of other consoles complain about, 1 to 9 and 16 to 18: answers, notices, and the audit.

The operators' pages (10 to 15) are tried in `test_complaints`. Each test carries its number in the list of our screens.
"""

import datetime as dt
import json
from io import StringIO
from uuid import uuid4

import pytest
from django.core import mail
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console import access, tidings
from operations import ledger, notices
from operations.approval import Policy
from operations.ledger import NewRoute, Note
from operations.machine import State
from operations.models import Answer, AuditEvent, Notice, NoticeDelivery
from operations.notice import Kind, Way
from operations.queries import rounds
from tests.console import factories as make
from tests.console.test_round import address, answer, fates, held, hidden
from tests.console.test_votes import seals_of_a_page_without_form

pytestmark = pytest.mark.django_db
SECRET = "sk-live-0123456789abcdef"


def note(reason=""):
    return Note(by="person:adam", reason=reason, now=timezone.now())


def route(*addresses, kinds=tuple(Kind)):
    for to in addresses:
        ledger.save_route(NewRoute(team="everybody", way=Way.EMAIL, address=to, kinds=kinds), note=note())


def tell():
    return notices.send_due(clock=timezone.now, words=tidings.words, environ={})


def test_1_an_answer_never_goes_to_a_later_round(ada, bob):
    """The page of round 1, posted when round 2 is asked with the very same form."""
    operation = make.asking(make.question("Deploy v42?"))
    old = hidden(ada, operation)
    answer(bob, operation, q0f0="false")
    make.deliver(operation)
    make.resume(operation)
    make.ask(operation, make.question("Delete everything?", key='"q2"'))

    told = answer(ada, operation, sealed=old, q0f0="true")

    assert told.status_code == 409
    assert held(operation, 2) is None
    assert [one.by for one in Answer.objects.all()] == ["person:bob"]


def test_2_a_second_answer_is_not_dropped_in_silence(ada, bob):
    """Its giver is told who won, when and with what, keeps what was typed, and the attempt stands in the audit."""
    operation = make.asking()
    sealed = hidden(ada, operation)
    answer(bob, operation, q0f0="true")

    told = answer(ada, operation, sealed=sealed, q0f0="false")

    page = told.content.decode()
    assert told.status_code == 409
    assert "bob" in page
    assert ("No", "Yes") in [(pair.mine, pair.theirs) for pair in told.context["pairs"]]
    assert AuditEvent.objects.filter(by="person:ada", target=f"operation:{operation}", outcome="REFUSED").exists()


def test_3_whatever_follows_the_links_of_a_mail_decides_nothing(ada):
    """Scanners of mail open every link, some with the reader's session, and ask with GET, HEAD and OPTIONS."""
    route("ada@example.org")
    operation = make.asking()
    tell()
    [letter] = mail.outbox
    link = next(word for word in letter.body.split() if word.startswith("/"))

    for method in ("get", "head", "options"):
        for query in ("", "?action=accept&q0f0=true", "?action=decline"):
            getattr(ada, method)(link + query)
            getattr(Client(), method)(link + query)

    assert link == address(operation)
    assert fates(operation) == "OPEN"
    assert not Answer.objects.exists()


def test_4_the_approver_is_who_has_signed_in_whatever_the_request_says(ada):
    operation = make.asking()
    forged = dict.fromkeys(("by", "person", "approver", "user", "username", "answered_by"), "person:bob")
    url = address(operation) + "?by=person:bob"

    ada.post(
        url,
        {**hidden(ada, operation), "action": "accept", "q0f0": "true", **forged},
        headers={"X-Remote-User": "bob", "Remote-User": "bob", "X-Forwarded-User": "bob"},
    )

    assert held(operation).by == "person:ada"
    assert set(AuditEvent.objects.filter(target=f"operation:{operation}").values_list("by", flat=True)) == {
        "person:ada"
    }


@pytest.mark.parametrize("way", ["form", "fragment", "confirmation", "ledger"])
def test_5_nobody_approves_an_own_request_by_any_entry(ada, bob, way):
    """One door in the ledger: the page, the htmx fragment, the confirmation, a call by hand."""
    policy = Policy(needed=2, four_eyes=True) if way == "confirmation" else Policy(four_eyes=True)
    ledger.set_approval(policy, server="shop", tool="change_prices", note=note())
    operation = make.asking(principal="ada")
    if way == "ledger":
        with pytest.raises(ledger.MayNotDecide):
            give_by_hand(operation)
    else:
        given = {**seals_of_a_page_without_form("ada", operation), "action": "accept", "q0f0": "true"}
        if way == "confirmation":
            answer(bob, operation, q0f0="true")
            [vote] = rounds.round_page(operation, number=1).votes
            given["confirm"] = str(vote.id)
        headers = {"HX-Request": "true"} if way == "fragment" else {}

        assert ada.post(address(operation), given, headers=headers).status_code == 403

    assert held(operation) is None


def give_by_hand(operation):
    page = rounds.round_page(operation, number=1)
    ledger.answer_round(
        operation,
        round=1,
        request_digest=page.request_digest,
        as_shown_digest="shown",
        form_id=uuid4(),
        replies=[ledger.GivenReply(key='"q1"', action="accept", content='{"ok": true}')],
        people=access.people_of,
        by="person:ada",
        now=timezone.now(),
    )


def test_6_a_card_holds_what_one_has_to_know_before_deciding(ada):
    """Tool, server, for whom, by which call node, the question, how long there is, and the exact arguments."""
    make.asking(
        make.question("Change 412 prices by 12 %?"),
        arguments=b'{"percent": 12.50}',
        principal="ann",
        call_node="spring",
    )

    card = ada.get(reverse("approvals")).content.decode()

    for told in ("Change prices", "Shop", "asked for ann", "by spring", "Change 412 prices by 12 %?", "12.50"):
        assert told in card
    assert "data-tick=" in card[card.index("<article") :]


@pytest.mark.parametrize(
    "wrong", [{}, {"q0f0": "perhaps"}, {"q0f0": "true", "action": "approve"}, {"q0f0": "true", "round_token": "x"}]
)
def test_7_input_that_is_not_taken_leaves_the_round_open_and_the_work_alive(ada, wrong):
    operation = make.asking()
    before = ledger.read([operation])[operation]

    told = ada.post(address(operation), {**hidden(ada, operation), "action": "accept", **wrong})

    assert told.status_code in {400, 422}
    assert fates(operation) == "OPEN"
    assert ledger.read([operation])[operation].state is before.state is State.INPUT_REQUIRED
    assert answer(ada, operation, q0f0="true").status_code == 302


def test_8_nothing_runs_out_without_a_warning(ada):
    """People are reminded before the deadline, told after it, and the page counts down all the while."""
    ledger.set_approval(Policy(remind_s=(600,)), server="shop", tool="change_prices", note=note())
    now = timezone.now()
    operation = make.asking(now=now)
    page = ada.get(address(operation)).content.decode()

    ledger.sweep_notices(now=now + dt.timedelta(minutes=25))
    make.expire(operation)

    kinds = list(Notice.objects.filter(operation_id=operation).order_by("id").values_list("kind", flat=True))
    assert kinds == [Kind.ROUND_OPENED, Kind.DEADLINE_NEAR, Kind.ROUND_EXPIRED]
    assert 'data-tick="left"' in page


@pytest.mark.parametrize("end", ["complete", "cancel", "unknown"])
def test_9_no_round_stays_open_after_its_operation_has_ended(ada, end):
    operation = make.asking()
    sealed = hidden(ada, operation)

    getattr(make, end)(operation)

    assert fates(operation) != "OPEN"
    assert operation not in ada.get(reverse("approvals")).content.decode()
    assert 'id="answer"' not in ada.get(address(operation)).content.decode()
    assert answer(ada, operation, sealed=sealed, q0f0="true").status_code == 409


def test_16_one_event_is_one_message_to_a_group_however_many_approvers_it_has(ada, bob):
    for n in range(5):
        make.person(f"approver-{n}", "approver")
    route("approvers@example.org")

    make.asking()
    tell()
    tell()

    assert [letter.to for letter in mail.outbox] == [["approvers@example.org"]]


def test_17_a_notice_that_fails_stands_in_nobody_s_way(ada, settings):
    """The way is broken from the beginning: the round opens, is answered, and is delivered all the same."""
    settings.EMAIL_HOST = ""
    route_to_nowhere()
    operation = make.asking()

    tell()
    answered = answer(ada, operation, q0f0="true")
    make.deliver(operation)

    assert answered.status_code == 302
    assert held(operation).by == "person:ada"
    failed = NoticeDelivery.objects.get()
    assert failed.sent_at is None
    assert failed.error


def route_to_nowhere():
    way = NewRoute(
        team="everybody",
        way=Way.CHAT,
        address="http://127.0.0.1:9/hook",
        secret_ref="NO_SUCH_VARIABLE",
        allow_private=True,
        kinds=(Kind.ROUND_OPENED,),
    )
    ledger.save_route(way, note=note())


def test_18_no_secret_comes_into_the_audit(ada):
    """Typed as an answer, as a password, as a name at the login, or as the token of an API client."""
    schema = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}
    operation = make.asking(make.question("Which key?", schema), arguments=json.dumps({"token": SECRET}).encode())
    answer(ada, operation, q0f0=SECRET)
    Client().post(reverse("login"), {"username": "ada", "password": SECRET})
    Client().get("/api/v1/outbox", headers={"Authorization": f"Bearer {SECRET}"})
    call_command("issue_token", "flows", stdout=(said := StringIO()))

    kept = str(list(AuditEvent.objects.values_list()))
    assert held(operation).by == "person:ada"
    assert AuditEvent.objects.filter(what="LOGIN", outcome="REFUSED").exists()
    assert SECRET not in kept
    assert said.getvalue().strip() not in kept
