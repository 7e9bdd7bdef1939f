"""What a browser prefers: theme, time zone, single keys. Kept in cookies, so that the login page obeys them too.

The language is Django's own cookie. Nothing here is a secret and nothing here decides anything.
"""

from __future__ import annotations

import functools
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

THEMES = ("system", "light", "dark")
YEAR_S = 365 * 24 * 3600
COOKIES = {"theme": "longcall_theme", "zone": "longcall_zone", "keys": "longcall_keys"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """What the page is drawn with."""

    theme: str
    zone: str
    zone_chosen: bool
    """False: nobody has said; the browser's own zone is used once its script has named it."""
    single_keys: bool


@functools.cache
def zones() -> tuple[str, ...]:
    """Return the names of all time zones of this machine, sorted, places only."""
    return tuple(sorted(name for name in zoneinfo.available_timezones() if "/" in name or name == "UTC"))


def preferences_of(request: HttpRequest) -> Preferences:
    """Read the cookies; what does not fit counts as not given."""
    theme = request.COOKIES.get(COOKIES["theme"], "")
    zone = request.COOKIES.get(COOKIES["zone"], "").replace("%2F", "/")
    known = zone in zones()
    return Preferences(
        theme=theme if theme in THEMES else "system",
        zone=zone if known else "UTC",
        zone_chosen=known,
        single_keys=request.COOKIES.get(COOKIES["keys"]) != "off",
    )


class PreferencesMiddleware:
    """Puts `request.preferences` there and runs the request in its time zone."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        """Keep the next step."""
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request in the zone that its browser wants."""
        preferences = preferences_of(request)
        request.preferences = preferences  # type: ignore[attr-defined]
        with timezone.override(zoneinfo.ZoneInfo(preferences.zone)):
            return self._get_response(request)


def remember(response: HttpResponse, name: str, value: str, *, secure: bool) -> None:
    """Set one preference; `name` is a key of COOKIES."""
    # The theme and the zone are read by our own script, so these cookies are not hidden from it.
    response.set_cookie(COOKIES[name], value, max_age=YEAR_S, samesite="Lax", secure=secure)
