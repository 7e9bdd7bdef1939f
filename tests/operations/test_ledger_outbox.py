"""The way out: at least once, with a fixed id, until it is acknowledged (R6)."""

import pytest

from operations import ledger
from operations.machine import State
from operations.models import Outbox
from tests.operations.room import together


@pytest.fixture
def waiting(room):
    operation = room.at(State.ACCEPTED)
    return str(room.receipt(operation).id)


def out(receipt):
    return Outbox.objects.get(receipt_id=receipt)


def test_a_delivery_is_counted_until_it_is_acknowledged(room, waiting):
    for _ in range(2):
        ledger.mark_delivered(client="tests", receipts=[waiting], now=room.now)
    ledger.acknowledge(client="tests", receipts=[waiting], now=room.later())
    ledger.mark_delivered(client="tests", receipts=[waiting], now=room.later(20))

    assert (out(waiting).deliveries, out(waiting).delivered_at) == (2, room.now)


def test_acknowledging_again_changes_nothing_and_says_the_same(room, waiting):
    first = ledger.acknowledge(client="tests", receipts=[waiting], now=room.now)
    again = ledger.acknowledge(client="tests", receipts=[waiting], now=room.later())

    assert first == again == (waiting,)
    assert out(waiting).acknowledged_at == room.now


def test_w_another_clients_receipt_is_neither_counted_nor_acknowledged(room, waiting):
    ledger.mark_delivered(client="somebody", receipts=[waiting], now=room.now)

    assert ledger.acknowledge(client="somebody", receipts=[waiting], now=room.now) == ()
    assert (out(waiting).deliveries, out(waiting).acknowledged_at) == (0, None)


def test_b227_every_row_has_an_order_of_its_own_whatever_commits_first(room):
    operations = [room.at(State.FETCHING_RESULT) for _ in range(4)]
    from tests.operations.room import result

    for operation in operations:
        room.step(ledger.result_fetched, operation, result=result())

    def accept(operation):
        facts = ledger.Facts.held_by(room.row(operation))
        return lambda: room.step(ledger.accept_result, operation, facts=facts)

    together(*[accept(operation) for operation in operations])

    seqs = {out(room.receipt(operation).id).seq for operation in operations}
    assert len(seqs) == 4
