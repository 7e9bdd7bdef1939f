"""Payload bytes go by policy, through one audited function; everything else stays (L7)."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction

from operations import ledger
from operations.machine import State
from operations.models import AuditEvent, Evidence, EvidencePayload
from operations.queries import invariants


def purge(room, *, days=30):
    note = ledger.Note(by="person:axel", reason="thirty days are over", now=room.now)
    return ledger.purge_payloads(ended_before=room.now - timedelta(days=days), note=note)


def payloads(operation):
    return EvidencePayload.objects.filter(evidence__operation_id=operation).count()


@pytest.fixture
def old(room):
    """An operation that was accepted forty days ago."""
    operation = room.at(State.ACCEPTED)
    room.now += timedelta(days=40)
    return operation


def test_the_bytes_go_and_digests_receipt_and_journal_stay(room, old):
    before = [(one.seq, one.digest, one.size) for one in Evidence.objects.filter(operation_id=old).order_by("seq")]
    events = room.events(old)

    done = purge(room)

    assert done.pieces >= len(before) > 0
    assert payloads(old) == 0
    kept = Evidence.objects.filter(operation_id=old).order_by("seq")
    assert [(one.seq, one.digest, one.size) for one in kept] == before
    assert (room.events(old), bool(room.receipt(old).result)) == (events, True)
    assert not invariants.breaches([old])


def test_who_let_go_of_how_much_and_why_is_on_record(room, old):
    done = purge(room)

    noted = AuditEvent.objects.filter(what="PAYLOADS_PURGED").latest("id")
    assert (noted.by, noted.reason) == ("person:axel", "thirty days are over")
    assert (noted.after["pieces"], noted.after["bytes"]) == (done.pieces, done.size)


def test_where_nothing_is_old_enough_nothing_is_noted(room, old):
    purge(room)
    noted = AuditEvent.objects.filter(what="PAYLOADS_PURGED").count()

    assert purge(room).pieces == 0
    assert AuditEvent.objects.filter(what="PAYLOADS_PURGED").count() == noted


@pytest.mark.parametrize("state", [State.WORKING, State.UNKNOWN, State.FETCHING_RESULT])
def test_what_is_open_keeps_its_bytes(room, state):
    operation = room.at(state)
    held = payloads(operation)
    room.now += timedelta(days=40)

    purge(room)

    assert payloads(operation) == held > 0


def test_c6_what_somebody_still_has_to_judge_keeps_its_bytes(rooms):
    room = rooms(effect="EXTERNAL")
    operation = room.at(State.CANCELLED_ACCEPTED)
    assert room.effect(operation).status == "OPEN"
    room.now += timedelta(days=40)

    purge(room)

    assert payloads(operation) > 0


def by_hand(operation):
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL longcall.purge = 'on'")
        cursor.execute(
            "DELETE FROM evidence_payload WHERE evidence_id IN (SELECT id FROM evidence WHERE operation_id = %s)",
            [operation],
        )


def test_the_database_lets_nobody_purge_what_is_open(room):
    operation = room.at(State.WORKING)

    with pytest.raises(IntegrityError, match="append-only"):
        by_hand(operation)
