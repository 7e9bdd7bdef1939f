"""Places for embedded servers, and a look at what is still running."""

import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from console.ground import place

PATIENCE = 120.0  # seconds


@pytest.fixture
def where():
    """A place for servers; pytest's own folders are closed to the user that they run as under root."""
    with tempfile.TemporaryDirectory(prefix="longcall-ground-") as name:
        Path(name).chmod(0o711)
        yield place.prepare(Path(name))


@pytest.fixture
def processes_of():
    """A function: the command line of every process that mentions a text."""

    def find(text):
        table = subprocess.run(["ps", "-axww", "-o", "command"], capture_output=True, text=True, check=True).stdout
        return [line for line in table.splitlines() if text in line]

    return find


@pytest.fixture(scope="session")
def soon():
    """A function: wait until something holds; return what it last returned.

    The bound is for a test that fails: it is no promise of the product, and a busy machine must not reach it.
    """

    def wait(holds):
        deadline = time.monotonic() + PATIENCE
        while not (found := holds()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    return wait
