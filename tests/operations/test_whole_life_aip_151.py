"""Whole lives of operations at an AIP-151 server: real ledger, real driver, real adapter, virtual time."""

import json
import uuid
from dataclasses import replace

import pytest

from adapters.simulator import demo
from adapters.simulator.aip151 import OperationsServer
from adapters.simulator.aip151_face import OperationsApp
from adapters.simulator.aip151_scenario import CancelStyle, Fault, FaultKind, Scenario
from operations import ledger
from operations.machine import Reason, State
from operations.models import Receipt

pytestmark = pytest.mark.django_db(transaction=True)

TOOL = "projects/p/locations/l/reports:generate"
REPORT = replace(demo.QUARTERLY_REPORT, name=TOOL)
ARGUMENTS = b'{"quarter": "2026-Q3"}'
MANY = 1_000_000


def _serve(scenario, *, clock, chance):
    server = OperationsServer(scenario, clock=clock, chance=chance)
    return server, OperationsApp({"/reports/v1": server}), "/reports/v1"


@pytest.fixture
def world(worlds):
    def make(*faults, lookup="none", key_window_s=0, server_window_s=3600, **character):
        scenario = Scenario(tools=(REPORT,), faults=faults, key_window_s=server_window_s, **character)
        profile = {"lookup": lookup, "key_window_s": key_window_s, "quarantine_s": 60}
        return worlds(scenario, version="aip-151", serve=_serve, **profile)

    return make


def press(here, operation):
    return ledger.request_cancel(operation, seen_generation=0, by="person:olga", reason="wrong", now=here.now())


def submitted(here):
    return here.submit(TOOL, ARGUMENTS, key=str(uuid.uuid4()), budget_s=300)


def test_a_report_runs_to_one_receipt_that_keeps_the_servers_bytes(world):
    """R2, R3: the response is held against the schema of its descriptor, type included."""
    here = world()

    operation = submitted(here)
    here.until(operation, State.ACCEPTED)

    receipt = Receipt.objects.get(operation_id=operation)
    assert receipt.outcome == "SUCCESS"
    assert json.loads(bytes(receipt.result))["value"]["quarter"] == "2026-Q3"
    assert len(here.server.truth.created) == 1


@pytest.mark.parametrize("lookup", ["same_key_replay", "list_by_key"])
def test_f1_a_lost_answer_is_found_and_there_is_one_operation(world, lookup):
    """L4, A5."""
    here = world(Fault(on="submit", kind=FaultKind.ANSWER_LOST), lookup=lookup, key_window_s=3600)

    operation = submitted(here)
    here.until(operation, State.ACCEPTED)

    assert len(here.server.truth.created) == 1
    assert Receipt.objects.get(operation_id=operation).outcome == "SUCCESS"


def test_x2_outside_its_window_a_key_is_never_sent_again(world):
    """The server would take it for a new request."""
    here = world(
        Fault(on="submit", kind=FaultKind.ANSWER_LOST, times=MANY),
        lookup="same_key_replay",
        key_window_s=20,
        server_window_s=20,
    )

    operation = submitted(here)
    row = here.until(operation, State.UNKNOWN)
    here.idle(600)

    assert row.reason == Reason.SUBMIT_LOST
    assert len(here.server.truth.created) == 1
    assert not Receipt.objects.exists()


def test_c5_a_cancel_wins_on_code_1_alone(world):
    here = world(cancel_after_s=5)
    operation = submitted(here)
    here.until(operation, State.WORKING)

    press(here, operation)
    here.until(operation, State.CANCELLED_ACCEPTED, within_s=60)

    assert Receipt.objects.get(operation_id=operation).outcome == "CANCELLED"
    assert here.server.truth.cancels[0].won


def test_c11_a_completion_after_an_ignored_cancel_is_accepted(world):
    here = world(cancel=CancelStyle.IGNORES)
    operation = submitted(here)
    here.until(operation, State.WORKING)

    press(here, operation)
    here.until(operation, State.ACCEPTED)

    assert Receipt.objects.get(operation_id=operation).outcome == "SUCCESS"


@pytest.mark.parametrize(
    "body",
    [
        '{"name":"NAME","done":true}',
        '{"name":"NAME","done":true,"error":{"code":13},"response":{"@type":"t/R"}}',
        '{"id":"/x","name":"NAME","status":"Succeeded"}',
    ],
    ids=["B125", "B127", "N3"],
)
def test_what_proves_nothing_goes_to_a_person_and_never_to_the_call_node(world, body):
    here = world(Fault(on="get", kind=FaultKind.REPLACED, body=body, times=MANY))

    operation = submitted(here)
    row = here.until(operation, State.UNKNOWN, within_s=900)

    assert row.reason == Reason.BUDGET_ENDED
    assert not Receipt.objects.exists()


def test_b136_a_response_of_another_type_never_advances(world):
    body = '{"name":"NAME","done":true,"response":{"@type":"type.example/Other","value":{}}}'
    here = world(Fault(on="get", kind=FaultKind.REPLACED, body=body, times=MANY))

    operation = submitted(here)
    row = here.until(operation, State.UNKNOWN)

    assert row.reason == Reason.RESULT_INVALID
    assert not Receipt.objects.exists()


def test_b132_a_404_is_neither_success_nor_failure(world):
    """X1."""
    here = world(Fault(on="get", kind=FaultKind.API_ERROR, code=5, times=MANY))

    operation = submitted(here)
    here.until(operation, State.UNKNOWN)

    assert not Receipt.objects.exists()


def test_f10_a_busy_server_delays_and_ends_nothing(world):
    """P1."""
    busy = (Fault(on="get", kind=FaultKind.API_ERROR, code=code, retry_after="3", times=2) for code in (8, 14))
    here = world(*busy)

    operation = submitted(here)
    here.until(operation, State.ACCEPTED)

    assert Receipt.objects.get(operation_id=operation).outcome == "SUCCESS"


def test_b142_an_operation_that_is_never_done_stands_before_a_person_when_its_budget_ends(world):
    """P5: each look succeeds, and says that the work goes on."""
    here = world(speed=0.001)

    operation = submitted(here)
    row = here.until(operation, State.UNKNOWN, within_s=310)

    assert row.reason == Reason.BUDGET_ENDED
    assert not Receipt.objects.filter(operation_id=operation).exists()


def test_the_demos_archive_loses_its_answer_and_is_found_by_our_key(worlds):
    """F1, L4, A5: class A. Nobody is asked, and nothing is archived twice."""

    def serve(_scenario, *, clock, chance):
        (path, server), *_ = demo.operations(speed=1, clock=clock, chance=chance).items()
        return server, OperationsApp({path: server}), path

    profile = {"lookup": "same_key_replay", "key_window_s": 3600}
    here = worlds(Scenario(tools=()), version="aip-151", serve=serve, **profile)

    operation = here.submit(demo.YEAR_ARCHIVE.name, b'{"year": 2019}', key=str(uuid.uuid4()), budget_s=600)
    here.until(operation, State.SUBMISSION_UNKNOWN)
    here.until(operation, State.ACCEPTED)

    assert Receipt.objects.get(operation_id=operation).outcome == "SUCCESS"
    assert [done.name for done in here.server.truth.effects] == ["2019 archived"]
