"""The Content-Security-Policy header: scripts, styles and connections come from this site or not at all."""

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.http import HttpRequest, HttpResponse


class ContentSecurityPolicyMiddleware:
    """Adds the policy of SECURE_CSP to every answer that does not carry one of its own.

    Both kinds of chains are served: one middleware that is only synchronous would cost every waiting request a thread.
    """

    sync_capable = async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        """Keep the next step and write the policy out once."""
        self._get_response = get_response
        self._policy = "; ".join(f"{name} {' '.join(sources)}" for name, sources in settings.SECURE_CSP.items())
        self._waits = iscoroutinefunction(get_response)
        if self._waits:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        """Answer the request with the policy on top."""
        return self._later(request) if self._waits else self._stamped(self._get_response(request))

    async def _later(self, request: HttpRequest) -> HttpResponse:
        return self._stamped(await self._get_response(request))

    def _stamped(self, response: HttpResponse) -> HttpResponse:
        response.headers.setdefault("Content-Security-Policy", self._policy)
        return response
