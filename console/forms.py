"""The schema of a question, turned into a form a person can fill in, and the form into an answer.

The schema is the server's and the post is the browser's: neither is trusted. A form is built from
the schema that the ledger holds, names in the page are positions (`q0f3`), values become JSON text
without ever being a float, and the whole answer is checked against the schema once more.

Note [Four ways to show a question]
`form`: every property is of the subset that both contracts define, and is shown exactly. `json`:
the schema says more than that; a person writes JSON and the schema checks it. `url`: a page to
visit; accepting it is consent. `unusable`: no object could satisfy the schema, so only a decline or
a dismissal can be sent. Never half a form: a constraint that is not shown would be a constraint
that the person broke without knowing.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from console import parts, plaintext, schemas, weblinks
from console.parts import Part
from operations.ledger import GivenReply
from operations.queries.rounds import RoundQuestion

MAX_JSON = 64_000
"""Characters of an answer written as JSON."""
_SECRET = re.compile(r"pass(word|phrase)|secret|token|api.?key|credential|\bpin\b|private.?key", re.IGNORECASE)


class Kind(enum.StrEnum):
    """How a question is shown: see Note [Four ways to show a question]."""

    FORM = "form"
    JSON = "json"
    URL = "url"
    UNUSABLE = "unusable"


class Choice(enum.StrEnum):
    """The three answers (I5), in the contract's words."""

    ACCEPT = "accept"
    DECLINE = "decline"
    DISMISS = "cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """How one question will be shown, decided from its schema alone."""

    kind: Kind
    parts: tuple[Part, ...] = ()
    why: str = ""
    """Why it is not a form, in words."""


class QuestionForm(forms.Form):
    """One question. Bound, it holds what was posted; `content` is the answer as JSON text."""

    def __init__(self, question: RoundQuestion, *, place: int, data: Mapping[str, Any] | None = None) -> None:
        """`place` counts the questions of the round from 0 and makes the names in the page."""
        super().__init__(data, auto_id="id-%s")
        self.question = question
        self.place = place
        self.shown = show(question)
        self.kind = self.shown.kind
        self.link = weblinks.inspect(question.url) if self.kind is Kind.URL else None
        for number, part in enumerate(self.shown.parts):
            self.fields[f"q{place}f{number}"] = part
        if self.kind is Kind.JSON:
            self.fields[self.json_name] = parts.Written(schema=question.schema, longest=MAX_JSON)

    @property
    def json_name(self) -> str:
        """The name of the field for an answer written as JSON."""
        return f"q{self.place}json"

    @property
    def choice_name(self) -> str:
        """The name of the field that says which of the three answers this question gets."""
        return f"q{self.place}choice"

    @property
    def chosen(self) -> str:
        """The answer picked for this question on a page of several; empty before anything is picked."""
        return str(self.data.get(self.choice_name, "")) if self.is_bound else ""

    @property
    def acceptable(self) -> bool:
        """True: an accepting answer exists for this question."""
        return self.kind is not Kind.UNUSABLE and not (self.link and self.link.blocked)

    @property
    def asks_for_secret(self) -> bool:
        """True: a field's name or title looks like a password or a key."""
        return any(looks_secret(part) for part in self.shown.parts)

    @property
    def schema_text(self) -> str:
        """The schema for reading."""
        return plaintext.pretty(plaintext.write(self.question.schema))

    @property
    def unchecked_patterns(self) -> list[str]:
        """The patterns that only the server can check."""
        return schemas.unchecked_patterns(self.question.schema)

    @property
    def content(self) -> str | None:
        """The answer as JSON text; None where accepting carries none. Only after `is_valid`."""
        if self.kind is Kind.URL:
            return None
        if self.kind is Kind.JSON:
            return str(self.cleaned_data[self.json_name])
        return self._composed()

    def clean(self) -> dict[str, Any]:
        """Check the whole answer against the schema: what the single fields cannot see."""
        if not self.acceptable:
            raise ValidationError(_("This question cannot be accepted here. Decline or dismiss it."))
        if self.kind is Kind.FORM and not self.errors:
            for fault in schemas.faults(self.question.schema, plaintext.parse(self._composed())):
                self.add_error(None, fault)
        return self.cleaned_data

    def _composed(self) -> str:
        held = {part.property: self.cleaned_data[name] for name, part in self._named_parts()}
        members = [f"{plaintext.write(name)}: {text}" for name, text in held.items() if text is not None]
        return "{" + ", ".join(members) + "}"

    def _named_parts(self) -> Iterator[tuple[str, Part]]:
        return ((name, part) for name, part in self.fields.items() if isinstance(part, Part))


class RoundForm:
    """All questions of a round: one page, one post, each question with its own answer."""

    def __init__(self, questions: Sequence[RoundQuestion], *, data: Mapping[str, Any] | None = None) -> None:
        """`data` is the post; None makes an empty form."""
        self.questions = tuple(QuestionForm(question, place=n, data=data) for n, question in enumerate(questions))
        self.is_bound = data is not None

    @property
    def single(self) -> bool:
        """True: the three buttons answer the one question; else each question has its own choice."""
        return len(self.questions) == 1

    @property
    def acceptable(self) -> bool:
        """True: at least one question can be accepted."""
        return any(form.acceptable for form in self.questions)

    def replies(self, pressed: Choice) -> tuple[GivenReply, ...] | None:
        """Return one reply a question; None: something is missing or wrong, and the forms say what.

        `pressed` decline or dismiss answers every question so and reads no field. Accept reads each
        question's own choice, which for a single question is accept.
        """
        if pressed is not Choice.ACCEPT:
            return tuple(_without_content(form, pressed) for form in self.questions)
        given = [self._reply(form) for form in self.questions]
        return None if None in given else tuple(reply for reply in given if reply is not None)

    def _reply(self, form: QuestionForm) -> GivenReply | None:
        choice = Choice.ACCEPT.value if self.single else form.chosen
        if choice in {Choice.DECLINE, Choice.DISMISS}:
            return _without_content(form, Choice(choice))
        if choice != Choice.ACCEPT:
            form.add_error(None, _("Choose an answer to this question."))
            return None
        if not form.is_valid():
            return None
        return GivenReply(key=form.question.key, action=Choice.ACCEPT.value, content=form.content)


def show(question: RoundQuestion) -> Shown:
    """Decide how a question is shown."""
    if question.mode == "url":
        return Shown(kind=Kind.URL)
    if question.mode != "form":
        return Shown(kind=Kind.UNUSABLE, why=_("It is of a kind that this console does not know."))
    try:
        schema = schemas.checked(question.schema)
    except schemas.Unusable as unusable:
        return Shown(kind=Kind.UNUSABLE, why=str(unusable))
    try:
        return Shown(kind=Kind.FORM, parts=parts.parts_of(schema))
    except parts.CannotShow as reason:
        return Shown(kind=Kind.JSON, why=str(reason))


def looks_secret(part: Part) -> bool:
    """True: the name or the title of a field looks like a password or a key."""
    return _SECRET.search(f"{part.property} {part.label}") is not None


def _without_content(form: QuestionForm, choice: Choice) -> GivenReply:
    return GivenReply(key=form.question.key, action=choice.value, content=None)
