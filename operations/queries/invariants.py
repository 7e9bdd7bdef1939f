"""What must never be true of the ledger, each as one query that must return no row (A1 to A6).

The same queries are run by `manage.py check_ledger`, after every run of the interleavings, and as
a live check. They trust nothing that the ledger's own code concluded: they compare the rows that it
left behind. Plain SQL, because an auditor should be able to run them without us.

Each query selects `operation_id` and `what`, a few words for the person who looks into it. `:of(x)`
stands for a condition on the column `x`: which operations are looked at; `:final` and the like for
words of the machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db import connection

from operations.machine import FINAL, FINAL_OUTCOMES, State, edges


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """One thing that always holds, and the query that finds where it does not."""

    name: str
    clause: str
    holds: str
    """The sentence that must be true."""
    sql: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """One operation of which an invariant does not hold."""

    invariant: Invariant
    operation: str
    what: str


def breaches(operations: Sequence[str] | None = None) -> tuple[Breach, ...]:
    """Return every breach of every invariant: of these operations, or of the whole ledger (None)."""
    condition = "true" if operations is None else r"\1 = ANY(%(operations)s::uuid[])"
    parts = [_PART.replace(":number", str(number)).replace(":sql", one.sql) for number, one in enumerate(INVARIANTS)]
    sql = _OF.sub(condition, _WORD.sub(lambda word: _WORDS[word[1]], " UNION ALL ".join(parts)))
    with connection.cursor() as cursor:
        cursor.execute(sql, {"operations": list(operations or ())})
        found = cursor.fetchall()
    return tuple(Breach(invariant=INVARIANTS[number], operation=id_, what=what) for number, id_, what in found)


def _words(words: Iterable[str]) -> str:
    return ", ".join(f"'{word}'" for word in sorted(words))


_PART = "SELECT :number, operation_id::text, what FROM (:sql) q"
_WORDS = {
    "final": _words(FINAL),
    "before_a_person": _words((State.UNKNOWN, State.NOT_FOUND_SAFE)),
    "legal": ", ".join(f"('{source}', '{event}', '{target}')" for source, event, target in edges()),
    "outcomes": ", ".join(f"('{state}', '{one}')" for state, several in FINAL_OUTCOMES.items() for one in several),
    "applied": "(SELECT *, xmin FROM journal WHERE kind IN ('STEP', 'NOTE') AND :of(operation_id))",
}
_WORD = re.compile(rf":({'|'.join(_WORDS)})\b")
_OF = re.compile(r":of\(([a-z_.]+)\)")

_RECEIPTS = (
    Invariant(
        name="one_receipt_per_call_node",
        clause="A1",
        holds="A call node has at most one terminal receipt.",
        sql="""SELECT min(operation_id::text)::uuid AS operation_id, count(*) || ' receipts' AS what
            FROM receipt WHERE :of(operation_id) GROUP BY client, call_node HAVING count(*) > 1""",
    ),
    Invariant(
        name="final_has_receipt",
        clause="R3",
        holds="A final state has its receipt and its outbox row.",
        sql="""SELECT o.id AS operation_id, o.state || ' without ' ||
                CASE WHEN r.id IS NULL THEN 'a receipt' ELSE 'an outbox row' END AS what
            FROM operation o LEFT JOIN receipt r ON r.operation_id = o.id
            LEFT JOIN outbox b ON b.receipt_id = r.id
            WHERE o.state IN (:final) AND b.receipt_id IS NULL AND :of(o.id)""",
    ),
    Invariant(
        name="receipt_is_final",
        clause="R3",
        holds="A receipt belongs to an operation in the final state of its outcome.",
        sql="""SELECT o.id AS operation_id, r.outcome || ' in ' || o.state AS what
            FROM receipt r JOIN operation o ON o.id = r.operation_id
            WHERE (o.state, r.outcome) NOT IN (:outcomes) AND :of(r.operation_id)""",
    ),
    Invariant(
        name="receipt_matches_row",
        clause="R3",
        holds="The facts on a receipt are the facts of its operation.",
        sql="""SELECT o.id AS operation_id, concat_ws(', ',
                CASE WHEN (r.client, r.call_node) <> (o.client, o.call_node) THEN 'call node' END,
                CASE WHEN r.request_digest <> o.request_digest THEN 'request digest' END,
                CASE WHEN r.task_id IS DISTINCT FROM o.task_id THEN 'task id' END,
                CASE WHEN r.tool_version <> d.digest THEN 'tool version' END,
                CASE WHEN r.terminal_status IS DISTINCT FROM o.terminal_status THEN 'terminal status' END,
                CASE WHEN r.result_digest IS DISTINCT FROM o.result_digest THEN 'result digest' END) AS what
            FROM receipt r JOIN operation o ON o.id = r.operation_id
            JOIN tool_descriptor d ON d.id = o.descriptor_id
            WHERE ((r.client, r.call_node) <> (o.client, o.call_node) OR r.request_digest <> o.request_digest
                OR r.task_id IS DISTINCT FROM o.task_id OR r.tool_version <> d.digest
                OR r.terminal_status IS DISTINCT FROM o.terminal_status
                OR r.result_digest IS DISTINCT FROM o.result_digest) AND :of(r.operation_id)""",
    ),
    Invariant(
        name="receipt_of_generation",
        clause="A3",
        holds="A receipt was decided under the cancel generation in force.",
        sql="""SELECT o.id AS operation_id,
                'receipt ' || r.cancel_generation || ', row ' || o.cancel_generation AS what
            FROM receipt r JOIN operation o ON o.id = r.operation_id
            WHERE r.cancel_generation <> o.cancel_generation AND :of(r.operation_id)""",
    ),
    Invariant(
        name="result_is_stored",
        clause="A2",
        holds="Success and tool error carry a fetched result whose digest matches.",
        sql="""SELECT operation_id, outcome || CASE WHEN result IS NULL THEN ' without a result'
                WHEN encode(sha256(result), 'hex') IS DISTINCT FROM result_digest THEN ', another digest'
                ELSE ', never kept as evidence' END AS what
            FROM receipt r
            WHERE outcome IN ('SUCCESS', 'TOOL_ERROR') AND :of(operation_id)
                AND (result IS NULL OR encode(sha256(result), 'hex') IS DISTINCT FROM result_digest
                    OR NOT EXISTS (SELECT FROM evidence e WHERE e.operation_id = r.operation_id
                        AND e.kind = 'result' AND e.digest = r.result_digest))""",
    ),
    Invariant(
        name="payload_only_with_result",
        clause="C7",
        holds="Only success and tool error carry a payload, after a terminal status of completed or failed.",
        sql="""SELECT operation_id, outcome || ' with ' || COALESCE(terminal_status, 'no') || ' status' AS what
            FROM receipt WHERE :of(operation_id)
                AND CASE WHEN outcome IN ('SUCCESS', 'TOOL_ERROR')
                    THEN terminal_status IS NULL OR terminal_status NOT IN ('completed', 'failed')
                    ELSE result IS NOT NULL END""",
    ),
    Invariant(
        name="cancelled_has_proof",
        clause="R4",
        holds="Cancelled is accepted on the server's word or on the proof that nothing was sent.",
        sql="""SELECT o.id AS operation_id, 'cancelled on no evidence' AS what
            FROM receipt r JOIN operation o ON o.id = r.operation_id
            WHERE r.outcome = 'CANCELLED' AND r.terminal_status IS DISTINCT FROM 'cancelled'
                AND (o.sends <> o.sends_disproved OR o.replays > 0) AND :of(r.operation_id)""",
    ),
    Invariant(
        name="doubt_has_effect_record",
        clause="C6",
        holds="An outcome that leaves the outside in doubt has an effect record.",
        sql="""SELECT o.id AS operation_id, r.outcome || ' without an effect record' AS what
            FROM receipt r JOIN operation o ON o.id = r.operation_id JOIN tool t ON t.id = o.tool_id
            LEFT JOIN effect_record e ON e.operation_id = o.id
            WHERE e.operation_id IS NULL AND t.effect <> 'NONE' AND (o.sends > o.sends_disproved OR o.replays > 0)
                AND (r.outcome IN ('CANCELLED', 'RECONCILED') OR r.outcome = 'TOOL_ERROR' AND t.effect_on_error)
                AND :of(r.operation_id)""",
    ),
    Invariant(
        name="late_end_is_recorded",
        clause="C4",
        holds="A completion seen after the receipt stands in the effect record.",
        sql="""SELECT o.id AS operation_id, 'late ' || (j.detail->>'status') AS what
            FROM journal j JOIN operation o ON o.id = j.operation_id JOIN tool t ON t.id = o.tool_id
            LEFT JOIN effect_record e ON e.operation_id = o.id
            WHERE j.event IN ('AUDIT_LOOK', 'LATE_END') AND j.kind = 'NOTE' AND t.effect <> 'NONE'
                AND j.detail->>'status' IN ('completed', 'failed') AND :of(j.operation_id)
                AND (e.operation_id IS NULL OR NOT e.facts @> jsonb_build_array(
                    jsonb_build_object('what', 'late ' || (j.detail->>'status'))))""",
    ),
    Invariant(
        name="clash_is_disputed",
        clause="P8",
        holds="An operation whose task id clashed is not accepted on that id, or is marked disputed. A task that "
        "a person bound after the clash is another one.",
        sql="""SELECT o.id AS operation_id, r.outcome || ' after a clash' AS what
            FROM operation o JOIN receipt r ON r.operation_id = o.id
            WHERE r.outcome IN ('SUCCESS', 'TOOL_ERROR', 'CANCELLED') AND NOT o.disputed AND :of(o.id)
                AND r.task_id IS NOT NULL AND EXISTS (SELECT FROM journal j
                    WHERE j.operation_id = o.id AND j.event = 'ID_CLASH' AND j.kind IN ('STEP', 'NOTE')
                        AND NOT EXISTS (SELECT FROM journal b WHERE b.operation_id = o.id AND b.id > j.id
                            AND b.event = 'TASK_BOUND' AND b.kind IN ('STEP', 'NOTE')))""",
    ),
)

_JOURNAL = (
    Invariant(
        name="legal_edge",
        clause="L5",
        holds="Every step in the journal is in the machine's table.",
        sql="""SELECT operation_id, source || ' ' || event || ' ' || target AS what FROM journal
            WHERE kind = 'STEP' AND :of(operation_id) AND (source, event, target) NOT IN (VALUES :legal)""",
    ),
    Invariant(
        name="unbroken_chain",
        clause="L7",
        holds="Each step begins where the one before ended, under the next version.",
        sql="""SELECT operation_id, 'version ' || version || ' ' || source || ' after version ' ||
                COALESCE(was::text, 'none') || ' ' || COALESCE(stood, 'nothing') AS what
            FROM (SELECT j.*, lag(target) OVER w AS stood, lag(version) OVER w AS was
                FROM :applied j WINDOW w AS (PARTITION BY operation_id ORDER BY id)) j
            WHERE source <> COALESCE(stood, 'SUBMITTING') OR version <> COALESCE(was, 0) + 1""",
    ),
    Invariant(
        name="row_is_last_step",
        clause="L7",
        holds="An operation stands where its journal ends.",
        sql="""SELECT o.id AS operation_id, 'row ' || o.version || ' ' || o.state || ', journal ' ||
                COALESCE(j.version || ' ' || j.target, 'empty') AS what
            FROM operation o LEFT JOIN LATERAL (
                SELECT version, target FROM journal WHERE operation_id = o.id AND kind IN ('STEP', 'NOTE')
                ORDER BY id DESC LIMIT 1) j ON true
            WHERE (j.version IS DISTINCT FROM o.version OR j.target IS DISTINCT FROM o.state) AND :of(o.id)""",
    ),
    Invariant(
        name="nothing_goes_back",
        clause="P6",
        holds="Epoch, cancel generation, round and look never fall from one applied change to the next.",
        sql="""SELECT operation_id, concat_ws(', ',
                CASE WHEN epoch < e THEN 'epoch ' || epoch || ' after ' || e END,
                CASE WHEN cancel_generation < g THEN 'generation ' || cancel_generation || ' after ' || g END,
                CASE WHEN round < r THEN 'round ' || round || ' after ' || r END,
                CASE WHEN look < l THEN 'look ' || look || ' after ' || l END) AS what
            FROM (SELECT j.*, lag(epoch) OVER w AS e, lag(cancel_generation) OVER w AS g,
                    lag(round) OVER w AS r, lag(look) OVER w AS l
                FROM :applied j WHERE source NOT IN (:final)
                WINDOW w AS (PARTITION BY operation_id ORDER BY id)) j
            WHERE epoch < e OR cancel_generation < g OR round < r OR look < l""",
    ),
    Invariant(
        name="written_once",
        clause="R9",
        holds="A change is written once, also when the answer to its commit was lost.",
        sql="""SELECT operation_id, min(event) || ' was written twice' AS what FROM :applied j
            GROUP BY operation_id, step HAVING count(DISTINCT xmin::text) > 1""",
    ),
    Invariant(
        name="evidence_without_gap",
        clause="L7",
        holds="The evidence of an operation is numbered without a gap.",
        sql="""SELECT o.id AS operation_id, count(e.id) || ' pieces, the row says ' || o.evidence_count AS what
            FROM operation o LEFT JOIN evidence e ON e.operation_id = o.id WHERE :of(o.id)
            GROUP BY o.id HAVING count(e.id) <> o.evidence_count OR COALESCE(max(e.seq), 0) <> o.evidence_count""",
    ),
)

_SENDING = (
    Invariant(
        name="one_submit_under_way",
        clause="A5",
        holds="No submit permit is given while an earlier one is neither answered nor disproved.",
        sql="""SELECT operation_id, 'two permits, no proof between them' AS what
            FROM (SELECT operation_id, event, lag(event) OVER (PARTITION BY operation_id ORDER BY id) AS before
                FROM journal WHERE kind IN ('STEP', 'NOTE') AND :of(operation_id)
                    AND event IN ('PERMIT_SUBMIT', 'SUBMIT_NOT_SENT', 'LATE_PROOF', 'NOTHING_CREATED', 'CONTINUE',
                        'GO_ON_AT_ONCE', 'RESTORED')) j
            WHERE event = 'PERMIT_SUBMIT' AND before = 'PERMIT_SUBMIT'""",
    ),
    Invariant(
        name="one_undisproved_submit",
        clause="A5",
        holds="At most one submit of an operation is not disproved.",
        sql="""SELECT id AS operation_id, sends || ' sends, ' || sends_disproved || ' disproved' AS what
            FROM operation WHERE sends - sends_disproved > 1 AND :of(id)""",
    ),
    Invariant(
        name="sends_are_permits",
        clause="L4",
        holds="The row counts exactly the submit permits that were given.",
        sql="""SELECT o.id AS operation_id, count(p.id) || ' permits, ' || o.sends || ' sends' AS what
            FROM operation o LEFT JOIN permit p ON p.operation_id = o.id AND p.kind = 'SUBMIT'
            WHERE :of(o.id) GROUP BY o.id HAVING count(p.id) <> o.sends""",
    ),
    Invariant(
        name="task_was_permitted",
        clause="L2",
        holds="Nothing is known of a task for which no submit permit was given.",
        sql="""SELECT id AS operation_id, 'task ' || task_id || ' without a permit' AS what
            FROM operation WHERE task_id IS NOT NULL AND sends = 0 AND :of(id)""",
    ),
    Invariant(
        name="resubmit_has_leave",
        clause="X2",
        holds="A resubmission was ordered by a person, or the server honours the key.",
        sql="""SELECT j.operation_id, 'resubmitted by ' || j.actor AS what
            FROM journal j JOIN operation o ON o.id = j.operation_id JOIN server s ON s.slug = o.server_id
            WHERE j.kind = 'STEP' AND j.event = 'RESUBMIT' AND j.actor NOT LIKE 'person:%%'
                AND s.lookup <> 'same_key_replay' AND :of(j.operation_id)""",
    ),
    Invariant(
        name="no_submit_after_cancel",
        clause="C9",
        holds="Nothing is submitted once a cancel was asked.",
        sql="""SELECT operation_id, 'submit permit under generation ' || cancel_generation AS what
            FROM journal WHERE event = 'PERMIT_SUBMIT' AND kind = 'NOTE' AND cancel_generation > 0
                AND :of(operation_id)""",
    ),
    Invariant(
        name="one_owner_of_a_task",
        clause="P8",
        holds="A task id stands on one operation of its server and protocol.",
        sql="""SELECT min(id::text)::uuid AS operation_id, count(*) || ' operations of task ' || task_id AS what
            FROM operation WHERE task_id IS NOT NULL AND NOT disputed AND :of(id)
            GROUP BY server_id, protocol, task_id HAVING count(*) > 1""",
    ),
)

_PEOPLE = (
    Invariant(
        name="answer_was_permitted",
        clause="L4",
        holds="No answer left without a permit.",
        sql="""SELECT r.operation_id, 'answer to round ' || r.number || ' is ' || a.delivery AS what
            FROM answer a JOIN input_round r ON r.id = a.round_id
            WHERE (a.delivery IN ('PERMITTED', 'SENT', 'UNCERTAIN', 'USED') OR a.sent_at IS NOT NULL)
                AND :of(r.operation_id) AND NOT EXISTS (SELECT FROM permit p
                    WHERE p.operation_id = r.operation_id AND p.round = r.number
                        AND (p.kind = 'ANSWER' OR (r.before_task AND p.kind = 'SUBMIT')))""",
    ),
    Invariant(
        name="answer_permitted_once",
        clause="I7",
        holds="An answer gets another permit only after proof that it did not leave, or to be repeated on purpose.",
        sql="""SELECT operation_id, 'two permits for the answer to round ' || round AS what
            FROM (SELECT operation_id, round, event,
                    lag(event) OVER (PARTITION BY operation_id, round ORDER BY id) AS before
                FROM journal WHERE kind = 'NOTE' AND event IN ('PERMIT_ANSWER', 'ANSWER_STORED', 'ANSWER_REPEATED')
                    AND :of(operation_id)) j
            WHERE event = 'PERMIT_ANSWER' AND before = 'PERMIT_ANSWER'""",
    ),
    Invariant(
        name="answer_has_fate",
        clause="I7",
        holds="An answer that will not be delivered any more says so.",
        sql="""SELECT o.id AS operation_id,
                'answer to round ' || r.number || ' is ' || a.delivery || ' in ' || o.state AS what
            FROM answer a JOIN input_round r ON r.id = a.round_id JOIN operation o ON o.id = r.operation_id
            WHERE a.delivery = 'STORED' AND :of(r.operation_id)
                AND (o.state <> 'INPUT_REQUIRED' OR r.number <> o.round)
                AND NOT (r.before_task AND r.number = o.round
                    AND o.state IN ('SUBMITTING', 'SUBMISSION_UNKNOWN', 'NOT_FOUND_SAFE', 'UNKNOWN'))""",
    ),
    Invariant(
        name="open_round_is_asked",
        clause="I1",
        holds="A round is open only while its operation waits for it.",
        sql="""SELECT o.id AS operation_id, 'round ' || r.number || ' open in ' || o.state AS what
            FROM input_round r JOIN operation o ON o.id = r.operation_id
            WHERE r.status = 'OPEN' AND (o.state <> 'INPUT_REQUIRED' OR r.number <> o.round OR NOT o.round_open)
                AND :of(r.operation_id)""",
    ),
    Invariant(
        name="answered_stays_answered",
        clause="I4",
        holds="A question that was answered is not asked again while the server has not moved on.",
        sql="""SELECT operation_id, 'round ' || number || ' repeats an answered one' AS what
            FROM (SELECT r.*, lag(request_digest) OVER w AS same, lag(number) OVER w AS one_before
                FROM input_round r WHERE :of(r.operation_id) WINDOW w AS (PARTITION BY operation_id ORDER BY number)) r
            WHERE same = request_digest
                AND EXISTS (SELECT FROM answer a JOIN input_round b ON b.id = a.round_id
                    WHERE b.operation_id = r.operation_id AND b.number = one_before)
                AND EXISTS (SELECT FROM journal asked JOIN journal resumed ON resumed.step = asked.step
                    WHERE asked.operation_id = r.operation_id AND asked.event = 'ASKED' AND asked.kind = 'STEP'
                        AND (asked.detail->>'round')::int = r.number
                        AND resumed.event = 'RESUMED' AND resumed.id < asked.id)""",
    ),
    Invariant(
        name="no_answer_after_cancel",
        clause="C11",
        holds="No answer is permitted once a cancel was asked.",
        sql="""SELECT operation_id, 'answer permit under generation ' || cancel_generation AS what
            FROM journal WHERE event = 'PERMIT_ANSWER' AND kind = 'NOTE' AND cancel_generation > 0
                AND :of(operation_id)""",
    ),
    Invariant(
        name="cancel_is_not_forgotten",
        clause="C9",
        holds="Under a cancel a task never goes on as if nobody had asked.",
        sql="""SELECT j.operation_id, j.event || ' to ' || j.target || ' under generation ' ||
                j.cancel_generation AS what
            FROM journal j WHERE j.kind = 'STEP' AND j.target IN ('WORKING', 'INPUT_REQUIRED')
                AND j.cancel_generation > 0 AND :of(j.operation_id) AND NOT EXISTS (
                    SELECT FROM journal n WHERE n.operation_id = j.operation_id AND n.step = j.step
                        AND n.id > j.id AND n.event IN ('CANCEL_DUE', 'ENDED'))""",
    ),
    Invariant(
        name="no_press_after_end",
        clause="C10",
        holds="A cancel asked after the task has ended is refused.",
        sql="""SELECT operation_id, event || ' in ' || source AS what FROM journal
            WHERE event IN ('CANCEL_PRESSED', 'CANCEL_INTENT', 'CANCEL_ASKED') AND kind IN ('STEP', 'NOTE')
                AND source IN ('TERMINAL_OBSERVED', 'FETCHING_RESULT') AND :of(operation_id)""",
    ),
    Invariant(
        name="somebody_looks",
        clause="A6",
        holds="An open operation is due to be looked at, or stands before a person with a reason.",
        sql="""SELECT o.id AS operation_id, o.state || CASE WHEN o.state IN (:before_a_person)
                THEN ' without a reason' ELSE ' and nothing due' END AS what
            FROM operation o LEFT JOIN due d ON d.operation_id = o.id
            WHERE o.state NOT IN (:final) AND :of(o.id)
                AND CASE WHEN o.state IN (:before_a_person) THEN o.reason = '' ELSE d.operation_id IS NULL END""",
    ),
    Invariant(
        name="known_by_task_id",
        clause="A4",
        holds="Where a task is known to be at work, its id is on the row.",
        sql="""SELECT id AS operation_id, state || ' without a task id' AS what FROM operation
            WHERE state IN ('WORKING', 'CANCEL_REQUESTED') AND task_id IS NULL AND :of(id)""",
    ),
)

INVARIANTS: tuple[Invariant, ...] = (*_RECEIPTS, *_JOURNAL, *_SENDING, *_PEOPLE)
