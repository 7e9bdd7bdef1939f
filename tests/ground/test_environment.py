"""The environment that builds itself, on a project that needs no package and so no network."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from console.ground import environment
from console.ground.home import PROJECT

PATIENCE = 300  # seconds
START = """
import sys
from console.ground import environment
environment.enter(needs_dev="dev" in sys.argv)
print("inside", sys.prefix, flush=True)
"""


@pytest.fixture
def project(tmp_path):
    """A checkout with empty lists of packages."""
    (tmp_path / "console" / "ground").mkdir(parents=True)
    shutil.copy(PROJECT / "console" / "ground" / "environment.py", tmp_path / "console" / "ground")
    (tmp_path / "start.py").write_text(START)
    for name in ("requirements.txt", "requirements-dev.txt"):
        (tmp_path / name).write_text("# nothing\n")
    return tmp_path


def begin(project, *words, **variables):
    surroundings = {name: value for name, value in os.environ.items() if name != environment.SKIP} | variables
    base = getattr(sys, "_base_executable", sys.executable)
    command = [base, str(project / "start.py"), *words]
    return subprocess.Popen(command, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def start(project, *words, **variables):
    process = begin(project, *words, **variables)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    return out, err


def test_the_first_start_builds_and_goes_on_inside_the_second_only_goes_on(project):
    out, err = start(project)
    assert out == f"inside {project / '.venv'}\n"
    assert "building .venv" in err

    out, err = start(project)
    assert out == f"inside {project / '.venv'}\n"
    assert err == ""


def test_a_changed_list_is_installed_again_without_building_again(project):
    start(project)
    (project / "requirements.txt").write_text("# nothing, but another nothing\n")

    _, err = start(project)

    assert "installing requirements.txt" in err
    assert "building" not in err


def test_the_development_list_is_installed_only_when_it_is_needed(project):
    _, err = start(project)
    assert "requirements-dev.txt" not in err

    _, err = start(project, "dev")
    assert "installing requirements-dev.txt" in err


def test_another_python_builds_again(project):
    start(project)
    stamp = project / ".venv" / ".stamp"
    stamp.write_text(json.dumps(json.loads(stamp.read_text()) | {"python": "cpython 3.9.1 /usr"}))

    _, err = start(project)

    assert "building .venv" in err


def test_a_start_that_was_killed_in_the_middle_is_repaired_by_the_next(project):
    start(project)
    (project / ".venv" / ".stamp").unlink()
    (project / ".venv" / "bin" / "python").unlink()

    out, err = start(project)

    assert "building .venv" in err
    assert out == f"inside {project / '.venv'}\n"


def test_two_first_starts_at_once_build_once(project):
    both = [begin(project), begin(project)]

    answers = [process.communicate(timeout=PATIENCE) for process in both]

    assert [process.returncode for process in both] == [0, 0]
    assert sum(err.count("building .venv") for _, err in answers) == 1


def test_packages_that_are_already_there_are_left_alone_on_request(project):
    out, err = start(project, **{environment.SKIP: "0"})

    assert not (project / ".venv").exists()
    assert "inside" in out
    assert err == ""


def test_a_list_that_cannot_be_installed_ends_the_start_with_what_failed(project):
    (project / "requirements.txt").write_text("no-such-package-of-longcall==1\n")

    process = begin(project, PIP_NO_INDEX="1")
    _, err = process.communicate(timeout=PATIENCE)

    assert process.returncode == 1
    assert "This step failed" in err


def test_a_python_with_neither_pip_nor_ensurepip_is_told_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(environment, "HOME", tmp_path / ".venv")
    monkeypatch.setattr(environment, "_base_pip_works", lambda: False)
    monkeypatch.setattr(environment.importlib.util, "find_spec", lambda name: None)

    with pytest.raises(environment.CannotBuildError, match="apt-get install python3-pip"):
        environment._create()


def test_without_a_usable_pip_the_environment_gets_one_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setattr(environment, "HOME", tmp_path / ".venv")
    monkeypatch.setattr(environment, "_base_pip_works", lambda: False)

    environment._create()

    assert list((tmp_path / ".venv").glob("lib/python3*/site-packages/pip"))


def test_only_the_standard_library_is_used_before_anything_is_installed():
    program = f"import sys; sys.path.insert(0, {str(PROJECT)!r}); import console.ground.environment"

    answer = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False)

    assert answer.returncode == 0, answer.stderr
    assert Path(environment.__file__).is_relative_to(PROJECT)
