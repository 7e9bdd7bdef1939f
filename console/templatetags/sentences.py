"""Words of the floors below, and the marks between parts of a sentence, in the reader's language. Loaded everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from django import template
from django.utils import translation
from django.utils.translation import pgettext_lazy

from console import sentences

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

register = template.Library()

_MARKS: Mapping[str, _StrPromise] = MappingProxyType(
    {
        ".": pgettext_lazy("punctuation", "."),
        ". ": pgettext_lazy("punctuation", ". "),
        ", ": pgettext_lazy("punctuation", ", "),
        "; ": pgettext_lazy("punctuation", "; "),
        ": ": pgettext_lazy("punctuation", ": "),
        "and": pgettext_lazy("punctuation of a list", ", "),
    }
)


@register.filter
def sentence(said: str | None) -> str:
    """Say what stands against a verdict, why a server did not answer, or which role somebody has."""
    return sentences.in_words(str(said or ""))


@register.simple_tag
def gap() -> str:
    """Write the room between two sentences that are translated apart; a Chinese full stop brings its own."""
    return "" if (translation.get_language() or "").startswith("zh") else " "


@register.simple_tag
def punct(mark: str) -> str:
    """Write the mark between two parts that are translated apart; "and" stands between the members of a list."""
    return str(_MARKS[mark])
