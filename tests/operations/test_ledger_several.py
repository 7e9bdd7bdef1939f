"""What ends together is accepted together, and each as it would be by itself (R3, R5, R9, L5)."""

import json
import random
import threading
import uuid
from dataclasses import replace

import pytest
from django.db import OperationalError, connection, transaction

from operations import announce, ledger
from operations.ledger import journey, several
from operations.machine import IllegalStep, StaleStep, State
from tests.operations.room import GOOD, breaches, result, together, until_somebody_waits_for_a_lock

END_MYSELF = ("SELECT pg_terminate_backend(pg_backend_pid())", [])


def fetched(room, raw=GOOD, **named):
    operation = room.at(State.FETCHING_RESULT)
    room.step(ledger.result_fetched, operation, result=result(raw, **named))
    return operation


def asked(room, operation, *, ticket=None, **other):
    facts = replace(ledger.Facts.held_by(room.row(operation)), **other)
    return ledger.Acceptance(operation=operation, ticket=ticket or room.ticket(operation), facts=facts, now=room.now)


def one_by_one(acceptances):
    """As a worker does that accepts each by itself."""

    def fate(one):
        try:
            return ledger.accept_result(one.operation, ticket=one.ticket, facts=one.facts, now=one.now)
        except Exception as error:  # noqa: BLE001 - compared
            return error

    return [fate(one) for one in acceptances]


# What may be asked for, by name: each makes an operation, and what is asked for it.


def _good(room):
    return asked(room, fetched(room))


def _task_error(room):
    return asked(room, fetched(room, is_error=True))


def _other_facts(room):
    return asked(room, fetched(room), task_id="another")


def _stale(room):
    operation = fetched(room)
    old = room.ticket(operation)
    room.claims(operation)
    return asked(room, operation, ticket=old)


def _not_fetched(room):
    return asked(room, room.at(State.FETCHING_RESULT))


def _ended(room):
    return asked(room, room.at(State.ACCEPTED))


def _objected(room):
    return asked(room, fetched(room, b'{"content":[{"type":"text","text":"\\u202eevil"}],"isError":false}'))


def _not_there(room):
    return replace(asked(room, fetched(room)), operation=str(uuid.uuid4()))


KINDS = (_good, _good, _good, _task_error, _other_facts, _stale, _not_fetched, _ended, _objected, _not_there)
TABLES = {
    "operation": "id",
    "due": "operation_id",
    "journal": "operation_id",
    "evidence": "operation_id",
    "receipt": "operation_id",
    "effect_record": "operation_id",
}
ITS_OWN = {"id", "operation_id", "receipt_id", "step", "seq", "call_node", "submission_key", "task_id", "arguments"}


def rows_of(operation):
    """Everything that stands of an operation, in the order it was written in."""
    found = []
    with connection.cursor() as cursor:
        for table, key in TABLES.items():
            cursor.execute(f"SELECT to_jsonb(t)::text FROM {table} t WHERE {key} = %s ORDER BY t", [operation])
            found += [(table, json.loads(row)) for (row,) in cursor.fetchall()]
        ready = "SELECT to_jsonb(b)::text FROM outbox b JOIN receipt r ON r.id = b.receipt_id WHERE r.operation_id = %s"
        cursor.execute(ready, [operation])
        return found + [("outbox", json.loads(row)) for (row,) in cursor.fetchall()]


def told(row):
    """A row without what only names it."""
    table, columns = row
    return table, {name: value for name, value in columns.items() if name not in ITS_OWN}


def fates(came):
    """What came of each, without the operation's own name."""
    return [
        (type(one).__name__, (one.version, one.state) if isinstance(one, ledger.Moved) else getattr(one, "names", None))
        for one in came
    ]


_LAST = ["DELETE FROM due", "UPDATE operation SET"]
_OTHERWISE = "UPDATE operation SET cancel_generation = cancel_generation + 1, version = version + 1 WHERE id = %s"


@pytest.mark.parametrize("effect", ["NONE", "EXTERNAL"])
@pytest.mark.parametrize("seed", range(4))
def test_the_same_is_written_together_as_one_by_one(rooms, seed, effect):
    """Property: for any mixture of what may be asked for, in any order, both ways leave the same rows."""
    room, chance = rooms(effect=effect), random.Random(seed)
    kinds = chance.choices(KINDS, k=chance.randint(2, 12))
    apart, at_once = ([kind(room) for kind in kinds] for _ in range(2))

    expected, came = one_by_one(apart), ledger.accept_results(at_once)

    assert fates(came) == fates(expected)
    for one, other in zip(apart, at_once, strict=True):
        assert list(map(told, rows_of(other.operation))) == list(map(told, rows_of(one.operation)))
        assert not breaches(other.operation)


def test_alike_rows_are_one_statement_of_each_kind_however_many_they_are(room, monkeypatch):
    sent = []

    def overhear(statements, **end):
        sent.append([" ".join(sql.split()[:3]) for sql, _ in statements])
        return journey.together(statements, **end)

    monkeypatch.setattr(several, "together", overhear)
    ledger.accept_results([_good(room) for _ in range(3)])

    assert len(sent) == 2
    assert sent[1] == ["INSERT INTO journal", "INSERT INTO receipt", "INSERT INTO outbox", *_LAST]


def test_results_that_are_large_together_are_accepted_apart(room, monkeypatch):
    raw = json.dumps({"content": [{"type": "text", "text": "x " * 750_000}], "isError": False}).encode()
    wanted, apart = [asked(room, fetched(room, raw)) for _ in range(4)], []
    perform = several.perform

    def by_itself(one, *how, **named):
        apart.append(one)
        return perform(one, *how, **named)

    monkeypatch.setattr(several, "perform", by_itself)

    came = ledger.accept_results(wanted)

    assert [type(one) for one in came] == [ledger.Moved] * 4
    assert sorted(apart) == sorted(one.operation for one in wanted)[2:]


def test_nothing_to_do_is_nothing_done():
    assert ledger.accept_results([]) == []


class TestARace:
    def test_two_batches_in_opposite_order_end_each_once_and_do_not_wait_for_each_other(self, room):
        wanted = [_good(room) for _ in range(6)]

        came = together(
            lambda: ledger.accept_results(wanted),
            lambda: ledger.accept_results(wanted[::-1]),
            lambda: one_by_one(wanted),
        )

        by_operation = [came[0], came[1][::-1], came[2]]
        for number, one in enumerate(wanted):
            assert sorted(type(fates[number]).__name__ for fates in by_operation) == ["IllegalStep"] * 2 + ["Moved"]
            assert room.outbox(one.operation) == 1

    def test_p4_a_batch_and_unchanged_looks_of_the_same_operations_do_not_wait_for_each_other(self, room):
        wanted = [_good(room) for _ in range(6)]
        still = [
            ledger.Unchanged(operation=one.operation, look=one.ticket.look, next_at=room.later()) for one in wanted
        ]

        came, _ = together(lambda: ledger.accept_results(wanted), lambda: ledger.unchanged(still[::-1]))

        assert [type(one) for one in came] == [ledger.Moved] * 6

    def test_r5_the_same_operation_asked_for_twice_is_accepted_once_and_takes_no_other_down(self, room):
        twice, other = _good(room), _good(room)

        came = ledger.accept_results([twice, other, twice])

        assert [type(one) for one in came] == [ledger.Moved, ledger.Moved, IllegalStep]
        assert (room.outbox(twice.operation), room.outbox(other.operation)) == (1, 1)

    def test_p6_what_another_has_moved_while_the_batch_waited_is_refused_and_the_others_go_on(self, room):
        first, second = _good(room), _good(room)

        def another_moves_it():
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SELECT FROM operation WHERE id = %s FOR UPDATE", [first.operation])
                cursor.execute(_OTHERWISE, [first.operation])
                holds.set()
                until_somebody_waits_for_a_lock()

        def batch():
            assert holds.wait(60)
            return ledger.accept_results([first, second])

        holds = threading.Event()
        _, came = together(another_moves_it, batch)

        assert [type(one) for one in came] == [StaleStep, ledger.Moved]
        assert (room.outbox(first.operation), room.outbox(second.operation)) == (0, 1)


class TestALostAnswer:
    """R9: each is read back, or done by itself."""

    def test_behind_the_commit_is_read_back_for_each_and_nothing_is_done_twice(self, room, monkeypatch):
        wanted = [_good(room), _other_facts(room), _good(room)]

        with monkeypatch.context() as patch:
            patch.setattr(announce, "news", lambda *_moves, **_how: [END_MYSELF])
            came = ledger.accept_results(wanted)

        assert [type(one) for one in came] == [ledger.Moved, ledger.FactsDiffer, ledger.Moved]
        assert [room.outbox(one.operation) for one in wanted] == [1, 0, 1]
        assert [len(room.journal(one.operation, event="RESULT_ACCEPTED")) for one in wanted] == [1, 0, 1]

    def test_before_the_commit_each_is_done_by_itself(self, room, monkeypatch):
        wanted = [_good(room), _stale(room), _good(room)]

        def breaks(statements, *, ends=False, **news):
            if ends:
                connection.connection.close()
                raise OperationalError("the connection broke before COMMIT")
            return journey.together(statements)

        with monkeypatch.context() as patch:
            patch.setattr(several, "together", breaks)
            came = ledger.accept_results(wanted)

        assert [type(one) for one in came] == [ledger.Moved, StaleStep, ledger.Moved]
        assert [room.outbox(one.operation) for one in wanted] == [1, 0, 1]
