"""The lists that people keep: under a name, for themselves or for a team, one of them to open with."""

from __future__ import annotations

import uuid

from django import forms
from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from console import lists
from console.access import Deed, PersonRequest, allow
from console.context import form_id, return_address
from operations import ledger
from operations.queries import lists as kept_lists


class KeepForm(forms.Form):
    """A name for a list, and whom it is for."""

    name = forms.CharField(max_length=60)
    team = forms.CharField(max_length=100, required=False)
    query = forms.CharField(max_length=2000, required=False)


@require_POST
@allow(Deed.SEE)
def keep(request: PersonRequest) -> HttpResponse:
    """Keep the list that the page shows. The same form twice keeps one list."""
    form = KeepForm(request.POST)
    if not form.is_valid():
        messages.warning(request, _("Give the list a name of at most 60 characters. Nothing was kept."))
        return redirect(_back(request))
    given, key = form.cleaned_data, form_id(request)
    teams = {team.slug for team in kept_lists.teams_of(request.actor.by)}
    query = lists.kept_part(QueryDict(given["query"]))
    team = given["team"] if given["team"] in teams else None
    kept = ledger.KeptList(id=key, name=given["name"], query=query, team=team)
    try:
        done = ledger.keep_list(kept, by=request.actor.by, now=timezone.now())
    except ledger.NameTaken:
        messages.warning(request, _("You have another list of this name. Nothing was kept."))
        return redirect(_back(request))
    if not done:
        messages.warning(request, _("That list is somebody else's. Nothing was changed."))
        return redirect(_back(request))
    messages.success(request, _("The list “%(name)s” is kept.") % {"name": kept.name})
    return redirect(lists.address_of(query, key))


@require_POST
@allow(Deed.SEE)
def change(request: PersonRequest, number: uuid.UUID) -> HttpResponse:
    """Open with a list from now on, open without one again, or drop one's own."""
    match request.POST.get("do"):
        case "open":
            if any(kept.id == number for kept in kept_lists.find(request.actor.by)):
                ledger.open_with(number, by=request.actor.by)
                messages.success(request, _("Operations open with this list from now on."))
        case "usual":
            ledger.open_with(None, by=request.actor.by)
            messages.success(request, _("Operations open with everything that is open again."))
        case "drop":
            if ledger.drop_list(number, by=request.actor.by, now=timezone.now()):
                messages.success(request, _("The list was dropped. No operation was changed."))
            else:
                messages.info(request, _("That list is gone already, or it is somebody else's."))
            return redirect(f"{reverse('operations')}?view=open")
        case _:
            pass
    return redirect(_back(request))


def _back(request: PersonRequest) -> str:
    return return_address(request, otherwise=reverse("operations"))
