"""The simulated server of MCP 2026-07-28 is as strict at its door as its contract, and keeps its truth."""

import base64
import json
import random
from typing import Any

import pytest

from adapters.simulator import modern
from adapters.simulator.scenario import CancelStyle, Fault, FaultKind, Scenario
from adapters.simulator.scripts import Ask, Effect, Finish, Tool, Work

VERSION = "2026-07-28"
EXTENSION = "io.modelcontextprotocol/tasks"


def _work(arguments):
    yield Work(seconds=10)
    yield Effect(name="paid")
    return Finish(text="done")


def _ask_twice(arguments):
    words = []
    for number in range(2):
        answer = yield Ask(message=f"question {number}")
        words.append(answer.action)
    return Finish(text=" ".join(words))


def _ask_both(arguments):
    answer = yield Ask(message="a", also=(Ask(message="b"),))
    return Finish(text=f"{answer.action} {answer.others[0].action}")


MARKED = {"properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}


def tool(name, script, support="optional", schema=None):
    return Tool(name=name, title=name, description="", script=script, input_schema=schema or {}, task_support=support)


TOOLS = (tool("work", _work), tool("ask", _ask_twice), tool("both", _ask_both), tool("marked", _work, schema=MARKED))


class Client:
    """Sends messages to one server, with a clock in its hand."""

    def __init__(self, *faults, **character):
        self.now = 1_790_000_000.0
        scenario = Scenario(tools=TOOLS, faults=faults, **character)
        self.server: Any = modern.ModernToolServer(scenario, clock=lambda: self.now, chance=random.Random(1))
        self.truth = self.server.truth

    def send(self, method, *, headers=None, meta=None, with_tasks=True, **params):
        capabilities = {"extensions": {EXTENSION: {}}} if with_tasks else {}
        envelope = {
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientCapabilities": capabilities,
            "dev.longcall/submission-key": "k",
        }
        sent = {"mcp-protocol-version": VERSION, "mcp-method": method}
        named = params.get("name") or params.get("taskId")
        if named:
            sent["mcp-name"] = named
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params | {"_meta": envelope | (meta or {})}}
        sent = {name: value for name, value in (sent | (headers or {})).items() if value is not None}
        return self.server.post(message, sent)

    def result(self, method, **named):
        message = self.send(method, **named).message
        assert message is not None
        return message["result"]

    def refusal(self, method, **named):
        reply = self.send(method, **named)
        assert reply.message is not None
        return reply.status, reply.message["error"]["code"]

    def begin(self, name):
        return self.result("tools/call", name=name, arguments={})["taskId"]

    def look(self, task_id):
        return self.result("tasks/get", taskId=task_id)


class TestDoor:
    @pytest.mark.parametrize(
        "headers, code",
        [
            ({"mcp-protocol-version": None}, -32020),
            ({"mcp-protocol-version": "2025-11-25"}, -32020),
            ({"mcp-method": None}, -32020),
            ({"mcp-method": "tasks/get"}, -32020),
            ({"mcp-name": None}, -32020),
            ({"mcp-name": "other"}, -32020),
            ({"mcp-name": "=?base64?!!?="}, -32020),
            ({"mcp-param-region": "eu"}, None),
        ],
    )
    def test_headers_must_repeat_the_body(self, headers, code):
        client = Client(errors_as_200=True)

        reply = client.send("tools/call", name="work", arguments={}, headers=headers)

        assert (reply.message or {}).get("error", {}).get("code") == code
        assert reply.status == (200 if code is None else 400)
        assert len(client.truth.created) == (code is None)

    @pytest.mark.parametrize(
        "header, passes", [("=?base64?Z3LDtsOfZQ==?=", True), ("eu", False), (None, False), ("=?base64?Z3L?=", False)]
    )
    def test_a_marked_argument_must_come_in_its_header(self, header, passes):
        client = Client()
        headers = {"mcp-param-region": header}

        reply = client.send("tools/call", name="marked", arguments={"region": "größe"}, headers=headers)

        assert reply.status == (200 if passes else 400)
        assert bool(client.truth.created) is passes

    def test_another_version_is_named_with_ours(self):
        client = Client()
        other = {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}

        reply = client.send("tools/list", meta=other, headers={"mcp-protocol-version": "2099-01-01"})

        assert (reply.status, reply.message["error"]["code"]) == (400, -32022)
        assert reply.message["error"]["data"] == {"supported": [VERSION], "requested": "2099-01-01"}

    def test_a_request_without_its_envelope_is_malformed(self):
        no_capabilities = {"io.modelcontextprotocol/clientCapabilities": None}

        assert Client().refusal("tools/list", meta=no_capabilities) == (400, -32602)

    @pytest.mark.parametrize("method", ["tasks/list", "tasks/result", "initialize", "no/such"])
    def test_methods_of_other_contracts_are_not_found(self, method):
        assert Client().refusal(method) == (404, -32601)

    def test_tasks_want_the_extension_with_every_request(self):
        assert Client().refusal("tasks/get", taskId="t", with_tasks=False) == (400, -32021)

    def test_without_the_extension_a_server_has_no_tasks(self):
        client = Client(declares_tasks=False)

        assert client.refusal("tasks/get", taskId="t") == (404, -32601)
        assert "extensions" not in client.result("server/discover")["capabilities"]


class TestTask:
    def test_it_is_flat_and_moves_with_the_clock_only(self):
        client = Client(ttl_ms=60_000)
        task_id = client.begin("work")

        before = client.look(task_id)
        client.now += 10
        after = client.look(task_id)

        assert (before["resultType"], before["status"], before["ttlMs"]) == ("complete", "working", 60_000)
        assert "result" not in before
        assert (after["status"], after["result"]["content"][0]["text"]) == ("completed", "done")

    def test_a_call_of_a_client_without_tasks_runs_at_once(self):
        client = Client()

        reply = client.send("tools/call", name="work", arguments={}, with_tasks=False)
        waits = reply.stream.take()
        client.now += 10
        (answer,) = reply.stream.take()

        assert waits == []
        assert answer["result"]["resultType"] == "complete"
        assert reply.stream.take() == []
        assert client.truth.created[0].task_id is None

    @pytest.mark.parametrize("at_the_end", [False, True])
    def test_a_call_that_is_left_is_cancelled_unless_it_was_answered(self, at_the_end):
        client = Client()
        reply = client.send("tools/call", name="work", arguments={}, with_tasks=False)
        if at_the_end:
            client.now += 10
            reply.stream.take()

        reply.stream.leave()
        client.now += 60
        client.send("server/discover")

        assert bool(client.truth.effects) is at_the_end

    def test_a_lost_connection_cancels_a_call_but_no_task(self):
        faults = [Fault(on="tools/call", kind=FaultKind.ANSWER_LOST, times=2)]
        client = Client(*faults)

        client.send("tools/call", name="work", arguments={}, with_tasks=False)
        client.send("tools/call", name="work", arguments={})
        client.now += 60
        client.send("server/discover")

        assert [made.task_id is None for made in client.truth.created] == [True, False]
        assert [done.task_id is None for done in client.truth.effects] == [False]


class TestQuestions:
    def test_a_part_of_the_answers_leaves_the_other_open(self):
        client = Client()
        task_id = client.begin("both")
        first, second = client.look(task_id)["inputRequests"]

        client.result("tasks/update", taskId=task_id, inputResponses={first: {"action": "accept"}})
        between = client.look(task_id)
        client.result("tasks/update", taskId=task_id, inputResponses={second: {"action": "decline"}})
        after = client.look(task_id)

        assert list(between["inputRequests"]) == [second]
        assert after["result"]["content"][0]["text"] == "accept decline"

    def test_unknown_and_answered_keys_are_ignored_without_a_word(self):
        client = Client()
        task_id = client.begin("ask")
        (key,) = client.look(task_id)["inputRequests"]

        for _ in range(2):
            ack = client.result(
                "tasks/update", taskId=task_id, inputResponses={key: {"action": "accept"}, "x": {"action": "cancel"}}
            )

        assert ack == {"resultType": "complete"}
        assert [answer.used for answer in client.truth.answers] == [True, False, False, False]

    def test_a_malformed_answer_is_refused_and_none_is_used(self):
        client = Client()
        task_id = client.begin("both")
        first, second = client.look(task_id)["inputRequests"]

        answers = {first: {"action": "accept"}, second: {"foo": 1}}

        assert client.refusal("tasks/update", taskId=task_id, inputResponses=answers) == (400, -32602)
        assert client.truth.answers == []

    def test_before_a_task_nothing_is_kept_but_in_the_state(self):
        client = Client(asks_before_task=True)
        asked = client.result("tools/call", name="ask", arguments={})

        given = {"requestState": asked["requestState"], "inputResponses": {"q1": {"action": "accept"}}}
        again = client.result("tools/call", name="ask", arguments={}, **given)

        assert asked["resultType"] == again["resultType"] == "input_required"
        assert client.truth.created == []
        state = json.loads(base64.b64decode(again["requestState"]))
        assert [answer["action"] for answer in state["rounds"]] == ["accept"]


class TestCancel:
    @pytest.mark.parametrize(
        "style, after_s, status",
        [
            (CancelStyle.HONEST, 0, "cancelled"),
            (CancelStyle.LATE, 0, "working"),
            (CancelStyle.LATE, 2, "cancelled"),
            (CancelStyle.IGNORES, 2, "working"),
        ],
    )
    def test_the_acknowledgement_is_always_the_same(self, style, after_s, status):
        client = Client(cancel=style)
        task_id = client.begin("work")

        ack = client.result("tasks/cancel", taskId=task_id)
        client.now += after_s

        assert ack == {"resultType": "complete"}
        assert client.look(task_id)["status"] == status
        assert any(cancel.won for cancel in client.truth.cancels) is (status == "cancelled")
