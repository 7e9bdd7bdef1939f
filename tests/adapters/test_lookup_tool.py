"""A server's own tool that looks our key up: what its answers prove, and what they do not (L4, X2)."""

from dataclasses import replace

import pytest

from adapters import mcp_shapes
from adapters.contract import Absent, AdapterError, Call, Endpoint, Handle, Lookup, Working
from adapters.http import Connections
from adapters.mcp_2025_11_25 import Mcp20251125
from adapters.mcp_2026_07_28 import Mcp20260728
from adapters.simulator import demo
from adapters.simulator.core import ToolServer
from adapters.simulator.face import ToolServersApp
from adapters.simulator.modern import ModernToolServer
from adapters.simulator.scenario import Fault, FaultKind, Scenario
from tests.adapters.inprocess import InProcessTransport
from tests.adapters.scripted import NOON, open_gate

TOOL = "find_call"
CALL = Call(
    submission_key="k-1",
    tool="quarterly_report",
    arguments=b'{"quarter": "2026-Q3"}',
    ttl_ms=3_600_000,
    lookup_tool=TOOL,
)


def said(structured, **beside):
    return {"content": [], "structuredContent": structured, **beside}


class TestWhatAnAnswerProves:
    @pytest.mark.parametrize("beside", [{}, {"resultType": "complete"}, {"isError": False}])
    def test_a_plain_no_is_absence(self, beside):
        assert mcp_shapes.read_lookup(said({"found": False}, **beside)) is None

    def test_a_yes_names_the_task(self):
        assert mcp_shapes.read_lookup(said({"found": True, "taskId": "t-1", "since": "noon"})) == "t-1"

    @pytest.mark.parametrize(
        "answer",
        [
            None,
            [],
            {"content": [{"type": "text", "text": '{"found": false}'}]},
            said({}),
            said({"found": None}),
            said({"found": 0}),
            said({"found": "false"}),
            said({"found": False, "taskId": "t-1"}),
            said({"found": True}),
            said({"found": True, "taskId": ""}),
            said({"found": True, "taskId": 7}),
            said({"found": True, "taskId": "nul \x00"}),
            said({"found": False}, isError=True),
            said({"found": False}, isError="false"),
            said({"found": False}, resultType="task"),
            said({"found": False}, resultType="input_required"),
            {"task": {"taskId": "t-1", "status": "working"}},
        ],
    )
    def test_x2_everything_else_proves_nothing(self, answer):
        with pytest.raises(AdapterError):
            mcp_shapes.read_lookup(answer)


@pytest.fixture(params=[(Mcp20251125, ToolServer), (Mcp20260728, ModernToolServer)], ids=["2025", "2026"])
def talk(request):
    """Talk to a server of each contract: `talk(*faults, **character)` gives adapter, wire, handle and server."""
    adapter_class, server_class = request.param

    async def open_(*faults, **character):
        character = {"lookup_tool": TOOL, "faults": faults} | character
        scenario = Scenario(tools=(demo.QUARTERLY_REPORT,), **character)
        server = server_class(scenario, clock=lambda: 1_000_000.0)
        app = ToolServersApp({"/mcp": server})
        connections = Connections(transport_for=lambda _endpoint: InProcessTransport(app))
        wire = connections.wire(Endpoint(url="http://sim.test/mcp"), gate=open_gate, clock=lambda: NOON)
        adapter = adapter_class()
        return adapter, wire, Handle(session=(await adapter.open(wire)).session), server

    return open_


@pytest.mark.asyncio
async def test_a_call_that_arrived_is_found_with_its_status(talk):
    adapter, wire, handle, server = await talk()
    created = await adapter.submit(wire, handle, CALL)

    found = await adapter.find(wire, handle, CALL, Lookup.LOOKUP_TOOL)

    assert isinstance(found, Working)
    assert found.task.task_id == created.task.task_id
    assert len(server.truth.created) == 1, "a lookup makes nothing"
    assert len(found.exchanges) >= len(["the tool", "the look"])


@pytest.mark.asyncio
async def test_a_call_that_never_arrived_is_absent_by_its_key(talk):
    adapter, wire, handle, _ = await talk()
    await adapter.submit(wire, handle, CALL)

    found = await adapter.find(wire, handle, replace(CALL, submission_key="k-2"), Lookup.LOOKUP_TOOL)

    assert isinstance(found, Absent)
    assert found.by_key


@pytest.mark.asyncio
async def test_x1_a_task_that_is_gone_is_not_absence_by_key(talk):
    adapter, wire, handle, server = await talk()
    await adapter.submit(wire, handle, CALL)
    server._tasks.clear()

    found = await adapter.find(wire, handle, CALL, Lookup.LOOKUP_TOOL)

    assert isinstance(found, Absent)
    assert not found.by_key


@pytest.mark.parametrize("fault", [FaultKind.RPC_ERROR, FaultKind.ANSWER_LOST, FaultKind.HTTP_STATUS])
@pytest.mark.asyncio
async def test_x2_a_lookup_that_fails_is_an_error_and_never_absence(talk, fault):
    adapter, wire, handle, _ = await talk(Fault(on="tools/call", kind=fault))

    with pytest.raises(AdapterError):
        await adapter.find(wire, handle, CALL, Lookup.LOOKUP_TOOL)
