"""GET /metrics"""

import logging
import re

import pytest

from console.api import metrics
from console.logs import Line
from operations import ledger, watch
from operations.queries import gates
from tests.console import factories as make

pytestmark = pytest.mark.django_db
LINE = re.compile(r'^[a-z_]+(\{([a-z]+="[^"]*",?)+\})? [0-9.e+-]+$')


@pytest.fixture
def told(client, settings):
    """What the page tells somebody with the token, by line."""
    settings.METRICS_TOKEN = "scrape"

    def ask():
        answer = client.get("/metrics", headers={"Authorization": "Bearer scrape"})
        assert answer.status_code == 200
        return answer.content.decode().splitlines()

    return ask


def test_open_operations_limits_and_gates_are_told(told):
    make.server()
    make.working()
    make.asking()

    lines = told()

    assert 'longcall_operations_open{protocol="2025-11-25",state="WORKING"} 1' in lines
    assert 'longcall_operations_open{protocol="2025-11-25",state="INPUT_REQUIRED"} 1' in lines
    assert 'longcall_server_qps_limit{server="shop"} 1000' in lines
    assert 'longcall_gate_holds{gate="G1"} 1' in lines
    assert "longcall_waiting_rounds 1" in lines


def test_every_line_is_one_that_prometheus_reads(told):
    make.server()
    make.working()

    lines = told()

    samples = [line for line in lines if not line.startswith("#")]
    assert samples
    assert [line for line in samples if not LINE.match(line)] == []
    assert {line.split()[2] for line in lines if line.startswith("# TYPE")} == set(metrics.HELP)


def test_a_large_counter_keeps_its_digits():
    assert metrics._line(metrics.Sample("longcall_epoch", 123_456_789)) == "longcall_epoch 123456789"


@pytest.mark.parametrize("token, sent", [("", "Bearer "), ("", ""), ("scrape", ""), ("scrape", "Bearer other")])
def test_without_the_token_there_is_no_such_page(client, settings, token, sent):
    settings.METRICS_TOKEN = token

    assert client.get("/metrics", headers={"Authorization": sent}).status_code == 404


@pytest.mark.django_db(transaction=True)
def test_the_newest_check_is_told_with_its_age(told):
    from django.utils import timezone

    watch.watch(clock=timezone.now)

    lines = told()

    assert gates.last_check() is not None
    assert "longcall_ledger_check_breaches 0" in lines
    assert any(line.startswith("longcall_ledger_check_age_seconds ") for line in lines)


def test_each_step_is_one_line_with_operation_epoch_event_and_milliseconds(caplog):
    make.server()
    with caplog.at_level(logging.INFO, logger="operations.ledger.step"):
        operation = make.working()

    steps = [record for record in caplog.records if record.getMessage() == "step"]
    last = Line("{message}", style="{").format(steps[-1])
    assert {record.operation for record in steps} == {operation}
    assert re.fullmatch(
        rf"step operation={operation} epoch=1 event=\S*TASK_NAMED\S* source=SUBMITTING target=WORKING ms=[0-9.]+", last
    )


def test_a_value_with_blanks_stays_one_value():
    record = logging.makeLogRecord({"msg": "refused", "why": 'no "permit"', "n": 1, "empty": ""})

    assert Line("{message}", style="{").format(record) == r'refused why="no \"permit\"" n=1 empty=""'


def test_a_refused_step_is_one_line_too(caplog):
    make.server()
    operation = make.working()
    with caplog.at_level(logging.INFO, logger="operations.ledger.step"), pytest.raises(ledger.PermitDenied):
        ledger.close_unsent(operation, ticket=make.ticket_of(operation), now=make.timezone.now())

    *_, step = [record for record in caplog.records if record.getMessage() == "step"]
    assert (step.event, step.source, step.target) == ("PermitDenied", "WORKING", "WORKING")
