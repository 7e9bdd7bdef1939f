"""The addresses of the API."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from console.api import openapi, operations, outbox, problem, shadows

app_name = "api"


@csrf_exempt
def nowhere(request: HttpRequest, rest: str) -> HttpResponse:
    """Answer an address that does not exist in the language of the API."""
    return problem.respond(problem.Problem("not-found", f"{request.method} {rest[:100]!r} is no address of this API."))


urlpatterns = [
    path("operations", operations.operations, name="operations"),
    path("operations/<uuid:operation>", operations.operation, name="operation"),
    path("operations/<uuid:operation>/receipt", operations.receipt, name="receipt"),
    path("operations/<uuid:operation>/result", operations.result, name="result"),
    path("operations/<uuid:operation>/cancel", operations.cancel, name="cancel"),
    path("outbox", outbox.pull, name="outbox"),
    path("outbox/acknowledge", outbox.acknowledge, name="acknowledge"),
    path("shadows", shadows.shadows, name="shadows"),
    path("shadows/<uuid:shadow>", shadows.shadow, name="shadow"),
    path("shadows/<uuid:shadow>/outcome", shadows.outcome, name="shadow_outcome"),
    path("openapi.json", openapi.show, name="openapi"),
    path("problems/<slug:name>", problem.describe, name="problem"),
    path("<path:rest>", nowhere, name="nowhere"),
]
