"""A ledger room: one registered server with one tool, and operations brought anywhere by the ledger's own functions.

Nothing here writes a table of an operation itself, so what a test finds is what the ledger does.
"""

import threading
import time
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.db import OperationalError, connection

from adapters import strictjson
from adapters.contract import (
    Absent,
    Capabilities,
    Ended,
    Exchange,
    Mode,
    NeedsInput,
    Negotiation,
    ProtocolStatus,
    Question,
    TaskFacts,
    TaskSupport,
    ToolDescriptor,
    ToolResult,
    Working,
)
from operations import ledger
from operations.ledger import journey, step
from operations.machine import Reason, StaleStep, State
from operations.models import Answer, EffectRecord, Evidence, Journal, Outbox, Permit, Receipt, Round
from operations.queries import invariants
from operations.verdicts import Verdict
from tests.approvers import everybody

NOON = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
VERSION = "2025-11-25"
PATIENCE_S = 60.0
SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
GOOD = b'{"content":[{"type":"text","text":"done"}],"isError":false}'


def seen(body=b"{}"):
    """One exchange, as evidence."""
    return (Exchange(label="tasks/get", request=b"{}", http_status=200, body=body),)


def result(raw=GOOD, *, is_error=False, task_id=None):
    return ToolResult(raw=raw, value=strictjson.parse(raw), is_error=is_error, task_id=task_id, exchanges=seen(raw))


class Room:
    """One server of the ledger. `now` is the time that every call is made at; move it as you like."""

    def __init__(self, *, effect="NONE", output_schema=None, budget_s=3600, answer_within_s=1800, **profile):
        self.server = f"room-{uuid.uuid4().hex[:16]}"
        self.now = NOON
        ledger.register_protocol(VERSION, release="r1")
        url = "http://room.test/mcp"
        ledger.register_server(
            ledger.NewServer(
                slug=self.server, title="Room", url=url, **({"protocol": VERSION, "max_qps": 50} | profile)
            )
        )
        self.describe(output_schema)
        policy = ledger.ToolPolicy(effect=effect, budget_s=budget_s, answer_within_s=answer_within_s)
        ledger.set_policy(self.server, "tool", policy)

    def describe(self, output_schema=None, input_schema=None):
        """Negotiate again: the server describes its tool like this from now on."""
        declared = Capabilities(
            server_name="s", server_version="1", creates_tasks=True, cancels_tasks=True, lists_tasks=True
        )
        raw = strictjson.canonical({"name": "tool", "outputSchema": output_schema, "inputSchema": input_schema or {}})
        tool = ToolDescriptor(
            name="tool",
            title="",
            description="",
            task_support=TaskSupport.OPTIONAL,
            input_schema=input_schema or {},
            output_schema=output_schema,
            raw=raw,
            digest=strictjson.digest(raw),
        )
        ledger.save_negotiation(self.server, Negotiation(capabilities=declared, tools=(tool,)), now=self.now)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Leave nothing due: another test's claim must not find it."""
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM due WHERE server_id = %s", [self.server])

    # Reading ------------------------------------------------------------------------------------

    def row(self, operation):
        return ledger.read([operation])[operation]

    def ticket(self, operation):
        return ledger.ticket_of(self.row(operation))

    def due(self, operation):
        """(due at, urgent, lease until, look, misses), or None when nobody needs to look."""
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT due_at, urgent, lease_until, look, misses FROM due WHERE operation_id = %s", [operation]
            )
            return cursor.fetchone()

    def claims(self, operation):
        """Raise the look number as a claim does."""
        with connection.cursor() as cursor:
            cursor.execute("UPDATE due SET look = look + 1 WHERE operation_id = %s", [operation])
        return self.ticket(operation)

    def journal(self, operation, **named):
        return list(Journal.objects.filter(operation_id=operation, **named).order_by("id"))

    def events(self, operation):
        return [row.event for row in self.journal(operation)]

    def evidence(self, operation):
        return Evidence.objects.filter(operation_id=operation).count()

    def receipt(self, operation):
        return Receipt.objects.filter(operation_id=operation).first()

    def outbox(self, operation):
        return Outbox.objects.filter(receipt__operation_id=operation).count()

    def effect(self, operation):
        return EffectRecord.objects.filter(operation_id=operation).first()

    def permits(self, operation):
        return list(Permit.objects.filter(operation_id=operation).order_by("given_at", "-kind"))

    def round(self, operation):
        return Round.objects.filter(operation_id=operation).order_by("-number").first()

    def given(self, operation):
        return Answer.objects.filter(round__operation_id=operation).order_by("-at").first()

    # What a server may show -----------------------------------------------------------------------

    def facts(self, operation, status="working", **named):
        named = {"task_id": f"task-of-{operation}", "created_at": "2026-11-29T12:00:00Z"} | named
        return TaskFacts(status=ProtocolStatus(status), **named)

    def working(self, operation, **named):
        return Working(task=self.facts(operation, **named), exchanges=seen())

    def asking(self, operation, *messages, **named):
        questions = tuple(question(message) for message in messages or ("Go on?",))
        return NeedsInput(task=self.facts(operation, "input_required", **named), questions=questions, exchanges=seen())

    def ended(self, operation, status="completed", **named):
        return Ended(
            status=ProtocolStatus(status), task=self.facts(operation, status, **named), exchanges=seen(status.encode())
        )

    def absent(self):
        return Absent(code=-32602, message="unknown task", exchanges=seen())

    # Ways through the ledger ------------------------------------------------------------------------

    def call(self, **named):
        node = f"node-{uuid.uuid4()}"
        told = {"client": "tests", "call_node": node, "submission_key": f"key-{node}", "arguments": b"{}"}
        return ledger.NewCall(**(told | {"server": self.server, "tool": "tool", "principal": "ann"} | named))

    def submit(self, **named):
        operation = ledger.submit(self.call(**named), now=self.now).operation
        self._grant(operation)
        return operation

    def _grant(self, operation):
        """As a claim does: the wish for a drive is fulfilled."""
        with connection.cursor() as cursor:
            cursor.execute("UPDATE due SET urgent = false WHERE operation_id = %s", [operation])

    def step(self, function, operation, **named):
        """One ledger step under a ticket that fits, unless the test brings its own."""
        return function(operation, **({"ticket": self.ticket(operation), "now": self.now} | named))

    def permit(self, operation, **named):
        permit = uuid.uuid4()
        self.step(ledger.permit_submit, operation, permit=permit, as_task=True, **named)
        return permit

    def answer_submit(self, operation, observed, **named):
        permit = self.permit(operation)
        return self.step(ledger.submit_answered, operation, permit=permit, seen=observed, next_at=self.later(), **named)

    def comes_late(self, operation, observed, *, permit, ticket):
        """The answer to a submit comes when its ticket no longer fits."""
        with pytest.raises(StaleStep):
            self.step(
                ledger.submit_answered, operation, permit=permit, seen=observed, next_at=self.later(), ticket=ticket
            )

    def saw(self, operation, observed, **named):
        return self.step(ledger.saw, operation, **({"seen": observed, "next_at": self.later()} | named))

    def later(self, seconds=10):
        return self.now + timedelta(seconds=seconds)

    def press(self, operation, **named):
        told = {"seen_generation": None, "by": "person:olga", "reason": "enough"}
        return ledger.request_cancel(operation, now=self.now, **(told | named))

    def answer(self, operation, *, number=None, digest=None, form=None, by="person:ada"):
        asked = self.round(operation)
        return ledger.answer_round(
            operation,
            round=number or asked.number,
            request_digest=digest or asked.request_digest,
            as_shown_digest="0" * 64,
            form_id=form or uuid.uuid4(),
            replies=[ledger.GivenReply(key=one["key"], action="accept", content="{}") for one in asked.questions],
            people=everybody,
            by=by,
            now=self.now,
        )

    def at(self, state):
        """Make an operation and bring it to `state`, the shortest way."""
        operation = self.submit()
        getattr(self, f"_to_{state.value.lower()}")(operation)
        assert self.row(operation).state is state
        self._grant(operation)
        return operation

    def _to_submitting(self, operation):
        pass

    def _to_submission_unknown(self, operation):
        self.permit(operation)
        self.step(ledger.submit_lost, operation, why="no answer")

    def _to_not_found_safe(self, operation):
        self.permit(operation)
        self.step(ledger.nothing_created, operation, reason=Reason.ADMIN_REFUSAL, why="401", next_at=self.later())

    def _to_working(self, operation):
        self.answer_submit(operation, self.working(operation))

    def _to_input_required(self, operation):
        self._to_working(operation)
        self.saw(operation, self.asking(operation))

    def _to_cancel_requested(self, operation):
        self._to_working(operation)
        self.press(operation)

    def _to_terminal_observed(self, operation):
        self._to_working(operation)
        self.saw(operation, self.ended(operation))

    def _to_fetching_result(self, operation):
        self._to_terminal_observed(operation)
        self.step(ledger.fetch_started, operation)

    def _to_unknown(self, operation):
        self._to_working(operation)
        self.saw(operation, self.absent())

    def _to_accepted(self, operation, fetched=None):
        self._to_fetching_result(operation)
        self.step(ledger.result_fetched, operation, result=fetched or result())
        self.step(ledger.accept_result, operation, facts=ledger.Facts.held_by(self.row(operation)))

    def _to_cancelled_accepted(self, operation):
        self._to_cancel_requested(operation)
        permit = uuid.uuid4()
        self.step(ledger.permit_cancel, operation, permit=permit)
        self.step(ledger.cancel_won, operation, permit=permit, exchanges=seen(b"cancelled"))

    def _to_refused(self, operation):
        self.permit(operation)
        self.step(ledger.refuse, operation, reason=Reason.REQUEST_REFUSED, why="no such argument")

    def _to_reconciled(self, operation):
        self._to_unknown(operation)
        version = self.row(operation).version
        told = {"seen_version": version, "by": "person:olga", "reason": "nobody knows", "now": self.now}
        judged = ledger.judge(operation, Verdict.GAVE_UP, **told)
        if judged.proposal:
            ledger.confirm(judged.proposal, by="person:otto", now=self.now)


def fence_off(version=VERSION, *, now=NOON):
    """Roll the version back and let calls in again; return the epoch that is now in force (O3, F7)."""
    note = ledger.Note(by="person:axel", reason="a fence", now=now)
    with connection.cursor() as cursor:
        cursor.execute("SELECT epoch FROM protocol_version WHERE version = %s", [version])
        (seen_epoch,) = cursor.fetchone()
    done = ledger.roll_back(version, seen_epoch=seen_epoch, known=("r1",), in_flight=0, note=note)
    ledger.set_share(version, done.takes_over, share=100, note=note)
    ledger.set_submits("protocol", version, is_open=True, reason="", note=note)
    return done.epoch


def breaches(operation):
    """Every invariant of the ledger that the operation breaks: its name, and how."""
    return [(one.invariant.name, one.what) for one in invariants.breaches([operation])]


def question(message="Go on?", key="0"):
    return Question(
        key=key,
        mode=Mode.FORM,
        message=message,
        schema=SCHEMA,
        raw=b"{}",
        digest=strictjson.digest_of([message]),
    )


def together(*functions):
    """Run each in a thread with a connection of its own, all at once; give each one's value or exception."""
    barrier, came = threading.Barrier(len(functions), timeout=PATIENCE_S), [None] * len(functions)

    def run(place, function):
        try:
            barrier.wait()
            came[place] = function()
        except Exception as error:  # noqa: BLE001 - handed to the test
            came[place] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=each) for each in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not any(thread.is_alive() for thread in threads), "they wait for each other"
    return came


def until_somebody_waits_for_a_lock():
    """Return when another connection of this database stands before a lock."""
    deadline = time.monotonic() + PATIENCE_S
    with connection.cursor() as cursor:
        while time.monotonic() < deadline:
            cursor.execute("SELECT pg_stat_clear_snapshot()")  # within a transaction the view stands still
            cursor.execute(
                "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            if cursor.fetchone():
                return
            time.sleep(0.01)
    raise AssertionError("nobody waits for a lock")


def break_commit(monkeypatch, *, after, times=1):
    """Break this connection at its next COMMIT: after it really happened, or before."""
    left, commit = [times], connection._commit

    def broken():
        if not left[0]:
            return commit()
        left[0] -= 1
        if after:
            commit()
        connection.connection.close()
        raise OperationalError("the connection broke at COMMIT")

    monkeypatch.setattr(connection, "_commit", broken)
    # A step sends COMMIT with its last writes: here it goes by itself, so that it can break by itself.
    monkeypatch.setattr(step, "together", lambda statements, **_end: journey.together(statements))


EVERY_STATE = tuple(State)
