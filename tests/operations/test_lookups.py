"""When the silence of a session's list may be believed (L4, X2, N2)."""

import pytest

from adapters.contract import Capabilities, Negotiation
from adapters.simulator import demo
from adapters.simulator.face import ToolServersApp
from adapters.simulator.modern import ModernToolServer
from adapters.simulator.scenario import Fault, FaultKind, Scenario
from adapters.simulator.scripts import Finish, Tool, Work
from operations import ledger
from operations.lookups import PROOF_AGE
from operations.machine import NotFound, Reason, State
from operations.models import Operation, Permit, Receipt, Server

pytestmark = pytest.mark.django_db(transaction=True)

REPORT = b'{"quarter": "2026-Q3"}'
LOST = Fault(on="tools/call", kind=FaultKind.REQUEST_LOST, skip=1)
QUARANTINE_S = 30


@pytest.fixture
def world(worlds):
    def make(*tools, quarantine_s=QUARANTINE_S, **knobs):
        scenario = Scenario(tools=tools or (demo.QUARTERLY_REPORT,), **knobs)
        return worlds(scenario, lookup="session_list", quarantine_s=quarantine_s)

    return make


def server(here):
    return Server.objects.get(slug=here.slug)


def asked(here, method):
    return [arrival.method for arrival in here.server.truth.arrivals].count(method)


def test_an_answered_submit_that_shows_up_in_the_list_is_the_proof(world):
    here = world()

    operation = here.submit("quarterly_report", REPORT)
    here.until(operation, State.WORKING)

    assert server(here).lookup_proved_at is not None
    assert asked(here, "tasks/list") == 1


def test_a_proof_holds_for_a_day_and_is_made_again(world):
    here = world()
    here.until(here.submit("quarterly_report", REPORT), State.WORKING)
    here.until(here.submit("quarterly_report", REPORT), State.WORKING)
    assert asked(here, "tasks/list") == 1
    first = server(here).lookup_proved_at

    Server.objects.filter(slug=here.slug).update(lookup_proved_at=first - PROOF_AGE)
    here.until(here.submit("quarterly_report", REPORT), State.WORKING)

    assert server(here).lookup_proved_at > first


def test_x2_a_proved_list_that_holds_nothing_is_a_proof_of_absence(world):
    here = world(faults=(LOST,))
    here.until(here.submit("quarterly_report", REPORT), State.WORKING)

    lost = here.submit("quarterly_report", REPORT)
    row = here.until(lost, State.NOT_FOUND_SAFE)

    assert row.reason == Reason.PROVED_ABSENT
    assert Operation.objects.get(id=lost).not_found == NotFound.NEVER_CREATED


def test_l4_an_unproved_list_that_holds_nothing_ends_with_a_person(world):
    """Class C: nothing says that this server would list the task if there were one."""
    here = world(faults=(Fault(on="tools/call", kind=FaultKind.REQUEST_LOST),))

    lost = here.submit("quarterly_report", REPORT)
    row = here.until(lost, State.UNKNOWN, within_s=300)
    here.idle(900)

    assert row.reason == Reason.SUBMIT_LOST
    assert here.row(lost).state is State.UNKNOWN
    assert asked(here, "tools/call") == 1, "a second submit, blindly"


def test_l4_an_unproved_list_that_holds_the_task_finds_it_all_the_same(world):
    here = world(faults=(Fault(on="tools/call", kind=FaultKind.ANSWER_LOST),))

    here.until(here.submit("quarterly_report", REPORT), State.ACCEPTED)

    assert len(here.server.truth.created) == 1


class _EmptyList:
    """A server that declares the list and leaves it empty: fastmcp 3 is one."""

    def __init__(self, server):
        server._list_tasks = lambda session: {"tasks": []}


def test_a_list_that_stays_empty_is_no_proof_and_stays_none(world):
    here = world()
    _EmptyList(here.server)

    here.until(here.submit("quarterly_report", REPORT), State.WORKING)
    here.until(here.submit("quarterly_report", REPORT), State.WORKING)

    assert (server(here).lookup_proved_at, server(here).lookup_disproved != "") == (None, True)
    assert asked(here, "tasks/list") == 1, "what is disproved is not tried again"


def test_a_proof_is_withdrawn_when_a_task_does_not_show_up(world):
    here = world()
    here.until(here.submit("quarterly_report", REPORT), State.WORKING)
    proved_at = server(here).lookup_proved_at
    Server.objects.filter(slug=here.slug).update(lookup_proved_at=proved_at - PROOF_AGE)
    _EmptyList(here.server)

    here.until(here.submit("quarterly_report", REPORT), State.WORKING)

    assert server(here).lookup_proved_at is None


def _quick(_arguments):
    yield Work(seconds=0)
    return Finish(text="done at once")


def test_n2_a_call_that_ran_at_once_although_a_task_was_wanted_is_accepted_and_no_list_believed(world):
    """A lost one of its kind would run on with no task to stand in a list."""
    here = world(Tool(name="quick", title="", description="", script=_quick, task_support="optional", input_schema={}))
    ledger.lookup_proved(here.slug, now=here.now())
    _ignore_task(here.server)

    operation = here.submit("quick")
    here.until(operation, State.ACCEPTED)

    assert Receipt.objects.get(operation_id=operation).task_id is None
    assert server(here).lookup_proved_at is None
    assert "ran at once" in server(here).lookup_disproved


def _ignore_task(tool_server):
    call = tool_server._call
    tool_server._call = lambda params, *rest: call({k: v for k, v in params.items() if k != "task"}, *rest)


def test_n2_a_tool_that_is_refused_as_a_task_is_refused_with_a_reason_and_pauses_nobody(world):
    """The server declares tasks, its tool list says optional, and the call says no."""
    here = world(
        Tool(name="quick", title="", description="", script=_quick, task_support="optional", input_schema={}),
        faults=(Fault(on="tools/call", kind=FaultKind.RPC_ERROR, code=-32601),),
    )

    operation = here.submit("quick")
    here.until(operation, State.REFUSED)

    receipt = Receipt.objects.get(operation_id=operation)
    assert (receipt.outcome, receipt.verdict) == ("REFUSED", Reason.NO_TASK_SUPPORT)
    assert server(here).paused_until is None


def test_n2_a_server_that_declares_no_list_is_not_asked_for_one(world):
    here = world(lists_tasks=False, faults=(Fault(on="tools/call", kind=FaultKind.ANSWER_LOST),))

    lost = here.submit("quarterly_report", REPORT)
    here.until(lost, State.UNKNOWN)

    assert asked(here, "tasks/list") == 0


@pytest.mark.parametrize("version, kept", [("1", True), ("2", False)])
def test_a_server_that_turns_out_to_be_another_has_proved_nothing(world, version, kept):
    here = world()
    ledger.lookup_proved(here.slug, now=here.now())
    told = Capabilities(
        server_name="simulator", server_version=version, creates_tasks=True, cancels_tasks=True, lists_tasks=True
    )

    ledger.save_negotiation(here.slug, Negotiation(capabilities=told, tools=()), now=here.now())

    assert (server(here).lookup_proved_at is not None) is kept


def test_a_new_negotiation_lets_a_disproved_list_be_tried_again(world):
    here = world()
    ledger.lookup_disproved(here.slug, why="a new task did not show up")
    told = Capabilities(
        server_name="simulator", server_version="1", creates_tasks=True, cancels_tasks=True, lists_tasks=True
    )

    ledger.save_negotiation(here.slug, Negotiation(capabilities=told, tools=()), now=here.now())
    here.until(here.submit("quarterly_report", REPORT), State.WORKING)

    assert server(here).lookup_proved_at is not None


def test_n2_a_call_that_ran_without_a_task_stands_in_no_list_so_its_absence_proves_nothing(world):
    """X2: a list that was proved for tasks is silent about a call under a synchronous limit."""
    inline = Tool(
        name="inline",
        title="",
        description="",
        script=_inline,
        task_support="forbidden",
        input_schema={"type": "object"},
    )
    here = world(inline, demo.QUARTERLY_REPORT, faults=(Fault(on="tools/call", kind=FaultKind.ANSWER_LOST, skip=1),))
    here.until(here.submit("quarterly_report", REPORT), State.WORKING)  # proves the list
    ledger.set_policy(here.slug, "inline", ledger.ToolPolicy(sync_limit_s=30))

    lost = here.submit("inline")
    row = here.until(lost, State.UNKNOWN, within_s=QUARANTINE_S * 4)
    here.idle(QUARANTINE_S * 2)

    assert row.reason == Reason.SUBMIT_LOST
    assert here.row(lost).state is State.UNKNOWN
    assert len(here.server.truth.created) == 2


def _inline(_arguments):
    yield Work(seconds=1)
    return Finish(text="done")


class TestLookupTool:
    """A tool of the server that takes our key: class B, once it was seen to know a call of ours."""

    @pytest.fixture(params=["2025-11-25", "2026-07-28"])
    def by_tool(self, worlds, request):
        def make(*tools, **knobs):
            scenario = Scenario(tools=tools or (demo.QUARTERLY_REPORT,), **({"lookup_tool": "find_call"} | knobs))
            profile = {"lookup": "lookup_tool", "lookup_tool": "find_call", "quarantine_s": QUARANTINE_S}
            serve = {"serve": _serve_modern} if request.param == "2026-07-28" else {}
            return worlds(scenario, version=request.param, **serve, **profile)

        return make

    def test_f1_a_lost_submit_is_found_by_its_key(self, by_tool):
        here = by_tool(faults=(Fault(on="tools/call", kind=FaultKind.ANSWER_LOST),))

        lost = here.submit("quarterly_report", REPORT)
        here.until(lost, State.ACCEPTED)

        assert len(here.server.truth.created) == 1
        assert Permit.objects.filter(operation_id=lost).count() == 1, "a lookup needs no leave: it makes nothing"

    def test_x2_what_never_arrived_is_proved_absent_once_the_tool_was_seen_to_know_a_call(self, by_tool):
        here = by_tool(faults=(Fault(on="tools/call", kind=FaultKind.REQUEST_LOST, skip=2),))
        here.until(here.submit("quarterly_report", REPORT), State.WORKING)
        assert server(here).lookup_proved_at is not None

        lost = here.submit("quarterly_report", REPORT)
        here.idle(QUARANTINE_S - 5)
        assert here.row(lost).state is State.SUBMISSION_UNKNOWN, "it may still be travelling"
        row = here.until(lost, State.NOT_FOUND_SAFE)

        assert row.reason == Reason.PROVED_ABSENT
        here.idle(300)
        assert here.row(lost).state is State.NOT_FOUND_SAFE, "class B: only a person resubmits"

    def test_l4_the_no_of_a_tool_that_was_never_seen_to_know_anything_proves_nothing(self, by_tool):
        here = by_tool(faults=(Fault(on="tools/call", kind=FaultKind.REQUEST_LOST),))

        lost = here.submit("quarterly_report", REPORT)
        row = here.until(lost, State.UNKNOWN)
        here.idle(900)

        assert (row.reason, here.row(lost).state) == (Reason.SUBMIT_LOST, State.UNKNOWN)

    def test_a_tool_that_does_not_know_what_was_just_answered_is_believed_no_more(self, by_tool):
        here = by_tool(lookup_tool_is_blind=True)

        here.until(here.submit("quarterly_report", REPORT), State.WORKING)

        assert (server(here).lookup_proved_at, "just answered" in server(here).lookup_disproved) == (None, True)

    def test_x1_a_known_key_whose_task_is_gone_goes_to_a_person_and_is_never_called_absent(self, by_tool):
        here = by_tool(faults=(Fault(on="tools/call", kind=FaultKind.ANSWER_LOST, skip=2),))
        here.until(here.submit("quarterly_report", REPORT), State.ACCEPTED)
        lost = here.submit("quarterly_report", REPORT)
        here.until(lost, State.SUBMISSION_UNKNOWN)
        here.server._tasks.clear()

        row = here.until(lost, State.UNKNOWN)
        here.idle(QUARANTINE_S * 4)

        assert row.reason == Reason.NOT_FOUND
        assert Operation.objects.get(id=lost).not_found == NotFound.UNKNOWN
        assert here.row(lost).state is State.UNKNOWN

    def test_x2_a_lookup_that_fails_is_asked_again_and_taken_for_nothing(self, by_tool):
        fails = Fault(on="tools/call", kind=FaultKind.RPC_ERROR, times=3)
        here = by_tool(faults=(Fault(on="tools/call", kind=FaultKind.ANSWER_LOST), fails))

        here.until(here.submit("quarterly_report", REPORT), State.ACCEPTED)

        assert len(here.server.truth.created) == 1


def _serve_modern(scenario, *, clock, chance):
    made = ModernToolServer(scenario, clock=clock, chance=chance)
    return made, ToolServersApp({"/mcp": made}), "/mcp"
