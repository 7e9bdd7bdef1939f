"""What every test may ask for.

From pytest-django: `db` (one transaction, rolled back); `transactional_db` or `django_db(transaction=True)` (real
commits: needed wherever another connection must see the rows, as with locks, NOTIFY, threads, the browser).
From pytest-playwright: `page`, `context`, `browser`; such tests carry `@pytest.mark.browser`.

Here:
- `live_site` - the address of the product's own ASGI application, served in this process on a free port.

Everything is refused that leaves this machine: see `tests/plugins/throwaway_postgres.py` for the database and
`tests/plugins/loopback_only.py` for the guard.
"""

import os
import shutil
import socket
import threading
import time

import pytest
import uvicorn
from django.utils import translation

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
START_PATIENCE = 120.0  # seconds


def pytest_collection_modifyitems(config, items):
    """Say why a browser test cannot run; where a run must be whole (CI), let it fail instead.

    They come last: once Playwright has started, its event loop counts as running in this thread until the session
    ends, and no other test there can start a loop of its own.
    """
    items.sort(key=lambda item: item.get_closest_marker("browser") is not None)
    if CHROMIUM is None and os.environ.get("CI") != "true":
        skip = pytest.mark.skip(reason="no Chromium here: apt-get install chromium, or set CHROMIUM to its path")
        for item in items:
            if item.get_closest_marker("browser"):
                item.add_marker(skip)


@pytest.fixture(autouse=True)
def _language_of_its_own():
    """Forget the language of the last request: Django leaves it to the thread, and so to the next test."""
    yield
    translation.deactivate()


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args):
    """Take the system's Chromium: Playwright's own download is not needed."""
    # For the same loop Django would refuse every query of a test that has a browser and a database.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    quiet = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
    quiet += ["--disable-component-update", "--disable-sync"]
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    return browser_type_launch_args | {"executable_path": CHROMIUM, "args": quiet + sandbox}


@pytest.fixture
def live_site(transactional_db):
    """Serve the product in a thread; yield its address, without a slash at the end."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config("console.asgi:application", log_level="warning", lifespan="off", ws="websockets-sansio")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + START_PATIENCE
    while not server.started and time.monotonic() < deadline and thread.is_alive():
        time.sleep(0.01)
    assert server.started, "the site did not start"

    yield f"http://127.0.0.1:{listener.getsockname()[1]}"

    server.should_exit = True
    thread.join(START_PATIENCE)
    listener.close()
