"""A known credential is masked however JSON spells it and wherever the network cuts it (R8, B259)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters import strictjson
from adapters.contract import MASK
from adapters.veil import Veil

TOKEN = b'ab/C"9=='
SECRETS = (b"Bearer " + TOKEN, TOKEN)


def in_pieces(body, size, secrets=SECRETS):
    veil = Veil(secrets)
    shown = b"".join(veil.feed(body[at : at + size]) for at in range(0, len(body), size))
    return shown + veil.rest(), veil.places


@st.composite
def spelled(draw, secret=TOKEN):
    """The secret as some writer of JSON may put it into a string."""

    def one(char):
        escaped = f"\\u{char:04x}"
        ways = [chr(char), escaped, escaped.upper().replace("U", "u")]
        if chr(char) in '"/':
            ways[0] = "\\" + chr(char)
        return draw(st.sampled_from(ways))

    return "".join(one(char) for char in secret)


@given(spelled(), st.integers(1, 60))
def test_every_spelling_is_masked_in_pieces_of_every_size(text, size):
    body = f'{{"before":"a","echo":"x {text} y","after":"\\u0041b"}}'.encode()
    assert json.loads(body)["echo"] == f"x {TOKEN.decode()} y"

    shown, places = in_pieces(body, size)

    assert strictjson.parse(shown) == {"before": "a", "echo": "x [masked] y", "after": "Ab"}
    assert places == 1


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_json_inside_json_hides_nothing(depth):
    body = TOKEN.decode()
    for _ in range(depth):
        body = json.dumps({"text": body}).replace("/", "\\/")

    shown, _ = in_pieces(body.encode(), 7)

    for _ in range(depth):
        shown = json.loads(shown)["text"].encode()
    assert shown == MASK


@given(st.binary(max_size=200), st.integers(1, 30))
def test_what_holds_no_secret_comes_through_as_it_is(body, size):
    assert in_pieces(body, size, (b"never-in-random-bytes",)) == (body, 0)


@pytest.mark.parametrize("body", [b"ab/C", b"ab\\u00", b"ab\\", b"x ab\\/C\\u0022", b"\\\\\\", b"Bearer ab"])
def test_what_only_begins_like_a_secret_comes_through_at_the_end(body):
    assert in_pieces(body, 1) == (body, 0)


def test_what_cannot_begin_a_secret_is_not_held_back():
    veil = Veil(SECRETS)

    assert veil.feed(b"all of this ") == b"all of this "
    assert veil.feed(b"but a") == b"but "


def test_without_a_credential_nothing_is_touched():
    assert in_pieces(b'{"a":"\\u0041"}', 3, ()) == (b'{"a":"\\u0041"}', 0)
