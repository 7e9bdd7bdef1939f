"""The words in which a person says why: long enough to help whoever reads them later."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.validators import MaxLengthValidator, MinLengthValidator, ProhibitNullCharactersValidator
from django.utils.translation import gettext_lazy as lazy
from django.utils.translation import ngettext_lazy

SHORTEST = 8
"""Characters. Shorter words ("ok", "test") explain nothing to the next person."""

_TOO_SHORT = ngettext_lazy(
    "Say a little more: at least %(limit_value)d character, so that others understand it.",
    "Say a little more: at least %(limit_value)d characters, so that others understand it.",
    "limit_value",
)
_TOO_LONG = ngettext_lazy(
    "Say it shorter: at most %(limit_value)d character, this has %(show_value)d.",
    "Say it shorter: at most %(limit_value)d characters, this has %(show_value)d.",
    "limit_value",
)


class ReasonField(forms.CharField):
    """A reason in a person's own words; its errors say what to do."""

    def __init__(self, *, max_length: int, **named: Any) -> None:  # noqa: ANN401 - what a CharField takes
        """Take what a CharField takes, except for its shortest length."""
        super().__init__(min_length=SHORTEST, max_length=max_length, **named)
        self.error_messages["required"] = lazy("Say why, in words that others understand.")
        self.validators = [
            MinLengthValidator(SHORTEST, _TOO_SHORT),
            MaxLengthValidator(max_length, _TOO_LONG),
            ProhibitNullCharactersValidator(),
        ]
