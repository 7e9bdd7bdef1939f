"""Numbers and moments in words."""

from datetime import UTC, datetime, timedelta

import pytest

from console import words

NOON = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def plain(text):
    return text.replace(words.NBSP, " ")


@pytest.mark.parametrize(
    "seconds, said",
    [
        (-3, "0 s"),
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (80, "1 min 20 s"),
        (3600, "1 h"),
        (3601, "1 h"),
        (8220, "2 h 17 min"),
        (8259, "2 h 17 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_a_duration_has_at_most_two_units_that_stand_next_to_each_other(seconds, said):
    assert plain(words.duration(seconds)) == said


def test_a_duration_never_breaks_over_a_line():
    assert " " not in words.duration(8220)


@pytest.mark.parametrize(
    "seconds, said",
    [
        (-0.5, "now"),
        (-18, "18 s ago"),
        (-75, "1 min ago"),
        (-3720, "1 h 2 min ago"),
        (12, "in 12 s"),
        (75, "in 1 min 15 s"),
    ],
)
def test_a_moment_is_told_from_where_the_reader_stands(seconds, said):
    assert plain(words.relative(NOON + timedelta(seconds=seconds), now=NOON)) == said


@pytest.mark.parametrize("count, said", [(0, "0 B"), (999, "999 B"), (2100, "2.1 kB"), (3_400_000, "3.4 MB")])
def test_a_size_is_told_in_its_largest_unit(count, said):
    assert plain(words.size(count)) == said


def test_an_id_is_cut_in_the_middle_only_where_that_saves_something():
    assert words.shortened("01234567-89ab-cdef") == "01234567…cdef"
    assert words.shortened("0123456789abcd") == "0123456789abcd"


@pytest.mark.parametrize("version, said", [("2025-11-25", "MCP 2025-11-25"), ("aip-151", "aip-151")])
def test_only_versions_of_mcp_are_called_so(version, said):
    assert words.protocol(version) == said


def test_a_tool_error_is_never_shown_as_a_success():
    assert words.look_of("ACCEPTED", outcome="TOOL_ERROR").tone == "bad"
    assert words.look_of("ACCEPTED", outcome="SUCCESS").tone == "ok"


@pytest.mark.parametrize(
    "milliseconds, said", [(500, "0.5 s"), (1000, "1 s"), (1500, "1.5 s"), (80_000, "1 min 20 s"), (10_000, "10 s")]
)
def test_how_far_apart_looks_are_is_told_in_seconds_and_more(milliseconds, said):
    assert words.pace(milliseconds) == said.replace(" ", words.NBSP)
