"""The day on which a release is tried, shared, found wrong and rolled back under 200 calls, in Chromium (O1 to O5).

The product runs with a second release of 2025-11-25 that reads a tool's error as a success; the tool servers run in
this process, so that what they really did is known without asking the product.
"""

import asyncio
import contextlib
import shutil
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import expect

from adapters import registry
from adapters.contract import Call, Ended, Endpoint, Handle
from adapters.http import Connections
from tests.browser.conftest import Product
from tests.browser.fleet import Fleet

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("a product of its own")]
VERSION = "2025-11-25"
WHY = "Errors were read as success, see the incident"
LONG = 300_000  # milliseconds

STANDING = {
    "WORKING": [("steady", "holds", 130)],
    "INPUT_REQUIRED": [("steady", "asks", 10)],
    "CANCEL_REQUESTED": [("stubborn", "holds", 10)],
    "SUBMISSION_UNKNOWN": [("lossy", "holds", 10)],
    "UNKNOWN": [("forgetful", "holds", 10)],
    "FETCHING_RESULT": [("torn", "at_once", 6)],
    "NOT_FOUND_SAFE": [("guarded", "holds", 1)],
    "SUBMITTING": [("guarded", "holds", 13), ("slow", "holds", 10)],
}
"""How many calls are to stand in each state when it is rolled back: 200. TERMINAL_OBSERVED holds none for long."""
BRIEF = ("FETCHING_RESULT", "SUBMITTING")
"""States that no call stays in for ever: these are brought about last."""
ON = {"SUBMITTING": ("WORKING", "SUBMISSION_UNKNOWN")}
"""Where the calls of a slow server may have come while the others were waited for; the guarded one's stay."""


@pytest.fixture
def fleet():
    with Fleet().serve() as fleet:
        yield fleet


@pytest.fixture
def product(fleet):
    """An installation for one try of one test: it has the code of a second release, with the fleet registered."""
    home = Path(tempfile.mkdtemp(prefix="longcall-product-"))
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("LONGCALL_ADAPTERS", "tests.adapters.planted:RELEASES")
        running = Product(home)
        stack.callback(running.end)
        known = {name: fleet.url(name) for name in fleet.servers}
        running.manage("shell", "--no-imports", given=_REGISTER.format(known=known))
        yield running


_REGISTER = """
import os
from django.utils import timezone
from operations import ledger, registration
for slug, url in {known!r}.items():
    version = "2026-07-28" if slug == "modern" else "2025-11-25"
    lookup = "session_list" if slug == "lossy" else "none"
    profile = ledger.NewServer(
        slug=slug, title=slug.title(), url=url, protocol=version, allow_private=True, max_qps=200, poll_floor_ms=500,
        poll_cap_ms=5000, lookup=lookup, quarantine_s=600,
    )
    registration.register(profile)
    for tool in registration.negotiate(slug, clock=timezone.now, environ=os.environ).tools:
        ledger.set_policy(slug, tool.tool, ledger.ToolPolicy(effect="NONE", expected_s=60, budget_s=900))
"""
_LOOK = """
from django.utils import timezone
from operations import ledger
for operation in {operations!r}:
    try:
        ledger.look_now(operation, by="person:olga", now=timezone.now())
    except ledger.NotAllowedByEvidence:
        pass
"""
_NOBODY_ANSWERS_THE_DEMO = """
from django.utils import timezone
from operations import ledger
from operations.machine import StepError
from operations.models import Operation
for operation in Operation.objects.filter(server__slug__in=["reports", "pricing"]).values_list("id", flat=True):
    try:
        ledger.request_cancel(
            str(operation), seen_generation=None, by="person:olga", reason="the day is over", now=timezone.now()
        )
    except StepError:
        pass
"""


class ExistingPath:
    """A call node's own program: it makes its call, polls by itself, and tells Longcall what it did."""

    def __init__(self, product, fleet):
        self._product = product
        self._url = fleet.url("figures")
        self._thread = ThreadPoolExecutor(1)  # this one has a loop of Playwright's

    def report(self, arguments):
        """Run a report and register it; return the shadow's id."""
        return self._thread.submit(asyncio.run, self._report(arguments)).result(LONG / 1000)

    async def _report(self, arguments):
        connections, adapter = Connections(), registry.adapter(VERSION, "r1")
        wire = connections.wire(Endpoint(url=self._url, allow_private=True), gate=_open_gate, clock=_now)
        try:
            node = f"report-{uuid.uuid4()}"
            session = (await adapter.open(wire)).session
            call = Call(submission_key=node, tool="report", arguments=arguments, ttl_ms=None)
            task = (await adapter.submit(wire, Handle(session=session), call)).task.task_id
            new = {"call_node": node, "server": "figures", "tool": "report", "task_id": task, "session": session}
            status, told = await asyncio.to_thread(self._product.api, "shadows", new)
            assert status == 201, told
            looks, handle = 1, Handle(session=session, task_id=task)
            while not isinstance(seen := await adapter.look(wire, handle, expect_question=False), Ended):
                looks += 1
                await asyncio.sleep(0.5)
            result = await adapter.fetch(wire, handle, seen.status)
        finally:
            await connections.aclose()
        ended = {"outcome": "TOOL_ERROR" if result.is_error else "SUCCESS", "ended_at": _now().isoformat()}
        at = f"shadows/{told['id']}/outcome"
        status, said = await asyncio.to_thread(self._product.api, at, ended | {"looks": looks, "result": result.value})
        assert status == 200, said
        return told["id"]


async def _open_gate():
    return None


def _now():
    return datetime.now(UTC)


def compared(product, shadow, *, seconds=LONG / 1000):
    """Wait until a shadow is compared; return what the two differed in."""
    deadline = time.monotonic() + seconds
    while (told := product.api(f"shadows/{shadow}")[1])["state"] == "OBSERVING":
        assert time.monotonic() < deadline, told
        time.sleep(0.3)
    assert told["state"] == "COMPARED", told
    return told["differences"]


def submit(product, server, tool, arguments=None):
    node = f"{server}-{tool}-{uuid.uuid4()}"
    return product.submit(server, tool, arguments or {}, node=node), node


def bring_into_flight(product, states):
    """Submit the calls of these states and wait until each stands where it should; return them by state."""
    flying = {
        state: [submit(product, server, tool) for server, tool, count in STANDING[state] for _ in range(count)]
        for state in states
    }
    for operation, _node in flying.get("CANCEL_REQUESTED", ()):
        product.reached(operation, "WORKING")
        product.api(f"operations/{operation}/cancel", {"reason": "not needed any more"})
    for state, calls in flying.items():
        for operation, _node in calls:
            product.reached(operation, state, *ON.get(state, ()))
    return flying


def test_one_version_is_disabled_while_another_goes_on(product, fleet, visit):
    """O5: what is in flight under the stopped version comes to its receipt; the other version takes new calls."""
    adam = visit("adam", f"/adapters/{VERSION}/#stop")
    going, _node = submit(product, "figures", "report")

    stop = adam.locator("#stop form")
    stop.get_by_label("What").select_option(f"protocol:{VERSION}")
    stop.get_by_label("Reason").fill("An hour of peace for this contract")
    stop.get_by_role("button", name="Stop new calls").click()
    expect(adam.locator("main")).to_contain_text("New calls are stopped")
    status, told = product.api("operations", late_call("figures", "report"))
    assert (status, told["fall_back_allowed"]) == (423, False)
    other, _node = submit(product, "modern", "report")

    assert product.reached(going, "ACCEPTED")["receipt"]["outcome"] == "SUCCESS"
    assert product.reached(other, "ACCEPTED")["receipt"]["outcome"] == "SUCCESS"

    let_in(adam)
    again, _node = submit(product, "figures", "report")
    assert product.reached(again, "ACCEPTED")["receipt"]["outcome"] == "SUCCESS"


def let_in(page):
    form = page.locator("#stop form")
    form.get_by_label("What").select_option(f"protocol:{VERSION}")
    form.get_by_label("Reason").fill("The hour is over")
    form.get_by_role("button", name="Let new calls in").click()
    expect(page.locator("main")).to_contain_text("New calls are let in again")


def test_a_release_is_tried_shared_found_wrong_and_rolled_back_under_two_hundred_calls(product, fleet, visit):
    """Each of the 200 calls comes to exactly one receipt, and no server began one of them twice."""
    path, adam = ExistingPath(product, fleet), visit("adam", f"/adapters/{VERSION}/")

    trial = adam.locator("section", has=adam.get_by_role("heading", name="Put a release on trial"))
    trial.get_by_label("Release").select_option("r2")
    trial.get_by_label("Reason").fill("First look at the second release")
    trial.get_by_role("button", name="Put it on trial").click()
    expect(adam.get_by_role("heading", name="Trial of r2")).to_be_visible()
    assert [compared(product, path.report(b"{}")) for _ in range(3)] == [[], [], []]

    share(adam, 5)
    expect(adam.locator("main")).to_contain_text("Decided")
    flying = bring_into_flight(product, [state for state in STANDING if state not in BRIEF])
    assert compared(product, path.report(b'{"fails": true}')) == ["OUTCOME"]

    adam.goto(f"/adapters/{VERSION}/")
    expect(adam.locator("#trial")).to_contain_text("Another outcome")
    expect(adam.locator("#trial")).to_contain_text("existing path: TOOL_ERROR · r2: SUCCESS")
    share(adam, 25)
    expect(adam.locator("main")).to_contain_text("Not raised: 1 differences")

    flying |= bring_into_flight(product, BRIEF)
    everything = [call for calls in flying.values() for call in calls]
    assert len(everything) == 200
    roll_back(adam)
    expect(adam.locator("main")).to_contain_text("that were in flight")
    status, told = product.api("operations", late_call("figures", "report"))
    assert (status, told["fall_back_allowed"]) == (423, False)
    assert WHY in told["detail"]
    later = {operation: product.api(f"operations/{operation}")[1]["state"] for operation, _node in everything}
    assert set(later.values()) == set(STANDING)

    fleet.let_go()
    settle(product, visit, flying)
    expect(adam.locator("main")).to_contain_text("Drained.", timeout=LONG)

    receipts = taken_over(product)
    assert sorted(node for node in receipts if node in {node for _, node in everything}) == sorted(
        node for _operation, node in everything
    )
    begun = fleet.begun()
    assert {key: count for key, count in begun.items() if count > 1} == {}
    unsent = {node for _operation, node in flying["NOT_FOUND_SAFE"] + flying["SUBMITTING"]}
    assert {node for _operation, node in everything if node not in begun} <= unsent


def share(page, percent):
    form = page.locator("#share form")
    form.get_by_label("Release").select_option("r2")
    form.get_by_label("Share of the new calls").fill(str(percent))
    form.get_by_label("Reason").fill("The trial went well so far")
    form.get_by_role("button", name="Decide the share").click()


def roll_back(page):
    page.get_by_role("link", name="Roll back…").click()
    expect(page.locator("main")).to_contain_text("Looking, answering, cancelling and reconciling go on with release r1")
    expect(page.locator("main")).to_contain_text("the first 50 of")
    form = page.locator("form", has=page.get_by_label("Type the version"))
    form.get_by_label("Reason").fill(WHY)
    form.get_by_label("Type the version").fill(VERSION)
    page.get_by_role("button", name=f"Roll back {VERSION}").click()


def late_call(server, tool):
    node = f"late-{uuid.uuid4()}"
    call = {"call_node": node, "submission_key": node, "server": server, "tool": tool}
    return call | {"arguments": {}, "principal": "the planner"}


def settle(product, visit, flying):
    """What people do meanwhile: answer, cancel what never left or nobody answers, look at what went unknown."""
    # The demo's own workflow makes calls too, and where the day was long one of them asks by now.
    product.manage("shell", "--no-imports", given=_NOBODY_ANSWERS_THE_DEMO)
    answered, *others = flying["INPUT_REQUIRED"]
    ada = visit("ada", f"/approvals/{answered[0]}/1/")
    ada.get_by_role("radio", name="Yes").check()
    ada.get_by_role("button", name="Submit").click()
    expect(ada.locator("#round-state")).to_contain_text("You answered: Submit")
    for operation, _node in others + flying["NOT_FOUND_SAFE"] + flying["SUBMITTING"]:
        product.api(f"operations/{operation}/cancel", {"reason": "the day is over"})
    unknown = [operation for operation, _node in flying["UNKNOWN"] + flying["FETCHING_RESULT"] + flying["SUBMITTING"]]
    deadline = time.monotonic() + LONG / 1000
    while open_ := [one for one in unknown if not product.api(f"operations/{one}")[1]["final"]]:
        assert time.monotonic() < deadline, open_
        product.manage("shell", "--no-imports", given=_LOOK.format(operations=open_))
        time.sleep(2)


def taken_over(product):
    """Every call node in the outbox, once for each delivery row."""
    nodes, after, more = [], 0, True
    while more:
        page = product.api(f"outbox?limit=100&after={after}")[1]
        nodes += [item["call_node"] for item in page["items"]]
        after, more = page["next_after"], page["more"]
    return nodes
