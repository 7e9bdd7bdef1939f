"""A rollback in the middle of a request: what was begun before finishes nothing (O3, F7; B265, B266, B269).

Real ledger, real driver, a simulated server that holds its answer, virtual time: the rollback happens while the
request is on the wire, and the answer comes to a worker that set out under the old epoch.
"""

import asyncio
import itertools

import pytest
from django.db import connection

from adapters import registry
from adapters.simulator.scenario import CancelStyle, Fault, FaultKind, Scenario
from adapters.simulator.scripts import Ask, Finish, Tool, Work
from operations import ledger
from operations.machine import State
from operations.models import AdapterRelease, Answer, Journal, Operation, Outbox, ProtocolVersion, Receipt
from tests.adapters.planted import TakesErrorsForSuccess
from tests.operations.world import VERSION

pytestmark = pytest.mark.django_db(transaction=True)
HELD_S = 8


def _report(arguments):
    yield Work(seconds=arguments.get("seconds", 6), message="adding up")
    return Finish(text="no such quarter" if arguments.get("fails") else "done", is_error=bool(arguments.get("fails")))


def _asks(_arguments):
    answer = yield Ask(message="Go on?", schema={"type": "object", "properties": {"ok": {"type": "boolean"}}})
    return Finish(text=f"answered {answer.action}")


REPORT = Tool(name="report", title="Report", description="", script=_report, input_schema={"type": "object"})
ASKS = Tool(name="asks", title="Asks", description="", script=_asks, input_schema={"type": "object"})
LONG = b'{"seconds": 40}'


@pytest.fixture
def world(worlds):
    """A world under r2, with r1 behind it; `method`: the request whose first answer the server holds."""

    def make(method=None, **knobs):
        held = (Fault(on=method, kind=FaultKind.ANSWER_DELAYED, seconds=HELD_S),) if method else ()
        profile = {name: knobs.pop(name) for name in ("lookup", "max_qps", "poll_floor_ms") if name in knobs}
        faults = held + knobs.pop("faults", ())
        here = worlds(Scenario(tools=(REPORT, ASKS), faults=faults, **knobs), **profile)
        release = {"r1": registry.adapter(VERSION, "r1"), "r2": TakesErrorsForSuccess()}
        here.driver._adapter_for = lambda _version, name: release[name]
        for tool in ("report", "asks"):
            ledger.set_policy(here.slug, tool, ledger.ToolPolicy(effect="NONE", expected_s=60))
        ledger.set_share(VERSION, "r2", share=100, note=note(here))
        return here

    return make


def note(here):
    return ledger.Note(by="person:adam", reason="errors were read as success", now=here.now())


def epoch():
    return ProtocolVersion.objects.get(version=VERSION).epoch


def roll_back(here):
    return ledger.roll_back(VERSION, seen_epoch=epoch(), known=("r1", "r2"), in_flight=0, note=note(here))


def stopped_in(here, method):
    """Drive until the server has the request and holds its answer; roll back; let the worker come to its end."""
    ends = here.loop.time() + 120

    def has_arrived():
        return any(arrival.method == method for arrival in here.server.truth.arrivals)

    async def go():
        while not has_arrived():
            assert here.loop.time() < ends, f"nobody sent {method}"
            drive = asyncio.ensure_future(here.turn())
            while not drive.done() and not has_arrived():  # noqa: ASYNC110 - a server sets no event of ours
                await asyncio.sleep(0.1)
        assert not drive.done(), "the answer was not held"
        await here.step(roll_back, here)
        await drive

    here.run(go())


def kinds(operation):
    return set(Journal.objects.filter(operation_id=operation).values_list("kind", flat=True))


def one_receipt(operation):
    [receipt] = Receipt.objects.filter(operation_id=operation)
    assert Outbox.objects.filter(receipt=receipt).count() == 1
    assert receipt.epoch == epoch()
    return receipt


def test_f7_b266_in_the_middle_of_a_fetch_nothing_is_accepted_and_the_next_reads_the_bytes_again(world):
    """r2 would have called it a success; r1 fetches again and reads the tool's own error (R8)."""
    here = world("tasks/result")
    operation = here.submit("report", b'{"fails": true}')

    stopped_in(here, "tasks/result")

    row = here.row(operation)
    assert (row.state, row.result_digest) == (State.FETCHING_RESULT, None)
    assert not Receipt.objects.filter(operation_id=operation).exists()
    assert "STALE" in kinds(operation)
    here.until(operation, State.ACCEPTED)
    assert one_receipt(operation).outcome == "TOOL_ERROR"


def test_f7_in_the_middle_of_a_submit_the_answer_is_kept_and_nothing_is_sent_again(world):
    here = world("tools/call")
    operation = here.submit("report")

    stopped_in(here, "tools/call")

    row = here.row(operation)
    assert (row.state, row.task_id is not None) == (State.SUBMITTING, True)
    assert "STALE" in kinds(operation)
    here.until(operation, State.ACCEPTED)
    assert one_receipt(operation).outcome == "SUCCESS"
    assert len(here.server.truth.created) == 1


def test_f7_in_the_middle_of_an_answer_it_is_not_called_delivered_and_is_not_sent_again(world):
    here = world("answer")
    operation = here.submit("asks")
    here.until(operation, State.INPUT_REQUIRED)
    here.answer(operation, '{"ok": true}')

    stopped_in(here, "answer")

    given = Answer.objects.get(round__operation_id=operation)
    assert given.delivery == "PERMITTED"
    assert "STALE" in kinds(operation)
    here.until(operation, State.ACCEPTED)
    assert one_receipt(operation).outcome == "SUCCESS"
    assert [one.used for one in here.server.truth.answers] == [True]


def test_f7_in_the_middle_of_a_cancel_its_acknowledgement_ends_nothing_and_a_look_does(world):
    here = world("tasks/cancel")
    operation = here.submit("report", LONG)
    here.until(operation, State.WORKING)
    ledger.request_cancel(operation, seen_generation=0, by="person:olga", reason="wrong quarter", now=here.now())

    stopped_in(here, "tasks/cancel")

    assert here.row(operation).state is State.CANCEL_REQUESTED
    assert not Receipt.objects.filter(operation_id=operation).exists()
    assert "STALE" in kinds(operation)
    here.until(operation, State.CANCELLED_ACCEPTED)
    assert one_receipt(operation).outcome == "CANCELLED"
    assert here.server.truth.cancels[0].won


def test_o3_undoing_a_rollback_is_a_new_release_and_never_a_lower_epoch(world):
    here = world()
    roll_back(here)
    raised = epoch()

    ledger.set_share(VERSION, "r3", share=100, note=note(here))
    ledger.set_submits("protocol", VERSION, is_open=True, reason="", note=note(here))

    operation = here.submit("report")
    assert (Operation.objects.get(id=operation).release, Operation.objects.get(id=operation).created_epoch) == (
        "r3",
        raised,
    )
    with pytest.raises(Exception, match="epoch never falls"), connection.cursor() as cursor:
        cursor.execute("UPDATE protocol_version SET epoch = epoch - 1 WHERE version = %s", [VERSION])


def test_b265_a_disabled_version_goes_on_to_one_receipt_each(world):
    """10 WORKING, one asking, one being cancelled, one lost: looks, answer, cancel and lookup go on; no new call."""
    lost = Fault(on="tools/call", kind=FaultKind.ANSWER_LOST, skip=12)
    unlisted = Fault(on="tasks/list", kind=FaultKind.HTTP_STATUS, status=503, skip=1, times=3)
    here = world(faults=(lost, unlisted), cancel=CancelStyle.LATE, lookup="session_list")
    working = [here.submit("report", LONG) for _ in range(10)]
    asking, cancelling = here.submit("asks"), here.submit("report", LONG)
    for operation in (*working, cancelling):
        here.until(operation, State.WORKING)
    here.until(asking, State.INPUT_REQUIRED)
    gone = here.submit("report", LONG)
    here.until(gone, State.SUBMISSION_UNKNOWN)
    ledger.request_cancel(cancelling, seen_generation=0, by="person:olga", reason="wrong", now=here.now())

    ledger.set_submits("protocol", VERSION, is_open=False, reason="an hour of peace", note=note(here))
    with pytest.raises(ledger.SubmitsClosed, match="an hour of peace"):
        here.submit("report")
    here.answer(asking, '{"ok": true}')

    for operation in (*working, asking, gone):
        here.until(operation, State.ACCEPTED)
    here.until(cancelling, State.CANCELLED_ACCEPTED)
    assert [one_receipt(one).outcome for one in (*working, asking, gone)] == ["SUCCESS"] * 12
    assert len(here.server.truth.created) == 13


def test_b269_a_deploy_in_the_middle_of_polls_loses_and_doubles_none(world):
    """Two workers look after 30 calls while the next schema comes: a new column, and a word that we do not know."""
    here = world(max_qps=20, poll_floor_ms=3000)
    flying = [here.submit("report", b'{"seconds": 3600}') for _ in range(30)]
    for operation in flying:
        here.until(operation, State.WORKING)
    before = {operation: here.row(operation).version for operation in flying}
    begun = here.loop.time()

    here.together(2, seconds=20)
    with _next_schema():
        here.together(2, seconds=20)
        assert here.row(here.submit("report", b'{"seconds": 3600}')).state is State.SUBMITTING
    here.together(2, seconds=20)

    looks, arrived = {}, [one for one in here.server.truth.arrivals if one.at > begun]
    for one in arrived:
        if one.method == "tasks/get":
            looks.setdefault(one.session, []).append(one.at)
    gaps = [late - early for times in looks.values() for early, late in itertools.pairwise(times)]
    assert len(looks) >= 30
    assert max(sum(1 for two in arrived if one.at <= two.at < one.at + 1) for one in arrived) <= 20
    assert min(gaps) >= 3
    assert max(gaps) < 3 * 1.2 + 3
    assert {operation: here.row(operation).version for operation in flying} == before
    assert all(here.row(operation).state is State.WORKING for operation in flying)


class _next_schema:  # noqa: N801 - reads as a statement
    """As the next version's migration would leave it, and back."""

    def __enter__(self):
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE operation ADD COLUMN mood text NOT NULL DEFAULT 'calm'")
            cursor.execute("ALTER TABLE adapter_release DROP CONSTRAINT share_fits_mode")
            cursor.execute(
                "INSERT INTO adapter_release (protocol, release, mode, share) VALUES (%s, 'r9', 'CANARY', 7)", [VERSION]
            )

    def __exit__(self, *_):
        AdapterRelease.objects.filter(release="r9").delete()
        kept = next(one for one in AdapterRelease._meta.constraints if one.name == "share_fits_mode")
        with connection.schema_editor() as editor:
            editor.add_constraint(AdapterRelease, kept)
            editor.execute("ALTER TABLE operation DROP COLUMN mood")
