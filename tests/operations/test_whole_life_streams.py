"""Whole lives on a server that asks on its standing stream alone and never says that it waits (I4, I6, P7)."""

import itertools
import uuid
from datetime import timedelta

import pytest

from adapters import registry
from adapters.contract import Exchange, Overheard
from adapters.simulator import demo
from adapters.simulator.scenario import Fault, FaultKind, QuestionStyle, Scenario
from operations import ledger, streams
from operations.machine import State
from operations.models import Answer, HeardQuestion, Journal, Listener, Receipt, Round
from operations.streams import Streams
from tests.operations.room import question

pytestmark = pytest.mark.django_db(transaction=True)

TOOL = "bulk_price_change"


class Process:
    """One process with streams of its own over the world's ledger and server."""

    def __init__(self, world):
        self._world = world
        self.streams = Streams(adapter_for=registry.adapter, wire_for=world.wire, run=world.step, clock=world.now)

    def drives(self):
        self._world.driver.listen = self.streams.hold

    def ends(self):
        self._world.run(self.streams.aclose())


@pytest.fixture
def world(worlds):
    made = []

    def make(*, listens=True, questions=QuestionStyle.STANDING, **knobs):
        scenario = Scenario(tools=(demo.BULK_PRICE_CHANGE,), questions=questions, **knobs)
        here = worlds(scenario, listens=listens)
        here.process = Process(here)
        here.process.drives()
        made.append(here)
        return here

    yield make
    for one in made:
        one.process.ends()


def submitted(here):
    return here.submit(TOOL, b'{"percent": 5}')


def test_both_questions_are_heard_asked_answered_and_used(world):
    here = world()
    operation = submitted(here)

    row = here.until(operation, State.INPUT_REQUIRED)
    assert (row.round, row.protocol_status) == (1, "working")
    here.answer(operation, '{"category": "garden", "max_products": 400}')
    here.idle(25)
    row = here.until(operation, State.INPUT_REQUIRED)
    assert row.round == 2
    here.answer(operation, '{"confirm": true}')
    here.until(operation, State.ACCEPTED)

    assert [answer.used for answer in here.server.truth.answers] == [True, True]
    assert Receipt.objects.get(operation_id=operation).outcome == "SUCCESS"
    assert list(HeardQuestion.objects.filter(operation_id=operation).values_list("round", flat=True)) == [1, 2]


def test_i6_an_answer_is_not_called_used_on_the_word_of_a_server_that_never_says_it_waits(world):
    """`working` is all that it ever shows: that it took the answer is all we know, also of one that was lost."""
    here = world(faults=(Fault(on="answer", kind=FaultKind.REQUEST_LOST),))
    operation = submitted(here)
    here.until(operation, State.INPUT_REQUIRED)

    here.answer(operation, '{"category": "garden", "max_products": 400}')
    here.until(operation, State.WORKING)
    here.idle(30)

    answer = Answer.objects.get(round__operation_id=operation)
    assert (answer.delivery, answer.used_at) == ("UNCERTAIN", None)
    assert here.row(operation).round == 1, "it waits for ever, and our budget ends that"


def test_without_a_stream_the_question_is_never_heard(world):
    """What the option is for: nothing else of this server says that a person is wanted."""
    here = world(listens=False)
    operation = submitted(here)

    here.idle(120)

    assert here.row(operation).state is State.WORKING


def test_a_working_status_closes_no_round_of_such_a_server(world):
    """An approver's opening of the page brings a look, and so does the answer's delivery (I1)."""
    here = world()
    operation = submitted(here)
    here.until(operation, State.INPUT_REQUIRED)

    assert ledger.open_round_page(operation, round=1, now=here.now())
    here.idle(5)

    row = here.row(operation)
    assert (row.state, row.round_open) == (State.INPUT_REQUIRED, True)
    assert Round.objects.filter(operation_id=operation).count() == 1


def test_c11_a_question_heard_after_the_press_is_evidence_and_never_a_form(world):
    here = world()
    operation = submitted(here)
    here.until(operation, State.WORKING)

    ledger.request_cancel(operation, seen_generation=None, by="person:olga", reason="no", now=here.now())
    here.until(operation, State.CANCELLED_ACCEPTED)
    here.idle(60)

    assert not Round.objects.filter(operation_id=operation).exists()


def test_the_stream_is_left_when_the_operation_has_ended(world):
    here = world()
    operation = submitted(here)
    here.until(operation, State.WORKING)
    assert Listener.objects.filter(operation_id=operation).count() == 1

    ledger.request_cancel(operation, seen_generation=None, by="person:olga", reason="no", now=here.now())
    here.until(operation, State.CANCELLED_ACCEPTED)
    here.idle(streams.RENEW_S * 2)

    assert not Listener.objects.filter(operation_id=operation).exists()


def test_one_process_holds_the_stream_and_the_next_takes_over_when_it_is_gone(world):
    """A second stream of a session is refused by its server; a dead holder's lease ends by itself."""
    here = world()
    operation = submitted(here)
    here.until(operation, State.WORKING)
    first, other = here.process, Process(here)
    other.drives()
    here.idle(10)
    holder = Listener.objects.get(operation_id=operation).holder
    here.until(operation, State.INPUT_REQUIRED)

    first.ends()
    here.answer(operation, '{"category": "garden", "max_products": 400}')
    here.idle(25)
    row = here.until(operation, State.INPUT_REQUIRED)

    assert row.round == 2
    assert Listener.objects.get(operation_id=operation).holder != holder
    other.ends()


def test_a_dead_holders_lease_ends(world):
    here = world()
    operation = submitted(here)
    here.until(operation, State.WORKING)
    session, now = here.row(operation).session, here.now()
    taken = {"session": session, "holder": uuid.uuid4()}

    early = ledger.take_stream(operation, **taken, until=now, now=now)
    late = ledger.take_stream(operation, **taken, until=now + streams.LEASE, now=now + 2 * streams.LEASE)

    assert early is None
    assert late == ""


@pytest.mark.parametrize("questions", [QuestionStyle.ONCE, QuestionStyle.REPLAYED])
def test_b122_a_server_without_a_stream_is_asked_for_one_once_and_serves_as_before(world, questions):
    here = world(questions=questions)
    operation = submitted(here)

    here.until(operation, State.INPUT_REQUIRED)
    here.answer(operation, '{"category": "garden", "max_products": 400}')
    here.idle(25)
    here.until(operation, State.INPUT_REQUIRED)

    assert not Listener.objects.filter(operation_id=operation).exists()


def test_b109_sessions_that_are_lost_together_are_replaced_one_at_a_time(world):
    """No storm: at no time are two `initialize` of this process under way."""
    lost = Fault(on="tasks/get", kind=FaultKind.SESSION_LOST, skip=20, times=8)
    slow = Fault(on="initialize", kind=FaultKind.ANSWER_DELAYED, seconds=2, skip=9, times=8)
    here = world(questions=QuestionStyle.ONCE, listens=False, faults=(lost, slow), poll_ms=1000)
    operations = [submitted(here) for _ in range(8)]

    here.idle(120)

    renewed = sorted(arrival.at for arrival in here.server.truth.arrivals if arrival.method == "initialize")[9:]
    assert renewed, "no session was lost"
    assert all(after - before >= 2 for before, after in itertools.pairwise(renewed))
    assert Journal.objects.filter(operation_id__in=operations, event="SESSION_LOST").count() == len(renewed)


def heard(here, operation, *, event_id="", key="0", message="Go on?", task_id=None):
    one = Overheard(
        question=question(message, key),
        task_id=task_id,
        event_id=event_id,
        exchange=Exchange(label="GET stream", request=b"", http_status=200, body=b"data: {}"),
    )
    return ledger.overheard(operation, session=here.row(operation).session, heard=one, now=here.now())


def test_b123_an_event_that_is_replayed_is_kept_once(world):
    here = world(listens=False)
    operation = submitted(here)
    here.until(operation, State.WORKING)

    heard(here, operation, event_id="e-1")
    heard(here, operation, event_id="e-1")
    heard(here, operation, event_id="e-2", message="And now?")

    assert HeardQuestion.objects.filter(operation_id=operation).count() == 2
    assert [one.message for one in ledger.waiting(operation).questions] == ["And now?"], "the newest of one id"


def test_b033_a_question_that_names_another_task_is_nobodys(world):
    here = world(listens=False)
    operation = submitted(here)
    here.until(operation, State.WORKING)

    heard(here, operation, task_id="another")

    assert ledger.waiting(operation).questions == ()


def test_a_question_of_a_lost_session_cannot_be_answered_in_the_next(world):
    here = world(listens=False)
    operation = submitted(here)
    here.until(operation, State.WORKING)
    heard(here, operation)
    ticket = ledger.ticket_of(here.row(operation))
    assert ledger.waiting(operation).questions

    ledger.session_lost(
        operation, ticket=ticket, exchanges=(), next_at=here.now() + timedelta(minutes=1), now=here.now()
    )

    assert ledger.waiting(operation).questions == ()


def test_p6_a_question_that_comes_after_the_end_is_evidence(world):
    here = world(listens=False)
    operation = submitted(here)
    here.until(operation, State.WORKING)
    session = here.row(operation).session
    ledger.request_cancel(operation, seen_generation=None, by="person:olga", reason="no", now=here.now())
    here.until(operation, State.CANCELLED_ACCEPTED)
    before = here.row(operation).evidence_count

    heard(here, operation)

    row = here.row(operation)
    assert row.session == session
    assert (row.state, row.evidence_count) == (State.CANCELLED_ACCEPTED, before + 1)
