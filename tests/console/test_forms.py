"""Questions become forms, and forms become answers: the subset of both contracts, and what lies beyond it."""

import json
from decimal import Decimal

import jsonschema
import pytest
from django.http import QueryDict
from hypothesis import given, settings
from hypothesis import strategies as st

from console import forms, parts
from console.forms import Choice, Kind, RoundForm
from operations.queries.rounds import RoundQuestion


def asked(schema, **changes):
    facts = {"key": '"q1"', "mode": "form", "message": "Please confirm", "schema": schema, "url": "", "digest": "d"}
    return RoundQuestion(**facts | changes)


def form_of(schema, **fields):
    return RoundForm([asked(schema)], data=posted(**fields))


def posted(**fields):
    data = QueryDict(mutable=True)
    for name, value in fields.items():
        data.setlist(name, value if isinstance(value, list) else [value])
    return data


def content(schema, **fields):
    """The JSON text of an accepted answer; None when the form refuses it."""
    replies = form_of(schema, **fields).replies(Choice.ACCEPT)
    return replies[0].content if replies else None


def errors(schema, **fields):
    form = form_of(schema, **fields)
    assert form.replies(Choice.ACCEPT) is None
    return [text for texts in form.questions[0].errors.values() for text in texts]


def flat(properties, *required):
    return {"type": "object", "properties": properties, "required": list(required)}


def one(schema, *, required=True):
    return flat({"x": schema}, *(["x"] if required else []))


def shown(schema, **changes):
    return forms.show(asked(schema, **changes))


class TestYesNo:
    def test_a_required_no_is_an_answer(self):
        """B143: false is a value, and nothing is chosen beforehand."""
        schema = flat({"confirm": {"type": "boolean"}}, "confirm")

        assert content(schema, q0f0="false") == '{"confirm": false}'
        assert RoundForm([asked(schema)]).questions[0]["q0f0"].value() == ""

    def test_no_answer_is_refused_when_one_is_required(self):
        assert errors(one({"type": "boolean"}), q0f0="") == ["An answer is required."]
        assert errors(one({"type": "boolean"})) == ["An answer is required."]

    def test_an_optional_one_can_be_left_out(self):
        assert content(one({"type": "boolean"}, required=False), q0f0="") == "{}"

    def test_a_default_is_chosen_beforehand(self):
        form = RoundForm([asked(one({"type": "boolean", "default": False}))])

        assert form.questions[0]["q0f0"].value() == "false"

    @pytest.mark.parametrize("value", ["on", "1", "True", "null"])
    def test_nothing_else_counts_as_yes(self, value):
        assert errors(one({"type": "boolean"}), q0f0=value)


class TestChoices:
    def test_short_legacy_names_leave_values_to_speak_for_themselves(self):
        """B145: three options, the third shows its value, and what is sent is a value."""
        schema = one({"type": "string", "enum": ["a", "b", "c"], "enumNames": ["Alpha", "Beta"]})

        part = shown(schema).parts[0]

        assert part.numbered == [("0", "Alpha"), ("1", "Beta"), ("2", "c")]
        assert content(schema, q0f0="0") == '{"x": "a"}'
        assert errors(schema, q0f0="Alpha") == ["This is not one of the choices."]

    def test_names_without_an_enum_are_a_text(self):
        """B145"""
        assert isinstance(shown(one({"type": "string", "enumNames": ["A"]})).parts[0], parts.Text)

    @pytest.mark.parametrize("extra", [{}, {"type": "string"}])
    def test_titled_choices_send_their_constant(self, extra):
        """B146: also where a title equals another constant, and where the type was left out."""
        titled = [{"const": "low", "title": "high"}, {"const": "high", "title": "Really high"}]

        assert content(one({"oneOf": titled} | extra), q0f0="0") == '{"x": "low"}'
        assert content(one({"oneOf": titled} | extra), q0f0="1") == '{"x": "high"}'

    @pytest.mark.parametrize("place", ["2", "-1", "\u0660", "0x0", "99999999999999999999"])
    def test_a_position_that_is_none_is_refused(self, place):
        assert errors(one({"enum": ["a", "b"]}), q0f0=place)

    def test_an_empty_text_can_be_a_choice(self):
        assert content(one({"enum": ["", "b"]}), q0f0="0") == '{"x": ""}'

    def test_more_than_five_choices_become_a_list(self):
        assert shown(one({"enum": list("abcde")})).parts[0].kind == "choice"
        assert shown(one({"enum": list("abcdef")})).parts[0].kind == "select"

    def test_whole_numbers_can_be_choices(self):
        assert content(one({"type": "integer", "enum": [1, 20]}), q0f0="1") == '{"x": 20}'


COLOURS = {
    "type": "array",
    "minItems": 1,
    "maxItems": 2,
    "items": {"anyOf": [{"const": "#f00", "title": "Red"}, {"const": "#0f0", "title": "Green"}, {"const": "#00f"}]},
    "default": ["#f00"],
}


class TestManyChoices:
    def test_an_array_is_sent_also_for_one(self):
        """B147"""
        assert content(one(COLOURS), q0f0=["0", "1"]) == '{"x": ["#f00", "#0f0"]}'
        assert content(one(COLOURS), q0f0="2") == '{"x": ["#00f"]}'

    def test_too_many_and_too_few_are_refused(self):
        """B147"""
        assert errors(one(COLOURS), q0f0=["0", "1", "2"]) == ["Choose at most 2."]
        assert errors(one(COLOURS)) == ["Choose at least 1."]

    def test_none_chosen_is_an_empty_array_only_where_that_is_allowed(self):
        """B147"""
        free = {name: value for name, value in COLOURS.items() if name != "minItems"}

        assert content(one(free, required=False)) == '{"x": []}'
        assert content(one(COLOURS, required=False)) == "{}"

    def test_the_default_is_ticked(self):
        assert RoundForm([asked(one(COLOURS))]).questions[0]["q0f0"].value() == ["0"]

    def test_a_choice_sent_twice_counts_once(self):
        assert content(one(COLOURS), q0f0=["1", "1"]) == '{"x": ["#0f0"]}'


class TestNumbers:
    @pytest.mark.parametrize(
        "typed, sent",
        [("7", "7"), ("+7", "7"), (" 7 ", "7"), ("0", "0"), ("-0", "0"), ("007", "7"), ("100", "100")]
        + [
            (bad, None)
            for bad in ("1.0", "42xyz", "5_0", "\u0665", "0x10", "1e2", "-1", "101", "", "Infinity", "9" * 5000)
        ],
    )
    def test_whole_numbers_are_read_from_the_whole_text(self, typed, sent):
        """B149: a required key is never missing from an accepted answer."""
        got = content(one({"type": "integer", "minimum": 0, "maximum": 100}), q0f0=typed)

        assert got == (None if sent is None else f'{{"x": {sent}}}')

    @pytest.mark.parametrize("digits", ["9007199254740993", "123456789012345678901234567890"])
    def test_no_digit_of_a_large_number_is_lost(self, digits):
        assert content(one({"type": "integer"}), q0f0=digits) == f'{{"x": {digits}}}'

    @pytest.mark.parametrize("typed", ["0.1", "12.50", "3.14159265358979323846264338327950288", "-0.000"])
    def test_no_digit_of_a_fraction_is_lost(self, typed):
        assert content(one({"type": "number"}), q0f0=typed) == f'{{"x": {typed}}}'

    @pytest.mark.parametrize("typed", ["1e400", "-1e400", "NaN", "1,5", "1_0", "--1", ".", "1e", "\u0663.\u0665"])
    def test_what_is_no_number_is_refused(self, typed):
        assert errors(one({"type": "number"}), q0f0=typed)

    def test_bounds_are_compared_exactly(self):
        """A float would take 0.1 + a hair for 0.1."""
        schema = one({"type": "number", "maximum": Decimal("0.1")})

        assert content(schema, q0f0="0.1") == '{"x": 0.1}'
        assert errors(schema, q0f0="0.10000000000000000001") == ["At most 0.1."]

    def test_bounds_that_exclude_their_value(self):
        schema = one({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 3})

        assert errors(schema, q0f0="0") == ["More than 0."]
        assert errors(schema, q0f0="3") == ["Less than 3."]
        assert content(schema, q0f0="2") == '{"x": 2}'

    def test_a_default_keeps_its_digits(self):
        assert (
            RoundForm([asked(one({"type": "number", "default": Decimal("8.50")}))]).questions[0]["q0f0"].value()
            == "8.50"
        )


class TestTexts:
    def test_what_is_left_blank_is_left_out(self):
        """B152: neither an empty text nor null."""
        schema = flat(
            {"mail": {"type": "string", "format": "email"}, "n": {"type": "integer"}, "note": {"type": "string"}}
        )

        assert content(schema, q0f0="", q0f1="", q0f2="") == "{}"

    def test_a_required_text_left_blank_is_refused(self):
        """B153"""
        assert errors(one({"type": "string"}), q0f0="") == ["An answer is required."]

    def test_an_empty_text_is_an_answer_where_the_schema_says_so(self):
        """B153"""
        assert content(one({"type": "string", "minLength": 0}), q0f0="") == '{"x": ""}'

    @pytest.mark.parametrize(
        "typed, sent", [("  hi", "  hi"), ("😀😀😀😀", "😀😀😀😀"), ("a\r\nb", "a\nb"), ("   ", "   "), ("abcde", None)]
    )
    def test_the_exact_text_is_sent_and_code_points_count(self, typed, sent):
        """B155: blanks stay, also when there is nothing else."""
        got = content(one({"type": "string", "minLength": 1, "maxLength": 4}), q0f0=typed)

        assert (json.loads(got)["x"] if got else None) == sent

    @pytest.mark.parametrize(
        "format_, typed, sent",
        [
            ("date", "2026-02-28", "2026-02-28"),
            ("date", "2026-02-30", None),
            ("date", "10/11/2026", None),
            ("date", "20260228", None),
            ("date-time", "2026-09-22T10:00", "2026-09-22T10:00:00Z"),
            ("date-time", "2026-09-22 10:00:05", "2026-09-22T10:00:05Z"),
            ("date-time", "2026-09-22T10:00:00.125+02:00", "2026-09-22T10:00:00.125+02:00"),
            ("date-time", "2026-09-22T25:00:00Z", None),
            ("date-time", "2026-09-22", None),
            ("uri", "urn:isbn:1", "urn:isbn:1"),
            ("uri", "javascript:alert(1)", "javascript:alert(1)"),
            ("uri", "no uri", None),
            ("uri", "/relative", None),
            ("email", "a@localhost", "a@localhost"),
            ("email", "ann@example.org", "ann@example.org"),
            ("email", "ann", None),
        ],
    )
    def test_formats(self, format_, typed, sent):
        """B154: an explicit offset, no dates that depend on a country, any scheme of URI."""
        got = content(one({"type": "string", "format": format_}), q0f0=typed)

        assert (json.loads(got)["x"] if got else None) == sent

    def test_the_zone_that_is_meant_is_told(self):
        """B154"""
        assert shown(one({"type": "string", "format": "date-time"})).parts[0].kind == "instant"

    def test_a_pattern_is_checked(self):
        schema = one({"type": "string", "pattern": "^[0-9]{4}-Q[1-4]$"})

        assert content(schema, q0f0="2026-Q3") == '{"x": "2026-Q3"}'
        assert errors(schema, q0f0="2026-Q5") == ["It does not match the pattern ^[0-9]{4}-Q[1-4]$."]

    @pytest.mark.parametrize("bad", ["a\x00b", "a\ud800"])
    def test_a_character_that_cannot_be_sent_is_refused(self, bad):
        assert errors(one({"type": "string"}), q0f0=bad) == ["It holds a character that cannot be sent."]


def test_property_names_never_reach_the_page():
    """B157: names in the page are positions; the answer has exactly the server's keys."""
    names = ["a.b", "a b", "a-b", "a[b]", "__proto__", "constructor", "csrfmiddlewaretoken", "action", "round", "é"]
    names += ["", "$repeat[x,300]", "q0f0"]
    schema = flat({name: {"type": "string"} for name in names})

    form = form_of(schema, **{f"q0f{place}": f"value {place}" for place in range(len(names))})
    [reply] = form.replies(Choice.ACCEPT)

    assert json.loads(reply.content) == {name: f"value {place}" for place, name in enumerate(names)}
    assert set(form.questions[0].fields) == {f"q0f{place}" for place in range(len(names))}


class TestOtherSchemas:
    @pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "object", "properties": {}}, {}])
    def test_a_question_without_fields_wants_a_decision_only(self, schema):
        """B159"""
        assert shown(schema).kind is Kind.FORM
        assert content(schema) == "{}"

    @pytest.mark.parametrize("schema", [None, {"type": "string"}, [], "object", {"type": "object", "required": 5}])
    def test_what_no_object_satisfies_can_only_be_declined_or_dismissed(self, schema):
        """B159"""
        form = form_of(schema)

        assert form.questions[0].kind is Kind.UNUSABLE
        assert not form.acceptable
        assert form.replies(Choice.ACCEPT) is None
        assert form.replies(Choice.DECLINE)[0].action == "decline"

    NESTED = flat({"addr": {"type": "object", "properties": {"zip": {"type": "string"}}, "required": ["zip"]}}, "addr")

    def test_nested_objects_are_written_as_json_and_checked(self):
        """B160, stricter and kinder: never half a form, but an answer is possible."""
        assert shown(self.NESTED).kind is Kind.JSON
        assert (
            content(self.NESTED, q0json='{"addr": {"zip": "01", "lat": 1.10}}')
            == '{"addr": {"zip": "01", "lat": 1.10}}'
        )
        assert errors(self.NESTED, q0json='{"addr": {}}') == ["addr: 'zip' is missing"]

    @pytest.mark.parametrize(
        "text", ["", "{", "[]", '{"addr": {"zip": "1"}, "addr": {"zip": "2"}}', '{"a": NaN}', '{"a": 1e400}']
    )
    def test_json_that_is_not_strict_is_refused(self, text):
        assert errors(self.NESTED, q0json=text)

    @pytest.mark.parametrize(
        "part",
        [
            {"type": "string", "format": "ipv4"},
            {"type": "string", "const": "x"},
            {"type": "integer", "multipleOf": 5},
            {"type": ["string", "null"]},
            {"type": "array", "items": {"type": "string"}},
            {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            {"type": "string", "pattern": "(?=a)"},
            {"$ref": "https://example.org/schema"},
            {},
            True,
        ],
    )
    def test_a_rule_that_no_field_shows_leads_to_json(self, part):
        assert shown(one(part)).kind is Kind.JSON

    @pytest.mark.parametrize(
        "word", [{"minProperties": 1}, {"allOf": [{}]}, {"additionalProperties": {"type": "string"}}]
    )
    def test_a_rule_for_the_whole_object_leads_to_json(self, word):
        assert shown(flat({"x": {"type": "string"}}) | word).kind is Kind.JSON

    def test_a_required_name_without_a_description_leads_to_json(self):
        schema = flat({"x": {"type": "string"}}, "x", "y")

        assert shown(schema).kind is Kind.JSON
        assert errors(schema, q0json='{"x": "1"}') == ["'y' is missing"]

    def test_annotations_change_nothing(self):
        part = {
            "type": "string",
            "title": "T",
            "description": "D",
            "examples": ["e"],
            "x-order": 1,
            "deprecated": False,
        }

        assert shown(one(part)).kind is Kind.FORM

    def test_a_choice_kept_among_the_definitions_is_followed(self):
        schema = one({"$ref": "#/$defs/Colour"}) | {"$defs": {"Colour": {"type": "string", "enum": ["red", "blue"]}}}

        assert content(schema, q0f0="1") == '{"x": "blue"}'

    def test_a_pattern_that_cannot_be_checked_is_named(self):
        form = RoundForm([asked(one({"type": "string", "pattern": "(?<=a)b"}))])

        assert form.questions[0].unchecked_patterns == ["(?<=a)b"]

    @pytest.mark.parametrize(
        "schema",
        [
            one({"$ref": "#"}),
            one({"$ref": "#/properties/x"}),
            {"type": "object", "properties": {"x": {"allOf": [{"$ref": "#/$defs/a0"}]}}}
            | {"$defs": {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(30)} | {"a30": {}}},
        ],
    )
    def test_a_schema_that_refers_to_itself_without_end_ends(self, schema):
        assert errors(schema, q0json='{"x": {"x": {}}}')

    def test_no_schema_is_fetched(self):
        found = errors(one({"$ref": "http://192.0.2.1/schema.json"}), q0json='{"x": 1}')

        assert found == [
            "The schema refers to another document, which is not fetched. Decline or dismiss the question."
        ]

    def test_a_hostile_pattern_costs_no_time(self):
        schema = flat({"x": {"type": "string", "pattern": "^(a+)+$"}, "y": {"type": "object"}}, "x")

        assert errors(schema, q0json=json.dumps({"x": "a" * 5000 + "!"}))

    def test_an_unknown_kind_of_question_is_not_invented(self):
        """B166: what is known in the same round stays answerable."""
        form = RoundForm(
            [asked({"type": "object"}, key="1"), asked({}, key="2", mode="sampling")],
            data=posted(q0choice="accept", q1choice="decline"),
        )

        assert form.questions[1].kind is Kind.UNUSABLE
        assert [reply.action for reply in form.replies(Choice.ACCEPT)] == ["accept", "decline"]

    @pytest.mark.parametrize("name, title", [("api_key", "API key"), ("x", "Your password"), ("token", None)])
    def test_a_question_for_a_secret_is_noticed(self, name, title):
        """B167"""
        part = {"type": "string"} | ({"title": title} if title else {})

        assert RoundForm([asked(flat({name: part}, name))]).questions[0].asks_for_secret
        assert not RoundForm([asked(flat({"monkey": {"type": "string"}}))]).questions[0].asks_for_secret


class TestThreeAnswers:
    YES_NO = flat({"ok": {"type": "boolean"}}, "ok")

    @pytest.mark.parametrize("pressed, action", [(Choice.DECLINE, "decline"), (Choice.DISMISS, "cancel")])
    def test_decline_and_dismiss_need_no_field_and_carry_none(self, pressed, action):
        """B181"""
        [reply] = form_of(self.YES_NO, q0f0="true").replies(pressed)

        assert (reply.action, reply.content) == (action, None)

    def test_each_question_of_several_has_its_own_answer(self):
        """B175"""
        questions = [asked(self.YES_NO, key="1"), asked(self.YES_NO, key="2"), asked(self.YES_NO, key="3")]
        data = posted(q0choice="accept", q0f0="true", q1choice="decline", q2choice="cancel")

        replies = RoundForm(questions, data=data).replies(Choice.ACCEPT)

        assert [(reply.key, reply.action, reply.content) for reply in replies] == [
            ("1", "accept", '{"ok": true}'),
            ("2", "decline", None),
            ("3", "cancel", None),
        ]

    def test_a_question_without_an_answer_is_not_passed_over(self):
        """B175"""
        questions = [asked(self.YES_NO, key="1"), asked(self.YES_NO, key="2")]
        form = RoundForm(questions, data=posted(q0choice="accept", q0f0="true"))

        assert form.replies(Choice.ACCEPT) is None
        assert form.questions[1].non_field_errors() == ["Choose an answer to this question."]

    def test_accepting_a_page_to_visit_carries_nothing(self):
        """B165: consent, and no word about completion."""
        [reply] = RoundForm([asked({}, mode="url", url="https://shop.example/x")], data=posted()).replies(Choice.ACCEPT)

        assert (reply.action, reply.content) == ("accept", None)

    def test_a_blocked_page_cannot_be_accepted(self):
        """B164"""
        form = RoundForm([asked({}, mode="url", url="javascript:alert(1)")], data=posted())

        assert not form.acceptable
        assert form.replies(Choice.ACCEPT) is None


def test_hidden_characters_of_a_server_are_written_out():
    """B162"""
    part = shown(one({"type": "string", "title": "pay\u202eeman", "description": "a\u200bb"})).parts[0]

    assert part.label == "pay⟨U+202E⟩eman"
    assert part.help_text == "a⟨U+200B⟩b"


def test_more_fields_than_a_page_holds_lead_to_json():
    assert shown(flat({f"p{n}": {"type": "string"} for n in range(61)})).kind is Kind.JSON


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["string", "object", "#/$defs/a", "^a+$", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "enum", "const", "oneOf", "items", "$ref", "default"]), inner)
    ),
    max_leaves=6,
)
PARTS = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer", "number", "boolean", "array"])},
    optional={
        "enum": st.lists(st.text(max_size=2) | st.integers(0, 3), max_size=3),
        "items": st.just({"type": "string", "enum": ["a", "b"]}) | ANYTHING,
        "oneOf": st.lists(st.fixed_dictionaries({"const": st.text(max_size=2)}), max_size=3),
        "format": st.sampled_from(["email", "uri", "date", "date-time", "other"]),
        "minimum": st.integers(-3, 3),
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(0, 4),
        "minItems": st.integers(0, 2),
        "default": ANYTHING,
    },
)
SCHEMAS = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.dictionaries(st.text(max_size=3), PARTS | ANYTHING, max_size=3)},
    optional={"required": st.lists(st.text(max_size=3), max_size=2, unique=True), "additionalProperties": ANYTHING},
)
TYPED = st.lists(
    st.sampled_from(["", "0", "1", "true", "a", "2026-01-01", "a@b.c", "urn:x", "1.5", "2026-01-01T10:00"]),
    min_size=3,
    max_size=3,
)


@settings(max_examples=400, deadline=None)
@given(schema=SCHEMAS | ANYTHING, typed=TYPED)
def test_whatever_a_server_sends_an_accepted_answer_satisfies_its_schema(schema, typed):
    form = form_of(schema, q0json="{}", **{f"q0f{place}": text for place, text in enumerate(typed)})

    replies = form.replies(Choice.ACCEPT)

    if replies:
        jsonschema.Draft202012Validator(schema).validate(json.loads(replies[0].content))
