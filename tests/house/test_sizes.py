"""Deep and small: a module stops at 600 lines, a function at 40 (signature and docstring not counted)."""

import ast
import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
LONGEST_MODULE, LONGEST_FUNCTION = 600, 40
LONGEST_TESTS = 900  # one subject stays in one file
# "path" or "path::function" -> why it may be longer.
ALLOWED: dict[str, str] = {
    "operations/queries/dossier.py::read": "one list of arguments: the row, field by field",
    "console/api/shapes.py::operation": "one literal: toolOperation.v1 as a caller sees it",
}


def modules(*folders):
    for folder in folders:
        for path in sorted((PROJECT / folder).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path.relative_to(PROJECT).as_posix(), path.read_text()


def functions(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            yield node.name, body[-1].end_lineno - body[0].lineno + 1 if body else 0


def test_modules_stop_at_600_lines():
    too_long = {
        name for name, text in modules("console", "operations", "adapters") if text.count("\n") > LONGEST_MODULE
    }

    assert too_long - set(ALLOWED) == set()


def test_modules_of_tests_stop_at_900_lines():
    assert [name for name, text in modules("tests") if text.count("\n") > LONGEST_TESTS] == []


def test_functions_stop_at_40_lines():
    too_long = {
        f"{name}::{function}"
        for name, text in modules("console", "operations", "adapters")
        for function, lines in functions(text)
        if lines > LONGEST_FUNCTION
    }

    assert too_long - set(ALLOWED) == set()


def test_every_exception_is_still_needed():
    sources = dict(modules("console", "operations", "adapters"))
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
