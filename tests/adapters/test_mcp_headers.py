"""What travels in headers: the encoding's examples, and which annotations a client must refuse."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters import mcp_headers
from adapters.mcp_headers import BadAnnotation, Mirror, UnfitArgument


def schema(**properties):
    return {"type": "object", "properties": properties}


def marked(kind="string", name="Region"):
    return {"type": kind, "x-mcp-header": name}


class TestEncodeValue:
    @pytest.mark.parametrize(
        "text, sent",
        [
            ("us-west1", "us-west1"),
            ("two words", "two words"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("=?base64?open", "=?base64?open"),
            ("tab\tinside", "=?base64?dGFiCWluc2lkZQ==?="),
            ("", "=?base64??="),
            ("~", "~"),
        ],
    )
    def test_the_examples_of_the_contract(self, text, sent):
        assert mcp_headers.encode_value(text) == sent

    @given(text=st.text())
    def test_whatever_is_encoded_is_a_header_value_and_comes_back(self, text):
        sent = mcp_headers.encode_value(text)

        assert sent.isascii()
        assert sent.isprintable()
        assert sent == sent.strip()
        is_encoded = sent.startswith("=?base64?") and sent.endswith("?=")
        back = base64.b64decode(sent[9:-2], validate=True).decode() if is_encoded else sent
        assert back == text.encode("utf-8", "replace").decode()


class TestReadMirrors:
    def test_marks_are_found_at_any_depth_of_properties(self):
        deep = schema(limit=marked("integer", "Limit"))

        found = mcp_headers.read_mirrors(schema(region=marked(), options=deep, plain={"type": "string"}))

        assert found == (
            Mirror(header="Mcp-Param-Region", path=("region",)),
            Mirror(header="Mcp-Param-Limit", path=("options", "limit")),
        )

    @pytest.mark.parametrize("kind", ["string", "integer", "boolean", ["string", "null"]])
    def test_primitive_types_may_be_marked(self, kind):
        assert mcp_headers.read_mirrors(schema(a=marked(kind)))

    @pytest.mark.parametrize("kind", ["number", "object", "array", "null", ["string", "integer"], None, 7, {}])
    def test_other_types_may_not(self, kind):
        with pytest.raises(BadAnnotation):
            mcp_headers.read_mirrors(schema(a=marked(kind)))

    @pytest.mark.parametrize("name", ["", "a b", "a:b", "a\r\nb", "größe", 7, None, "x\t"])
    def test_a_name_that_is_no_token_is_refused(self, name):
        with pytest.raises(BadAnnotation):
            mcp_headers.read_mirrors(schema(a=marked(name=name)))

    def test_two_marks_whose_names_differ_in_case_only_are_refused(self):
        with pytest.raises(BadAnnotation):
            mcp_headers.read_mirrors(schema(a=marked(name="Region"), b=marked(name="region")))

    @pytest.mark.parametrize(
        "misplaced",
        [
            marked(),
            schema(a={"type": "array", "items": marked()}),
            schema(a={"anyOf": [marked(), {"type": "null"}]}),
            {"type": "object", "if": schema(a=marked())},
            {"$defs": {"a": marked()}, "properties": {"a": {"$ref": "#/$defs/a"}}},
            {"patternProperties": {"^a": marked()}},
            {"additionalProperties": marked()},
            {"allOf": [schema(a=marked())]},
        ],
        ids=["root", "items", "anyOf", "if", "$defs", "patternProperties", "additionalProperties", "allOf"],
    )
    def test_a_mark_where_a_chain_of_properties_does_not_lead_is_refused(self, misplaced):
        with pytest.raises(BadAnnotation):
            mcp_headers.read_mirrors(misplaced)

    @pytest.mark.parametrize(
        "innocent",
        [
            schema(**{"x-mcp-header": {"type": "string"}}),
            schema(a={"type": "object", "default": marked(), "examples": [marked()], "const": marked()}),
            {"properties": 7},
            {},
        ],
        ids=["a property of that name", "values", "no properties", "empty"],
    )
    def test_what_only_looks_like_a_mark_is_none(self, innocent):
        assert mcp_headers.read_mirrors(innocent) == ()


class TestMirrored:
    MIRRORS = (Mirror(header="Mcp-Param-A", path=("deep", "a")),)

    @pytest.mark.parametrize(
        "value, sent",
        [("x", "x"), (" ", "=?base64?IA==?="), (True, "true"), (False, "false"), (0, "0"), (-7, "-7"), (42.0, "42")],
    )
    def test_a_value_is_written_as_text(self, value, sent):
        assert mcp_headers.mirrored(self.MIRRORS, {"deep": {"a": value}}) == (("Mcp-Param-A", sent),)

    @pytest.mark.parametrize("arguments", [{}, {"deep": {}}, {"deep": {"a": None}}, {"deep": 7}, 7, []])
    def test_an_absent_or_null_value_has_no_header(self, arguments):
        assert mcp_headers.mirrored(self.MIRRORS, arguments) == ()

    @pytest.mark.parametrize("value", [2**53, -(2**53), 1.5, [], {}, ["x"]])
    def test_what_no_header_can_carry_is_refused_without_quoting_it(self, value):
        with pytest.raises(UnfitArgument, match=r"deep\.a"):
            mcp_headers.mirrored(self.MIRRORS, {"deep": {"a": value}})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["properties", "x-mcp-header", "type", "items", "default", "a", "$defs", "anyOf"]),
            inner | st.sampled_from(["string", "Region"]),
            max_size=5,
        )
    ),
    max_leaves=15,
)


@given(told=st.dictionaries(st.sampled_from(["properties", "x-mcp-header", "items"]), JSON), arguments=JSON)
def test_any_schema_is_read_or_refused(told, arguments):
    try:
        mirrors = mcp_headers.read_mirrors(told)
        mcp_headers.mirrored(mirrors, arguments)
    except (BadAnnotation, UnfitArgument):
        pass
