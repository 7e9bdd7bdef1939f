"""GET /api/v1/openapi.json: the document says what the API does."""

import re

import jsonschema
import pytest
from django.urls import get_resolver

from console.api.openapi import DOCUMENT
from tests.console.api import world

pytestmark = pytest.mark.django_db


def _routes():
    api = next(found for found in get_resolver().url_patterns if getattr(found, "app_name", None) == "api")
    return [route for route in api.url_patterns if hasattr(route.callback, "methods")]


def test_every_route_and_method_is_in_the_document_and_the_other_way_round():
    served = {
        ("/api/v1/" + re.sub("<uuid:(.*?)>", r"{\1}", str(route.pattern)), method.lower()): made.scope.value
        for route in _routes()
        for method, made in route.callback.methods.items()
    }

    documented = {
        (path, method): spec["security"][0]["token"][0]
        for path, methods in DOCUMENT["paths"].items()
        for method, spec in methods.items()
    }
    assert documented == served


def test_the_document_is_given_to_anybody(client):
    answer = client.get("/api/v1/openapi.json")

    assert answer.status_code == 200
    assert answer.json()["openapi"].startswith("3.1")


def test_every_reference_leads_somewhere():
    names = set(_references(DOCUMENT))

    assert names
    assert names <= set(DOCUMENT["components"]["schemas"])


def _references(part):
    if isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"].rpartition("/")[2]
        for value in part.values():
            yield from _references(value)
    elif isinstance(part, list):
        for value in part:
            yield from _references(value)


@pytest.mark.parametrize("name", DOCUMENT["components"]["schemas"])
def test_every_schema_is_a_schema(name):
    jsonschema.Draft202012Validator.check_schema(DOCUMENT["components"]["schemas"][name])


def fits(answer, path, method):
    """Check a real answer against what the document says of it, member by member."""
    [media] = DOCUMENT["paths"][path][method]["responses"][str(answer.status_code)]["content"].items()
    assert answer["Content-Type"] == media[0]
    schema = {**media[1]["schema"], "components": DOCUMENT["components"]}
    jsonschema.Draft202012Validator(schema).validate(answer.json())
    name = media[1]["schema"]["$ref"].rpartition("/")[2]
    if name != "Problem":  # problems may carry more
        assert set(answer.json()) == set(DOCUMENT["components"]["schemas"][name]["properties"])


ONE = "/api/v1/operations/{operation}"


def test_real_answers_are_as_documented(node):
    fits(node.submit(), "/api/v1/operations", "post")
    fits(node.submit(), "/api/v1/operations", "post")
    fits(node.submit(principal="bob"), "/api/v1/operations", "post")
    fits(node.submit(principal=""), "/api/v1/operations", "post")
    fits(node.get("operations?call_node=invoice-7/report"), "/api/v1/operations", "get")
    running = node.get("operations?call_node=invoice-7/report").json()["items"][0]["id"]
    world.working(running)
    fits(node.get(f"operations/{running}/receipt"), ONE + "/receipt", "get")
    fits(node.post(f"operations/{running}/cancel", {"reason": "r"}), ONE + "/cancel", "post")
    fits(node.get(f"operations/{running}"), ONE, "get")
    done = world.accepted(node, number=2)
    fits(node.get(f"operations/{done}"), ONE, "get")
    fits(node.get(f"operations/{done}/receipt"), ONE + "/receipt", "get")
    fits(node.post(f"operations/{done}/cancel", {"reason": "r"}), ONE + "/cancel", "post")
    fits(node.get("outbox"), "/api/v1/outbox", "get")
    receipt = node.get("outbox").json()["items"][0]["receipt"]
    fits(node.post("outbox/acknowledge", {"receipts": [receipt]}), "/api/v1/outbox/acknowledge", "post")


def test_the_answers_about_a_shadow_are_as_documented(node):
    """A call that an existing path made, from its registration to the comparison that it waits for."""
    at = "/api/v1/shadows"
    fits(node.post("shadows", world.EXISTING), at, "post")
    world.put_on_trial()
    fits(node.post("shadows", world.EXISTING), at, "post")
    shadow = node.post("shadows", world.EXISTING).json()["id"]
    fits(node.get(f"shadows/{shadow}"), at + "/{shadow}", "get")
    told = {"outcome": "SUCCESS", "ended_at": "2026-11-29T12:00:00Z", "looks": 4, "result": {"content": []}}
    fits(node.post(f"shadows/{shadow}/outcome", told), at + "/{shadow}/outcome", "post")
    fits(node.post(f"shadows/{shadow}/outcome", told | {"looks": 5}), at + "/{shadow}/outcome", "post")
    fits(node.post(f"shadows/{shadow}/outcome", {"outcome": "LOST"}), at + "/{shadow}/outcome", "post")


def test_the_documented_call_is_taken(node):
    """The example of the document's own schema, not of these tests."""
    jsonschema.Draft202012Validator(
        {**DOCUMENT["components"]["schemas"]["Call"], "components": DOCUMENT["components"]}
    ).validate(node.call(wait_budget_s=60))

    assert node.submit(wait_budget_s=60).status_code == 201
