"""The lists of packages: whole, explained, and silent about where they come from."""

import re
import tomllib
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
LISTS = ["requirements.txt", "requirements-dev.txt"]
PROJECT_FILE = (PROJECT / "pyproject.toml").read_text()


@pytest.mark.parametrize("name", LISTS)
def test_no_list_names_a_registry(name):
    text = (PROJECT / name).read_text()

    assert "://" not in text
    assert "index" not in text


@pytest.mark.parametrize("name", LISTS)
def test_every_listed_package_is_exact_and_has_hashes(name):
    entries = re.split(r"\n(?=\S)", (PROJECT / name).read_text().strip())

    assert len(entries) > 20
    assert [
        entry for entry in entries if not re.match(r"[a-z0-9-]+==\S+", entry) or "--hash=sha256:" not in entry
    ] == []


def test_the_development_list_contains_the_other():
    runtime, development = ((PROJECT / name).read_text() for name in LISTS)

    pins = re.findall(r"^(\S+==\S+)", runtime, re.MULTILINE)

    assert [pin for pin in pins if f"{pin} " not in development] == []


@pytest.mark.parametrize("group", ["dependencies", "dev"])
def test_every_direct_dependency_has_its_reason_beside_it(group):
    lines = re.search(rf"^{group} = \[\n(.*?)^\]", PROJECT_FILE, re.MULTILINE | re.DOTALL).group(1).splitlines()

    assert len(lines) > 10
    assert [line for line in lines if not re.fullmatch(r'    "[^"]+", +# \S.{3,}', line)] == []


def test_every_direct_dependency_is_pinned():
    project = tomllib.loads(PROJECT_FILE)
    wanted = project["project"]["dependencies"] + project["dependency-groups"]["dev"]
    pinned = set(re.findall(r"^([a-z0-9-]+)==", (PROJECT / "requirements-dev.txt").read_text(), re.MULTILINE))

    assert [text for text in wanted if re.match(r"[a-z0-9-]+", text).group() not in pinned] == []


def test_every_ignored_lint_rule_has_its_reason_beside_it():
    section = re.search(r"^ignore = \[\n(.*?)^\]", PROJECT_FILE, re.MULTILINE | re.DOTALL).group(1).splitlines()

    assert [line for line in section if not re.fullmatch(r'    "[A-Z0-9]+", +# \S.{3,}', line)] == []
