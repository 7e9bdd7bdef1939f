"""Teams and the ways they are told: who looks after what, what a message says, and the test button (W, item 8)."""

import datetime as dt
import uuid

import pytest
from django.core import mail
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console import catalogue, tidings
from operations import ledger, notices
from operations.ledger import Item, Note, Parcel, Route
from operations.machine import Event, Reason
from operations.models import AuditEvent, NoticeRoute
from operations.notice import Kind, Way
from operations.queries import incidents, scope
from tests.console import factories as make

pytestmark = pytest.mark.django_db
WHY = "the shop has its own people now"


@pytest.fixture
def compiled():
    """The catalogues, as `prepare` compiles them."""
    from django.conf import settings
    from django.utils.translation import trans_real

    catalogue.compile_into(settings.HOME)
    trans_real._translations.pop("zh-hans", None)


@pytest.fixture
def adam():
    make.server()
    client = Client()
    client.force_login(make.person("adam", "admin"))
    return client


def team(slug):
    return next(team for team in scope.teams() if team.slug == slug)


def given(**changes):
    return {
        "slug": "shop",
        "title": "Shopkeepers",
        "servers": ["shop"],
        "members": ["person:adam"],
        "reason": WHY,
    } | changes


class TestTeams:
    def test_an_admin_makes_one(self, adam):
        adam.post(reverse("team_new"), given())

        assert (team("shop").servers, team("shop").members) == (("shop",), ("person:adam",))
        assert AuditEvent.objects.get(what="TEAM_MADE", target="team:shop").reason == WHY

    def test_and_changes_it(self, adam):
        adam.post(reverse("team_new"), given())

        adam.post(reverse("team_edit", args=["shop"]), given(all_servers="on", servers=[], members=[]))

        assert (team("shop").all_servers, team("shop").members) == (True, ())

    def test_a_second_one_of_the_same_name_is_not_made(self, adam):
        adam.post(reverse("team_new"), given())

        told = adam.post(reverse("team_new"), given(title="Others"))

        assert told.status_code == 422
        assert team("shop").title == "Shopkeepers"

    @pytest.mark.parametrize("wrong", [{"servers": ["nowhere"]}, {"members": ["person:nobody"]}, {"reason": "ok"}])
    def test_what_there_is_not_cannot_be_put_into_it(self, adam, wrong):
        assert adam.post(reverse("team_new"), given(**wrong)).status_code == 422

    @pytest.mark.parametrize("role", ["approver", "operator", "viewer"])
    def test_only_admins_see_them(self, adam, role):
        client = Client()
        client.force_login(make.person("somebody", role))

        assert client.get(reverse("teams")).status_code == 403
        assert client.post(reverse("team_new"), given()).status_code == 403


def way(**changes):
    held = {"way": "EMAIL", "address": "ada@example.org", "kinds": ["ROUND_OPENED"], "zone": "UTC", "enabled": "on"}
    return held | {"language": "en", "reason": WHY} | changes


class TestWays:
    def test_an_admin_sets_one_up(self, adam):
        adam.post(reverse("team_route_new", args=["everybody"]), way(quiet_from="22:00", quiet_until="07:00"))

        route = NoticeRoute.objects.get(team_id="everybody")
        assert (route.way, route.kinds, route.quiet_from) == ("EMAIL", ["ROUND_OPENED"], dt.time(22))

    @pytest.mark.parametrize(
        "wrong",
        [
            {"address": "not an address"},
            {"way": "CHAT", "address": "ftp://x", "secret_ref": "S"},
            {"way": "CHAT", "address": "https://chat.example.org/hook"},
            {"secret_ref": "whsec_abc+def="},
            {"quiet_from": "22:00"},
            {"kinds": []},
            {"zone": "Nowhere/Land"},
            {"language": "xx"},
        ],
    )
    def test_what_cannot_work_is_not_kept(self, adam, wrong):
        assert adam.post(reverse("team_route_new", args=["everybody"]), way(**wrong)).status_code == 422
        assert not NoticeRoute.objects.exists()

    def test_one_is_changed_and_taken_out_with_a_reason(self, adam):
        adam.post(reverse("team_route_new", args=["everybody"]), way())
        number = NoticeRoute.objects.get().pk
        adam.post(reverse("team_route", args=["everybody", number]), way(address="bob@example.org"))
        changed = NoticeRoute.objects.get().address

        adam.post(reverse("team_route_drop", args=["everybody", number]), {"reason": ""})
        kept = NoticeRoute.objects.count()
        adam.post(reverse("team_route_drop", args=["everybody", number]), {"reason": WHY})

        assert (changed, kept, NoticeRoute.objects.count()) == ("bob@example.org", 1, 0)

    def test_the_test_button_sends_one_at_once(self, adam):
        adam.post(reverse("team_route_new", args=["everybody"]), way())
        number = NoticeRoute.objects.get().pk

        page = adam.post(reverse("team_route_test", args=["everybody", number]), follow=True).content.decode()

        assert "Look whether it arrived" in page
        assert [letter.to for letter in mail.outbox] == [["ada@example.org"]]
        assert "Nothing has happened" in mail.outbox[0].body

    def test_a_test_that_fails_says_why_and_stays_on_the_page(self, adam):
        chat = way(way="CHAT", address="http://127.0.0.1:9/hook", secret_ref="NO_SUCH_VARIABLE")
        adam.post(reverse("team_route_new", args=["everybody"]), chat)
        number = NoticeRoute.objects.get().pk

        page = adam.post(reverse("team_route_test", args=["everybody", number]), follow=True).content.decode()

        assert "NO_SUCH_VARIABLE" in NoticeRoute.objects.get().test_error
        assert "The test was not taken" in page

    def test_the_page_says_what_became_of_each_notice(self, adam):
        adam.post(reverse("team_route_new", args=["everybody"]), way())
        make.asking()
        notices.send_due(clock=timezone.now, words=tidings.words, environ={})

        page = adam.get(reverse("team", args=["everybody"])).content.decode()

        assert "A question waits for an answer" in page
        assert "Sent" in page


class TestWords:
    ROUTE = Route(id=1, team="everybody", way=Way.EMAIL, address="a@example.org")

    def parcel(self, kind, count=1, **facts):
        items = tuple(
            Item(
                delivery=n,
                key=f"k{n}",
                at=timezone.now(),
                operation=str(uuid.uuid4()),
                server="shop",
                server_title="Shop",
                tool_title="Change prices",
                facts=facts,
            )
            for n in range(count)
        )
        return Parcel(route=self.ROUTE, kind=kind, items=items)

    def test_they_lead_to_the_page_where_a_person_decides(self, settings):
        settings.ORIGIN = "https://longcall.example.org"
        parcel = self.parcel(Kind.ROUND_OPENED, round=2, until="2026-11-29T12:30:00+00:00")

        message = tidings.words(parcel)

        address = reverse("round", args=[parcel.items[0].operation, 2])
        assert message.link == f"https://longcall.example.org{address}"
        assert message.subject == "[Longcall] A question waits for an answer: Shop · Change prices"
        assert "until 2026-11-29 12:30 UTC" in message.text

    def test_they_are_written_in_the_language_of_the_way_whoever_reads_the_pages(self, compiled):
        from dataclasses import replace

        from django.utils import translation

        english = self.parcel(Kind.ROUND_OPENED, round=2)
        chinese = replace(english, route=replace(self.ROUTE, language="zh-hans"))

        with translation.override("zh-hans"):
            assert tidings.words(english).subject.startswith("[Longcall] A question waits")
        assert "提问" in tidings.words(chinese).subject
        assert "提问" not in tidings.words(english).subject
        assert tidings.trial(chinese.route)[1].text != tidings.trial(english.route)[1].text

    def test_the_language_is_chosen_for_each_way_and_goes_with_what_is_sent(self, adam, compiled):
        adam.post(reverse("team_route_new", args=["everybody"]), way(language="zh-hans"))
        make.asking()

        notices.send_due(clock=timezone.now, words=tidings.words, environ={})

        assert NoticeRoute.objects.get().language == "zh-hans"
        assert "提问" in mail.outbox[0].subject

    def test_an_incident_is_told_once_with_the_way_to_its_page(self, adam):
        """X4: one outage is one message, however many calls it holds."""
        adam.post(reverse("team_route_new", args=["everybody"]), way(kinds=["INCIDENT"]))
        for _ in range(3):
            make.unknown(event=Event.NOT_FOUND, reason=Reason.NOT_FOUND)
        for _ in range(2):
            ledger.gather_incidents(now=timezone.now())
            notices.send_due(clock=timezone.now, words=tidings.words, environ={})

        [letter] = mail.outbox
        [incident] = incidents.find_open()
        assert letter.subject == "[Longcall] An incident at a server: Shop"
        assert reverse("reconcile_incident", args=[incident.id]) in letter.body

    def test_many_lead_to_their_list_and_name_some(self):
        message = tidings.words(self.parcel(Kind.UNKNOWN_OPENED, 2000))

        assert message.link.endswith(reverse("reconcile"))
        assert "2000" in message.subject
        assert message.text.count("\n") == tidings.LISTED
        assert "and 1980 more" in message.text

    @pytest.mark.parametrize("kind", Kind)
    @pytest.mark.parametrize("count", [1, 2])
    def test_every_kind_has_words_and_a_page_that_exists(self, adam, kind, count):
        from django.urls import resolve

        message = tidings.words(self.parcel(kind, count, round=1))

        assert message.subject
        resolve(message.link.partition("?")[0])

    def test_a_message_about_a_real_round_holds_no_argument_and_no_question(self, adam):
        ledger.save_route(
            ledger.NewRoute(team="everybody", way=Way.EMAIL, address="a@example.org", kinds=tuple(Kind)),
            note=Note(by="person:adam", reason="", now=timezone.now()),
        )
        make.asking(make.question("the secret is swordfish"), arguments=b'{"card": "4111-1111"}')

        notices.send_due(clock=timezone.now, words=tidings.words, environ={})

        [letter] = mail.outbox
        assert "4111" not in letter.body + letter.subject
        assert "swordfish" not in letter.body + letter.subject
