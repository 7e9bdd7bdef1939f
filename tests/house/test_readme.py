"""What the README shows is what the code says."""

import re
from pathlib import Path

from console import diagram

README = (Path(__file__).parents[2] / "README.md").read_text()


def test_the_state_diagram_is_drawn_from_the_machine():
    [drawn] = re.findall(r"```mermaid\n(.*?)```", README, re.DOTALL)

    assert drawn.strip() == diagram.mermaid().strip()


def test_every_picture_and_file_it_names_is_there():
    named = re.findall(r"\]\((?!http)([^)#]+)\)", README)

    assert [name for name in named if not (Path(__file__).parents[2] / name).exists()] == []
