"""The Content-Security-Policy header: scripts, styles and connections come from this site or not at all."""

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse


class ContentSecurityPolicyMiddleware:
    """Adds the policy of SECURE_CSP to every answer that does not carry one of its own."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        """Keep the next step and write the policy out once."""
        self._get_response = get_response
        self._policy = "; ".join(f"{name} {' '.join(sources)}" for name, sources in settings.SECURE_CSP.items())

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request with the policy on top."""
        response = self._get_response(request)
        response.headers.setdefault("Content-Security-Policy", self._policy)
        return response
