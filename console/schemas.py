"""Foreign JSON schemas: is there one at all, and does a value satisfy it?

A schema is data that a server chose. Nothing it refers to is fetched, its patterns run on our own
engine (`pattern`), and references are counted, so that no schema can make a check run for long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
from django.utils.translation import gettext as _
from jsonschema import validators
from referencing import Registry
from referencing.exceptions import Unresolvable

from console import faultwords, plaintext
from operations import pattern

MAX_REFERENCES = 500
MAX_FAULTS = 5

Schema = Mapping[str, Any]
_Fault = jsonschema.ValidationError
_Validator = Any
"""What the library hands to a rule; it has no public type with `descend`."""


class Unusable(ValueError):
    """No object can be checked against this. The message says why, for a person."""


class _TooManyReferences(Exception):
    pass


def checked(schema: object) -> Schema:
    """Return the schema if answers can be checked against it. Raises Unusable."""
    if not isinstance(schema, Mapping):
        raise Unusable(_("It has no schema, so no answer would fit it."))
    if schema and schema.get("type") != "object":
        raise Unusable(_("It does not ask for an object, and only objects can be sent."))
    try:
        # Without formats: "regex" would hand the server's patterns to Python's own engine.
        jsonschema.Draft202012Validator.check_schema(schema, format_checker=jsonschema.FormatChecker(formats=()))
    except (jsonschema.SchemaError, RecursionError):
        raise Unusable(_("Its schema is not a valid schema.")) from None
    return schema


def faults(schema: object, value: plaintext.Value) -> list[str]:
    """Say what is wrong with the value, at most MAX_FAULTS sentences; empty: it satisfies the schema."""
    validator = _make(schema)
    found: list[str] = []
    try:
        for error in validator.iter_errors(value):
            found.append(_sentence(error))
            if len(found) == MAX_FAULTS:
                break
    except (_TooManyReferences, RecursionError):
        return [_("The schema refers to itself too often to be checked. Decline or dismiss the question.")]
    except Unresolvable:
        return [_("The schema refers to another document, which is not fetched. Decline or dismiss the question.")]
    except pattern.TooCostly:
        return [_("A text is too long to be checked against its pattern.")]
    return found


def unchecked_patterns(schema: object) -> list[str]:
    """Return the patterns that our engine cannot match: they are shown, and the server has to check them."""
    return sorted({source for source in _patterns(schema) if not _can_match(source)})


def _make(schema: object) -> _Validator:
    steps = 0
    default = jsonschema.Draft202012Validator.VALIDATORS["$ref"]

    def counted(validator: _Validator, ref: str, instance: object, within: Schema) -> Iterator[_Fault]:
        nonlocal steps
        steps += 1
        if steps > MAX_REFERENCES:
            raise _TooManyReferences
        yield from default(validator, ref, instance, within)

    rules = {"pattern": _matches, "patternProperties": _names_match, "$ref": counted, "$dynamicRef": counted}
    kind: Any = validators.extend(jsonschema.Draft202012Validator, rules)  # type: ignore[no-untyped-call]
    formats = jsonschema.FormatChecker(formats=("date", "date-time", "email", "uri"))
    return kind(schema, format_checker=formats, registry=Registry())


def _matches(_validator: _Validator, source: str, instance: object, _schema: Schema) -> Iterator[_Fault]:
    if isinstance(instance, str) and _can_match(source) and not pattern.prepare(source).found_in(instance):
        yield jsonschema.ValidationError(_("does not match the pattern %(pattern)s") % {"pattern": source})


def _names_match(validator: _Validator, rules: Schema, instance: object, _schema: Schema) -> Iterator[_Fault]:
    if not isinstance(instance, dict):
        return
    for source, schema in rules.items():
        for name, member in instance.items():
            if _can_match(source) and pattern.prepare(source).found_in(name):
                yield from validator.descend(member, schema, path=name, schema_path=source)


def _can_match(source: str) -> bool:
    try:
        pattern.prepare(source)
    except pattern.Unsupported:
        return False
    return True


def _patterns(schema: object) -> Iterator[str]:
    if isinstance(schema, Mapping):
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        if isinstance(schema.get("patternProperties"), Mapping):
            yield from schema["patternProperties"]
        for member in schema.values():
            yield from _patterns(member)
    elif isinstance(schema, list):
        for item in schema:
            yield from _patterns(item)


def _sentence(error: jsonschema.ValidationError) -> str:
    where = ".".join(str(step) for step in error.absolute_path)
    message = plaintext.visible(faultwords.in_words(error))
    return f"{plaintext.visible(where)}: {message}" if where else message
