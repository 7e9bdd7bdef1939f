"""The words a simulated tool is written in.

A script is a generator function of the call's arguments. It yields what the tool does next and
returns how it ends, so that it reads like the tool it stands for::

    def export(arguments):
        yield Work(seconds=20, message="Writing rows")
        answer = yield Ask(message="Overwrite?", schema=CONFIRM)
        if answer.action != "accept":
            return Finish(text="Nothing was written")
        yield Effect(name="file written")
        return Finish(text="Done")

Only `Work` takes time. Given the same arguments and answers a script does the same thing again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from adapters.contract import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The tool is busy. `message` becomes the task's status message."""

    seconds: float
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """The tool waits for a person. The script goes on with an `Answer`."""

    message: str
    schema: Mapping[str, Json] = field(default_factory=dict)
    url: str = ""
    """Set: the question wants a visit to this page, and has no schema."""
    also: tuple[Ask, ...] = ()
    """More questions of the same round. Where a server can ask only one at a time, they follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Something happened outside that nobody can take back."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back for an `Ask`."""

    action: str
    content: Mapping[str, Json]
    others: tuple[Answer, ...] = ()
    """What came back for each of `Ask.also`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The tool's result. `is_error` is the tool's own word that it failed."""

    text: str
    structured: Mapping[str, Json] | None = None
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """The tool died without a result."""

    message: str


Step: TypeAlias = Work | Ask | Effect
Outcome: TypeAlias = Finish | Crash
Running: TypeAlias = Generator[Step, Answer | None, Outcome]
Script: TypeAlias = Callable[[Mapping[str, Json]], Running]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool as its server offers it."""

    name: str
    title: str
    description: str
    script: Script
    input_schema: Mapping[str, Json]
    output_schema: Mapping[str, Json] | None = None
    task_support: str = "optional"
