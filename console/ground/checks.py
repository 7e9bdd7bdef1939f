"""The checks of `selftest`: cheap ones first, then every test."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from console.ground.environment import SKIP
from console.ground.home import PROJECT

Check = tuple[str, Sequence[str]]

# name -> the arguments of Python. The tools' own scripts are not used: they break when the checkout is moved.
CHEAP: list[Check] = [
    ("lint", ("-m", "ruff", "check", "--quiet")),
    ("format", ("-m", "ruff", "format", "--check", "--quiet")),
    ("types", ("-m", "mypy", "--no-error-summary")),
    ("floors", ("-c", "from importlinter.cli import lint_imports_command as check; check()", "--no-logo")),
]
# Tests of one group run in one process, in their order: what must not run side by side shares a group.
# Not reordered: browser tests come last (tests/conftest.py).
PYTEST = (
    *("-m", "pytest", "--numprocesses", "2", "--dist", "loadgroup", "--no-loadscope-reorder"),
    *("--durations", "8", "--durations-min", "5"),
)
CHROMIUM_PACKAGES = ("chromium", "fonts-dejavu-core", "fonts-wqy-zenhei")  # the last one for Chinese pages


def run(*, with_long: bool, pytest_arguments: Sequence[str], tell: Callable[[str], None]) -> int:
    """Run every check and return the exit code: 0 when all hold. The tests run only when the cheap checks hold."""
    surroundings = dict(os.environ) | {SKIP: "0", "PYTHONUNBUFFERED": "1"}
    failed = [name for name, words in CHEAP if _run(name, words, surroundings, tell)]
    if failed:
        tell(f"selftest: {', '.join(failed)} failed; the tests were not run")
        return 1
    provide_chromium(tell)
    selection = "not bench" if with_long else "not bench and not long"
    # Last, and nothing after it: the closing line is pytest's own.
    return _python([*PYTEST, "-m", selection, *pytest_arguments], surroundings)


def provide_chromium(tell: Callable[[str], None]) -> None:
    """Install Chromium with apt when it is missing and we may; otherwise say why the browser tests are skipped."""
    if os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome"):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        tell("selftest: no Chromium, and only root can install it: apt-get install chromium, or set CHROMIUM")
        return
    started = time.monotonic()
    quiet = dict(os.environ) | {"DEBIAN_FRONTEND": "noninteractive"}
    for words in (("update",), ("install", "--yes", "--no-install-recommends", *CHROMIUM_PACKAGES)):
        answer = subprocess.run(
            ["apt-get", "-qq", *words], env=quiet, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if answer.returncode:
            tell(f"selftest: apt-get {words[0]} failed: {answer.stderr[-500:]}")
            return
    tell(f"selftest: chromium installed, {time.monotonic() - started:.1f} s")


def _run(name: str, words: Sequence[str], surroundings: Mapping[str, str], tell: Callable[[str], None]) -> int:
    started = time.monotonic()
    code = _python(words, surroundings)
    tell(f"selftest: {name} {'failed' if code else 'ok'}, {time.monotonic() - started:.1f} s")
    return code


def _python(words: Sequence[str], surroundings: Mapping[str, str]) -> int:
    return subprocess.run(
        [sys.executable, *words], cwd=PROJECT, env=surroundings, stdin=subprocess.DEVNULL, check=False
    ).returncode
