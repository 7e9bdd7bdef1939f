"""The shell around every page: signing in, the navigation, what a browser prefers, and what no page may hold."""

import re
import uuid
from urllib.parse import quote

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from console import urls
from tests.console import factories as make

pytestmark = pytest.mark.django_db


def pages(operation):
    """Every page of these rooms, for one operation."""
    return [
        reverse("home"),
        reverse("operations"),
        reverse("operations") + "?view=all",
        reverse("operation", args=[operation]),
        *(
            reverse("operation", args=[operation]) + f"?tab={tab}"
            for tab in ("evidence", "receipt", "journal", "record")
        ),
        reverse("cancel", args=[operation]),
        reverse("reconcile"),
        reverse("reconcile_item", args=[operation]),
        reverse("help"),
    ]


def test_without_a_session_every_page_leads_to_the_login_and_back():
    make.server()
    operation = make.working()

    for page in pages(operation):
        answer = Client().get(page)

        assert answer.status_code == 302
        assert answer.url == f"{reverse('login')}?next={quote(page)}"


def test_a_fragment_asked_for_without_a_session_sends_the_whole_page_to_the_login():
    answer = Client().get(
        reverse("places"), headers={"HX-Request": "true", "HX-Current-URL": "http://testserver/help/"}
    )

    assert answer.headers["HX-Redirect"] == f"{reverse('login')}?next={reverse('help')}"


def test_the_login_says_where_it_leads_back_to():
    page = Client().get(reverse("login") + "?next=/operations/%3Fview%3Dall").content.decode()

    assert "Sign in to go on." in page
    assert "/operations/?view=all" in page


def test_a_wrong_password_says_that_nothing_was_changed_and_keeps_the_name():
    make.person("ada", "approver")

    page = Client().post(reverse("login"), {"username": "ada", "password": "wrong"}).content.decode()

    assert "Nothing was changed; try again." in page
    assert 'value="ada"' in page


def test_a_right_password_leads_back_to_the_page_that_was_wanted():
    make.person("ada", "approver")

    answer = Client().post(reverse("login"), {"username": "ada", "password": make.PASSWORD, "next": reverse("help")})

    assert (answer.status_code, answer.url) == (302, reverse("help"))


def test_a_login_never_leads_to_a_foreign_site():
    make.person("ada", "approver")
    login = {"username": "ada", "password": make.PASSWORD, "next": "https://elsewhere.example/"}

    answer = Client().post(reverse("login"), login)

    assert answer.url == "/"


def test_the_navigation_counts_what_waits_for_people():
    make.server()
    make.asking()
    make.asking()

    page = make.signed_in("ada", "approver").get(reverse("places") + "?at=help").content.decode()

    assert "2 open questions" in page
    assert re.search(r'href="/help/"[^>]*aria-current="page"', page)


def test_no_page_holds_inline_script_style_or_a_handler():
    make.server()
    operation = make.asking()
    olga = make.signed_in("olga", "operator", "approver")

    for page in pages(operation):
        answer = olga.get(page)
        html = answer.content.decode()

        assert answer.status_code == 200, page
        assert not re.search(r"<script(?![^>]*\bsrc=)", html), page
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", html), page
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")


def test_every_page_has_one_heading_one_main_and_a_way_past_the_navigation():
    make.server()
    operation = make.asking()
    olga = make.signed_in("olga", "operator")

    for page in pages(operation):
        html = olga.get(page).content.decode()

        assert html.count("<h1") == 1, page
        assert html.count("<main") == 1, page
        assert '<a class="skip" href="#main">' in html, page
        assert html.count('class="btn pri') <= 1, page


@pytest.mark.parametrize("role", ["approver", "operator", "admin", "viewer"])
def test_everybody_reads(role):
    make.server()
    operation = make.working()
    client = make.signed_in("somebody", role)

    for name, args in [("home", []), ("operations", []), ("operation", [operation]), ("reconcile", []), ("help", [])]:
        assert client.get(reverse(name, args=args)).status_code == 200


def test_somebody_without_a_role_reads_nothing_and_is_told_why():
    answer = make.signed_in("newcomer").get(reverse("operations"))

    assert answer.status_code == 403
    assert "has no role yet" in answer.content.decode()


def test_what_does_not_exist_is_not_found_in_the_same_words_as_what_is_not_yours():
    answer = make.signed_in("olga", "operator").get(reverse("operation", args=[uuid.uuid4()]))

    assert answer.status_code == 404
    assert "There is nothing at this address" in answer.content.decode()


def test_the_theme_is_drawn_by_the_server():
    olga = make.signed_in("olga", "operator")

    olga.post(reverse("preferences"), {"theme": "dark", "zone": "Asia/Tokyo", "next": reverse("help")})
    page = olga.get(reverse("help")).content.decode()

    assert 'data-theme="dark"' in page
    assert "Times in Asia/Tokyo" in page


def test_times_are_told_in_the_zone_of_the_reader():
    make.server()
    operation = make.working()
    olga = make.signed_in("olga", "operator")
    olga.post(reverse("preferences"), {"zone": "Asia/Tokyo"})

    page = olga.get(reverse("operation", args=[operation])).content.decode()

    titles = re.findall(r'<time [^>]*title="([^"]+)"', page)
    assert titles
    assert all(title.endswith(" Asia/Tokyo") for title in titles)


def test_a_preference_that_does_not_exist_changes_nothing():
    olga = make.signed_in("olga", "operator")

    olga.post(reverse("preferences"), {"theme": "purple", "zone": "../etc/passwd", "language": "../en"})
    page = olga.get(reverse("help")).content.decode()

    assert "data-theme" not in page
    assert "Times in UTC" in page


def test_single_keys_can_be_switched_off():
    olga = make.signed_in("olga", "operator")

    olga.post(reverse("preferences"), {"theme": "system"})
    page = olga.get(reverse("help")).content.decode()

    assert 'data-keys="off"' in page
    assert "for keys; no key decides" not in page


def test_keeping_preferences_never_leads_to_a_foreign_site():
    answer = make.signed_in("olga", "operator").post(reverse("preferences"), {"next": "//elsewhere.example/"})

    assert answer.url == reverse("home")


BUTTONS = ("try_it", "preferences", "look_now", "claim", "round_claim", "list_change", "team_route_test", "tool_policy")


def address_of(name):
    """An address of this name; nothing has to exist there."""
    given = {"int": 1, "uuid": uuid.UUID(int=0), "slug": "x", "str": "x", "path": "x"}
    route = next(route for route in urls.urlpatterns if getattr(route, "name", "") == name)
    kinds = {
        part: type(converter).__name__.removesuffix("Converter").lower()
        for part, converter in route.pattern.converters.items()
    }
    return reverse(name, kwargs={part: given["str" if kind == "string" else kind] for part, kind in kinds.items()})


@pytest.mark.parametrize("name", BUTTONS)
def test_an_address_for_a_button_that_is_opened_as_a_page_says_so_and_leads_back(name):
    answer = make.signed_in("adam", "admin").get(address_of(name))

    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")
    page = answer.content.decode()
    assert "Nothing was changed." in page
    back = re.search(r'<p class="mt4"><a class="btn" href="([^"]+)"', page)[1]
    assert address_of(name).startswith(back)
    assert Client().get(back).status_code == 302  # a page, which asks a stranger to sign in; not another 405


def test_a_program_that_wants_no_page_gets_none():
    answer = make.signed_in("olga", "operator").get(reverse("try_it"), headers={"Accept": "application/json"})

    assert (answer.status_code, answer.content) == (405, b"")


@pytest.mark.parametrize("name", ["home", "operations", "reconcile", "places"])
def test_a_list_of_many_costs_as_many_queries_as_a_list_of_one(name):
    make.server()
    olga = make.signed_in("olga", "operator")
    make.asking()
    one = _queries(olga, reverse(name))
    for _ in range(6):
        make.asking()

    many = _queries(olga, reverse(name))

    assert many == one


def _queries(client, page):
    with CaptureQueriesContext(connection) as seen:
        assert client.get(page).status_code == 200
    return len(seen)
