"""Leases and send slots: one holder at a time, never over the limit, never inside a pause (P1, P2, P4, F10)."""

from datetime import timedelta
from itertools import pairwise

import pytest
from django.db import connection

from operations import ledger, pacing
from operations.ledger import claims
from operations.ledger.claims import LEASE
from operations.machine import StaleStep, State
from tests.operations.room import NOON, together


@pytest.fixture(autouse=True)
def nothing_else_is_due(committed):
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM due")


def claim(room, *, limit=20, after_s=0):
    return ledger.claim(limit=limit, now=room.now + timedelta(seconds=after_s))


class TestClaim:
    def test_brings_what_a_drive_needs_under_a_lease(self, room):
        operation = room.submit(arguments=b'{"a":1}')

        (work,) = claim(room)

        assert (work.row.id, work.tool, work.arguments) == (operation, "tool", b'{"a":1}')
        assert (work.lease_until, work.ticket.look, work.server.slug) == (room.now + LEASE, 1, room.server)
        assert (work.server.creates_tasks, work.server.cancels_tasks) == (True, True)

    def test_what_is_leased_is_claimed_by_nobody_until_the_lease_ends(self, room):
        room.submit()
        claim(room)

        assert claim(room, after_s=24.9) == []
        assert len(claim(room, after_s=25)) == 1

    def test_what_is_not_due_is_claimed_by_nobody(self, room):
        operation = room.at(State.WORKING)
        at = (room.due(operation)[0] - room.now).total_seconds()

        assert claim(room, after_s=at - 0.001) == []
        assert len(claim(room, after_s=at)) == 1

    def test_p4_b214_b215_whoever_held_it_before_can_no_longer_move_it(self, room):
        operation = room.at(State.WORKING)
        (old,) = claim(room, after_s=10)
        (new,) = claim(room, after_s=41)

        with pytest.raises(StaleStep, match="look number"):
            room.saw(operation, room.ended(operation), ticket=old.ticket)
        room.saw(operation, room.ended(operation), ticket=new.ticket)

        assert room.row(operation).state is State.TERMINAL_OBSERVED

    def test_p4_a_claim_from_before_the_end_fits_no_more_after_it(self, room):
        operation = room.at(State.WORKING)
        (old,) = claim(room, after_s=10)
        (new,) = claim(room, after_s=41)
        room.saw(operation, room.ended(operation, "cancelled"), ticket=new.ticket)
        claim(room, after_s=50)
        room.step(ledger.audited, operation, seen=room.ended(operation, "cancelled"), result=None)

        with pytest.raises(StaleStep):
            room.saw(operation, room.ended(operation), ticket=old.ticket)

    def test_b209_two_workers_at_once_share_and_never_overlap(self, room):
        operations = {room.submit() for _ in range(8)}

        came = together(*[lambda: claim(room, limit=4)] * 3)

        claimed = [work.row.id for works in came for work in works]
        assert sorted(claimed) == sorted(operations)

    def test_urgent_ones_go_first(self, room):
        routine, urgent = room.at(State.WORKING), room.at(State.WORKING)
        room.now = room.later(60)
        room.press(urgent)

        (first,) = claim(room, limit=1)

        assert first.row.id == urgent
        assert routine

    def test_every_server_gets_its_turn(self, rooms):
        busy, calm = rooms(), rooms()
        for _ in range(5):
            busy.submit()
        waiting = calm.submit()

        claimed = {work.row.id for work in ledger.claim(limit=6, now=NOON)}

        assert waiting in claimed

    def test_p2_a_server_whose_slots_are_spoken_for_gives_none(self, rooms):
        room = rooms(max_qps=1)
        for _ in range(5):
            room.submit()

        first = claim(room)
        for _ in first:
            ledger.reserve_slot(room.server, now=room.now)
        assert 1 <= len(first) <= 2
        assert claim(room) == []

    def test_f10_a_paused_server_gives_none_until_its_pause_ends(self, room):
        room.submit()
        ledger.pause_server(room.server, until=room.later(120), reason="429")

        assert claim(room, after_s=119) == []
        assert len(claim(room, after_s=120)) == 1

    def test_a_claim_brings_the_moments_of_its_first_requests(self, rooms):
        room = rooms(max_qps=50)
        for _ in range(3):
            room.submit()

        works = claim(room)

        slots = [work.slot for work in works]
        assert slots == [slots[0] + number * pacing.slot_gap(50) for number in range(3)]
        assert ledger.reserve_slot(room.server, now=room.now) == slots[-1] + pacing.slot_gap(50)

    def test_f10_a_claim_speaks_for_no_more_than_a_pause_may_take_to_reach_everybody(self, rooms):
        room = rooms(max_qps=50)
        for _ in range(30):
            room.submit()

        slots = [work.slot for work in claim(room, limit=30)]

        assert max(slots) <= room.now + pacing.LEAD + claims.AHEAD

    def test_after_a_pause_there_is_no_burst(self, rooms):
        room = rooms(max_qps=10)
        for _ in range(20):
            room.submit()
        ledger.pause_server(room.server, until=room.later(60), reason="429")

        slots = [work.slot for work in ledger.claim(limit=20, now=room.later(60))]

        assert slots
        assert all(later - earlier == pacing.slot_gap(10) for earlier, later in pairwise(slots))

    def test_urgent_ones_have_the_first_moments(self, room):
        routine, urgent = room.at(State.WORKING), room.at(State.WORKING)
        room.now = room.later(60)
        room.press(urgent)

        first, second = claim(room)

        assert (first.row.id, second.row.id) == (urgent, routine)
        assert first.slot < second.slot

    def test_of_many_servers_each_gives_its_share(self, rooms):
        busy, calm = rooms(max_qps=50), rooms(max_qps=50)
        for _ in range(20):
            busy.submit()
        for _ in range(4):
            calm.submit()

        claimed = ledger.claim(limit=8, now=NOON)

        assert sorted(work.server.slug for work in claimed) == sorted([busy.server, calm.server] * 4)


class TestMark:
    """Note [A low-water mark]: it hides nothing for long, whatever the clocks do."""

    def test_what_became_due_below_it_is_found_by_the_next_sweep(self, room):
        operation = room.at(State.WORKING)
        claim(room)
        with connection.cursor() as cursor:
            cursor.execute("UPDATE due SET due_at = %s WHERE operation_id = %s", [room.later(-3600), operation])

        assert claim(room, after_s=1) == []
        assert len(claim(room, after_s=2.1)) == 1

    def test_a_clock_that_was_put_back_sweeps_at_once(self, room):
        room.at(State.WORKING)
        claim(room, after_s=3600)
        room.now = room.later(-7200)
        room.submit()

        assert len(claim(room)) == 1

    def test_a_wish_just_behind_the_clock_is_found_at_once(self, room):
        operation = room.at(State.WORKING)
        claim(room, after_s=1)

        ledger.look_now(operation, by="a", now=room.now)

        assert [work.row.id for work in claim(room, after_s=1.5)] == [operation]


class TestHands:
    def test_one_server_may_have_half_of_them(self):
        assert ledger.Hands(most=200).free_for("a") == 100

    def test_however_many_servers_hang_a_part_stays_free(self):
        held = {}
        for server in "abcde":
            held[server] = ledger.Hands(most=200, held=held).free_for(server)
        hands = ledger.Hands(most=200, held=held)

        assert all(count > 0 for count in held.values())
        assert hands.free() > 0
        assert hands.free_for("another") > 0


class TestUnchanged:
    def quiet(self, work, **named):
        return ledger.Unchanged(**({"operation": work.row.id, "look": work.ticket.look, "next_at": NOON} | named))

    def test_gives_a_batch_of_leases_back(self, room):
        operations = [room.submit() for _ in range(3)]
        works = claim(room)

        ledger.unchanged([self.quiet(work, next_at=room.later(7), misses=2) for work in works])

        assert {room.due(one)[0] for one in operations} == {room.later(7)}
        assert {room.due(one)[2] for one in operations} == {None}
        assert {room.due(one)[4] for one in operations} == {2}

    def test_a_lease_that_was_taken_over_stays(self, room):
        operation = room.submit()
        (old,) = claim(room)
        claim(room, after_s=30)

        ledger.unchanged([self.quiet(old, next_at=room.later(7))])

        assert room.due(operation)[2] is not None

    def test_a_wish_for_an_early_look_stands(self, room):
        operation = room.at(State.WORKING)
        (work,) = claim(room, after_s=10)
        ledger.look_now(operation, by="a", now=room.later(11))

        ledger.unchanged([self.quiet(work, next_at=room.later(60))])

        assert room.due(operation)[0] <= room.later(11)

    def test_of_nothing_asks_nobody(self, room, django_assert_num_queries):
        with django_assert_num_queries(0):
            ledger.unchanged([])


class TestSlots:
    def test_p2_moments_lie_one_gap_apart(self, rooms):
        room = rooms(max_qps=4)

        slots = [ledger.reserve_slot(room.server, now=room.now) for _ in range(3)]

        assert slots == [room.now + n * pacing.slot_gap(4) for n in range(3)]

    def test_b041_over_all_workers_together(self, rooms):
        room = rooms(max_qps=20)

        came = together(*[lambda: [ledger.reserve_slot(room.server, now=room.now) for _ in range(8)]] * 4)

        slots = sorted(slot for one in came for slot in one)
        gaps = {later - earlier for earlier, later in pairwise(slots)}
        assert len(slots) == 32
        assert gaps == {pacing.slot_gap(20)}

    def test_none_lies_in_the_past(self, room):
        ledger.reserve_slot(room.server, now=room.now)

        assert ledger.reserve_slot(room.server, now=room.later(100)) == room.later(100)

    def test_b042_p1_none_lies_inside_a_pause_also_for_claims_made_before_it(self, room):
        ledger.pause_server(room.server, until=room.later(120), reason="429")

        assert ledger.reserve_slot(room.server, now=room.now) == room.later(120)

    def test_one_that_comes_too_late_for_its_claim_is_left_to_others(self, room):
        ledger.pause_server(room.server, until=room.later(120), reason="429")

        for _ in range(5):
            assert ledger.reserve_slot(room.server, now=room.now, by=room.later(30)) == room.later(120)

        assert ledger.reserve_slot(room.server, now=room.now) == room.later(120)


class TestPause:
    def test_p1_a_longer_one_that_stands_is_kept(self, room):
        ledger.pause_server(room.server, until=room.later(100), reason="long")
        ledger.pause_server(room.server, until=room.later(10), reason="short")

        assert ledger.reserve_slot(room.server, now=room.now) == room.later(100)
