"""Sees every request of a person: where it comes from, what it may see, and what became of what it wanted (W).

What changes the ledger is noted by the ledger itself, in the same transaction. Here the rest is noted: the attempts
that never came so far, such as a role that is missing, a page that was forged, a form that was not accepted; and the
few deeds that change nothing in the ledger. Who somebody is comes from the session alone.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.crypto import salted_hmac

from console import access
from operations import ledger
from operations.queries import scope

SALT = "longcall.audit"
NOT_FOR_PEOPLE = ("/api/", "/metrics", "/livez", "/readyz")
"""What asks here has a token or is a machine; none of it has a session, and all of it sees everything."""
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
NOTED_READS = frozenset({"evidence", "proof_export", "audit_export"})
"""Reading these is an act of its own: raw payloads, and whole exports."""
OWN_AFFAIRS = frozenset({"preferences"})
"""Posts that change nothing but the browser they come from."""
WORDS = {
    HTTPStatus.BAD_REQUEST: "the form did not come from a page of ours for this person",
    HTTPStatus.FORBIDDEN: "not allowed",
    HTTPStatus.NOT_FOUND: "there is nothing here that this person sees",
    HTTPStatus.CONFLICT: "it has changed since the page was shown",
    HTTPStatus.UNPROCESSABLE_ENTITY: "what was typed was not accepted",
    HTTPStatus.TOO_MANY_REQUESTS: "too many attempts",
}
"""Why somebody was turned away, by the status of the answer, where the page itself did not say it."""


class AuditMiddleware:
    """Lets every row carry where it comes from, narrows every query, and notes what the ledger has not."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request with its origin and its scope bound."""
        if request.path.startswith(NOT_FOR_PEOPLE):
            return self._get_response(request)
        actor = access.actor_of(request.user)
        request.known = actor  # type: ignore[attr-defined]
        origin = ledger.Origin(by=actor.by if actor else "", ip=_ip(request), session=session_hash(request))
        with ledger.coming_from(origin), scope.seen_by(actor.scope if actor else scope.NOTHING):
            response = self._get_response(request)
            if _is_noted(request, response) and not _was_noted(origin, response):
                _note(request, response, origin)
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> None:
        """Keep why a view turned somebody away."""
        request.refusal = str(exception)  # type: ignore[attr-defined]


def session_hash(request: HttpRequest) -> str:
    """Tell two browsers apart without keeping what would open either."""
    key = request.session.session_key
    return salted_hmac(SALT, key).hexdigest()[:16] if key else ""


def _ip(request: HttpRequest) -> str:
    return str(request.META.get("REMOTE_ADDR", ""))[:64]


def _is_noted(request: HttpRequest, response: HttpResponse) -> bool:
    name = _name(request)
    if getattr(request, "decides_nothing", False) or name in OWN_AFFAIRS:
        return False
    if request.method in SAFE:
        return name in NOTED_READS and response.status_code == HTTPStatus.OK
    return True


def _was_noted(origin: ledger.Origin, response: HttpResponse) -> bool:
    # A page that broke after a row was written has rolled it back, as far as we know.
    return bool(origin.written) and response.status_code < HTTPStatus.INTERNAL_SERVER_ERROR


def _note(request: HttpRequest, response: HttpResponse, origin: ledger.Origin) -> None:
    what, target, now = _name(request).upper() or "POST", _target(request), timezone.now()
    by = origin.by or _signed_in_as(request)
    origin.session = origin.session or session_hash(request)  # whoever signs in has one only now
    refusal = getattr(request, "refusal", "")
    if response.status_code < HTTPStatus.BAD_REQUEST and not refusal and not _is_failed_login(request, response):
        ledger.audit(by, what, target, now=now)
        return
    said = refusal or WORDS.get(HTTPStatus(response.status_code), f"answered with {response.status_code}")
    ledger.audit_refused(by, what, target, now=now, reason=said)


def _is_failed_login(request: HttpRequest, response: HttpResponse) -> bool:
    return _name(request) == "login" and response.status_code == HTTPStatus.OK


def _signed_in_as(request: HttpRequest) -> str:
    """Who came in by this very request."""
    return f"person:{request.user.get_username()}" if isinstance(request.user, User) else ""


def _name(request: HttpRequest) -> str:
    match = request.resolver_match
    return (match.url_name or "") if match else ""


def _target(request: HttpRequest) -> str:
    """Name what the address is about, the way the ledger names it."""
    match = request.resolver_match
    named = match.kwargs if match else {}
    operation = named.get("operation") or named.get("number")
    if operation is not None and not isinstance(operation, int):
        return f"operation:{operation}"
    if "slug" in named and _name(request).startswith(("server", "tool")):
        return f"tool:{named['slug']}/{named['name']}" if "name" in named else f"server:{named['slug']}"
    for name, kind in (("version", "protocol"), ("username", "person"), ("prefix", "token")):
        if name in named:
            return f"{kind}:{named[name]}"
    return f"page:{request.path[:200]}"
