"""The first page, the navigation, and what a browser prefers."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth import views as auth_views
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import check_for_language
from django.views.decorators.http import require_GET, require_POST

from console import context, preferences
from console.access import PersonRequest, require

_ROOMS = {"home", "approvals", "operations", "reconcile", "help", ""}

login = auth_views.LoginView.as_view(template_name="login.html", redirect_authenticated_user=True)
logout = auth_views.LogoutView.as_view()


@require_GET
@require()
def home(request: PersonRequest) -> HttpResponse:
    """Show the first page."""
    return render(request, "home.html")


@require_GET
@require()
def places(request: PersonRequest) -> HttpResponse:
    """Return the navigation alone, with fresh counts."""
    room = request.GET.get("at", "")
    room = room if room in _ROOMS else ""
    return render(request, "_parts/places.html", {"room": room, "places": context.places(current=room)})


@require_POST
def remember(request: HttpRequest) -> HttpResponse:
    """Keep theme, time zone, language and single keys in cookies and go back to the page."""
    response = redirect(_back(request))
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


def _back(request: HttpRequest) -> str:
    page = request.POST.get("next", "")
    if url_has_allowed_host_and_scheme(page, {request.get_host()}, require_https=request.is_secure()):
        return page
    return reverse("home")
