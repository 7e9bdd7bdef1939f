"""What each answer of a 2025-11-25 server means, from its bytes. Ids such as B003 name recorded cases."""

import contextlib
import json
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters import jsonrpc
from adapters import mcp_2025_11_25_codec as codec
from adapters.contract import (
    Absent,
    Action,
    AdapterError,
    BrokenPeer,
    Call,
    CancelAnswer,
    CancelRefused,
    Ended,
    Mode,
    NeedsInput,
    NotReady,
    ProtocolStatus,
    RefusalKind,
    Refused,
    Reply,
    TaskSupport,
    ToolResult,
    Working,
    WrongProtocol,
)
from tests.adapters.mcp_peers import CALL, FORM, LEFT_OUT, RELATED, TASK_ID, answer_of, asked, elicitation, task

DONE = {"content": [{"type": "text", "text": "done"}], "isError": False, "_meta": RELATED}


def look(**changes):
    return codec.decode_look(answer_of(result=task(**changes)), task_id=TASK_ID)


class TestEncode:
    def test_the_same_call_is_the_same_bytes(self):
        """X2."""
        assert codec.encode_call(CALL) == codec.encode_call(CALL)

    def test_another_key_is_another_request_id(self):
        other = Call(submission_key="key-2", tool="slow", arguments=CALL.arguments, ttl_ms=60_000)

        assert codec.call_id(CALL) != codec.call_id(other)

    def test_a_call_carries_its_key_and_its_arguments_as_they_are(self):
        call = Call(submission_key="k", tool="t", arguments=b'{"n": 9007199254740993, "x": 1.10}', ttl_ms=None)

        sent = codec.encode_call(call)

        assert b'"arguments":{"n": 9007199254740993, "x": 1.10}' in sent
        params = json.loads(sent)["params"]
        assert params["_meta"] == {"dev.longcall/submission-key": "k"}
        assert params["task"] == {}

    def test_a_call_under_its_synchronous_limit_asks_for_no_task(self):
        """N2."""
        call = Call(submission_key="k", tool="t", arguments=b"{}", ttl_ms=5, as_task=False)

        assert "task" not in json.loads(codec.encode_call(call))["params"]

    @pytest.mark.parametrize("key, sent_id", [("0", 0), ('"0"', "0"), ('"task-é"', "task-é"), ("17", 17)])
    def test_an_answer_goes_under_the_servers_exact_id(self, key, sent_id):
        reply = Reply(key=key, action=Action.ACCEPT, content=b'{"ok": true}')

        sent = json.loads(codec.encode_reply(reply, task_id=TASK_ID))

        assert sent["id"] == sent_id
        assert type(sent["id"]) is type(sent_id)
        assert sent["result"] == {"action": "accept", "content": {"ok": True}, "_meta": RELATED}

    @pytest.mark.parametrize("action", [Action.DECLINE, Action.DISMISS])
    def test_a_refusal_carries_no_content(self, action):
        """I5."""
        sent = json.loads(codec.encode_reply(Reply(key="0", action=action), task_id=None))

        assert sent["result"] == {"action": action.value}

    def test_the_handshake_offers_forms_and_addresses(self):
        sent = json.loads(codec.encode_initialize(request_id="1"))

        assert sent["params"]["capabilities"] == {"elicitation": {"form": {}, "url": {}}}


class TestCapabilities:
    @staticmethod
    def told(capabilities, version="2025-11-25"):
        server = {"name": "py1", "version": "1.30.0"}
        return answer_of(result={"protocolVersion": version, "capabilities": capabilities, "serverInfo": server})

    def test_the_python_sdk_declares_everything(self):
        tasks: dict = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}

        told = codec.decode_capabilities(self.told({"experimental": {}, "tasks": tasks}))

        assert (told.creates_tasks, told.cancels_tasks, told.lists_tasks) == (True, True, True)
        assert (told.server_name, told.server_version) == ("py1", "1.30.0")

    @pytest.mark.parametrize("tasks", [LEFT_OUT, {}, {"requests": {}}, {"requests": {"tools": {}}}, {"list": True}, 7])
    def test_what_is_not_declared_is_absent(self, tasks):
        """N2."""
        told = codec.decode_capabilities(self.told({} if tasks is LEFT_OUT else {"tasks": tasks}))

        assert (told.creates_tasks, told.cancels_tasks, told.lists_tasks) == (False, False, False)

    def test_another_protocol_version_is_not_spoken(self):
        """B111."""
        with pytest.raises(WrongProtocol):
            codec.decode_capabilities(self.told({}, version="2026-07-28"))


class TestTools:
    def test_support_is_read_exactly_and_is_otherwise_forbidden(self):
        """N2."""
        tools: list = [
            {"name": "a", "inputSchema": FORM, "execution": {"taskSupport": "required"}},
            {"name": "b", "execution": {"taskSupport": "Required"}},
            {"name": "c", "outputSchema": FORM, "title": "C"},
        ]

        found, cursor = codec.decode_tools({"tools": tools, "nextCursor": "2"})

        assert [tool.task_support for tool in found] == [
            TaskSupport.REQUIRED,
            TaskSupport.FORBIDDEN,
            TaskSupport.FORBIDDEN,
        ]
        assert (found[0].input_schema, found[2].output_schema, found[2].title) == (FORM, FORM, "C")
        assert cursor == "2"

    def test_the_version_of_a_descriptor_is_its_content_not_its_order(self):
        one, _ = codec.decode_tools({"tools": [{"name": "a", "title": "A"}]})
        two, _ = codec.decode_tools({"tools": [{"title": "A", "name": "a"}]})
        other, _ = codec.decode_tools({"tools": [{"title": "B", "name": "a"}]})

        assert one[0].digest == two[0].digest != other[0].digest


class TestCreated:
    def test_a_task_of_the_python_sdk(self):
        seen = codec.decode_created(answer_of(result={"task": task()}))

        assert isinstance(seen, Working)
        assert (seen.task.task_id, seen.task.ttl_ms, seen.task.poll_ms) == (TASK_ID, 60000, 500)
        assert seen.task.anomalies == ()

    def test_a_task_of_server_everything_with_its_own_ttl(self):
        """The server overrides the wish."""
        shown = task(ttl=300000, pollInterval=1000, statusMessage="Gathering sources...")

        seen = codec.decode_created(answer_of(result={"task": shown}))

        assert isinstance(seen, Working)
        assert (seen.task.message, seen.task.ttl_ms) == ("Gathering sources...", 300000)

    @pytest.mark.parametrize("status, kind", [("failed", Ended), ("input_required", NeedsInput), ("completed", Ended)])
    def test_a_task_may_be_born_in_any_status(self, status, kind):
        """The TypeScript SDK answers so when the tool got there at once."""
        assert isinstance(codec.decode_created(answer_of(result={"task": task(status=status)})), kind)

    def test_a_question_on_the_stream_of_the_call_belongs_to_its_task(self):
        born = task(status="input_required")

        seen = codec.decode_created(answer_of(result={"task": born}), asked=[asked(elicitation())])

        assert isinstance(seen, NeedsInput)
        assert [question.key for question in seen.questions] == ["0"]

    def test_a_call_that_ran_at_once_ends_without_a_task(self):
        seen = codec.decode_created(answer_of(result=DONE))

        assert isinstance(seen, Ended)
        assert seen.task is None
        assert seen.status is ProtocolStatus.COMPLETED
        assert seen.result is not None
        assert not seen.result.is_error

    def test_a_refusal_in_words_is_the_tools_own_error(self):
        """What all three SDKs answer to a call without a task where one is required."""
        words = [{"type": "text", "text": "This tool requires task-augmented invocation"}]

        seen = codec.decode_created(answer_of(result={"content": words, "isError": True}))

        assert isinstance(seen, Ended)
        assert seen.task is None
        assert seen.status is ProtocolStatus.FAILED
        assert seen.result is not None
        assert seen.result.is_error

    @pytest.mark.parametrize(
        "result",
        [
            {"_meta": {"modelcontextprotocol.io/task": {"taskId": "t", "status": "working"}}, "content": []},
            {"resultType": "task", "taskId": "t", "status": "working", "content": []},
            {"resultType": "input_required", "inputRequests": {}, "content": []},
            {"taskId": "t", "status": "working"},
            {"task": "t"},
            {"toolResult": {"content": []}},
            {},
            [],
            None,
        ],
        ids=["draft", "2026-task", "2026-mrtr", "flat", "task-text", "B057", "empty", "list", "null"],
    )
    def test_another_versions_shape_is_never_a_completed_call(self, result):
        """N3."""
        with pytest.raises(WrongProtocol):
            codec.decode_created(answer_of(result=result))

    @pytest.mark.parametrize("task_id", [42, None, "", ["t"], True, "t\x00", "t\ud800"], ids=repr)
    def test_an_id_of_the_wrong_type_is_not_coerced(self, task_id):
        """B014."""
        with pytest.raises(WrongProtocol):
            codec.decode_created(answer_of(result={"task": task(taskId=task_id)}))

    @pytest.mark.parametrize("task_id", ["../../admin?x=1#/é b", "x" * 10_000, "t-É", "0"], ids=lambda v: v[:8])
    def test_an_id_is_kept_as_it_is(self, task_id):
        """B011, B013, B015."""
        seen = codec.decode_created(answer_of(result={"task": task(taskId=task_id)}))

        assert isinstance(seen, Working)
        assert seen.task.task_id == task_id


class TestRefusal:
    @pytest.mark.parametrize(
        "code, kind",
        [
            (-32601, RefusalKind.ADMIN),
            (-32021, RefusalKind.ADMIN),
            (-32602, RefusalKind.REQUEST),
            (-32600, RefusalKind.REQUEST),
        ],
    )
    def test_a_definite_error_names_who_can_repair_it(self, code, kind):
        """B018."""
        error = answer_of(error={"code": code, "message": "no"})

        refused = codec.refusal(error, "tools/call")

        assert isinstance(refused, Refused)
        assert (refused.kind, refused.code) == (kind, code)

    @pytest.mark.parametrize("code", [-32603, -32000, 0, 1])
    def test_an_error_inside_the_server_proves_nothing(self, code):
        error = answer_of(error={"code": code, "message": "Internal error"})

        assert isinstance(codec.refusal(error, "tools/call"), BrokenPeer)


class TestLook:
    @pytest.mark.parametrize(
        "status, kind",
        [
            ("working", Working),
            ("input_required", NeedsInput),
            ("completed", Ended),
            ("failed", Ended),
            ("cancelled", Ended),
        ],
    )
    def test_each_status_is_its_own_observation(self, status, kind):
        assert isinstance(look(status=status), kind)

    @pytest.mark.parametrize("status", ["running", "COMPLETED", "canceled", "Working", "", None, 1, LEFT_OUT])
    def test_no_status_is_guessed(self, status):
        """B003, L6."""
        with pytest.raises(WrongProtocol):
            look(status=status)

    def test_fields_of_another_name_are_no_task(self):
        """B003."""
        with pytest.raises(WrongProtocol):
            codec.decode_look(answer_of(result={"id": TASK_ID, "state": "completed"}), task_id=TASK_ID)

    @pytest.mark.parametrize("task_id", [TASK_ID.upper(), TASK_ID + " ", "another"])
    def test_an_answer_about_another_task_is_refused(self, task_id):
        """F8, B015: ids are compared byte by byte."""
        with pytest.raises(WrongProtocol):
            look(taskId=task_id)

    @pytest.mark.parametrize(
        "message",
        [
            "Task not found: nope",
            "Failed to retrieve task: Task not found",
            "Invalid taskId: nope not found",
            "Task has expired",
        ],
    )
    def test_unknown_is_absent_and_says_nothing_of_the_work(self, message):
        """B002, B046, X1."""
        seen = codec.decode_look(answer_of(error={"code": -32602, "message": message}), task_id=TASK_ID)

        assert isinstance(seen, Absent)
        assert (seen.code, seen.message, seen.by_key) == (-32602, message, False)

    def test_a_status_message_is_never_read_by_machine(self):
        """B001."""
        seen = look(statusMessage="Task not found.")

        assert isinstance(seen, Working)
        assert seen.task.message == "Task not found."

    def test_names_of_the_later_version_are_ignored(self):
        """B005: they must not lower the poll floor."""
        seen = look(ttl=LEFT_OUT, pollInterval=LEFT_OUT, ttlMs=60000, pollIntervalMs=5)

        assert isinstance(seen, Working)
        assert (seen.task.poll_ms, seen.task.ttl_ms) == (None, None)
        assert seen.task.anomalies == ("ttl is missing",)

    @pytest.mark.parametrize(
        "poll, read, anomalies",
        [
            (0, 0, 0),
            (-1, None, 1),
            (10_000, 10_000, 0),
            (500.0, 500, 0),
            (0.5, None, 1),
            ("500", None, 1),
            (True, None, 1),
            (10**30, 604_800_000, 1),
            (1e300, 604_800_000, 1),
            (None, None, 0),
        ],
    )
    def test_an_interval_is_a_whole_number_or_nothing(self, poll, read, anomalies):
        """B034, B035, B036, B038."""
        seen = look(pollInterval=poll)

        assert isinstance(seen, Working)
        assert (seen.task.poll_ms, len(seen.task.anomalies)) == (read, anomalies)

    @pytest.mark.parametrize(
        "ttl, read, anomalies",
        [
            (None, None, 0),
            (LEFT_OUT, None, 1),
            (0, None, 1),
            (-5, None, 1),
            (1.5, None, 1),
            ("60000", None, 1),
            (60000, 60000, 0),
            (10**20, 315_360_000_000, 1),
        ],
    )
    def test_a_time_to_live_is_a_number_above_zero_or_unknown(self, ttl, read, anomalies):
        """B044; the Python SDK leaves an unlimited ttl out."""
        seen = look(ttl=ttl)

        assert isinstance(seen, Working)
        assert (seen.task.ttl_ms, len(seen.task.anomalies)) == (read, anomalies)

    @pytest.mark.parametrize(
        "instant",
        [
            "2026-09-22T10:00:00Z",
            "2026-09-22T10:00:00+00:00",
            "2026-09-22t10:00:00.000z",
            "2026-09-22T12:00:00+02:00",
            "2026-12-31T23:59:60Z",
        ],
    )
    def test_an_instant_may_be_spelled_in_many_ways(self, instant):
        """B008, B031."""
        seen = look(createdAt=instant)

        assert isinstance(seen, Working)
        assert (seen.task.created_at, seen.task.anomalies) == (instant, ())

    @pytest.mark.parametrize("instant", ["yesterday", "2026-09-22 10:00:00", "2026-09-22T10:00:00", 1790000000, None])
    def test_what_is_no_instant_is_an_anomaly(self, instant):
        """B031: a time without a zone is never read as ours."""
        seen = look(createdAt=instant)

        assert isinstance(seen, Working)
        assert len(seen.task.anomalies) == 1


class TestQuestions:
    @pytest.mark.parametrize(
        "request_id, key",
        [(0, "0"), ("0", '"0"'), (f"task-{TASK_ID}-140632696247856", f'"task-{TASK_ID}-140632696247856"')],
        ids=["ts", "text", "python"],
    )
    def test_the_key_keeps_the_type_of_the_servers_id(self, request_id, key):
        question = codec.decode_question(asked(elicitation(request_id)))

        assert (question.key, question.mode, question.message, question.schema) == (key, Mode.FORM, "q0", FORM)

    def test_a_question_without_a_mode_is_a_form(self):
        assert codec.decode_question(asked(elicitation(mode=LEFT_OUT))).mode is Mode.FORM

    def test_a_visit_has_an_address_and_no_schema(self):
        visit = elicitation(mode="url", url="https://example.org/pay", elicitationId="e1", requestedSchema=LEFT_OUT)

        question = codec.decode_question(asked(visit))

        assert (question.mode, question.url, question.schema) == (Mode.URL, "https://example.org/pay", {})

    @pytest.mark.parametrize(
        "changes",
        [
            {"mode": "voice"},
            {"mode": ["form"]},
            {"message": 5},
            {"message": LEFT_OUT},
            {"requestedSchema": []},
            {"mode": "url", "url": ""},
        ],
        ids=repr,
    )
    def test_what_nobody_could_answer_is_no_question(self, changes):
        with pytest.raises(WrongProtocol):
            codec.decode_question(asked(elicitation(**changes)))

    def test_the_same_id_twice_is_one_question(self):
        """B123."""
        found = codec.decode_questions([asked(elicitation()), asked(elicitation())], task_id=TASK_ID)

        assert len(found) == 1

    def test_a_question_is_told_from_a_replay_by_its_content(self):
        """I4: servers use an id again, for something else."""
        one = codec.decode_question(asked(elicitation(0)))
        again = codec.decode_question(asked(elicitation(1)))
        other = codec.decode_question(asked(elicitation(0, message="q1")))

        assert one.digest == again.digest != other.digest

    @pytest.mark.parametrize("on_own_stream, found", [(False, 0), (True, 1)])
    def test_a_question_without_a_name_belongs_to_the_stream_that_names_its_task(self, on_own_stream, found):
        """B033."""
        unnamed = asked(elicitation(meta=LEFT_OUT))

        assert len(codec.decode_questions([unnamed], task_id=TASK_ID, on_own_stream=on_own_stream)) == found

    @pytest.mark.parametrize("on_own_stream", [False, True])
    def test_a_foreign_question_is_never_ours(self, on_own_stream):
        """B033."""
        foreign = asked(elicitation(meta={"io.modelcontextprotocol/related-task": {"taskId": "another"}}))

        assert codec.decode_questions([foreign], task_id=TASK_ID, on_own_stream=on_own_stream) == ()

    def test_a_question_counts_even_if_the_status_says_working(self):
        """It is delivered once: not to take it would be to lose it."""
        seen = codec.decode_look(answer_of(result=task()), task_id=TASK_ID, asked=[asked(elicitation())])

        assert isinstance(seen, NeedsInput)
        assert len(seen.questions) == 1

    def test_a_question_of_an_ended_task_is_no_form(self):
        """C11."""
        ended = answer_of(result=task(status="cancelled"))

        assert isinstance(codec.decode_look(ended, task_id=TASK_ID, asked=[asked(elicitation())]), Ended)


class TestCancel:
    def test_a_cancelled_task_is_the_answer(self):
        """C2."""
        answer = codec.decode_cancel(answer_of(result=task(status="cancelled")), task_id=TASK_ID)

        assert isinstance(answer, CancelAnswer)
        assert answer.task is not None
        assert answer.task.status is ProtocolStatus.CANCELLED

    @pytest.mark.parametrize("status", ["working", "input_required", "completed"])
    def test_another_status_is_shown_as_it_is(self, status):
        """B189, B194: it is not a won cancel."""
        answer = codec.decode_cancel(answer_of(result=task(status=status)), task_id=TASK_ID)

        assert isinstance(answer, CancelAnswer)
        assert answer.task is not None
        assert answer.task.status.value == status

    @pytest.mark.parametrize(
        "code, message",
        [
            (-32602, "Cannot cancel task in terminal state 'completed'"),
            (-32602, "Task not found: nope"),
            (-32601, "Method not found"),
        ],
    )
    def test_a_refusal_does_not_say_why(self, code, message):
        """C3, B186, B187, B188: the next look decides, the words do not."""
        answer = codec.decode_cancel(answer_of(error={"code": code, "message": message}), task_id=TASK_ID)

        assert isinstance(answer, CancelRefused)
        assert (answer.code, answer.message) == (code, message)

    @pytest.mark.parametrize("result", [{}, {"resultType": "complete"}, task(taskId="another", status="cancelled")])
    def test_a_bare_yes_or_another_task_is_no_evidence(self, result):
        """B196, N3: that is how the later version acknowledges."""
        with pytest.raises(WrongProtocol):
            codec.decode_cancel(answer_of(result=result), task_id=TASK_ID)


class TestResult:
    def test_a_completed_task_gives_its_result_byte_by_byte(self):
        """B060, B061, R8."""
        raw = b'{"content":[],"structuredContent":{"bb":1,"a":-0,"c":1.10,"id":9007199254740993},"isError":false}'
        message = jsonrpc.read_message(b'{"jsonrpc":"2.0","id":1,"result":' + raw + b"}")
        assert isinstance(message, jsonrpc.Response)

        found = codec.decode_result(message.answer, status=ProtocolStatus.COMPLETED)

        assert isinstance(found, ToolResult)
        assert found.raw == raw
        assert not found.is_error

    def test_the_related_task_is_reported_as_the_server_named_it(self):
        """R2: whether it is ours is checked above."""
        found = codec.decode_result(answer_of(result=DONE), status=ProtocolStatus.COMPLETED)
        unnamed = codec.decode_result(answer_of(result={"content": []}), status=ProtocolStatus.COMPLETED)

        assert isinstance(found, ToolResult)
        assert found.task_id == TASK_ID
        assert isinstance(unnamed, ToolResult)
        assert unnamed.task_id is None

    def test_completed_with_is_error_is_an_error(self):
        """R7: so says the Python SDK."""
        found = codec.decode_result(answer_of(result=DONE | {"isError": True}), status=ProtocolStatus.COMPLETED)

        assert isinstance(found, ToolResult)
        assert found.is_error

    @pytest.mark.parametrize(
        "answer",
        [
            {"result": {"_meta": RELATED}},
            {"result": {"content": [{"type": "text", "text": "Quota exceeded"}], "isError": True, "_meta": RELATED}},
            {"result": DONE},
            {"error": {"code": -32603, "message": "Task x has no result stored"}},
            {"error": {"code": -32602, "message": "Task not found"}},
        ],
        ids=["python-sdk-empty", "B023", "no-flag", "ts-sdk", "gone"],
    )
    def test_whatever_is_said_about_a_failed_task_is_its_result(self, answer):
        """R2."""
        found = codec.decode_result(answer_of(**answer), status=ProtocolStatus.FAILED)

        assert isinstance(found, ToolResult)
        assert found.is_error
        assert found.raw

    @pytest.mark.parametrize("code", [-32602, -32603])
    def test_an_error_about_a_completed_task_is_no_result(self, code):
        """B046, and servers that answer "not completed yet"."""
        found = codec.decode_result(answer_of(error={"code": code, "message": "gone"}), status=ProtocolStatus.COMPLETED)

        assert isinstance(found, NotReady)
        assert found.code == code

    @pytest.mark.parametrize("result", [{"toolResult": {"content": []}}, {"_meta": RELATED}, {"content": "x"}, 7])
    def test_a_completed_task_without_content_is_no_empty_success(self, result):
        """B057."""
        with pytest.raises(WrongProtocol):
            codec.decode_result(answer_of(result=result), status=ProtocolStatus.COMPLETED)

    @pytest.mark.parametrize(
        "answer, kind",
        [
            ({"result": {"_meta": RELATED}}, NotReady),
            ({"error": {"code": -32603, "message": "no result stored"}}, NotReady),
            ({"error": {"code": -32800, "message": "Request cancelled"}}, NotReady),
            ({"result": DONE}, ToolResult),
        ],
        ids=["python-sdk", "ts-sdk", "B198", "B191"],
    )
    def test_a_cancelled_task_may_have_a_result_for_the_audit(self, answer, kind):
        """C7."""
        assert isinstance(codec.decode_result(answer_of(**answer), status=ProtocolStatus.CANCELLED), kind)


class TestSessionRule:
    @pytest.mark.parametrize(
        "status, error, lost",
        [
            (404, None, True),
            (404, {"code": -32600, "message": "Session not found"}, True),
            (404, {"code": -32001, "message": "Session not found"}, True),
            (400, {"code": -32000, "message": "Bad Request: No valid session ID provided"}, True),
            (404, {"code": -32602, "message": "Task not found"}, False),
            (404, {"code": -32601, "message": "Method not found"}, False),
            (400, {"code": -32600, "message": "Bad Request: Unsupported protocol version: 1900-01-01"}, False),
            (400, None, False),
            (500, {"code": -32603, "message": "session store down"}, False),
            (200, {"code": -32602, "message": "Task not found"}, False),
        ],
    )
    def test_only_a_404_or_a_400_that_names_the_session_is_a_lost_session(self, status, error, lost):
        """B106, B109; server-everything says 400."""
        assert codec.is_session_lost(status, None if error is None else answer_of(error=error)) is lost


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=5),
    max_leaves=12,
)
WORDS = ["taskId", "status", "task", "ttl", "pollInterval", "createdAt", "content", "isError", "_meta", "tools", "name"]
WORDS += ["tasks", "nextCursor", "execution", "taskSupport", "capabilities", "protocolVersion", "statusMessage"]
WORDS += ["requestedSchema", "mode", "url", "message", "io.modelcontextprotocol/related-task", "resultType"]
SHAPES = JSON | st.dictionaries(st.sampled_from(WORDS), JSON | st.sampled_from([TASK_ID, *ProtocolStatus]), max_size=8)


def mutated_task(seed):
    """A task with one member replaced by something else."""
    chance = random.Random(seed)
    shown = task()
    shown[chance.choice(list(shown))] = chance.choice([None, -1, 2**80, 1e308, "", [], {}, True, "\ud800"])
    return shown


class TestAnyAnswer:
    @given(value=SHAPES | st.integers().map(mutated_task), code=st.integers(), text=st.text())
    def test_no_answer_brings_an_error_from_outside_the_tree(self, value, code, text):
        result = jsonrpc.RpcResult(value=value, raw=b"{}")
        error = jsonrpc.RpcError(code=code, message=text, raw=b"{}")
        params = value if isinstance(value, dict) else {}
        request = jsonrpc.ServerRequest(id=0, method="elicitation/create", params=params, raw_params=b"{}")
        decoders: list[Callable[[], object]] = [
            lambda: codec.decode_capabilities(result),
            lambda: codec.decode_tools(value),
            lambda: codec.decode_tasks({"tasks": [value]}),
            lambda: codec.decode_task(value),
            lambda: codec.decode_created(result, asked=[request]),
            lambda: codec.decode_created(jsonrpc.RpcResult(value={"task": value}, raw=b"{}"), asked=[request]),
            lambda: codec.decode_look(result, task_id=TASK_ID, asked=[request]),
            lambda: codec.decode_look(error, task_id=TASK_ID),
            lambda: codec.decode_questions([request], task_id=TASK_ID, on_own_stream=True),
            lambda: codec.decode_cancel(result, task_id=TASK_ID),
            lambda: codec.decode_cancel(error, task_id=TASK_ID),
            *(lambda status=status: codec.decode_result(result, status=status) for status in ProtocolStatus),
            *(lambda status=status: codec.decode_result(error, status=status) for status in ProtocolStatus),
        ]
        for decode in decoders:
            with contextlib.suppress(AdapterError):  # any other error fails this test
                decode()
