"""Turns the closed sets of the machine into what a column may hold."""

from __future__ import annotations

import enum


def choices_of(words: type[enum.StrEnum]) -> list[tuple[str, str]]:
    """Return the members as Django's choices."""
    return [(word.value, word.value) for word in words]
