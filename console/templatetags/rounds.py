"""Foreign text and JSON on the pages of a round: `{% load rounds %}`.

{{ text|visible }}        every hidden character written out, still escaped by the template
{{ text|first_line }}     its first line that is not blank
{{ raw|pretty_json }}     JSON on several lines, digit for digit
{{ raw|members }}         the members of an object, as (name, text)
{{ text|cut:300 }}        no more than so many characters of it
{{ by|who:actor }}        who did something: "you", a name, or the client
{{ by|doer:actor }}       the same at the head of a row; also when nobody was signed in
{{ action|answer_word }}  the button behind one of the three answers
{{ words|of:key }}        the word that a table has for a key
{{ what|verb_word }}      a verb of the audit in words
{{ delivery|reached:1 }}  whether an answer has come as far as step 1 stored, 2 delivered, 3 confirmed (I6)
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from django import template
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console import markup, plaintext, sentences
from console.access import Actor

register = template.Library()

MAX_SHOWN = 64_000
"""Characters of a JSON text that a page shows; the rest is said to be there."""
MAX_CHIP = 80
MAX_CHIPS = 8


@register.filter
def visible(text: str) -> str:
    """Write out every character that hides or turns text."""
    return plaintext.visible(text)


@register.filter
def cut(text: str, limit: int) -> str:
    """No more than so many characters."""
    return markup.cut(text, limit)


@register.filter
def first_line(text: str) -> str:
    """The first line that is not blank."""
    return plaintext.first_line(text)


@register.filter
def pretty_json(raw: bytes | str) -> str:
    """JSON on several lines, cut where a page would become unreadable."""
    shown = plaintext.pretty(raw)
    if len(shown) <= MAX_SHOWN:
        return shown
    rest = len(shown) - MAX_SHOWN
    return f"{shown[:MAX_SHOWN]}\n… " + _("%(n)s more characters") % {"n": rest}


@register.filter
def members(raw: bytes | str) -> list[tuple[str, str]]:
    """The members of a JSON object, each short enough for a chip, and no more of them than a card has room for."""
    held = [(_short(name), _short(text)) for name, text in plaintext.members(raw)]
    rest = len(held) - MAX_CHIPS
    if rest <= 0:
        return held
    return [*held[:MAX_CHIPS], ("", ngettext("and %(n)d more", "and %(n)d more", rest) % {"n": rest})]


@register.filter
def who(by: str, actor: Actor) -> str:
    """Name who did something, the way a person would."""
    if by == actor.by:
        return _("you")
    kind, _colon, name = by.partition(":")
    return _("the client %(name)s") % {"name": name} if kind == "client" else name or by


@register.filter
def doer(by: str, actor: Actor) -> str:
    """Name who did something as a row begins: "You", "Somebody not signed in"."""
    named = who(by, actor)
    return named[:1].upper() + named[1:] if named else _("Somebody not signed in")


@register.filter
def of(words: Mapping[str, str], key: str) -> str:
    """Look a word up; a key without one stands for itself."""
    return words.get(key, key)


@register.filter
def verb_word(what: str) -> str:
    """Name what somebody did: `ROUND_CLAIMED` is "round claimed", `MayNotDecide` is "may not decide"."""
    return sentences.in_words(_spaced(what))


@functools.lru_cache(maxsize=512)
def _spaced(what: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", what).replace("_", " ").lower()


@register.filter
def answer_word(action: str) -> str:
    """Name one of the three answers by its button (I5)."""
    words = {"accept": _("Submit"), "decline": _("Decline"), "cancel": _("Dismiss")}
    return words.get(action, _("nothing chosen"))


@register.filter
def reached(delivery: str, step: int) -> bool:
    """True: an answer in this delivery state has come at least as far as the step."""
    return {"SENT": 2, "UNCERTAIN": 1, "USED": 3}.get(delivery, 1 if delivery else 0) >= step


def _short(text: str) -> str:
    return text if len(text) <= MAX_CHIP else f"{text[: MAX_CHIP - 1]}…"
