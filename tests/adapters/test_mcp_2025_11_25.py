"""Each verb over scripted answers: what is sent, which answers are found, and what an error proves."""

import asyncio
import json

import httpx
import pytest

from adapters.contract import (
    Absent,
    Action,
    AdapterError,
    BrokenPeer,
    CancelAnswer,
    Delivered,
    Ended,
    Handle,
    Lookup,
    MaybeSent,
    NeedsInput,
    NotReady,
    NotSent,
    ProtocolStatus,
    RefusalKind,
    Refused,
    Reply,
    SessionLost,
    Stability,
    Throttled,
    ToolResult,
    Working,
    WrongProtocol,
)
from adapters.mcp_2025_11_25 import MAX_COURTESIES, MAX_PAGES, Mcp20251125
from tests.adapters.mcp_peers import (
    ACCEPTED,
    CALL,
    HANDLE,
    LEFT_OUT,
    RELATED,
    TASK_ID,
    Playback,
    as_events,
    as_json,
    elicitation,
    plain,
    task,
)

pytestmark = pytest.mark.asyncio

ADAPTER = Mcp20251125()
TOLD = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tasks": {"requests": {"tools": {"call": {}}}, "list": {}, "cancel": {}}},
    "serverInfo": {"name": "py1", "version": "1.30.0"},
}
DONE = {"content": [{"type": "text", "text": "é✅任务"}], "isError": False, "_meta": RELATED}
PING = {"jsonrpc": "2.0", "id": "s1", "method": "ping"}
SAMPLING = {"jsonrpc": "2.0", "id": "s2", "method": "sampling/createMessage", "params": {}}
STATUS_NOTE = {"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": task(status="completed")}


def look(peer, *, expect_question=False):
    return ADAPTER.look(peer.wire(), HANDLE, expect_question=expect_question)


def labels(found):
    return [exchange.label for exchange in found.exchanges]


def broken_stream(message):
    return as_events(cut=True)(message)


class TestPromises:
    async def test_the_version_is_experimental_and_its_cancel_is_final(self):
        """N1, C2."""
        promises = Mcp20251125.promises

        assert promises.stability is Stability.EXPERIMENTAL
        assert promises.cancel_ack_is_terminal
        assert promises.needs_session
        assert not promises.answers_repeatable
        assert not promises.disconnect_cancels_request


class TestOpen:
    async def test_the_session_comes_from_the_header_and_goes_with_what_follows(self):
        peer = Playback(as_events({"result": TOLD}, headers={"mcp-session-id": "s-9"}), ACCEPTED)

        opened = await ADAPTER.open(peer.wire())

        assert opened.session == "s-9"
        assert opened.capabilities.creates_tasks
        assert [message["method"] for message in peer.heard] == ["initialize", "notifications/initialized"]
        assert "mcp-session-id" not in peer.headers[0]
        assert (peer.headers[1]["mcp-session-id"], peer.headers[1]["mcp-protocol-version"]) == ("s-9", "2025-11-25")
        assert peer.headers[0]["accept"] == "application/json, text/event-stream"

    async def test_a_server_may_give_no_session(self):
        peer = Playback(as_json(result=TOLD), ACCEPTED)

        assert (await ADAPTER.open(peer.wire())).session is None

    async def test_another_version_is_refused_before_anything_else_is_said(self):
        """B111, N1."""
        peer = Playback(as_json(result=TOLD | {"protocolVersion": "2026-07-28"}))

        with pytest.raises(WrongProtocol) as caught:
            await ADAPTER.open(peer.wire())

        assert len(peer.heard) == 1
        assert labels(caught.value) == ["initialize"]

    async def test_a_session_id_that_cannot_be_sent_back_is_unusable(self):
        peer = Playback(as_json(result=TOLD, headers={"mcp-session-id": "a b"}), ACCEPTED)

        with pytest.raises(BrokenPeer):
            await ADAPTER.open(peer.wire())


class TestNegotiate:
    async def test_every_page_of_tools_is_read(self):
        pages = [{"tools": [{"name": "a"}], "nextCursor": "c1"}, {"tools": [{"name": "b"}]}]
        peer = Playback(as_json(result=TOLD), ACCEPTED, *(as_json(result=page) for page in pages))

        found = await ADAPTER.negotiate(peer.wire())

        assert [tool.name for tool in found.tools] == ["a", "b"]
        assert [message["params"] for message in peer.heard[2:]] == [{}, {"cursor": "c1"}]

    async def test_a_list_without_end_is_given_up(self):
        page = as_json(result={"tools": [], "nextCursor": "again"})
        peer = Playback(as_json(result=TOLD), ACCEPTED, *[page] * (MAX_PAGES + 5))

        with pytest.raises(BrokenPeer):
            await ADAPTER.negotiate(peer.wire())

        assert len(peer.heard) == MAX_PAGES + 2


class TestSubmit:
    async def test_two_submits_of_one_call_are_the_same_bytes(self):
        """X2."""
        peer = Playback(*[as_json(result={"task": task()})] * 2)

        await ADAPTER.submit(peer.wire(), HANDLE, CALL)
        seen = await ADAPTER.submit(peer.wire(), HANDLE, CALL)

        assert peer.heard[0] == peer.heard[1]
        assert isinstance(seen, Working)
        assert labels(seen) == ["tools/call"]

    async def test_arguments_that_are_no_json_are_never_sent(self):
        peer = Playback()
        broken = type(CALL)(submission_key="k", tool="t", arguments=b'{"a":', ttl_ms=None)

        with pytest.raises(Refused) as caught:
            await ADAPTER.submit(peer.wire(), HANDLE, broken)

        assert caught.value.kind is RefusalKind.REQUEST
        assert peer.heard == []

    @pytest.mark.parametrize("answer", [as_events(), broken_stream], ids=["B112", "broken"])
    async def test_a_stream_that_ends_without_the_answer_leaves_the_submit_open(self, answer):
        with pytest.raises(MaybeSent) as caught:
            await ADAPTER.submit(Playback(answer).wire(), HANDLE, CALL)

        assert labels(caught.value) == ["tools/call"]

    async def test_an_error_inside_the_server_proves_nothing_about_the_submit(self):
        peer = Playback(as_json(error={"code": -32603, "message": "kaboom"}))

        with pytest.raises(BrokenPeer):
            await ADAPTER.submit(peer.wire(), HANDLE, CALL)

    async def test_an_unknown_tool_is_a_definite_refusal(self):
        peer = Playback(as_json(error={"code": -32602, "message": "Unknown tool: slow"}))

        with pytest.raises(Refused) as caught:
            await ADAPTER.submit(peer.wire(), HANDLE, CALL)

        assert (caught.value.kind, caught.value.code) == (RefusalKind.REQUEST, -32602)
        assert labels(caught.value) == ["tools/call"]

    async def test_received_is_not_done(self):
        """P3."""
        with pytest.raises(BrokenPeer):
            await ADAPTER.submit(Playback(ACCEPTED).wire(), HANDLE, CALL)

    async def test_a_broken_connection_may_have_carried_the_submit(self):
        def hang_up(_message):
            raise httpx.RemoteProtocolError("hung up")

        with pytest.raises(MaybeSent):
            await ADAPTER.submit(Playback(hang_up).wire(), HANDLE, CALL)


class TestLook:
    @pytest.mark.parametrize("answer", [as_json(result=task()), as_events({"result": task()})], ids=["json", "events"])
    async def test_an_answer_may_be_json_or_an_event_stream(self, answer):
        seen = await look(Playback(answer))

        assert isinstance(seen, Working)
        assert labels(seen) == ["tasks/get"]

    async def test_an_answer_may_come_in_single_bytes(self):
        """B116, B117."""
        peer = Playback(as_events({"result": task(statusMessage="é✅任务")}, piece_bytes=1))

        seen = await look(peer)

        assert isinstance(seen, Working)
        assert seen.task.message == "é✅任务"

    async def test_the_answer_is_found_among_other_messages_which_are_answered(self):
        """B120, B026: a pushed status is not an answer."""
        other = {"jsonrpc": "2.0", "id": "not-ours", "result": task(status="completed")}
        answer = as_events(PING, SAMPLING, STATUS_NOTE, other, {"result": task()})
        peer = Playback(answer, ACCEPTED, ACCEPTED)

        seen = await look(peer)

        assert isinstance(seen, Working)
        assert peer.heard[1] == {"jsonrpc": "2.0", "id": "s1", "result": {}}
        assert (peer.heard[2]["id"], peer.heard[2]["error"]["code"]) == ("s2", -32601)

    async def test_a_server_that_talks_on_gets_few_courtesies(self):
        """P2."""
        peer = Playback(as_events(*[PING] * 20, {"result": task()}), *[plain(500)] * 20)

        seen = await look(peer)

        assert isinstance(seen, Working)
        assert len(peer.heard) == 1 + MAX_COURTESIES

    async def test_unknown_is_absent(self):
        """X1."""
        peer = Playback(as_json(error={"code": -32602, "message": "Task not found"}))

        seen = await look(peer)

        assert isinstance(seen, Absent)
        assert not seen.by_key
        assert labels(seen) == ["tasks/get"]

    @pytest.mark.parametrize(
        "answer",
        [
            plain(404),
            as_json(error={"code": -32600, "message": "Session not found"}, status=404),
            as_json(error={"code": -32000, "message": "Bad Request: No valid session ID provided"}, status=400),
        ],
        ids=["B109", "B106", "everything"],
    )
    async def test_a_lost_session_is_told_from_a_lost_task(self, answer):
        with pytest.raises(SessionLost):
            await look(Playback(answer))

    async def test_a_404_without_a_session_is_an_admins_business(self):
        with pytest.raises(Refused) as caught:
            await ADAPTER.look(Playback(plain(404)).wire(), Handle(task_id=TASK_ID), expect_question=False)

        assert caught.value.kind is RefusalKind.ADMIN

    @pytest.mark.parametrize(
        "answer, error",
        [
            (plain(429, b"slow down", **{"retry-after": "120"}), Throttled),
            (plain(503, b"", **{"retry-after": "7"}), BrokenPeer),
        ],
        ids=["B042", "B043"],
    )
    async def test_a_busy_server_names_its_floor(self, answer, error):
        """F10, P1."""
        with pytest.raises(error) as caught:
            await look(Playback(answer))

        assert caught.value.retry_after_s in {120.0, 7.0}

    @pytest.mark.parametrize("status", [401, 403])
    async def test_a_closed_door_is_an_admins_business(self, status):
        """P5."""
        with pytest.raises(Refused) as caught:
            await look(Playback(plain(status)))

        assert caught.value.kind is RefusalKind.ADMIN

    async def test_evidence_goes_with_an_answer_that_means_nothing(self):
        """L7, B003."""
        with pytest.raises(WrongProtocol) as caught:
            await look(Playback(as_json(result=task(status="COMPLETED"))))

        assert b"COMPLETED" in caught.value.exchanges[0].body

    async def test_without_a_task_nothing_is_asked(self):
        peer = Playback()

        with pytest.raises(NotSent):
            await ADAPTER.look(peer.wire(), Handle(session="s"), expect_question=False)

        assert peer.heard == []

    async def test_no_request_id_is_used_twice(self):
        peer = Playback(*[as_json(result=task())] * 3)

        for _ in range(3):
            await look(peer)

        assert len({message["id"] for message in peer.heard}) == 3


class TestQuestion:
    WAITS = staticmethod(as_json(result=task(status="input_required")))

    async def test_the_question_is_read_from_the_stream_of_the_result(self):
        """B019."""
        peer = Playback(self.WAITS, as_events(elicitation(), cut=True), ACCEPTED)

        seen = await look(peer, expect_question=True)

        assert isinstance(seen, NeedsInput)
        assert [question.key for question in seen.questions] == ["0"]
        assert labels(seen) == ["tasks/get", "tasks/result"]

    async def test_the_server_is_told_that_nobody_reads_the_stream_any_more(self):
        """Else the official Python SDK sends the next question there."""
        peer = Playback(self.WAITS, as_events(elicitation()), ACCEPTED)

        await look(peer, expect_question=True)

        cancelled = peer.heard[2]
        assert cancelled["method"] == "notifications/cancelled"
        assert cancelled["params"]["requestId"] == peer.heard[1]["id"]

    async def test_a_question_is_not_lost_to_a_failing_goodbye(self):
        peer = Playback(self.WAITS, as_events(elicitation()), plain(500))

        seen = await look(peer, expect_question=True)

        assert isinstance(seen, NeedsInput)
        assert len(seen.questions) == 1

    async def test_nobody_listens_for_a_question_that_is_already_held(self):
        """A question is delivered once: a second stream would be for nothing."""
        peer = Playback(self.WAITS)

        seen = await look(peer, expect_question=False)

        assert isinstance(seen, NeedsInput)
        assert seen.questions == ()
        assert len(peer.heard) == 1

    async def test_a_silent_stream_is_no_question_and_no_error(self):
        """B019: never a permanent hang."""
        peer = Playback(self.WAITS, as_events(cut=True), ACCEPTED)

        seen = await look(peer, expect_question=True)

        assert isinstance(seen, NeedsInput)
        assert seen.questions == ()
        assert labels(seen) == ["tasks/get", "tasks/result"]

    async def test_a_final_answer_on_the_stream_means_look_again(self):
        ended = as_json(result=task(status="completed"))
        peer = Playback(self.WAITS, as_events({"result": DONE}), ended)

        seen = await look(peer, expect_question=True)

        assert isinstance(seen, Ended)
        assert labels(seen) == ["tasks/get", "tasks/result", "tasks/get"]

    async def test_a_foreign_question_is_refused_and_not_shown(self):
        """B033."""
        foreign = elicitation(7, meta={"io.modelcontextprotocol/related-task": {"taskId": "another"}})
        peer = Playback(self.WAITS, as_events(foreign, elicitation(8)), ACCEPTED, ACCEPTED)

        seen = await look(peer, expect_question=True)

        assert isinstance(seen, NeedsInput)
        assert [question.key for question in seen.questions] == ["8"]
        assert (peer.heard[3]["id"], peer.heard[3]["error"]["code"]) == (7, -32602)

    async def test_a_question_that_cannot_be_shown_is_evidence_and_stays_unanswered(self):
        peer = Playback(self.WAITS, as_events(elicitation(message=LEFT_OUT)), ACCEPTED)

        with pytest.raises(WrongProtocol) as caught:
            await look(peer, expect_question=True)

        assert labels(caught.value) == ["tasks/get", "tasks/result"]
        assert all("error" not in message for message in peer.heard)
        assert peer.heard[-1]["method"] == "notifications/cancelled"

    async def test_a_question_is_kept_although_the_stream_gave_an_answer_too(self):
        """A server that does not block on `tasks/result` answers "not completed yet" behind its question."""
        not_yet = {"error": {"code": -32602, "message": "Task not completed yet"}}
        peer = Playback(self.WAITS, as_events(elicitation(), not_yet), self.WAITS)

        seen = await look(peer, expect_question=True)

        assert isinstance(seen, NeedsInput)
        assert len(seen.questions) == 1

    async def test_a_question_on_the_stream_of_the_look_needs_no_other_stream(self):
        peer = Playback(as_events(elicitation(), {"result": task(status="input_required")}))

        seen = await look(peer, expect_question=True)

        assert isinstance(seen, NeedsInput)
        assert len(seen.questions) == 1
        assert len(peer.heard) == 1

    async def test_a_throttled_stream_is_throttled(self):
        with pytest.raises(Throttled):
            await look(Playback(self.WAITS, plain(429)), expect_question=True)


class TestFind:
    @staticmethod
    def find(peer, lookup=Lookup.SESSION_LIST):
        return ADAPTER.find(peer.wire(), HANDLE, CALL, lookup)

    async def test_the_one_task_of_the_session_is_the_lost_one(self):
        """L3, L4."""
        pages = [{"tasks": [], "nextCursor": "2"}, {"tasks": [task()]}]
        peer = Playback(*(as_json(result=page) for page in pages))

        seen = await self.find(peer)

        assert isinstance(seen, Working)
        assert seen.task.task_id == TASK_ID
        assert peer.heard[1]["params"] == {"cursor": "2"}

    async def test_an_empty_session_is_the_servers_word_that_there_is_none(self):
        seen = await self.find(Playback(as_json(result={"tasks": []})))

        assert isinstance(seen, Absent)
        assert seen.by_key

    async def test_two_tasks_in_a_session_of_ours_are_believed_in_neither(self):
        tasks = [task(), task(taskId="another")]

        with pytest.raises(WrongProtocol):
            await self.find(Playback(as_json(result={"tasks": tasks})))

    async def test_a_server_without_a_list_has_no_lookup(self):
        with pytest.raises(Refused) as caught:
            await self.find(Playback(as_json(error={"code": -32601, "message": "Method not found"})))

        assert caught.value.kind is RefusalKind.ADMIN

    async def test_a_lookup_this_protocol_lacks_is_refused_unsent(self):
        peer = Playback()

        with pytest.raises(Refused):
            await self.find(peer, Lookup.SAME_KEY_REPLAY)

        assert peer.heard == []


class TestAnswer:
    async def test_an_answer_is_a_response_that_the_server_accepts(self):
        peer = Playback(ACCEPTED)
        reply = Reply(key="0", action=Action.ACCEPT, content=b'{"ok": true}')

        found = await ADAPTER.answer(peer.wire(), HANDLE, [reply])

        assert isinstance(found, Delivered)
        assert labels(found) == ["elicitation/create"]
        assert (peer.heard[0]["id"], peer.headers[0]["mcp-session-id"]) == (0, "s-1")

    @pytest.mark.parametrize(
        "answer, error",
        [(plain(404), SessionLost), (plain(500), BrokenPeer), (plain(429), Throttled), (plain(403), Refused)],
    )
    async def test_a_refused_delivery_is_not_delivered(self, answer, error):
        with pytest.raises(error):
            await ADAPTER.answer(Playback(answer).wire(), HANDLE, [Reply(key="0", action=Action.DECLINE)])

    @pytest.mark.parametrize("key", ["1.5", "null", "[]", "{", "true"])
    async def test_a_key_that_no_server_gave_is_never_sent(self, key):
        peer = Playback()

        with pytest.raises(Refused):
            await ADAPTER.answer(peer.wire(), HANDLE, [Reply(key=key, action=Action.DECLINE)])

        assert peer.heard == []


class TestCancel:
    async def test_a_cancel_is_answered_with_the_task(self):
        """C2."""
        peer = Playback(as_json(result=task(status="cancelled")))

        found = await ADAPTER.cancel(peer.wire(), HANDLE)

        assert isinstance(found, CancelAnswer)
        assert labels(found) == ["tasks/cancel"]
        assert peer.heard[0]["params"] == {"taskId": TASK_ID}

    async def test_a_lost_acknowledgement_proves_nothing(self):
        """F5, B186."""
        with pytest.raises(MaybeSent):
            await ADAPTER.cancel(Playback(broken_stream).wire(), HANDLE)


class TestFetch:
    @staticmethod
    def fetch(peer, status=ProtocolStatus.COMPLETED):
        return ADAPTER.fetch(peer.wire(), HANDLE, status)

    @pytest.mark.parametrize("size", [1, 7, 65_536])
    async def test_the_bytes_do_not_depend_on_the_packets(self, size):
        """B117, R8."""
        found = await self.fetch(Playback(as_events({"result": DONE}, piece_bytes=size)))

        assert isinstance(found, ToolResult)
        assert found.raw == json.dumps(DONE).encode()
        assert found.value == DONE
        assert labels(found) == ["tasks/result"]

    async def test_an_answer_that_is_cut_off_is_no_result(self):
        """F6."""

        def cut(message):
            whole = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": DONE}).encode()
            return httpx.Response(200, content=whole[:-20], headers={"content-type": "application/json"})

        with pytest.raises(BrokenPeer):
            await self.fetch(Playback(cut))

    async def test_a_result_over_the_cap_is_no_result(self):
        """B062."""
        huge = {"content": [{"type": "text", "text": "x" * 9_000_000}]}

        with pytest.raises(BrokenPeer):
            await self.fetch(Playback(as_json(result=huge)))

    async def test_a_completed_task_without_a_result_is_not_ready(self):
        """B046."""
        peer = Playback(as_json(error={"code": -32602, "message": "Task has expired"}))

        found = await self.fetch(peer)

        assert isinstance(found, NotReady)
        assert labels(found) == ["tasks/result"]

    async def test_a_failed_task_has_its_error_as_result(self):
        """B023, R2."""
        peer = Playback(as_json(error={"code": -32603, "message": "no result stored"}))

        found = await self.fetch(peer, ProtocolStatus.FAILED)

        assert isinstance(found, ToolResult)
        assert found.is_error
        assert json.loads(found.raw) == {"code": -32603, "message": "no result stored"}


class TestAnyBytes:
    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b"[]",
            b"null",
            b'{"jsonrpc":"2.0"}',
            b'{"jsonrpc":"2.0","id":1,"result":{},"result":{}}',
            b'{"jsonrpc":"2.0","id":1,"error":7}',
            b"\xff\xfe",
            b"[" * 100_000,
            b"<html>gateway</html>",
        ],
        ids=lambda body: repr(body[:24]),
    )
    @pytest.mark.parametrize("media_type", ["application/json", "text/event-stream", "text/html"])
    @pytest.mark.parametrize("status", [200, 400, 502])
    async def test_no_body_brings_an_error_from_outside_the_tree(self, body, media_type, status):
        framed = b"data: " + body + b"\n\n" if media_type == "text/event-stream" else body
        verbs = [
            ADAPTER.open,
            lambda wire: ADAPTER.submit(wire, HANDLE, CALL),
            lambda wire: ADAPTER.find(wire, HANDLE, CALL, Lookup.SESSION_LIST),
            lambda wire: ADAPTER.look(wire, HANDLE, expect_question=True),
            lambda wire: ADAPTER.cancel(wire, HANDLE),
            lambda wire: ADAPTER.fetch(wire, HANDLE, ProtocolStatus.COMPLETED),
        ]
        for verb in verbs:
            peer = Playback(plain(status, framed, **{"content-type": media_type}))

            with pytest.raises(AdapterError) as caught:
                await verb(peer.wire())

            assert caught.value.exchanges, "an error without its evidence"


async def test_a_stream_that_drips_comments_ends_with_the_requests_time(monkeypatch):
    """B114: comments do not extend the deadline."""

    class Drip(httpx.AsyncByteStream):
        async def __aiter__(self):
            while True:
                yield b": ping\n\n"
                await asyncio.sleep(0.01)

    monkeypatch.setattr("adapters.mcp_2025_11_25.QUESTION_WAIT_S", 0.2)
    waits = as_json(result=task(status="input_required"))
    drip = lambda _message: httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Drip())

    seen = await asyncio.wait_for(look(Playback(waits, drip, ACCEPTED), expect_question=True), 5)

    assert isinstance(seen, NeedsInput)
    assert seen.questions == ()


async def test_an_answer_counts_even_if_its_stream_stays_open():
    """A server should close the stream after its answer; one that does not costs no time-out."""

    class Open(httpx.AsyncByteStream):
        def __init__(self, message):
            self._answer = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": task()}).encode()

        async def __aiter__(self):
            yield b"data: " + self._answer + b"\n\n"
            await asyncio.sleep(60)

    stays = lambda message: httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Open(message))

    seen = await asyncio.wait_for(look(Playback(stays)), 5)

    assert isinstance(seen, Working)


async def test_the_id_of_a_question_may_equal_one_of_ours():
    """A message with a method is a request, whatever its id."""
    adapter = Mcp20251125(new_id=lambda: "same")
    own_id = elicitation("same")
    peer = Playback(as_events(own_id, {"result": task(status="input_required")}))

    seen = await adapter.look(peer.wire(), HANDLE, expect_question=True)

    assert isinstance(seen, NeedsInput)
    assert [question.key for question in seen.questions] == ['"same"']
