"""Foreign text and JSON are shown as what they are: no digit lost, nothing hidden, nothing interpreted."""

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console import plaintext


@pytest.mark.parametrize(
    "text, seen",
    [
        ("plain", "plain"),
        ("two\r\nlines\rthree", "two\nlines\nthree"),
        ("a\u202eb", "a⟨U+202E⟩b"),
        ("a\u2066b", "a⟨U+2066⟩b"),
        ("a\x07b", "a⟨U+0007⟩b"),
        ("a\u200bb", "a⟨U+200B⟩b"),
        ("\ufeffa", "⟨U+FEFF⟩a"),
        ("a\ud800", "a⟨U+D800⟩"),
        ("👩\u200d💻 é 中文", "👩\u200d💻 é 中文"),
        ("a\tb", "a\tb"),
    ],
)
def test_what_hides_is_written_out(text, seen):
    assert plaintext.visible(text) == seen


def test_the_first_line_is_the_first_one_that_says_something():
    assert plaintext.first_line("\n  \n  Deploy?\nNow.") == "Deploy?"
    assert plaintext.first_line("") == ""


def test_pretty_json_keeps_every_token():
    raw = b'{"a":12.0,"big":123456789012345678901,"e":1E+5,"s":"\\u202e\\"{","b":[1,[2]],"z":{}}'

    shown = plaintext.pretty(raw)

    assert shown.splitlines() == [
        "{",
        '  "a": 12.0,',
        '  "big": 123456789012345678901,',
        '  "e": 1E+5,',
        '  "s": "\\u202e\\"{",',
        '  "b": [1, [2]],',
        '  "z": {}',
        "}",
    ]


@pytest.mark.parametrize("raw", [b"", b"{", b"nonsense", b"{}{}", b'{"a" 1}', b"[" * 500, b"\xff", b"{1:2}"])
def test_what_is_no_json_is_shown_as_it_is(raw):
    assert plaintext.pretty(raw) == plaintext.visible(raw.decode("utf-8", "replace"))


def test_members_are_names_and_exact_values():
    assert plaintext.members('{"a": 12.0, "\u202eb": [1,2], "a": null}') == [
        ("a", "12.0"),
        ("⟨U+202E⟩b", "[1, 2]"),
        ("a", "null"),
    ]
    assert plaintext.members("[1]") == [("", "[1]")]


def test_reading_keeps_digits_and_refuses_what_is_ambiguous():
    assert plaintext.parse('{"a": 1.10}') == {"a": Decimal("1.10")}
    for text in ('{"a":1,"a":2}', "NaN", "Infinity", "[" * 100 + "]" * 100, "1 2", "'a'"):
        with pytest.raises(plaintext.NotJson):
            plaintext.parse(text)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.decimals(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON)
def test_what_is_written_is_read_back(value):
    text = plaintext.write(value)

    assert plaintext.parse(text) == value
    json.loads(text)


@given(JSON)
def test_laying_out_changes_nothing_but_blanks(value):
    text = plaintext.write(value)

    laid_out = plaintext._laid_out(plaintext._tree(text), "")

    assert plaintext.parse(laid_out) == value
