"""From a call node's request to a task, or to the honest word "unknown" (L1 to L4, X2, C9, P6, P8)."""

import uuid

import pytest

from adapters import strictjson
from adapters.contract import Absent, Capabilities, Opened
from operations import ledger
from operations.ledger import submission
from operations.machine import Event, IllegalStep, NotFound, Reason, StaleStep, State
from operations.models import JournalKind, Operation
from operations.verdicts import Verdict
from tests.operations.room import break_commit, fence_off, result, seen, together


class TestSubmit:
    def test_l2_makes_a_row_in_submitting_that_is_due_at_once_and_sends_nothing(self, room):
        made = ledger.submit(room.call(), now=room.now)

        row = room.row(made.operation)
        assert (made.created, made.version) == (True, 1)
        assert (row.state, row.sends, row.nothing_sent) == (State.SUBMITTING, 0, True)
        assert room.due(made.operation)[:2] == (room.now, True)
        assert room.events(made.operation) == ["SUBMITTED"]

    def test_b207_the_same_call_again_is_the_same_operation(self, room):
        call = room.call(arguments=b'{"a": 1}')
        first = ledger.submit(call, now=room.now)

        again = ledger.submit(room.call(**_same(call, arguments=b'{"a":1}')), now=room.now)

        assert again == ledger.Submitted(operation=first.operation, created=False, version=1)
        assert room.events(first.operation) == ["SUBMITTED"]

    @pytest.mark.parametrize(
        "other",
        [{"arguments": b'{"a": 2}'}, {"principal": "ben"}, {"budget_s": 5}, {"call_node": "another"}],
    )
    def test_b207_the_same_key_for_another_request_is_a_conflict(self, room, other):
        call = room.call(arguments=b'{"a": 1}')
        first = ledger.submit(call, now=room.now)

        with pytest.raises(ledger.KeyReused) as clash:
            ledger.submit(room.call(**_same(call, **other)), now=room.now)

        assert (clash.value.operation, clash.value.clash) == (first.operation, "submission_key")

    def test_l1_another_key_for_the_same_call_node_is_a_conflict(self, room):
        call = room.call()
        first = ledger.submit(call, now=room.now)

        with pytest.raises(ledger.KeyReused) as clash:
            ledger.submit(room.call(**_same(call, submission_key="new")), now=room.now)

        assert (clash.value.operation, clash.value.clash) == (first.operation, "call_node")

    def test_two_clients_may_use_the_same_names(self, room):
        call = room.call()

        first, second = (ledger.submit(room.call(**_same(call, client=who)), now=room.now) for who in ("a", "b"))

        assert first.operation != second.operation

    def test_an_unknown_tool_is_refused(self, room):
        with pytest.raises(ledger.NoSuchTool):
            room.submit(tool="nothing")

    @pytest.mark.parametrize("scope", ["protocol", "server", "tool"])
    def test_o5_a_shut_switch_refuses_and_says_why_but_returns_what_there_is(self, room, scope):
        call = room.call()
        made = ledger.submit(call, now=room.now)
        name = {"protocol": "2025-11-25", "server": room.server, "tool": f"{room.server}/tool"}[scope]
        ledger.set_submits(scope, name, is_open=False, reason="rolled back")

        try:
            with pytest.raises(ledger.SubmitsClosed) as shut:
                room.submit()
            assert ledger.submit(call, now=room.now).operation == made.operation
        finally:
            ledger.set_submits(scope, name, is_open=True, reason="")
        assert (shut.value.scope, shut.value.reason) == (scope, "rolled back")

    def test_arguments_that_break_the_schema_make_nothing(self, room):
        room.describe(input_schema={"type": "object", "required": ["quarter"]})
        call = room.call()

        with pytest.raises(ledger.ArgumentsRefused, match="quarter"):
            ledger.submit(call, now=room.now)

        with pytest.raises(ledger.ArgumentsRefused):
            ledger.submit(call, now=room.now)

    @pytest.mark.parametrize("raw", [b"", b"{", b'{"a": NaN}', b"\xff"])
    def test_unreadable_arguments_make_nothing(self, room, raw):
        with pytest.raises(strictjson.BadJson):
            room.submit(arguments=raw)

    def test_b209_two_at_once_make_one_operation(self, room):
        call = room.call()

        came = together(*[lambda: ledger.submit(call, now=room.now)] * 4)

        assert len({made.operation for made in came}) == 1
        assert sorted(made.created for made in came) == [False, False, False, True]

    def test_two_keys_of_one_call_node_at_once_make_one_operation_and_one_conflict(self, room):
        call = room.call()
        other = room.call(**_same(call, submission_key="another"))

        came = together(lambda: ledger.submit(call, now=room.now), lambda: ledger.submit(other, now=room.now))

        assert sorted(type(one).__name__ for one in came) == ["KeyReused", "Submitted"]

    @pytest.mark.parametrize("after", [True, False])
    def test_r9_a_lost_commit_is_found_again_by_its_key(self, room, monkeypatch, after):
        call = room.call()

        with monkeypatch.context() as patch:
            break_commit(patch, after=after)
            made = ledger.submit(call, now=room.now)

        assert ledger.submit(call, now=room.now).operation == made.operation
        assert room.events(made.operation) == ["SUBMITTED"]


class TestPermit:
    def test_l4_is_committed_with_the_ticket_it_was_given_under(self, room):
        operation = room.submit()

        permit = room.permit(operation)

        (given,) = room.permits(operation)
        assert (given.id, given.kind, given.settlement) == (permit, "SUBMIT", "")
        assert (room.row(operation).sends, room.row(operation).nothing_sent) == (1, False)

    def test_l4_a_second_one_is_refused_while_one_is_out(self, room):
        operation = room.submit()
        room.permit(operation)

        with pytest.raises(ledger.PermitDenied):
            room.permit(operation)

        assert len(room.permits(operation)) == 1
        assert room.journal(operation, kind=JournalKind.REFUSED)

    def test_b209_of_two_at_once_one_is_given(self, room):
        operation = room.submit()
        ticket = room.ticket(operation)

        came = together(*[lambda: room.permit(operation, ticket=ticket)] * 3)

        assert sum(isinstance(one, uuid.UUID) for one in came) == 1
        assert room.row(operation).sends == 1

    def test_o5_none_is_given_behind_a_shut_switch(self, room):
        operation = room.submit()
        ledger.set_submits("server", room.server, is_open=False, reason="off")

        with pytest.raises(ledger.PermitDenied):
            room.permit(operation)

    def test_p5_none_is_given_after_the_budget(self, room):
        operation = room.submit(budget_s=10)
        room.now = room.later(10)

        with pytest.raises(ledger.PermitDenied):
            room.permit(operation)

    @pytest.mark.parametrize("state", sorted(set(State) - {State.SUBMITTING}))
    def test_none_is_given_in_any_other_state(self, room, state):
        operation = room.at(state)

        with pytest.raises(ledger.PermitDenied):
            room.permit(operation)

    def test_f7_none_is_given_under_an_old_epoch(self, room):
        operation = room.submit()
        ticket = room.ticket(operation)
        fence_off()

        with pytest.raises(StaleStep):
            room.permit(operation, ticket=ticket)

        assert room.permits(operation) == []


class TestNotSent:
    def send(self, room, operation, permit, **named):
        return room.step(
            ledger.submit_not_sent, operation, permit=permit, why="refused", misses=3, next_at=room.later(), **named
        )

    def test_proves_its_permit_and_lets_the_same_key_be_sent_again(self, room):
        operation = room.submit()
        permit = room.permit(operation)

        self.send(room, operation, permit)

        assert room.permits(operation)[0].settlement == "not_sent"
        assert room.row(operation).nothing_sent
        assert room.due(operation)[4] == 3
        room.permit(operation)

    def test_c9_p6_under_an_old_cancel_generation_it_still_proves_that_nothing_was_sent(self, room):
        operation = room.submit()
        ticket, permit = room.ticket(operation), room.permit(operation)
        assert room.press(operation).press is ledger.Press.INTENT

        with pytest.raises(StaleStep):
            self.send(room, operation, permit, ticket=ticket)
        room.step(ledger.close_unsent, operation)

        assert room.receipt(operation).outcome == "CANCELLED"
        assert room.permits(operation)[0].settlement == "not_sent"

    def test_p6_after_the_loss_was_declared_it_leads_back_to_nothing_created(self, room):
        operation = room.submit()
        ticket, permit = room.ticket(operation), room.permit(operation)
        room.claims(operation)
        room.step(ledger.submit_lost, operation, why="its holder is gone")

        with pytest.raises(StaleStep):
            self.send(room, operation, permit, ticket=ticket)

        row = room.row(operation)
        assert (row.state, row.nothing_sent) == (State.NOT_FOUND_SAFE, True)

    def test_p6_a_late_proof_says_nothing_about_a_newer_permit(self, room):
        operation = room.submit()
        ticket, first = room.ticket(operation), room.permit(operation)
        self.send(room, operation, first)
        room.claims(operation)
        room.permit(operation)

        with pytest.raises(StaleStep):
            self.send(room, operation, first, ticket=ticket)

        assert not room.row(operation).nothing_sent


class TestAnswered:
    def test_l3_a_named_task_is_working(self, room):
        operation = room.submit()

        room.answer_submit(operation, room.working(operation))

        row = room.row(operation)
        assert (row.state, row.task_id) == (State.WORKING, f"task-of-{operation}")
        assert room.permits(operation)[0].settlement == "answered"

    def test_b016_a_task_born_ended_is_observed_and_leaves_no_step_out(self, room):
        operation = room.submit()

        room.answer_submit(operation, room.ended(operation))

        assert room.row(operation).state is State.TERMINAL_OBSERVED
        assert room.due(operation)[0] == room.now

    def test_b017_an_answer_at_once_keeps_its_result(self, room):
        operation = room.submit()
        at_once = room.ended(operation)
        raw = result()

        room.answer_submit(operation, type(at_once)(status=at_once.status, task=None, result=raw, exchanges=seen()))

        row = room.row(operation)
        assert (row.state, row.task_id) == (State.TERMINAL_OBSERVED, None)
        assert row.result_digest == strictjson.digest(raw.raw)

    def test_a_task_born_asking_opens_round_one(self, room):
        operation = room.submit()

        room.answer_submit(operation, room.asking(operation))

        assert (room.row(operation).state, room.row(operation).round) == (State.INPUT_REQUIRED, 1)

    def test_c9_under_an_intent_the_task_is_never_working_for_anyone_to_see(self, room):
        operation = room.submit()
        permit = room.permit(operation)
        room.press(operation)

        named = {"permit": permit, "seen": room.working(operation), "next_at": room.later()}
        room.step(ledger.submit_answered, operation, **named)

        row = room.row(operation)
        assert (row.state, row.cancel_intent) == (State.CANCEL_REQUESTED, False)
        assert room.due(operation)[0] == room.now

    def test_f7_p6_an_id_that_comes_under_an_old_epoch_is_bound_and_looked_at(self, room):
        operation = room.submit()
        ticket, permit = room.ticket(operation), room.permit(operation)
        fence_off()

        room.comes_late(operation, room.working(operation), permit=permit, ticket=ticket)

        row = room.row(operation)
        assert (row.state, row.task_id) == (State.SUBMITTING, f"task-of-{operation}")
        assert "LATE_ID" in room.events(operation)
        room.saw(operation, room.working(operation))
        assert room.row(operation).state is State.WORKING

    def test_b202_another_id_for_the_same_key_takes_the_operation_to_a_person(self, room):
        operation = room.submit()
        ticket, permit = room.ticket(operation), room.permit(operation)
        room.claims(operation)
        room.step(ledger.submit_lost, operation, why="slow")
        room.saw(operation, room.working(operation))

        room.comes_late(operation, room.working(operation, task_id="second"), permit=permit, ticket=ticket)

        row = room.row(operation)
        assert (row.state, row.reason) == (State.UNKNOWN, Reason.ID_CLASH)
        assert room.journal(operation, event="ID_CLASH")[-1].detail["also"] == "second"

    def test_c4_a_task_that_turns_up_after_a_verdict_is_a_fact_of_the_effect_record(self, rooms):
        room = rooms(effect="EXTERNAL")
        operation = room.submit()
        ticket, permit = room.ticket(operation), room.permit(operation)
        room.claims(operation)
        room.step(ledger.submit_lost, operation, why="slow")
        named = {"event": Event.NO_LOOKUP, "reason": Reason.SUBMIT_LOST, "next_at": room.later()}
        room.step(ledger.hand_to_person, operation, **named)
        version = room.row(operation).version
        judged = ledger.judge(operation, Verdict.GAVE_UP, seen_version=version, by="a", reason="none", now=room.now)
        ledger.confirm(judged.proposal, by="b", now=room.now)

        room.comes_late(operation, room.working(operation), permit=permit, ticket=ticket)

        assert room.receipt(operation).outcome == "RECONCILED"
        assert {"what": "second task", "task_id": f"task-of-{operation}"} in room.effect(operation).facts

    def test_p6_news_of_an_ended_operation_is_kept_by_the_same_executor_too(self, rooms):
        room = rooms(effect="EXTERNAL")
        operation = room.submit()
        permit = room.permit(operation)
        room.step(ledger.refuse, operation, reason=Reason.REQUEST_REFUSED, why="said so, did otherwise")

        named = {"permit": permit, "seen": room.working(operation), "next_at": room.later()}
        with pytest.raises(IllegalStep):
            room.step(ledger.submit_answered, operation, **named)

        assert room.effect(operation).cause == "SECOND_TASK"


class TestLost:
    def test_l4_is_submission_unknown_with_its_permit_settled_as_lost(self, room):
        operation = room.at(State.SUBMISSION_UNKNOWN)

        row = room.row(operation)
        assert (row.reason, row.lost_at) == (Reason.SUBMIT_LOST, room.now)
        assert room.permits(operation)[0].settlement == "lost"

    def test_class_c_goes_to_a_person_with_what_not_found_is_worth(self, room):
        operation = room.at(State.SUBMISSION_UNKNOWN)

        named = {"event": Event.NO_LOOKUP, "reason": Reason.SUBMIT_LOST, "next_at": room.later(300)}
        room.step(ledger.hand_to_person, operation, **named)

        assert room.row(operation).state is State.UNKNOWN
        assert _column(operation, "not_found") == NotFound.UNKNOWN

    @pytest.mark.parametrize("state", sorted({State.SUBMITTING, State.WORKING, State.INPUT_REQUIRED}))
    def test_p5_a_budget_that_ends_hands_over_and_closes_the_form(self, room, state):
        operation = room.at(state)

        named = {"event": Event.BUDGET_ENDED, "reason": Reason.BUDGET_ENDED, "next_at": room.later(300)}
        room.step(ledger.hand_to_person, operation, **named)

        row = room.row(operation)
        assert (row.state, row.reason, row.round_open) == (State.UNKNOWN, Reason.BUDGET_ENDED, False)


class TestNothingCreated:
    def prove(self, room, operation, reason=Reason.PROVED_ABSENT, **named):
        return room.step(ledger.nothing_created, operation, reason=reason, why="none", next_at=room.later(), **named)

    def test_x2_disproves_every_permit(self, room):
        operation = room.at(State.SUBMISSION_UNKNOWN)

        self.prove(room, operation)

        assert room.row(operation).nothing_sent
        assert _column(operation, "not_found") == NotFound.NEVER_CREATED

    def test_c9_under_an_intent_closes_as_cancelled_without_an_effect_record(self, rooms):
        room = rooms(effect="EXTERNAL")
        operation = room.at(State.SUBMISSION_UNKNOWN)
        room.press(operation)

        self.prove(room, operation)

        assert room.receipt(operation).verdict == "never sent"
        assert room.effect(operation) is None

    def test_c9_p6_a_refusal_that_comes_after_a_press_is_kept_and_closes_it(self, room):
        operation = room.submit()
        ticket, permit = room.ticket(operation), room.permit(operation)
        room.press(operation)

        with pytest.raises(StaleStep):
            self.prove(room, operation, reason=Reason.ADMIN_REFUSAL, permit=permit, ticket=ticket)
        room.step(ledger.close_unsent, operation)

        assert room.row(operation).state is State.CANCELLED_ACCEPTED

    def test_p6_a_late_refusal_of_the_request_is_kept_as_proof(self, room):
        operation = room.submit()
        ticket, permit = room.ticket(operation), room.permit(operation)
        room.press(operation)

        named = {"reason": Reason.REQUEST_REFUSED, "why": "bad", "permit": permit, "ticket": ticket}
        with pytest.raises(StaleStep):
            room.step(ledger.refuse, operation, **named)

        assert room.row(operation).nothing_sent

    def test_x2_is_submitted_again_under_the_same_key_and_bytes(self, room):
        operation = room.at(State.NOT_FOUND_SAFE)
        before = _column(operation, "submission_key"), bytes(_column(operation, "arguments"))

        room.step(ledger.resubmit, operation, actor=ledger.EXECUTOR)
        room.answer_submit(operation, room.working(operation))

        assert (_column(operation, "submission_key"), bytes(_column(operation, "arguments"))) == before
        assert room.row(operation).sends == 2


class TestTurnsUpAfterProof:
    """L5: NOT_FOUND_SAFE leads to WORKING, and on from there, when the original is there after all."""

    @pytest.fixture
    def absent(self, room):
        return _turned_up(room)

    def test_at_work(self, room, absent):
        room.saw(absent, room.working(absent))

        assert room.row(absent).state is State.WORKING

    def test_asking(self, room, absent):
        room.saw(absent, room.asking(absent))

        assert room.row(absent).state is State.INPUT_REQUIRED

    def test_ended(self, room, absent):
        room.saw(absent, room.ended(absent))

        assert room.row(absent).state is State.TERMINAL_OBSERVED

    def test_c6_and_is_cancelled_with_an_effect_record(self, rooms):
        room = rooms(effect="EXTERNAL")
        operation = _turned_up(room)
        room.saw(operation, room.working(operation))
        room.press(operation)
        permit = uuid.uuid4()
        room.step(ledger.permit_cancel, operation, permit=permit)

        room.step(ledger.cancel_won, operation, permit=permit, exchanges=())

        assert room.effect(operation).cause == "CANCELLED"

    def test_x1_unknown_by_now(self, room, absent):
        room.saw(absent, room.absent())

        row = room.row(absent)
        assert (row.state, row.reason) == (State.UNKNOWN, Reason.NOT_FOUND)


@pytest.mark.parametrize("state", [State.SUBMITTING, State.SUBMISSION_UNKNOWN])
def test_x1_an_id_that_came_late_and_is_unknown_by_now_goes_to_a_person(room, state):
    operation = room.submit()
    ticket, permit = room.ticket(operation), room.permit(operation)
    room.claims(operation)
    if state is State.SUBMISSION_UNKNOWN:
        room.step(ledger.submit_lost, operation, why="slow")
    room.comes_late(operation, room.working(operation), permit=permit, ticket=ticket)

    room.saw(operation, room.absent())

    row = room.row(operation)
    assert (row.state, row.reason) == (State.UNKNOWN, Reason.NOT_FOUND)


class TestClosingUnsent:
    def test_c9_nothing_sent_closes_as_cancelled(self, room):
        operation = room.submit()

        assert room.press(operation).press is ledger.Press.CLOSED_UNSENT

        receipt = room.receipt(operation)
        assert (receipt.outcome, receipt.verdict, receipt.task_id) == ("CANCELLED", "never sent", None)

    def test_r4_is_refused_while_something_may_have_been_sent(self, room):
        operation = room.at(State.SUBMISSION_UNKNOWN)

        with pytest.raises(ledger.PermitDenied, match="may have reached"):
            room.step(ledger.close_unsent, operation)

    def test_n2_a_call_that_cannot_be_made_is_refused_with_a_receipt(self, room):
        operation = room.submit()

        room.step(ledger.refuse, operation, reason=Reason.NO_TASK_SUPPORT, why="this server runs no tasks")

        receipt = room.receipt(operation)
        assert (receipt.outcome, receipt.verdict) == ("REFUSED", "NO_TASK_SUPPORT")
        assert room.due(operation) is None


class TestSession:
    def test_l2_is_stored_before_anything_is_sent_in_it_and_forgotten_when_it_ends(self, room):
        operation = room.submit()
        declared = Capabilities(
            server_name="s", server_version="1", creates_tasks=True, cancels_tasks=True, lists_tasks=True
        )

        room.step(ledger.session_opened, operation, opened=Opened(session="abc", capabilities=declared))
        assert room.row(operation).session == "abc"
        room.step(ledger.session_lost, operation, exchanges=(), next_at=room.later())

        assert room.row(operation).session is None
        assert room.due(operation)[1] is True


class TestP8:
    def test_a_named_task_of_another_operation_takes_both_to_a_person(self, room):
        first = room.at(State.WORKING)
        second = room.submit()

        room.answer_submit(second, room.working(second, task_id=room.row(first).task_id))

        assert [room.row(one).reason for one in (first, second)] == [Reason.ID_CLASH] * 2
        assert room.row(second).task_id is None

    def test_of_an_accepted_operation_marks_it_disputed_and_keeps_its_receipt(self, room):
        first, second = room.at(State.ACCEPTED), room.submit()

        room.answer_submit(second, room.working(second, task_id=room.row(first).task_id))

        assert (room.row(first).state, room.row(first).disputed) == (State.ACCEPTED, True)
        assert room.row(second).state is State.UNKNOWN

    def test_an_id_that_comes_late_and_belongs_to_another_takes_both_to_a_person(self, room):
        first, second = room.at(State.WORKING), room.submit()
        ticket, permit = room.ticket(second), room.permit(second)
        room.claims(second)
        stolen = room.working(second, task_id=room.row(first).task_id)

        room.comes_late(second, stolen, permit=permit, ticket=ticket)

        assert [room.row(one).reason for one in (first, second)] == [Reason.ID_CLASH] * 2

    def test_two_that_are_named_the_same_task_at_once_both_go_to_a_person(self, room):
        first, second = room.submit(), room.submit()
        permits = {one: room.permit(one) for one in (first, second)}
        tickets = {one: room.ticket(one) for one in (first, second)}

        def bind(one):
            return ledger.submit_answered(
                one,
                permit=permits[one],
                seen=room.working(one, task_id=f"same-{first}"),
                ticket=tickets[one],
                next_at=room.later(),
                now=room.now,
            )

        came = together(lambda: bind(first), lambda: bind(second))

        assert not [one for one in came if isinstance(one, Exception)]
        assert [room.row(one).reason for one in (first, second)] == [Reason.ID_CLASH] * 2

    def test_the_write_itself_finds_the_other_when_the_look_up_came_too_early(self, room, monkeypatch):
        first, second = room.at(State.WORKING), room.submit()
        looks, found = submission.looks, submission.looks.bound_elsewhere
        blind = iter([None])
        monkeypatch.setattr(looks, "bound_elsewhere", lambda *a: next(blind, found(*a)))

        room.answer_submit(second, room.working(second, task_id=room.row(first).task_id))

        assert [room.row(one).reason for one in (first, second)] == [Reason.ID_CLASH] * 2
        assert room.evidence(second) == 1

    @pytest.mark.parametrize("names", [("t-\u00c9", "t-E\u0301"), ("T-1", "t-1"), ("a", "a ")])
    def test_b015_ids_that_differ_in_one_byte_are_two_tasks(self, room, names):
        operations = [room.submit(), room.submit()]

        for operation, name in zip(operations, names, strict=True):
            room.answer_submit(operation, room.working(operation, task_id=name))

        assert [room.row(one).state for one in operations] == [State.WORKING] * 2
        assert tuple(room.row(one).task_id for one in operations) == names

    def test_b013_an_id_of_any_length_is_kept_whole(self, room):
        operation, name = room.submit(), "\u00e9x" * 20_000

        room.answer_submit(operation, room.working(operation, task_id=name))

        assert room.row(operation).task_id == name


def test_an_absent_answer_to_a_submit_is_a_refusal_of_the_caller(room):
    """The adapter never gives one; should it, nothing is concluded from it."""
    operation = room.submit()

    room.answer_submit(operation, Absent(code=-32602, message="no such task", exchanges=seen()))

    assert room.row(operation).state is State.UNKNOWN


def _turned_up(room):
    operation = room.submit()
    ticket, permit = room.ticket(operation), room.permit(operation)
    room.claims(operation)
    room.step(ledger.submit_lost, operation, why="slow")
    room.step(ledger.nothing_created, operation, reason=Reason.PROVED_ABSENT, why="none", next_at=room.later())
    room.comes_late(operation, room.working(operation), permit=permit, ticket=ticket)
    return operation


def _same(call, **other):
    told = {name: getattr(call, name) for name in type(call).__dataclass_fields__}
    return told | other


def _column(operation, name):
    return Operation.objects.values_list(name, flat=True).get(id=operation)
