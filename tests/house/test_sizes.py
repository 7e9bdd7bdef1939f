"""Deep and small: a module stops at 600 lines, a function at 40 (its docstring not counted)."""

import ast
import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
LONGEST_MODULE, LONGEST_FUNCTION = 600, 40
# "path" or "path::function" -> why it may be longer.
ALLOWED: dict[str, str] = {}


def modules(*folders):
    for folder in folders:
        for path in sorted((PROJECT / folder).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path.relative_to(PROJECT).as_posix(), path.read_text()


def functions(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            said = lines_of(node.body[0]) if ast.get_docstring(node) else 0
            yield node.name, lines_of(node) - said


def lines_of(node):
    return node.end_lineno - node.lineno + 1


def test_modules_stop_at_600_lines():
    too_long = {name for name, text in modules("console", "operations", "adapters", "tests") if text.count("\n") > 600}

    assert too_long - set(ALLOWED) == set()


def test_functions_stop_at_40_lines():
    too_long = {
        f"{name}::{function}"
        for name, text in modules("console", "operations", "adapters")
        for function, lines in functions(text)
        if lines > LONGEST_FUNCTION
    }

    assert too_long - set(ALLOWED) == set()


def test_every_exception_is_still_needed():
    sources = dict(modules("console", "operations", "adapters", "tests"))
    stale = []
    for place in ALLOWED:
        name, _, function = place.partition("::")
        lengths = dict(functions(sources.get(name, "")))
        longest = lengths.get(function, 0) if function else sources.get(name, "").count("\n")
        if longest <= (LONGEST_FUNCTION if function else LONGEST_MODULE):
            stale.append(place)

    assert stale == []


def test_no_check_is_switched_off_without_its_code():
    switched_off = re.compile(r"#\s*(noqa(?!: [A-Z]+[0-9]+)|type:\s*ignore(?!\[)|ruff: noqa|mypy: )")
    found = [
        f"{name}: {line.strip()}"
        for name, text in modules("console", "operations", "adapters", "tests")
        if name != "tests/house/test_sizes.py"
        for line in text.splitlines()
        if switched_off.search(line)
    ]

    assert found == []
