"""The one door to a final state: the receipt, and the row that lets the call node advance (R3)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime

from adapters import strictjson
from adapters.contract import MASK, Exchange, ProtocolStatus, ToolResult
from operations import outputguard
from operations.ledger import rounds
from operations.ledger.several import Fate, Wanted, perform_all
from operations.ledger.step import JOURNAL, RETIREMENT, Change, Moved, Row, Step, perform
from operations.ledger.writes import Write, change, insertion
from operations.machine import Event, Outcome, Reason, State, StepError, Ticket
from operations.models import Effect, EffectStatus

MOST_BYTES = 4_000_000
"""So much of results is accepted in one transaction; a single one may be larger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The eight facts that a receipt is matched on (R3). None is a value."""

    call_node: tuple[str, str]
    request_digest: str
    task_id: str | None
    tool_version: str
    epoch: int
    cancel_generation: int
    terminal_status: str | None
    result_digest: str | None

    @classmethod
    def held_by(cls, row: Row) -> Facts:
        """The facts as the ledger's row has them now."""
        return cls(
            call_node=(row.client, row.call_node),
            request_digest=row.request_digest,
            task_id=row.task_id,
            tool_version=row.tool_version,
            epoch=row.epoch,
            cancel_generation=row.cancel_generation,
            terminal_status=row.terminal_status,
            result_digest=row.result_digest,
        )


class FactsDiffer(StepError):
    """What the executor wants accepted is not what the ledger holds. Nothing was written (R3)."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__("these facts do not match: " + ", ".join(names))
        self.names = names


class ResultRefused(StepError):
    """The stored result may not be accepted: it is missing, or the output guard objects (R2)."""

    def __init__(self, findings: tuple[str, ...]) -> None:
        super().__init__("; ".join(findings))
        self.findings = findings


RECEIPT = insertion(
    "receipt",
    id="uuid",
    operation_id="uuid",
    at="timestamptz",
    outcome="text",
    verdict="text",
    summary="text",
    client="text",
    call_node="text",
    request_digest="text",
    task_id="text",
    tool_version="text",
    epoch="int",
    cancel_generation="int",
    terminal_status="text",
    result_digest="text",
    result="bytea",
    decided_by="text",
)
READY = Write(
    one="""INSERT INTO outbox (receipt_id, seq, client, ready_at, deliveries)
        VALUES (%s, nextval('outbox_seq'), %s, %s, 0)""",
    many="""INSERT INTO outbox (receipt_id, seq, client, ready_at, deliveries)
        SELECT receipt_id, nextval('outbox_seq'), client, ready_at, 0
        FROM unnest(%s::uuid[], %s::text[], %s::timestamptz[]) AS many(receipt_id, client, ready_at)""",
)
END = change("operation", state="text", entered_at="timestamptz", version="int", reason="text", look="bigint")
"""What acceptance changes of an operation when there is nothing besides to settle."""


def accept_terminal(
    step: Step,
    facts: Facts,
    *,
    event: Event,
    outcome: Outcome,
    result: bytes | None = None,
    verdict: str = "",
    summary: str = "",
) -> None:
    """Enter the final state that `event` leads to, with its receipt and its outbox row.

    The only code that writes a receipt, for every outcome. Raises FactsDiffer, IllegalStep.
    """
    held = Facts.held_by(step.row)
    differing = tuple(f.name for f in fields(Facts) if getattr(facts, f.name) != getattr(held, f.name))
    if differing:
        raise FactsDiffer(differing)
    step.move(event, detail={"outcome": outcome.value, "verdict": verdict})
    rounds.supersede(step)
    receipt = uuid.uuid4()
    step.write(
        RECEIPT.one,
        [receipt, step.row.id, step.now, outcome, verdict, summary, *facts.call_node]
        + [facts.request_digest, facts.task_id, facts.tool_version, facts.epoch]
        + [facts.cancel_generation, facts.terminal_status, facts.result_digest, result, step.actor],
    )
    step.write(READY.one, [receipt, step.row.client, step.now])
    if _leaves_doubt(step.row, outcome):
        open_effect(step, cause=outcome.value)
    step.retire()


def _leaves_doubt(row: Row, outcome: Outcome) -> bool:
    """C6: whether the outcome leaves open what happened outside."""
    if row.effect == Effect.NONE or row.nothing_exists:
        return False
    if outcome is Outcome.TOOL_ERROR:
        return row.effect_on_error
    return outcome in {Outcome.CANCELLED, Outcome.RECONCILED}


def open_effect(step: Step, *, cause: str, fact: dict[str, str] | None = None) -> None:
    """Open the operation's effect record, or add a fact to the one there is (C4, C6)."""
    answers_out = """SELECT COALESCE(jsonb_agg(jsonb_build_object(
            'what', 'answer out', 'round', r.number, 'delivery', a.delivery)), '[]'::jsonb)
        FROM answer a JOIN input_round r ON r.id = a.round_id
        WHERE r.operation_id = %s
            AND a.delivery IN ('PERMITTED', 'SENT', 'UNCERTAIN', 'USED')"""
    step.write(
        f"""INSERT INTO effect_record (operation_id, opened_at, cause, facts, status, owner, note,
            link, decided_by)
        VALUES (%s, %s, %s, ({answers_out}) || %s::jsonb, %s, '', '', '', '')
        ON CONFLICT (operation_id)
        DO UPDATE SET facts = effect_record.facts || %s::jsonb""",
        [step.row.id, step.now, cause, step.row.id, json.dumps([fact] if fact else []), EffectStatus.OPEN]
        + [json.dumps([fact] if fact else [])],
    )


def fetch_started(operation: str, *, ticket: Ticket, now: datetime) -> Moved:
    """Enter FETCHING_RESULT, or count one more fetch there; re-entrant by lease (R8)."""

    def change(step: Step) -> None:
        fetches = step.row.fetches + 1
        if step.row.state is State.FETCHING_RESULT:
            step.note("FETCH_AGAIN", fetches=fetches)
        else:
            step.move(Event.FETCH_STARTED, fetches=fetches)

    return perform(operation, change, now=now, ticket=ticket)


def keep_result(step: Step, result: ToolResult, *, seen: Sequence[Exchange]) -> None:
    """Store the fetched bytes and their digest as evidence; nothing is accepted by it (X3).

    A known credential in them was masked before anything was read; that stands in the journal (R8).
    """
    masked = result.raw.count(MASK) if any(one.masked for one in seen) else 0
    step.keep_raw(kind="result", label="result", raw=result.raw, masked=masked)
    if masked:
        step.note("RESULT_MASKED", detail={"places": masked})
    step.set(
        result_digest=strictjson.digest(result.raw),
        result_is_error=result.is_error,
        result_task_id=result.task_id,
    )


def result_fetched(operation: str, *, ticket: Ticket, result: ToolResult, now: datetime) -> Moved:
    """Store a fetched result; the lease goes on, acceptance is the next step."""

    def change(step: Step) -> None:
        keep_result(step, result, seen=result.exchanges)
        step.note("RESULT_FETCHED", detail={"bytes": len(result.raw)})

    return perform(operation, change, now=now, ticket=ticket, exchanges=result.exchanges)


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """What `accept_result` is asked for."""

    operation: str
    ticket: Ticket
    facts: Facts
    now: datetime


def accept_result(operation: str, *, ticket: Ticket, facts: Facts, now: datetime) -> Moved:
    """Accept the stored result of a completed or failed task (R2, R3).

    Raises FactsDiffer, and ResultRefused when the bytes are gone or the output guard objects;
    then `result_unusable` is the next step.
    """
    asking = [(_STORED_RESULTS, [[operation]])]
    return perform(operation, _acceptance(facts), now=now, ticket=ticket, asking=asking)


def accept_results(asked: Sequence[Acceptance]) -> list[Fate]:
    """Do each as `accept_result` does, in one transaction: what ends in the same moment waits for one flush.

    Gives for each where it stands, or what `accept_result` would have raised for it; one that is refused keeps no
    other back. See Note [Several in one transaction] in `several`.
    """
    wanted = [
        Wanted(operation=each.operation, change=_acceptance(each.facts), ticket=each.ticket, now=each.now)
        for each in asked
    ]
    return perform_all(wanted, asking=_STORED_RESULTS, writes=(JOURNAL, RECEIPT, READY, RETIREMENT, END))


def _acceptance(facts: Facts) -> Change:
    def accept(step: Step) -> None:
        raw, schema = _stored_result(step)
        if raw is None or strictjson.digest(raw) != step.row.result_digest:
            raise ResultRefused(("the stored result bytes are missing or changed",))
        failed = step.row.terminal_status == ProtocolStatus.FAILED or step.row.result_is_error
        findings = outputguard.inspect(
            raw, schema=schema, is_error=failed, named=step.row.result_task_id, task_id=step.row.task_id
        )
        if findings:
            raise ResultRefused(findings)
        outcome = Outcome.TOOL_ERROR if failed else Outcome.SUCCESS
        accept_terminal(step, facts, event=Event.RESULT_ACCEPTED, outcome=outcome, result=raw)

    return accept


# Of many only so much as fits into memory beside everything else: whoever is left out is accepted by itself.
_STORED_RESULTS = f"""SELECT id, raw, schema FROM (
        SELECT o.id, p.raw, td.output_schema::text AS schema, row_number() OVER (ORDER BY o.id) AS place,
            sum(octet_length(p.raw)) OVER (ORDER BY o.id) AS bytes
        FROM operation o JOIN tool_descriptor td ON td.id = o.descriptor_id LEFT JOIN LATERAL (
            SELECT p.raw FROM evidence e JOIN evidence_payload p ON p.evidence_id = e.id
            WHERE e.operation_id = o.id AND e.kind = 'result' AND e.digest = o.result_digest
            ORDER BY e.seq DESC LIMIT 1) p ON true
        WHERE o.id = ANY(%s::uuid[])) found
    WHERE place = 1 OR COALESCE(bytes, 0) <= {MOST_BYTES}"""


def _stored_result(step: Step) -> tuple[bytes | None, object]:
    """Return the raw bytes behind the row's result digest, and the schema the call was made with."""
    (((_, raw, schema),),) = step.told
    return (bytes(raw) if raw is not None else None), (json.loads(schema) if schema else None)


def result_unusable(
    operation: str,
    *,
    ticket: Ticket,
    reason: Reason,
    findings: tuple[str, ...],
    next_at: datetime,
    now: datetime,
) -> Moved:
    """Hand the operation to a person: its result cannot be fetched or may not be accepted (R2)."""

    def change(step: Step) -> None:
        step.move(Event.RESULT_UNUSABLE, detail={"findings": list(findings)}, reason=reason)
        step.due(next_at)

    return perform(operation, change, now=now, ticket=ticket)
