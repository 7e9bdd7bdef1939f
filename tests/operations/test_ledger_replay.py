"""A lookup that sends the submit's bytes once more needs leave like a submit (L4, O5, C9, class A)."""

import uuid
from dataclasses import replace

import pytest

from adapters.simulator import demo
from adapters.simulator.aip151 import OperationsServer
from adapters.simulator.aip151_face import OperationsApp
from adapters.simulator.aip151_scenario import Fault, FaultKind, Scenario
from operations import ledger
from operations.machine import Reason, StaleStep, State
from operations.models import Permit
from tests.operations.room import breaches

TOOL = "projects/p/locations/l/reports:generate"
REPORT = replace(demo.QUARTERLY_REPORT, name=TOOL)


def leave(room, operation):
    permit = uuid.uuid4()
    room.step(ledger.permit_replay, operation, permit=permit)
    return permit


def fails(room, operation, permit, settlement, **named):
    room.step(
        ledger.replay_failed,
        operation,
        **({"permit": permit, "settlement": settlement, "why": "", "misses": 1, "next_at": room.later()} | named),
    )


def original(room, operation):
    return next(one.id for one in room.permits(operation) if one.kind == "SUBMIT")


class TestLeave:
    def test_it_is_committed_and_counted_by_itself(self, room):
        operation = room.at(State.SUBMISSION_UNKNOWN)

        leave(room, operation)

        row = room.row(operation)
        assert (row.sends, row.replays, row.state) == (1, 1, State.SUBMISSION_UNKNOWN)
        assert sorted(one.kind for one in room.permits(operation)) == ["REPLAY", "SUBMIT"]

    @pytest.mark.parametrize("scope", ["protocol", "server", "tool"])
    def test_o5_a_shut_switch_forbids_it(self, room, scope):
        operation = room.at(State.SUBMISSION_UNKNOWN)
        name = {"protocol": "2025-11-25", "server": room.server, "tool": f"{room.server}/tool"}[scope]
        ledger.set_submits(scope, name, is_open=False, reason="off")

        try:
            with pytest.raises(ledger.PermitDenied):
                leave(room, operation)
        finally:
            ledger.set_submits(scope, name, is_open=True, reason="")

        assert room.row(operation).replays == 0

    @pytest.mark.parametrize("state", [State.SUBMITTING, State.WORKING, State.NOT_FOUND_SAFE, State.ACCEPTED])
    def test_where_nothing_is_lost_there_is_none(self, room, state):
        operation = room.at(state)

        with pytest.raises(ledger.PermitDenied):
            leave(room, operation)

    def test_c9_a_cancel_intent_does_not_forbid_it(self, room):
        """What nobody can name cannot be cancelled: the id is what this lookup brings."""
        operation = room.at(State.SUBMISSION_UNKNOWN)
        room.press(operation)

        permit = leave(room, operation)
        room.step(ledger.submit_answered, operation, permit=permit, seen=room.working(operation), next_at=room.later())

        assert room.row(operation).state is State.CANCEL_REQUESTED
        assert breaches(operation) == []


class TestWhatItProves:
    def test_l4_a_lost_one_proves_nothing(self, room):
        operation = room.at(State.SUBMISSION_UNKNOWN)

        fails(room, operation, leave(room, operation), "lost")

        row = room.row(operation)
        assert (row.state, row.replays, row.nothing_sent) == (State.SUBMISSION_UNKNOWN, 1, False)

    @pytest.mark.parametrize("settlement", ["not_sent", "disproved"])
    def test_x2_one_that_made_nothing_says_nothing_of_the_original(self, room, settlement):
        operation = room.at(State.SUBMISSION_UNKNOWN)

        fails(room, operation, leave(room, operation), settlement)

        row = room.row(operation)
        assert (row.state, row.replays, row.nothing_sent) == (State.SUBMISSION_UNKNOWN, 0, False)

    def test_c9_a_late_proof_about_the_original_closes_nothing_while_the_replay_may_have_arrived(self, room):
        operation = room.submit()
        permit, ticket = room.permit(operation), room.ticket(operation)
        room.claims(operation)
        room.step(ledger.submit_lost, operation, why="its holder is gone")
        room.press(operation)
        leave(room, operation)

        with pytest.raises(StaleStep):
            room.step(
                ledger.submit_not_sent,
                operation,
                permit=permit,
                why="no connection",
                misses=1,
                next_at=room.later(),
                ticket=ticket,
            )

        row = room.row(operation)
        assert (row.state, row.nothing_sent) == (State.SUBMISSION_UNKNOWN, False)
        with pytest.raises(ledger.PermitDenied):
            room.step(ledger.close_unsent, operation)

    def test_x2_when_every_send_is_disproved_nothing_was_created(self, room):
        operation = room.submit()
        permit, ticket = room.permit(operation), room.ticket(operation)
        room.claims(operation)
        room.step(ledger.submit_lost, operation, why="its holder is gone")
        replay = leave(room, operation)
        late = {"why": "no connection", "misses": 1, "next_at": room.later()}
        with pytest.raises(StaleStep):
            room.step(ledger.submit_not_sent, operation, permit=permit, ticket=ticket, **late)

        fails(room, operation, replay, "not_sent")

        row = room.row(operation)
        assert (row.state, row.nothing_sent) == (State.NOT_FOUND_SAFE, True)
        assert breaches(operation) == []

    def test_p6_a_proof_under_an_old_ticket_is_kept(self, room):
        operation = room.at(State.SUBMISSION_UNKNOWN)
        permit, ticket = leave(room, operation), room.ticket(operation)
        room.claims(operation)

        with pytest.raises(StaleStep):
            fails(room, operation, permit, "not_sent", ticket=ticket)

        assert room.row(operation).replays == 0

    def test_a_proof_counts_once(self, room):
        operation = room.at(State.SUBMISSION_UNKNOWN)
        first = leave(room, operation)
        leave(room, operation)
        fails(room, operation, first, "not_sent")
        old = room.ticket(operation)
        room.claims(operation)

        with pytest.raises(StaleStep):
            fails(room, operation, first, "not_sent", ticket=old)

        assert room.row(operation).replays == 1

    def test_p6_a_task_found_under_an_old_ticket_is_bound(self, room):
        operation = room.at(State.SUBMISSION_UNKNOWN)
        permit, ticket = leave(room, operation), room.ticket(operation)
        room.claims(operation)

        room.comes_late(operation, room.working(operation), permit=permit, ticket=ticket)

        assert room.row(operation).task_id == f"task-of-{operation}"

    def test_l4_the_leave_of_a_holder_that_is_gone_is_settled_as_lost_by_the_next(self, room):
        operation = room.at(State.SUBMISSION_UNKNOWN)
        first = leave(room, operation)
        room.now = room.later()

        leave(room, operation)

        assert Permit.objects.get(id=first).settlement == "lost"
        assert room.row(operation).replays == 2
        assert breaches(operation) == []


def _serve(scenario, *, clock, chance):
    server = OperationsServer(scenario, clock=clock, chance=chance)
    return server, OperationsApp({"/reports/v1": server}), "/reports/v1"


@pytest.fixture
def world(committed, worlds):
    def make(*faults):
        scenario = Scenario(tools=(REPORT,), faults=faults)
        profile = {"lookup": "same_key_replay", "key_window_s": 3600, "slug": f"replay-{uuid.uuid4().hex[:8]}"}
        return worlds(scenario, version="aip-151", serve=_serve, **profile)

    return make


def submitted(here, **named):
    return here.submit(TOOL, b'{"quarter": "2026-Q3"}', key=str(uuid.uuid4()), **named)


def posts(here):
    return [one.method for one in here.server.truth.arrivals].count("submit")


class TestWholeLife:
    def test_every_post_of_the_submit_had_its_own_leave(self, world):
        here = world(Fault(on="submit", kind=FaultKind.ANSWER_LOST, times=3))

        operation = submitted(here)
        here.until(operation, State.ACCEPTED)

        assert posts(here) == Permit.objects.filter(operation_id=operation, kind__in=["SUBMIT", "REPLAY"]).count() == 4
        assert len(here.server.truth.created) == 1
        assert breaches(operation) == []

    def test_o5_while_submits_are_shut_a_lost_one_waits_before_a_person_and_is_found_once_they_are_open(self, world):
        here = world(Fault(on="submit", kind=FaultKind.REQUEST_LOST))
        operation = submitted(here)
        here.until(operation, State.SUBMISSION_UNKNOWN)
        ledger.set_submits("server", here.slug, is_open=False, reason="the contract may have changed")

        row = here.until(operation, State.UNKNOWN, within_s=5)
        here.idle(900)
        assert (row.reason, posts(here)) == (Reason.SUBMIT_LOST, 1)
        assert here.row(operation).state is State.UNKNOWN

        ledger.set_submits("server", here.slug, is_open=True, reason="")
        here.until(operation, State.ACCEPTED, within_s=600)

        assert len(here.server.truth.created) == 1
        assert breaches(operation) == []

    def test_x2_a_replay_that_is_refused_says_nothing_and_is_tried_again(self, world):
        refused = Fault(on="submit", kind=FaultKind.API_ERROR, code=3, times=2)
        here = world(Fault(on="submit", kind=FaultKind.ANSWER_LOST), refused)

        operation = submitted(here)
        here.until(operation, State.ACCEPTED)

        settled = Permit.objects.filter(operation_id=operation, kind="REPLAY").values_list("settlement", flat=True)
        assert sorted(settled) == ["answered", "disproved", "disproved"]
        assert here.row(operation).replays == 1
        assert breaches(operation) == []
