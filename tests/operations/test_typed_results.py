"""The output guard on results that name their own type, as the responses of AIP-151 do (R2, B136)."""

import json

import pytest

from operations import outputguard

SCHEMA = {"type": "object", "properties": {"@type": {"const": "type.example/R"}}, "required": ["answer"]}


def inspect(value, *, schema: object = None, is_error=False):
    return outputguard.inspect(json.dumps(value).encode(), schema=schema, is_error=is_error, named=None, task_id="t")


def test_a_message_of_the_promised_type_passes():
    assert inspect({"@type": "type.example/R", "answer": 42}, schema=SCHEMA) == ()
    assert inspect({"@type": "type.googleapis.com/google.protobuf.Empty"}) == ()


@pytest.mark.parametrize("value", [{"@type": "type.example/Other", "answer": 42}, {"@type": "type.example/R"}])
def test_b136_another_type_or_a_missing_member_is_found(value):
    assert [finding.startswith("the response, ") for finding in inspect(value, schema=SCHEMA)] == [True]


@pytest.mark.parametrize("value", [{"answer": 42}, {"@type": 3}, ["@type"], "@type"])
def test_what_names_no_type_is_no_result(value):
    assert len(inspect(value)) == 1


def test_a_type_does_not_excuse_content_that_nobody_knows():
    odd = {"@type": "x", "content": [{"type": "program"}]}

    assert len(inspect(odd)) == 1
    assert len(inspect({"@type": "x", "content": []}, schema=SCHEMA)) == 1


def test_secrets_and_directions_are_found_in_a_message_too():
    assert len(inspect({"@type": "t", "key": "AKIA" + "A" * 16, "text": "a\u202eb", "url": "javascript:x"})) == 3


def test_an_error_is_not_held_against_the_schema():
    """R7."""
    assert inspect({"code": 13, "message": "no"}, schema=SCHEMA, is_error=True) == ()
