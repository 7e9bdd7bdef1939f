"""What an HTTP status on the way means for an operation: who may send again, and who must look first (L4, P5)."""

import pytest

from adapters.simulator import demo
from adapters.simulator.scenario import Fault, FaultKind, Scenario
from operations.machine import State
from operations.models import Journal, Permit, Receipt, Server

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def world(worlds):
    def make(*faults, **profile):
        scenario = Scenario(tools=(demo.QUARTERLY_REPORT,), faults=faults)
        return worlds(scenario, **profile)

    return make


def status(code, *, on, times=1):
    return Fault(on=on, kind=FaultKind.HTTP_STATUS, status=code, times=times)


def submitted(here):
    return here.submit("quarterly_report", b'{"quarter": "2026-Q3"}')


def permits(operation):
    return [permit.settlement for permit in Permit.objects.filter(operation_id=operation).order_by("given_at")]


def passed_through(operation, state):
    return Journal.objects.filter(operation_id=operation, target=state).exists()


@pytest.mark.parametrize("code", [408, 500, 502, 503, 504])
def test_b088_b091_a_submit_that_may_have_passed_the_gateway_is_never_sent_again(world, code):
    """Something in front answered; whether the server heard of it nobody knows."""
    here = world(status(code, on="tools/call"))

    operation = submitted(here)
    here.until(operation, State.UNKNOWN)
    here.idle(300)

    assert passed_through(operation, State.SUBMISSION_UNKNOWN)
    assert permits(operation) == ["lost"]
    assert here.server.truth.created == []


@pytest.mark.parametrize("code", [500, 502, 504])
def test_b091_a_submit_that_did_pass_is_found_in_its_session(world, code):
    """The task was made at the origin, and the answer was lost on the way back."""
    here = world(lookup="session_list")
    post = here.server.post

    def answered_by_a_gateway(message, headers):
        reply = post(message, headers)
        if message.get("method") != "tools/call":
            return reply
        return type(reply)(status=code)

    here.server.post = answered_by_a_gateway

    operation = submitted(here)
    here.until(operation, State.ACCEPTED)

    assert passed_through(operation, State.SUBMISSION_UNKNOWN)
    assert len(here.server.truth.created) == 1
    assert Receipt.objects.get(operation_id=operation).outcome == "SUCCESS"


@pytest.mark.parametrize("code", [425, 429])
def test_b088_b089_a_submit_that_was_put_off_is_sent_again_under_the_same_key(world, code):
    here = world(status(code, on="tools/call"))

    operation = submitted(here)
    here.until(operation, State.ACCEPTED)

    assert permits(operation) == ["not_sent", "answered"]
    assert len({made.submission_key for made in here.server.truth.created}) == 1


@pytest.mark.parametrize("code", [401, 403])
def test_b084_p5_a_credential_that_ends_while_the_task_runs_stops_the_looks_and_no_operation(world, code):
    here = world(status(code, on="tasks/get", times=2))

    operation = submitted(here)
    here.until(operation, State.WORKING)
    here.idle(20)
    looks = [arrival.at for arrival in here.server.truth.arrivals if arrival.method == "tasks/get"]
    server = Server.objects.get(slug=here.slug)

    assert here.row(operation).state is State.WORKING
    assert len(looks) == 1, "the server was asked on with a credential that it refuses"
    assert str(code) in server.pause_reason
    here.until(operation, State.ACCEPTED)
