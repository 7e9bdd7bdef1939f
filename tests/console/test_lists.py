"""Lists that are kept on the server: every filter, order and column, for oneself or for a team, one to open with."""

import datetime as dt
import re
import uuid

import pytest
from django.http import QueryDict
from django.urls import reverse
from django.utils import timezone

from console import lists
from operations.models import SavedView, Team, TeamMember
from operations.queries import lists as kept
from tests.console import factories as make
from tests.console.test_operations import fresh, listed

pytestmark = pytest.mark.django_db
KEEP = reverse("list_keep")


@pytest.fixture
def team():
    """A team of both of them."""
    made = Team.objects.create(slug="night", title="Night shift", all_servers=True)
    for name in ("olga", "otto"):
        TeamMember.objects.create(team=made, person=f"person:{name}")
    return made


def words(answer):
    return re.sub(r"\s+", " ", answer.content.decode())


def keep(client, name="Mine", query="state=WORKING", **fields):
    """Keep a list; return its id."""
    number = fields.pop("id", uuid.uuid4())
    client.post(KEEP, {"id": number, "name": name, "query": query} | fields)
    return number


def change(client, number, do):
    return client.post(reverse("list_change", args=[number]), {"do": do}, follow=True)


class TestFilters:
    def test_each_name_narrows(self, olga):
        here, there = fresh(principal="ann", call_node="a"), fresh(principal="bob", call_node="b")

        assert listed(olga, "?principal=ann") == [here]
        assert listed(olga, "?call_node=b") == [there]
        assert listed(olga, "?protocol=2025-11-25") == [there, here]
        assert listed(olga, "?protocol=2026-07-28") == []

    def test_a_window_of_time_narrows(self, olga):
        now = timezone.now()
        old, new = fresh(now=now - dt.timedelta(days=2)), fresh(now=now)

        assert listed(olga, "?window=24h") == [new]
        assert listed(olga, "?window=7d") == [new, old]

    def test_from_and_until_narrow_in_the_persons_own_zone(self, olga):
        noon = dt.datetime(2026, 11, 29, 12, tzinfo=dt.UTC)
        early, late = fresh(now=noon), fresh(now=noon + dt.timedelta(hours=2))
        olga.cookies["longcall_zone"] = "Asia/Tokyo"

        assert listed(olga, "?from=2026-11-29T22:00") == [late]
        assert listed(olga, "?to=2026-11-29T22:00") == [early]

    def test_the_oldest_come_first_where_asked_for_and_pages_follow(self, olga):
        made = [fresh() for _ in range(52)]

        page = olga.get(reverse("operations") + "?order=oldest").content.decode()
        newer = re.search(r'rel="next" href="([^"]+)"', page)[1].replace("&amp;", "&")

        assert listed(olga, "?order=oldest") + listed(olga, newer) == made

    def test_only_the_columns_that_were_asked_for_are_shown(self, olga):
        fresh(principal="ann")

        page = olga.get(reverse("operations") + "?cols=principal&cols=age").content.decode()

        head = page[page.index("<thead>") : page.index("</thead>")]
        assert re.findall(r">([^<]+)</th>", head) == ["Operation", "Our state", "On whose behalf", "Age"]
        assert ">ann</td>" in page

    @pytest.mark.parametrize("word", ["window=year", "from=yesterday", "to=9999999", "order=best", "cols=secret"])
    def test_a_word_it_does_not_know_is_ignored(self, olga, word):
        operation = fresh()

        assert listed(olga, f"?{word}") == [operation]

    def test_a_list_has_one_spelling(self):
        one = lists.kept_part(QueryDict("state=WORKING&server=shop&after=x&live=off&tool="))

        assert one == lists.kept_part(QueryDict("server=shop&state=WORKING")) == "state=WORKING&server=shop"


class TestKeep:
    def test_a_list_that_is_kept_stands_among_the_others(self, olga):
        number = keep(olga, name="At the shop", query="server=shop&view=all")

        page = words(olga.get(f"{reverse('operations')}?view=all&server=shop&list={number}"))

        assert re.search(rf'href="\?view=all&amp;server=shop&amp;list={number}" aria-current="page">At the shop', page)

    def test_the_same_form_twice_keeps_one(self, olga):
        number = uuid.uuid4()
        keep(olga, id=number)
        keep(olga, id=number)

        assert SavedView.objects.count() == 1

    def test_two_of_one_name_are_refused_and_nothing_is_lost(self, olga):
        keep(olga, query="state=WORKING")

        answer = olga.post(KEEP, {"name": "Mine", "query": "state=UNKNOWN"}, follow=True)

        assert "You have another list of this name." in words(answer)
        assert [one.query for one in kept.find("person:olga")] == ["state=WORKING"]

    def test_a_list_without_a_name_is_refused(self, olga):
        answer = olga.post(KEEP, {"name": "", "query": ""}, follow=True)

        assert "Nothing was kept." in words(answer)
        assert not SavedView.objects.exists()

    def test_it_is_ones_own_until_it_is_shared(self, olga, otto, team):
        keep(olga, name="Only mine")
        keep(olga, name="Ours", team="night")

        assert [one.name for one in kept.find("person:otto")] == ["Ours"]
        assert "kept by olga for Night shift" in words(otto.get(reverse("operations") + "?view=all"))

    def test_nobody_shares_with_a_team_they_do_not_belong_to(self, olga, team):
        vera = make.signed_in("vera", "viewer")
        keep(vera, name="Theirs", team="night")

        assert kept.find("person:otto") == ()

    def test_what_is_shared_is_changed_and_dropped_by_its_owner_only(self, olga, otto, team):
        number = keep(olga, name="Ours", team="night")
        keep(otto, id=number, name="His now")

        answer = change(otto, number, "drop")

        assert "somebody else" in words(answer)
        assert [one.name for one in kept.find("person:olga")] == ["Ours"]

    def test_dropping_twice_is_once(self, olga):
        number = keep(olga)

        change(olga, number, "drop")
        answer = change(olga, number, "drop")

        assert "gone already" in words(answer)
        assert kept.find("person:olga") == ()


class TestDefault:
    def test_operations_open_with_the_list_one_has_chosen(self, olga):
        number = keep(olga, query="state=WORKING")
        change(olga, number, "open")

        answer = olga.get(reverse("operations"))

        assert answer.url == f"{reverse('operations')}?state=WORKING&list={number}"

    def test_everything_open_is_one_click_away_all_the_same(self, olga):
        change(olga, keep(olga, query="state=WORKING"), "open")
        operation = fresh()

        assert listed(olga, "?view=open") == [operation]

    def test_the_choice_is_taken_back(self, olga):
        number = keep(olga)
        change(olga, number, "open")
        change(olga, number, "usual")

        assert olga.get(reverse("operations")).status_code == 200

    def test_a_list_that_is_dropped_opens_nothing(self, olga):
        number = keep(olga)
        change(olga, number, "open")
        change(olga, number, "drop")

        assert olga.get(reverse("operations")).status_code == 200

    def test_nobody_opens_with_a_list_that_is_not_shared_with_them(self, olga, otto):
        change(otto, keep(olga), "open")

        assert otto.get(reverse("operations")).status_code == 200
