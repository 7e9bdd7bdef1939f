"""A tool without task support runs under its published limit: one call, that limit, a row of the ledger (N2)."""

import pytest

from adapters.simulator import modern
from adapters.simulator.face import ToolServersApp
from adapters.simulator.scenario import Scenario
from adapters.simulator.scripts import Finish, Tool, Work
from operations import ledger
from operations.machine import State
from operations.models import Receipt

pytestmark = pytest.mark.django_db(transaction=True)
SECONDS = 60
"""Longer than any other request may take, and longer than a claim holds."""


def _script(_arguments):
    yield Work(seconds=SECONDS, message="at it")
    return Finish(text="done")


SLOW = Tool(
    name="slow", title="Slow", description="", script=_script, input_schema={"type": "object"}, task_support="forbidden"
)


def _serve_modern(scenario, *, clock, chance):
    server = modern.ModernToolServer(scenario, clock=clock, chance=chance)
    return server, ToolServersApp({"/mcp": server}), "/mcp"


@pytest.fixture(params=["2025-11-25", "2026-07-28"])
def world(worlds, request):
    def make(limit_s):
        how = {"version": request.param} | ({"serve": _serve_modern} if request.param == "2026-07-28" else {})
        here = worlds(Scenario(tools=(SLOW,), declares_tasks=False), **how)
        ledger.set_policy(here.slug, "slow", ledger.ToolPolicy(effect="NONE", sync_limit_s=limit_s))
        return here

    return make


def test_n2_it_may_take_as_long_as_its_limit_says_and_nobody_takes_it_for_lost(world):
    here = world(limit_s=90)

    operation = here.submit("slow")
    here.together(3, seconds=SECONDS + 20)

    assert here.row(operation).state is State.ACCEPTED
    assert Receipt.objects.get(operation_id=operation).outcome == "SUCCESS"
    assert len(here.server.truth.created) == 1


def test_n2_beyond_its_limit_it_is_lost_and_goes_to_a_person(world):
    here = world(limit_s=20)

    operation = here.submit("slow")
    here.together(3, seconds=SECONDS + 20)

    assert here.row(operation).state is State.UNKNOWN
    assert not Receipt.objects.filter(operation_id=operation).exists()
    assert len(here.server.truth.created) == 1
