"""What the database itself refuses, also to the ledger's own role (L5, L7, R5)."""

import uuid

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction

from operations import refusals
from operations.machine import FINAL, State
from operations.models import Operation


def run(sql, *params):
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.rowcount


@pytest.fixture
def accepted(room):
    return room.at(State.ACCEPTED)


OWNED = {
    "evidence": "operation_id",
    "journal": "operation_id",
    "receipt": "operation_id",
}


class TestAppendOnly:
    @pytest.mark.parametrize("table", OWNED)
    def test_l7_rows_are_never_updated(self, accepted, table):
        with pytest.raises(IntegrityError, match=f"{table} is append-only: UPDATE refused"):
            run(f"UPDATE {table} SET {OWNED[table]} = {OWNED[table]} WHERE {OWNED[table]} = %s", accepted)

    @pytest.mark.parametrize("table", OWNED)
    def test_l7_rows_are_never_deleted(self, accepted, table):
        with pytest.raises(IntegrityError, match=f"{table} is append-only: DELETE refused"):
            run(f"DELETE FROM {table} WHERE {OWNED[table]} = %s", accepted)

    @pytest.mark.parametrize("verb", ["UPDATE evidence_payload SET raw = raw", "DELETE FROM evidence_payload"])
    def test_l7_payloads_are_changed_by_nobody_but_the_purge(self, accepted, verb):
        with pytest.raises(IntegrityError, match="evidence_payload is append-only"):
            run(verb + " WHERE evidence_id IN (SELECT id FROM evidence WHERE operation_id = %s)", accepted)

    def test_r3_a_descriptor_is_never_rewritten(self, accepted, room):
        with pytest.raises(IntegrityError, match="tool_descriptor is append-only"):
            run("UPDATE tool_descriptor SET digest = 'x' WHERE server_id = %s", room.server)

    @pytest.mark.parametrize("table", refusals.APPEND_ONLY)
    def test_l7_tables_are_never_emptied(self, accepted, table):
        with pytest.raises(IntegrityError, match=f"{table} is append-only: TRUNCATE refused"):
            run(f"TRUNCATE {table} CASCADE")


class TestOperation:
    def test_it_is_never_deleted(self, accepted):
        with pytest.raises(IntegrityError, match="operations are never deleted"):
            run("DELETE FROM operation WHERE id = %s", accepted)

    @pytest.mark.parametrize("column", refusals.FIXED)
    def test_l1_what_it_is_never_changes(self, room, column):
        operation = room.at(State.WORKING)
        other = {
            "arguments": b"[]",
            "created_at": room.later(),
            "tool_id": -1,
            "descriptor_id": -1,
        }.get(column, "other")

        with pytest.raises(IntegrityError, match="what an operation is never changes"):
            run(f"UPDATE operation SET {column} = %s WHERE id = %s", other, operation)

    @pytest.mark.parametrize("column", refusals.RISING)
    def test_a_counter_never_falls(self, room, column):
        operation = room.at(State.WORKING)
        run(
            f"UPDATE operation SET sends = 7, {column} = 5 WHERE id = %s"
            if column != "sends"
            else "UPDATE operation SET sends = 5 WHERE id = %s",
            operation,
        )

        with pytest.raises(IntegrityError, match="a counter of an operation never falls"):
            run(f"UPDATE operation SET {column} = 4 WHERE id = %s", operation)

    def test_l5_an_illegal_pair_is_refused(self, room):
        operation = room.at(State.UNKNOWN)

        with pytest.raises(IntegrityError, match="no legal step from UNKNOWN to ACCEPTED"):
            run("UPDATE operation SET state = 'ACCEPTED' WHERE id = %s", operation)

    @pytest.mark.parametrize(
        "source, final",
        [
            (State.FETCHING_RESULT, State.ACCEPTED),
            (State.CANCEL_REQUESTED, State.CANCELLED_ACCEPTED),
            (State.SUBMITTING, State.REFUSED),
            (State.UNKNOWN, State.RECONCILED),
        ],
    )
    def test_r3_a_final_state_without_a_receipt_is_refused_at_commit(self, room, source, final):
        operation = room.at(source)

        with pytest.raises(IntegrityError, match="a final state needs a receipt and an outbox row"):
            run("UPDATE operation SET state = %s WHERE id = %s", final, operation)

        assert room.row(operation).state is source

    def test_r3_no_operation_is_born_final(self, room):
        columns = [field.column for field in Operation._meta.concrete_fields]
        fresh = {"id": "%s", "state": "'REFUSED'", "call_node": "%s", "submission_key": "%s", "task_id": "NULL"}
        values = ", ".join(fresh.get(column, column) for column in columns)
        born = [uuid.uuid4(), "born-final", "born-final"]
        order = [column for column in columns if fresh.get(column) == "%s"]
        params = [dict(zip(["id", "call_node", "submission_key"], born, strict=True))[column] for column in order]

        with pytest.raises(IntegrityError, match="a final state needs a receipt"):
            run(
                f"INSERT INTO operation ({', '.join(columns)}) SELECT {values} FROM operation WHERE id = %s",
                *params,
                room.at(State.SUBMITTING),
            )

    def test_r6_a_receipt_without_its_outbox_row_is_refused_at_commit(self, room):
        operation = room.at(State.UNKNOWN)

        with pytest.raises(IntegrityError, match="a final state needs a receipt and an outbox row"):
            _end_without_outbox(operation)

        assert room.receipt(operation) is None


class TestReceipt:
    @pytest.mark.parametrize("state", sorted(set(State) - FINAL))
    def test_r3_it_is_refused_at_commit_while_the_operation_is_open(self, room, state):
        operation = room.at(state)

        with pytest.raises(IntegrityError, match="a receipt needs an operation in a final state"):
            _write_receipt(operation)

        assert room.receipt(operation) is None

    def test_r5_a_second_one_is_refused(self, accepted):
        with pytest.raises(IntegrityError, match="duplicate key"):
            _write_receipt(accepted)


class TestConstraints:
    def test_l1_one_operation_per_call_node(self, room):
        first, second = room.call(), room.call()
        room.submit(call_node=first.call_node, submission_key="k1-" + first.call_node)

        with pytest.raises(Exception, match="call_node already stands"):
            room.submit(call_node=first.call_node, submission_key=second.submission_key)

    def test_p8_one_operation_per_task_id_of_a_server(self, room):
        first, second = room.at(State.WORKING), room.at(State.WORKING)

        with pytest.raises(IntegrityError, match="task_id_once_per_server"):
            run("UPDATE operation SET task_id = %s WHERE id = %s", room.row(first).task_id, second)

    def test_no_more_sends_are_disproved_than_were_made(self, room):
        with pytest.raises(IntegrityError, match="sends_disproved_of_sends"):
            run("UPDATE operation SET sends_disproved = sends + 1 WHERE id = %s", room.at(State.WORKING))


def test_what_a_migration_installed_is_what_the_code_would_install_now(committed):
    """Installing again changes no function: the migration and the table have not drifted apart."""
    held = _functions()

    with pytest.raises(_Undo), transaction.atomic(), connection.cursor() as cursor:  # noqa: PT012
        cursor.execute(refusals.install())
        now = _functions()
        raise _Undo

    assert now == held


class _Undo(Exception):
    pass


def _functions():
    names = ["refuse_change", "guard_operation", "final_has_receipt", "receipt_is_final"]
    with connection.cursor() as cursor:
        cursor.execute("SELECT proname, prosrc FROM pg_proc WHERE proname = ANY(%s)", [names])
        return dict(cursor.fetchall())


@transaction.atomic
def _end_without_outbox(operation):
    run("UPDATE operation SET state = 'RECONCILED' WHERE id = %s", operation)
    _write_receipt(operation)


def _write_receipt(operation):
    try:
        run(
            """INSERT INTO receipt (id, operation_id, at, outcome, verdict, summary, client, call_node,
                request_digest, tool_version, epoch, cancel_generation, decided_by)
            SELECT %s, id, now(), 'RECONCILED', '', '', client, call_node, request_digest, '', 1, 0, 'x'
            FROM operation WHERE id = %s""",
            uuid.uuid4(),
            operation,
        )
    except DatabaseError as error:
        raise IntegrityError(str(error)) from error
