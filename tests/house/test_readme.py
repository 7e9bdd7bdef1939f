"""What the READMEs show is what the code says, and both say the same."""

import re
from pathlib import Path

import pytest

from console import diagram

PROJECT = Path(__file__).parents[2]
READMES = {name: (PROJECT / name).read_text() for name in ("README.md", "README.zh-CN.md")}


def commands(text):
    """What stands in its code blocks, without the comments."""
    blocks = re.findall(r"^```\w+\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [re.sub(r" +# .*", "", block) for block in blocks]


@pytest.mark.parametrize("name", READMES)
def test_the_state_diagram_is_drawn_from_the_machine(name):
    [drawn] = re.findall(r"```mermaid\n(.*?)```", READMES[name], re.DOTALL)

    assert drawn.strip() == diagram.mermaid().strip()


@pytest.mark.parametrize("name", READMES)
def test_every_picture_and_file_it_names_is_there(name):
    named = re.findall(r"\]\((?!http)([^)#]+)\)", READMES[name])

    assert [file for file in named if not (PROJECT / file).exists()] == []


def test_both_give_the_same_commands():
    english, chinese = (commands(text) for text in READMES.values())

    assert chinese == english


@pytest.mark.parametrize("part", [r"^#+ ", r"^\|", r"^\d\. \*\*", r"^!\["], ids=["heads", "rows", "rules", "pictures"])
def test_both_have_the_same_parts(part):
    english, chinese = (len(re.findall(part, text, re.MULTILINE)) for text in READMES.values())

    assert chinese == english > 0


@pytest.mark.parametrize("name", READMES)
def test_each_leads_to_the_other(name):
    assert [other for other in READMES if f"]({other})" in READMES[name]] == [
        other for other in READMES if other != name
    ]
