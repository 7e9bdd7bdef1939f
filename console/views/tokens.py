"""API tokens: who may call, until when, who has called lately; made and revoked here. Admins only."""

from __future__ import annotations

import uuid
from datetime import timedelta
from http import HTTPStatus

from django import forms
from django.contrib import messages
from django.core.validators import validate_slug
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from console import once, tokens
from console.access import Deed, PersonRequest, allow
from console.adminforms import ReasonForm
from console.models import Scope
from console.tokens import TokenView

SCOPES = {
    Scope.SUBMIT: lazy("submit: make calls"),
    Scope.READ: lazy("read: see its own calls, receipts and results"),
    Scope.CANCEL: lazy("cancel: ask for a cancel of its own calls"),
    Scope.ACKNOWLEDGE: lazy("acknowledge: take receipts from the outbox"),
}


class TokenForm(ReasonForm):
    """Whom a token speaks for, what it may be used for, and for how long."""

    id = forms.UUIDField(widget=forms.HiddenInput)
    client = forms.CharField(
        label=lazy("API client"),
        max_length=50,
        validators=[validate_slug],
        widget=forms.TextInput({"class": "inp mid mono", "autocomplete": "off", "spellcheck": "false"}),
        help_text=lazy("The workflow engine, agent or script that calls. A new name makes a new client."),
    )
    scopes = forms.MultipleChoiceField(
        label=lazy("What it may be used for"),
        choices=[(scope.value, word) for scope, word in SCOPES.items()],
        widget=forms.CheckboxSelectMultiple,
    )
    days = forms.IntegerField(
        label=lazy("Days that it is valid"),
        min_value=1,
        max_value=tokens.LONGEST_LIFE.days,
        initial=tokens.LONGEST_LIFE.days,
        widget=forms.NumberInput({"class": "inp short"}),
    )
    field_order = ("id", "client", "scopes", "days", "reason")


@require_GET
@allow(Deed.MANAGE_TOKENS)
def listing(request: PersonRequest) -> HttpResponse:
    """Show every token, those that work first."""
    now = timezone.now()
    found = [(token, token.works(now)) for token in tokens.find(now=now)]
    return render(request, "tokens.html", {"now": now, "tokens": found, "most": tokens.MOST_LISTED})


@require_http_methods(["GET", "POST"])
@allow(Deed.MANAGE_TOKENS)
def new(request: PersonRequest) -> HttpResponse:
    """Make a token; it is shown on the next page, once. The same form twice makes one."""
    initial = {"id": uuid.uuid4(), "client": request.GET.get("client", "")}
    form = TokenForm(request.POST or None, initial=initial | {"scopes": [scope.value for scope in Scope]})
    if request.method == "POST" and form.is_valid():
        return _issue(request, form)
    held = {"form": form, "title": _("A new token"), "back": reverse("tokens"), "back_title": _("API tokens")}
    status = HTTPStatus.UNPROCESSABLE_ENTITY if form.errors else HTTPStatus.OK
    return render(request, "office_form.html", held | {"word": _("Make this token")}, status=status)


def _issue(request: PersonRequest, form: TokenForm) -> HttpResponse:
    held = form.cleaned_data
    try:
        issued = tokens.issue_token(
            held["client"],
            scopes={Scope(scope) for scope in held["scopes"]},
            by=request.actor.by,
            now=timezone.now(),
            life=timedelta(days=held["days"]),
            note=held["reason"],
            form=held["id"],
        )
    except tokens.FormUsed as used:
        request.refusal = str(used)
        messages.info(
            request, _("This form has made its token already. If you did not see it, revoke it and make another.")
        )
        return redirect("token", used.prefix)
    address = reverse("token", args=[issued.prefix])
    response = redirect(address)
    once.hand_over(response, issued.secret, page=address)
    return response


@require_GET
@allow(Deed.MANAGE_TOKENS)
def page(request: PersonRequest, prefix: str) -> HttpResponse:
    """Show one token: everything but itself, and right after it was made, once, itself."""
    return _page(request, _token(prefix), ReasonForm())


@require_POST
@allow(Deed.MANAGE_TOKENS)
def revoke(request: PersonRequest, prefix: str) -> HttpResponse:
    """Make a token useless from now on."""
    token, form = _token(prefix), ReasonForm(request.POST)
    if not form.is_valid():
        return _page(request, token, form, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    if tokens.revoke_token(prefix, by=request.actor.by, now=timezone.now(), reason=form.cleaned_data["reason"]):
        messages.success(request, _("Revoked. Whoever shows it from now on is turned away."))
    else:
        request.refusal = "it was revoked before"
        messages.info(request, _("It was revoked before. Nothing was changed."))
    return redirect("token", prefix)


def _page(
    request: PersonRequest, token: TokenView, form: ReasonForm, *, status: HTTPStatus = HTTPStatus.OK
) -> HttpResponse:
    now, secret = timezone.now(), once.handed(request)
    held = {"now": now, "token": token, "works": token.works(now), "form": form, "secret": secret}
    response = render(request, "token.html", held, status=status)
    if secret:
        once.was_shown(response, page=reverse("token", args=[token.prefix]))
    return response


def _token(prefix: str) -> TokenView:
    found = tokens.read(prefix)
    if found is None:
        raise Http404(_("There is no such token."))
    return found
