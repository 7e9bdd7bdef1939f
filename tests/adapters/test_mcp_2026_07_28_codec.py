"""What each answer of a 2026-07-28 server means, from its bytes. Ids such as B022 name recorded cases."""

import contextlib
import json
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters import jsonrpc, strictjson
from adapters import mcp_2026_07_28_codec as codec
from adapters.contract import (
    Absent,
    Action,
    AdapterError,
    BrokenPeer,
    Call,
    CancelAnswer,
    CancelRefused,
    Continuation,
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

TASK_ID = "hKNuhMLhrMOP7BR69UVtX83e3KW8OZBVbkrCpzKREdM"
META = {"io.modelcontextprotocol/serverInfo": {"name": "fm4", "version": "4.1.4"}}
FORM = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
ELICIT = {"method": "elicitation/create", "params": {"mode": "form", "message": "first?", "requestedSchema": FORM}}
DONE = {"content": [{"type": "text", "text": "done"}], "isError": False, "resultType": "complete"}
CALL = Call(submission_key="key-1", tool="slow", arguments=b'{"secs": 2}', ttl_ms=60_000)
SLOW = {
    "_meta": {"fastmcp": {"tags": []}},
    "inputSchema": {"type": "object", "properties": {"secs": {"type": "number"}}},
    "name": "slow",
    "outputSchema": {"type": "object", "properties": {"result": {"type": "string"}}},
    "title": "Slow",
}
ASKED = {"inputRequests": {"a": ELICIT}, "requestState": "v1.gF\x00\ud83d", "resultType": "input_required"}
ACK = {"resultType": "complete", "_meta": META}
LEFT_OUT = object()


def answer_of(*, result=None, error=None):
    """The answer inside a JSON-RPC response with this result or error."""
    part = {"error": error} if error is not None else {"result": result}
    message = jsonrpc.read_message(json.dumps({"jsonrpc": "2.0", "id": 1} | part).encode())
    assert isinstance(message, jsonrpc.Response)
    return message.answer


def task(**changes):
    """A flat task as fastmcp shows it in `tasks/get`; LEFT_OUT leaves a member out."""
    shown = {
        "taskId": TASK_ID,
        "status": "working",
        "createdAt": "2026-11-29T14:39:49.545137+00:00",
        "lastUpdatedAt": "2026-11-29T14:39:49.560068+00:00",
        "ttlMs": 900_000,
        "pollIntervalMs": 500,
        "resultType": "complete",
        "_meta": META,
    }
    return {name: value for name, value in (shown | changes).items() if value is not LEFT_OUT}


def look(**changes):
    return codec.decode_look(answer_of(result=task(**changes)), task_id=TASK_ID)


def created(**changes):
    return codec.decode_created(answer_of(result=task(**({"resultType": "task"} | changes))))


def sent_params(raw):
    return json.loads(raw)["params"]


class TestEncode:
    def test_every_request_says_who_we_are_and_what_we_can(self):
        sent = sent_params(codec.encode_request(request_id="1", method="tasks/get", params={"taskId": "t"}))

        assert sent == {
            "taskId": "t",
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "longcall", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {
                    "elicitation": {"form": {}, "url": {}},
                    "extensions": {"io.modelcontextprotocol/tasks": {}},
                },
            },
        }

    def test_a_call_under_its_synchronous_limit_offers_no_tasks(self):
        """N2."""
        call = Call(submission_key="k", tool="t", arguments=b"{}", ttl_ms=5, as_task=False)

        meta = sent_params(codec.encode_call(call))["_meta"]

        assert "extensions" not in meta["io.modelcontextprotocol/clientCapabilities"]

    def test_the_same_call_is_the_same_bytes(self):
        """X2."""
        assert codec.encode_call(CALL) == codec.encode_call(CALL)

    def test_a_call_carries_its_key_and_its_arguments_as_they_are(self):
        call = Call(submission_key="k", tool="t", arguments=b'{"n": 9007199254740993, "x": 1.10}', ttl_ms=None)

        sent = codec.encode_call(call)

        assert b'"arguments":{"n": 9007199254740993, "x": 1.10}' in sent
        assert sent_params(sent)["_meta"]["dev.longcall/submission-key"] == "k"
        assert {"task", "inputResponses", "requestState"}.isdisjoint(sent_params(sent))

    def test_to_go_on_gives_back_the_exact_state_and_the_answers_under_another_id(self):
        replies = (
            Reply(key='"a"', action=Action.ACCEPT, content=b'{"ok": true}'),
            Reply(key='"b"', action=Action.DECLINE),
        )
        goes_on = Continuation(number=1, state=r'"v1.\u0000\ud800"', replies=replies)

        sent = codec.encode_call(_continued(goes_on))

        params = sent_params(sent)
        assert params["requestState"] == "v1.\x00\ud800"
        assert params["inputResponses"] == {
            "a": {"action": "accept", "content": {"ok": True}},
            "b": {"action": "decline"},
        }
        assert json.loads(sent)["id"] != json.loads(codec.encode_call(CALL))["id"]
        assert params["_meta"]["dev.longcall/submission-key"] == CALL.submission_key

    def test_each_round_has_its_own_id_and_a_repeat_has_the_same(self):
        """X2."""
        first, again, second = (_continued(Continuation(number=n, state=None, replies=())) for n in (1, 1, 2))

        assert codec.encode_call(first) == codec.encode_call(again)
        assert codec.call_id(first) != codec.call_id(second)

    def test_no_state_is_sent_where_none_was_given(self):
        params = sent_params(codec.encode_call(_continued(Continuation(number=1, state=None, replies=()))))

        assert {"inputResponses", "requestState"}.isdisjoint(params)

    @pytest.mark.parametrize("action", [Action.DECLINE, Action.DISMISS])
    def test_a_refusal_carries_no_content(self, action):
        """I5."""
        replies = [Reply(key='"q1"', action=action)]

        sent = sent_params(codec.encode_update(request_id="1", task_id="t", replies=replies))

        assert sent["inputResponses"] == {"q1": {"action": action.value}}

    def test_no_is_a_value(self):
        """B143."""
        replies = [Reply(key='"q1"', action=Action.ACCEPT, content=b'{"confirm":false}')]

        sent = sent_params(codec.encode_update(request_id="1", task_id="t", replies=replies))

        assert sent["inputResponses"] == {"q1": {"action": "accept", "content": {"confirm": False}}}

    @pytest.mark.parametrize("key", ["0", "q1", "null", "{"])
    def test_a_key_that_is_no_text_is_not_sent(self, key):
        with pytest.raises(strictjson.BadJson):
            codec.encode_update(request_id="1", task_id="t", replies=[Reply(key=key, action=Action.DECLINE)])

    def test_the_headers_repeat_the_body(self):
        sent = codec.encode_headers(method="tools/call", name="größe")

        assert dict(sent) == {
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": "=?base64?Z3LDtsOfZQ==?=",
        }


class TestCapabilities:
    @staticmethod
    def told(**changes):
        extensions: dict = {"io.modelcontextprotocol/ui": {}, "io.modelcontextprotocol/tasks": {}}
        shown = {
            "_meta": META,
            "ttlMs": 0,
            "cacheScope": "private",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"logging": {}, "tools": {"listChanged": False}, "extensions": extensions},
            "resultType": "complete",
        }
        return codec.decode_capabilities(answer_of(result=shown | changes))

    def test_fastmcp_declares_tasks(self):
        told = self.told()

        assert (told.server_name, told.server_version) == ("fm4", "4.1.4")
        assert (told.creates_tasks, told.cancels_tasks, told.lists_tasks) == (True, True, False)

    @pytest.mark.parametrize(
        "capabilities", [{}, {"extensions": {}}, {"extensions": {"io.modelcontextprotocol/tasks": True}}, 7]
    )
    def test_what_is_not_declared_is_absent(self, capabilities):
        """N2: the official Python SDK 2.3.0 has no tasks."""
        told = self.told(capabilities=capabilities)

        assert (told.creates_tasks, told.cancels_tasks) == (False, False)

    @pytest.mark.parametrize("versions", [["2025-11-25"], [], "2026-07-28", None])
    def test_another_protocol_version_is_not_spoken(self, versions):
        """B111, N1."""
        with pytest.raises(WrongProtocol):
            self.told(supportedVersions=versions)

    def test_a_handshake_of_the_older_contract_is_not_read(self):
        """N3."""
        older = {"protocolVersion": "2025-11-25", "capabilities": {"tasks": {}}, "serverInfo": {"name": "x"}}

        with pytest.raises(WrongProtocol):
            codec.decode_capabilities(answer_of(result=older))


class TestTools:
    def page(self, *tools, **changes):
        shown = {"cacheScope": "private", "resultType": "complete", "tools": list(tools)} | changes
        return codec.decode_tools(answer_of(result=shown))

    def test_any_tool_may_become_a_task(self):
        (tool,) = self.page(SLOW).tools

        assert (tool.name, tool.title, tool.task_support) == ("slow", "Slow", TaskSupport.OPTIONAL)
        assert tool.output_schema == SLOW["outputSchema"]

    def test_a_tool_that_marks_an_argument_wrongly_does_not_hide_the_others(self):
        marked = {"type": "object", "properties": {"n": {"type": "number", "x-mcp-header": "N"}}}

        found = self.page({"name": "bad", "inputSchema": marked}, SLOW, nextCursor="c")

        assert [tool.name for tool in found.tools] == ["slow"]
        assert found.left_out[0].startswith("bad: ")
        assert found.cursor == "c"

    @pytest.mark.parametrize("changes", [{"tools": None}, {"resultType": "input_required"}, {"tools": [7]}])
    def test_what_is_no_list_of_tools_is_not_read(self, changes):
        with pytest.raises(WrongProtocol):
            self.page(**changes)


class TestCreated:
    def test_a_flat_task(self):
        seen = created()

        assert isinstance(seen, Working)
        assert (seen.task.task_id, seen.task.ttl_ms, seen.task.poll_ms) == (TASK_ID, 900_000, 500)
        assert seen.task.anomalies == ()

    def test_the_type_decides_although_the_typescript_sdk_adds_content(self):
        assert isinstance(created(content=[]), Working)

    @pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
    def test_a_task_may_be_born_terminal_and_its_result_is_fetched(self, status):
        """B016: the seed carries none."""
        seen = created(status=status)

        assert isinstance(seen, Ended)
        assert (seen.status, seen.result) == (ProtocolStatus(status), None)

    def test_a_task_may_be_born_asking(self):
        assert isinstance(created(status="input_required"), NeedsInput)

    def test_a_call_may_be_answered_at_once(self):
        """B017."""
        seen = codec.decode_created(answer_of(result=DONE))

        assert isinstance(seen, Ended)
        assert (seen.status, seen.task) == (ProtocolStatus.COMPLETED, None)
        assert json.loads(seen.result.raw) == DONE

    def test_no_type_means_complete(self):
        seen = codec.decode_created(answer_of(result={"content": []}))

        assert isinstance(seen, Ended)

    def test_the_tools_own_error_is_completed_and_an_error(self):
        """R7."""
        seen = codec.decode_created(answer_of(result=DONE | {"isError": True}))

        assert (seen.status, seen.result.is_error) == (ProtocolStatus.COMPLETED, True)

    @pytest.mark.parametrize(
        "result",
        [
            DONE | {"resultType": "done"},
            DONE | {"resultType": None},
            DONE | {"resultType": ["task"]},
            {"task": {"taskId": "t", "status": "working", "ttl": 1}},
            {"task": {"taskId": "t", "status": "working"}, "content": []},
            {"taskId": "t", "status": "working", "content": []},
            {"content": [], "isError": False, "_meta": {"modelcontextprotocol.io/task": {"taskId": "t"}}},
            {"resultType": "complete"},
            {"content": "x"},
            {"resultType": "task", "task": {"taskId": "t", "status": "working"}},
            7,
        ],
        ids=[
            "unknown", "null", "list", "2025-11-25", "2025-11-25 with content", "no type", "draft", "empty", "text",
            "nested", "number",
        ],
    )  # fmt: skip
    def test_another_shape_is_no_answer_and_never_done(self, result):
        """N3."""
        with pytest.raises(WrongProtocol):
            codec.decode_created(answer_of(result=result))


class TestAskedBeforeTask:
    def decode(self, **changes):
        shown = {name: value for name, value in (ASKED | changes).items() if value is not LEFT_OUT}
        return codec.decode_created(answer_of(result=shown))

    def test_questions_and_a_state_that_can_be_stored(self):
        seen = self.decode()

        assert isinstance(seen, NeedsInput)
        assert seen.task is None
        assert [(question.key, question.message) for question in seen.questions] == [('"a"', "first?")]
        assert seen.continuation_state.isascii()
        assert json.loads(seen.continuation_state) == ASKED["requestState"]

    def test_a_state_without_questions_is_to_be_given_back_at_once(self):
        seen = self.decode(inputRequests=LEFT_OUT)

        assert (seen.questions, seen.continuation_state is None) == ((), False)

    def test_questions_without_a_state(self):
        assert self.decode(requestState=LEFT_OUT).continuation_state is None

    @pytest.mark.parametrize(
        "changes",
        [
            {"inputRequests": LEFT_OUT, "requestState": LEFT_OUT},
            {"inputRequests": {}, "requestState": LEFT_OUT},
            {"requestState": 7},
            {"inputRequests": []},
            {"inputRequests": {"a": ELICIT, "s": {"method": "sampling/createMessage", "params": {}}}},
            {"inputRequests": {"a": {"method": "elicitation/create"}}},
        ],
        ids=["neither", "empty", "state", "list", "sampling", "no params"],
    )
    def test_what_cannot_be_answered_as_a_whole_goes_to_a_person(self, changes):
        with pytest.raises(WrongProtocol):
            self.decode(**changes)


class TestLook:
    def test_working(self):
        assert isinstance(look(), Working)

    @pytest.mark.parametrize("changes", [{"resultType": LEFT_OUT}, {"resultType": "task"}])
    def test_a_missing_type_and_the_extensions_own_examples_are_read(self, changes):
        assert isinstance(look(**changes), Working)

    @pytest.mark.parametrize("kind", ["input_required", "complete ", None, 7])
    def test_another_type_is_not(self, kind):
        with pytest.raises(WrongProtocol):
            look(resultType=kind)

    def test_completed_brings_its_result_byte_for_byte(self):
        """R8."""
        inner = b'{"content": [ ],  "structuredContent":{"n":9007199254740993}, "resultType":"complete"}'
        outer = json.dumps(task(status="completed")).encode()[:-1] + b', "result": ' + inner + b"}"
        answer = jsonrpc.RpcResult(value=strictjson.parse(outer), raw=outer)

        seen = codec.decode_look(answer, task_id=TASK_ID)

        assert seen.result.raw == inner
        assert seen.result.value["structuredContent"]["n"] == 9007199254740993

    def test_is_error_stands_under_completed(self):
        """R7: a raised exception in fastmcp."""
        words = [{"type": "text", "text": "Error calling tool 'boom': kaboom"}]

        seen = look(status="completed", result={"content": words, "isError": True, "resultType": "complete"})

        assert (seen.status, seen.result.is_error) == (ProtocolStatus.COMPLETED, True)

    def test_failed_brings_its_error(self):
        """R2: a JSON-RPC error of the tool in fastmcp."""
        seen = look(status="failed", statusMessage="x", error={"code": -32050, "message": "rpc level error"})

        assert (seen.status, seen.result.is_error) == (ProtocolStatus.FAILED, True)
        assert json.loads(seen.result.raw) == seen.result.value == {"code": -32050, "message": "rpc level error"}

    def test_cancelled_brings_nothing(self):
        seen = look(status="cancelled")

        assert (seen.status, seen.result) == (ProtocolStatus.CANCELLED, None)

    @pytest.mark.parametrize(
        "changes",
        [
            {"status": "completed"},
            {"status": "completed", "result": None},
            {"status": "completed", "error": {"code": 1, "message": "x"}},
            {"status": "failed"},
            {"status": "failed", "error": None},
            {"status": "failed", "error": "x"},
            {"status": "failed", "result": DONE},
        ],
    )
    def test_a_terminal_without_its_payload_is_no_end(self, changes):
        """B022: never a receipt with an empty result."""
        with pytest.raises(BrokenPeer):
            look(**changes)

    @pytest.mark.parametrize("result", [{"resultType": "complete"}, {"content": {}}, 7, DONE | {"resultType": "task"}])
    def test_a_result_of_another_shape_is_no_success(self, result):
        with pytest.raises(WrongProtocol):
            look(status="completed", result=result)

    def test_not_found_is_absent_and_no_more(self):
        """X1."""
        seen = codec.decode_look(answer_of(error={"code": -32602, "message": "Task nope not found"}), task_id="nope")

        assert isinstance(seen, Absent)
        assert not seen.by_key

    @pytest.mark.parametrize(
        "code, kind", [(-32021, Refused), (-32601, Refused), (-32603, BrokenPeer), (-32001, BrokenPeer)]
    )
    def test_another_error_says_nothing_about_the_task(self, code, kind):
        with pytest.raises(kind):
            codec.decode_look(answer_of(error={"code": code, "message": "no"}), task_id=TASK_ID)

    @pytest.mark.parametrize(
        "changes",
        [
            {"taskId": "another"},
            {"taskId": ""},
            {"taskId": 7},
            {"taskId": LEFT_OUT},
            {"status": "running"},
            {"status": "COMPLETED"},
            {"status": LEFT_OUT},
        ],
    )
    def test_an_id_or_a_word_that_cannot_be_relied_on(self, changes):
        """B003, P8."""
        with pytest.raises(WrongProtocol):
            look(**changes)

    @pytest.mark.parametrize("poll", [-5000, -1, "500", True, 0.5])
    def test_an_interval_that_is_none_is_treated_as_missing(self, poll):
        """B035."""
        seen = look(pollIntervalMs=poll)

        assert seen.task.poll_ms is None
        assert seen.task.anomalies == ("pollIntervalMs is not an interval",)

    @pytest.mark.parametrize("poll", [9007199254740991, 2**80, 1e300])
    def test_a_huge_interval_is_cut(self, poll):
        """B036: the row must stay readable."""
        assert look(pollIntervalMs=poll).task.poll_ms == 604_800_000

    def test_the_older_contracts_names_are_not_read(self):
        """N3."""
        seen = look(ttlMs=LEFT_OUT, pollIntervalMs=LEFT_OUT, ttl=60_000, pollInterval=500)

        assert (seen.task.ttl_ms, seen.task.poll_ms) == (None, None)
        assert seen.task.anomalies == ("ttlMs is missing",)


class TestQuestions:
    def ask(self, requests):
        return look(status="input_required", inputRequests=requests)

    def test_every_key_is_a_question(self):
        """B175."""
        keys = [f"{TASK_ID}:bc4991fc19bc38f7", f"{TASK_ID}:9659175ef4d99064"]

        seen = self.ask(dict.fromkeys(keys, ELICIT))

        assert [json.loads(question.key) for question in seen.questions] == sorted(keys)
        assert {question.digest for question in seen.questions} == {strictjson.digest_of(ELICIT["params"])}
        assert [json.loads(question.raw) for question in seen.questions] == [ELICIT["params"]] * 2

    def test_the_same_question_in_the_next_look_is_the_same(self):
        """B172, I4."""
        assert self.ask({"q1": ELICIT}).questions == self.ask({"q1": ELICIT}).questions

    def test_a_key_that_comes_again_with_another_question_has_another_digest(self):
        other = ELICIT | {"params": ELICIT["params"] | {"message": "Deploy v43?"}}

        old, new = self.ask({"q1": ELICIT}).questions[0], self.ask({"q1": other}).questions[0]

        assert old.key == new.key
        assert old.digest != new.digest

    def test_a_missing_mode_is_a_form(self):
        """B159."""
        seen = self.ask({"q1": {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": FORM}}})

        assert (seen.questions[0].mode, seen.questions[0].schema) == (Mode.FORM, FORM)

    def test_a_visit_has_an_address_and_no_schema(self):
        params = {"mode": "url", "message": "Please pay", "url": "https://example.org/pay"}

        (question,) = self.ask({"q1": {"method": "elicitation/create", "params": params}}).questions

        assert (question.mode, question.url, question.schema) == (Mode.URL, "https://example.org/pay", {})

    @pytest.mark.parametrize("requests", [LEFT_OUT, None, {}, []])
    def test_to_wait_without_a_question_is_no_form(self, requests):
        """B020."""
        seen = self.ask(requests)

        assert isinstance(seen, NeedsInput)
        assert seen.questions == ()

    @pytest.mark.parametrize(
        "strange",
        [
            {"method": "sampling/createMessage", "params": {"messages": []}},
            {"method": "elicitation/create", "params": {"mode": "voice", "message": "?"}},
            {"method": "elicitation/create", "params": {"mode": "url", "message": "?"}},
            {"method": "elicitation/create", "params": {"requestedSchema": FORM}},
            {"method": "elicitation/create"},
            {"method": 7},
            "q",
        ],
    )
    def test_what_cannot_be_shown_is_named_and_hides_no_other(self, strange):
        """B166."""
        seen = self.ask({"odd": strange, "q1": ELICIT})

        assert [question.key for question in seen.questions] == ['"q1"']
        assert len(seen.task.anomalies) == 1
        assert seen.task.anomalies[0].startswith("the question odd cannot be shown: ")

    def test_questions_of_a_task_that_works_are_no_questions(self):
        """The status is the server's word; a stale list is not."""
        assert isinstance(look(inputRequests={"q1": ELICIT}), Working)


class TestAcknowledgements:
    def test_a_cancel_is_noted_and_no_more(self):
        """C5: fastmcp says the same to a finished task."""
        assert codec.decode_cancel(answer_of(result=ACK)) == CancelAnswer(task=None)

    def test_not_even_a_task_makes_it_evidence(self):
        assert codec.decode_cancel(answer_of(result=task(status="cancelled"))) == CancelAnswer(task=None)

    @pytest.mark.parametrize("code", [-32602, -32601])
    def test_a_cancel_may_be_refused(self, code):
        answer = codec.decode_cancel(answer_of(error={"code": code, "message": "no"}))

        assert isinstance(answer, CancelRefused)
        assert answer.code == code

    def test_an_update_is_acknowledged(self):
        codec.decode_updated(answer_of(result=ACK))

    @pytest.mark.parametrize("result", [{"resultType": "input_required"}, {"resultType": "task"}, [], "ok"])
    def test_another_shape_acknowledges_nothing(self, result):
        for decode in (codec.decode_cancel, codec.decode_updated):
            with pytest.raises(WrongProtocol):
                decode(answer_of(result=result))

    @pytest.mark.parametrize("code, kind", [(-32602, RefusalKind.REQUEST), (-32021, RefusalKind.ADMIN)])
    def test_a_refused_update_says_who_can_repair_it(self, code, kind):
        with pytest.raises(Refused) as caught:
            codec.decode_updated(answer_of(error={"code": code, "message": "Invalid request parameters"}))

        assert caught.value.kind is kind


class TestRefusal:
    @pytest.mark.parametrize(
        "code, kind",
        [
            (-32020, RefusalKind.ADMIN),
            (-32021, RefusalKind.ADMIN),
            (-32022, RefusalKind.ADMIN),
            (-32601, RefusalKind.ADMIN),
            (-32602, RefusalKind.REQUEST),
            (-32600, RefusalKind.REQUEST),
            (-32700, RefusalKind.REQUEST),
        ],
    )
    def test_a_definite_no(self, code, kind):
        """B018."""
        refused = codec.refusal(answer_of(error={"code": code, "message": "no"}), "tools/call")

        assert isinstance(refused, Refused)
        assert (refused.kind, refused.code) == (kind, code)

    @pytest.mark.parametrize("code", [-32603, -32000, -32001, -32003, -32004, -32050, 500])
    def test_any_other_error_proves_nothing(self, code):
        refused = codec.refusal(answer_of(error={"code": code, "message": "no"}), "tools/call")

        assert isinstance(refused, BrokenPeer)


class TestResult:
    def test_the_result_of_a_completed_task(self):
        answer = answer_of(result=task(status="completed", result=DONE))

        found = codec.decode_result(answer, task_id=TASK_ID, status=ProtocolStatus.COMPLETED)

        assert isinstance(found, ToolResult)
        assert json.loads(found.raw) == DONE

    @pytest.mark.parametrize(
        "changes",
        [
            {},
            {"status": "input_required"},
            {"status": "failed", "error": {"code": 1, "message": "x"}},
            {"status": "cancelled"},
        ],
    )
    def test_another_status_than_was_seen_is_looked_at_again(self, changes):
        """R10."""
        found = codec.decode_result(answer_of(result=task(**changes)), task_id=TASK_ID, status=ProtocolStatus.COMPLETED)

        assert isinstance(found, NotReady)

    @pytest.mark.parametrize("status", [ProtocolStatus.COMPLETED, ProtocolStatus.FAILED])
    def test_gone_is_not_the_tasks_own_error(self, status):
        """X3: an error about `tasks/get` is not the error inside the task."""
        gone = answer_of(error={"code": -32602, "message": "not found"})

        assert isinstance(codec.decode_result(gone, task_id=TASK_ID, status=status), NotReady)

    @pytest.mark.parametrize("changes, kind", [({}, NotReady), ({"result": DONE}, ToolResult)])
    def test_a_cancelled_task_may_have_a_result_for_the_audit(self, changes, kind):
        """C7."""
        answer = answer_of(result=task(status="cancelled", **changes))

        assert isinstance(codec.decode_result(answer, task_id=TASK_ID, status=ProtocolStatus.CANCELLED), kind)


def _continued(goes_on):
    return Call(
        submission_key=CALL.submission_key, tool=CALL.tool, arguments=CALL.arguments, ttl_ms=None, continuation=goes_on
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=5),
    max_leaves=12,
)
WORDS = ["taskId", "status", "ttlMs", "pollIntervalMs", "createdAt", "content", "isError", "_meta", "tools", "name"]
WORDS += ["nextCursor", "capabilities", "extensions", "supportedVersions", "statusMessage", "inputRequests", "params"]
WORDS += ["requestState", "resultType", "result", "error", "method", "requestedSchema", "mode", "url", "message"]
KNOWN = [TASK_ID, *ProtocolStatus, "complete", "task", "input_required", "elicitation/create", "2026-07-28"]
SHAPES = JSON | st.dictionaries(st.sampled_from(WORDS), JSON | st.sampled_from(KNOWN), max_size=8)


def mutated_task(seed):
    """A task in any status with one member replaced by something else."""
    chance = random.Random(seed)
    shown = task(status=chance.choice(list(ProtocolStatus)), result=DONE, error={}, inputRequests={"q": ELICIT})
    shown["resultType"] = chance.choice(["complete", "task", "input_required"])
    shown[chance.choice(list(shown))] = chance.choice([None, -1, 2**80, 1e308, "", [], {}, True, "\ud800", ELICIT])
    return shown


class TestAnyAnswer:
    @given(value=SHAPES | st.integers().map(mutated_task), code=st.integers(), text=st.text())
    def test_no_answer_brings_an_error_from_outside_the_tree(self, value, code, text):
        result = jsonrpc.RpcResult(value=value, raw=strictjson.canonical(value))
        error = jsonrpc.RpcError(code=code, message=text, raw=b"{}")
        decoders: list[Callable[[], object]] = [
            lambda: codec.decode_capabilities(result),
            lambda: codec.decode_tools(result),
            lambda: codec.decode_created(result),
            lambda: codec.decode_look(result, task_id=TASK_ID),
            lambda: codec.decode_look(error, task_id=TASK_ID),
            lambda: codec.decode_cancel(result),
            lambda: codec.decode_cancel(error),
            lambda: codec.decode_updated(result),
            lambda: codec.decode_updated(error),
            *(lambda s=status: codec.decode_result(result, task_id=TASK_ID, status=s) for status in ProtocolStatus),
            *(lambda s=status: codec.decode_result(error, task_id=TASK_ID, status=s) for status in ProtocolStatus),
        ]
        for decode in decoders:
            with contextlib.suppress(AdapterError):  # any other error fails this test
                decode()
