"""AIP-151 against what others made of it.

Our simulated server is judged by Google's own client, PyPI `google-api-core` 2.44.0. Our adapter is tried on Google's
own server of 2018, npm `@google-cloud/functions-emulator` 1.0.0-beta.6, the only independent one that serves operations
over HTTP and JSON. Where this peer leaves the contract, the test says so.
"""

import asyncio
import contextlib
import json
import os
import random
import subprocess
import threading
import time
import uuid

import pytest
import uvicorn

from adapters import registry
from adapters.contract import (
    Absent,
    BrokenPeer,
    Call,
    Ended,
    Handle,
    Lookup,
    MaybeSent,
    ProtocolStatus,
    Refused,
    ToolResult,
    Working,
)
from adapters.simulator import aip151, aip151_face
from adapters.simulator.aip151_scenario import CancelStyle, Fault, FaultKind, Scenario
from adapters.simulator.scripts import Finish, Tool, Work
from tests.verified.peers import installation
from tests.verified.peers.running import free_port, running
from tests.verified.talk import losing_answers, wired

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

FUNCTIONS = f"{PLACE}/functions"


class Emulator:
    """The emulator with its own home, which outlives a restart of it."""

    def __init__(self, home):
        self.home = home
        self.source = home / "source"
        self.source.mkdir()
        (self.source / "index.js").write_text("exports.report = (request, response) => response.send('done');")
        config = home / "config" / "configstore" / "@google-cloud" / "functions-emulator"
        config.mkdir(parents=True)
        (config / "config.json").write_text('{"projectId": "p"}')

    @contextlib.contextmanager
    def running(self):
        port, supervisor = free_port(), free_port()
        package = installation.node_peer("functions-emulator", "@google-cloud/functions-emulator@1.0.0-beta.6")
        program = package / "node_modules/@google-cloud/functions-emulator/bin/emulator"
        home = [f"HOME={self.home}", f"XDG_CONFIG_HOME={self.home / 'config'}"]
        options = ["--bindHost", "127.0.0.1", "--host", "127.0.0.1", "--logFile", str(self.home / "emulator.log")]
        ports = ["--restPort", str(port), "--supervisorPort", str(supervisor)]
        with running("functions-emulator", ["env", *home, "node", str(program), *options, *ports], port=port) as url:
            yield url.removesuffix("/mcp") + "/v1"

    def call(self, name, *, source=None):
        """A call that deploys the function `name`: `report` is there, any other is not."""
        body = {
            "name": f"{FUNCTIONS}/{name}",
            "httpsTrigger": {},
            "sourceUploadUrl": f"http://127.0.0.1/?localdir={source or self.source}",
        }
        return Call(submission_key=str(uuid.uuid4()), tool=FUNCTIONS, arguments=json.dumps(body).encode(), ttl_ms=None)


@pytest.fixture(scope="module")
def emulator(tmp_path_factory):
    """The emulator's home; start it with `emulator.running()`."""
    if not installation.has_npm():
        if os.environ.get("CI") == "true":
            pytest.fail("this run must be whole, and there is no npm")
        pytest.skip("no npm here: apt-get install npm")
    return Emulator(tmp_path_factory.mktemp("emulator"))


@pytest.fixture(scope="module")
def emulator_url(emulator):
    with emulator.running() as url:
        yield url


async def begin(wire, call):
    seen = await ADAPTER.submit(wire, Handle(), call)
    assert isinstance(seen, Working), seen
    return Handle(task_id=seen.task.task_id)


async def look_until_ended(wire, handle):
    deadline = time.monotonic() + PATIENCE
    while True:
        seen = await ADAPTER.look(wire, handle, expect_question=False)
        if isinstance(seen, Ended):
            return seen
        assert time.monotonic() < deadline, seen
        await asyncio.sleep(0.25)


@pytest.mark.long
@pytest.mark.asyncio
class TestOurAdapter:
    async def test_an_operation_from_submit_to_result(self, emulator, emulator_url):
        """Deviates: `typeUrl` where JSON wants `@type`, in metadata and response."""
        async with wired(emulator_url) as wire:
            handle = await begin(wire, emulator.call("report"))
            during = await ADAPTER.look(wire, handle, expect_question=False)
            ended = await look_until_ended(wire, handle)
            result = await ADAPTER.fetch(wire, handle, ended.status)

        assert handle.task_id.startswith("operations/")
        assert isinstance(during, Working)
        assert ended.status is ProtocolStatus.COMPLETED
        assert ended.task.anomalies == ("the response does not name its type",)
        assert isinstance(result, ToolResult)
        assert result.value["value"]["status"] == "READY"

    async def test_a_failure_has_its_code(self, emulator, emulator_url):
        """R2."""
        async with wired(emulator_url) as wire:
            ended = await look_until_ended(wire, await begin(wire, emulator.call("missing")))

        assert ended.status is ProtocolStatus.FAILED
        assert ended.task.message.startswith("INTERNAL: ")
        assert ended.result.is_error

    async def test_an_unknown_operation_is_absent(self, emulator_url):
        """X1."""
        async with wired(emulator_url) as wire:
            seen = await ADAPTER.look(wire, Handle(task_id=f"operations/{uuid.uuid4()}"), expect_question=False)

        assert isinstance(seen, Absent)
        assert seen.message.endswith("does not exist")

    async def test_cancel_list_and_tools_are_not_there_and_prove_nothing(self, emulator, emulator_url):
        """Deviates: 500 and an empty body for every path it does not know."""
        call = emulator.call("cancelled")
        async with wired(emulator_url) as wire:
            handle = await begin(wire, call)
            for refused in (
                ADAPTER.cancel(wire, handle),
                ADAPTER.find(wire, Handle(), call, Lookup.LIST_BY_KEY),
                ADAPTER.negotiate(wire),
            ):
                with pytest.raises(BrokenPeer):
                    await refused
            ended = await look_until_ended(wire, handle)

        assert ended.status is ProtocolStatus.FAILED

    async def test_the_same_request_again_is_not_the_same_operation(self, emulator, emulator_url):
        """N2. Deviates: the request id is ignored, so that this peer can never be of class A."""
        call = emulator.call("twice")
        async with losing_answers(emulator_url) as losing:
            with pytest.raises(MaybeSent):
                await ADAPTER.submit(losing, Handle(), call)
        async with wired(emulator_url) as wire:
            with pytest.raises((Refused, BrokenPeer)):
                await ADAPTER.find(wire, Handle(), call, Lookup.SAME_KEY_REPLAY)

    async def test_a_restarted_server_still_knows_the_operation(self, emulator):
        with emulator.running() as url:
            async with wired(url) as wire:
                handle = await begin(wire, emulator.call("before"))
                await look_until_ended(wire, handle)
        with emulator.running() as url:
            async with wired(url) as wire:
                seen = await ADAPTER.look(wire, handle, expect_question=False)

        assert isinstance(seen, Ended)
        assert seen.status is ProtocolStatus.FAILED
