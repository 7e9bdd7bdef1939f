"""Foreign patterns are matched as ECMA-262 says, in time that their author cannot choose."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operations import pattern


@pytest.mark.parametrize(
    "source, text, found",
    [
        ("", "anything", True),
        ("b", "abc", True),
        ("^b", "abc", False),
        ("c$", "abc", True),
        ("c$", "abc\n", False),
        ("^.$", "😀", True),
        ("^.$", "\n", False),
        ("^a{2,3}$", "aaaa", False),
        ("^a{2,}$", "aaaa", True),
        ("^(?:ab|c)+$", "abcab", True),
        ("^(?<year>[0-9]{4})$", "2026", True),
        (r"^\d+$", "٣", False),
        (r"^\w+$", "é", False),
        (r"^\s$", "\u00a0", True),
        (r"\bcat\b", "a cat sat", True),
        (r"\bcat\b", "concat", False),
        (r"\Bcat", "concat", True),
        (r"^[^\d-]$", "-", False),
        (r"^[a\-z]$", "-", True),
        (r"^[\]]$", "]", True),
        (r"^\u00e9\x41\u{1F600}$", "éA😀", True),
        ("^a+?$", "aaa", True),
        ("^(a*)*$", "aaa", True),
        (r"^\/\.\-$", "/.-", True),
    ],
)
def test_what_is_found(source, text, found):
    assert pattern.prepare(source).found_in(text) is found


@pytest.mark.parametrize(
    "source",
    [
        "(?=a)b",
        "(?!a)b",
        "(?<=a)b",
        r"(a)\1",
        r"\p{L}",
        "a**",
        "(a",
        "a)",
        "[z-a]",
        "a{2,1}",
        "a{5000}",
        "^*",
        "[a",
        "\\",
        "(a{900}){900}",
        "(" * 60 + ")" * 60,
        r"\u{110000000}",
        "a{,3}",
    ],
)
def test_what_cannot_be_matched_is_said(source):
    with pytest.raises(pattern.Unsupported):
        pattern.prepare(source)


@pytest.mark.parametrize(
    "source", ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "^(.*a){20}$", "(x+x+)+y", "^(([a-z])+.)+[A-Z]([a-z])+$"]
)
def test_patterns_that_blow_other_engines_up_end_at_once(source):
    began = time.perf_counter()

    found = pattern.prepare(source).found_in("a" * 400 + "!")

    assert not found
    assert time.perf_counter() - began < 60  # other engines would not end at all


def test_a_text_that_would_take_long_is_refused_and_not_half_read():
    with pytest.raises(pattern.TooCostly):
        pattern.prepare("(a?){900}b").found_in("a" * 50_000)


ATOMS = st.sampled_from(["a", "b", "c", ".", "[ab]", "[^a]", "(?:a|bc)", r"\d", r"\w", "(?:)"])
PIECES = st.tuples(ATOMS, st.sampled_from(["", "*", "+", "?", "{2}", "{1,3}", "{0,}", "*?"])).map("".join)
PATTERNS = st.lists(PIECES, max_size=5).map("".join)


@settings(max_examples=300, deadline=None)
@given(
    source=st.tuples(st.sampled_from(["", "^"]), PATTERNS, st.sampled_from(["", "|c"]), st.sampled_from(["", "$"])).map(
        "".join
    ),
    text=st.text(alphabet="abc1_ ", max_size=8),
)
def test_it_agrees_with_pythons_engine_where_both_read_the_same(source, text):
    assert pattern.prepare(source).found_in(text) is bool(re.search(source, text, re.ASCII))
