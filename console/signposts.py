"""Puts a page where an address takes only what a button sends, so that whoever opens it as a page is led back.

People come there by a sign-in that expired while they pressed a button, by the history of their browser, or by hand.
"""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import render
from django.urls import Resolver404, resolve

NO_PAGES = frozenset({"list_keep"})
"""What stands above another address and takes posts only, too."""


class SignpostMiddleware:
    """Fills an empty "method not allowed" with a page of the shell."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request; a 405 that says nothing becomes a page that does."""
        response = self._get_response(request)
        if not isinstance(response, HttpResponseNotAllowed) or response.content or not request.accepts("text/html"):
            return response
        page = render(request, "405.html", {"back": page_above(request.path)}, status=response.status_code)
        page.headers["Allow"] = response.headers["Allow"]
        return page


def page_above(path: str) -> str:
    """Return the address of the page that holds the button; the first page when there is none in between."""
    parts = path.strip("/").split("/")[:-1]
    while parts:
        above = f"/{'/'.join(parts)}/"
        try:
            if resolve(above).url_name not in NO_PAGES:
                return above
        except Resolver404:
            pass  # a step that is no page of its own
        parts.pop()
    return "/"
