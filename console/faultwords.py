"""What a check against a schema found, in the reader's language: the checker itself speaks English only."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import jsonschema
from django.utils.translation import gettext as _

LONGEST = 300


def in_words(error: jsonschema.ValidationError) -> str:
    """Say one fault. What has no words of ours keeps the checker's own, such as those of our own pattern check."""
    say = _SAYS.get(str(error.validator))
    return (say(error.validator_value, error) if say else error.message)[:LONGEST]


def _required(_names: Any, error: jsonschema.ValidationError) -> str:  # noqa: ANN401 - any JSON
    # One error for each name, and only its message says which.
    return _("%(name)s is missing") % {"name": error.message.removesuffix(" is a required property")}


def _with(text: Callable[[], str]) -> Callable[[Any, jsonschema.ValidationError], str]:
    """Make a saying from a text with one place, `value`, for what the schema wants."""
    return lambda wanted, _error: text() % {"value": _shown(wanted)}


def _shown(wanted: Any) -> str:  # noqa: ANN401 - any JSON
    if isinstance(wanted, list):
        return ", ".join(_shown(one) for one in wanted)
    if isinstance(wanted, str | int | float | Decimal) and not isinstance(wanted, bool):
        return str(wanted)  # every digit, as the server wrote it
    return json.dumps(wanted, ensure_ascii=False, default=str)


_SAYS: dict[str, Callable[[Any, jsonschema.ValidationError], str]] = {
    "required": _required,
    "type": _with(lambda: _("must be of type %(value)s")),
    "enum": _with(lambda: _("must be one of: %(value)s")),
    "const": _with(lambda: _("must be exactly %(value)s")),
    "format": _with(lambda: _("must be of the form %(value)s")),
    "minimum": _with(lambda: _("must be at least %(value)s")),
    "maximum": _with(lambda: _("must be at most %(value)s")),
    "exclusiveMinimum": _with(lambda: _("must be more than %(value)s")),
    "exclusiveMaximum": _with(lambda: _("must be less than %(value)s")),
    "multipleOf": _with(lambda: _("must be a multiple of %(value)s")),
    "minLength": _with(lambda: _("needs %(value)s characters or more")),
    "maxLength": _with(lambda: _("may have %(value)s characters at most")),
    "minItems": _with(lambda: _("needs %(value)s entries or more")),
    "maxItems": _with(lambda: _("may have %(value)s entries at most")),
    "uniqueItems": lambda _wanted, _error: _("must not hold the same entry twice"),
    "additionalProperties": lambda _wanted, _error: _("holds a name that is not allowed"),
}
