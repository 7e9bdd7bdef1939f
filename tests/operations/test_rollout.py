"""Which release takes a new call, and who takes over in a rollback: arithmetic alone (O2, O3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operations.rollout import (
    BUCKETS,
    LONG_S,
    Handover,
    Mode,
    Offer,
    Path,
    bucket_of,
    choose,
    hand_over,
    mode_of,
    on_trial,
)

names = st.text(min_size=1, max_size=40)
shares = st.integers(0, 100)
buckets = st.integers(0, BUCKETS - 1)


def offer(release, share):
    return Offer(release=release, mode=mode_of(share), share=share)


@given(client=names, node=names, share=shares)
def test_o2_the_same_call_lands_the_same_way_every_time(client, node, share):
    offers = [offer("r1", 100), offer("r2", share)]

    ways = {choose(offers, bucket=bucket_of(client, node), expected_s=LONG_S) for _ in range(3)}

    assert len(ways) == 1


@given(bucket=buckets, share=st.integers(1, 99), more=st.integers(0, 100), older=shares)
def test_o2_a_share_that_rises_never_moves_a_call_off(bucket, share, more, older):
    before = [offer("r1", older), offer("r2", share)]
    after = [offer("r1", older), offer("r2", min(100, share + more))]

    if choose(before, bucket=bucket, expected_s=LONG_S) == "r2":
        assert choose(after, bucket=bucket, expected_s=LONG_S) == "r2"


@pytest.mark.parametrize("share", [1, 5, 50, 95])
def test_o2_a_share_is_the_share_it_says(share):
    offers = [offer("r1", share)]
    nodes = [f"order {number}" for number in range(4000)]

    chosen = sum(choose(offers, bucket=bucket_of("flows", node), expected_s=60) == "r1" for node in nodes)

    assert abs(chosen / len(nodes) - share / 100) < 0.03


def test_buckets_are_the_same_on_every_machine():
    assert [bucket_of("flows", "step 1"), bucket_of("ab", "c"), bucket_of("a", "bc")] == [1045, 2930, 4325]


@given(bucket=buckets, share=st.integers(1, 99))
def test_o2_a_short_call_goes_into_no_share(bucket, share):
    assert choose([offer("r1", share)], bucket=bucket, expected_s=LONG_S - 1) is Path.KEEP_EXISTING
    assert choose([offer("r1", 100), offer("r2", share)], bucket=bucket, expected_s=LONG_S - 1) == "r1"


@given(bucket=buckets)
def test_o4_where_no_release_creates_there_is_no_path_to_keep(bucket):
    assert choose([offer("r1", 0), offer("r2", 0)], bucket=bucket, expected_s=60) is Path.CLOSED
    assert choose([], bucket=bucket, expected_s=60) is Path.CLOSED


@given(bucket=buckets, shares=st.lists(shares, max_size=5), expected_s=st.integers(1, 1000))
def test_o5_a_release_without_a_share_takes_nothing(bucket, shares, expected_s):
    offers = [offer(f"r{number}", share) for number, share in enumerate(shares)]

    taken = choose(offers, bucket=bucket, expected_s=expected_s)

    assert isinstance(taken, Path) or next(one.share for one in offers if one.release == taken) > 0


@pytest.mark.parametrize("share, mode", [(0, Mode.DRAINING), (1, Mode.SHARE), (99, Mode.SHARE), (100, Mode.FULL)])
def test_a_share_says_the_mode(share, mode):
    assert mode_of(share) is mode


@pytest.mark.parametrize("share", [-1, 101])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(ValueError, match="0 to 100"):
        mode_of(share)


RETIRED = Offer(release="r1", mode=Mode.RETIRED, share=0)
TRIAL = Offer(release="r1", mode=Mode.SHADOW, share=0)


@given(bucket=buckets)
def test_o1_a_release_on_trial_takes_no_call_and_leaves_the_existing_path_where_no_other_was_there(bucket):
    assert choose([TRIAL], bucket=bucket, expected_s=60) is Path.KEEP_EXISTING
    assert choose([offer("r0", 100), TRIAL], bucket=bucket, expected_s=60) == "r0"
    assert choose([offer("r0", 0), TRIAL], bucket=bucket, expected_s=60) is Path.CLOSED


@pytest.mark.parametrize(
    "offers, watches",
    [
        ([], None),
        ([offer("r0", 100)], None),
        ([offer("r0", 100), TRIAL], "r1"),
        ([TRIAL, offer("r2", 5)], "r1"),
        ([offer("r0", 100), offer("r2", 5), offer("r3", 10)], "r3"),
        ([offer("r0", 0)], None),
    ],
)
def test_o1_the_newest_on_trial_watches_and_without_one_the_newest_with_a_share(offers, watches):
    assert on_trial(offers) == watches


@pytest.mark.parametrize(
    "offers, known, stops, takes_over",
    [
        ([offer("r1", 100)], ("r1",), "r1", "r1"),
        ([offer("r1", 100), offer("r2", 5)], ("r1", "r2"), "r2", "r1"),
        ([offer("r1", 0), offer("r2", 100)], ("r1", "r2"), "r2", "r1"),
        ([offer("r1", 100), offer("r2", 50), offer("r3", 5)], ("r1", "r2", "r3"), "r3", "r2"),
        ([offer("r1", 100), offer("r2", 0), offer("r3", 5)], ("r1", "r3"), "r3", "r1"),
        ([RETIRED, offer("r2", 100)], ("r1", "r2"), "r2", "r2"),
        ([offer("r1", 100), offer("r2", 5)], ("r2",), "r2", "r2"),
        ([offer("r1", 0), offer("r2", 0)], ("r1", "r2"), "r1", "r1"),
        ([TRIAL, offer("r2", 100)], ("r1", "r2"), "r2", "r2"),
        ([offer("r0", 100), TRIAL], ("r0", "r1"), "r0", "r0"),
    ],
)
def test_o3_the_release_before_takes_over_or_the_same_one_creates_no_more(offers, known, stops, takes_over):
    assert hand_over(offers, looks_after="r1", known=known) == Handover(stops=stops, takes_over=takes_over)
