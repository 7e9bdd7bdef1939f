"""What every endpoint does before and after its own work: the token, the clock, the refusals, where it came from.

An endpoint is a handler for each method. A handler is synchronous and runs in a thread, or it is a coroutine because
it waits; a waiting handler touches the database only through `in_thread`.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import InterfaceError, OperationalError, close_old_connections, connection
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt

from console.api import refused
from console.api.problem import Problem, respond
from console.models import Scope
from console.tokens import BadToken, Caller, ScopeMissing, recognise
from operations import intake, ledger
from operations.machine import StepError

P = ParamSpec("P")
T = TypeVar("T")

LONGEST_WAIT_S = 60
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request whose caller is known."""

    http: HttpRequest
    caller: Caller
    now: datetime

    def body(self) -> bytes:
        """Return the whole body. Raises Problem when it is no JSON by its header, or over the cap."""
        if self.http.content_type != "application/json":
            raise Problem("not-json-type", f"The content type is {self.http.content_type or 'missing'}.")
        # One byte more than allowed: a body that does not tell its length is found out too.
        raw = self.http.read(intake.MAX_BYTES + 1)
        if len(raw) > intake.MAX_BYTES:
            raise Problem("too-big", f"The body is bigger than {intake.MAX_BYTES} bytes.")
        return raw

    def whole(self, name: str, *, default: int, least: int, most: int) -> int:
        """Return a query parameter as a whole number. Raises Problem."""
        text = self.http.GET.get(name, "").strip()
        if not text:
            return default
        if not text.isascii() or not text.isdigit() or len(text) > 18 or not least <= int(text) <= most:  # noqa: PLR2004 - fits bigint
            raise Problem("bad-query", f"{name!r} must be a whole number from {least} to {most}.")
        return int(text)

    def link(self, name: str, **parts: object) -> str:
        """Return the absolute address of one of the API's own endpoints."""
        return self.http.build_absolute_uri(reverse(f"api:{name}", kwargs=parts))

    def page(self, operation: str) -> str:
        """Return the absolute address of the page that shows people an operation."""
        return self.http.build_absolute_uri(reverse("operation", kwargs={"number": operation}))


AsyncView = Callable[..., Coroutine[Any, Any, HttpResponse]]
Handler = Callable[..., HttpResponse] | AsyncView


@dataclass(frozen=True, slots=True)
class Method:
    """One method of an endpoint: what it needs and what answers it."""

    scope: Scope
    handler: Handler


def endpoint(**methods: Method) -> AsyncView:
    """Make a view of one handler for each method, such as `endpoint(GET=Method(Scope.READ, show))`."""

    async def view(request: HttpRequest, **parts: Any) -> HttpResponse:  # noqa: ANN401 - whatever the route captured
        # Every row that is written inside carries where it comes from; whose it is, is known once the token is.
        origin = ledger.Origin(by="", ip=str(request.META.get("REMOTE_ADDR", ""))[:64], session="")
        with ledger.coming_from(origin):
            try:
                return await _serve(request, methods, parts, origin)
            except Problem as problem:
                return respond(await _turned_away(request, problem, origin))

    # No cookie opens this door, so no foreign page can act through a browser that is signed in.
    exempt: AsyncView = csrf_exempt(view)
    exempt.methods = methods  # type: ignore[attr-defined]  # read by the test that compares them with the document
    return exempt


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run work that blocks; afterwards the database connection goes back to its pool.

    Without that a caller who waits for half a minute would hold one of few connections all the time.
    """

    def run() -> T:
        try:
            return work(*args, **kwargs)
        finally:
            if not connection.in_atomic_block:  # then it is the caller's own to keep
                close_old_connections()

    return await sync_to_async(run)()


async def _turned_away(request: HttpRequest, problem: Problem, origin: ledger.Origin) -> Problem:
    if not refused.is_attempt(request, problem, origin):
        return problem
    return await in_thread(refused.note, request, problem, origin, now=timezone.now())


async def _serve(
    request: HttpRequest, methods: Mapping[str, Method], parts: Mapping[str, Any], origin: ledger.Origin
) -> HttpResponse:
    method = methods.get(request.method or "")
    if method is None:
        allowed = ", ".join(sorted(methods))
        raise Problem("wrong-method", f"This address takes {allowed}.", headers={"Allow": allowed})
    try:
        ask = await in_thread(_admit, request, method.scope, origin)
        if inspect.iscoroutinefunction(method.handler):
            answer: HttpResponse = await method.handler(ask, **parts)
            return answer
        return await in_thread(method.handler, ask, **parts)  # type: ignore[arg-type]
    except Problem:
        raise
    except Exception as error:
        if (problem := _translated(error)) is None:
            log.exception("an API request broke")
            problem = Problem("unexpected", "The error has been logged.", not_done="Unknown.")
        raise problem from error


def _admit(request: HttpRequest, scope: Scope, origin: ledger.Origin) -> Ask:
    now = timezone.now()
    kind, _, secret = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() != "bearer" or not secret.strip():
        raise Problem("no-token", "There is no bearer token.", headers={"WWW-Authenticate": "Bearer"})
    try:
        caller = recognise(secret.strip(), now=now)
    except BadToken as bad:
        origin.session = bad.prefix
        raise
    origin.by, origin.session = caller.by, caller.prefix
    caller.needs(scope)
    return Ask(http=request, caller=caller, now=now)


def _translated(error: Exception) -> Problem | None:
    """Return what a domain error means to a call node; None for an error that nobody foresaw."""
    match error:
        case BadToken():
            return Problem("no-token", str(error), headers={"WWW-Authenticate": 'Bearer error="invalid_token"'})
        case ScopeMissing(scope=scope):
            challenge = f'Bearer error="insufficient_scope", scope="{scope.value}"'
            return Problem("scope-missing", str(error), headers={"WWW-Authenticate": challenge})
        case ledger.NoSuchOperation():
            return Problem("not-found", "There is no such operation of yours.")
        case StepError():
            return Problem("out-of-date", f"{error}.")
        case OperationalError() | InterfaceError():
            log.warning("the ledger cannot be reached", exc_info=error)
            unknown = "Unknown: the connection broke. The same request with the same key finds out."
            headers = {"Retry-After": "2"}
            return Problem("ledger-away", "The database does not answer.", not_done=unknown, headers=headers)
        case _:
            return _bad_body(error)


def _bad_body(error: Exception) -> Problem | None:
    match error:
        case intake.BadJson():
            return Problem("not-json", f"{error}.")
        case intake.BadBody(faults=faults):
            listed = [{"member": fault.member, "detail": fault.detail} for fault in faults]
            return Problem("bad-body", str(error), more={"errors": listed})
        case ledger.ArgumentsRefused(findings=findings):
            listed = [{"member": "arguments", "detail": finding} for finding in findings]
            return Problem("bad-body", "The arguments break the input schema of the tool.", more={"errors": listed})
        case _:
            return None
