"""Leases and send slots: one holder at a time, never over the limit, never inside a pause (P1, P2, P4, F10)."""

import threading
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from django.db import connection, transaction

from operations import ledger, pacing
from operations.ledger import claims
from operations.ledger.claims import LEASE
from operations.machine import StaleStep, State
from operations.models import Due, Server
from tests.operations.room import NOON, PATIENCE_S, together, until_somebody_waits_for_a_lock


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


def write(sql, *values):
    with connection.cursor() as cursor:
        cursor.execute(sql, values)


def hold(room):
    write("SELECT FROM server WHERE slug = %s FOR NO KEY UPDATE", room.server)


def behind(held, waits, *, meanwhile=lambda: None):
    """Let `waits` wait for the lock that `held` takes, and commit it after `meanwhile`; give what both gave."""
    is_held = threading.Event()

    def first():
        with transaction.atomic():
            given = held()
            is_held.set()
            until_somebody_waits_for_a_lock()
            meanwhile()
        return given

    def second():
        assert is_held.wait(PATIENCE_S)
        return waits()

    return together(first, second)


class TestWaiting:
    """Note [A claim is one statement]: the snapshot of a claim that waited for another is older than its lock."""

    def test_p2_p4_neither_a_slot_nor_an_operation_is_given_twice(self, room):
        operations = [room.submit() for _ in range(8)]

        first, second = behind(lambda: claim(room, limit=5), lambda: claim(room))

        slots = [work.slot for work in [*first, *second]]
        assert sorted(work.row.id for work in [*first, *second]) == sorted(operations)
        assert {later - earlier for earlier, later in pairwise(slots)} == {pacing.slot_gap(50)}
        assert Server.objects.get(slug=room.server).slots_given == 8

    def test_p2_a_moment_that_was_reserved_meanwhile_is_not_in_the_claim(self, room):
        room.submit()
        taken = room.later(0.1)

        _, (work,) = behind(
            lambda: write("UPDATE server SET next_slot_at = %s WHERE slug = %s", taken, room.server),
            lambda: claim(room),
        )

        assert work.slot == taken

    def test_what_moved_meanwhile_is_left_alone(self, room):
        moved, stays = room.at(State.WORKING), room.at(State.WORKING)
        room.now = room.later(60)

        def move():
            write("UPDATE due SET due_at = %s WHERE operation_id = %s", room.later(600), moved)

        _, works = behind(lambda: hold(room), lambda: claim(room), meanwhile=move)

        assert [work.row.id for work in works] == [stays]
        assert room.due(moved)[2] is None

    def test_what_became_urgent_meanwhile_is_not_lost(self, room):
        operation = room.at(State.WORKING)
        room.now = room.later(60)

        def press():
            together(lambda: room.press(operation))

        _, works = behind(lambda: hold(room), lambda: claim(room), meanwhile=press)
        (work,) = claim(room, after_s=1)

        assert works == []
        assert work.row.state is State.CANCEL_REQUESTED

    def test_p6_a_step_that_it_did_not_see_counts_all_the_same(self, room):
        operation = room.at(State.TERMINAL_OBSERVED)
        room.now = room.later(60)

        def fetch():
            together(lambda: room.step(ledger.fetch_started, operation))

        _, (work,) = behind(lambda: hold(room), lambda: claim(room), meanwhile=fetch)
        ledger.fetch_started(operation, ticket=work.ticket, now=room.now)

        assert (room.row(operation).state, room.row(operation).fetches) == (State.FETCHING_RESULT, 2)


class TestSeconds:
    @pytest.mark.parametrize("max_qps", [1, 7.5, 50, 333, 1000])
    def test_g3_what_claims_give_is_counted_in_its_second(self, rooms, max_qps):
        room = rooms(max_qps=max_qps)
        for _ in range(20):
            room.submit()

        slots = []
        for number in range(6):
            slots += [work.slot for work in claim(room, limit=3, after_s=0.93 * number)]

        counted, server = Counter(slot.replace(microsecond=0) for slot in slots), Server.objects.get(slug=room.server)
        assert len(slots) >= 4
        assert (server.slots_given, server.peak_slots) == (len(slots), max(counted.values()))
        assert (server.second_at, server.second_slots) == max(counted.items())
        assert server.next_slot_at == slots[-1] + pacing.slot_gap(max_qps)

    def test_g3_slots_across_the_turn_of_a_second_are_counted_in_two(self, rooms):
        room = rooms(max_qps=100)
        for _ in range(12):
            room.submit()

        slots = [work.slot for work in claim(room, after_s=0.9)]

        server = Server.objects.get(slug=room.server)
        first = sum(slot < room.later(1) for slot in slots)
        assert 0 < first < len(slots) == 12
        assert (server.second_at, server.second_slots) == (room.later(1), 12 - first)
        assert server.peak_slots == max(first, 12 - first)


def put(operation, *, at, is_free=False):
    """Make it due at some moment, as no step would."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE due SET due_at = %s, lease_until = CASE WHEN %s THEN NULL ELSE lease_until END, urgent = false"
            " WHERE operation_id = %s",
            [at, is_free, operation],
        )


class TestMark:
    """Note [A low-water mark]: it hides nothing for long, whatever the clocks do."""

    def test_what_became_due_below_it_is_found_by_the_next_sweep(self, room):
        below, held = room.at(State.WORKING), room.at(State.WORKING)
        put(held, at=room.later(-100))
        put(below, at=room.later(-50))
        first = claim(room, limit=1)  # sweeps: nothing lives below what it has taken
        claim(room, after_s=0.1)  # leaves the mark behind the other
        put(below, at=room.later(-60), is_free=True)

        assert [work.row.id for work in first] == [held]
        assert claim(room, after_s=1) == []
        assert [work.row.id for work in claim(room, after_s=2.1)] == [below]

    def test_what_became_due_below_all_that_lived_is_found_when_a_sweep_reads_it_through(self, room):
        operation = room.at(State.WORKING)
        claim(room)
        put(operation, at=room.later(-3600), is_free=True)

        assert claim(room, after_s=30) == []
        assert len(claim(room, after_s=60.1)) == 1

    def test_a_lease_that_ended_is_found_by_a_sweep_that_reads_nothing_through(self, room):
        """Whoever had it was killed: it keeps its due time, which no sweep has left below itself."""
        operation = room.at(State.WORKING)
        put(operation, at=room.now)
        assert len(claim(room)) == 1
        for seconds in range(3, 25, 3):
            assert claim(room, after_s=seconds) == []

        assert [work.row.id for work in claim(room, after_s=27.1)] == [operation]

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
        told = {"operation": work.row.id, "look": work.ticket.look, "next_at": NOON, "place": work.place}
        return ledger.Unchanged(**(told | named))

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

    @pytest.mark.parametrize("misled", [lambda works: [work.place for work in works[::-1]], lambda works: [""] * 2])
    def test_a_lease_goes_back_wherever_its_row_is_said_to_be(self, room, misled):
        operations = [room.submit() for _ in range(2)]
        works = claim(room)

        still = [self.quiet(work, misses=operations.index(work.row.id)) for work in works]

        ledger.unchanged([replace(one, place=place) for one, place in zip(still, misled(works), strict=True)])

        assert [room.due(one)[2] for one in operations] == [None] * 2
        assert [room.due(one)[4] for one in operations] == [0, 1]

    def test_keeps_why_a_server_could_not_be_asked_word_for_word_until_it_answers(self, room):
        silent, still = room.submit(), room.submit()
        held = {work.row.id: work for work in claim(room)}
        why = 'no {answer}, "none", \\ and NULL'

        ledger.unchanged([self.quiet(held[silent], trouble=why, at=room.now), self.quiet(held[still])])
        told = dict(Due.objects.filter(operation_id__in=held).values_list("operation_id", "trouble"))
        since = Due.objects.get(operation_id=silent).trouble_since
        ledger.unchanged([self.quiet(work) for work in claim(room, after_s=60)])
        then = Due.objects.filter(operation_id__in=held).values_list("trouble", "trouble_since")

        assert {str(one): words for one, words in told.items()} == {silent: why, still: ""}
        assert since == room.now
        assert list(then) == [("", None)] * 2

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

    @pytest.mark.parametrize("max_qps", [0.3, 1, 3.7, 7.5, 50, 333, 999.5, 20_000])
    def test_p2_several_in_one_journey_are_as_far_apart_as_by_themselves(self, rooms, max_qps):
        room = rooms(max_qps=max_qps)

        slots = ledger.reserve_slots(room.server, [None] * 7, now=room.now)
        slots.append(ledger.reserve_slot(room.server, now=room.now))

        server = Server.objects.get(slug=room.server)
        counted = Counter(slot.replace(microsecond=0) for slot in slots)
        assert slots == [room.now + number * pacing.slot_gap(max_qps) for number in range(8)]
        assert (server.slots_given, server.peak_slots) == (8, max(counted.values()))
        assert (server.second_at, server.second_slots) == max(counted.items())
        assert server.next_slot_at == slots[-1] + pacing.slot_gap(max_qps)

    def test_of_several_those_that_would_come_too_late_are_left_to_others(self, rooms):
        room = rooms(max_qps=10)
        gap = pacing.slot_gap(10)

        slots = ledger.reserve_slots(room.server, [None, room.now + gap, None], now=room.now)

        assert slots == [room.now, room.now + gap, room.now + gap]
        assert ledger.reserve_slot(room.server, now=room.now) == room.now + 2 * gap

    def test_p2_whoever_waited_for_another_takes_the_moments_after_its(self, rooms):
        room = rooms(max_qps=100)

        def reserve():
            return ledger.reserve_slots(room.server, [None] * 4, now=room.now)

        first, second = behind(reserve, reserve)

        assert [*first, *second] == [room.now + number * pacing.slot_gap(100) for number in range(8)]

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
