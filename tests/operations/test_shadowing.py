"""A release on trial watches what an existing path does: real adapter, simulated server, virtual time (O1)."""

import asyncio
import random
from datetime import timedelta

import pytest

from adapters import registry, strictjson
from adapters.contract import Call, Ended, Endpoint, Handle, ToolResult
from adapters.simulator.scenario import Fault, FaultKind, Scenario
from adapters.simulator.scripts import Ask, Finish, Tool, Work
from operations import ledger
from operations.comparison import ShadowState, Told
from operations.machine import Outcome
from operations.models import Divergence, Operation, Outbox, Permit, Receipt, Round, Shadow
from operations.shadowing import Shadowing
from tests.adapters.planted import TakesErrorsForSuccess

pytestmark = pytest.mark.django_db(transaction=True)
VERSION = "2025-11-25"


def _report(arguments):
    yield Work(seconds=6, message="adding up")
    return Finish(text="no such quarter" if arguments.get("fails") else "done", is_error=bool(arguments.get("fails")))


def _asks(_arguments):
    yield Ask(message="Go on?", schema={"type": "object", "properties": {}})
    return Finish(text="done")


REPORT = Tool(name="report", title="Report", description="", script=_report, input_schema={"type": "object"})
ASKS = Tool(name="asks", title="Asks", description="", script=_asks, input_schema={"type": "object"})


class Trial:
    """A world with r2 on trial, and a call node's own program as the existing path."""

    def __init__(self, world):
        self.world = world
        self.r1, self.r2 = registry.adapter(VERSION, "r1"), TakesErrorsForSuccess()
        self.shadowing = Shadowing(
            adapter_for=lambda _version, release: {"r1": self.r1, "r2": self.r2}[release],
            wire_for=world.wire,
            run=world.step,
            clock=world.now,
            chance=random.Random(0),
        )
        note = ledger.Note(by="person:adam", reason="a try", now=world.now())
        for tool in ("report", "asks"):
            ledger.set_policy(world.slug, tool, ledger.ToolPolicy(effect="NONE", budget_s=120))
        ledger.put_on_trial(VERSION, "r2", note=note)
        self.session = world.run(self.r1.open(self.wire())).session

    def wire(self):
        endpoint = Endpoint(url=f"http://{self.world.slug}.test/mcp")
        return self.world.connections.wire(endpoint, gate=_open, clock=self.world.now)

    def path_calls(self, tool="report", arguments=b"{}", node="node-1"):
        """The existing path makes its call; return its task."""
        call = Call(submission_key=node, tool=tool, arguments=arguments, ttl_ms=None)
        seen = self.world.run(self.r1.submit(self.wire(), Handle(session=self.session), call))
        return seen.task.task_id

    def path_ends(self, task):
        """The existing path looks, every second and a half, until its call has ended; return what it reports."""
        handle, looks = Handle(session=self.session, task_id=task), 0

        async def poll():
            nonlocal looks
            while True:
                looks += 1
                seen = await self.r1.look(self.wire(), handle, expect_question=False)
                if isinstance(seen, Ended):
                    return await self.r1.fetch(self.wire(), handle, seen.status)
                await asyncio.sleep(1.5)

        result = self.world.run(poll())
        assert isinstance(result, ToolResult)
        outcome = Outcome.TOOL_ERROR if result.is_error else Outcome.SUCCESS
        digest = strictjson.digest_of(result.value)
        return Told(outcome=outcome, ended_at=self.world.now(), looks=looks, result_digest=digest)

    def registers(self, task, tool="report", node="node-1"):
        new = ledger.NewShadow(
            client="tests", call_node=node, server=self.world.slug, tool=tool, task_id=task, session=self.session
        )
        return ledger.register_shadow(new, now=self.world.now()).shadow

    def reports(self, shadow, told):
        return ledger.report_outcome("tests", shadow, told, now=self.world.now())

    def watch(self, seconds):
        """Let the worker drive shadows for some virtual seconds."""
        ends = self.world.loop.time() + seconds

        async def work():
            while self.world.loop.time() < ends:
                found = await self.world.step(ledger.claim_shadows, limit=10, now=self.world.now())
                await asyncio.gather(*(self.shadowing.watch(one) for one in found))
                await asyncio.sleep(0.5)

        self.world.run(work())

    def whole(self, arguments=b"{}", node="node-1"):
        """A call of the existing path from its start to the comparison; return the shadow's row."""
        task = self.path_calls(arguments=arguments, node=node)
        shadow = self.registers(task, node=node)
        self.watch(3)
        told = self.path_ends(task)
        self.watch(5)
        self.reports(shadow, told)
        self.watch(5)
        return Shadow.objects.get(id=shadow)


async def _open():
    return None


@pytest.fixture
def trial(worlds):
    def make(**knobs):
        return Trial(worlds(Scenario(tools=(REPORT, ASKS), **knobs)))

    return make


def test_o1_two_paths_that_agree_are_compared_without_a_difference(trial):
    here = trial()

    shadow = here.whole()

    assert (shadow.state, shadow.outcome, shadow.told_outcome) == (ShadowState.COMPARED, "SUCCESS", "SUCCESS")
    assert shadow.result_digest == shadow.told_result_digest
    assert not Divergence.objects.exists()


def test_o1_a_planted_fault_is_found_as_a_difference_in_outcome_and_keeps_the_share_from_rising(trial):
    here = trial()

    shadow = here.whole(arguments=b'{"fails": true}')

    [found] = Divergence.objects.filter(shadow=shadow)
    assert (found.kind, found.told, found.seen) == ("OUTCOME", "TOOL_ERROR", "SUCCESS")
    note = ledger.Note(by="person:adam", reason="more", now=here.world.now())
    with pytest.raises(ledger.DivergenceOpen):
        ledger.set_share(VERSION, "r2", share=5, note=note)
    assert ledger.close_divergence(found.id, note=note)
    ledger.set_share(VERSION, "r2", share=5, note=note)


def test_o1_a_shadow_only_looks(trial):
    """No submit, answer or cancel leaves, whatever the task does, and no table but its own has a row of it."""
    here = trial()
    begun = len(here.world.server.truth.arrivals)

    task = here.path_calls(tool="asks")
    made = len(here.world.server.truth.arrivals)
    here.registers(task, tool="asks")
    here.watch(60)

    asked = {arrival.method for arrival in list(here.world.server.truth.arrivals)[made:]}
    assert made == begun + 1
    assert asked == {"tasks/get"}
    assert set(here.r2.asked) == {"look"}
    assert len(here.world.server.truth.created) == 1
    assert here.world.server.truth.answers == here.world.server.truth.cancels == []
    for model in (Operation, Permit, Round, Receipt, Outbox):
        assert not model.objects.exists()


def test_o1_the_result_is_left_to_its_owner_until_that_has_it(trial):
    """A server that gives a result once would take it from the existing path."""
    here = trial()
    task = here.path_calls()
    shadow = here.registers(task)

    here.watch(20)

    assert Shadow.objects.get(id=shadow).ended_at is not None
    assert "fetch" not in here.r2.asked
    here.reports(shadow, here.path_ends(task))
    here.watch(3)
    assert here.r2.asked.count("fetch") == 1


def test_o1_a_report_that_comes_while_a_look_is_under_way_is_not_forgotten(trial):
    """The look did not know of it, and would have come back only when the shadow's time is over."""
    here = trial()
    task = here.path_calls()
    shadow = here.registers(task)
    told = here.path_ends(task)
    [held] = ledger.claim_shadows(limit=10, now=here.world.now())

    here.reports(shadow, told)
    here.world.run(here.shadowing.watch(held))
    here.watch(3)

    assert Shadow.objects.get(id=shadow).state == ShadowState.COMPARED


def test_p2_shadows_keep_within_the_servers_rate_and_give_way_to_real_work(worlds):
    here = Trial(worlds(Scenario(tools=(REPORT,)), max_qps=2))
    task = here.path_calls()
    here.registers(task)
    here.path_calls(node="other")
    start = here.world.loop.time()

    here.watch(10)

    times = [
        one.at - start for one in here.world.server.truth.arrivals if one.method == "tasks/get" and one.at >= start
    ]
    assert times
    assert max(sum(1 for at in times if one <= at < one + 1) for one in times) <= 2
    ledger.pause_server(here.world.slug, until=here.world.now() + timedelta(seconds=9), reason="429")
    assert ledger.claim_shadows(limit=10, now=here.world.now() + timedelta(seconds=8)) == []


def test_o1_a_path_that_never_reports_leaves_nothing_to_compare(trial):
    here = trial()
    shadow = here.registers(here.path_calls())

    here.watch(130)

    row = Shadow.objects.get(id=shadow)
    assert (row.state, row.why) == (ShadowState.ABANDONED, "the existing path has not reported how it ended")


def test_x1_a_task_the_release_never_saw_is_a_difference(trial):
    gone = Fault(on="tasks/get", kind=FaultKind.RPC_ERROR, code=-32602, times=1_000)
    here = trial(faults=(gone,))
    shadow = here.registers(here.path_calls())
    told = Told(outcome=Outcome.SUCCESS, ended_at=here.world.now())

    here.reports(shadow, told)
    here.watch(60)

    [found] = Divergence.objects.filter(shadow=shadow)
    assert (found.kind, found.told) == ("UNSEEN", "SUCCESS")
    assert "-32602" in found.seen


def test_o3_a_rollback_ends_the_trial_and_what_comes_late_is_not_kept(trial):
    here = trial()
    shadow = here.registers(here.path_calls())
    [held] = ledger.claim_shadows(limit=10, now=here.world.now())
    note = ledger.Note(by="person:adam", reason="back", now=here.world.now())

    ledger.roll_back(VERSION, seen_epoch=1, known=("r1", "r2"), in_flight=0, note=note)
    here.world.run(here.shadowing.watch(held))

    row = Shadow.objects.get(id=shadow)
    assert (row.looks, row.status) == (0, "")
    here.watch(60)
    assert Shadow.objects.get(id=shadow).state == ShadowState.ABANDONED
