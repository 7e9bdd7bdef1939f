"""What a server's lookup is worth, and for how long (X2, N2)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from operations.machine import Reason, Standing, State
from operations.plan import Deed, Means, next_deed

SENT = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
LOST = Standing(
    id="1",
    version=3,
    state=State.SUBMISSION_UNKNOWN,
    epoch=1,
    cancel_generation=0,
    round=0,
    look=1,
    session="s",
    task_id=None,
    terminal_status=None,
    result_digest=None,
    sends=1,
    sends_disproved=0,
    cancel_intent=False,
    cancel_requested_at=None,
    cancel_sends=0,
    round_open=False,
    round_before_task=False,
    round_deadline_at=None,
    answer_delivery=None,
    reason=Reason.SUBMIT_LOST,
    protocol_status="",
    cancel_acked=False,
    cancel_stated=False,
    fetches=0,
    lost_at=SENT,
    budget_ends_at=SENT + timedelta(days=2),
    task_expires_at=None,
    first_sent_at=SENT,
)
LISTS = Means(can_look_up=True, replays=False, key_window=timedelta(0), listed=timedelta(hours=1))


@pytest.mark.parametrize(("state", "late"), [(State.SUBMISSION_UNKNOWN, Deed.NO_LOOKUP), (State.UNKNOWN, Deed.WAIT)])
def test_x2_a_list_that_has_forgotten_by_now_is_not_asked_for_a_proof(state, late):
    row = replace(LOST, state=state)

    assert next_deed(row, LISTS, now=SENT + timedelta(minutes=59)) is Deed.FIND
    assert next_deed(row, LISTS, now=SENT + timedelta(minutes=60)) is late


def test_x2_a_key_is_relied_on_for_most_of_its_window_only():
    means = Means(can_look_up=True, replays=True, key_window=timedelta(seconds=100))

    assert next_deed(LOST, means, now=SENT + timedelta(seconds=89)) is Deed.FIND
    assert next_deed(LOST, means, now=SENT + timedelta(seconds=90)) is Deed.NO_LOOKUP
