"""People and their roles, as admins give and take them (W)."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from console import access, once, people
from console.access import Role
from operations.models import AuditEvent
from tests.console import factories as make

pytestmark = pytest.mark.django_db
WHY = "joined the shop's night shift"


def given(**changes):
    return {
        "username": "ann",
        "full_name": "Ann Lee",
        "email": "ann@example.org",
        "roles": ["approver"],
        "reason": WHY,
    } | changes


def kept(**changes):
    """The form of somebody who exists."""
    return {name: value for name, value in given(**changes).items() if name != "username"} | {"is_open": "on"}


def noted(what):
    return AuditEvent.objects.get(what=what)


class TestMaking:
    def test_somebody_new_comes_in_with_the_password_that_is_shown(self, adam):
        page = adam.post(reverse("person_new"), given(), follow=True)

        password = page.context["secret"]
        assert password in page.content.decode()
        assert Client().post(reverse("login"), {"username": "ann", "password": password}).status_code == 302
        assert people.read("ann").roles == (Role.APPROVER,)

    def test_the_password_is_shown_once_and_kept_nowhere(self, adam):
        password = adam.post(reverse("person_new"), given(), follow=True).context["secret"]

        again = adam.get(reverse("person", args=["ann"]))

        assert password not in again.content.decode()
        assert once.COOKIE not in again.cookies
        assert password not in User.objects.get(username="ann").password
        assert password not in str(list(AuditEvent.objects.values_list()))

    def test_the_page_that_shows_it_is_kept_by_no_cache(self, adam):
        shown = adam.post(reverse("person_new"), given(), follow=True)

        assert shown["Cache-Control"] == "no-store"

    def test_it_stands_in_the_audit_with_the_reason(self, adam):
        adam.post(reverse("person_new"), given())

        row = noted("PERSON_MADE")
        assert (row.by, row.target, row.reason) == ("person:adam", "person:ann", WHY)
        assert row.after["roles"] == ["approver"]

    @pytest.mark.parametrize("name", ["ann", "ANN", "adam"])
    def test_a_name_is_given_once(self, adam, name):
        adam.post(reverse("person_new"), given())

        assert adam.post(reverse("person_new"), given(username=name)).status_code == 422
        assert User.objects.count() == 2

    @pytest.mark.parametrize(
        "wrong", [{"username": "a b"}, {"username": "a/b"}, {"email": "x"}, {"roles": ["root"]}, {"reason": "ok"}]
    )
    def test_what_cannot_be_is_not_made(self, adam, wrong):
        assert adam.post(reverse("person_new"), given(**wrong)).status_code == 422
        assert not User.objects.filter(first_name="Ann Lee").exists()


class TestChanging:
    @pytest.fixture
    def ann(self, adam):
        return make.signed_in("ann", "approver")

    def change(self, adam, name="ann", **changes):
        return adam.post(reverse("person", args=[name]), kept(**changes))

    def test_a_role_that_is_taken_is_gone_at_the_next_request(self, adam, ann):
        address = reverse("round_claim", args=[make.asking(), 1])
        before = ann.post(address).status_code

        self.change(adam, roles=["viewer"])

        assert (before, ann.post(address).status_code) == (302, 403)

    def test_what_changed_stands_in_the_audit(self, adam, ann):
        self.change(adam, roles=["approver", "operator"])

        row = noted("PERSON_CHANGED")
        assert (row.by, row.target) == ("person:adam", "person:ann")
        assert (row.before["roles"], row.after["roles"]) == (["approver"], ["approver", "operator"])

    def test_whoever_is_shut_out_is_out_at_once_and_stays_on_the_list(self, adam, ann):
        form = kept()
        del form["is_open"]
        adam.post(reverse("person", args=["ann"]), form)

        assert ann.get(reverse("operations")).status_code == 302
        assert Client().post(reverse("login"), {"username": "ann", "password": make.PASSWORD}).status_code == 200
        assert "Shut out" in adam.get(reverse("people")).content.decode()

    def test_nobody_takes_the_admin_s_role_from_themselves(self, adam):
        refused = self.change(adam, "adam", roles=["viewer"])

        assert refused.status_code == 422
        assert people.read("adam").roles == (Role.ADMIN,)

    def test_the_last_admin_stays(self, adam):
        """Also where an admin's right is taken at the very moment when another one acts on it."""
        make.person("eve", "admin")
        User.objects.filter(username="adam").update(is_active=False)
        rights = people.Rights(full_name="", email="", roles=frozenset(), is_open=True)
        note = access_note("person:adam")

        with pytest.raises(people.LastAdmin):
            people.change("eve", rights, note=note)

    def test_an_unknown_name_is_not_there(self, adam):
        assert self.change(adam, "nobody").status_code == 404

    def test_a_new_password_ends_the_old_one_everywhere(self, adam, ann):
        page = adam.post(reverse("person_password", args=["ann"]), {"reason": WHY}, follow=True)

        assert ann.get(reverse("operations")).status_code == 302
        assert Client().post(reverse("login"), {"username": "ann", "password": make.PASSWORD}).status_code == 200
        found = {"username": "ann", "password": page.context["secret"]}
        assert Client().post(reverse("login"), found).status_code == 302
        assert noted("PASSWORD_MADE").target == "person:ann"

    def test_without_a_reason_the_old_one_stays(self, adam, ann):
        adam.post(reverse("person_password", args=["ann"]), {"reason": ""})

        assert ann.get(reverse("operations")).status_code == 200
        assert AuditEvent.objects.get(what="PERSON_PASSWORD").outcome == "REFUSED"


def access_note(by):
    from django.utils import timezone

    from operations.ledger import Note

    return Note(by=by, reason="", now=timezone.now())


class TestList:
    def test_it_shows_roles_teams_and_servers(self, adam):
        make.person("ann", "approver", "operator", team="")
        make.join("ann", "night", servers=["shop"])
        make.person("nemo", team="")

        page = adam.get(reverse("people")).content.decode()

        row = page[page.index('id="person-ann"') :].partition("</tr>")[0]
        assert "approver" in row
        assert "operator" in row
        assert reverse("team", args=["night"]) in row
        assert "shop" in row
        assert "sees nothing" in page[page.index('id="person-nemo"') :].partition("</tr>")[0]

    def test_it_costs_the_same_for_many_people_as_for_few(self, adam, django_assert_num_queries):
        from django.db import connection
        from django.test.utils import CaptureQueriesContext

        with CaptureQueriesContext(connection) as few:
            adam.get(reverse("people"))
        for n in range(30):
            make.person(f"p{n}", "viewer")

        with django_assert_num_queries(len(few)):
            adam.get(reverse("people"))

    @pytest.mark.parametrize("role", ["approver", "operator", "viewer"])
    @pytest.mark.parametrize(
        "address", ["/people/", "/people/new/", "/people/of/ann/", "/tokens/", "/tokens/new/", "/tokens/of/lc_x/"]
    )
    def test_only_admins_see_it(self, role, address):
        assert make.signed_in("somebody", role).get(address).status_code == 403

    def test_every_role_has_words_and_nobody_else_has(self):
        from console.views.people import ROLES

        assert set(ROLES) == set(access.Role)


class TestOwnPassword:
    def test_somebody_chooses_one_of_their_own_and_stays_signed_in(self):
        vera = make.signed_in("vera", "viewer")
        chosen = "four-words-that-nobody-guesses"
        told = {"old_password": make.PASSWORD, "new_password1": chosen, "new_password2": chosen}

        vera.post(reverse("password"), told)

        assert vera.get(reverse("operations")).status_code == 200
        assert Client().post(reverse("login"), {"username": "vera", "password": chosen}).status_code == 302
        assert chosen not in str(list(AuditEvent.objects.values_list()))
        assert noted("PASSWORD").by == "person:vera"

    def test_a_wrong_old_one_changes_nothing_and_is_noted(self):
        vera = make.signed_in("vera", "viewer")

        told = vera.post(reverse("password"), {"old_password": "x", "new_password1": "y", "new_password2": "y"})

        assert told.status_code == 422
        assert noted("PASSWORD").outcome == "REFUSED"
