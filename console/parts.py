"""One property of a question's schema, as one field of a form.

Each field's `clean` returns JSON text, or None for "left out": a blank optional field is no value,
neither an empty string nor null. Numbers are read from text to text, so no digit is lost on the way.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import EmailValidator
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from rfc3986_validator import validate_rfc3986  # type: ignore[import-untyped]

from console import plaintext, schemas
from operations import pattern

MAX_PARTS = 60
MAX_CHOICES = 500
RADIOS = 5
"""Up to this many choices stand side by side; more go into a list."""
MAX_DIGITS = 400
ONE_LINE = 200
"""A text that may be longer gets several lines."""

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INSTANT = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ](?P<minute>[0-9]{2}:[0-9]{2})(?P<second>:[0-9]{2}(\.[0-9]{1,9})?)?"
    r"(?P<zone>[Zz]|[+-][0-9]{2}:[0-9]{2})?"
)
_SAYS_NOTHING = {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "enumNames"}
_SAYS_NOTHING |= {"$comment", "$id", "$schema", "$defs", "definitions"}
_STRING_WORDS = {"minLength", "maxLength", "format", "pattern"}
_NUMBER_WORDS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
_FORMATS = {"email", "uri", "date", "date-time"}


class CannotShow(Exception):
    """The schema holds something that no field shows exactly. The message says what, for a person."""


@dataclass(frozen=True, slots=True)
class Option:
    """One value of a list: what is sent, and what is read."""

    json: str
    title: str


class Part(forms.Field):
    """Abstract: a property. `kind` picks the partial that draws it."""

    kind = ""

    def __init__(self, *, name: str, schema: schemas.Schema, required: bool) -> None:
        """Take title, description and default from the schema."""
        title = schema.get("title")
        description = schema.get("description")
        super().__init__(
            required=required,
            label=plaintext.visible(title if isinstance(title, str) and title.strip() else name) or _("(no name)"),
            help_text=plaintext.visible(description) if isinstance(description, str) else "",
            initial=self._first_value(schema),
        )
        self.property = name
        self.schema = schema
        self.limits = self._say_limits()

    def _first_value(self, schema: schemas.Schema) -> object:  # noqa: ARG002 - most fields read the default there
        """What the field holds at first: the schema's default in the page's words, or nothing."""
        return None

    def _say_limits(self) -> str:
        """What the field takes, in words."""
        return ""

    def clean(self, value: object) -> str | None:
        """Return the value as JSON text, None when it is left out. Raises ValidationError."""
        return self._json(value)

    def _json(self, value: object) -> str | None:
        raise NotImplementedError

    def _missing(self) -> None:
        if self.required:
            raise ValidationError(_("An answer is required."))


class Text(Part):
    """A string. What is typed is sent as it is, with LF line ends; lengths count code points."""

    widget = forms.TextInput

    @property
    def kind(self) -> str:  # type: ignore[override]
        """One line or several."""
        longest = self.schema.get("maxLength")
        plain = "format" not in self.schema and "pattern" not in self.schema
        return "area" if plain and (longest is None or longest > ONE_LINE) else "text"

    @property
    def may_be_empty(self) -> bool:
        """True: the schema says in so many words that an empty text is an answer."""
        return self.required and self.schema.get("minLength") == 0 and "format" not in self.schema

    def _first_value(self, schema: schemas.Schema) -> object:
        default = schema.get("default")
        return default if isinstance(default, str) else None

    def _say_limits(self) -> str:
        least, most = self.schema.get("minLength"), self.schema.get("maxLength")
        source = self.schema.get("pattern")
        said = []
        if least and most is not None:
            said.append(_("%(least)s to %(most)s characters") % {"least": least, "most": most})
        elif most is not None:
            said.append(_("Up to %(most)s characters") % {"most": most})
        elif least:
            said.append(_("At least %(least)s characters") % {"least": least})
        if source is not None:
            said.append(_("Must match %(pattern)s") % {"pattern": plaintext.visible(source)})
        return ". ".join(said)

    def _json(self, value: object) -> str | None:
        text = "" if value is None else str(value).replace("\r\n", "\n").replace("\r", "\n")
        if not text:
            if self.may_be_empty:
                return '""'
            self._missing()
            return None
        self._check_length(text)
        self._check_pattern(text)
        return plaintext.write(self._read(text))

    def _read(self, text: str) -> str:
        """The text as it is sent. Raises ValidationError when it is not of the format."""
        if "\x00" in text or (not text.isprintable() and any("\ud800" <= char <= "\udfff" for char in text)):
            raise ValidationError(_("It holds a character that cannot be sent."))
        return text

    def _check_length(self, text: str) -> None:
        least, most = self.schema.get("minLength", 0), self.schema.get("maxLength")
        if len(text) < least:
            message = ngettext("At least %(n)s character is needed.", "At least %(n)s characters are needed.", least)
            raise ValidationError(message % {"n": least})
        if most is not None and len(text) > most:
            message = _("At most %(n)s characters are allowed; this has %(count)s.")
            raise ValidationError(message % {"n": most, "count": len(text)})

    def _check_pattern(self, text: str) -> None:
        source = self.schema.get("pattern")
        if source is None:
            return
        try:
            matches = pattern.prepare(source).found_in(text)
        except pattern.TooCostly:
            raise ValidationError(_("It is too long to be checked against its pattern.")) from None
        if not matches:
            message = _("It does not match the pattern %(pattern)s.")
            raise ValidationError(message % {"pattern": plaintext.visible(source)})


class Email(Text):
    """A mail address; `name@localhost` counts as one."""

    kind = "email"
    _check = EmailValidator(allowlist=["localhost"])

    def _read(self, text: str) -> str:
        try:
            self._check(text)
        except ValidationError:
            raise ValidationError(_("This is not a mail address.")) from None
        return text


class Address(Text):
    """A URI of any scheme, never made into a link."""

    kind = "uri"

    def _read(self, text: str) -> str:
        if not text.isascii() or not text.isprintable() or not validate_rfc3986(text, rule="URI"):
            raise ValidationError(_("This is not a whole URI, such as https://example.org/page."))
        return text


class Day(Text):
    """A date, year first."""

    kind = "date"

    def _read(self, text: str) -> str:
        if not _DATE.fullmatch(text) or not _is_date(text):
            raise ValidationError(_("This is not a date. Write it as 2026-09-22."))
        return text


class Instant(Text):
    """A moment with its zone. Without one it is read as UTC, and the page says so."""

    kind = "instant"

    def _read(self, text: str) -> str:
        found = _INSTANT.fullmatch(text.strip())
        if found is None or not _is_date(found["day"]):
            raise ValidationError(_("This is not a date with a time. Write it as 2026-09-22T10:00:00Z."))
        written = f"{found['day']}T{found['minute']}{found['second'] or ':00'}{(found['zone'] or 'Z').upper()}"
        try:
            dt.datetime.fromisoformat(f"{written[:19]}{written[-6:] if written[-1] != 'Z' else '+00:00'}")
        except ValueError:
            raise ValidationError(_("There is no such time of day.")) from None
        return written


class Number(Part):
    """A number, kept digit by digit."""

    kind = "number"
    widget = forms.TextInput
    whole = False

    def _first_value(self, schema: schemas.Schema) -> object:
        default = schema.get("default")
        return plaintext.write(default) if _is_number(default) else None

    def _say_limits(self) -> str:
        bounds = {name: plaintext.write(self.schema[name]) for name in _NUMBER_WORDS if name in self.schema}
        said = [_("A whole number") if self.whole else _("A number")]
        if {"minimum", "maximum"} <= set(bounds):
            said.append(_("from %(low)s to %(high)s") % {"low": bounds["minimum"], "high": bounds["maximum"]})
        elif "minimum" in bounds:
            said.append(_("of at least %(low)s") % {"low": bounds["minimum"]})
        elif "maximum" in bounds:
            said.append(_("of at most %(high)s") % {"high": bounds["maximum"]})
        if "exclusiveMinimum" in bounds:
            said.append(_("above %(low)s") % {"low": bounds["exclusiveMinimum"]})
        if "exclusiveMaximum" in bounds:
            said.append(_("below %(high)s") % {"high": bounds["exclusiveMaximum"]})
        return " ".join(said)

    def _json(self, value: object) -> str | None:
        text = "" if value is None else str(value).strip()
        if not text:
            self._missing()
            return None
        shape = _INTEGER if self.whole else _NUMBER
        if not shape.fullmatch(text) or len(text) > MAX_DIGITS or not math.isfinite(float(text)):
            kind = _("This is not a whole number.") if self.whole else _("This is not a number.")
            raise ValidationError(kind)
        self._check_bounds(Decimal(text))
        return str(int(text)) if self.whole else str(Decimal(text))

    def _check_bounds(self, number: Decimal) -> None:
        checks = {
            "minimum": (number.__ge__, _("At least %(bound)s.")),
            "maximum": (number.__le__, _("At most %(bound)s.")),
            "exclusiveMinimum": (number.__gt__, _("More than %(bound)s.")),
            "exclusiveMaximum": (number.__lt__, _("Less than %(bound)s.")),
        }
        for name, (holds, message) in checks.items():
            bound = self.schema.get(name)
            if bound is not None and not holds(Decimal(bound)):
                raise ValidationError(message % {"bound": plaintext.write(bound)})


class Whole(Number):
    """An integer of any size."""

    whole = True


class YesNo(Part):
    """A boolean with three states: a "no" is an answer, a blank is none."""

    kind = "yesno"
    widget = forms.RadioSelect

    def _first_value(self, schema: schemas.Schema) -> object:
        default = schema.get("default")
        return plaintext.write(default) if isinstance(default, bool) else ""

    def _say_limits(self) -> str:
        return _("A missing answer is not a no. Choose one.") if self.required else ""

    def _json(self, value: object) -> str | None:
        if value in {"true", "false"}:
            return str(value)
        if value:
            raise ValidationError(_("Choose yes or no."))
        self._missing()
        return None


class OneOf(Part):
    """One value out of a list. The page sends its position, so a title is never taken for a value."""

    widget: type[forms.Widget] = forms.RadioSelect

    def __init__(self, *, name: str, schema: schemas.Schema, required: bool, options: Sequence[Option]) -> None:
        """`options` are in the order of the schema."""
        self.options = tuple(options)
        super().__init__(name=name, schema=schema, required=required)

    @property
    def kind(self) -> str:  # type: ignore[override]
        """Radios or a list."""
        return "choice" if len(self.options) <= RADIOS else "select"

    def _first_value(self, schema: schemas.Schema) -> object:
        return next(iter(self.places([schema["default"]])), "") if "default" in schema else ""

    def places(self, values: Sequence[object]) -> list[str]:
        """Return the positions of the values that are in the list."""
        written = [option.json for option in self.options]
        wanted = [plaintext.write(value) for value in values]
        return [str(written.index(text)) for text in wanted if text in written]

    @property
    def numbered(self) -> list[tuple[str, str]]:
        """Position and title of each option."""
        return [(str(place), option.title) for place, option in enumerate(self.options)]

    def option_at(self, place: str) -> Option:
        """Return the option a page's value stands for. Raises ValidationError."""
        for number, option in enumerate(self.options):
            if place == str(number):
                return option
        raise ValidationError(_("This is not one of the choices."))

    def _json(self, value: object) -> str | None:
        if not value:
            self._missing()
            return None
        return self.option_at(str(value)).json


class ManyOf(OneOf):
    """Any of a list; always sent as an array."""

    kind = "many"
    widget = forms.CheckboxSelectMultiple

    def _first_value(self, schema: schemas.Schema) -> object:
        default = schema.get("default")
        return self.places(default) if isinstance(default, list) else []

    def _say_limits(self) -> str:
        least, most = self.schema.get("minItems", 0), self.schema.get("maxItems")
        if most is None:
            return _("At least %(least)s") % {"least": least} if least else _("Any number of them")
        if least == most:
            return _("Exactly %(most)s") % {"most": most}
        return _("%(least)s to %(most)s of them") % {"least": least, "most": most}

    def _json(self, value: object) -> str | None:
        wanted = [self.option_at(str(place)) for place in (value if isinstance(value, list) else [])]
        chosen = [option for option in self.options if option in wanted]
        least, most = self.schema.get("minItems", 0), self.schema.get("maxItems")
        if not chosen and not self.required and least:
            return None
        if len(chosen) < least:
            raise ValidationError(ngettext("Choose at least %(n)s.", "Choose at least %(n)s.", least) % {"n": least})
        if most is not None and len(chosen) > most:
            raise ValidationError(ngettext("Choose at most %(n)s.", "Choose at most %(n)s.", most) % {"n": most})
        return "[" + ", ".join(option.json for option in chosen) + "]"


class Written(forms.Field):
    """A whole answer, written as JSON and checked against the schema."""

    kind = "json"
    widget = forms.Textarea

    def __init__(self, *, schema: object, longest: int) -> None:
        """`longest` counts characters."""
        super().__init__(required=True, label=_("Answer as JSON"), initial=_skeleton(schema))
        self.schema = schema
        self.longest = longest

    def clean(self, value: object) -> str:
        """Return the answer as one line of JSON. Raises ValidationError."""
        text = str(value or "").strip()
        if not text:
            raise ValidationError(_("An answer is required."))
        if len(text) > self.longest:
            raise ValidationError(_("At most %(n)s characters are allowed.") % {"n": self.longest})
        try:
            held = plaintext.parse(text)
        except plaintext.NotJson as fault:
            raise ValidationError(str(fault)) from None
        if not isinstance(held, dict):
            raise ValidationError(_("The answer has to be an object: { … }."))
        if _beyond_floats(held):
            raise ValidationError(_("It holds a number that is too large to be sent."))
        found = schemas.faults(self.schema, held)
        if found:
            raise ValidationError(found)
        return plaintext.write(held)


def parts_of(schema: schemas.Schema) -> tuple[Part, ...]:
    """Return a field for each property, in the schema's order. Raises CannotShow."""
    known = {"type", "properties", "required", "additionalProperties"}
    _only(schema, known, where=_("The schema"))
    if not isinstance(schema.get("additionalProperties", True), bool):
        raise CannotShow(_("It has rules for names that it does not list."))
    properties = schema.get("properties", {})
    required = set(schema.get("required", ()))
    if required - set(properties):
        raise CannotShow(_("It requires a name that it does not describe."))
    if len(properties) > MAX_PARTS:
        raise CannotShow(_("It has more than %(n)s fields.") % {"n": MAX_PARTS})
    return tuple(_part(name, _resolved(held, schema), required=name in required) for name, held in properties.items())


def _part(name: str, schema: schemas.Schema, *, required: bool) -> Part:
    where = f"“{plaintext.visible(name)}”"
    kind = schema.get("type")
    options = _options(schema, where)
    if options is not None:
        _only(schema, {"type", "enum", "oneOf"}, where=where)
        return OneOf(name=name, schema=schema, required=required, options=options)
    if kind == "array":
        return _many(name, schema, required=required, where=where)
    if kind == "boolean":
        _only(schema, {"type"}, where=where)
        return YesNo(name=name, schema=schema, required=required)
    if kind in ("number", "integer"):
        _only(schema, {"type"} | _NUMBER_WORDS, where=where)
        return (Whole if kind == "integer" else Number)(name=name, schema=schema, required=required)
    if kind == "string":
        return _text(name, schema, required=required, where=where)
    raise CannotShow(_("%(where)s is neither a text, a number, a yes or no, nor a choice.") % {"where": where})


def _text(name: str, schema: schemas.Schema, *, required: bool, where: str) -> Part:
    _only(schema, {"type"} | _STRING_WORDS, where=where)
    if "pattern" in schema:
        try:
            pattern.prepare(schema["pattern"])
        except pattern.Unsupported as reason:
            why = _("The pattern of %(where)s cannot be checked here: %(reason)s.")
            raise CannotShow(why % {"where": where, "reason": reason}) from None
    format_ = schema.get("format")
    if format_ is not None and format_ not in _FORMATS:
        raise CannotShow(_("%(where)s is of a format that is not known here.") % {"where": where})
    kinds = {"email": Email, "uri": Address, "date": Day, "date-time": Instant}
    return kinds.get(format_ or "", Text)(name=name, schema=schema, required=required)


def _many(name: str, schema: schemas.Schema, *, required: bool, where: str) -> Part:
    _only(schema, {"type", "items", "minItems", "maxItems", "uniqueItems"}, where=where)
    items = schema.get("items")
    if not isinstance(items, Mapping):
        raise CannotShow(_("%(where)s is a list of anything.") % {"where": where})
    _only(items, {"type", "enum", "oneOf", "anyOf"}, where=where)
    options = _options(items, where)
    if options is None:
        raise CannotShow(_("%(where)s is a list of free values.") % {"where": where})
    return ManyOf(name=name, schema=schema, required=required, options=options)


def _options(schema: schemas.Schema, where: str) -> tuple[Option, ...] | None:
    """Read the choices of an enum in any of its spellings; None: it is no enum."""
    pairs: list[tuple[object, object]]
    if "enum" in schema:
        names = schema.get("enumNames")
        names = names if isinstance(names, list) else []
        pairs = [(value, names[place] if place < len(names) else None) for place, value in enumerate(schema["enum"])]
    else:
        titled = schema.get("oneOf", schema.get("anyOf"))
        if titled is None:
            return None
        if not all(isinstance(held, Mapping) and set(held) - _SAYS_NOTHING == {"const"} for held in titled):
            raise CannotShow(_("%(where)s may be of several shapes.") % {"where": where})
        pairs = [(held["const"], held.get("title")) for held in titled]
    if {"enum", "oneOf"} <= set(schema) or len(pairs) > MAX_CHOICES:
        raise CannotShow(_("%(where)s has choices that no list shows.") % {"where": where})
    allowed = schema.get("type", "string")
    if not all(_is_of(allowed, value) for value, _title in pairs):
        raise CannotShow(_("%(where)s has choices of another type than its own.") % {"where": where})
    return tuple(Option(json=plaintext.write(value), title=_title_of(value, title)) for value, title in pairs)


def _title_of(value: object, title: object) -> str:
    if isinstance(title, str) and title.strip():
        return plaintext.visible(title)
    return plaintext.visible(value if isinstance(value, str) and value else plaintext.write(value))


def _is_of(kind: object, value: object) -> bool:
    if kind == "string":
        return isinstance(value, str)
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    return kind == "number" and _is_number(value)


def _resolved(held: object, whole: schemas.Schema) -> schemas.Schema:
    """Follow one reference into the schema's own definitions, as model libraries write enums."""
    if not isinstance(held, Mapping):
        raise CannotShow(_("A property has no description of its own."))
    ref = held.get("$ref")
    if not isinstance(ref, str):
        return held
    home, _slash, name = ref.removeprefix("#/").partition("/")
    target = whole.get(home, {}).get(name) if home in {"$defs", "definitions"} else None
    if not isinstance(target, Mapping) or "$ref" in target or set(held) - _SAYS_NOTHING - {"$ref"}:
        raise CannotShow(_("A property refers to something that cannot be followed here."))
    return {**target, **{word: value for word, value in held.items() if word != "$ref"}}


def _only(schema: schemas.Schema, words: set[str], *, where: str) -> None:
    unknown = sorted(word for word in set(schema) - words - _SAYS_NOTHING if not word.startswith("x-"))
    if unknown:
        message = _("%(where)s has a rule that a form cannot show: %(word)s.")
        raise CannotShow(message % {"where": where, "word": plaintext.visible(unknown[0])})


def _is_number(value: object) -> bool:
    return isinstance(value, int | Decimal | float) and not isinstance(value, bool)


def _is_date(text: str) -> bool:
    try:
        dt.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _beyond_floats(value: plaintext.Value) -> bool:
    if isinstance(value, dict):
        return any(_beyond_floats(member) for member in value.values())
    if isinstance(value, list):
        return any(_beyond_floats(item) for item in value)
    if isinstance(value, Decimal):
        return not math.isfinite(float(value))
    return isinstance(value, int) and abs(value) >= 10**308


def _skeleton(schema: object) -> str:
    """The properties that have a default, to start from."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    held = properties.items() if isinstance(properties, Mapping) else ()
    defaults = {name: part["default"] for name, part in held if isinstance(part, Mapping) and "default" in part}
    return plaintext.pretty(plaintext.write(defaults))
