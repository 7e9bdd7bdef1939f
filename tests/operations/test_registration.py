"""Registering a server, and what it turns out to be (N1, N2)."""

import json
import random
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from adapters.http import Connections
from adapters.simulator import demo
from adapters.simulator.core import ToolServer
from adapters.simulator.face import ToolServersApp
from adapters.simulator.scenario import Fault, FaultKind, Scenario
from operations import ledger, registration
from operations.ledger import NewServer, ToolPolicy
from operations.queries import servers as reads
from operations.registration import CannotDescribe, CannotNegotiate, CannotRegister
from tests.adapters.inprocess import InProcessTransport

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
FAST = 100_000.0


class Peer:
    """A simulated server at the other end, with what it was sent."""

    def __init__(self, *tools, **knobs):
        self.server = ToolServer(Scenario(tools=tools, **knobs), clock=time.time, chance=random.Random(1))
        self.heard = []

    def connections(self):
        return Connections(transport_for=lambda _endpoint: _Listening(self))


class _Listening(InProcessTransport):
    def __init__(self, peer):
        super().__init__(ToolServersApp({"/mcp": peer.server}))
        self._heard = peer.heard

    async def handle_async_request(self, request):
        self._heard.append(request)
        return await super().handle_async_request(request)


def register(**changes):
    profile = {"slug": "sim", "title": "Sim", "url": "http://127.0.0.1:9/mcp", "protocol": "2025-11-25"}
    registration.register(NewServer(**(profile | {"max_qps": FAST} | changes)))


def negotiate(peer, *, environ=(), clock=lambda: NOON):
    return registration.negotiate("sim", clock=clock, environ=dict(environ), connections_for=peer.connections)


class TestNegotiate:
    def test_the_tools_of_a_server_appear_from_negotiation(self):
        register()
        assert reads.tools_of("sim") == ()

        outlook = negotiate(Peer(demo.QUARTERLY_REPORT, demo.LOG_ANALYSIS))

        assert [tool.name for tool in reads.tools_of("sim")] == ["log_analysis", "quarterly_report"]
        assert outlook.creates_tasks
        assert (outlook.protocol_version, outlook.stability) == ("2025-11-25", "EXPERIMENTAL")
        [server] = reads.servers()
        assert server.negotiated_at == NOON

    def test_no_work_is_started(self):
        register()
        peer = Peer(demo.QUARTERLY_REPORT)

        negotiate(peer)

        assert peer.server.truth.created == []
        assert not any(b"tools/call" in request.content for request in peer.heard)

    def test_every_page_of_tools_is_read(self):
        register()

        negotiate(Peer(demo.QUARTERLY_REPORT, demo.LOG_ANALYSIS, demo.FLAKY_EXPORT, tools_per_page=1))

        assert len(reads.tools_of("sim")) == 3

    def test_a_tool_that_changed_becomes_a_new_version_and_the_old_one_stays(self):
        register()
        negotiate(Peer(demo.QUARTERLY_REPORT))
        [before] = reads.tools_of("sim")
        changed = replace(demo.QUARTERLY_REPORT, title="Another report")

        negotiate(Peer(changed))

        [after] = reads.tools_of("sim")
        assert after.version != before.version
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM tool_descriptor WHERE name = 'quarterly_report'")
            assert cursor.fetchone() == (2,)

    def test_what_was_decided_about_a_tool_survives_another_negotiation(self):
        register()
        peer = Peer(demo.QUARTERLY_REPORT)
        negotiate(peer)
        ledger.set_policy("sim", "quarterly_report", ToolPolicy(effect="NONE", sync_limit_s=20))

        negotiate(peer)

        [tool] = reads.tools_of("sim")
        assert (tool.effect, tool.sync_limit_s) == ("NONE", 20)

    def test_every_request_takes_a_send_slot(self):
        """P2: negotiation counts like every other request."""
        register(max_qps=50)
        peer = Peer(demo.QUARTERLY_REPORT)
        began = time.monotonic()

        negotiate(peer, clock=lambda: datetime.now(UTC))

        assert len(peer.heard) >= 3
        assert time.monotonic() - began >= (len(peer.heard) - 1) / 50

    def test_the_credential_is_sent_and_kept_nowhere(self):
        register(credential_ref="SIM_AUTH")
        peer = Peer(demo.QUARTERLY_REPORT)

        negotiate(peer, environ={"SIM_AUTH": "Bearer hunter2-hunter2"})

        assert {request.headers["authorization"] for request in peer.heard} == {"Bearer hunter2-hunter2"}
        with connection.cursor() as cursor:
            cursor.execute("SELECT row_to_json(s)::text FROM server s")
            assert "hunter2" not in cursor.fetchone()[0]

    def test_without_its_credential_nothing_is_sent(self):
        register(credential_ref="SIM_AUTH")
        peer = Peer(demo.QUARTERLY_REPORT)

        with pytest.raises(CannotNegotiate, match="SIM_AUTH is not set"):
            negotiate(peer)

        assert peer.heard == []

    @pytest.mark.parametrize(
        "fault, reason, advice",
        [
            (Fault(on="initialize", kind=FaultKind.HTTP_STATUS, status=401), "HTTP 401", "credential"),
            (Fault(on="initialize", kind=FaultKind.HTTP_STATUS, status=503), "HTTP 503", "protocol version"),
            (Fault(on="initialize", kind=FaultKind.HTTP_STATUS, status=429), "HTTP 429", "QPS"),
            (Fault(on="tools/list", kind=FaultKind.ANSWER_LOST), "hung up|broke", "network"),
        ],
    )
    def test_a_server_that_brings_nothing_leaves_what_was_known(self, fault, reason, advice):
        register()
        negotiate(Peer(demo.QUARTERLY_REPORT))

        with pytest.raises(CannotNegotiate, match=reason) as caught:
            negotiate(Peer(demo.LOG_ANALYSIS, faults=(fault,)), clock=lambda: NOON + timedelta(hours=1))

        assert advice in caught.value.advice
        assert [tool.name for tool in reads.tools_of("sim")] == ["quarterly_report"]
        assert reads.servers()[0].negotiated_at == NOON

    def test_an_unregistered_server_is_not_asked(self):
        with pytest.raises(ledger.NoSuchServer):
            negotiate(Peer())


class TestOutlook:
    """N2: what a call of each tool will be, told before there is one."""

    def outlook(self, tool, *, limit_s=None, **knobs):
        register()
        peer = Peer(tool, **knobs)
        negotiate(peer)
        if limit_s:
            ledger.set_policy("sim", tool.name, ToolPolicy(sync_limit_s=limit_s))
        [found] = negotiate(peer).tools
        return found

    def test_a_tool_with_task_support_runs_as_a_task(self):
        found = self.outlook(demo.QUARTERLY_REPORT)

        assert found.callable
        assert found.what_happens.startswith("runs as a task")

    def test_a_server_without_tasks_cannot_run_a_tool_that_wants_one(self):
        found = self.outlook(_tool("required"), declares_tasks=False)

        assert not found.callable
        assert "wants a task" in found.what_happens

    def test_a_server_without_tasks_is_not_assumed_to_have_them(self):
        found = self.outlook(_tool("optional"), declares_tasks=False)

        assert not found.callable
        assert "the server does not offer tasks" in found.what_happens

    def test_a_tool_without_task_support_is_refused(self):
        found = self.outlook(_tool("forbidden"))

        assert not found.callable
        assert "this tool does not offer tasks" in found.what_happens

    def test_a_tool_without_task_support_runs_under_its_published_limit(self):
        found = self.outlook(_tool("forbidden"), limit_s=25)

        assert found.callable
        assert "25 s" in found.what_happens


def _tool(task_support):
    return replace(demo.QUARTERLY_REPORT, task_support=task_support)


class TestTryConnection:
    def test_it_says_the_same_and_keeps_nothing(self):
        register()
        peer = Peer(demo.QUARTERLY_REPORT)

        outlook = registration.try_connection("sim", clock=lambda: NOON, environ={}, connections_for=peer.connections)

        assert [tool.tool for tool in outlook.tools] == ["quarterly_report"]
        assert reads.tools_of("sim") == ()
        assert reads.servers()[0].negotiated_at is None

    def test_a_private_address_is_not_reached_unless_it_is_allowed(self):
        register(url="http://127.0.0.1:9/mcp", allow_private=False)

        with pytest.raises(CannotNegotiate, match="address is forbidden"):
            registration.try_connection("sim", clock=lambda: NOON, environ={})


class TestRegister:
    @pytest.mark.parametrize(
        "changes, words",
        [
            ({"protocol": "2024-11-05"}, "no adapter speaks"),
            ({"url": "ftp://example.org/mcp"}, "ftp://example.org"),
            ({"url": "http://ann:secret@example.org/mcp"}, "example.org"),
            ({"lookup": "guess"}, "no kind of lookup"),
            ({"max_qps": 0}, "max QPS"),
        ],
    )
    def test_a_profile_that_cannot_work_is_refused_and_not_stored(self, changes, words):
        with pytest.raises(CannotRegister, match=words):
            register(**changes)

        assert reads.servers() == ()

    def test_registering_again_changes_the_profile_and_keeps_the_tools(self):
        register()
        negotiate(Peer(demo.QUARTERLY_REPORT))

        register(max_qps=2.0)

        [server] = reads.servers()
        assert server.max_qps == 2.0
        assert [tool.name for tool in server.tools] == ["quarterly_report"]


ARCHIVE = {
    "name": "archive",
    "version": "2",
    "cancel": True,
    "tools": [{"name": "years:archive", "title": "Archive", "outputSchema": {"type": "object"}}],
}


class TestDescribe:
    """AIP-151 has no tools/list, and not every such server can publish a document of its own."""

    def described(self, document, **named):
        return registration.describe("sim", json.dumps(document).encode(), clock=lambda: NOON, **named)

    def test_its_tools_appear_without_a_request(self):
        register(protocol="aip-151")

        outlook = self.described(ARCHIVE)

        assert [tool.name for tool in reads.tools_of("sim")] == ["years:archive"]
        assert (outlook.server_name, outlook.cancels_tasks, outlook.lists_tasks) == ("archive", True, False)
        assert outlook.tools[0].callable

    def test_a_tool_that_is_described_anew_has_a_new_version_and_keeps_its_policy(self):
        """L1."""
        register(protocol="aip-151")
        self.described(ARCHIVE)
        ledger.set_policy("sim", "years:archive", ToolPolicy(expected_s=7))
        [before] = reads.tools_of("sim")

        self.described({"tools": [ARCHIVE["tools"][0] | {"title": "Archive a year"}]})

        [after] = reads.tools_of("sim")
        assert after.version != before.version
        assert (after.title, after.expected_s) == ("Archive a year", 7)

    @pytest.mark.parametrize(
        "schema, words",
        [
            ({"type": "objekt"}, "years:archive: outputSchema: the schema cannot be used"),
            ({"$ref": "https://example.org/schema"}, "years:archive: outputSchema: the schema cannot be used"),
        ],
    )
    def test_a_schema_that_nothing_can_be_held_against_is_refused_before_anything_is_stored(self, schema, words):
        """R2: otherwise every result of the tool would go to a person."""
        register(protocol="aip-151")

        with pytest.raises(CannotDescribe, match=words):
            self.described({"tools": [{"name": "years:archive", "outputSchema": schema}]})

        assert reads.tools_of("sim") == ()

    @pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
    def test_a_server_that_describes_itself_is_asked_instead(self, version):
        register(protocol=version)

        assert not registration.takes_tools(version)
        with pytest.raises(CannotDescribe, match="describe their tools themselves"):
            self.described(ARCHIVE)


class TestLookup:
    @pytest.mark.parametrize(
        "profile, words",
        [
            ({"lookup": "guess"}, "no kind of lookup"),
            ({"lookup": "list_by_key"}, "it has: lookup_tool, none, session_list"),
            ({"lookup": "session_list", "protocol": "2026-07-28"}, "it has: lookup_tool, none"),
            ({"lookup": "lookup_tool", "protocol": "aip-151", "lookup_tool": "x"}, "it has: list_by_key, none"),
            ({"lookup": "lookup_tool"}, "the name of the tool"),
            ({"lookup": "session_list", "lookup_tool": "find_call"}, "and no other"),
            ({"lookup": "same_key_replay", "protocol": "aip-151"}, "how long"),
        ],
    )
    def test_l4_one_that_cannot_work_is_refused_with_what_there_is(self, profile, words):
        with pytest.raises(CannotRegister, match=words):
            register(**profile)

        assert reads.server("sim") is None

    def test_a_lookup_tool_is_kept_with_the_profile(self):
        register(lookup="lookup_tool", lookup_tool="find_call")

        assert reads.server("sim").lookup_tool == "find_call"

    def test_it_is_said_when_the_server_describes_no_such_tool(self):
        register(lookup="lookup_tool", lookup_tool="find_call")

        told = [negotiate(Peer(demo.QUARTERLY_REPORT, lookup_tool=name)).lookup_problem for name in ("", "find_call")]

        assert "describes no tool" in told[0]
        assert told[1] == ""

    def test_it_is_said_when_the_tool_does_not_call_itself_read_only(self):
        register(lookup="lookup_tool", lookup_tool="quarterly_report")

        assert "readOnlyHint" in negotiate(Peer(demo.QUARTERLY_REPORT)).lookup_problem

    def test_l4_another_tool_has_proved_nothing_yet(self):
        register(lookup="lookup_tool", lookup_tool="find_call")
        ledger.lookup_proved("sim", now=NOON)

        register(lookup="lookup_tool", lookup_tool="find_other")

        assert reads.server("sim").lookup_proved_at is None
