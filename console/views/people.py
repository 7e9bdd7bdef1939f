"""People: who there is, what they may do, and how they come in. Admins only, but for one's own password."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.forms import PasswordChangeForm
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from console import once, people
from console.access import Deed, PersonRequest, Role, allow, require
from console.adminforms import ReasonForm
from console.people import PersonView, Rights
from operations.ledger import Note

ROLES = {
    Role.APPROVER: lazy("approver: answers what a server asks"),
    Role.OPERATOR: lazy("operator: cancels, looks up, reconciles"),
    Role.ADMIN: lazy("admin: servers, versions, people, tokens; neither answers nor cancels"),
    Role.VIEWER: lazy("viewer: reads"),
}


class PersonForm(ReasonForm):
    """Who somebody is and what they may do."""

    username = forms.CharField(
        label=lazy("User name"),
        max_length=150,
        validators=[UnicodeUsernameValidator()],
        widget=forms.TextInput(
            {"class": "inp mid mono", "autocomplete": "off", "autocapitalize": "none", "spellcheck": "false"}
        ),
        help_text=lazy("The ledger names people by it for ever, so it never changes."),
    )
    full_name = forms.CharField(
        label=lazy("Full name"), max_length=150, required=False, widget=forms.TextInput({"class": "inp"})
    )
    email = forms.EmailField(
        label=lazy("E-mail"),
        required=False,
        widget=forms.TextInput({"class": "inp", "autocomplete": "off", "inputmode": "email"}),
        help_text=lazy("Where four eyes are needed, a call made for this address counts as made for this person."),
    )
    roles = forms.MultipleChoiceField(
        label=lazy("Roles"),
        required=False,
        choices=[(role.value, word) for role, word in ROLES.items()],
        widget=forms.CheckboxSelectMultiple,
    )
    is_open = forms.BooleanField(label=lazy("May sign in"), required=False, initial=True)
    field_order = ("username", "full_name", "email", "roles", "is_open", "reason")

    def __init__(self, *args: Any, known: bool, **named: Any) -> None:  # noqa: ANN401 - Django's own
        """`known`: the person exists, so the name stays."""
        super().__init__(*args, **named)
        del self.fields["username" if known else "is_open"]

    def rights(self) -> Rights:
        """Return what was decided; whoever is new may sign in."""
        held = self.cleaned_data
        return Rights(
            full_name=held["full_name"],
            email=held["email"],
            roles=frozenset(Role(role) for role in held["roles"]),
            is_open=held.get("is_open", True),
        )


@require_GET
@allow(Deed.MANAGE_PEOPLE)
def listing(request: PersonRequest) -> HttpResponse:
    """Show everybody."""
    return render(request, "people.html", {"now": timezone.now(), "people": people.find()})


@require_http_methods(["GET", "POST"])
@allow(Deed.MANAGE_PEOPLE)
def new(request: PersonRequest) -> HttpResponse:
    """Make a person; the password is shown on the next page, once."""
    form = PersonForm(request.POST or None, known=False, initial={"roles": [Role.VIEWER.value]})
    if request.method == "POST" and form.is_valid():
        username = form.cleaned_data["username"]
        try:
            password = people.make(username, form.rights(), note=_note(request, form.cleaned_data["reason"]))
        except people.NameTaken:
            form.add_error("username", _("There is a person of this name. Nothing was made twice."))
        else:
            messages.success(request, _("Made. Put this person into a team now: whoever is in none sees nothing."))
            return _to(username, password)
    held = {"form": form, "title": _("A new person"), "back": reverse("people"), "back_title": _("People")}
    return render(request, "office_form.html", held | {"word": _("Make this person")}, status=_status(form))


@require_http_methods(["GET", "POST"])
@allow(Deed.MANAGE_PEOPLE)
def page(request: PersonRequest, username: str) -> HttpResponse:
    """Show one person, and take what an admin decides about them."""
    person = _person(username)
    initial = {
        "full_name": person.title if person.title != username else "",
        "email": person.email,
        "roles": [role.value for role in person.roles],
        "is_open": person.is_open,
    }
    form = PersonForm(request.POST or None, known=True, initial=initial)
    if request.method == "POST" and form.is_valid() and _decided(request, person, form):
        messages.success(request, _("Kept. It holds from this person's next request on."))
        return redirect("person", username)
    held = {"now": timezone.now(), "person": person, "form": form, "secret": once.handed(request)}
    response = render(request, "person.html", held, status=_status(form))
    if held["secret"]:
        once.was_shown(response, page=request.path)
    return response


def _decided(request: PersonRequest, person: PersonView, form: PersonForm) -> bool:
    try:
        people.change(person.username, form.rights(), note=_note(request, form.cleaned_data["reason"]))
    except people.OwnRights:
        form.add_error("roles", _("Nobody takes the admin's role or the way in from themselves. Ask another admin."))
    except people.LastAdmin:
        form.add_error("roles", _("This is the last admin: nobody could give roles any more. Make another one first."))
    return not form.errors


@require_POST
@allow(Deed.MANAGE_PEOPLE)
def new_password(request: PersonRequest, username: str) -> HttpResponse:
    """Make somebody a new password; it is shown on the next page, once."""
    form = ReasonForm(request.POST)
    if not form.is_valid():
        _person(username)
        request.refusal = "no reason was given"
        messages.warning(request, _("Say why, in words that others understand. Nothing was changed."))
        return redirect("person", username)
    password = people.new_password(username, note=_note(request, form.cleaned_data["reason"]))
    if password is None:
        raise Http404(_("There is no such person."))
    messages.success(request, _("The old password is void, and whoever was signed in with it is signed out."))
    return _to(username, password)


@sensitive_post_parameters()
@require_http_methods(["GET", "POST"])
@require()
def own_password(request: PersonRequest) -> HttpResponse:
    """Let somebody choose a password of their own; other browsers are signed out by it."""
    form = PasswordChangeForm(request.user, request.POST or None)
    for name in form.fields:
        form.fields[name].widget.attrs |= {"class": "inp mid", "autofocus": False}
    if request.method == "POST" and form.is_valid():
        update_session_auth_hash(request, form.save())
        messages.success(request, _("Your password is changed. Every other browser of yours is signed out."))
        return redirect("home")
    held = {"form": form, "title": _("Your password"), "back": reverse("home"), "back_title": _("Start")}
    # A keeper of passwords wants to know whose it is, and browsers complain where a page does not say it.
    held |= {"word": _("Change it"), "signed_in_as": request.actor.username}
    return render(request, "office_form.html", held, status=_status(form))


def _to(username: str, password: str) -> HttpResponse:
    address = reverse("person", args=[username])
    response = redirect(address)
    once.hand_over(response, password, page=address)
    return response


def _person(username: str) -> PersonView:
    found = people.read(username)
    if found is None:
        raise Http404(_("There is no such person."))
    return found


def _status(form: forms.BaseForm) -> HTTPStatus:
    return HTTPStatus.UNPROCESSABLE_ENTITY if form.errors else HTTPStatus.OK


def _note(request: PersonRequest, reason: str) -> Note:
    return Note(by=request.actor.by, reason=reason, now=timezone.now())
