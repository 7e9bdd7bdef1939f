"""HTML and addresses put together at little cost: a list page asks for some thousand pieces of them (T9).

Django's `format_html`, `reverse` and `truncatechars` give the same. Their price is that they take everything: lazy
texts, any converter, letters made of several characters. What our pages put in is text, or HTML made safe before.
"""

from __future__ import annotations

import functools
import re
import uuid
from collections.abc import Iterable
from html import escape

from django.urls import get_script_prefix, reverse
from django.utils.safestring import SafeString
from django.utils.text import Truncator

_ID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_KNOWN = frozenset({uuid.UUID, int})
_STAND_INS = (uuid.UUID("5e91d7a2-0c4b-4f6e-8a13-9b7d2c604ef1"), 918273645)
"""What no route has in its own words: an id and a number that are looked for in an address to see where they go."""


def filled(form: str, *parts: object) -> SafeString:
    """Put the parts into a form of ours, each escaped unless it is HTML already."""
    return SafeString(form.format(*[_inert(part) for part in parts]))


def filled_each(form: str, rows: Iterable[tuple[object, ...]]) -> SafeString:
    """Fill the form once for each row, one after the other."""
    return SafeString("".join([filled(form, *row) for row in rows]))


def _inert(part: object) -> str:
    return part if isinstance(part, SafeString) else escape(str(part))


def cut(text: str, limit: int) -> str:
    """Cut a text that is longer than `limit` characters, with "…" as the last of them."""
    return text if len(text) <= limit else Truncator(text).chars(limit)


def address(name: str, *parts: object) -> str:
    """Return the address of a page by its route's name. Raises NoReverseMatch, as `reverse` does."""
    kinds = tuple([_kind(part) for part in parts])
    if not _KNOWN.issuperset(kinds):
        return reverse(name, args=parts)
    return _form(name, kinds, get_script_prefix()).format(*parts)


def _kind(part: object) -> type:
    """An id that is written as one is as good as an id; in any other spelling it is for the route to judge."""
    return uuid.UUID if type(part) is str and _ID.fullmatch(part) else type(part)


@functools.cache
def _form(name: str, kinds: tuple[type, ...], _prefix: str) -> str:
    """The address with a gap for each part. It differs by the prefix under which the site is mounted, too."""
    parts = [_STAND_INS[kind is int] for kind in kinds]
    found = reverse(name, args=parts).replace("{", "{{").replace("}", "}}")
    for place, part in enumerate(parts):
        head, _gap, tail = found.partition(str(part))
        found = f"{head}{{{place}}}{tail}"
    return found
