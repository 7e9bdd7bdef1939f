"""The first page, the navigation, and what a browser prefers."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import views as auth_views
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import check_for_language
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from console import advice, context, demo, preferences
from console.access import Deed, PersonRequest, allow, require
from operations import ledger
from operations.queries import operations, servers, trouble
from operations.queries.operations import Filter

_ROOMS = {"home", "approvals", "operations", "reconcile", "adapters", "servers", "gates", "audit", "teams", "help", ""}

login = auth_views.LoginView.as_view(template_name="login.html", redirect_authenticated_user=True)
logout = auth_views.LogoutView.as_view()


@require_GET
@allow(Deed.SEE)
def home(request: PersonRequest) -> HttpResponse:
    """Show the first page: what waits, and what to try."""
    registered = {(server.slug, tool.name) for server in servers.servers() for tool in server.tools}
    shown = {
        "now": timezone.now(),
        "trials": [trial for trial in demo.TRIALS if (trial.server, trial.tool) in registered],
        "needs_role": advice.needs_role(request.actor, Deed.TRY),
        "troubles": trouble.find_servers(),
        "recent": operations.find(Filter(), limit=5).rows,
    }
    return render(request, "home.html", shown)


@require_GET
@allow(Deed.SEE)
def troubles(request: PersonRequest) -> HttpResponse:
    """Return which servers cannot be asked, as it is now."""
    context = {"now": timezone.now(), "troubles": trouble.find_servers()}
    return render(request, "_parts/troubles.html", context)


@require_POST
@allow(Deed.TRY)
def try_it(request: PersonRequest) -> HttpResponse:
    """Submit one call of the demo, as the client "demo" would, and show it."""
    trial = demo.trial(request.POST.get("server", ""), request.POST.get("tool", ""))
    if trial is None:
        raise Http404(_("The demo has no such tool."))
    fresh = uuid.uuid4().hex[:12]
    call = ledger.NewCall(
        client=demo.CLIENT,
        call_node=f"try-{fresh}",
        submission_key=f"try-{fresh}",
        server=trial.server,
        tool=trial.tool,
        arguments=trial.arguments.encode(),
        principal=request.actor.username,
    )
    try:
        made = ledger.submit(call, now=timezone.now())
    except (ledger.NoSuchTool, ledger.SubmitsClosed, ledger.KeepExistingPath) as refusal:
        messages.error(request, _("Nothing was submitted: %(why)s") % {"why": refusal})
        return redirect("home")
    return redirect("operation", made.operation)


@require_GET
@require()
def places(request: PersonRequest) -> HttpResponse:
    """Return the navigation alone, with fresh counts."""
    room = request.GET.get("at", "")
    room = room if room in _ROOMS else ""
    held = {"room": room, "places": context.places(current=room, actor=request.actor)}
    return render(request, "_parts/places.html", held)


@require_POST
def remember(request: HttpRequest) -> HttpResponse:
    """Keep theme, time zone, language and single keys in cookies and go back to the page."""
    response = redirect(context.return_address(request, otherwise=reverse("home")))
    secure = settings.SESSION_COOKIE_SECURE
    if request.POST.get("theme") in preferences.THEMES:
        preferences.remember(response, "theme", request.POST["theme"], secure=secure)
    if request.POST.get("zone") in preferences.zones():
        preferences.remember(response, "zone", request.POST["zone"], secure=secure)
    preferences.remember(response, "keys", "on" if request.POST.get("keys") else "off", secure=secure)
    language = request.POST.get("language", "")
    if check_for_language(language):
        response.set_cookie(settings.LANGUAGE_COOKIE_NAME, language, max_age=preferences.YEAR_S, samesite="Lax")
    return response
