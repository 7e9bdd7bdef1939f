"""Whole lives of operations: real ledger, real driver, real adapter, simulated server, virtual time."""

import json

import pytest

from adapters.simulator import demo
from adapters.simulator.scenario import Fault, FaultKind, Scenario
from adapters.simulator.scripts import Ask, Finish, Tool
from operations import ledger
from operations.machine import Reason, State
from operations.models import EffectRecord, Journal, Outbox, Permit, Receipt, Round

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def world(worlds):
    def make(*tools, **knobs):
        profile = {name: knobs.pop(name) for name in ("lookup", "quarantine_s", "max_qps") if name in knobs}
        return worlds(Scenario(tools=tools, **knobs), **profile)

    return make


def test_a_report_runs_to_one_receipt_and_one_outbox_row(world):
    here = world(demo.QUARTERLY_REPORT)

    operation = here.submit("quarterly_report", b'{"quarter": "2026-Q3"}')
    row = here.until(operation, State.ACCEPTED)

    receipt = Receipt.objects.get(operation_id=operation)
    assert receipt.outcome == "SUCCESS"
    assert json.loads(bytes(receipt.result))["structuredContent"]["quarter"] == "2026-Q3"
    assert Outbox.objects.get(receipt=receipt).client == "tests"
    assert len(here.server.truth.created) == 1
    assert row.sends == 1


def test_a_bulk_change_asks_twice_and_uses_both_answers(world):
    here = world(demo.BULK_PRICE_CHANGE)

    operation = here.submit("bulk_price_change", b'{"percent": 5}')
    here.until(operation, State.INPUT_REQUIRED)
    here.answer(operation, '{"category": "garden", "max_products": 400}')
    here.idle(25)
    row = here.until(operation, State.INPUT_REQUIRED)
    assert row.round == 2
    here.answer(operation, '{"confirm": true}')
    here.until(operation, State.ACCEPTED)

    assert [done.name for done in here.server.truth.effects] == ["400 prices changed"]
    assert Receipt.objects.get(operation_id=operation).outcome == "SUCCESS"


def test_c2_a_cancel_while_working_wins_and_leaves_an_effect_record(world):
    here = world(demo.LOG_ANALYSIS)
    operation = here.submit("log_analysis", b"{}")
    here.until(operation, State.WORKING)

    pressed = ledger.request_cancel(operation, seen_generation=0, by="person:olga", reason="wrong days", now=here.now())
    here.until(operation, State.CANCELLED_ACCEPTED, within_s=30)
    here.idle(30)

    assert pressed.press is ledger.Press.REQUESTED
    assert Receipt.objects.get(operation_id=operation).outcome == "CANCELLED"
    assert EffectRecord.objects.get(operation_id=operation).status == "OPEN"
    assert Journal.objects.filter(operation_id=operation, event="AUDIT_LOOK").count() == 1


def test_l4_a_lost_first_answer_ends_with_a_person_and_never_with_a_second_task(world):
    here = world(demo.FLAKY_EXPORT, faults=(Fault(on="tools/call", kind=FaultKind.ANSWER_LOST),))

    operation = here.submit("flaky_export", b"{}")
    row = here.until(operation, State.UNKNOWN, within_s=60)
    here.idle(600)

    assert row.reason == Reason.SUBMIT_LOST
    assert len(here.server.truth.created) == 1
    assert Permit.objects.filter(operation_id=operation, kind="SUBMIT").count() == 1
    assert not Receipt.objects.exists()


def test_l4_a_lost_first_answer_is_found_where_the_session_lists_its_tasks(world):
    here = world(
        demo.FLAKY_EXPORT,
        faults=(Fault(on="tools/call", kind=FaultKind.ANSWER_LOST),),
        lookup="session_list",
    )

    operation = here.submit("flaky_export", b"{}")
    here.until(operation, State.ACCEPTED)

    assert len(here.server.truth.created) == 1


def test_f10_a_server_that_answers_429_and_503_is_waited_for(world):
    faults = (
        Fault(on="tasks/get", kind=FaultKind.HTTP_STATUS, status=429, retry_after="3", times=2),
        Fault(on="tasks/get", kind=FaultKind.HTTP_STATUS, status=503, skip=3, times=2),
    )
    here = world(demo.QUARTERLY_REPORT, faults=faults)

    operation = here.submit("quarterly_report", b'{"quarter": "2026-Q3"}')
    here.until(operation, State.ACCEPTED)

    assert Receipt.objects.count() == 1


def test_f6_a_result_that_is_cut_off_is_fetched_again(world):
    here = world(demo.QUARTERLY_REPORT, faults=(Fault(on="tasks/result", kind=FaultKind.ANSWER_TRUNCATED, times=2),))

    operation = here.submit("quarterly_report", b'{"quarter": "2026-Q3"}')
    row = here.until(operation, State.ACCEPTED)

    assert row.fetches == 3
    assert Receipt.objects.get().outcome == "SUCCESS"


def test_p5_a_budget_that_runs_out_goes_to_a_person_and_a_late_end_is_still_accepted(world):
    here = world(demo.QUARTERLY_REPORT)

    operation = here.submit("quarterly_report", b'{"quarter": "2026-Q3"}', budget_s=10)
    row = here.until(operation, State.UNKNOWN, within_s=30)
    assert row.reason == Reason.BUDGET_ENDED
    here.until(operation, State.ACCEPTED, within_s=900)

    assert Receipt.objects.get().outcome == "SUCCESS"


@pytest.mark.parametrize("workers", [1, 2])
def test_p2_no_second_sees_more_requests_than_the_limit(world, workers):
    """The limit holds over all workers together, and most of it is used while there is work."""
    here = world(demo.QUARTERLY_REPORT, max_qps=3, poll_ms=200)
    here.idle(2)
    operations = [here.submit("quarterly_report", b'{"quarter": "2026-Q3"}') for _ in range(6)]

    here.together(workers, 120)

    assert {here.row(operation).state for operation in operations} == {State.ACCEPTED}
    times = sorted(arrival.at for arrival in here.server.truth.arrivals if arrival.at > 1)
    assert max(sum(at <= other < at + 1 for other in times) for at in times) <= 3
    busy = [at for at in times if at < times[0] + 30]
    assert len(busy) / 30 >= 0.8 * 3


def _asks_at_once(_arguments):
    answer = yield Ask(message="Sure?", schema={"type": "object", "properties": {}})
    return Finish(text=f"told to {answer.action}", is_error=answer.action == "error")


def test_n2_a_call_that_runs_at_once_and_asks_has_an_end_that_is_known(world):
    """I3, I5: nobody can be asked in it, and nobody is; its server hears so and does not wait for the deadline."""
    tool = Tool(name="asks", title="", description="", script=_asks_at_once, input_schema={}, task_support="forbidden")
    here = world(tool)
    here.run(here.step(ledger.set_policy, here.slug, "asks", ledger.ToolPolicy(sync_limit_s=20)))

    operation = here.submit("asks")
    here.until(operation, State.ACCEPTED, within_s=10)

    assert Receipt.objects.get().outcome == "TOOL_ERROR"
    assert not Round.objects.filter(operation_id=operation).exists()


def test_n2_a_tool_without_task_support_is_refused_before_a_byte_of_it_is_sent(world):
    here = world(demo.QUARTERLY_REPORT, declares_tasks=False)

    operation = here.submit("quarterly_report", b'{"quarter": "2026-Q3"}')
    here.until(operation, State.REFUSED, within_s=30)

    assert Receipt.objects.get().verdict == Reason.NO_TASK_SUPPORT
    assert here.server.truth.created == []
