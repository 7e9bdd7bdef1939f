"""Whole lives under MCP 2026-07-28: cooperative cancel, several questions, questions before there is a task."""

import pytest

from adapters.simulator import demo
from adapters.simulator.face import ToolServersApp
from adapters.simulator.modern import ModernToolServer
from adapters.simulator.scenario import CancelStyle, Fault, FaultKind, Scenario
from adapters.simulator.scripts import Ask, Effect, Finish, Tool, Work
from operations import ledger
from operations.machine import Reason, State
from operations.models import Answer, EffectRecord, Journal, Permit, Receipt

FORM = {"type": "object", "properties": {"go": {"type": "boolean"}}, "required": ["go"]}


def _asks_first(_arguments):
    yield Ask(message="Which?", schema=FORM)
    yield Ask(message="Sure?", schema=FORM)
    yield Work(seconds=5)
    yield Effect(name="done")
    return Finish(text="done")


ASKS_FIRST = Tool(name="asks_first", title="", description="", script=_asks_first, input_schema={"type": "object"})

pytestmark = pytest.mark.django_db(transaction=True)


def _serve(scenario, *, clock, chance):
    server = ModernToolServer(scenario, clock=clock, chance=chance)
    return server, ToolServersApp({"/mcp": server}), "/mcp"


@pytest.fixture
def world(worlds):
    def make(*tools, **knobs):
        return worlds(Scenario(tools=tools, **knobs), version="2026-07-28", serve=_serve)

    return make


def answered_twice(here):
    operation = here.submit("asks_first")
    for _ in range(2):
        here.until(operation, State.INPUT_REQUIRED)
        here.answer(operation, '{"go": true}')
        here.idle(5)
    return operation


def test_a_report_ends_with_the_result_that_its_last_look_carried(world):
    here = world(demo.QUARTERLY_REPORT)

    operation = here.submit("quarterly_report", b'{"quarter": "2026-Q3"}')
    row = here.until(operation, State.ACCEPTED)

    assert Receipt.objects.get(operation_id=operation).outcome == "SUCCESS"
    assert row.session is None


def test_two_rounds_of_a_task(world):
    here = world(ASKS_FIRST)

    operation = answered_twice(here)
    here.until(operation, State.ACCEPTED)

    assert [done.name for done in here.server.truth.effects] == ["done"]


def test_questions_before_a_task_go_on_under_the_same_key_with_a_permit_each(world):
    """L5, I7: INPUT_REQUIRED before a task, CONTINUE, and the answers counted as used."""
    here = world(ASKS_FIRST, asks_before_task=True)

    operation = answered_twice(here)
    row = here.until(operation, State.ACCEPTED)

    assert [done.name for done in here.server.truth.effects] == ["done"]
    assert set(Answer.objects.filter(round__operation_id=operation).values_list("delivery", flat=True)) == {"USED"}
    events = Journal.objects.filter(operation_id=operation, kind="STEP").values_list("event", flat=True)
    assert list(events).count("CONTINUE") == 2
    assert row.sends == Permit.objects.filter(operation_id=operation, kind="SUBMIT").count() == 3


def test_c9_a_cancel_between_two_attempts_sends_nothing_and_opens_an_effect_record(world):
    """The tool ran up to its question, so nobody may say that nothing happened (C6)."""
    here = world(ASKS_FIRST, asks_before_task=True)
    operation = here.submit("asks_first")
    here.until(operation, State.INPUT_REQUIRED)

    pressed = ledger.request_cancel(operation, seen_generation=0, by="person:olga", reason="no", now=here.now())
    here.idle(30)

    assert pressed.press is ledger.Press.CLOSED_UNSENT
    assert Receipt.objects.get(operation_id=operation).outcome == "CANCELLED"
    assert EffectRecord.objects.filter(operation_id=operation).exists()
    assert here.server.truth.effects == []


def test_l4_a_continuation_whose_answer_is_lost_goes_to_a_person_and_is_never_sent_again(world):
    lost = Fault(on="tools/call", kind=FaultKind.ANSWER_LOST, skip=1)
    here = world(ASKS_FIRST, asks_before_task=True, faults=(lost,))
    operation = here.submit("asks_first")
    here.until(operation, State.INPUT_REQUIRED)

    here.answer(operation, '{"go": true}')
    row = here.until(operation, State.UNKNOWN, within_s=60)
    here.idle(120)

    assert row.reason == Reason.SUBMIT_LOST
    assert Answer.objects.get(round__operation_id=operation).delivery == "UNCERTAIN"
    assert Permit.objects.filter(operation_id=operation, kind="SUBMIT").count() == 2


@pytest.mark.parametrize(
    ("style", "outcome"),
    [
        pytest.param(CancelStyle.LATE, "CANCELLED", id="late"),
        pytest.param(CancelStyle.IGNORES, "SUCCESS", id="ignored"),
    ],
)
def test_c5_an_acknowledged_cancel_is_no_evidence(world, style, outcome):
    here = world(demo.LOG_ANALYSIS, cancel=style)
    operation = here.submit("log_analysis", b"{}")
    here.until(operation, State.WORKING)

    ledger.request_cancel(operation, seen_generation=0, by="person:olga", reason="wrong", now=here.now())
    here.until(operation, State.CANCELLED_ACCEPTED, State.ACCEPTED, within_s=1200)

    assert Receipt.objects.get(operation_id=operation).outcome == outcome


def test_the_demos_import_asks_two_things_at_once(world):
    """I4: one round, one page, two answers."""
    here = world(demo.CUSTOMER_IMPORT)

    operation = here.submit("customer_import")
    row = here.until(operation, State.INPUT_REQUIRED)
    here.answer(operation, '{"list": "trial", "update": true}')
    here.until(operation, State.ACCEPTED)

    assert row.round == 1
    assert b'"updated": 18' in bytes(Receipt.objects.get(operation_id=operation).result)
    assert [done.name for done in here.server.truth.effects] == ["1222 customers written"]


def _answered_under(here):
    operation = here.submit("asks_first")
    here.until(operation, State.INPUT_REQUIRED)
    here.answer(operation, '{"go": true}')
    return operation


def _leaves(operation, number=1):
    return Permit.objects.filter(operation_id=operation, kind="ANSWER", round=number).count()


def test_i7_an_answer_that_never_arrived_is_sent_again_and_used(world):
    """The keys of a task are its own here, so the identical answer does no harm; nobody is asked twice."""
    here = world(ASKS_FIRST, faults=(Fault(on="tasks/update", kind=FaultKind.REQUEST_LOST, times=2),))

    operation = _answered_under(here)
    here.idle(60)

    assert _leaves(operation) == 3
    assert [one.used for one in here.server.truth.answers] == [True]
    assert Answer.objects.get(round__operation_id=operation).delivery == "USED"
    assert here.row(operation).round == 2, "the tool asks for something else next"


def test_i7_an_answer_that_arrived_is_not_sent_again_although_nobody_said_so(world):
    here = world(ASKS_FIRST, faults=(Fault(on="tasks/update", kind=FaultKind.ANSWER_LOST),))

    operation = _answered_under(here)
    here.idle(60)

    assert (_leaves(operation), here.row(operation).round) == (1, 2)


def test_i7_it_is_not_repeated_without_end(world):
    here = world(ASKS_FIRST, faults=(Fault(on="tasks/update", kind=FaultKind.REQUEST_LOST, times=10_000),))

    operation = _answered_under(here)
    here.idle(900)

    assert here.row(operation).state is State.INPUT_REQUIRED
    assert _leaves(operation) == ledger.MOST_REPEATS


def test_c11_after_a_press_it_is_repeated_no_more(world):
    here = world(ASKS_FIRST, faults=(Fault(on="tasks/update", kind=FaultKind.REQUEST_LOST, times=10_000),))
    operation = _answered_under(here)
    here.idle(3)
    before = _leaves(operation)

    ledger.request_cancel(operation, seen_generation=0, by="person:olga", reason="no", now=here.now())
    here.until(operation, State.CANCELLED_ACCEPTED, within_s=120)

    assert _leaves(operation) == before
    assert EffectRecord.objects.get(operation_id=operation).facts[0]["what"] == "answer out"


def test_b022_a_task_that_is_completed_without_its_result_goes_to_a_person_and_never_succeeds(world):
    bare = Fault(on="tasks/get", kind=FaultKind.STATUS_WORD, word="completed", times=10_000)
    here = world(demo.QUARTERLY_REPORT, faults=(bare,), speed=0.001)

    operation = here.submit("quarterly_report", b'{"quarter": "2026-Q3"}', budget_s=60)
    row = here.until(operation, State.UNKNOWN, within_s=90)
    here.idle(600)

    looks = [one for one in here.server.truth.arrivals if one.method == "tasks/get"]
    assert row.reason == Reason.BUDGET_ENDED
    assert len(looks) <= 20
    assert not Receipt.objects.filter(operation_id=operation).exists()
