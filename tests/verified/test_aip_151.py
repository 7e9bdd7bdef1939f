"""AIP-151 against what others made of it.

Our simulated server is judged by Google's own client, PyPI `google-api-core` 2.44.0. Our adapter is tried on Google's
own server of 2018, npm `@google-cloud/functions-emulator` 1.0.0-beta.6, the only independent one that serves operations
over HTTP and JSON. Where this peer leaves the contract, the test says so.
"""

import contextlib
import json
import random
import subprocess
import threading
import time

import pytest
import uvicorn

from adapters import registry
from adapters.contract import (
    Ended,
)
from adapters.simulator import aip151, aip151_face
from adapters.simulator.aip151_scenario import CancelStyle, Fault, FaultKind, Scenario
from adapters.simulator.scripts import Finish, Tool, Work
from tests.verified import cast, promises
from tests.verified.peers import installation
from tests.verified.peers.running import free_port

pytestmark = pytest.mark.verified

ADAPTER = registry.adapter("aip-151", "r1")
PLACE = "projects/p/locations/l"
PATIENCE = 20.0  # seconds for an operation to get somewhere


# Google's client on our server --------------------------------------------------------------------


def _job(arguments):
    yield Work(seconds=1, message="counting")
    return Finish(text="done", structured={"answer": 42})


def _sorry(arguments):
    yield Work(seconds=0)
    return Finish(text="no rows", is_error=True)


def _server(*faults, seconds=1.0, **character):
    tools = tuple(
        Tool(name=f"{PLACE}/{name}:run", title="", description="", script=script, input_schema={})
        for name, script in (("jobs", _job), ("sorry", _sorry))
    )
    scenario = Scenario(tools=tools, faults=faults, speed=1 / seconds, cancel_after_s=0.2, **character)
    return aip151.OperationsServer(scenario, clock=time.time, chance=random.Random())


@contextlib.contextmanager
def _serving(app):
    """Serve on a free port of this machine, from a thread of its own."""
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        deadline = time.monotonic() + PATIENCE
        while not server.started:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE)


@pytest.fixture(scope="module")
def verdicts():
    """What google-api-core made of each of our servers."""
    unavailable = Fault(on="get", kind=FaultKind.API_ERROR, code=14, retry_after="1", times=2)
    servers = {
        "good": _server(seconds=0.3),
        "slow": _server(seconds=60),
        "ignores": _server(cancel=CancelStyle.IGNORES),
        "refuses": _server(seconds=60, cancel=CancelStyle.REFUSES),
        "many": _server(seconds=60),
        "busy": _server(unavailable, seconds=60),
        "gateway": _server(seconds=0.3, writes_defaults=True),
    }
    python = installation.python_peer("api-core-2.44", "api_core_244.txt")
    with _serving(aip151_face.OperationsApp({f"/{name}/v1": server for name, server in servers.items()})) as url:
        command = [str(python), installation.script("api_core_244.py"), url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


class TestOurServer:
    @pytest.mark.parametrize("case", ["result", "gateway"])
    def test_a_result_is_waited_for_and_typed(self, verdicts, case):
        assert verdicts[case] == {"before": False, "result": {"answer": 42.0}, "api": "v1", "cancelled": False}

    def test_a_failure_is_the_exception_of_its_code(self, verdicts):
        assert verdicts["failure"]["error"] == "FailedPrecondition"
        assert "no rows" in verdicts["failure"]["message"]

    def test_c5_a_cancel_is_accepted_first_and_wins_later(self, verdicts):
        assert verdicts["cancel"] == {"accepted": True, "at_once": False, "ended": "Cancelled 499", "cancelled": True}

    def test_c5_an_accepted_cancel_may_lose(self, verdicts):
        assert verdicts["lost cancel"] == {
            "accepted": True,
            "at_once": False,
            "ended": {"answer": 42.0},
            "cancelled": False,
        }

    def test_c3_a_cancel_after_the_end_changes_nothing(self, verdicts):
        assert verdicts["late cancel"] == {"answer": 42.0}

    def test_b139_a_refused_cancel_is_unimplemented(self, verdicts):
        assert verdicts["refused cancel"] == {
            "error": "MethodNotImplemented",
            "code": 501,
            "domain": "simulator.longcall.dev",
        }

    def test_an_unknown_name_is_not_found_and_says_why(self, verdicts):
        assert verdicts["unknown"] == {
            "error": "NotFound",
            "reason": "SIMULATED_NOT_FOUND",
            "domain": "simulator.longcall.dev",
        }

    def test_a_deleted_operation_is_not_found(self, verdicts):
        assert verdicts["deleted"] == {"error": "NotFound"}

    def test_pages_are_followed_to_their_end(self, verdicts):
        assert verdicts["list"] == {"pages": [2, 2, 1], "same": True}

    def test_the_same_request_id_is_the_same_operation(self, verdicts):
        assert verdicts["replay"] == {"same": True}

    def test_an_unavailable_server_is_asked_again(self, verdicts):
        assert verdicts["busy"] == {"name": True, "in_time": True}


# Our adapter on Google's server -------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.asyncio
@pytest.mark.parametrize(
    "kind, anomalies, message",
    [
        ("work", ("the response does not name its type",), ""),  # deviates: `typeUrl` where JSON wants `@type`
        ("crash", (), "INTERNAL: "),
    ],
)
async def test_an_old_server_of_google_is_read_to_the_end(peers, kind, anomalies, message):
    """B136, R2: what the promises suite does not show of it."""
    emulator = cast.peer("functions-emulator")
    place = emulator.place(lambda: peers, alone=False)
    async with place.wire() as wire:
        talk = promises.Talk(emulator, place, wire)
        await talk.submit(talk.call(kind))
        ended = await talk.until(Ended)

    assert talk.handle.task_id.startswith("operations/")
    assert ended.task.anomalies == anomalies
    assert ended.task.message.startswith(message)
