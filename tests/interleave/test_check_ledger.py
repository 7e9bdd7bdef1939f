"""`manage.py check_ledger`: every invariant finds the damage that it is there for (A1 to A6)."""

from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connection, transaction

from operations.queries.invariants import INVARIANTS, breaches
from tests.interleave import runs

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.xdist_group("interleave")]

ANSWERED = [0, 0, 0, 0, 1]
"""A dull run in which the tool asks once and is answered."""

_UNBOUND = """DO $$ DECLARE c record; BEGIN
    FOR c IN SELECT conname FROM pg_constraint WHERE conrelid = 'receipt'::regclass AND contype = 'u' LOOP
        EXECUTE 'ALTER TABLE receipt DROP CONSTRAINT ' || c.conname;
    END LOOP; END $$;"""
_COPY = "INSERT INTO journal (operation_id, at, kind, event, source, target, version, epoch, cancel_generation, round, "
_COPY += "look, actor, detail, evidence_seqs, step) SELECT operation_id, at, {kind}, {event}, {source}, {target}, "
_COPY += "version, epoch, {generation}, {round}, look, {actor}, detail, evidence_seqs, step FROM journal "
_COPY += "WHERE operation_id = %(op)s ORDER BY id DESC LIMIT 1"


def _row(event, *, kind="'NOTE'", source="source", target="target", generation="0", in_round="round", actor="actor"):
    return _COPY.format(
        kind=kind, event=f"'{event}'", source=source, target=target, generation=generation, round=in_round, actor=actor
    )


DAMAGE = {
    "one_receipt_per_call_node": _UNBOUND
    + """INSERT INTO receipt (id, operation_id, at, outcome, verdict, summary, client, call_node, request_digest,
            task_id, tool_version, epoch, cancel_generation, terminal_status, result_digest, result, decided_by)
        SELECT gen_random_uuid(), operation_id, at, outcome, verdict, summary, client, call_node,
        request_digest, task_id, tool_version, epoch, cancel_generation, terminal_status, result_digest, result,
        decided_by FROM receipt WHERE operation_id = %(op)s""",
    "final_has_receipt": "DELETE FROM outbox",
    "receipt_is_final": "UPDATE operation SET state = 'WORKING' WHERE id = %(op)s",
    "receipt_matches_row": "UPDATE operation SET task_id = 'another' WHERE id = %(op)s",
    "receipt_of_generation": "UPDATE operation SET cancel_generation = 1 WHERE id = %(op)s",
    "result_is_stored": "UPDATE receipt SET result = 'other' WHERE operation_id = %(op)s",
    "payload_only_with_result": "UPDATE receipt SET terminal_status = 'cancelled' WHERE operation_id = %(op)s",
    "cancelled_has_proof": "UPDATE receipt SET outcome = 'CANCELLED' WHERE operation_id = %(op)s",
    "doubt_has_effect_record": """UPDATE receipt SET outcome = 'RECONCILED' WHERE operation_id = %(op)s;
        UPDATE tool SET effect = 'EXTERNAL'""",
    "late_end_is_recorded": _row("AUDIT_LOOK")
    + """; UPDATE journal SET detail = '{"status": "completed"}' WHERE event = 'AUDIT_LOOK';
        UPDATE tool SET effect = 'EXTERNAL'""",
    "clash_is_disputed": _row("ID_CLASH"),
    "legal_edge": "UPDATE journal SET target = 'ACCEPTED' WHERE operation_id = %(op)s AND event = 'TASK_NAMED'",
    "unbroken_chain": "UPDATE journal SET version = version + 1 WHERE operation_id = %(op)s AND event = 'ENDED'",
    "row_is_last_step": "UPDATE operation SET version = version + 1 WHERE id = %(op)s",
    "nothing_goes_back": "UPDATE journal SET epoch = 7 WHERE operation_id = %(op)s AND event = 'TASK_NAMED'",
    "written_once": _row("TASK_NAMED"),
    "evidence_without_gap": "UPDATE operation SET evidence_count = evidence_count + 1 WHERE id = %(op)s",
    "one_submit_under_way": _row("PERMIT_SUBMIT"),
    "one_undisproved_submit": "UPDATE operation SET sends = 2 WHERE id = %(op)s",
    "sends_are_permits": "DELETE FROM permit WHERE kind = 'SUBMIT'",
    "task_was_permitted": "UPDATE operation SET sends = 0 WHERE id = %(op)s",
    "resubmit_has_leave": _row("RESUBMIT", kind="'STEP'", actor="'executor'"),
    "no_submit_after_cancel": _row("PERMIT_SUBMIT", generation="1"),
    "one_owner_of_a_task": """DROP INDEX task_id_once_per_server;
        UPDATE operation SET task_id = 'shared'""",
    "answer_was_permitted": "DELETE FROM permit WHERE kind = 'ANSWER'",
    "answer_permitted_once": _row("PERMIT_ANSWER", in_round="1") + ";" + _row("PERMIT_ANSWER", in_round="1"),
    "answer_has_fate": "UPDATE answer SET delivery = 'STORED'",
    "open_round_is_asked": "UPDATE input_round SET status = 'OPEN'",
    "answered_stays_answered": """INSERT INTO input_round (operation_id, number, status, closed_reason, opened_at,
            deadline_at, before_task, request_digest, schema_digest, questions, claimed_by)
        SELECT operation_id, 2, status, '', opened_at, deadline_at, before_task, request_digest, schema_digest,
            questions, '' FROM input_round WHERE operation_id = %(op)s;"""
    + _row("RESUMED", kind="'STEP'")
    + ";"
    + _row("ASKED", kind="'STEP'", in_round="2")
    + """; UPDATE journal SET detail = '{"round": 2}' WHERE event = 'ASKED'""",
    "no_answer_after_cancel": _row("PERMIT_ANSWER", generation="1"),
    "cancel_is_not_forgotten": _row("TASK_NAMED", kind="'STEP'", target="'WORKING'", generation="1"),
    "no_press_after_end": _row("CANCEL_INTENT", source="'FETCHING_RESULT'"),
    "somebody_looks": "UPDATE operation SET state = 'WORKING' WHERE id = %(op)s",
    "known_by_task_id": "UPDATE operation SET state = 'WORKING', task_id = NULL WHERE id = %(op)s",
}


@pytest.fixture
def ended():
    """The operation of a whole run with one answered question, and a second one beside it."""
    with runs.opened() as place:
        outcome = runs.alone(place, script=ANSWERED, depth="decoded")
        runs.alone(place, script=ANSWERED, depth="decoded")
    assert outcome.violations == []
    return next(iter(outcome.operations))


def _found_after(damage, operation):
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(damage, {"op": operation})
        found = {breach.invariant.name for breach in breaches()}
        transaction.set_rollback(True)
    return found


def test_each_invariant_finds_its_damage_and_a_sound_ledger_has_none(ended):
    out = StringIO()
    call_command("check_ledger", stdout=out)

    assert f"{len(INVARIANTS)} invariants hold" in out.getvalue()
    assert set(DAMAGE) == {one.name for one in INVARIANTS}
    assert {name for name, damage in DAMAGE.items() if name not in _found_after(damage, ended)} == set()


def test_the_command_says_what_is_broken_and_fails(ended):
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("UPDATE operation SET version = version + 1 WHERE id = %s", [ended])
        cursor.execute("SET session_replication_role = origin")
    out = StringIO()

    with pytest.raises(SystemExit) as stopped:
        call_command("check_ledger", stdout=out)

    assert stopped.value.code == 1
    assert "row_is_last_step" in out.getvalue()
    assert ended in out.getvalue()


def test_the_list_names_every_invariant():
    out = StringIO()

    call_command("check_ledger", "--list", stdout=out)

    assert all(one.holds in out.getvalue() for one in INVARIANTS)
