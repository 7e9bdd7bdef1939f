"""Faults as they were reported of real servers, each by its number (task-lifecycle, poll-timing, cancel, jobs-db).

A small scripted peer says what the report says; ledger, driver and adapter are the product's.
"""

import uuid
from datetime import timedelta

import pytest

from adapters.simulator import demo
from adapters.simulator.scenario import CancelStyle, Fault, FaultKind, QuestionStyle, Scenario
from adapters.simulator.scripts import Finish, Tool, Work
from operations import ledger
from operations.machine import Reason, State
from operations.models import EffectRecord, Journal, Outbox, Permit, Receipt

REPORT = b'{"quarter": "2026-Q3"}'


@pytest.fixture
def world(committed, worlds):
    def make(*tools, **knobs):
        profile = {name: knobs.pop(name) for name in _PROFILE & set(knobs)}
        scenario = Scenario(tools=tools or (demo.QUARTERLY_REPORT,), **knobs)
        return worlds(scenario, slug=f"case-{uuid.uuid4().hex[:16]}", **profile)

    return make


_PROFILE = {"lookup", "quarantine_s", "max_qps", "poll_floor_ms", "poll_cap_ms"}


def started(here, **named):
    operation = here.submit("quarterly_report", REPORT, **named)
    here.until(operation, State.WORKING, within_s=30)
    return operation


def press(here, operation, **named):
    told = {"seen_generation": None, "by": "person:olga", "reason": "enough"}
    return ledger.request_cancel(operation, now=here.now(), **(told | named))


def fault(on, kind, **named):
    return Fault(on=on, kind=kind, **named)


def outcome(operation):
    receipt = Receipt.objects.filter(operation_id=operation).first()
    return receipt.outcome if receipt else None


def noted(operation, event):
    return Journal.objects.filter(operation_id=operation, event=event).count()


def arrivals(here, *methods):
    return [one.at for one in here.server.truth.arrivals if one.method in methods]


class TestTaskLifecycle:
    @pytest.mark.parametrize("word", ["running", "COMPLETED", "canceled"])
    def test_b003_an_invented_status_word_is_kept_and_changes_nothing(self, world, word):
        here = world(faults=(fault("tasks/get", FaultKind.STATUS_WORD, word=word, times=2),))

        operation = started(here)
        here.idle(8)

        assert here.row(operation).state is State.WORKING
        assert noted(operation, "NOTHING_USABLE") == 2
        here.until(operation, State.ACCEPTED)

    def test_b002_f9_a_task_that_is_evicted_goes_to_a_person_and_is_never_submitted_again(self, world):
        here = world(ttl_ms=5_000)

        operation = started(here)
        row = here.until(operation, State.UNKNOWN, within_s=60)
        here.idle(400)

        assert row.reason == Reason.NOT_FOUND
        assert len(here.server.truth.created) == 1
        assert outcome(operation) is None

    def test_b007_r10_an_end_that_turns_into_another_is_never_picked_by_luck(self, world):
        here = world()
        operation = started(here)
        faults = (
            fault("tasks/get", FaultKind.STATUS_WORD, word="completed"),
            fault("tasks/result", FaultKind.RPC_ERROR, code=-32603, times=50),
            fault("tasks/get", FaultKind.STATUS_WORD, word="cancelled", times=500),
        )
        here.server.scenario = Scenario(tools=(demo.QUARTERLY_REPORT,), faults=faults)

        here.until(operation, State.UNKNOWN, within_s=120)
        here.idle(900)

        row = here.row(operation)
        assert (row.state, row.reason) == (State.UNKNOWN, Reason.CONTRADICTED)
        assert outcome(operation) is None

    def test_b010_f8_a_server_that_names_every_task_alike_gets_both_before_a_person(self, world):
        here = world(reuse_task_id="t-1")
        first = started(here)

        second = here.submit("quarterly_report", REPORT)
        here.until(second, State.UNKNOWN, within_s=30)
        here.idle(120)

        assert [here.row(one).reason for one in (first, second)] == [Reason.ID_CLASH] * 2
        assert [outcome(one) for one in (first, second)] == [None, None]

    @pytest.mark.parametrize("name", ["../../admin?x=1#/\u00e9 b", "t" * 10_000])
    def test_b011_b013_a_task_id_of_any_form_is_kept_and_used_as_it_is(self, world, name):
        here = world(reuse_task_id=name)

        operation = started(here)

        assert here.row(operation).task_id == name
        here.until(operation, State.ACCEPTED)

    def test_b014_a_task_without_a_usable_id_is_never_submitted_twice(self, world):
        here = world(faults=(fault("tools/call", FaultKind.TASK_ID, word=""),))

        operation = here.submit("quarterly_report", REPORT)
        row = here.until(operation, State.UNKNOWN, within_s=30)
        here.idle(60)

        assert row.reason == Reason.SUBMIT_LOST
        assert len(here.server.truth.created) == 1

    def test_b019_i1_a_question_is_fetched_and_polling_pauses(self, world):
        here = world(demo.BULK_PRICE_CHANGE)
        operation = here.submit("bulk_price_change", b'{"percent": 5}')
        here.until(operation, State.INPUT_REQUIRED)
        before = len(arrivals(here, "tasks/get"))

        here.idle(120)

        assert len(arrivals(here, "tasks/get")) == before

    def test_b027_after_acceptance_nothing_more_is_asked(self, world):
        here = world()
        operation = here.submit("quarterly_report", REPORT)
        here.until(operation, State.ACCEPTED)
        before = len(here.server.truth.arrivals)

        here.idle(300)

        assert len(here.server.truth.arrivals) == before

    def test_b029_p5_waiting_ends_with_the_budget_although_each_look_is_quick(self, world):
        here = world(poll_ms=100_000, poll_cap_ms=200_000)

        operation = here.submit("quarterly_report", REPORT, budget_s=15)
        here.until(operation, State.UNKNOWN, within_s=16.5)

        assert here.row(operation).reason == Reason.BUDGET_ENDED

    def test_i1_a_question_that_the_server_takes_back_is_not_waited_out(self, world):
        here = world(demo.BULK_PRICE_CHANGE)
        operation = here.submit("bulk_price_change", b'{"percent": 5}')
        here.until(operation, State.INPUT_REQUIRED)
        back_at_work = fault("tasks/get", FaultKind.STATUS_WORD, word="working", times=1000)
        here.server.scenario = Scenario(tools=(demo.BULK_PRICE_CHANGE,), faults=(back_at_work,))
        ledger.open_round_page(operation, round=1, now=here.now())

        here.until(operation, State.WORKING, within_s=30)

        before = len(arrivals(here, "tasks/get"))
        here.idle(20)
        assert len(arrivals(here, "tasks/get")) > before


class TestPollTiming:
    @pytest.mark.parametrize("poll_ms", [0, 1])
    def test_b034_no_interval_is_below_our_floor(self, world, poll_ms):
        here = world(poll_ms=poll_ms, poll_floor_ms=1000)
        started(here)
        before = len(arrivals(here, "tasks/get"))

        here.idle(10)

        assert len(arrivals(here, "tasks/get")) - before <= 10

    def test_b036_a_huge_interval_parks_nothing_past_its_budget(self, world):
        here = world(poll_ms=9_007_199_254_740_991)

        operation = started(here, budget_s=60)

        here.until(operation, State.UNKNOWN, within_s=61)

    def test_b038_the_first_look_waits_for_the_interval_of_the_first_answer(self, world):
        here = world(poll_ms=10_000)

        started(here)
        created = here.server.truth.created[0].at
        here.idle(15)

        assert arrivals(here, "tasks/get")[0] >= created + 10

    def test_b042_f10_a_pause_holds_for_every_operation_of_the_server(self, world):
        here = world(faults=(fault("tasks/get", FaultKind.HTTP_STATUS, status=429, retry_after="120"),))
        operations = [here.submit("quarterly_report", REPORT) for _ in range(3)]
        here.idle(10)
        (struck,) = arrivals(here, "tasks/get")[:1]

        here.idle(100)

        assert not [one.at for one in here.server.truth.arrivals if struck + 0.5 < one.at < struck + 120]
        assert {here.row(one).state for one in operations} <= {State.WORKING, State.SUBMITTING}

    def test_b043_one_look_that_fails_ends_nothing(self, world):
        faults = (
            fault("tasks/get", FaultKind.REQUEST_LOST),
            fault("tasks/get", FaultKind.HTTP_STATUS, status=503, skip=1),
            fault("tasks/get", FaultKind.ANSWER_LOST, skip=2),
        )
        here = world(faults=faults)

        operation = here.submit("quarterly_report", REPORT)
        here.until(operation, State.ACCEPTED)

        assert outcome(operation) == "SUCCESS"

    @pytest.mark.parametrize("ttl_ms", [0, -1, 9_007_199_254_740_991])
    def test_b044_an_odd_ttl_breaks_no_arithmetic(self, world, ttl_ms):
        here = world(ttl_ms=ttl_ms)

        operation = here.submit("quarterly_report", REPORT)
        row = here.until(operation, State.WORKING, State.UNKNOWN, within_s=30)

        assert row.state in {State.WORKING, State.UNKNOWN}

    def test_b046_a_result_that_is_gone_goes_to_a_person_with_what_was_said(self, world):
        here = world(faults=(fault("tasks/result", FaultKind.RPC_ERROR, times=1000),))

        operation = here.submit("quarterly_report", REPORT)
        row = here.until(operation, State.UNKNOWN, within_s=300)

        assert row.reason == Reason.RESULT_LOST
        assert noted(operation, "NOTHING_USABLE") >= 1
        assert outcome(operation) is None


class TestCancel:
    def test_b185_two_presses_are_one_request(self, world):
        here = world(demo.LOG_ANALYSIS)
        operation = here.submit("log_analysis", b"{}")
        here.until(operation, State.WORKING)

        presses = [press(here, operation).press for _ in range(2)]
        here.until(operation, State.CANCELLED_ACCEPTED, within_s=30)

        assert presses == [ledger.Press.REQUESTED, ledger.Press.ALREADY_REQUESTED]
        assert len(arrivals(here, "tasks/cancel")) == 1

    def test_b186_f5_a_lost_acknowledgement_is_settled_by_the_look(self, world):
        here = world(demo.LOG_ANALYSIS, faults=(fault("tasks/cancel", FaultKind.ANSWER_LOST),))
        operation = here.submit("log_analysis", b"{}")
        here.until(operation, State.WORKING)

        press(here, operation)
        here.until(operation, State.CANCELLED_ACCEPTED, within_s=60)

        assert outcome(operation) == "CANCELLED"
        assert len(here.server.truth.cancels) == 1

    def test_b187_f4_c3_a_task_that_finished_first_is_accepted_as_it_ended(self, world):
        here = world(faults=(fault("tasks/cancel", FaultKind.FINISHES_FIRST),))
        operation = started(here)

        press(here, operation)
        here.until(operation, State.ACCEPTED, within_s=60)

        assert outcome(operation) == "SUCCESS"

    def test_b187_c12_a_cancel_of_a_task_that_is_gone_goes_to_a_person(self, world):
        here = world(demo.LOG_ANALYSIS)
        operation = here.submit("log_analysis", b"{}")
        here.until(operation, State.WORKING)
        here.server._tasks.clear()

        press(here, operation)
        row = here.until(operation, State.UNKNOWN, within_s=60)

        assert row.reason == Reason.NOT_FOUND_AFTER_CANCEL

    def test_b188_a_server_that_refuses_every_cancel_is_waited_for(self, world):
        here = world(cancel=CancelStyle.REFUSES)
        operation = started(here)

        press(here, operation, can_cancel=True)
        here.until(operation, State.ACCEPTED, within_s=300)

        assert outcome(operation) == "SUCCESS"

    def test_b189_c5_an_answer_that_still_says_working_wins_nothing(self, world):
        here = world(cancel=CancelStyle.IGNORES)
        operation = started(here)

        press(here, operation)
        here.idle(3)

        assert here.row(operation).state is State.CANCEL_REQUESTED
        here.until(operation, State.ACCEPTED, within_s=300)

    def test_b191_c4_a_result_after_a_won_cancel_is_evidence_and_nothing_else(self, world):
        here = world(demo.LOG_ANALYSIS, cancel=CancelStyle.LIES, works_on_after_cancel=True)
        operation = here.submit("log_analysis", b"{}")
        here.until(operation, State.WORKING)

        press(here, operation)
        here.until(operation, State.CANCELLED_ACCEPTED, within_s=60)
        here.idle(60)

        assert outcome(operation) == "CANCELLED"
        assert Outbox.objects.filter(receipt__operation_id=operation).count() == 1
        assert EffectRecord.objects.filter(operation_id=operation).count() == 1

    def test_b194_c11_a_press_closes_the_question_at_once(self, world):
        here = world(demo.BULK_PRICE_CHANGE)
        operation = here.submit("bulk_price_change", b'{"percent": 5}')
        here.until(operation, State.INPUT_REQUIRED)

        press(here, operation)
        assert not here.row(operation).round_open
        here.until(operation, State.CANCELLED_ACCEPTED, within_s=60)

        assert here.server.truth.answers == []

    def test_b196_c12_g4_a_cancel_that_is_never_answered_is_stated_in_time(self, world):
        here = world(demo.LOG_ANALYSIS, faults=(fault("tasks/cancel", FaultKind.ANSWER_LOST, times=0),))
        operation = here.submit("log_analysis", b"{}")
        here.until(operation, State.WORKING)
        here.server.scenario = Scenario(
            tools=(demo.LOG_ANALYSIS,), faults=(fault("tasks/cancel", FaultKind.REQUEST_LOST, times=1000),)
        )

        press(here, operation)
        pressed_at = here.loop.time()
        while here.loop.time() < pressed_at + 58:
            here.idle(2)
            ledger.state_overdue(now=here.now())

        assert here.row(operation).cancel_stated
        assert here.row(operation).state is State.CANCEL_REQUESTED

    def test_b198_cancelled_by_somebody_else_is_an_end_of_its_own(self, world):
        here = world(demo.LOG_ANALYSIS)
        operation = here.submit("log_analysis", b"{}")
        here.until(operation, State.WORKING)
        (task,) = here.server._tasks.values()
        task.cancel(here.loop.time(), works_on=False)

        here.until(operation, State.CANCELLED_ACCEPTED, within_s=60)

        assert Receipt.objects.get(operation_id=operation).verdict == "cancelled at the server"

    def test_b199_a_cancel_that_is_always_answered_with_an_error_is_not_hammered(self, world):
        here = world(faults=(fault("tasks/cancel", FaultKind.HTTP_STATUS, status=500, times=10_000),), speed=0.01)
        operation = started(here)

        press(here, operation)
        here.idle(120)

        assert here.row(operation).state is State.CANCEL_REQUESTED
        assert len(arrivals(here, "tasks/cancel")) <= 12

    def test_b199_nor_is_one_that_is_always_refused(self, world):
        here = world(faults=(fault("tasks/cancel", FaultKind.RPC_ERROR, times=10_000),), speed=0.01)
        operation = started(here)

        press(here, operation)
        here.idle(120)

        assert len(arrivals(here, "tasks/cancel")) <= 12


class TestSubmit:
    def test_b200_f1_what_was_lost_is_found_and_never_sent_again(self, world):
        here = world(faults=(fault("tools/call", FaultKind.ANSWER_LOST),), lookup="session_list")

        operation = here.submit("quarterly_report", REPORT)
        here.until(operation, State.WORKING, within_s=60)

        assert len(here.server.truth.created) == 1
        assert Permit.objects.filter(operation_id=operation, kind="SUBMIT").count() == 1

    def test_x2_an_absence_is_believed_after_the_quarantine_only(self, world):
        lost = (fault("tools/call", FaultKind.REQUEST_LOST),)
        here = world(faults=lost, lookup="session_list", quarantine_s=60)

        operation = here.submit("quarterly_report", REPORT)
        here.idle(50)
        assert here.row(operation).state is State.SUBMISSION_UNKNOWN

        here.until(operation, State.NOT_FOUND_SAFE, State.UNKNOWN, within_s=120)
        assert Permit.objects.filter(operation_id=operation).count() == 1

    def test_o5_a_switch_that_shuts_after_the_submit_is_not_run_against(self, world):
        here = world()
        operation = here.submit("quarterly_report", REPORT)
        ledger.set_submits("server", here.slug, is_open=False, reason="off")

        here.idle(120)
        refused = noted(operation, "PermitDenied")
        assert here.row(operation).state is State.SUBMITTING
        assert 1 <= refused <= 10

        ledger.set_submits("server", here.slug, is_open=True, reason="")
        here.until(operation, State.ACCEPTED)

    def test_b208_a_worker_that_died_with_its_permit_leaves_an_unknown(self, world):
        here = world()
        operation = here.submit("quarterly_report", REPORT)
        (work,) = [one for one in ledger.claim(limit=50, now=here.now()) if one.row.id == operation]
        ledger.permit_submit(operation, permit=uuid.uuid4(), as_task=True, ticket=work.ticket, now=here.now())

        row = here.until(operation, State.UNKNOWN, within_s=60)

        assert row.reason == Reason.SUBMIT_LOST
        assert here.server.truth.created == []


class TestRounds:
    @pytest.mark.parametrize("style", [QuestionStyle.REPLAYED, QuestionStyle.ONCE])
    def test_f3_a_question_that_is_shown_again_is_the_same_round(self, world, style):
        here = world(demo.BULK_PRICE_CHANGE, questions=style)
        operation = here.submit("bulk_price_change", b'{"percent": 5}')
        here.until(operation, State.INPUT_REQUIRED)

        for _ in range(3):
            ledger.open_round_page(operation, round=1, now=here.now())
            here.idle(15)

        assert here.row(operation).round == 1

    def test_f3_i4_an_expired_question_under_ever_new_ids_is_one_round_and_its_answer_reaches_the_newest(self, world):
        here = world(demo.BULK_PRICE_CHANGE, questions=QuestionStyle.RENAMED)
        ledger.set_policy(here.slug, "bulk_price_change", ledger.ToolPolicy(answer_within_s=5))
        operation = here.submit("bulk_price_change", b'{"percent": 5}')
        here.until(operation, State.INPUT_REQUIRED)

        here.idle(60)
        assert (here.row(operation).round, here.row(operation).round_open) == (1, False)
        ledger.extend_round(
            operation, round=1, until=here.now() + timedelta(seconds=60), by="person:olga", now=here.now()
        )
        here.answer(operation, '{"approve": true}')
        here.idle(20)

        assert [one.used for one in here.server.truth.answers] == [True]
        assert here.row(operation).round == 2, "the tool asks for something else next"


class TestResult:
    def test_b062_f6_a_result_that_never_comes_whole_is_not_fetched_without_end(self, world):
        here = world(faults=(fault("tasks/result", FaultKind.ANSWER_TRUNCATED, times=10_000),))

        operation = here.submit("quarterly_report", REPORT)
        here.until(operation, State.UNKNOWN, within_s=300)

        assert len(arrivals(here, "tasks/result")) <= 8

    def test_b023_a_tool_that_failed_is_an_outcome_with_its_own_words(self, world):
        def fails(_arguments):
            yield Work(seconds=2)
            return Finish(text="Quota exceeded", is_error=True)

        here = world(Tool(name="fails", title="", description="", script=fails, input_schema={}))

        operation = here.submit("fails")
        here.until(operation, State.ACCEPTED)

        assert outcome(operation) == "TOOL_ERROR"
        assert b"Quota exceeded" in bytes(Receipt.objects.get(operation_id=operation).result)
