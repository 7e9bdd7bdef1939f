"""The project's own virtual environment. Standard library only: it runs before anything is installed.

The environment is right when its stamp equals what the requirement files and this Python say. Packages are
installed with hashes and as wheels only: a source package would run build steps that no hash covers.
"""

import fcntl
import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
HOME = PROJECT / ".venv"
PYTHON = HOME / "bin" / "python"
STAMP = HOME / ".stamp"
SKIP = "LONGCALL_BOOTSTRAP"  # "0": the packages are already there (a container, a child of `up`)
OLDEST_PIP = (22, 3)  # the first that installs into another environment (--python)


class CannotBuildError(Exception):
    """The environment cannot be built here; the text says what to install."""


def enter(*, needs_dev: bool) -> None:
    """Build what is missing and replace this process by one inside the environment; return if it is already there."""
    if os.environ.get(SKIP) == "0":
        return
    try:
        with _one_builder():
            _bring_up_to_date(needs_dev=needs_dev)
    except CannotBuildError as error:
        sys.exit(str(error))
    if Path(sys.prefix) != HOME:
        os.execv(PYTHON, [str(PYTHON), *sys.argv])  # noqa: S606 - our own interpreter, no shell


@contextmanager
def _one_builder() -> Iterator[None]:
    """Two first starts at once would install over each other; the second waits for the first."""
    with (PROJECT / ".venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _bring_up_to_date(*, needs_dev: bool) -> None:
    stamp = _read_stamp()
    if stamp.get("python") != _base_version():
        _create()
        stamp = {"python": _base_version()}
        _write_stamp(stamp)
    for name in ["requirements.txt", "requirements-dev.txt"] if needs_dev else ["requirements.txt"]:
        wanted = hashlib.sha256((PROJECT / name).read_bytes()).hexdigest()
        if stamp.get(name) != wanted:
            _install(name)
            stamp[name] = wanted
            _write_stamp(stamp)


def _read_stamp() -> dict[str, str]:
    try:
        stamp = json.loads(STAMP.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) and PYTHON.exists() else {}


def _write_stamp(stamp: dict[str, str]) -> None:
    # Rename: a start killed in the middle leaves the old stamp, so the next start installs again.
    fresh = STAMP.with_suffix(".new")
    fresh.write_text(json.dumps(stamp))
    fresh.replace(STAMP)


def _base_python() -> str:
    # Inside the environment sys.executable is the one that may have to be replaced.
    return getattr(sys, "_base_executable", None) or sys.executable


def _base_version() -> str:
    return f"{sys.implementation.name} {sys.version.split()[0]} {sys.base_prefix}"


def _create() -> None:
    _say("building .venv for this Python (once)")
    options = ["--clear", "--without-pip"] if _base_pip_works() else ["--clear"]
    if options == ["--clear"] and importlib.util.find_spec("ensurepip") is None:
        raise CannotBuildError("This Python has neither pip nor ensurepip. On Debian: apt-get install python3-pip")
    _run([_base_python(), "-m", "venv", *options, str(HOME)])


def _install(requirements: str) -> None:
    _say(f"installing {requirements} (once, with hashes; half a minute or more)")
    has_pip = any(HOME.glob("lib/python3*/site-packages/pip"))
    pip = [str(PYTHON), "-m", "pip"] if has_pip else [_base_python(), "-m", "pip", "--python", str(PYTHON)]
    options = ["-qq", "--no-input", "--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:"]
    _run([*pip, "install", *options, "--requirement", str(PROJECT / requirements)])


def _base_pip_works() -> bool:
    """Debian splits ensurepip off into a package of its own; pip is the likelier of the two to be there."""
    answer = subprocess.run([_base_python(), "-m", "pip", "--version"], capture_output=True, text=True, check=False)
    found = re.match(r"pip (\d+)\.(\d+)", answer.stdout)
    return found is not None and (int(found[1]), int(found[2])) >= OLDEST_PIP


def _run(command: list[str]) -> None:
    try:
        failed = subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
    except KeyboardInterrupt:
        raise CannotBuildError("stopped before the environment was whole; the next start goes on") from None
    if failed:
        raise CannotBuildError(f"This step failed, see above: {' '.join(command[:5])} ...")


def _say(text: str) -> None:
    print(f"longcall: {text}", file=sys.stderr, flush=True)
