"""A drill: a server forgets its tasks, and two people clear what became unknown, with the pages they have (X4, G3-G5).

Time is the world's own: the network, the limit of requests a second and the pauses in which a person reads take virtual
seconds; what our own code takes is added to them as it was measured. So the drill takes as long as the day would.
"""

import time
import uuid
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone as clock

from adapters.simulator.scenario import Scenario
from adapters.simulator.scripts import Finish, Tool, Work
from console.bulk import still_may
from operations import ledger
from operations.gates import Gate
from operations.machine import State
from operations.models import Journal, Operation, Receipt
from operations.queries import gates, incidents
from tests.console import factories as make
from tests.operations.world import START

pytestmark = pytest.mark.django_db(transaction=True)
QPS = 50
FIFTEEN = timedelta(minutes=15)
READS = 40
"""Seconds that a person takes to read a page before they press."""
UNKNOWN = {State.UNKNOWN.value, State.SUBMISSION_UNKNOWN.value}


def _slow(_arguments):
    yield Work(seconds=3600, message="Changing prices")
    return Finish(text="changed")


SLOW = Tool(name="change_prices", title="Change prices", description="", script=_slow, input_schema={"type": "object"})


class Drill:
    """A world under way, two operators, and the worker that does what they ask for."""

    def __init__(self, world, monkeypatch):
        self.world = world
        monkeypatch.setattr(clock, "now", world.now)
        self.olga, self.otto = self._signed_in("olga"), self._signed_in("otto")
        self.sent = []
        post = world.server.post

        def counted(message, headers):
            self.sent.append(world.loop.time())
            return post(message, headers)

        world.server.post = counted

    def _signed_in(self, name):
        client = Client()
        client.force_login(make.person(name, "operator"))
        return client

    def takes(self, function, *arguments, **named):
        """Do something of ours and let as much time pass as it really took; the pollers go on meanwhile."""
        began = time.perf_counter()
        found = function(*arguments, **named)
        self.world.idle(time.perf_counter() - began)
        return found

    def work(self):
        """What the worker does every two seconds."""
        self.takes(ledger.gather_incidents, now=self.world.now())
        self.takes(ledger.run_batches, seconds=60, may=still_may, clock=self.world.now)
        self.takes(ledger.state_overdue, now=self.world.now())

    def reads(self):
        self.world.idle(READS)

    def presses(self, client, address, **fields):
        """Post a form as a person does, after reading; let the worker do its part; return where it led."""
        self.reads()
        answer = self.takes(client.post, address, {"id": uuid.uuid4()} | fields)
        assert answer.status_code == 302, answer.content.decode()
        self.work()
        return answer.url

    def states(self):
        return dict.fromkeys(Operation.objects.values_list("state", flat=True))

    def until(self, reached, *, within_s):
        ends = self.world.loop.time() + within_s
        while not reached():
            assert self.world.loop.time() < ends, self.states()
            self.world.idle(5)

    def count(self, *states):
        return Operation.objects.filter(state__in=states).count()

    def longest_unknown(self):
        """The longest time that any operation stood in doubt; infinite while one still does."""
        if self.count(*UNKNOWN):
            return timedelta.max
        steps = Journal.objects.filter(kind="STEP").order_by("operation_id", "id")
        longest, since = timedelta(), {}
        for operation, at, target in steps.values_list("operation_id", "at", "target"):
            if target in UNKNOWN:
                since.setdefault(operation, at)
            elif operation in since:
                longest = max(longest, at - since.pop(operation))
        return longest

    def fullest_second(self):
        """The most requests that reached the server in any window of one second."""
        moments, most, first = sorted(self.sent), 0, 0
        for last, moment in enumerate(moments):
            while moments[first] <= moment - 1:
                first += 1
            most = max(most, last - first + 1)
        return most


@pytest.fixture
def drill(worlds, monkeypatch):
    world = worlds(Scenario(tools=(SLOW,), poll_ms=20_000), max_qps=QPS)
    ledger.set_policy("sim", "change_prices", ledger.ToolPolicy(effect="EXTERNAL", budget_s=36_000))
    return Drill(world, monkeypatch)


@pytest.mark.parametrize("calls", [100, pytest.param(2000, marks=pytest.mark.long)])
def test_an_outage_is_cleared_within_fifteen_minutes_and_every_gate_holds(drill, calls):
    """G3, G4, G5, X4: half heals on a look, half is closed by two people, and what was cancelled is confirmed."""
    world = drill.world
    for _ in range(calls):
        world.submit("change_prices")
    drill.until(lambda: drill.count(State.WORKING) == calls, within_s=calls)

    # The server comes back without its memory.
    tasks, world.server._tasks = world.server._tasks, {}
    drill.until(lambda: drill.count(State.UNKNOWN) == calls, within_s=120)
    drill.work()
    incident = incidents.find_open()[0]
    assert incident.open == calls
    page = f"/reconcile/incidents/{incident.id}/"

    # Somebody restores a backup that holds half of the tasks; a look at all of them brings those back.
    kept = sorted(tasks)[: calls // 2]
    world.server._tasks = {key: tasks[key] for key in kept}
    drill.presses(drill.olga, page + "do/", do="claim")
    drill.presses(drill.olga, page + "do/", do="look")
    drill.until(lambda: drill.count(State.WORKING) == len(kept), within_s=300)
    drill.work()
    assert incidents.read(incident.id).left_by_evidence == len(kept)

    # What nothing can be learned of is closed by two people.
    why = {"reason": "The shop's backup does not hold them", "typed": "close as unknown"}
    preview = drill.presses(drill.olga, page + "do/", do="verdict", verdict="GAVE_UP")
    drill.presses(drill.olga, f"{preview}start/", **why)
    assert Receipt.objects.count() == 0
    drill.presses(drill.otto, f"{preview}second/", do="confirm")
    assert drill.count(State.RECONCILED) == calls - len(kept)

    # What came back is no longer wanted: it is cancelled, all at once.
    preview = drill.presses(drill.olga, "/operations/cancel/", query="state=WORKING")
    drill.presses(drill.olga, f"{preview}start/", kind="need", reason="The prices stay as they are")
    drill.until(lambda: drill.count(State.CANCELLED_ACCEPTED) == len(kept), within_s=300)
    drill.work()

    figures = {figure.gate: figure for figure in gates.measure(START.date(), now=world.now())}
    assert drill.longest_unknown() < FIFTEEN
    assert (figures[Gate.UNKNOWN].count, figures[Gate.UNKNOWN].breaches) == (calls, 0)
    assert (figures[Gate.CANCEL].count, figures[Gate.CANCEL].breaches) == (len(kept), 0)
    assert drill.fullest_second() <= QPS
    assert Receipt.objects.count() == calls
    assert incidents.find_open() == ()
    print(f"{calls} unknown, all cleared within {drill.longest_unknown()}; fullest second {drill.fullest_second()}")
