"""What the ledger says while a server cannot be asked, and after it (P5, I7, X1, R2)."""

import contextlib
import uuid

import pytest

from adapters.contract import TooLarge
from adapters.http import HttpWire
from adapters.simulator import demo
from adapters.simulator.scenario import Fault, FaultKind, Scenario
from operations import ledger
from operations.machine import Delivery, NotFound, Reason, State
from operations.models import Due, Journal, Operation, Permit

pytestmark = pytest.mark.django_db(transaction=True)
QUARTER = b'{"quarter": "2026-Q3"}'


@pytest.fixture
def world(worlds):
    def make(*tools, **knobs):
        return worlds(Scenario(tools=tools, **knobs))

    return make


def test_an_outage_is_told_with_its_cause_since_its_first_miss_until_the_server_answers(world):
    here = world(demo.QUARTERLY_REPORT, faults=(Fault(on="tasks/get", kind=FaultKind.REQUEST_LOST, skip=1, times=3),))
    operation = here.submit("quarterly_report", QUARTER)
    here.until(operation, State.WORKING)

    told = []
    for _ in range(60):
        here.idle(0.5)
        told.append(
            Due.objects.filter(operation_id=operation).values_list("misses", "trouble_since", "trouble").first()
        )

    troubled = [row for row in told if row and row[1] is not None]
    assert max(row[0] for row in troubled) >= 2
    assert len({row[1] for row in troubled}) == 1
    assert all(row[2] for row in troubled)
    here.until(operation, State.ACCEPTED)


def test_a_submit_that_cannot_leave_says_why(world):
    here = world(demo.QUARTERLY_REPORT, faults=(Fault(on="initialize", kind=FaultKind.REQUEST_LOST, skip=1, times=50),))

    operation = here.submit("quarterly_report", QUARTER)
    here.idle(5)

    assert here.row(operation).state is State.SUBMITTING
    assert Due.objects.get(operation_id=operation).trouble


def test_x4_each_look_at_what_stands_before_a_person_leaves_a_trace(world):
    gone = Fault(on="tasks/get", kind=FaultKind.RPC_ERROR, code=-32602, skip=1, times=50)
    here = world(demo.QUARTERLY_REPORT, faults=(gone,))
    operation = here.submit("quarterly_report", QUARTER)
    here.until(operation, State.UNKNOWN)

    ledger.look_now(operation, by="person:olga", now=here.now())
    here.idle(2)

    noted = Journal.objects.filter(operation_id=operation).order_by("id").values_list("event", "detail")
    assert list(noted)[-1] == ("LOOKED", {"status": "still not found"})


def test_i7_an_answer_whose_sender_is_gone_is_in_doubt_and_never_sent_again(world):
    here = world(demo.BULK_PRICE_CHANGE)
    operation = here.submit("bulk_price_change", b'{"percent": 5}')
    row = here.until(operation, State.INPUT_REQUIRED)
    here.answer(operation, '{"category": "garden", "max_products": 400}')
    [work] = ledger.claim(limit=1, now=here.now())
    ledger.permit_answer(operation, permit=uuid.uuid4(), ticket=work.ticket, now=here.now())

    here.idle(60)  # the lease ends, another worker comes

    assert here.row(operation).answer_delivery is Delivery.UNCERTAIN
    assert Permit.objects.filter(operation_id=operation, kind="ANSWER").count() == 1
    assert row.round == 1


def test_x1_not_found_after_the_receipt_is_classified_and_changes_nothing(world):
    here = world(demo.LOG_ANALYSIS)
    operation = here.submit("log_analysis")
    here.until(operation, State.WORKING)
    ledger.request_cancel(operation, seen_generation=0, by="person:olga", reason="wrong", now=here.now())
    here.until(operation, State.CANCELLED_ACCEPTED, within_s=30)
    here.server._tasks.clear()

    here.idle(20)

    assert Operation.objects.get(id=operation).not_found == NotFound.EXPIRED_WITH_RECEIPT


def test_b062_a_result_over_the_cap_is_fetched_once_and_goes_to_a_person(world, monkeypatch):
    here = world(demo.QUARTERLY_REPORT)
    operation = here.submit("quarterly_report", QUARTER)
    here.until(operation, State.WORKING)
    monkeypatch.setattr("adapters.http.HttpWire.stream", _too_large())

    row = here.until(operation, State.UNKNOWN, within_s=200)
    here.idle(3600)

    assert row.reason == Reason.RESULT_INVALID
    assert here.row(operation).fetches == 1


def _too_large():
    real = HttpWire.stream

    @contextlib.asynccontextmanager
    async def stream(self, request):
        if request.label == "tasks/result":
            raise TooLarge("the answer is over 8000000 bytes")
        async with real(self, request) as answer:
            yield answer

    return stream
