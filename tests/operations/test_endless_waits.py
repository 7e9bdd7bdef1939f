"""Nothing is tried for ever: what cannot be fetched or proved any more comes before a person (R2, X2, A6)."""

import pytest

from adapters.simulator import demo
from adapters.simulator.scenario import Fault, FaultKind, Scenario
from operations import ledger
from operations.machine import Reason, State

pytestmark = pytest.mark.django_db(transaction=True)

REPORT = b'{"quarter": "2026-Q3"}'


def test_a_result_whose_session_never_opens_again_comes_before_a_person(worlds):
    """The tries to open it count as tries to fetch."""
    gone = Fault(on="tasks/result", kind=FaultKind.SESSION_LOST)
    shut = Fault(on="initialize", kind=FaultKind.HTTP_STATUS, status=503, skip=2, times=10_000)
    here = worlds(Scenario(tools=(demo.QUARTERLY_REPORT,), faults=(gone, shut), speed=100.0))

    row = here.until(here.submit("quarterly_report", REPORT, budget_s=3600), State.UNKNOWN, within_s=3000)

    assert row.reason == Reason.RESULT_LOST


@pytest.mark.parametrize("failures", [7, 8])
def test_a_list_that_may_have_forgotten_the_task_proves_nothing(worlds, failures):
    """The task was made and has expired by the time at which the list can be read (X2)."""
    faults = (
        Fault(on="tools/call", kind=FaultKind.ANSWER_LOST, skip=1),
        Fault(on="tasks/list", kind=FaultKind.HTTP_STATUS, status=503, skip=1, times=failures),
    )
    scenario = Scenario(tools=(demo.QUARTERLY_REPORT,), faults=faults)
    here = worlds(scenario, lookup="session_list", quarantine_s=30, task_ttl_s=60)
    here.until(here.submit("quarterly_report", REPORT), State.WORKING)  # the list was seen to speak

    lost = here.submit("quarterly_report", REPORT)
    row = here.until(lost, State.UNKNOWN, State.NOT_FOUND_SAFE, within_s=900)
    here.idle(900)

    assert row.state is State.UNKNOWN
    assert here.row(lost).state is State.UNKNOWN
    assert ledger.read([lost])[lost].sends_disproved == 0
