"""The first page, the navigation, and what a browser prefers."""

from __future__ import annotations

import uuid
from datetime import datetime
from http import HTTPStatus

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import views as auth_views
from django.contrib.auth.forms import AuthenticationForm
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import check_for_language
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from console import advice, attempts, context, demo, preferences
from console.access import Deed, PersonRequest, allow, require
from console.context import form_id
from operations import ledger
from operations.queries import operations, servers, trouble
from operations.queries.operations import Filter

_ROOMS = {"home", "approvals", "operations", "reconcile", "adapters", "servers", "gates", "audit", "teams", "help", ""}

_sign_in = auth_views.LoginView.as_view(template_name="login.html", redirect_authenticated_user=True)
logout = auth_views.LogoutView.as_view()


def login(request: HttpRequest) -> HttpResponseBase:
    """Let somebody in by name and password; whoever fails too often has to wait, and is told for how long."""
    if request.method != "POST":
        return _sign_in(request)
    now, address = timezone.now(), str(request.META.get("REMOTE_ADDR", ""))
    one = (request.POST.get("username", "").strip().lower(), address)
    # Counted before the password is looked at: a hundred guesses at once are a hundred attempts.
    standings = (
        attempts.count(attempts.LOGIN_OF_ONE, *one, now=now),
        attempts.count(attempts.LOGIN_FROM_ONE, address, now=now),
    )
    if over := [standing for standing in standings if standing.is_over]:
        return _too_many(request, over, now)
    response = _sign_in(request)
    if response.status_code == HTTPStatus.FOUND:
        attempts.forget(attempts.LOGIN_OF_ONE, *one)
        attempts.give_back(attempts.LOGIN_FROM_ONE, address)
    return response


def _too_many(request: HttpRequest, over: list[attempts.Standing], now: datetime) -> HttpResponse:
    wait_s = max(standing.wait_s(now) for standing in over)
    # One line of the audit says it; a flood of guesses must not fill what is never emptied.
    request.decides_nothing = not any(standing.is_first_over for standing in over)  # type: ignore[attr-defined]
    request.refusal = "too many attempts; further ones are not listed"  # type: ignore[attr-defined]
    held = {"form": AuthenticationForm(request), "next": request.POST.get("next", ""), "wait_s": wait_s}
    response = render(request, "login.html", held, status=HTTPStatus.TOO_MANY_REQUESTS)
    response["Retry-After"], response["Cache-Control"] = str(wait_s), "no-store"
    return response


@require_GET
@allow(Deed.SEE)
def home(request: PersonRequest) -> HttpResponse:
    """Show the first page: what waits, and what to try."""
    registered = {(server.slug, tool.name) for server in servers.servers() for tool in server.tools}
    shown = {
        "now": timezone.now(),
        "fresh_id": uuid.uuid4(),
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
    # The form's own id: the same form twice is one call (R9).
    fresh = uuid.uuid5(form_id(request), f"{trial.server}/{trial.tool}").hex[:12]
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
