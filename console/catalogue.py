"""The words of the pages in other languages: found in the sources, kept in catalogues, compiled into the run folder.

A catalogue (`console/locale/zh_Hans/LC_MESSAGES/django.po`) is written by people and belongs to the sources. What
Django reads is compiled from it by `prepare`: no generated file is ever kept, and no gettext programs are needed.

Note [What counts as a word]
A word is whatever stands as a literal inside a call of `django.utils.translation`, under whatever name a module has
imported it, or inside a template's `translate`, `blocktranslate` and `_()`. Templates are read by Django's own
translator of templates, so that what we find is what Django looks up.
"""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polib
from django.utils.translation.template import templatize

from console.ground.home import PROJECT, Home

CATALOGUES = PROJECT / "console" / "locale"
LANGUAGES = {"zh_Hans": "nplurals=1; plural=0;"}
"""Every language but English, which the sources are written in, with gettext's rule for its plurals."""

# Function of django.utils.translation -> which arguments are its context, its text, its plural.
_FUNCTIONS: dict[str, tuple[int | None, int, int | None]] = {
    "gettext": (None, 0, None),
    "ngettext": (None, 0, 1),
    "pgettext": (0, 1, None),
    "npgettext": (0, 1, 2),
}
_PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|%[sd]|%%|\{\w*\}")
_MARKUP = re.compile(r"</?\w+[^>]*>|&\w+;")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Message:
    """One text that people read. `plural` and `context` are "" where it has none."""

    text: str
    plural: str = ""
    context: str = ""


def found() -> dict[Message, list[str]]:
    """Return every message of the sources with the files that it stands in, in the order of the files."""
    sources: dict[Message, list[str]] = {}
    files = [*sorted((PROJECT / "console").rglob("*.py")), *sorted((PROJECT / "templates").rglob("*.html"))]
    for path in files:
        name = path.relative_to(PROJECT).as_posix()
        text = path.read_text()
        for message in messages_of_python(text) if path.suffix == ".py" else messages_of_template(text):
            places = sources.setdefault(message, [])
            if name not in places:
                places.append(name)
    return sources


def messages_of_python(text: str) -> Iterator[Message]:
    """Give the messages of one module. Raises: ValueError where a text is put together and so cannot be looked up."""
    tree = ast.parse(text)
    names = {
        alias.asname or alias.name: alias.name.removesuffix("_lazy").removesuffix("_noop")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "django.utils.translation"
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and names.get(node.func.id) in _FUNCTIONS:
            yield _message(names[node.func.id], node)


def messages_of_template(text: str) -> Iterator[Message]:
    """Give the messages of one template."""
    calls = templatize(text)
    for begin in re.finditer(r"\b(_|n?p?gettext)\(", calls):
        name = "gettext" if begin[1] == "_" else begin[1]
        yield _message(name, _call_at(calls, begin.start()))


def _call_at(text: str, start: int) -> ast.Call:
    """Parse the call that begins here: it ends with the first bracket that makes it whole."""
    for end in re.finditer(r"\)", text[start:]):
        try:
            call = ast.parse(text[start : start + end.end()], mode="eval").body
        except SyntaxError:
            continue
        if isinstance(call, ast.Call):
            return call
    raise ValueError(f"no call: {text[start : start + 60]}")


def _message(function: str, call: ast.Call) -> Message:
    context, text, plural = ("" if place is None else _literal(call.args[place]) for place in _FUNCTIONS[function])
    return Message(context=context, text=text, plural=plural)


def _literal(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise ValueError(f"line {node.lineno}: no catalogue can hold a text that is put together: {ast.unparse(node)}")


def read(language: str) -> polib.POFile:
    """Read a language's catalogue; an empty one when there is none yet."""
    path = _path(language)
    if path.exists():
        return polib.pofile(str(path), wrapwidth=0)
    return polib.POFile(wrapwidth=0)


def refresh(language: str) -> polib.POFile:
    """Bring a catalogue to what the sources hold and write it: new texts stand empty in it, old ones go."""
    old = read(language)
    held = {_message_of(entry): entry for entry in old if not entry.obsolete}
    new = polib.POFile(wrapwidth=0)
    new.header, new.metadata = old.header, _metadata(language)
    for message, places in found().items():
        entry = held.get(message) or _empty(message)
        entry.occurrences = [(place, "") for place in places]
        new.append(entry)
    _path(language).parent.mkdir(parents=True, exist_ok=True)
    new.save(str(_path(language)))
    return new


def problems(language: str) -> list[str]:
    """Return what is wrong with a catalogue, one line each: missing, stale, untranslated, doubtful or torn texts."""
    catalogue, sources = read(language), found()
    held = {_message_of(entry): entry for entry in catalogue if not entry.obsolete}
    lines = [f"missing: {message.text!r} ({', '.join(sources[message])})" for message in sources if message not in held]
    lines += [f"stale: {message.text!r}" for message in held if message not in sources]
    lines += [f"obsolete: {entry.msgid!r}" for entry in catalogue if entry.obsolete]
    for entry in held.values():
        lines += [f"{flaw}: {entry.msgid!r}" for flaw in _flaws(entry)]
    return lines


def _flaws(entry: polib.POEntry) -> Iterator[str]:
    if entry.fuzzy:
        yield "fuzzy"
    texts = list(entry.msgstr_plural.values()) if entry.msgid_plural else [entry.msgstr]
    if not texts or not all(texts):
        yield "untranslated"
        return
    source = entry.msgid_plural or entry.msgid
    for text in texts:
        if Counter(_PLACEHOLDER.findall(text)) != Counter(_PLACEHOLDER.findall(source)):
            yield "other placeholders"
        if Counter(_MARKUP.findall(text)) != Counter(_MARKUP.findall(source)):
            yield "other markup"
        is_mark = (entry.msgctxt or "").startswith("punctuation")  # Chinese marks bring their own room
        if not is_mark and (text[:1].isspace(), text[-1:].isspace()) != (source[:1].isspace(), source[-1:].isspace()):
            yield "other space at an end"


def compile_into(home: Home) -> None:
    """Write what Django reads, for every language, into the run folder."""
    for language in LANGUAGES:
        folder = home.locale / language / "LC_MESSAGES"
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / f".django.mo.{os.getpid()}"  # two processes may prepare the same folder at once
        read(language).save_as_mofile(str(fresh))
        fresh.replace(folder / "django.mo")


def _path(language: str) -> Path:
    return CATALOGUES / language / "LC_MESSAGES" / "django.po"


def _message_of(entry: polib.POEntry) -> Message:
    return Message(text=entry.msgid, plural=entry.msgid_plural or "", context=entry.msgctxt or "")


def _empty(message: Message) -> polib.POEntry:
    named = {"msgid": message.text, "msgctxt": message.context or None}
    if message.plural:
        return polib.POEntry(**named, msgid_plural=message.plural, msgstr_plural={0: ""})
    return polib.POEntry(**named, msgstr="")


def _metadata(language: str) -> dict[str, str]:
    """No dates and no names: a refresh that finds nothing new changes nothing."""
    return {
        "Project-Id-Version": "longcall",
        "Language": language,
        "MIME-Version": "1.0",
        "Content-Type": "text/plain; charset=UTF-8",
        "Content-Transfer-Encoding": "8bit",
        "Plural-Forms": LANGUAGES[language],
    }
