import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters import strictjson
from adapters.strictjson import BadJson, Verbatim

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def test_b063_a_nul_character_is_read_and_made_printable():
    value = strictjson.parse(rb'{"text":"log\u0000tail","k\u0000":1}')

    assert value == {"text": "log\x00tail", "k\x00": 1}
    assert strictjson.printable("log\x00tail") == "log\ufffdtail"


def test_b065_a_lone_surrogate_is_kept_and_can_be_written_again():
    value = strictjson.parse(rb'"\ud83d cut emoji"')

    assert value == "\ud83d cut emoji"
    assert strictjson.canonical(value) == rb'"\ud83d cut emoji"'
    assert strictjson.printable("\ud83d cut, \ude00 \U0001f600") == "\ufffd cut, \ufffd \U0001f600"


@pytest.mark.parametrize("token", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999"])
def test_b066_a_number_that_json_does_not_have_is_refused(token):
    with pytest.raises(BadJson):
        strictjson.parse(b'{"score":' + token + b"}")


@pytest.mark.parametrize(
    "body", [b'{"s":1,"s":2}', b'{"a":[{"s":1,"\\u0073":2}]}', b'{"a":{"s":1,"s":1}}'], ids=["top", "escaped", "deep"]
)
def test_b068_a_key_that_occurs_twice_is_refused(body):
    for read in (strictjson.parse, strictjson.members):
        with pytest.raises(BadJson, match="twice"):
            read(body)


@pytest.mark.parametrize("depth", [65, 20_000, 2_000_000])
def test_b070_deep_nesting_is_refused_before_anything_is_built(depth):
    with pytest.raises(BadJson, match="deep"):
        strictjson.parse(b'{"a":"]]]\\"]]",' + b'"b":' + b"[" * depth + b"]" * depth + b"}")


def test_b070_brackets_in_texts_do_not_count_as_nesting():
    assert strictjson.parse(b'["' + b"[{" * 500 + b'"]') == ["[{" * 500]


def test_b070_a_body_of_open_quotes_is_walked_once():
    # Quadratic would be minutes here, far over the suite's patience.
    with pytest.raises(BadJson):
        strictjson.parse(b'"' + b'\\"' * 3_000_000)


def test_b071_one_byte_order_mark_is_tolerated():
    assert strictjson.parse(b"\xef\xbb\xbf[1]") == [1]
    with pytest.raises(BadJson):
        strictjson.parse(b"\xef\xbb\xbf" * 2 + b"[1]")


@pytest.mark.parametrize(
    "body",
    ['{"a":"é"}'.encode("utf-16-le"), '{"a":"é"}'.encode("utf-16"), '{"a":"é"}'.encode("latin-1"), b'"\xed\xa0\xbd"'],
    ids=["utf-16-le", "utf-16", "latin-1", "surrogate bytes"],
)
def test_b071_another_encoding_than_utf_8_is_refused(body):
    with pytest.raises(BadJson):
        strictjson.parse(body)


@pytest.mark.parametrize(
    "body", [b"", b"  ", b'{"a":1}{"x":1}', b'{"a":1} x', b"{", b'{"a":1,}', b"[1,]", b"01", b"'a'"]
)
def test_b072_anything_but_one_document_is_refused(body):
    for read in (strictjson.parse, strictjson.members):
        with pytest.raises(BadJson):
            read(body)


def test_an_integer_keeps_every_digit():
    digits = "9007199254740993" * 20

    assert strictjson.canonical(strictjson.parse(digits.encode())) == digits.encode()


def test_an_integer_beyond_what_python_reads_is_refused_not_raised_as_another_error():
    with pytest.raises(BadJson):
        strictjson.parse(b"1" * 5000)


def test_a_body_over_its_cap_is_refused():
    with pytest.raises(BadJson, match="cap"):
        strictjson.parse(b"[1,2]", max_bytes=4)


def test_a_refusal_never_quotes_the_body():
    with pytest.raises(BadJson) as refused:
        strictjson.parse(b'{"token":"SECRET123" oops')

    assert "SECRET123" not in repr(refused.value)
    assert refused.value.__cause__ is None


def test_members_cut_out_the_exact_bytes():
    found = strictjson.members(b' { "id" : 7 ,\n"result": {"b" :1.50, "a":"\xc3\xa9"}  }\n')

    assert found["result"].raw == b'{"b" :1.50, "a":"\xc3\xa9"}'
    assert found["result"].value == {"b": 1.5, "a": "é"}
    assert found["id"].raw == b"7"
    assert strictjson.members(b"{ }") == {}


@pytest.mark.parametrize("body", [b"[1]", b'"a"', b"1", b"null"])
def test_members_of_anything_but_an_object_are_refused(body):
    with pytest.raises(BadJson):
        strictjson.members(body)


def test_compose_writes_verbatim_parts_as_they_are_and_keeps_the_order():
    composed = strictjson.compose({"z": 1, "arguments": Verbatim(b'{"n" : 1e0}'), "a": ["é"]})

    assert composed == b'{"z":1,"arguments":{"n" : 1e0},"a":["\\u00e9"]}'


@pytest.mark.parametrize("raw", [b'1,"admin":true', b"", b"{", b"NaN", b'{"a":1}}'])
def test_a_verbatim_part_cannot_break_out_of_its_place(raw):
    with pytest.raises(BadJson):
        strictjson.compose({"arguments": Verbatim(raw)})


def test_canonical_forms_of_equal_values_are_equal():
    assert (
        strictjson.canonical({"b": 1, "a": "é"}) == strictjson.canonical({"a": "é", "b": 1}) == b'{"a":"\\u00e9","b":1}'
    )
    assert strictjson.digest_of({"b": 1, "a": 2}) == strictjson.digest(b'{"a":2,"b":1}')


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}])
def test_what_json_cannot_hold_has_no_canonical_form(value):
    with pytest.raises(BadJson):
        strictjson.canonical(value)


@given(values)
def test_whatever_can_be_written_is_read_back_the_same(value):
    assert strictjson.parse(json.dumps(value).encode()) == value
    assert strictjson.parse(strictjson.canonical(value)) == value


@given(st.dictionaries(st.text(), values, max_size=5), st.sampled_from([None, 1]))
def test_members_agree_with_parse(value, indent):
    raw = json.dumps(value, indent=indent, ensure_ascii=False).encode("utf-8", "surrogatepass")
    try:
        whole = strictjson.parse(raw)
    except BadJson:
        return

    found = strictjson.members(raw)

    assert {name: member.value for name, member in found.items()} == whole
    assert all(strictjson.parse(member.raw) == member.value for member in found.values())
    assert all(member.raw in raw for member in found.values())


@given(st.binary(max_size=200) | st.text(alphabet='{}[]",:\\u0dn1e.-tfNI ', max_size=60).map(str.encode))
def test_no_bytes_raise_anything_but_badjson(raw):
    for read in (strictjson.parse, strictjson.members):
        try:
            read(raw)
        except BadJson:
            continue


@pytest.mark.parametrize(
    "raw, where",
    [
        (b"nope", "line 1, column 1"),
        (b'{"a": }', "line 1, column 7"),
        (b'{\n  "a": 1\n  "b": 2\n}', "line 3, column 3"),
        (b'{"a": 1} x', "line 1, column 10"),
        (b"[1,\n 2]\n]", "line 3, column 1"),
        ('{"ü": "ü" "a"}'.encode(), "line 1, column 11"),
        (b'{"a":\n "\xff"}', "line 2, column 3"),
    ],
)
def test_what_is_wrong_is_told_with_its_place_and_without_a_cause(raw, where):
    """A caller can repair it; the body itself goes nowhere."""
    with pytest.raises(strictjson.BadJson, match=where + "$") as told:
        strictjson.parse(raw)

    assert told.value.__cause__ is None
    assert told.value.__context__ is None


def test_a_member_that_occurs_twice_is_told_with_its_place():
    with pytest.raises(strictjson.BadJson, match="line 2, column 2"):
        strictjson.members(b'{"a": 1,\n "a": 2}')
