"""What is shown once: a new token or password travels from the post to the page after it, and stays nowhere.

It travels in a cookie of that one page, which no script reads; the page deletes it as it shows it. So the post can end
in a redirect, as every post does, and no secret stands in a session, a row or an address.
"""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse

COOKIE = "longcall_once"
LIFE_S = 120


def hand_over(response: HttpResponse, secret: str, *, page: str) -> None:
    """Let the page at this path show the secret, once, within two minutes."""
    response.set_cookie(
        COOKIE,
        secret,
        max_age=LIFE_S,
        path=page,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Strict",
    )


def handed(request: HttpRequest) -> str:
    """Return the secret that this page is to show; "" where there is none, or it was shown."""
    return request.COOKIES.get(COOKIE, "")[:200]


def was_shown(response: HttpResponse, *, page: str) -> None:
    """Take it from the browser; the page itself may be kept by nobody."""
    response.delete_cookie(COOKIE, path=page, samesite="Strict")
    response["Cache-Control"] = "no-store"
