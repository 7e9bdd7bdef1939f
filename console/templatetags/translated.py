"""`{% translate "a constant" %}`, said once for a language: `{% load i18n longcall %}`, in that order.

Django's own tag puts a lazy text together each time and takes it apart again. A list of fifty rows holds hundreds (T9).
"""

from __future__ import annotations

from django.template import Library, Node
from django.template.base import FilterExpression, Parser, Token
from django.template.context import Context
from django.templatetags import i18n
from django.utils.translation import get_language

register = Library()


class Said(Node):
    """A constant that keeps what it is in each language."""

    child_nodelists = ()

    def __init__(self, usual: i18n.TranslateNode, *, name: str | None) -> None:
        """`name`: the variable that it goes to, in place of the page."""
        self._usual, self._name = usual, name
        self._said: dict[tuple[str | None, bool], str] = {}

    def render(self, context: Context) -> str:
        """Say it in the language of the request."""
        where = (get_language(), context.autoescape)
        said = self._said.get(where)
        if said is None:
            said = self._said[where] = self._usual.render(context)
        if self._name is None:
            return said
        context[self._name] = said
        return ""


@register.tag("translate")
@register.tag("trans")
def translate(parser: Parser, token: Token) -> Node:
    """Compile it as Django does; what is the same for every reader of a language need not be asked again."""
    usual = i18n.do_translate(parser, token)
    if not (_is_constant(usual.filter_expression) and _is_constant(usual.message_context)):
        return usual
    name, usual.asvar = usual.asvar, None
    return Said(usual, name=name)


def _is_constant(said: FilterExpression | None) -> bool:
    return said is None or (not said.filters and getattr(said.var, "lookups", None) is None)
