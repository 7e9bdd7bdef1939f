"""Refusals as application/problem+json (RFC 9457), each saying what was done and what was not.

`PROBLEMS` is the list of every refusal there is. The type of a problem is the address at which its entry can be read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse

MEDIA_TYPE = "application/problem+json"
TYPES = "/api/v1/problems/"
NOTHING = "Nothing was changed."


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of refusal."""

    status: int
    title: str
    advice: str
    """What the caller should do now."""


PROBLEMS: Mapping[str, Kind] = MappingProxyType(
    {
        "not-json": Kind(
            status=400,
            title="The body is not strict JSON",
            advice="Send one JSON object, UTF-8, no duplicate keys, no NaN, at most 32 levels deep.",
        ),
        "bad-query": Kind(
            status=400,
            title="A query parameter cannot be read",
            advice="Correct the parameter that the detail names.",
        ),
        "no-token": Kind(
            status=401,
            title="A valid token is needed",
            advice="Send 'Authorization: Bearer <token>'. An admin issues tokens.",
        ),
        "scope-missing": Kind(
            status=403,
            title="The token does not allow this",
            advice="Ask an admin for a token with the scope that the detail names.",
        ),
        "not-found": Kind(
            status=404,
            title="There is nothing of yours here",
            advice="Check the id; a lost id is found again by call node or by submission key.",
        ),
        "no-receipt-yet": Kind(
            status=404,
            title="This call has not ended yet",
            advice="Wait with GET /api/v1/operations/{id}?wait=30, or pull the outbox. Do not call the tool again.",
        ),
        "no-result": Kind(
            status=404,
            title="This call ended without a result",
            advice="Read the receipt: its outcome says how the call ended.",
        ),
        "wrong-method": Kind(
            status=405, title="This address does not take this method", advice="See the Allow header."
        ),
        "key-reused": Kind(
            status=409,
            title="The key or the call node already stands for another call",
            advice="Read the operation that is linked. A new call needs a new call node and a new key.",
        ),
        "already-finished": Kind(
            status=409,
            title="The call has already finished",
            advice="Read the operation; there is nothing left to cancel.",
        ),
        "out-of-date": Kind(
            status=409,
            title="The operation has moved since you looked",
            advice="Read the operation again and decide again.",
        ),
        "too-big": Kind(
            status=413,
            title="The body is too big",
            advice="Send less than a megabyte; hand large data over by reference.",
        ),
        "not-json-type": Kind(
            status=415, title="The body must be JSON", advice="Send 'Content-Type: application/json'."
        ),
        "bad-body": Kind(
            status=422,
            title="The body does not fit this request",
            advice="Correct the members listed under 'errors'.",
        ),
        "no-such-tool": Kind(
            status=422,
            title="No such server or tool is registered",
            advice="Correct the name, or ask an admin to register the server.",
        ),
        "keep-existing-path": Kind(
            status=409,
            title="This call was not chosen for this path",
            advice="Run it on the path it has run on so far. The answer stays the same for this call node.",
        ),
        "submits-closed": Kind(
            status=423,
            title="New calls are stopped here",
            advice="Wait until an admin opens submits again. Do not fall back to calling the tool and timing out.",
        ),
        "tool-has-effects": Kind(
            status=409,
            title="Only calls of tools without side effects may be watched",
            advice="Go on with your existing path. An admin can register the tool as free of side effects, if it is.",
        ),
        "nothing-on-trial": Kind(
            status=409,
            title="No release is on trial, so nobody would look",
            advice="Go on with your existing path. There is nothing to register before an admin puts one on trial.",
        ),
        "shadow-clash": Kind(
            status=409,
            title="The call node, its task or its report already stands for something else",
            advice="Go on with your existing path, and compare what you sent with what the detail says.",
        ),
        "too-many-refused": Kind(
            status=429,
            title="Too many attempts were refused",
            advice="Find out why they are refused, and wait as long as Retry-After says. A valid token is let in.",
        ),
        "unexpected": Kind(
            status=500,
            title="Something broke on our side",
            advice="Send the very same request again: the same key never makes a second operation.",
        ),
        "ledger-away": Kind(
            status=503,
            title="The ledger cannot be reached",
            advice="Send the very same request again in a few seconds: the same key never makes a second operation.",
        ),
    }
)


class Problem(Exception):
    """A refusal on its way out. `name` is a key of PROBLEMS; `more` are extension members."""

    def __init__(
        self,
        name: str,
        detail: str,
        *,
        done: str = "",
        not_done: str = NOTHING,
        more: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.name = name
        self.detail = detail
        self.done = done
        self.not_done = not_done
        self.more = dict(more or {})
        self.headers = dict(headers or {})


def respond(problem: Problem) -> HttpResponse:
    """Write the refusal out."""
    kind = PROBLEMS[problem.name]
    body = {
        "type": TYPES + problem.name,
        "title": kind.title,
        "status": kind.status,
        "detail": problem.detail,
        "done": problem.done,
        "not_done": problem.not_done,
        "advice": kind.advice,
        **problem.more,
    }
    return HttpResponse(
        json.dumps(body, ensure_ascii=False),
        status=kind.status,
        content_type=MEDIA_TYPE,
        headers={"Cache-Control": "no-store", **problem.headers},
    )


def describe(_request: HttpRequest, name: str) -> HttpResponse:
    """Say what one type of problem means."""
    kind = PROBLEMS.get(name)
    if kind is None:
        return respond(Problem("not-found", f"There is no problem called {name!r}."))
    return JsonResponse({"title": kind.title, "status": kind.status, "advice": kind.advice})
