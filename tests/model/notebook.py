"""The ledger without a database: the product's own functions, planned on a row that is held in memory.

Every public function of the ledger ends in `perform`, and what `perform` plans is pure until it is
written. Here it is planned by the very same code (`step.plan`: ticket, table, refusals) and the SQL
is read instead of run. What a few functions ask the database is answered from the same notes.
"""

import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from unittest.mock import patch

from adapters import strictjson
from operations import ledger
from operations.approval import Matter, Policy
from operations.ledger import acceptance, answers, cancel, hearing, looks, permits, rounds, step, submission
from operations.machine import Delivery, State, StepError
from operations.models import PermitKind

NOON = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
HOURS = tuple(NOON + timedelta(hours=n) for n in range(4))
"""Noon; the round's deadline passes; the budget ends; a cancel's grace ends."""
OPERATION = "00000000-0000-0000-0000-000000000001"
GOOD = b'{"content":[{"type":"text","text":"done"}]}'


@dataclass(frozen=True, slots=True)
class Page:
    """All that is kept of one operation. Counters that only count are left at zero."""

    row: ledger.Row
    due: bool = True
    asked: str = ""
    """Digest of the newest round's request."""
    receipts: tuple[str, ...] = ()
    outbox: int = 0
    effect: bool = False
    permits: tuple[str, ...] = ()
    """What became of each submit permit, in order; empty while it is out."""
    odd: str = ""
    """The first thing that must never be written."""


def first_page() -> Page:
    """An operation as `submit` makes it."""
    given = {
        "id": OPERATION,
        "state": State.SUBMITTING,
        "epoch": 1,
        "budget_ends_at": HOURS[2],
        "answer_within_s": 3600,
        "submits_open": True,
        "effect": "EXTERNAL",
        "request_digest": "r",
        "tool_version": "v",
    }
    blanks = {"str": "", "int": 0, "bool": False, "State": None, "datetime": None}
    row = {f.name: given.get(f.name, blanks.get(str(f.type))) for f in fields(ledger.Row)}
    return Page(row=ledger.Row(**row))


class Notebook:
    """Runs ledger functions on a page. `turn` gives the page that follows, and whether it was refused."""

    def __init__(self) -> None:
        self.page = first_page()
        self.now = NOON

    def turn(self, function: Callable, **named) -> bool:
        """Run one ledger function; False when it raised a StepError."""
        try:
            function(OPERATION, now=self.now, **named)
        except StepError:
            return False
        return True

    def perform(self, _operation, change, *, now, actor="executor", ticket=None, exchanges=(), beside=None, asking=()):
        """Stand in for `step.perform`."""
        blank = step.Step(row=self.page.row, now=now, actor=actor, id=uuid.UUID(int=0), ticket=ticket)
        planned, error = step.plan(blank, change, exchanges)
        if error is not None:
            raise error
        page = self.page
        for sql, params in planned._writes:
            page = _read(page, sql, params)
        self.page = replace(page, row=_plain(planned.row))
        return ledger.Moved(operation=OPERATION, version=0, state=planned.row.state)

    def is_replay(self, row, questions):
        """Stand in for the look into `input_round`."""
        return bool(row.round) and self.page.asked == rounds.request_digest(questions)

    def fate(self, planned, number, _digest):
        """Stand in for the look into `input_round` and `answer`."""
        row = planned.row
        is_open = row.round_open and row.state is State.INPUT_REQUIRED and row.round == number
        in_time = row.round_deadline_at is not None and planned.now < row.round_deadline_at
        return None if is_open and in_time else ledger.RoundFate(status="CLOSED")

    def open_question(self, permit):
        """Stand in for the look into `permit`: this server honours no key, so that each is a submit's."""
        is_open = permit is not None and self.page.permits[permit.int - 1] in {"", "lost"}
        return PermitKind.SUBMIT if is_open else None

    def stored_result(self, _operation):
        """Stand in for the look into `evidence_payload`."""
        return (GOOD if self.page.row.result_digest else None), None

    def settle(self, _operation, permit, settlement, *, now):
        """Stand in for the settlement outside of a change."""
        self.page = _settled(self.page, permit, settlement)

    def opened(self) -> ExitStack:
        """Put the notebook in the database's place."""
        stack = ExitStack()
        for module in (submission, looks, cancel, rounds, answers, acceptance):
            stack.enter_context(patch.object(module, "perform", self.perform))
        for module, name, stand_in in (
            (looks, "bound_elsewhere", lambda _operation, _task: None),
            (submission.looks, "bound_elsewhere", lambda _operation, _task: None),
            (hearing, "brought", lambda _row: False),
            (rounds, "is_replay", self.is_replay),
            (rounds, "follow_names", lambda _step, _questions: None),
            (rounds, "policy_of", lambda _tool, _effect: Policy()),
            (rounds, "_tell_expired", lambda _step: None),
            (rounds, "_is_only_send", lambda _row, _permit: True),
            (answers, "_fate", self.fate),
            (answers, "_case", lambda _step, _number: (Policy(), Matter(server="", principal=""), [])),
            (answers, "_recorded", lambda _operation, _form: False),
            (answers, "_refused_at", lambda _operation, _form: None),
            (submission, "_settle", self.settle),
            (submission, "open_question", self.open_question),
            (permits, "open_question", self.open_question),
            (acceptance, "_stored_result", self.stored_result),
            (cancel, "_ended_at", lambda _operation: None),
            (cancel, "read", lambda _operations: {OPERATION: self.page.row}),
        ):
            stack.enter_context(patch.object(module, name, stand_in))
        return stack


def _read(page: Page, sql: str, params) -> Page:
    if "INSERT INTO receipt" in sql:
        return replace(page, receipts=(*page.receipts, f"{params[3]}: {params[4]}" if params[4] else str(params[3])))
    if "INSERT INTO outbox" in sql:
        return replace(page, outbox=page.outbox + 1)
    if "INSERT INTO effect_record" in sql:
        return replace(page, effect=True)
    if "INSERT INTO input_round" in sql:
        return replace(page, asked=params[5])
    if "INSERT INTO permit" in sql:
        return _permitted(page, params)
    if "UPDATE permit" in sql:
        return _accounted_for(page, params[1]) if "kind IN" in sql else _settled(page, params[3], params[1])
    if "DELETE FROM due" in sql:
        return replace(page, due=False)
    return replace(page, due=True) if "INSERT INTO due" in sql else page


def _permitted(page: Page, params) -> Page:
    kind = params[2].value
    if kind == "SUBMIT":
        odd = (
            "" if all(one in {"not_sent", "disproved"} for one in page.permits) else "a second submit while one is out"
        )
        return replace(page, permits=(*page.permits, ""), odd=page.odd or odd)
    state = page.row.state
    if kind == "ANSWER" and (page.row.cancel_intent or state is not State.INPUT_REQUIRED):
        return replace(page, odd=page.odd or "an answer is let out after a cancel")
    return page


def _settled(page: Page, permit, settlement: str) -> Page:
    if permit is not None and permit.int > len(page.permits):
        return page  # of an answer or a cancel
    chosen = [n for n, held in enumerate(page.permits, 1) if (permit.int == n if permit else not held)]
    return replace(page, permits=tuple(settlement if n in chosen else held for n, held in enumerate(page.permits, 1)))


def _accounted_for(page: Page, settlement: str) -> Page:
    return replace(page, permits=tuple(settlement if held in {"", "lost"} else held for held in page.permits))


def _plain(row: ledger.Row) -> ledger.Row:
    """Leave out what no decision reads."""
    return replace(
        row,
        version=0,
        evidence_count=0,
        protocol_message="",
        task_created_at="",
        cancel_sends=min(row.cancel_sends, 1),
        cancel_requested_by="",
        cancel_settled_at=None,
        lost_at=None,
        first_sent_at=None,
        answer_delivery=Delivery(row.answer_delivery) if row.answer_delivery else None,
    )


def result():
    """What the server gives when the result is fetched."""
    from adapters.contract import ToolResult

    return ToolResult(raw=GOOD, value=strictjson.parse(GOOD), is_error=False)
