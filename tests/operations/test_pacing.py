"""Floors, jitter that only adds, caps, and the distance of two sends (P1, P2)."""

import random
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operations import pacing
from tests.operations.room import NOON

SECONDS = {"floor_ms": 1000, "cap_ms": 60_000}


def wait(**named):
    chance = random.Random(named.pop("seed", 1))
    return pacing.next_look(NOON, **({"poll_ms": None, "misses": 0, "chance": chance} | SECONDS | named)) - NOON


@given(
    poll_ms=st.none() | st.integers(0, 604_800_000),
    floor_ms=st.integers(0, 100_000),
    cap_ms=st.integers(0, 100_000),
    misses=st.integers(0, 10_000),
    seed=st.integers(0, 100),
)
def test_p1_both_suggestions_are_floors_and_jitter_only_adds(poll_ms, floor_ms, cap_ms, misses, seed):
    waited = wait(poll_ms=poll_ms, floor_ms=floor_ms, cap_ms=cap_ms, misses=misses, seed=seed)

    floor = max(poll_ms or 0, floor_ms)
    assert timedelta(milliseconds=floor) <= waited <= timedelta(milliseconds=1.2 * max(floor, cap_ms, 1))


def test_misses_double_the_interval_up_to_the_cap():
    class NoJitter:
        def random(self):
            return 0.0

    waits = [wait(misses=misses, chance=NoJitter()).total_seconds() for misses in range(9)]

    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]


@given(misses=st.integers(0, 10_000), cap_ms=st.integers(1, 100_000), seed=st.integers(0, 100))
def test_a_retry_never_comes_at_once_nor_after_the_cap(misses, cap_ms, seed):
    at = pacing.retry_at(NOON, misses=misses, cap_ms=cap_ms, chance=random.Random(seed))

    assert timedelta(0) < at - NOON <= timedelta(milliseconds=1.2 * cap_ms)


@pytest.mark.parametrize("max_qps", [0.5, 1, 2, 3, 5, 7.5, 20, 50])
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_p2_no_window_of_a_second_sees_more_than_the_limit_however_late_each_request_leaves(max_qps, seed):
    chance, gap = random.Random(seed), pacing.slot_gap(max_qps)
    slots = [NOON + n * gap for n in range(200)]
    left = sorted(slot + pacing.LATE * chance.random() for slot in slots)

    second = timedelta(seconds=1)
    most = max(sum(at <= other < at + second for other in left[n : n + 100]) for n, at in enumerate(left))
    assert most <= max(1, max_qps)
