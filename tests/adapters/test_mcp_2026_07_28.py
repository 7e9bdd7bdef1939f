"""Each verb over scripted answers: what is sent, which answers are found, and what an error proves."""

import json

import httpx
import pytest

from adapters.contract import (
    Absent,
    Action,
    BrokenPeer,
    Call,
    CancelAnswer,
    Continuation,
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
    Stability,
    Throttled,
    ToolResult,
    Working,
    WrongProtocol,
)
from adapters.mcp_2026_07_28 import MAX_PAGES, Mcp20260728
from tests.adapters.mcp_peers import Playback, as_events, as_json, plain
from tests.adapters.test_mcp_2026_07_28_codec import CALL, DONE, ELICIT, META, TASK_ID, task

pytestmark = pytest.mark.asyncio

ADAPTER = Mcp20260728()
HANDLE = Handle(task_id=TASK_ID)
TOLD = {
    "_meta": META,
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    "resultType": "complete",
}
ACK = {"resultType": "complete", "_meta": META}
CREATED = task(resultType="task")
PROGRESS = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 0.5}}
SAMPLING = {"jsonrpc": "2.0", "id": 0, "method": "sampling/createMessage", "params": {}}


def look(peer):
    return ADAPTER.look(peer.wire(), HANDLE, expect_question=True)


def submit(peer, call=CALL):
    return ADAPTER.submit(peer.wire(), Handle(), call)


def refused(code, status, **more):
    return as_json(error={"code": code, "message": "no"} | more, status=status)


def raw_events(*events):
    """Answer with exactly these bytes as an event stream."""

    def answer(message):
        body = b"".join(events).replace(b"$id", json.dumps(message["id"]).encode())
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body)

    return answer


def event(**message):
    return b"data: " + json.dumps({"jsonrpc": "2.0"} | message).replace('"$id"', "$id").encode() + b"\n\n"


class TestPromises:
    async def test_the_version_is_stable_and_its_acknowledgements_prove_nothing(self):
        """N1, C5, I7, C8."""
        promises = ADAPTER.promises

        assert promises.protocol_version == "2026-07-28"
        assert promises.stability is Stability.STABLE
        assert not promises.needs_session
        assert not promises.cancel_ack_is_terminal
        assert promises.result_inline
        assert promises.answers_repeatable
        assert promises.input_before_task
        assert promises.disconnect_cancels_request
        assert promises.lookups == {Lookup.LOOKUP_TOOL, Lookup.NONE}


class TestNegotiate:
    async def test_discovery_and_every_page_of_tools(self):
        pages = [{"tools": [{"name": "a"}], "nextCursor": "c1"}, {"tools": [{"name": "b"}]}]
        peer = Playback(as_json(result=TOLD), *(as_json(result=page) for page in pages))

        found = await ADAPTER.negotiate(peer.wire())

        assert [tool.name for tool in found.tools] == ["a", "b"]
        assert [message["method"] for message in peer.heard] == ["server/discover", "tools/list", "tools/list"]
        assert [message["params"].get("cursor") for message in peer.heard] == [None, None, "c1"]
        assert [exchange.label for exchange in found.exchanges] == ["server/discover", "tools/list", "tools/list"]

    async def test_a_list_without_end_is_given_up(self):
        page = as_json(result={"tools": [], "nextCursor": "again"})
        peer = Playback(as_json(result=TOLD), *[page] * (MAX_PAGES + 5))

        with pytest.raises(BrokenPeer):
            await ADAPTER.negotiate(peer.wire())

        assert len(peer.heard) == MAX_PAGES + 1

    async def test_a_tool_that_is_left_out_is_logged(self, caplog):
        schema = {"properties": {"n": {"type": "number", "x-mcp-header": "N"}}}
        peer = Playback(as_json(result=TOLD), as_json(result={"tools": [{"name": "bad", "inputSchema": schema}]}))

        found = await ADAPTER.negotiate(peer.wire())

        assert found.tools == ()
        assert [record.why for record in caplog.records] == list(found.left_out)

    @pytest.mark.parametrize(
        "answer",
        [
            refused(-32022, 400, data={"supported": ["2025-11-25"], "requested": "2026-07-28"}),
            refused(-32601, 404),
            as_json(error={"code": -32600, "message": "Bad Request: Missing session ID"}, status=400),
            plain(400, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Server not initialized"}}'),
            plain(405),
            plain(404, b"Not Found"),
        ],
        ids=["other version", "no discovery", "sessions", "not initialized", "405", "404"],
    )
    async def test_a_server_of_another_era_is_refused_and_nothing_else_is_said(self, answer):
        """N1, N3."""
        peer = Playback(answer)

        with pytest.raises(Refused):
            await ADAPTER.negotiate(peer.wire())

        assert len(peer.heard) == 1

    async def test_a_discovery_without_our_version_is_another_protocol(self):
        peer = Playback(as_json(result=TOLD | {"supportedVersions": ["2027-01-01"]}))

        with pytest.raises(WrongProtocol) as caught:
            await ADAPTER.open(peer.wire())

        assert [exchange.label for exchange in caught.value.exchanges] == ["server/discover"]


class TestSubmit:
    async def test_the_headers_repeat_the_body(self):
        schema = {"properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
        call = Call(
            submission_key="k", tool="größe", arguments='{"region":"é"}'.encode(), ttl_ms=None, input_schema=schema
        )
        peer = Playback(as_json(result=CREATED))

        await submit(peer, call)

        (headers,) = peer.headers
        assert headers["mcp-protocol-version"] == "2026-07-28"
        assert headers["mcp-method"] == "tools/call"
        assert headers["mcp-name"] == "=?base64?Z3LDtsOfZQ==?="
        assert headers["mcp-param-region"] == "=?base64?w6k=?="
        assert headers["accept"] == "application/json, text/event-stream"
        assert "mcp-session-id" not in headers

    async def test_a_task(self):
        peer = Playback(as_json(result=CREATED))

        seen = await submit(peer)

        assert isinstance(seen, Working)
        assert (seen.task.task_id, len(seen.exchanges)) == (TASK_ID, 1)

    async def test_an_answer_behind_news_on_a_stream(self):
        """Requests of a server do not exist here: what is sent all the same is not answered."""
        peer = Playback(as_events(PROGRESS, SAMPLING, {"result": CREATED}))

        assert isinstance(await submit(peer), Working)
        assert len(peer.heard) == 1

    async def test_to_go_on_is_another_request_under_the_same_key(self):
        asked = {"resultType": "input_required", "inputRequests": {"a": ELICIT}, "requestState": "v1.x"}
        peer = Playback(as_json(result=asked), as_json(result=CREATED))

        first = await submit(peer)
        reply = Reply(key=first.questions[0].key, action=Action.ACCEPT, content=b'{"ok":true}')
        goes_on = Continuation(number=1, state=first.continuation_state, replies=(reply,))
        call = Call(submission_key="key-1", tool="slow", arguments=b"{}", ttl_ms=None, continuation=goes_on)
        seen = await submit(peer, call)

        assert isinstance(first, NeedsInput)
        assert isinstance(seen, Working)
        one, two = peer.heard
        assert one["id"] != two["id"]
        assert two["params"]["requestState"] == "v1.x"
        assert two["params"]["inputResponses"] == {"a": {"action": "accept", "content": {"ok": True}}}

    async def test_an_event_that_cannot_be_read_is_no_reason_to_leave(self):
        """C8: to leave the stream would cancel the call whose answer comes next."""
        events = (b"data: {broken\n\n", b'data: {"a": 1}\n\n', event(id="$id", result=CREATED))

        assert isinstance(await submit(Playback(raw_events(*events))), Working)

    @pytest.mark.parametrize(
        "events, error",
        [
            ((), MaybeSent),
            ((event(id=7, result=CREATED),), MaybeSent),
            ((b"data: {broken\n\n",), BrokenPeer),
            ((b'data: {"a": 1}\n\n',), WrongProtocol),
        ],
        ids=["nothing", "another id", "broken", "no message"],
    )
    async def test_a_stream_without_the_answer_proves_nothing(self, events, error):
        """L4, B112."""
        with pytest.raises(error) as caught:
            await submit(Playback(raw_events(*events)))

        assert len(caught.value.exchanges) == 1

    @pytest.mark.parametrize(
        "answer, kind",
        [
            (refused(-32020, 400), RefusalKind.ADMIN),
            (refused(-32021, 400, data={"requiredCapabilities": {}}), RefusalKind.ADMIN),
            (refused(-32022, 400), RefusalKind.ADMIN),
            (refused(-32601, 404), RefusalKind.ADMIN),
            (refused(-32601, 200), RefusalKind.ADMIN),
            (refused(-32602, 400), RefusalKind.REQUEST),
            (refused(-32602, 200), RefusalKind.REQUEST),
            (plain(401), RefusalKind.ADMIN),
            (plain(403), RefusalKind.ADMIN),
            (plain(307, location="/mcp/"), RefusalKind.ADMIN),
        ],
    )
    async def test_a_definite_no_created_nothing(self, answer, kind):
        """B018; the body decides before the status."""
        with pytest.raises(Refused) as caught:
            await submit(Playback(answer))

        assert caught.value.kind is kind

    @pytest.mark.parametrize(
        "answer, error",
        [
            (refused(-32603, 500), BrokenPeer),
            (refused(-32603, 200), BrokenPeer),
            (plain(502, b"<html>"), BrokenPeer),
            (plain(202), BrokenPeer),
            (plain(429), Throttled),
            (as_json(result=DONE | {"resultType": "later"}), WrongProtocol),
            (plain(200, b'{"jsonrpc":"2.0","id":1,"result":{', **{"content-type": "application/json"}), BrokenPeer),
        ],
    )
    async def test_anything_else_is_told_as_what_it_is(self, answer, error):
        """P3, L4."""
        with pytest.raises(error):
            await submit(Playback(answer))

    @pytest.mark.parametrize(
        "changes, kind",
        [
            ({"arguments": b"{"}, RefusalKind.REQUEST),
            ({"arguments": b'{"n":1.5}'}, RefusalKind.REQUEST),
            ({"continuation": Continuation(number=1, state="not json", replies=())}, RefusalKind.REQUEST),
            ({"input_schema": {"x-mcp-header": "N"}}, RefusalKind.ADMIN),
        ],
        ids=["arguments", "unfit argument", "state", "marks"],
    )
    async def test_what_cannot_be_sent_is_refused_before_a_byte_of_it_is(self, changes, kind):
        schema = {"properties": {"n": {"type": "integer", "x-mcp-header": "N"}}}
        peer = Playback()
        call = {"submission_key": "k", "tool": "t", "arguments": b"{}", "ttl_ms": None, "input_schema": schema}

        with pytest.raises(Refused) as caught:
            await submit(peer, Call(**(call | changes)))

        assert caught.value.kind is kind
        assert peer.heard == []


class TestLook:
    async def test_the_task_is_named_in_body_and_header(self):
        peer = Playback(as_json(result=task()))

        await look(peer)

        assert peer.heard[0]["params"]["taskId"] == peer.headers[0]["mcp-name"] == TASK_ID
        assert peer.headers[0]["mcp-method"] == "tasks/get"

    @pytest.mark.parametrize("status", [200, 400, 404])
    async def test_not_found_is_told_by_the_body(self, status):
        """X1: Python says 400, TypeScript 200."""
        seen = await look(Playback(refused(-32602, status)))

        assert isinstance(seen, Absent)
        assert seen.exchanges[0].http_status == status

    async def test_a_404_without_a_body_is_no_absence(self):
        with pytest.raises(Refused):
            await look(Playback(plain(404)))

    async def test_status_questions_and_result_come_with_one_request(self):
        done = as_json(result=task(status="completed", result=DONE))
        peer = Playback(as_json(result=task(status="input_required", inputRequests={"q": ELICIT})), done)

        asked, ended = await look(peer), await look(peer)

        assert isinstance(asked, NeedsInput)
        assert isinstance(ended, Ended)
        assert isinstance(ended.result, ToolResult)
        assert len(peer.heard) == 2

    async def test_no_task_is_known_yet(self):
        for verb in (
            ADAPTER.look(Playback().wire(), Handle(), expect_question=False),
            ADAPTER.cancel(Playback().wire(), Handle()),
            ADAPTER.fetch(Playback().wire(), Handle(), ProtocolStatus.COMPLETED),
            ADAPTER.answer(Playback().wire(), Handle(), []),
        ):
            with pytest.raises(NotSent):
                await verb

    async def test_a_broken_task_keeps_its_evidence(self):
        """B022, L7."""
        with pytest.raises(BrokenPeer) as caught:
            await look(Playback(as_json(result=task(status="completed"))))

        assert caught.value.exchanges[0].label == "tasks/get"


class TestAnswer:
    async def test_all_keys_of_a_round_go_in_one_request(self):
        """B175."""
        replies = [Reply(key='"a"', action=Action.ACCEPT, content=b"{}"), Reply(key='"b"', action=Action.DISMISS)]
        peer = Playback(as_json(result=ACK))

        delivered = await ADAPTER.answer(peer.wire(), HANDLE, replies)

        assert isinstance(delivered, Delivered)
        (sent,) = peer.heard
        assert sent["method"] == "tasks/update"
        assert sent["params"]["inputResponses"] == {"a": {"action": "accept", "content": {}}, "b": {"action": "cancel"}}
        assert peer.headers[0]["mcp-name"] == TASK_ID

    async def test_an_answer_that_cannot_be_written_is_not_sent(self):
        peer = Playback()

        with pytest.raises(Refused):
            await ADAPTER.answer(peer.wire(), HANDLE, [Reply(key="7", action=Action.DECLINE)])

        assert peer.heard == []

    @pytest.mark.parametrize("answer, error", [(refused(-32602, 400), Refused), (plain(202), BrokenPeer)])
    async def test_what_is_no_acknowledgement_is_an_error(self, answer, error):
        with pytest.raises(error):
            await ADAPTER.answer(Playback(answer).wire(), HANDLE, [Reply(key='"a"', action=Action.DECLINE)])


class TestCancelAndFetch:
    async def test_a_cancel_is_acknowledged(self):
        """C5."""
        peer = Playback(as_json(result=ACK))

        answer = await ADAPTER.cancel(peer.wire(), HANDLE)

        assert isinstance(answer, CancelAnswer)
        assert answer.task is None
        assert peer.heard[0]["method"] == "tasks/cancel"

    async def test_a_fetch_is_a_look_for_the_result(self):
        peer = Playback(as_json(result=task(status="completed", result=DONE)), refused(-32602, 400))

        found = await ADAPTER.fetch(peer.wire(), HANDLE, ProtocolStatus.COMPLETED)
        gone = await ADAPTER.fetch(peer.wire(), HANDLE, ProtocolStatus.COMPLETED)

        assert isinstance(found, ToolResult)
        assert len(found.exchanges) == 1
        assert isinstance(gone, NotReady)
        assert [message["method"] for message in peer.heard] == ["tasks/get"] * 2

    async def test_there_is_no_lookup_to_ask(self):
        """B203, X2."""
        peer = Playback()

        with pytest.raises(Refused) as caught:
            await ADAPTER.find(peer.wire(), Handle(), CALL, Lookup.SAME_KEY_REPLAY)

        assert caught.value.kind is RefusalKind.ADMIN
        assert peer.heard == []
