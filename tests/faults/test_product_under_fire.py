"""The whole product while its processes are killed: never two receipts, never a second remote task."""

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
SOON = 40.0  # seconds
QUARTER = {"quarter": "2026-Q3"}


@pytest.fixture(scope="module")
def burning():
    """An installation of its own: the others should not notice."""
    home = Path(tempfile.mkdtemp(prefix="longcall-fire-"))
    running = Product(home, speed=3)
    yield running
    running.end()
    shutil.rmtree(home, ignore_errors=True)


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


def settled(product, operations, seconds=150):
    """Wait until every operation has its receipt; return them."""
    receipts = []
    for operation in operations:
        product.reached(operation, "ACCEPTED", seconds=seconds)
        _status, receipt = product.api(f"operations/{operation}/receipt")
        receipts.append(receipt["id"])
    assert len(set(receipts)) == len(operations)
    return receipts


def reports(product, count):
    return [product.submit("reports", "quarterly_report", QUARTER, node=f"fire-{uuid.uuid4()}") for _ in range(count)]


def test_a_worker_killed_in_the_middle(burning):
    """B214: the lease ends, the worker that takes its place goes on; each call has one task and one receipt."""
    operations = reports(burning, 4)
    for _ in range(3):
        for pid in processes(burning.home, "worker"):
            os.kill(pid, signal.SIGKILL)
        time.sleep(4)

    told = [burning.api(f"operations/{operation}")[1] for operation in operations]

    lost = [call for call in told if call["state"] in {"SUBMISSION_UNKNOWN", "UNKNOWN"}]
    settled(burning, [call["id"] for call in told if call not in lost])
    keys = [created["submission_key"] for created in truth(burning, "reports")["created"]]
    assert len(keys) == len(set(keys))
    assert all(call["reason"] for call in lost)


def test_postgresql_restarted_in_the_middle(burning):
    """B223: everybody recovers by himself; no state changes because of it."""
    operations = reports(burning, 3)
    for operation in operations:
        burning.reached(operation, "WORKING")

    postmaster = int((soon(lambda: list(Path(burning.home).rglob("postmaster.pid")))[0]).read_text().split()[0])
    os.kill(postmaster, signal.SIGINT)

    settled(burning, operations)


def test_the_broker_stopped_for_a_while(burning):
    """B217: a broker that is away delays and loses nothing."""
    operations = reports(burning, 2)
    broker = soon(lambda: processes(burning.home, "valkey-server", "unixsocket:"))[0]
    os.kill(broker, signal.SIGSTOP)
    try:
        time.sleep(20)
        waiting = burning.api(f"operations/{operations[0]}")[0]
    finally:
        os.kill(broker, signal.SIGCONT)

    assert waiting == 200
    settled(burning, operations)
