"""What a check against a schema found, in words that have a translation."""

from decimal import Decimal

import pytest

from console import faultwords, schemas


def said(rule, value):
    return schemas.faults({"type": "object", "properties": {"x": rule}}, {"x": value})


@pytest.mark.parametrize(
    "rule, value, words",
    [
        ({"type": "string"}, 1, "x: must be of type string"),
        ({"type": ["string", "null"]}, 1, "x: must be of type string, null"),
        ({"enum": ["a", 2, True, None]}, "b", "x: must be one of: a, 2, true, null"),
        ({"const": {"a": "ä"}}, 1, 'x: must be exactly {"a": "ä"}'),
        ({"format": "date"}, "soon", "x: must be of the form date"),
        ({"minimum": Decimal("0.10")}, 0, "x: must be at least 0.10"),
        ({"maximum": 3}, 4, "x: must be at most 3"),
        ({"exclusiveMinimum": 3}, 3, "x: must be more than 3"),
        ({"exclusiveMaximum": 3}, 3, "x: must be less than 3"),
        ({"multipleOf": 2}, 3, "x: must be a multiple of 2"),
        ({"minLength": 2}, "a", "x: needs 2 characters or more"),
        ({"maxLength": 2}, "abc", "x: may have 2 characters at most"),
        ({"minItems": 1}, [], "x: needs 1 entries or more"),
        ({"maxItems": 1}, [1, 2], "x: may have 1 entries at most"),
        ({"uniqueItems": True}, [1, 1], "x: must not hold the same entry twice"),
        ({"additionalProperties": False}, {"a": 1}, "x: holds a name that is not allowed"),
        ({"required": ["a"]}, {}, "x: 'a' is missing"),
    ],
)
def test_a_fault_is_said_without_the_checkers_own_words(rule, value, words):
    assert said(rule, value) == [words]


def test_a_rule_without_words_of_ours_keeps_the_checkers():
    [found] = said({"not": {}}, 1)

    assert found.startswith("x: ")


def test_a_long_list_of_choices_is_cut():
    [found] = said({"enum": ["word" * 10] * 100}, 1)

    assert len(found) <= faultwords.LONGEST + len("x: ")
