"""Answers and rounds side by side, in words: what was given, what changed, where two people differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from console import forms, parts, plaintext
from operations.queries.rounds import EarlierRound, GivenAnswer, RoundPage, RoundQuestion

HIDDEN = "•••"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One field of an answer, for reading."""

    title: str
    said: str
    long: bool = False
    """True: several lines of text, such as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One question's answer, for reading."""

    message: str
    action: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One row of the comparison of two answers."""

    title: str
    theirs: str
    mine: str
    action: bool = False
    """True: the row compares which of the three answers was given."""

    @property
    def same(self) -> bool:
        """True: both said the same."""
        return self.theirs == self.mine


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One line of a difference. `sign` is "-" or "+"."""

    sign: str
    name: str
    text: str


def given(questions: Sequence[RoundQuestion], replies: Sequence[GivenAnswer]) -> tuple[Given, ...]:
    """Put an answer into words, question by question."""
    by_key = {reply.key: reply for reply in replies}
    return tuple(_given(question, by_key[question.key]) for question in questions if question.key in by_key)


def typed(form: forms.RoundForm, pressed: str) -> tuple[Given, ...]:
    """Put what a person typed into words, also where it would not have been valid."""
    return tuple(_typed(one, pressed, single=form.single) for one in form.questions)


def pairs(theirs: Sequence[Given], mine: Sequence[Given]) -> tuple[Pair, ...]:
    """Lay two answers to the same questions side by side."""
    rows: list[Pair] = []
    for one, other in zip(theirs, mine, strict=True):
        rows.append(Pair(title=one.message, theirs=one.action, mine=other.action, action=True))
        left = {line.title: line.said for line in one.lines}
        right = {line.title: line.said for line in other.lines}
        rows.extend(
            Pair(title=title, theirs=left.get(title, ""), mine=right.get(title, ""))
            for title in dict.fromkeys([*left, *right])
        )
    return tuple(rows)


def changes(before: EarlierRound, page: RoundPage) -> tuple[Change, ...]:
    """Say what this round asks and does that an earlier one did not, and the other way round."""
    found: list[Change] = []
    if before.operation != page.card.operation:
        found += _differ(plaintext.members(before.arguments), plaintext.members(page.card.arguments))
    old = [(_("message"), plaintext.visible(question.message)) for question in before.questions]
    new = [(_("message"), plaintext.visible(question.message)) for question in page.card.questions]
    found += _differ(old, new)
    return tuple(found + _differ(_fields(before.questions), _fields(page.card.questions)))


def _differ(old: list[tuple[str, str]], new: list[tuple[str, str]]) -> list[Change]:
    gone = [Change(sign="-", name=name, text=text) for name, text in old if (name, text) not in new]
    come = [Change(sign="+", name=name, text=text) for name, text in new if (name, text) not in old]
    names = list(dict.fromkeys(change.name for change in [*gone, *come]))
    return sorted([*gone, *come], key=lambda change: (names.index(change.name), change.sign == "+"))


def _fields(questions: Sequence[RoundQuestion]) -> list[tuple[str, str]]:
    return [
        (_("form: %(name)s") % {"name": plaintext.visible(part.property)}, _field_in_words(part))
        for question in questions
        for part in forms.show(question).parts
    ]


def _field_in_words(part: parts.Part) -> str:
    limits = _("yes or no") if isinstance(part, parts.YesNo) else part.limits
    facts = [str(part.label), limits, _("required") if part.required else _("may be left out")]
    if isinstance(part, parts.OneOf):
        facts.append(" | ".join(option.title for option in part.options))
    return ", ".join(fact for fact in facts if fact)


def _given(question: RoundQuestion, reply: GivenAnswer) -> Given:
    lines: tuple[Line, ...] = ()
    if reply.content is not None:
        shown = forms.show(question)
        lines = _lines(shown, reply.content)
    return Given(message=plaintext.first_line(question.message), action=reply.action, lines=lines)


def _lines(shown: forms.Shown, content: str) -> tuple[Line, ...]:
    held = plaintext.parse(content)
    if shown.kind is not forms.Kind.FORM or not isinstance(held, dict):
        return (Line(title=_("Answer"), said=plaintext.pretty(content), long=True),)
    return tuple(
        Line(title=str(part.label), said=_said(part, held[part.property]) if part.property in held else _("left out"))
        for part in shown.parts
    )


def _said(part: parts.Part, value: plaintext.Value) -> str:
    if forms.looks_secret(part):
        return HIDDEN
    if isinstance(part, parts.OneOf):
        titles = {option.json: option.title for option in part.options}
        values = value if isinstance(value, list) else [value]
        return ", ".join(titles.get(plaintext.write(one), plaintext.write(one)) for one in values) or _("none of them")
    if isinstance(value, bool):
        return _("Yes") if value else _("No")
    return plaintext.visible(value if isinstance(value, str) else plaintext.write(value))


def _typed(form: forms.QuestionForm, pressed: str, *, single: bool) -> Given:
    action = pressed if single or pressed != forms.Choice.ACCEPT else form.chosen
    # Nothing pressed yet: what stands in the fields is still theirs.
    fields = form if action in {forms.Choice.ACCEPT, ""} else ()
    lines = tuple(_typed_line(bound.field, bound.data) for bound in fields)
    return Given(message=plaintext.first_line(form.question.message), action=action, lines=lines)


def _typed_line(field: object, data: object) -> Line:
    if not isinstance(field, parts.Part):
        return Line(title=_("Answer"), said=plaintext.visible(str(data or "")), long=True)
    try:
        text = field.clean(data)
    except ValidationError:
        # Not an answer, but theirs: shown as it was typed.
        return Line(title=str(field.label), said=plaintext.visible(str(data or "")))
    said = _("left out") if text is None else _said(field, plaintext.parse(text))
    return Line(title=str(field.label), said=said)
