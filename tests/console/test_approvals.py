"""The inbox: what waits for an answer, by deadline, and where everything else has gone."""

import datetime as dt
import json
import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from operations import ledger
from operations.queries import rounds
from tests.approvers import everybody
from tests.console import factories as make

pytestmark = pytest.mark.django_db


def inbox(client, query="", **headers):
    return client.get(reverse("approvals") + query, headers=headers)


def cards(page):
    return [card.operation for _title, held in page.context["groups"] for card in held]


def answered(operation, by="person:ada", action="accept"):
    page = rounds.round_page(operation, number=1)
    replies = [ledger.GivenReply(key=q.key, action=action, content='{"ok": true}') for q in page.card.questions]
    ledger.answer_round(
        operation,
        round=1,
        request_digest=page.request_digest,
        as_shown_digest="0" * 64,
        form_id=make.uuid.uuid4(),
        replies=replies,
        people=everybody,
        by=by,
        now=timezone.now(),
    )


def test_open_rounds_stand_by_deadline(ada):
    now = timezone.now()
    late = make.asking(now=now)
    soon = make.asking(now=now - dt.timedelta(minutes=20))
    over = make.asking(now=now - dt.timedelta(minutes=31))

    page = inbox(ada)

    assert cards(page) == [over, soon, late]
    assert [title for title, _cards in page.context["groups"]] == [
        "Out of time, being closed",
        "Due within 15 minutes",
        "Later",
    ]


def test_a_card_has_what_is_needed_to_decide(ada):
    make.asking(
        make.question("Write prices?\nMore words."), arguments=b'{"percent": 12.0, "note": "\\u202e"}', principal="ann"
    )

    text = inbox(ada).content.decode()

    for needed in (
        "Write prices?",
        "Change prices",
        "Shop",
        "asked for ann",
        "round 1",
        "<i>percent</i> 12.0",
        "\\u202e",
    ):
        assert needed in text
    assert "More words" not in text


def test_a_card_keeps_its_size_whatever_the_arguments_hold(ada):
    many = {f"{'n' * 300}{n}": "v" * 3000 for n in range(30)}
    make.asking(arguments=json.dumps(many).encode())

    text = inbox(ada).content.decode()
    chips = re.findall(r'<span class="arg">(.*?)</span>', text)

    assert len(chips) == 9
    assert "and 22 more" in chips[-1]
    assert max(map(len, chips)) < 200


def test_each_tab_has_its_rounds_and_its_count(ada):
    open_ = make.asking()
    mine = make.asking()
    ledger.claim_round(mine, round=1, by="person:ada", now=timezone.now())
    theirs = make.asking()
    ledger.claim_round(theirs, round=1, by="person:bob", now=timezone.now())
    given = make.asking()
    answered(given)
    expired = make.asking()
    make.expire(expired)
    gone = make.asking()
    make.resume(gone)

    assert set(cards(inbox(ada))) == {open_, mine, theirs}
    assert cards(inbox(ada, "?tab=mine")) == [mine]
    assert cards(inbox(ada, "?tab=answered")) == [given]
    assert cards(inbox(ada, "?tab=expired")) == [gone, expired]
    counts = inbox(ada).context["counts"]
    assert (counts.open, counts.mine, counts.answered, counts.expired) == (3, 1, 1, 2)


def test_the_reason_of_a_closed_round_is_told(ada):
    """I1"""
    make.resume(make.asking())

    assert b"the server no longer asks" in inbox(ada, "?tab=expired").content


def test_an_expired_round_keeps_its_own_reason_whatever_the_server_does_later(ada):
    """I2, I5"""
    operation = make.asking()
    make.expire(operation)
    make.resume(operation)

    page = inbox(ada, "?tab=expired").content

    assert b"nobody answered before the deadline" in page
    assert b"no longer asks" not in page


def test_filters_narrow_list_and_counts(ada):
    make.server("books", tools=("match_invoices",))
    prices = make.asking()
    invoices = make.asking(server="books", tool="match_invoices")

    assert cards(inbox(ada, "?server=books")) == [invoices]
    assert cards(inbox(ada, "?tool=change_prices")) == [prices]
    assert inbox(ada, "?server=books").context["counts"].open == 1
    assert cards(inbox(ada, "?server=nowhere")) == []


@pytest.mark.parametrize(
    "query",
    [
        "?tab=nonsense",
        "?after=nonsense",
        "?after=2026-01-01~x",
        "?after=2026-01-01~1",
        "?after=2026-01-01T00:00:00Z~99999999999999999999",
        "?server=%00",
        "?tool=%F0%28",
    ],
)
def test_no_address_breaks_it(ada, query):
    make.asking()

    assert inbox(ada, query).status_code == 200


def test_pages_follow_each_other_without_gap_or_repetition(ada, monkeypatch):
    monkeypatch.setattr(rounds, "PAGE", 2)
    now = timezone.now()
    made = [make.asking(now=now) for _ in range(5)]  # one deadline: only the second key tells them apart

    seen, after = [], ""
    for _ in range(4):
        page = inbox(ada, f"?after={after}".replace("+", "%2B"))
        seen += cards(page)
        after = page.context["after"]
        if not after:
            break

    assert sorted(seen) == sorted(made)
    assert len(seen) == len(set(seen))


def test_an_htmx_request_gets_the_list_alone(ada):
    make.asking()

    page = inbox(ada, **{"HX-Request": "true"})

    assert b"<html" not in page.content
    assert page.content.count(b'id="inbox"') == 1
    assert b'hx-swap-oob="true"' in page.content


def test_an_empty_inbox_says_what_will_appear(ada):
    for tab in ("open", "mine", "answered", "expired"):
        assert b"<h2>" in inbox(ada, f"?tab={tab}").content


def test_a_viewer_reads_and_claims_nothing(ada):
    make.asking()

    page = make.signed_in("vera", "viewer").get(reverse("approvals"))

    assert page.status_code == 200
    assert b'value="claim"' not in page.content


def test_without_a_role_there_is_nothing_to_see(ada):
    assert make.signed_in("nobody").get(reverse("approvals")).status_code == 403


def test_the_number_of_queries_does_not_depend_on_the_number_of_rounds(ada, django_assert_num_queries):
    make.asking()
    inbox(ada)
    with CaptureQueriesContext(connection) as few:
        inbox(ada)
    count = len(few)
    for _ in range(6):
        make.asking()

    with django_assert_num_queries(count):
        inbox(ada)


def test_a_way_in_by_get_decides_nothing(ada):
    """Mail scanners follow links: no GET claims or answers."""
    operation = make.asking()

    for name in ("round_claim", "round_extend"):
        assert ada.get(reverse(name, args=[operation, 1])).status_code == 405
    assert ada.get(reverse("round", args=[operation, 1]) + "?action=accept&q0f0=true").status_code == 200
    assert rounds.round_page(operation, number=1).is_open
