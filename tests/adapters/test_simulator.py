"""The simulated server keeps its truth and bends only its answers."""

import random
from typing import Any

import pytest

from adapters.simulator import core, demo
from adapters.simulator.scenario import CancelStyle, Fault, FaultKind, QuestionStyle, Scenario
from adapters.simulator.scripts import Ask, Crash, Effect, Finish, Tool, Work

FORM: dict = {"type": "object", "properties": {"ok": {"type": "boolean"}}}


def _work_then_effect(arguments):
    yield Work(seconds=10, message="working")
    yield Effect(name="paid")
    return Finish(text="done")


def _ask_twice(arguments):
    answers = []
    for number in range(2):
        answer = yield Ask(message=f"question {number}", schema=FORM)
        answers.append(answer.action)
    return Finish(text=" ".join(answers))


def _crash(arguments):
    yield Work(seconds=1)
    return Crash(message="kaboom")


def tool(name, script, support="optional"):
    return Tool(name=name, title=name, description="", script=script, input_schema={}, task_support=support)


WORK = tool("work", _work_then_effect)
ASK = tool("ask", _ask_twice, "required")
CRASH = tool("crash", _crash)
INLINE = tool("inline", _work_then_effect, "forbidden")


class Client:
    """Sends messages on one session of one server, with a clock in its hand."""

    def __init__(self, *faults, **character):
        self.now = 1_790_000_000.0
        scenario = Scenario(tools=(WORK, ASK, CRASH, INLINE), faults=faults, **character)
        self.server: Any = core.ToolServer(scenario, clock=lambda: self.now, chance=random.Random(1))
        self.truth = self.server.truth
        self.session = dict(self.send("initialize").headers).get("mcp-session-id")

    def send(self, method, *, request_id=1, session="own", **params):
        message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        return self.server.receive(message, session=getattr(self, "session", None) if session == "own" else session)

    def result(self, method, **params):
        message = self.send(method, **params).message
        assert message is not None
        return message["result"]

    def code(self, method, **params):
        message = self.send(method, **params).message
        assert message is not None
        return message["error"]["code"]

    def begin(self, name, key="k"):
        meta = {"dev.longcall/submission-key": key}
        return self.result("tools/call", name=name, arguments={}, task={"ttl": 600_000}, _meta=meta)["task"]["taskId"]

    def status(self, task_id):
        return self.result("tasks/get", taskId=task_id)["status"]

    def answer(self, question_id, action="accept"):
        message = {"jsonrpc": "2.0", "id": question_id, "result": {"action": action, "content": {"ok": True}}}
        return self.server.receive(message, session=self.session)


class TestTask:
    def test_it_moves_with_the_clock_only(self):
        client = Client()
        task_id = client.begin("work")

        seen = []
        for now in (0, 9.9, 10, 60):
            client.now = 1_790_000_000.0 + now
            seen.append(client.status(task_id))

        assert seen == ["working", "working", "completed", "completed"]
        assert [(done.name, done.at) for done in client.truth.effects] == [("paid", 1_790_000_010.0)]

    def test_what_it_did_does_not_depend_on_who_looked(self):
        watched, alone = Client(), Client()
        task_ids = [watched.begin("work"), alone.begin("work")]
        for client, step in ((watched, 0.5), (alone, 60)):
            for _ in range(int(60 / step)):
                client.now += step
                client.status(task_ids[0] if client is watched else task_ids[1])

        assert watched.truth.effects == alone.truth.effects
        assert watched.truth.created == alone.truth.created

    def test_its_work_takes_its_seconds_divided_by_the_speed(self):
        client = Client(speed=10)
        task_id = client.begin("work")

        client.now += 0.9
        before = client.status(task_id)
        client.now += 0.1

        assert (before, client.status(task_id)) == ("working", "completed")

    def test_a_crash_is_failed_and_its_fetch_an_error(self):
        client = Client()
        task_id = client.begin("crash")
        client.now += 5

        assert client.status(task_id) == "failed"
        assert client.code("tasks/result", taskId=task_id) == -32603

    def test_it_is_seen_from_its_own_session_only(self):
        client = Client()
        task_id = client.begin("work")
        other = dict(client.send("initialize", session=None).headers)["mcp-session-id"]

        assert client.code("tasks/get", taskId=task_id, session=other) == -32602
        assert client.result("tasks/list", session=other) == {"tasks": []}
        assert len(client.result("tasks/list")["tasks"]) == 1

    def test_an_expired_task_is_out_of_sight_while_its_work_goes_on(self):
        """F9, B002."""
        client = Client(ttl_ms=5_000)
        task_id = client.begin("work")
        client.now += 6

        assert client.code("tasks/get", taskId=task_id) == -32602
        client.now += 10
        client.send("ping")
        assert [done.name for done in client.truth.effects] == ["paid"]

    def test_a_required_task_is_refused_in_words(self):
        client = Client()

        assert client.result("tools/call", name="ask", arguments={})["isError"] is True
        assert client.code("tools/call", name="inline", arguments={}, task={}) == -32601
        assert client.truth.created == []

    def test_a_call_without_a_task_ends_with_its_result(self):
        client = Client()
        reply = client.send("tools/call", name="inline", arguments={})
        assert reply.stream is not None
        assert reply.stream.take() == []
        client.now += 10

        (message,) = reply.stream.take()

        assert message["result"]["content"][0]["text"] == "done"
        assert reply.stream.finished
        assert [call.task_id for call in client.truth.created] == [None]


class TestQuestions:
    def test_each_is_delivered_once_and_numbered_from_0(self):
        client = Client()
        task_id = client.begin("ask")
        first = client.send("tasks/result", taskId=task_id).stream
        second = client.send("tasks/result", taskId=task_id, request_id=2).stream

        (question,) = first.take()

        assert (question["id"], question["params"]["message"]) == (0, "question 0")
        assert second.take() == []

    def test_the_stream_goes_on_to_the_next_question_and_the_end(self):
        client = Client()
        stream = client.send("tasks/result", taskId=client.begin("ask")).stream
        heard = []
        for number in range(2):
            heard += stream.take()
            client.answer(number)
        heard += stream.take()

        assert [message.get("method", "end") for message in heard] == ["elicitation/create"] * 2 + ["end"]
        assert heard[-1]["result"]["content"][0]["text"] == "accept accept"
        assert [answer.used for answer in client.truth.answers] == [True, True]

    def test_an_answer_to_no_question_is_accepted_and_dropped(self):
        client = Client()
        client.begin("ask")

        reply = client.answer(0)

        assert reply.status == 202
        assert [answer.used for answer in client.truth.answers] == [False]

    @pytest.mark.parametrize("style, ids", [(QuestionStyle.REPLAYED, [0, 0]), (QuestionStyle.RENAMED, [0, 1])])
    def test_a_question_may_come_again(self, style, ids):
        """F3."""
        client = Client(questions=style)
        task_id = client.begin("ask")
        streams = [client.send("tasks/result", taskId=task_id, request_id=number).stream for number in range(2)]

        assert [stream.take()[0]["id"] for stream in streams] == ids
        assert [stream.take() for stream in streams] == [[], []], "never twice on one stream"

    @pytest.mark.parametrize("cancelled, heard", [(False, 0), (True, 1)])
    def test_a_dropped_stream_swallows_unless_its_request_is_cancelled(self, cancelled, heard):
        """As the official Python SDK does."""
        client = Client(stale_streams_swallow=True)
        task_id = client.begin("ask")
        old = client.send("tasks/result", taskId=task_id, request_id="old").stream
        old.take()
        old.leave()
        if cancelled:
            client.send("notifications/cancelled", requestId="old")
        client.answer(0)

        new = client.send("tasks/result", taskId=task_id, request_id="new").stream

        assert len(new.take()) == heard

    def test_without_event_streams_no_question_is_ever_delivered(self):
        client = Client(json_only=True)

        assert client.send("tasks/result", taskId=client.begin("ask")).stream.take() == []


class TestCancel:
    def test_an_honest_cancel_ends_the_work(self):
        client = Client()
        task_id = client.begin("work")

        assert client.result("tasks/cancel", taskId=task_id)["status"] == "cancelled"
        client.now += 60
        assert client.status(task_id) == "cancelled"
        assert client.truth.effects == []
        assert [cancel.won for cancel in client.truth.cancels] == [True]

    def test_work_may_go_on_after_a_won_cancel(self):
        """C4, C6."""
        client = Client(works_on_after_cancel=True)
        task_id = client.begin("work")
        client.result("tasks/cancel", taskId=task_id)
        client.now += 60

        assert client.status(task_id) == "cancelled"
        assert [done.name for done in client.truth.effects] == ["paid"]
        assert client.result("tasks/result", taskId=task_id)["content"][0]["text"] == "done"

    def test_a_finished_task_is_refused_and_stays_finished(self):
        """C3."""
        client = Client()
        task_id = client.begin("work")
        client.now += 60

        assert client.code("tasks/cancel", taskId=task_id) == -32602
        assert client.status(task_id) == "completed"
        assert [cancel.won for cancel in client.truth.cancels] == [False]

    @pytest.mark.parametrize(
        "style, finished, said, then",
        [
            (CancelStyle.LIES, True, "cancelled", "completed"),
            (CancelStyle.LIES, False, "cancelled", "cancelled"),
            (CancelStyle.IGNORES, False, "working", "working"),
        ],
    )
    def test_an_answer_to_a_cancel_may_be_worth_nothing(self, style, finished, said, then):
        client = Client(cancel=style)
        task_id = client.begin("work")
        client.now += 60 if finished else 0

        assert client.result("tasks/cancel", taskId=task_id)["status"] == said
        assert client.status(task_id) == then

    def test_a_server_may_have_no_cancel(self):
        client = Client(cancel=CancelStyle.REFUSES)

        assert client.code("tasks/cancel", taskId=client.begin("work")) == -32601
        assert "cancel" not in client.result("initialize")["capabilities"]["tasks"]


class TestFaults:
    def test_a_lost_answer_leaves_one_task(self):
        """F1."""
        client = Client(Fault(on="tools/call", kind=FaultKind.ANSWER_LOST))

        reply = client.send("tools/call", name="work", arguments={}, task={})

        assert reply.drop
        assert reply.message is None
        assert len(client.truth.created) == 1

    @pytest.mark.parametrize(
        "kind", [FaultKind.REQUEST_LOST, FaultKind.HTTP_STATUS, FaultKind.RPC_ERROR, FaultKind.SESSION_LOST]
    )
    def test_a_request_that_was_not_carried_out_leaves_nothing(self, kind):
        client = Client(Fault(on="tools/call", kind=kind))

        client.send("tools/call", name="work", arguments={}, task={})

        assert client.truth.created == []

    def test_it_strikes_as_often_as_it_says_after_the_skipped_ones(self):
        client = Client(Fault(on="ping", kind=FaultKind.HTTP_STATUS, status=429, retry_after="2", skip=1, times=2))

        replies = [client.send("ping") for _ in range(5)]

        assert [reply.status for reply in replies] == [200, 429, 429, 200, 200]
        assert ("retry-after", "2") in replies[1].headers

    def test_chance_is_the_callers(self):
        def run(seed):
            fault = Fault(on="ping", kind=FaultKind.REQUEST_LOST, chance=0.5, times=100)
            scenario = Scenario(tools=(), faults=(fault,), sessions=False)
            server: Any = core.ToolServer(scenario, clock=lambda: 0.0, chance=random.Random(seed))
            ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            return [server.receive(ping, session=None).drop for _ in range(40)]

        assert run(1) == run(1)
        assert run(1) != run(2)
        assert {True, False} == set(run(1))

    def test_completion_and_cancel_arrive_together(self):
        """F4."""
        client = Client(Fault(on="tasks/cancel", kind=FaultKind.FINISHES_FIRST))
        task_id = client.begin("work")

        assert client.code("tasks/cancel", taskId=task_id) == -32602
        assert client.status(task_id) == "completed"
        assert len(client.truth.effects) == 1

    def test_a_delayed_answer_says_what_was_true_when_it_was_asked(self):
        """F2."""
        client = Client(Fault(on="tasks/get", kind=FaultKind.ANSWER_DELAYED, seconds=30))
        task_id = client.begin("work")

        late = client.send("tasks/get", taskId=task_id)
        client.now += 20
        early = client.send("tasks/get", taskId=task_id)

        assert (late.delay_s, early.delay_s) == (30, 0)
        assert (late.message["result"]["status"], early.message["result"]["status"]) == ("working", "completed")

    def test_an_old_answer_may_come_again(self):
        """F3."""
        client = Client(Fault(on="tasks/get", kind=FaultKind.ANSWER_REPEATED, skip=1))
        task_id = client.begin("work")
        client.status(task_id)
        client.now += 60

        assert [client.status(task_id) for _ in range(2)] == ["working", "completed"]

    @pytest.mark.parametrize(
        "kind, word, member", [(FaultKind.STATUS_WORD, "running", "status"), (FaultKind.TASK_ID, "t-x", "taskId")]
    )
    def test_a_word_may_be_replaced_in_the_answer_only(self, kind, word, member):
        """F8, B003; two different terminals are a replaced status as well."""
        client = Client(Fault(on="tasks/get", kind=kind, word=word))
        task_id = client.begin("work")

        assert client.result("tasks/get", taskId=task_id)[member] == word
        assert client.result("tasks/get", taskId=task_id)[member] != word

    def test_every_task_may_get_one_id(self):
        """F8."""
        client = Client(reuse_task_id="t-1")

        assert [client.begin("work"), client.begin("work")] == ["t-1", "t-1"]

    def test_a_lost_session_takes_no_task_with_it(self):
        client = Client(Fault(on="tasks/get", kind=FaultKind.SESSION_LOST))
        task_id = client.begin("work")

        assert client.send("tasks/get", taskId=task_id).status == 404
        client.now += 60
        client.send("ping")
        assert len(client.truth.effects) == 1


class TestTruth:
    def test_it_counts_what_began_under_a_key(self):
        client = Client()
        for key in ("a", "a", "b"):
            client.begin("work", key=key)

        assert [len(client.truth.tasks_of(key)) for key in "abc"] == [2, 1, 0]

    def test_it_knows_the_highest_rate(self):
        """G3."""
        client = Client()
        for step in (0, 0.4, 0.4, 0.4, 5):
            client.now += step
            client.send("ping")

        # The handshake arrived in the same second as the first three.
        assert client.truth.requests_per_second() == 4


class TestDemo:
    def test_the_report_takes_about_a_minute(self):
        now = {"is": 0}
        servers: Any = demo.servers(speed=1, clock=lambda: now["is"], chance=random.Random(1))
        server = servers["/reports/mcp"]
        opened = server.receive({"id": 1, "method": "initialize"}, session=None)
        session = dict(opened.headers)["mcp-session-id"]
        call = {"name": "quarterly_report", "arguments": {"quarter": "2026-Q2"}, "task": {}}
        created = server.receive({"id": 2, "method": "tools/call", "params": call}, session=session)
        task_id = created.message["result"]["task"]["taskId"]
        seen = []
        for now["is"] in range(0, 80, 5):
            answer = server.receive({"id": 3, "method": "tasks/get", "params": {"taskId": task_id}}, session=session)
            seen.append(answer.message["result"])

        ended = [facts["status"] for facts in seen].index("completed") * 5
        assert 50 <= ended <= 70
        assert len({facts.get("statusMessage") for facts in seen}) >= 6

    def test_every_path_has_its_own_server(self):
        servers = demo.servers(speed=30, clock=lambda: 0.0, chance=random.Random(1))

        assert {path: server.scenario.tools[0].name for path, server in servers.items()} == {
            "/reports/mcp": "quarterly_report",
            "/pricing/mcp": "bulk_price_change",
            "/analysis/mcp": "log_analysis",
            "/exports/mcp": "flaky_export",
            "/imports/mcp": "customer_import",
        }
