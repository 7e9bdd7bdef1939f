"""Teams: who looks after which servers, and by which ways they are told. Admins only."""

from __future__ import annotations

import os
from http import HTTPStatus
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from console import access, preferences, tidings
from console.access import Deed, PersonRequest, allow
from console.adminforms import ReasonForm
from operations import ledger, notices
from operations.ledger import NewRoute, Note
from operations.notice import Kind, Way
from operations.queries import notices as told
from operations.queries import scope, servers

WAYS = {
    Way.EMAIL: lazy("E-mail"),
    Way.CHAT: lazy("Webhook of a chat room"),
    Way.PAGER: lazy("Webhook of a pager"),
}
_BOXES = forms.CheckboxSelectMultiple


class TeamForm(ReasonForm):
    """A team: its name, what it looks after, who is in it."""

    slug = forms.SlugField(
        label=lazy("Short name"),
        max_length=50,
        widget=forms.TextInput({"class": "inp mid mono", "autocomplete": "off", "spellcheck": "false"}),
        help_text=lazy("It never changes."),
    )
    title = forms.CharField(label=lazy("Name for people"), max_length=100, widget=forms.TextInput({"class": "inp"}))
    all_servers = forms.BooleanField(
        label=lazy("It looks after every server"), required=False, help_text=lazy("Also one that is registered later.")
    )
    servers = forms.MultipleChoiceField(label=lazy("Else these"), required=False, widget=_BOXES)
    members = forms.MultipleChoiceField(label=lazy("People"), required=False, widget=_BOXES)
    field_order = ("slug", "title", "all_servers", "servers", "members", "reason")

    def __init__(self, *args: Any, known: bool, **named: Any) -> None:  # noqa: ANN401 - Django's own
        """`known`: the team exists, so its short name stays."""
        super().__init__(*args, **named)
        with scope.seen_by(scope.EVERYTHING):
            self._choices("servers", [(server.slug, server.title) for server in servers.servers()])
        self._choices("members", access.everybody())
        if known:
            del self.fields["slug"]

    def _choices(self, name: str, values: list[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.MultipleChoiceField)  # noqa: S101 - for the type checker
        field.choices = values


class RouteForm(ReasonForm):
    """One way to reach a team."""

    way = forms.ChoiceField(
        label=lazy("Way"),
        choices=[(way.value, word) for way, word in WAYS.items()],
        widget=forms.Select({"class": "inp mid"}),
    )
    address = forms.CharField(
        label=lazy("Address"),
        max_length=500,
        widget=forms.TextInput({"class": "inp mono", "autocomplete": "off", "spellcheck": "false"}),
        help_text=lazy("E-mail addresses separated by commas, or the URL of the webhook."),
    )
    secret_ref = forms.RegexField(
        r"^[A-Za-z_][A-Za-z0-9_]*$",
        label=lazy("Signing secret, by reference"),
        required=False,
        max_length=200,
        widget=forms.TextInput({"class": "inp mid mono", "autocomplete": "off", "spellcheck": "false"}),
        help_text=lazy("Name of the environment variable that holds it. Webhooks need one. Never the value itself."),
        error_messages={"invalid": lazy("This is the name of an environment variable: letters, digits, underscores.")},
    )
    allow_private = forms.BooleanField(
        label=lazy("Its address may be a private one"),
        required=False,
        help_text=lazy("Otherwise only public addresses are connected to."),
    )
    kinds = forms.MultipleChoiceField(
        label=lazy("What it tells of"), choices=[(kind.value, tidings.KINDS[kind][0]) for kind in Kind], widget=_BOXES
    )
    quiet_from = forms.TimeField(
        label=lazy("Quiet from"),
        required=False,
        widget=forms.TimeInput({"class": "inp short", "placeholder": "22:00"}, format="%H:%M"),
    )
    quiet_until = forms.TimeField(
        label=lazy("Quiet until"),
        required=False,
        widget=forms.TimeInput({"class": "inp short", "placeholder": "07:00"}, format="%H:%M"),
        help_text=lazy("What waits goes out afterwards, unless it is over by then."),
    )
    zone = forms.ChoiceField(label=lazy("In this time zone"), widget=forms.Select({"class": "inp mid"}))
    language = forms.ChoiceField(
        label=lazy("Language of its messages"), choices=settings.LANGUAGES, widget=forms.Select({"class": "inp mid"})
    )
    enabled = forms.BooleanField(label=lazy("In use"), required=False, initial=True)
    field_order = (
        "way",
        "address",
        "secret_ref",
        "allow_private",
        "kinds",
        "quiet_from",
        "quiet_until",
        "zone",
        "language",
        "enabled",
        "reason",
    )

    def __init__(self, *args: Any, **named: Any) -> None:  # noqa: ANN401 - Django's own
        """Take the zones from this machine."""
        super().__init__(*args, **named)
        field = self.fields["zone"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - for the type checker
        field.choices = [(zone, zone) for zone in preferences.zones()]

    def clean(self) -> dict[str, Any]:
        """Check what belongs together: the address and its way, the two ends of the quiet hours."""
        held: dict[str, Any] = self.cleaned_data
        if held.get("way") == Way.EMAIL:
            self._check_mail(held.get("address", ""))
        elif held.get("way"):
            if not held.get("address", "").startswith(("https://", "http://")):
                self.add_error("address", _("A webhook needs a whole URL, such as https://chat.example.org/hook."))
            if not held.get("secret_ref"):
                self.add_error("secret_ref", _("A webhook is signed, so it needs the name of its secret."))
        if (held.get("quiet_from") is None) != (held.get("quiet_until") is None):
            self.add_error("quiet_until", _("Quiet hours need both ends, or none."))
        return held

    def _check_mail(self, text: str) -> None:
        try:
            for address in text.split(","):
                validate_email(address.strip())
        except ValidationError:
            self.add_error("address", _("E-mail addresses, separated by commas."))

    def route(self, team: str) -> NewRoute:
        """Return the way as the ledger takes it."""
        names = ("address", "secret_ref", "allow_private", "quiet_from", "quiet_until", "zone", "language", "enabled")
        held = {name: self.cleaned_data[name] for name in names}
        return NewRoute(team=team, way=Way(self.cleaned_data["way"]), kinds=tuple(self.cleaned_data["kinds"]), **held)


@require_GET
@allow(Deed.MANAGE_PEOPLE)
def listing(request: PersonRequest) -> HttpResponse:
    """Show every team."""
    held = {"now": timezone.now(), "teams": scope.teams(), "failing": told.failing()}
    return render(request, "teams.html", held)


@require_http_methods(["GET", "POST"])
@allow(Deed.MANAGE_PEOPLE)
def new(request: PersonRequest) -> HttpResponse:
    """Make a team."""
    form = TeamForm(request.POST or None, known=False)
    if request.method == "POST" and form.is_valid():
        slug = form.cleaned_data["slug"]
        if slug not in {team.slug for team in scope.teams()}:
            return _save(request, slug, form)
        form.add_error("slug", _("There is a team of this name."))
    return _form_page(request, form, title=_("A new team"))


@require_http_methods(["GET", "POST"])
@allow(Deed.MANAGE_PEOPLE)
def edit(request: PersonRequest, slug: str) -> HttpResponse:
    """Change what a team looks after, and who is in it."""
    team = _team(slug)
    initial = {name: getattr(team, name) for name in ("title", "all_servers", "servers", "members")}
    form = TeamForm(request.POST or None, known=True, initial=initial)
    if request.method == "POST" and form.is_valid():
        return _save(request, slug, form)
    return _form_page(request, form, title=_("Change the team %(name)s") % {"name": team.title}, team=team)


def _save(request: PersonRequest, slug: str, form: TeamForm) -> HttpResponse:
    held = form.cleaned_data
    ledger.save_team(
        slug,
        title=held["title"],
        all_servers=held["all_servers"],
        servers=held["servers"],
        members=held["members"],
        note=_note(request, held["reason"]),
    )
    messages.success(request, _("Kept. It holds from each person's next request on."))
    return redirect("team", slug)


@require_GET
@allow(Deed.MANAGE_PEOPLE)
def page(request: PersonRequest, slug: str) -> HttpResponse:
    """Show one team: what it looks after, who is in it, how it is told, and what became of each notice."""
    context = {
        "now": timezone.now(),
        "team": _team(slug),
        "routes": told.routes_of(slug),
        "deliveries": told.deliveries_of(slug),
        "kinds": {kind.value: word for kind, (word, _several) in tidings.KINDS.items()},
        "ways": {way.value: word for way, word in WAYS.items()},
        "origin": settings.ORIGIN,
        "smtp": settings.EMAIL_HOST,
    }
    return render(request, "team.html", context)


@require_http_methods(["GET", "POST"])
@allow(Deed.MANAGE_NOTICES)
def route(request: PersonRequest, slug: str, number: int | None = None) -> HttpResponse:
    """Make a way to reach a team, or change one."""
    team = _team(slug)
    known = None if number is None else _route(slug, number)
    names = {name for name in RouteForm.base_fields if name != "reason"}
    language = get_language() or settings.LANGUAGE_CODE
    usual = {"zone": preferences.preferences_of(request).zone, "kinds": list(Kind), "language": language}
    initial = {name: getattr(known, name) for name in names} if known else usual
    form = RouteForm(request.POST or None, initial=initial)
    if request.method == "POST" and form.is_valid():
        ledger.save_route(form.route(slug), number=number, note=_note(request, form.cleaned_data["reason"]))
        messages.success(request, _("Kept. Test it now: a way that was never tried tends not to work."))
        return redirect("team", slug)
    title = _("How %(team)s is told") % {"team": team.title}
    return _form_page(request, form, title=title, team=team, dropped=number)


@require_POST
@allow(Deed.MANAGE_NOTICES)
def test(request: PersonRequest, slug: str, number: int) -> HttpResponse:
    """Send a message that says it is a test, and keep how that went."""
    found = ledger.route_of(number, team=slug)
    if found is None:
        raise Http404
    parcel, message = tidings.trial(found)
    error = ""
    try:
        notices.send(parcel, message, clock=timezone.now, environ=os.environ)
    except notices.NotTold as why:
        error = str(why)
    ledger.route_tested(number, error=error, note=_note(request, ""))
    if error:
        messages.error(request, _("The test was not taken: %(why)s") % {"why": error})
    else:
        messages.success(request, _("The test was taken. Look whether it arrived."))
    return redirect("team", slug)


@require_POST
@allow(Deed.MANAGE_NOTICES)
def drop(request: PersonRequest, slug: str, number: int) -> HttpResponse:
    """Take a way out of use for good."""
    _route(slug, number)
    form = ReasonForm(request.POST)
    if not form.is_valid():
        messages.warning(request, _("Say why, in words that others understand. Nothing was changed."))
        return redirect("team_route", slug, number)
    ledger.drop_route(number, team=slug, note=_note(request, form.cleaned_data["reason"]))
    messages.success(request, _("Gone, with what waited on it."))
    return redirect("team", slug)


def _form_page(request: PersonRequest, form: forms.Form, **held: Any) -> HttpResponse:  # noqa: ANN401 - for a template
    status = HTTPStatus.UNPROCESSABLE_ENTITY if form.errors else HTTPStatus.OK
    team = held.get("team")
    back = reverse("team", args=[team.slug]) if team else reverse("teams")
    return render(request, "team_form.html", {"form": form, "back": back, **held}, status=status)


def _team(slug: str) -> scope.TeamRow:
    found = next((team for team in scope.teams() if team.slug == slug), None)
    if found is None:
        raise Http404(_("There is no such team."))
    return found


def _route(slug: str, number: int) -> told.RouteView:
    found = next((row for row in told.routes_of(slug) if row.id == number), None)
    if found is None:
        raise Http404
    return found


def _note(request: PersonRequest, reason: str) -> Note:
    return Note(by=request.actor.by, reason=reason, now=timezone.now())
