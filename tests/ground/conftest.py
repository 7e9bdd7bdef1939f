"""Places for embedded servers, and a look at what is still running."""

import tempfile
import time
from pathlib import Path

import psutil
import pytest

from console.ground import place


@pytest.fixture
def where():
    """A place for servers; pytest's own folders are closed to the user that they run as under root."""
    with tempfile.TemporaryDirectory(prefix="longcall-ground-") as name:
        Path(name).chmod(0o711)
        yield place.prepare(Path(name))


@pytest.fixture
def processes_of():
    """A function: every process whose command line mentions a text."""

    def find(text):
        return [
            process for process in psutil.process_iter(["cmdline"]) if text in " ".join(process.info["cmdline"] or [])
        ]

    return find


@pytest.fixture
def soon():
    """A function: wait until something holds, for at most some seconds; return what it last returned."""

    def wait(holds, seconds=10.0):
        deadline = time.monotonic() + seconds
        while not (found := holds()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    return wait
