"""JSON Schema 2020-12 under a bound: a foreign schema cannot make a check run for long, or leave this process.

A schema is written by whoever runs the server. Its patterns go through our own engine (`pattern`),
every rule that is tried counts, so that references that multiply end early, and a `$ref` never
leaves the schema. Pure: the bound is a number of steps, not a clock, so a result is judged alike
on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jsonschema import validators
from jsonschema.exceptions import ValidationError
from jsonschema.validators import Draft202012Validator
from referencing import Registry

from operations import pattern

MAX_STEPS = 2_000_000
"""A few seconds. What needs more is for a person."""
_RULE = 20
"""What trying one rule costs, in steps of the pattern engine."""

_REFERENCE = 400
"""What following a reference costs."""

Rule = Callable[[Any, Any, Any, Any], "Iterator[ValidationError] | None"]


class TooMuch(Exception):
    """The check would take more than MAX_STEPS."""


class Unusable(Exception):
    """The schema asks for something that cannot be checked safely; the message says what."""


def errors(schema: Mapping[str, Any], value: Any) -> Iterator[ValidationError]:  # noqa: ANN401 - any JSON
    """Yield how the value breaks the schema. Raises TooMuch and Unusable, also while it yields."""
    try:
        check = _spare.pop()
    except IndexError:
        check = _Check()
    try:
        yield from check.errors(schema, value)
    finally:
        _spare.append(check)


class _Check:
    """A validator whose rules take their steps from one count. To make its class costs more than most checks."""

    def __init__(self) -> None:
        self._steps = steps = _Steps()
        rules: dict[str, Rule] = {
            name: steps.counted(rule, _REFERENCE if name in {"$ref", "$dynamicRef"} else _RULE)
            for name, rule in Draft202012Validator.VALIDATORS.items()
        }
        rules |= {
            "pattern": steps.pattern,
            "patternProperties": steps.pattern_properties,
            "additionalProperties": steps.additional_properties,
            "uniqueItems": steps.unique_items,
            "unevaluatedProperties": steps.unevaluated_properties,
        }
        self._bounded = validators.extend(Draft202012Validator, rules)  # type: ignore[no-untyped-call]

    def errors(self, schema: Mapping[str, Any], value: Any) -> Iterator[ValidationError]:  # noqa: ANN401
        self._steps.begin()
        yield from self._bounded(schema, registry=Registry()).iter_errors(value)


_spare: list[_Check] = []
"""Those that nobody uses now; as many as were ever in use at once."""


class _Steps:
    """The steps of one check, and the rules that need more than counting."""

    def __init__(self) -> None:
        self._left = 0

    def begin(self) -> None:
        self._left = MAX_STEPS

    def take(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise TooMuch

    def counted(self, rule: Rule, steps: int) -> Rule:
        def count(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:  # noqa: ANN401
            self.take(steps)
            yield from rule(validator, wanted, instance, schema) or ()

        return count

    def _finds(self, source: str, text: str) -> bool:
        try:
            prepared = pattern.prepare(source)
        except pattern.Unsupported as error:
            raise Unusable(f"its pattern cannot be matched: {error}") from None
        self.take(prepared.cost_of(text))
        try:
            return prepared.found_in(text)
        except pattern.TooCostly:
            raise TooMuch from None

    def pattern(self, validator: Any, wanted: str, instance: Any, _schema: Any) -> Iterator[ValidationError]:  # noqa: ANN401
        if validator.is_type(instance, "string") and not self._finds(wanted, instance):
            yield ValidationError(f"{instance[:100]!r} does not match {wanted!r}")

    def pattern_properties(
        self,
        validator: Any,  # noqa: ANN401
        wanted: Mapping[str, Any],
        instance: Any,  # noqa: ANN401
        _schema: Any,  # noqa: ANN401
    ) -> Iterator[ValidationError]:
        if not validator.is_type(instance, "object"):
            return
        for source, inner in wanted.items():
            for name, item in instance.items():
                if self._finds(source, name):
                    yield from validator.descend(item, inner, path=name, schema_path=source)

    def additional_properties(
        self,
        validator: Any,  # noqa: ANN401
        wanted: Any,  # noqa: ANN401
        instance: Any,  # noqa: ANN401
        schema: Mapping[str, Any],
    ) -> Iterator[ValidationError]:
        if not validator.is_type(instance, "object"):
            return
        known, sources = schema.get("properties", {}), schema.get("patternProperties", {})
        others = [
            name for name in instance if name not in known and not any(self._finds(source, name) for source in sources)
        ]
        if validator.is_type(wanted, "object"):
            for name in others:
                yield from validator.descend(instance[name], wanted, path=name)
        elif not wanted and others:
            yield ValidationError(f"properties that were not announced: {', '.join(map(repr, others[:5]))}")

    def unique_items(self, validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:  # noqa: ANN401
        if not wanted or not validator.is_type(instance, "array"):
            return
        if all(isinstance(item, str) for item in instance):
            if len(set(instance)) < len(instance):
                yield ValidationError("the same item stands there twice")
            return
        self.take(_RULE * len(instance) ** 2 // 2)
        yield from Draft202012Validator.VALIDATORS["uniqueItems"](validator, wanted, instance, schema) or ()

    def unevaluated_properties(
        self,
        validator: Any,  # noqa: ANN401
        wanted: Any,  # noqa: ANN401
        instance: Any,  # noqa: ANN401
        schema: Any,  # noqa: ANN401
    ) -> Iterator[ValidationError]:
        # The library walks the schema itself here and hands patterns to Python's own engine.
        if _mentions(validator.schema, "patternProperties"):
            raise Unusable("it uses unevaluatedProperties beside patternProperties")
        self.take(_RULE)
        yield from Draft202012Validator.VALIDATORS["unevaluatedProperties"](validator, wanted, instance, schema) or ()


def _mentions(schema: Any, word: str) -> bool:  # noqa: ANN401 - any JSON
    if isinstance(schema, dict):
        return word in schema or any(_mentions(inner, word) for inner in schema.values())
    return isinstance(schema, list) and any(_mentions(inner, word) for inner in schema)
