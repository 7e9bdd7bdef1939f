"""Compares what the ledger says after a run with what the simulated server knows to be true."""

import json

from adapters.simulator.scenario import CancelStyle
from adapters.simulator.scripts import Finish
from tests.interleave.lines import KILLED_AFTER, KILLED_BEFORE
from tests.interleave.place import START
from tests.interleave.plan import MCP_2026

G4_S = 60.0
G5_S = 15 * 60.0


def judge(place, runs):
    """Add to the violations of each run everything in which ledger and truth differ."""
    found = place.observer.ask(_SQL, [START, [operation for run in runs for operation in run.names]])
    rows = [dict(zip(_COLUMNS, row, strict=True)) for row in found]
    for run in runs:
        if run.names:
            _judge_run(run, [row for row in rows if row["id"] in run.names])


def _judge_run(run, rows):
    for row in rows:
        node = run.names[row["id"]]
        for rule, words in _judge(run, node, row):
            run.violations.append((rule, f"{node}: {words}"))
    for node, number, content in run.wrong_answers:
        run.violations.append(("I3", f"{node}: question {number} was answered with {content}"))
    _judge_messages(run, rows)


_COLUMNS = (
    *("id", "state", "sends", "sends_disproved", "terminal_status", "cancel_generation", "cancel_sends", "disputed"),
    *("outcome", "result", "effects", "effect_record", "clashed", "resubmits", "cancel_s", "unsettled_s"),
    *("sent_forms", "answer_permits", "proved_absent_s", "permits_since", "legs", "verdict", "decided_by"),
)
_SQL = """
    SELECT o.id::text, o.state, o.sends, o.sends_disproved, o.terminal_status, o.cancel_generation,
        o.cancel_sends, o.disputed, r.outcome, r.result, t.effect,
        EXISTS (SELECT FROM effect_record e WHERE e.operation_id = o.id),
        EXISTS (SELECT FROM journal j WHERE j.operation_id = o.id AND j.event = 'ID_CLASH'),
        (SELECT count(*) FROM journal j WHERE j.operation_id = o.id AND j.event = 'RESUBMIT' AND j.kind = 'STEP'
            AND j.actor LIKE 'person:%%'),
        EXTRACT(epoch FROM o.cancel_settled_at - o.cancel_requested_at)::float,
        (SELECT max(EXTRACT(epoch FROM u.until - u.at))::float FROM (
            SELECT j.at, j.target, lead(j.at) OVER (ORDER BY j.id) AS until FROM journal j
            WHERE j.operation_id = o.id AND j.kind = 'STEP') u WHERE u.target IN ('UNKNOWN', 'SUBMISSION_UNKNOWN')),
        (SELECT array_agg(a.replies::text) FROM answer a JOIN input_round i ON i.id = a.round_id
            WHERE i.operation_id = o.id AND EXISTS (SELECT FROM journal j WHERE j.operation_id = o.id
                AND j.event = 'ANSWER_SENT' AND j.round = i.number)),
        (SELECT count(*) FROM permit p WHERE p.operation_id = o.id AND p.kind = 'ANSWER'),
        (SELECT max(EXTRACT(epoch FROM j.at - %s::timestamptz))::float FROM journal j
            WHERE j.operation_id = o.id AND j.event = 'NOTHING_CREATED' AND j.kind = 'STEP'),
        (SELECT count(*) FROM permit p WHERE p.operation_id = o.id AND p.kind = 'SUBMIT' AND p.given_at > (
            SELECT max(j.at) FROM journal j
            WHERE j.operation_id = o.id AND j.event = 'NOTHING_CREATED' AND j.kind = 'STEP')),
        (SELECT count(*) FROM journal j WHERE j.operation_id = o.id AND j.event = 'CONTINUE' AND j.kind = 'STEP'),
        r.verdict, r.decided_by
    FROM operation o JOIN tool t ON t.id = o.tool_id LEFT JOIN receipt r ON r.operation_id = o.id
    WHERE o.id = ANY(%s::uuid[])"""


def _judge(run, node, row):
    server, key = run.server, f"key-{run.prefix}-{node}"
    tasks = server.tasks_of(key)
    ours = len(tasks) - server.doubled[key]
    legs = row["legs"] if _has_legs(run.plan) else 0
    if ours > 1 + row["resubmits"] + legs:
        yield "A5", f"{len(tasks)} tasks at the server for one key, {row['sends']} permits"
    if tasks and not row["sends"]:
        yield "L4", "a task exists for which no permit was given"
    proved = row["proved_absent_s"]
    existed = proved is not None and any(task.created_at < proved for task in tasks)
    if existed and not legs and not run.faults["clock jumps"] and not server.doubled[key] and not run.plan.list_lies:
        yield "X2", "proved absent, and a task existed"
    since = 0 if proved is None else sum(task.created_at > proved for task in tasks)
    if since > row["permits_since"] and not run.faults["clock jumps"] and not server.doubled[key]:
        yield "X2", "proved absent, and the task came after all"
    if row["outcome"] is None:
        return
    yield from _judge_outcome(run, node, row, tasks)
    receipts = run.people.receipts.get(row["id"], set())
    if len(receipts) != 1:
        yield "R6", f"its call node was handed {len(receipts)} receipts"
    yield from _judge_effects(run, node, row)
    yield from _judge_times(run, row)
    if (row["verdict"] or "").startswith("ESTABLISHED_OUTSIDE") and len(set(row["decided_by"].split(" and "))) < 2:
        yield "W", f"{row['decided_by']} alone established an outcome outside"


def _judge_outcome(run, node, row, tasks):
    outcome = row["outcome"]
    reused = bool(run.server.reused or run.people.misled)
    # One copy of a doubled request may be refused and the other carried out: no client can tell.
    doubled = run.server.doubled[f"key-{run.prefix}-{node}"]
    if outcome == "SUCCESS":
        said = _said(json.loads(bytes(row["result"])))
        if said != node and not (reused and (row["disputed"] or not row["clashed"])):
            yield "R3", f"accepted the result of {said}"
        if said == node and not any(_ended_well(task) for task in tasks):
            yield "A2", "success, and the server knows of none"
    badly = any(task.outcome is not None and not _ended_well(task) for task in tasks)
    if outcome == "TOOL_ERROR" and not run.lied and not reused and not badly:
        yield "R7", "a tool error, and the server knows of none"
    if outcome == "CANCELLED":
        honest = run.plan.cancel is not CancelStyle.LIES and not run.lied and not reused
        if row["terminal_status"] == "cancelled" and honest and not any(t.status == "cancelled" for t in tasks):
            yield "R4", "cancelled, and the server cancelled nothing"
        excused = doubled or run.plan.list_lies or _has_legs(run.plan)
        if row["terminal_status"] is None and tasks and not excused:
            yield "C9", "closed as never sent, and a task exists"
    if outcome == "REFUSED" and tasks and not doubled:
        yield "R4", "refused, and a task exists"


def _has_legs(plan):
    """A call that asks while it runs at once ends with its question, and begins anew with what was answered."""
    return plan.contract == MCP_2026 and plan.tool != "long" and bool(plan.asks)


def _said(result):
    return result["value" if "value" in result else "structuredContent"]["node"]


def _ended_well(task):
    return isinstance(task.outcome, Finish) and not task.outcome.is_error


def _judge_effects(run, node, row):
    happened = any(done.name == node for done in run.server.truth.effects)
    in_doubt = row["outcome"] in {"CANCELLED", "RECONCILED", "REFUSED"}
    in_doubt = in_doubt and not run.server.doubled[f"key-{run.prefix}-{node}"]  # see above
    # A list that lied has proved to everybody that there never was a task.
    in_doubt = in_doubt and not (run.plan.list_lies and row["proved_absent_s"] is not None)
    if happened and in_doubt and row["effects"] != "NONE" and not row["effect_record"]:
        yield "C6", f"{row['outcome']}, an effect happened, and no record says so"


def _judge_times(run, row):
    if run.faults_that_stop_time():
        return
    late = row["cancel_s"] is None or row["cancel_s"] > G4_S
    if row["cancel_generation"] and row["cancel_sends"] and late:
        yield "G4", f"the cancel was settled after {row['cancel_s']} s"
    if row["unsettled_s"] is not None and row["unsettled_s"] > G5_S:
        yield "G5", f"before a person for {row['unsettled_s']:.0f} s"


def _judge_messages(run, rows):
    doubled = run.faults["request doubled (tasks/cancel)"]
    permitted = sum(row["cancel_sends"] for row in rows)
    sent = run.server.cancels_arrived()
    if sent > permitted + doubled:
        run.violations.append(("L4", f"{sent} cancels arrived, {permitted} were permitted"))
    submits = run.server.submits_arrived()
    permitted = sum(row["sends"] for row in rows) + run.faults["request doubled (tools/call)"]
    if submits > permitted and not run.plan.honours_keys:
        run.violations.append(("L4", f"{submits} submits arrived, {permitted} were permitted"))
    _judge_answers(run, rows)


def _judge_answers(run, rows):
    arrived = {str(seen.content.get("form")) for seen in run.server.truth.answers if seen.action == "accept"}
    arrived |= run.server.first_forms - {"None"}
    permitted = sum(row["answer_permits"] for row in rows) + run.faults["request doubled (answer)"]
    # An error tells the server that nobody will answer: it carries nothing of anybody's.
    came = sum(seen.action != "error" for seen in run.server.truth.answers)
    if came > permitted:
        run.violations.append(("L4", f"{came} answers arrived, {permitted} were permitted"))
    taken = {label for label, _ in run.people.forms}
    if arrived - taken and not run.faults[KILLED_AFTER] + run.faults[KILLED_BEFORE]:
        run.violations.append(("I6", f"answers arrived that the ledger never took: {sorted(arrived - taken)}"))
    for row in rows:
        for replies in row["sent_forms"] or ():
            for reply in json.loads(replies):
                if reply["content"] and json.loads(reply["content"])["form"] not in arrived:
                    run.violations.append(("I7", f"{run.names[row['id']]}: an answer called sent never arrived"))
