"""The whole product, started by its one command, and people in front of it.

- `product` - one installation for all tests of a worker: `url`, `people` (name to password), `token` (of an API client
  with every scope), `api()`, `manage()`, `person()`.
- `visit` - opens a browser for a person; at the end of the test nothing may stand in any of its consoles.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from console.ground.home import PROJECT
from tests.ports import free_port

# How long to wait for what must come: only a test that fails ever waits that long.
START_SECONDS = 180
STOP_SECONDS = 60
PATIENCE = 60_000  # milliseconds
expect.set_options(timeout=PATIENCE)
# Chromium reports every answer of 400 and more as an error of the page. A conflict is an answer, not an error.
ANSWERS = re.compile(r"Failed to load resource: the server responded with a status of (409|422|403)")


class Product:
    """One running installation."""

    def __init__(self, home, *, speed=1):
        self.home = home
        self.url = f"http://127.0.0.1:{free_port()}"
        self.demo_url = f"http://127.0.0.1:{free_port()}"
        ports = ["--port", self.url.rpartition(":")[2], "--demo-port", self.demo_url.rpartition(":")[2]]
        self._surroundings = surroundings(home) | {"LONGCALL_DEMO_SPEED": str(speed)}
        self._said = ""
        self._process = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--home", str(home), *ports],
            cwd=PROJECT,
            env=self._surroundings,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self._wait()
        except BaseException:
            self.end()
            raise
        self.people = {who["username"]: who["password"] for who in json.loads((home / "people.json").read_text())}
        self.token = self.manage("issue_token", "browser-tests").strip()

    def _read(self):
        with self._process.stdout as lines:
            for line in lines:
                self._said += line

    def _wait(self):
        deadline = time.monotonic() + START_SECONDS
        while "is running at" not in self._said:
            assert self._process.poll() is None, self._said
            assert time.monotonic() < deadline, self._said
            time.sleep(0.1)

    def manage(self, *words, given=None):
        """Run a command of the installation; return what it said."""
        command = [sys.executable, "manage.py", *words]
        done = subprocess.run(
            command,
            cwd=PROJECT,
            env=self._surroundings,
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def person(self, name, role):
        """Make one more person."""
        if name not in self.people:
            self.people[name] = f"{name} and a long password"
            self.manage("shell", "--no-imports", given=_MAKE.format(name=name, password=self.people[name], role=role))
        return name

    def api(self, path, body=None):
        """Call the API with the token; return the status and what was answered."""
        raw = json.dumps(body).encode() if body is not None else None
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/api/v1/{path}", data=raw, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as answer:
            return answer.code, json.load(answer)

    def submit(self, server, tool, arguments, *, node, principal="the planner"):
        """Submit a call; return the operation's id. The demo's tools are registered a moment after the first page."""
        call = {"call_node": node, "submission_key": node, "server": server, "tool": tool}
        deadline = time.monotonic() + START_SECONDS
        while True:
            status, told = self.api("operations", call | {"arguments": arguments, "principal": principal})
            if status == 201:
                return told["id"]
            assert told["type"].endswith("no-such-tool"), told
            assert time.monotonic() < deadline, told
            time.sleep(0.5)

    def reached(self, operation, *states, seconds=180):
        """Wait until an operation is in one of the states; return it as the API tells it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            status, told = self.api(f"operations/{operation}")
            # While a test keeps the database away, the API says so.
            if status == 200 and told["state"] in states:
                return told
            time.sleep(0.5)
        raise AssertionError(f"{operation} is in {told}, not in {states}")

    def web_process(self):
        """Return the id of the process that serves the pages, the product's own; None while there is none."""
        for place in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if place.name.isdigit() and b"console.asgi" in (place / "cmdline").read_bytes() and self._is_of(place):
                    return int(place.name)
        return None

    def _is_of(self, place):
        parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
        return parent == self._process.pid or (parent > 1 and self._is_of(Path("/proc") / str(parent)))

    def end(self):
        """Stop everything, as Ctrl-C would."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        finally:
            self._process.kill()
            self._reader.join(5)


_MAKE = """
from django.contrib.auth.models import Group, User
from django.utils import timezone

from operations import ledger
person = User.objects.create_user({name!r}, password={password!r})
person.groups.add(Group.objects.get(name={role!r}))
note = ledger.Note(by="tests", reason="", now=timezone.now())
ledger.join_team("everybody", member=f"person:{{person.username}}", note=note)
"""


def surroundings(home):
    """The environment without what the tests' own database and settings need."""
    ours = {"DATABASE_URL", "CELERY_BROKER_URL", "LONGCALL_DEBUG", "LONGCALL_HOME", "SECRET_KEY"}
    return {name: value for name, value in os.environ.items() if name not in ours} | {"LONGCALL_HOME": str(home)}


@pytest.fixture(scope="session")
def product():
    """Start the product in a folder of its own, and stop it."""
    home = Path(tempfile.mkdtemp(prefix="longcall-product-"))
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        running = Product(home)
        stack.callback(running.end)
        yield running


@pytest.fixture
def visit(browser, product):
    """Open a browser of its own for a person, signed in, at a page; without a console it would rather not show."""
    contexts, complaints = [], []

    def open_for(name, path="/", *, may_complain=False, **how):
        context = browser.new_context(base_url=product.url, **how)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        if not may_complain:
            page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
            page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"/login/?next={path}")
        page.fill("[name=username]", name)
        page.fill("[name=password]", product.people[name])
        page.click("main .btn.pri")
        page.wait_for_url(f"**{path}")
        return page

    yield open_for

    for context in contexts:
        context.close()
    assert [text for text in complaints if not ANSWERS.search(text)] == []


def barriers(page):
    """What stands in the way of somebody with other senses or other hands: the rules of axe that a page breaks."""
    found = Axe().run(page).response["violations"]
    return [f"{rule['id']}: {rule['nodes'][0]['html'][:150]}" for rule in found]
