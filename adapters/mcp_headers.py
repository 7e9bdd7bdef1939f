"""What MCP 2026-07-28 repeats from the body in HTTP headers ("Request Metadata", "Value Encoding").

Gateways route on these headers, servers refuse a request in which header and body differ (-32020).
Pure: values in, header pairs out.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from adapters.contract import Json

ANNOTATION = "x-mcp-header"

_PREFIX, _SUFFIX = "=?base64?", "?="
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?", re.ASCII)
"""Narrower than the contract, which also allows a tab inside: a proxy may turn it into a space."""
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_PRIMITIVES = frozenset({"string", "integer", "boolean"})
_SAFE_INTEGER = 2**53 - 1

_NAMED_SCHEMAS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose members are schemas under names of the server's choice."""
_DATA = frozenset({"default", "const", "enum", "examples"})
"""Keywords that hold values, not schemas: what looks like an annotation there is none."""


class BadAnnotation(ValueError):
    """A tool marks an argument for a header in a way that the contract forbids: leave the tool out."""


class UnfitArgument(ValueError):
    """A marked argument holds what no header can carry. The message names the argument, not its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """One argument that travels in a header too."""

    header: str
    path: tuple[str, ...]
    """The names that lead to it in the arguments."""


def encode_value(text: str) -> str:
    """Write a text as a header value: as it is where that is safe, else in the Base64 sentinel form.

    A lone surrogate, which UTF-8 cannot hold, is sent as "?".
    """
    looks_encoded = text.startswith(_PREFIX) and text.endswith(_SUFFIX)
    if _PLAIN.fullmatch(text) and not looks_encoded:
        return text
    return f"{_PREFIX}{base64.b64encode(text.encode('utf-8', 'replace')).decode('ascii')}{_SUFFIX}"


def read_mirrors(input_schema: Mapping[str, Json]) -> tuple[Mirror, ...]:
    """Find every argument that is marked for a header. Raises BadAnnotation."""
    mirrors: list[Mirror] = []
    taken: set[str] = set()
    for path, schema in _annotated(dict(input_schema), ()):
        if path is None:
            raise BadAnnotation("an argument is marked for a header where it cannot be found")
        name = schema[ANNOTATION]
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise BadAnnotation("an argument is marked for a header whose name is no token")
        if name.lower() in taken:
            raise BadAnnotation(f"two arguments are marked for the header {name}")
        if not _is_primitive(schema.get("type")):
            raise BadAnnotation(f"the argument for the header {name} is neither text, nor integer, nor boolean")
        taken.add(name.lower())
        mirrors.append(Mirror(header=f"Mcp-Param-{name}", path=path))
    return tuple(mirrors)


def mirrored(mirrors: tuple[Mirror, ...], arguments: Json) -> tuple[tuple[str, str], ...]:
    """The headers of one call. An argument that is absent or null has none. Raises UnfitArgument."""
    found = ((mirror, _value_at(arguments, mirror.path)) for mirror in mirrors)
    return tuple((mirror.header, encode_value(_text_of(value, mirror))) for mirror, value in found if value is not None)


def _annotated(schema: Json, path: tuple[str, ...] | None) -> Iterator[tuple[tuple[str, ...] | None, dict[str, Json]]]:
    """Walk a schema and everything in it; the path is None where a chain of `properties` does not lead."""
    if isinstance(schema, list):
        for entry in schema:
            yield from _annotated(entry, None)
    if not isinstance(schema, dict):
        return
    if ANNOTATION in schema:
        yield path or None, schema
    for keyword, inner in schema.items():
        if keyword in _DATA or keyword == ANNOTATION:
            continue
        if keyword in _NAMED_SCHEMAS and isinstance(inner, dict):
            leads = path is not None and keyword == "properties"
            for name, member in inner.items():
                yield from _annotated(member, (*(path or ()), name) if leads else None)
        else:
            yield from _annotated(inner, None)


def _is_primitive(kind: Json) -> bool:
    kinds = [word for word in kind if word != "null"] if isinstance(kind, list) else [kind]
    return len(kinds) == 1 and isinstance(kinds[0], str) and kinds[0] in _PRIMITIVES


def _value_at(arguments: Json, path: tuple[str, ...]) -> Json:
    for name in path:
        arguments = arguments.get(name) if isinstance(arguments, dict) else None
    return arguments


def _text_of(value: Json, mirror: Mirror) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and abs(value) <= _SAFE_INTEGER:
        return str(value)
    if isinstance(value, str):
        return value
    raise UnfitArgument(f"the argument {'.'.join(mirror.path)} holds what the header {mirror.header} cannot carry")
