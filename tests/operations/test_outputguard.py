"""What stands against accepting a result (R2, B049 to B062), whatever the server's schema is made of."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operations import boundedschema, outputguard

THINGS = {"type": "object", "properties": {"things": {"type": "array"}}, "required": ["things"]}
PATIENCE_S = 20.0
"""Far above what the bound allows, far below what an unbounded check takes."""


def inspect(told, *, schema=None, is_error=False, named=None, task_id="t"):
    raw = told if isinstance(told, bytes) else json.dumps(told).encode()
    return outputguard.inspect(raw, schema=schema, is_error=is_error, named=named, task_id=task_id)


def structured(value, schema):
    return inspect({"content": [], "structuredContent": value}, schema=schema)


def text(words):
    return {"content": [{"type": "text", "text": words}]}


class TestShape:
    def test_a_good_result_has_nothing_against_it(self):
        assert inspect(text("done")) == ()

    @pytest.mark.parametrize("told", [{}, {"toolResult": {"content": []}}, {"content": None}, [], "x", None, 3])
    def test_b057_without_a_content_list_it_is_no_success(self, told):
        assert inspect(told)

    @pytest.mark.parametrize("kind", ["video", None, 3, ["text"]])
    def test_a_kind_that_nobody_defined_is_found(self, kind):
        assert "unknown kind" in inspect({"content": [{"type": kind}]})[0]

    @pytest.mark.parametrize("kind", ["text", "image", "audio", "resource", "resource_link"])
    def test_every_kind_of_the_protocol_passes(self, kind):
        assert inspect({"content": [{"type": kind}]}) == ()

    @pytest.mark.parametrize("raw", [b"{", b'{"content":[],"a":NaN}', b'{"content":[],"content":[]}', b"\xff\xfe"])
    def test_what_is_not_strict_json_is_found(self, raw):
        assert "not strict JSON" in inspect(raw)[0]

    def test_b062_what_is_too_large_is_one_finding(self):
        (found,) = inspect(b'"' + b"x" * outputguard.MAX_BYTES + b'"')

        assert str(outputguard.MAX_BYTES) in found

    def test_f8_a_result_that_names_another_task_is_found(self):
        assert "another task" in inspect(text("x"), named="other")[0]
        assert inspect(text("x"), named="t") == ()


class TestSchema:
    def test_b049_an_error_is_not_held_against_the_schema(self):
        told = text("NOT_FOUND") | {"structuredContent": {"err": 1}, "isError": True}

        assert inspect(told, schema=THINGS, is_error=True) == ()

    @pytest.mark.parametrize("given_", [None, "{}", [], 3])
    def test_b050_structured_content_that_was_promised_and_is_not_there_is_found(self, given_):
        told = text('{"things": []}') | ({} if given_ is None else {"structuredContent": given_})

        assert "promises structured content" in inspect(told, schema=THINGS)[0]

    def test_b050_what_breaks_the_schema_is_named_with_its_place(self):
        assert structured({"things": 3}, THINGS)[0].startswith("structured content, things: ")

    @pytest.mark.parametrize("ref", ["http://127.0.0.1:9/x", "file:///etc/hostname", "other.json", "#/$defs/none"])
    def test_b053_a_reference_never_leaves_the_schema(self, ref):
        assert "cannot be used" in structured({}, {"$ref": ref})[0]

    @pytest.mark.parametrize(
        "schema",
        [
            [],
            "x",
            {"type": "money"},
            {"properties": {"s": {"pattern": "("}}},
            {"properties": {"s": {"pattern": "^\\p{L}+$"}}},
            {"properties": {"s": {"pattern": "(?=a)a"}}},
            {"$ref": "#"},
            {"properties": 3},
            {"patternProperties": {"(": {}}},
        ],
    )
    def test_b055_every_unusable_schema_is_one_finding_and_no_exception(self, schema):
        (found,) = structured({"s": "a"}, schema)

        assert "schema" in found

    def test_draft_2020_12_still_means_what_it_says(self):
        schema = {
            "properties": {"a": {"type": "string", "pattern": "^x+$"}, "n": {"uniqueItems": True}},
            "patternProperties": {"^s_": {"type": "string"}},
            "additionalProperties": False,
        }

        assert structured({"a": "xx", "s_1": "t", "n": [1, 2]}, schema) == ()
        assert "does not match" in structured({"a": "y"}, schema)[0]
        assert "s_1" in structured({"s_1": 3}, schema)[0]
        assert "not announced" in structured({"other": 3}, schema)[0]
        assert len(structured({"n": [1, 1.0]}, schema)) == 1
        assert len(structured({"n": ["a", "a"]}, schema)) == 1

    def test_additional_properties_may_have_a_schema_of_their_own(self):
        schema = {"properties": {"a": {}}, "additionalProperties": {"type": "string"}}

        assert structured({"a": 1, "b": "x"}, schema) == ()
        assert structured({"b": 3}, schema)[0].startswith("structured content, b")

    def test_unevaluated_properties_are_checked_or_refused(self):
        schema = {"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}

        assert structured({"a": 1}, schema) == ()
        assert structured({"b": 1}, schema)
        assert "cannot be used" in structured({"b": 1}, schema | {"patternProperties": {"c": {}}})[0]


def doubling(depth):
    """A schema whose references multiply: two for each level."""
    levels = {str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(depth)}
    return {"$ref": "#/$defs/0", "$defs": levels | {str(depth): {"type": "object"}}}


HOSTILE = {
    "nested repeats": ({"properties": {"s": {"pattern": "^(a+)+$"}}}, {"s": "a" * 5000 + "!"}),
    "the same way twice": ({"properties": {"s": {"pattern": "^(a|a)*$"}}}, {"s": "a" * 5000 + "!"}),
    "many stars": ({"properties": {"s": {"pattern": "a*" * 60 + "b"}}}, {"s": "a" * 3000}),
    "blanks to the end": ({"properties": {"s": {"pattern": "\\s+$"}}}, {"s": " " * 500_000 + "x"}),
    "counted repeats": ({"properties": {"s": {"pattern": "((a{99}){99}){99}"}}}, {"s": "a" * 100}),
    "names of properties": ({"patternProperties": {"^(a+)+$": {}}}, {"a" * 5000 + "!": 1}),
    "names left over": (
        {"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False},
        {"a" * 5000 + "!": 1},
    ),
    "references that multiply": (doubling(40), {}),
    "a reference to itself": ({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, {}),
    "unlike items": ({"properties": {"n": {"uniqueItems": True}}}, {"n": [{"a": n} for n in range(20_000)]}),
    "choices in choices": (
        {"$defs": {"a": {"anyOf": [{"properties": {"x": {"$ref": "#/$defs/a"}}, "required": ["y"]}] * 8}}}
        | {"$ref": "#/$defs/a"},
        json.loads('{"x":' * 30 + "1" + "}" * 30),
    ),
    "a pattern for every item": (
        {"properties": {"n": {"items": {"pattern": "(a|b)*"}}}},
        {"n": ["ab" * 50] * 10_000},
    ),
    "pattern of a schema's own check": ({"$id": "#" * 100_000, "type": "object"}, {}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_r2_no_schema_makes_a_check_run_for_long(name):
    schema, value = HOSTILE[name]
    began = time.monotonic()

    structured(value, schema)

    assert time.monotonic() - began < PATIENCE_S


@pytest.mark.parametrize("name", ["references that multiply", "unlike items", "a pattern for every item"])
def test_r2_what_costs_too_much_is_never_accepted(name):
    schema, value = HOSTILE[name]

    (found,) = structured(value, schema)

    assert "too long" in found


class TestTexts:
    @pytest.mark.parametrize("link", ["javascript:alert(1)", " JavaScript:x", "file:///etc/passwd", "vbscript:x"])
    @pytest.mark.parametrize("name", ["uri", "url", "href"])
    def test_r2_a_link_with_another_scheme_is_found(self, link, name):
        told = {"content": [{"type": "resource_link", name: link}]}

        assert "scheme" in inspect(told)[0]

    @pytest.mark.parametrize("link", ["https://a.example/", "http://a/", "data:text/plain,x", "relative/path"])
    def test_a_link_that_is_allowed_passes(self, link):
        assert inspect({"content": [{"type": "resource_link", "uri": link}]}) == ()

    @pytest.mark.parametrize("odd", ["\x00", "\x1b[31m", "\u202e", "\u2066", "\x7f"])
    def test_r2_control_and_direction_characters_are_found(self, odd):
        assert "direction characters" in inspect(text(f"a{odd}b"))[0]

    def test_line_ends_and_tabs_pass(self):
        assert inspect(text("a\tb\r\nc")) == ()

    @pytest.mark.parametrize(
        "secret",
        [
            "-----BEGIN RSA PRIVATE KEY-----",
            "AKIA" + "A" * 16,
            "ghp_" + "a" * 36,
            "xoxb-" + "1" * 24,
        ],
    )
    def test_r2_what_looks_like_a_secret_is_found_and_never_repeated(self, secret):
        (found,) = inspect(text(f"key: {secret}"))

        assert "secret" in found
        assert secret not in found

    def test_what_stands_in_an_error_is_looked_at_too(self):
        assert inspect(text("\x1b[2J"), is_error=True)

    def test_findings_end(self):
        told = {"content": [{"type": n} for n in range(1000)]}

        assert len(inspect(told)) == outputguard.MAX_FINDINGS


@settings(max_examples=150, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
        max_leaves=12,
    ),
    st.dictionaries(
        st.sampled_from(["type", "pattern", "items", "$ref", "allOf", "enum", "properties", "minimum", "required"]),
        st.none() | st.text(max_size=6) | st.integers() | st.lists(st.text(max_size=3), max_size=2),
        max_size=3,
    ),
)
def test_whatever_is_told_and_whatever_was_promised_there_is_an_answer(value, schema):
    assert isinstance(structured(value, schema), tuple)
    assert isinstance(outputguard.violations(schema, value), tuple)


def test_the_bound_is_on_one_check_as_a_whole():
    with pytest.raises(boundedschema.TooMuch):
        list(boundedschema.errors({"items": {"pattern": "x" * 100}}, ["y" * 100] * 1000))


def test_each_check_has_a_bound_of_its_own_also_beside_and_after_one_that_was_left():
    """A check is lent to the next value when it ends: what one has used up, the other must not miss."""
    dear = {"items": {"pattern": "x" * 100}}
    begun = boundedschema.errors({"items": {"type": "string"}}, [1, 2, "y"])
    next(begun)
    with pytest.raises(boundedschema.TooMuch):
        list(boundedschema.errors(dear, ["y" * 100] * 1000))

    assert [error.message for error in begun] == ["2 is not of type 'string'"]
    left = boundedschema.errors({"items": {"type": "string"}}, [1, 2])
    next(left)
    left.close()
    assert len(list(boundedschema.errors({"items": {"type": "string"}}, [1, 2, 3]))) == 3
    assert [error.message for error in boundedschema.errors(dear, ["y"])] != []
