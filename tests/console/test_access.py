"""Who may do what (W)."""

import pytest
from django.contrib.auth.models import AnonymousUser, Group, User
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django_htmx.middleware import HtmxDetails

from console.access import MATRIX, Actor, Deed, Role, actor_of, allow, may, require

ADA, OLGA, ADAM, VERA = Role.APPROVER, Role.OPERATOR, Role.ADMIN, Role.VIEWER

EXPECTED = {
    Deed.SEE: {ADA, OLGA, ADAM, VERA},
    Deed.TRY: {ADA, OLGA, ADAM},
    Deed.ANSWER: {ADA},
    Deed.EXTEND_ROUND: {OLGA},
    Deed.CANCEL: {OLGA},
    Deed.LOOK_NOW: {OLGA},
    Deed.RECONCILE: {OLGA},
    Deed.SETTLE_EFFECTS: {OLGA},
    Deed.READ_PAYLOADS: {OLGA, ADAM},
    Deed.PROPOSE_ROLLBACK: {OLGA, ADAM},
    Deed.ROLL_BACK: {ADAM},
    Deed.SWITCH_SUBMITS: {ADAM},
    Deed.MANAGE_SERVERS: {ADAM},
    Deed.MANAGE_TOKENS: {ADAM},
    Deed.MANAGE_PEOPLE: {ADAM},
    Deed.SET_APPROVALS: {ADAM},
    Deed.MANAGE_NOTICES: {ADAM},
    Deed.READ_AUDIT: {OLGA, ADAM},
}


@pytest.fixture
def person(db):
    def make(*roles, **changes):
        user = User.objects.create_user("ann", **changes)
        user.groups.set([Group.objects.get_or_create(name=role)[0] for role in roles])
        return user

    return make


@require(Role.OPERATOR)
def page(request):
    return HttpResponse(request.actor.by)


@allow(Deed.ANSWER)
def answer_page(request):
    return HttpResponse("answered")


@require()
def any_page(request):
    return HttpResponse("seen")


def asked(rf, user, *, htmx=False):
    request = rf.get("/operations/?page=2", headers={"HX-Request": "true"} if htmx else {})
    request.user = user
    request.htmx = HtmxDetails(request)
    return request


@pytest.mark.parametrize("deed", Deed)
@pytest.mark.parametrize("role", Role)
def test_each_role_may_do_what_the_matrix_says_and_nothing_else(person, deed, role):
    assert may(person(role), deed) == (role in EXPECTED[deed])


def test_admins_neither_answer_nor_cancel():
    """Who decides how calls are run does not decide what a call is told."""
    admin = Actor(username="adam", title="Adam", roles=frozenset({Role.ADMIN}))

    assert not admin.may(Deed.ANSWER)
    assert not admin.may(Deed.CANCEL)


def test_a_deed_without_a_row_could_not_be_added_unseen():
    assert set(MATRIX) == set(Deed) == set(EXPECTED)


def test_two_roles_allow_what_either_allows(person):
    user = person(Role.APPROVER, Role.VIEWER)

    assert may(user, Deed.ANSWER)
    assert not may(user, Deed.CANCEL)


def test_the_superuser_flag_is_no_role(person):
    root = person(is_superuser=True, is_staff=True)

    assert not any(may(root, deed) for deed in Deed)


def test_nobody_may_do_nothing():
    assert not any(may(AnonymousUser(), deed) for deed in Deed)
    assert actor_of(AnonymousUser()) is None


def test_a_view_knows_whose_request_it_is(rf, person):
    assert page(asked(rf, person(Role.OPERATOR))).content == b"person:ann"


def test_an_anonymous_visitor_is_sent_to_the_login_and_comes_back(rf):
    answer = page(asked(rf, AnonymousUser()))

    assert answer.status_code == 302
    assert answer["Location"] == "/login/?next=/operations/%3Fpage%3D2"


def test_a_fragment_sends_the_whole_page_to_the_login(rf):
    """Else the login form would be swapped into the fragment."""
    answer = page(asked(rf, AnonymousUser(), htmx=True))

    assert answer.status_code == 200
    assert answer["HX-Redirect"].startswith("/login/")


def test_the_wrong_role_is_told_which_role_it_takes(rf, person):
    with pytest.raises(PermissionDenied, match=r"role operator\. ann has: viewer\."):
        page(asked(rf, person(Role.VIEWER)))


def test_a_person_without_a_role_is_told_so(rf, person):
    with pytest.raises(PermissionDenied, match="no role yet"):
        any_page(asked(rf, person()))


@pytest.mark.parametrize("role", Role)
def test_a_page_for_everybody_needs_a_role_all_the_same(rf, person, role):
    assert any_page(asked(rf, person(role))).content == b"seen"


def test_a_gate_by_deed_follows_the_matrix(rf, person):
    user = person(Role.ADMIN)

    with pytest.raises(PermissionDenied, match="To answer what a server asks"):
        answer_page(asked(rf, user))


def test_a_role_that_is_taken_away_is_gone_at_the_next_request(rf, person):
    user = person(Role.OPERATOR)
    page(asked(rf, user))
    user.groups.clear()

    with pytest.raises(PermissionDenied):
        page(asked(rf, User.objects.get(pk=user.pk)))
