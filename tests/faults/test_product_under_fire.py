"""The whole product while its processes are killed: never two receipts, never a second remote task."""

import contextlib
import json
import os
import shutil
import signal
import tempfile
import time
import urllib.request
import uuid
from pathlib import Path

import pytest

from tests.browser.conftest import Product

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("product-faults")]
SOON = 120.0  # seconds; only a test that fails ever waits that long
AWAY = 20  # seconds: many looks would have been due
QUARTER = {"quarter": "2026-Q3"}


@pytest.fixture(scope="module")
def burning():
    """An installation of its own: the others should not notice."""
    home = Path(tempfile.mkdtemp(prefix="longcall-fire-"))
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        running = Product(home, speed=3)
        stack.callback(running.end)
        yield running


def processes(home, *words):
    """Pids of the installation's processes whose command line holds all the words."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                ours = str(home) in line or str(home) in (entry / "environ").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if ours and all(word in line for word in words):
                found.append(int(entry.name))
    return found


def postmaster(home):
    """The pid of the installation's PostgreSQL; None while there is none."""
    try:
        return int((home / "servers" / "postgres" / "postmaster.pid").read_text().split()[0])
    except (FileNotFoundError, IndexError):
        return None


def soon(holds, seconds=SOON):
    deadline = time.monotonic() + seconds
    while not (value := holds()) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert value, "it did not happen in time"
    return value


def truth(product, server):
    """What the simulated server knows to have really happened."""
    with urllib.request.urlopen(f"{product.demo_url}/truth", timeout=10) as answer:
        return json.load(answer)[f"/{server}/mcp"]


def last_arrival(product, server):
    """When the server was last asked anything, by its own clock."""
    return max((arrival["at"] for arrival in truth(product, server)["arrivals"]), default=0)


def kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def settled(product, operations):
    """Wait until every operation has its receipt; return them."""
    receipts = []
    for operation in operations:
        product.reached(operation, "ACCEPTED", seconds=300)
        _status, receipt = product.api(f"operations/{operation}/receipt")
        receipts.append(receipt["id"])
    assert len(set(receipts)) == len(operations)
    return receipts


def reports(product, count):
    return [product.submit("reports", "quarterly_report", QUARTER, node=f"fire-{uuid.uuid4()}") for _ in range(count)]


def test_a_worker_killed_in_the_middle(burning):
    """B214: the lease ends, the worker that takes its place goes on; each call has one task and one receipt."""
    operations = []
    for _ in range(3):
        before = last_arrival(burning, "reports")
        operations += reports(burning, 2)
        soon(lambda seen=before: last_arrival(burning, "reports") > seen)
        for pid in processes(burning.home, "worker"):
            kill(pid)
    [last] = reports(burning, 1)

    told = [burning.reached(operation, "ACCEPTED", "UNKNOWN", seconds=300) for operation in operations]
    settled(burning, [last, *(call["id"] for call in told if call["state"] == "ACCEPTED")])
    assert {call["reason"] for call in told if call["state"] == "UNKNOWN"} <= {"SUBMIT_LOST"}
    keys = [created["submission_key"] for created in truth(burning, "reports")["created"]]
    assert len(keys) == len(set(keys))


def test_postgresql_restarted_in_the_middle(burning):
    """B223: everybody recovers by himself; no state changes because of it."""
    operations = reports(burning, 3)
    for operation in operations:
        burning.reached(operation, "WORKING")

    old = postmaster(burning.home)
    os.kill(old, signal.SIGINT)

    soon(lambda: postmaster(burning.home) not in {None, old})
    settled(burning, operations)


def test_the_broker_stopped_for_a_while(burning):
    """B217: a broker that is away delays and loses nothing."""
    operations = reports(burning, 2)
    broker = soon(lambda: processes(burning.home, "valkey-server", "unixsocket:"))[0]
    os.kill(broker, signal.SIGSTOP)
    try:
        time.sleep(AWAY)
        waiting = burning.api(f"operations/{operations[0]}")[0]
    finally:
        os.kill(broker, signal.SIGCONT)

    assert waiting == 200
    settled(burning, operations)
