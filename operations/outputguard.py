"""Looks at a fetched result before it may be accepted (R2).

Pure: bytes in, findings out. A finding is a sentence for a person; no finding means that the
result may go to its call node.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from urllib.parse import urlsplit

import jsonschema
import referencing
from jsonschema import FormatChecker
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import Draft202012Validator

from adapters import strictjson
from adapters.contract import Json
from operations import boundedschema

MAX_BYTES = 4_000_000
MAX_FINDINGS = 10
KINDS = frozenset({"text", "image", "audio", "resource", "resource_link"})
SCHEMES = frozenset({"https", "http", "data"})

_SECRETS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b"
    r"|\bgh[pousr]_[A-Za-z0-9]{36,}\b|\bxox[abp]-[A-Za-z0-9-]{20,}\b"
)
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069]")


def inspect(raw: bytes, *, schema: object, is_error: bool, named: str | None, task_id: str | None) -> tuple[str, ...]:
    """Return what stands against accepting this result, at most MAX_FINDINGS sentences.

    `schema` is the output schema of the descriptor version the call was made with, or None;
    a tool's own error is not held against it (R7). `named` is the task the result says it
    belongs to.
    """
    if len(raw) > MAX_BYTES:
        return (f"the result has {len(raw)} bytes; at most {MAX_BYTES} are accepted",)
    try:
        value = strictjson.parse(raw)
    except strictjson.BadJson as error:
        return (f"the result is not strict JSON: {error}",)
    findings: list[str] = []
    if named is not None and named != task_id:
        findings.append("the result names another task than the one it was fetched for")
    findings += _texts(value)
    if not is_error and _is_typed(value):
        findings += [f"the response, {found}" for found in violations(schema, value)] if schema is not None else []
    elif not is_error:
        findings += _shape(value)
        if schema is not None:
            findings += _structured(value, schema)
    return tuple(findings[:MAX_FINDINGS])


UNUSABLE = "the schema cannot be used"


def schema_problem(schema: object) -> str:
    """Say why nothing can be held against a schema; empty for one that can be used."""
    return next((found for found in violations(schema, {}) if found.startswith(UNUSABLE)), "")


def violations(schema: object, value: Json) -> tuple[str, ...]:
    """Return how `value` breaks a JSON Schema 2020-12, in words. A `$ref` never leaves the schema.

    A schema that cannot be used is a finding of its own, never an exception.
    """
    if not isinstance(schema, dict):
        return ("the schema is not an object",)
    try:
        _check_schema(json.dumps(schema))
        return tuple(_sentence(error) for error in islice(boundedschema.errors(schema, value), MAX_FINDINGS))
    except SchemaError as error:
        return (f"{UNUSABLE}: {error.message[:300]}",)
    except boundedschema.Unusable as error:
        return (f"{UNUSABLE}: {error}",)
    except boundedschema.TooMuch:
        return ("it is too large for its schema: the check would take too long",)
    except (referencing.exceptions.Unresolvable, jsonschema.exceptions.UnknownType):
        return (f"{UNUSABLE}: it refers to something outside itself",)
    except (RecursionError, re.error, TypeError, ValueError, OverflowError) as error:
        return (f"{UNUSABLE}: {type(error).__name__}",)


@lru_cache(maxsize=64)
def _check_schema(text: str) -> None:
    """Raise SchemaError unless this is a usable schema. Every call of a tool comes with the same one."""
    # Without formats: "regex" would hand the schema's patterns to Python's own engine.
    Draft202012Validator.check_schema(json.loads(text), format_checker=FormatChecker(formats=()))


def _sentence(error: ValidationError) -> str:
    place = "/".join(str(part) for part in error.absolute_path) or "the value"
    return f"{place}: {error.message[:300]}"


def _is_typed(value: Json) -> bool:
    """Whether this is a message that names its own type, as the response of an AIP-151 operation.

    Its descriptor's schema is about the whole of it, `@type` included.
    """
    return (
        isinstance(value, dict) and isinstance(value.get("@type"), str) and not isinstance(value.get("content"), list)
    )


def _shape(value: Json) -> list[str]:
    if not isinstance(value, dict):
        return ["the result is not an object"]
    content = value.get("content")
    if not isinstance(content, list):
        return ["the result has neither a content list nor a type of its own"]
    return [
        f"content {place} has the unknown kind {kind!r}"
        for place, item in enumerate(content)
        if not isinstance(kind := item.get("type") if isinstance(item, dict) else None, str) or kind not in KINDS
    ]


def _structured(value: Json, schema: object) -> list[str]:
    if not isinstance(value, dict) or not isinstance(value.get("structuredContent"), dict):
        return ["the tool promises structured content and the result has none"]
    return [f"structured content, {found}" for found in violations(schema, value["structuredContent"])]


def _links(text: str) -> str | None:
    try:
        scheme = urlsplit(text.strip()).scheme.lower()
    except ValueError:
        return "a link that cannot be read"
    return None if not scheme or scheme in SCHEMES else f"a link with the scheme {scheme!r}"


def _text(text: str) -> str | None:
    if _CONTROL.search(text):
        return "control or direction characters in a text"
    if _SECRETS.search(text):
        return "what looks like a secret key"
    return None


def _strings(value: Json, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item, key)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _strings(item, name)


def _texts(value: Json) -> list[str]:
    checks: dict[str, Callable[[str], str | None]] = {"uri": _links, "url": _links, "href": _links}
    found = {checks.get(key, _text)(text) or _text(text) for key, text in _strings(value)}
    return sorted(f"the result contains {what}" for what in found if what)
