"""Streams of MCP 2025-11-25 that break off and are resumed, and the one on which a server speaks first."""

import contextlib
import json
from collections import deque

import httpx
import pytest

from adapters.contract import (
    AdapterError,
    Endpoint,
    Handle,
    Hinted,
    Listens,
    MaybeSent,
    NeedsInput,
    Refused,
    SessionLost,
    Working,
)
from adapters.http import HttpWire
from adapters.mcp_2025_11_25 import Mcp20251125
from adapters.mcp_2025_11_25_codec import call_id
from adapters.mcp_exchange import MAX_RESUMES
from tests.adapters.mcp_peers import CALL, HANDLE, LEFT_OUT, TASK_ID, elicitation, task
from tests.adapters.scripted import NOON, open_gate

pytestmark = pytest.mark.asyncio

ADAPTER = Mcp20251125()
SESSION = Handle(session="s-1")
WAITS = {"result": task(status="input_required")}
STRANGE = {"io.modelcontextprotocol/related-task": {"taskId": "another"}}


def event(message=None, *, event_id=None, retry_ms=None):
    """One event as a server writes it; without a message the priming event of a resumable stream."""
    lines = [f"id: {event_id}"] if event_id is not None else []
    lines += [f"retry: {retry_ms}"] if retry_ms is not None else []
    lines.append("data: " + ("" if message is None else json.dumps(message)))
    return ("\n".join(lines) + "\n\n").encode()


class Peer(httpx.AsyncBaseTransport):
    """Plays answers back: a status, a JSON-RPC part, or the pieces of a stream that then ends or breaks."""

    def __init__(self, *answers):
        self.answers = deque(answers)
        self.asked = []
        self.told = []
        self.ids = []

    async def handle_async_request(self, request):
        body = await request.aread()
        message = json.loads(body) if body else {}
        self.asked.append((request.method, request.headers.get("last-event-id"), message.get("method")))
        if request.method == "POST" and "method" not in message:
            self.told.append(message)
            return httpx.Response(202)
        self.ids.append(message.get("id"))
        answer = self.answers.popleft()
        if isinstance(answer, int):
            return httpx.Response(answer)
        if isinstance(answer, dict):
            return httpx.Response(200, json={"jsonrpc": "2.0", "id": message["id"]} | answer)
        pieces, breaks = answer
        return httpx.Response(
            200, headers={"content-type": "text/event-stream"}, stream=_Pieces(pieces(message.get("id")), breaks)
        )

    def wire(self):
        endpoint = Endpoint(url="http://127.0.0.1/mcp", allow_private=True)
        return HttpWire(transport=self, endpoint=endpoint, gate=open_gate, clock=lambda: NOON)


class _Pieces(httpx.AsyncByteStream):
    def __init__(self, pieces, breaks):
        self._pieces = pieces
        self._breaks = breaks

    async def __aiter__(self):
        for piece in self._pieces:
            yield piece
        if self._breaks:
            raise httpx.ReadError("gone")


def stream(*pieces, breaks=False):
    """An event stream of these pieces."""
    return lambda _request_id: pieces, breaks


class TestResuming:
    """SSE resumption: the server gave event ids, so the rest of a broken stream can be had."""

    @pytest.mark.parametrize("breaks", [False, True], ids=["closed", "broken"])
    async def test_the_answer_to_a_submit_is_had_from_the_resumed_stream(self, breaks):
        """L4: what would be a lost submit is none, and nothing was sent twice."""
        created = {"jsonrpc": "2.0", "id": call_id(CALL), "result": {"task": task()}}
        peer = Peer(stream(event(event_id="e-1"), breaks=breaks), stream(event(created, event_id="e-2")))

        seen = await ADAPTER.submit(peer.wire(), SESSION, CALL)

        assert isinstance(seen, Working)
        assert peer.asked == [("POST", None, "tools/call"), ("GET", "e-1", None)]
        assert len(seen.exchanges) == 2, "both streams are evidence"

    async def test_without_an_event_id_a_lost_submit_stays_lost(self):
        peer = Peer(stream(event({"jsonrpc": "2.0", "method": "notifications/message"})))

        with pytest.raises(MaybeSent):
            await ADAPTER.submit(peer.wire(), SESSION, CALL)

        assert [method for method, _, _ in peer.asked] == ["POST"]

    @pytest.mark.parametrize("refusal", [400, 404, 405, 500])
    async def test_a_server_that_does_not_resume_leaves_the_submit_as_lost_as_it_was(self, refusal):
        peer = Peer(stream(event(event_id="e-1")), refusal)

        with pytest.raises(MaybeSent):
            await ADAPTER.submit(peer.wire(), SESSION, CALL)

    async def test_streams_that_keep_breaking_are_given_up(self):
        """P2: each time costs a request."""
        peer = Peer(*[stream(event(event_id=f"e-{n}"), breaks=True) for n in range(MAX_RESUMES + 2)])

        with pytest.raises(MaybeSent) as caught:
            await ADAPTER.submit(peer.wire(), SESSION, CALL)

        assert [at for _, at, _ in peer.asked] == [None, "e-0", "e-1", "e-2"]
        assert len(caught.value.exchanges) == MAX_RESUMES + 1

    async def test_a_wish_to_stay_away_is_granted_within_the_requests_time(self, monkeypatch):
        """A server may ask for more time than the claim under which we ask has left."""
        monkeypatch.setattr("adapters.mcp_exchange.RESUME_WITHIN_S", 0.2)
        peer = Peer(stream(event(event_id="e-1", retry_ms=60_000)))

        with pytest.raises(MaybeSent):
            await ADAPTER.submit(peer.wire(), SESSION, CALL)

    async def test_a_question_that_broke_off_is_delivered_by_the_resumed_stream(self):
        peer = Peer(
            WAITS,
            stream(event(event_id="e-1"), breaks=True),
            stream(event(elicitation(), event_id="e-2")),
            202,
        )

        seen = await ADAPTER.look(peer.wire(), HANDLE, expect_question=True)

        assert isinstance(seen, NeedsInput)
        assert [question.key for question in seen.questions] == ["0"]

    async def test_b123_a_question_that_is_replayed_is_one_question(self):
        peer = Peer(
            stream(event(elicitation(), event_id="e-1"), breaks=True),
            stream(event(elicitation(), event_id="e-1"), event(elicitation(), event_id="e-1"), breaks=True),
        )
        rest = lambda _request_id: [event({"jsonrpc": "2.0", "id": peer.ids[0]} | WAITS, event_id="e-9")]
        peer.answers.append((rest, False))

        seen = await ADAPTER.look(peer.wire(), HANDLE, expect_question=False)

        assert isinstance(seen, NeedsInput)
        assert len(seen.questions) == 1


@contextlib.asynccontextmanager
async def listening(peer, handle=HANDLE, *, last_event_id=""):
    async with ADAPTER.listen(peer.wire(), handle, last_event_id=last_event_id, total_s=5) as standing:
        yield standing


async def everything(peer, handle=HANDLE, **named):
    async with listening(peer, handle, **named) as standing:
        return [heard async for heard in standing.heard()]


class TestStandingStream:
    async def test_the_adapter_says_that_it_listens(self):
        assert isinstance(ADAPTER, Listens)

    async def test_a_question_without_a_name_is_the_one_operation_of_the_session(self):
        """The id is 0 and there is no related task: what fastmcp 3.4.11 sends."""
        peer = Peer(stream(event(elicitation(0, meta=LEFT_OUT))))

        (heard,) = await everything(peer)

        assert (heard.question.key, heard.task_id, heard.event_id) == ("0", None, "")
        assert b"elicitation/create" in heard.exchange.body
        assert peer.asked == [("GET", None, None)]

    async def test_ids_may_repeat_and_each_message_has_its_own_evidence(self):
        peer = Peer(stream(event(elicitation(0, message="one")), event(elicitation(0, message="two"))))

        one, two = await everything(peer)

        assert [one.question.key, two.question.key] == ["0", "0"]
        assert one.question.digest != two.question.digest
        assert b"two" not in one.exchange.body
        assert b"one" not in two.exchange.body

    async def test_event_ids_tell_where_to_come_back(self):
        peer = Peer(stream(event(event_id="p"), event(elicitation(), event_id="e-7")))

        async with listening(peer, last_event_id="e-3") as standing:
            (heard,) = [heard async for heard in standing.heard()]

            assert standing.last_event_id == "e-7"
        assert heard.event_id == "e-7"
        assert peer.asked == [("GET", "e-3", None)]

    async def test_b033_a_question_about_another_task_is_refused(self):
        peer = Peer(stream(event(elicitation(5, meta=STRANGE)), event(elicitation(6))))

        heard = await everything(peer)

        assert [one.question.key for one in heard] == ["6"]
        assert [(told["id"], "error" in told) for told in peer.told] == [(5, True)]

    async def test_before_there_is_a_task_a_named_question_is_kept_with_its_name(self):
        peer = Peer(stream(event(elicitation())))

        (heard,) = await everything(peer, SESSION)

        assert heard.task_id == TASK_ID

    @pytest.mark.parametrize(
        "handle, told, hints",
        [
            (HANDLE, task(status="completed"), 1),
            (HANDLE, {"taskId": TASK_ID, "status": "any word"}, 1),
            (SESSION, task(), 1),
            (HANDLE, task(taskId="another"), 0),
            (HANDLE, {"status": "completed"}, 0),
        ],
        ids=["its own", "unread", "before the answer to the submit", "another's", "nobody's"],
    )
    async def test_p7_a_pushed_status_is_a_hint_whatever_it_says(self, handle, told, hints):
        """B026: it carries nothing that could be taken for a look."""
        note = {"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": told}
        other = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"taskId": TASK_ID}}

        assert await everything(Peer(stream(event(note), event(other))), handle) == [Hinted()] * hints

    async def test_b120_a_ping_is_answered_and_what_we_never_offered_refused(self):
        ping = {"jsonrpc": "2.0", "id": "s1", "method": "ping"}
        sampling = {"jsonrpc": "2.0", "id": "s2", "method": "sampling/createMessage", "params": {}}
        peer = Peer(stream(event(ping), event(sampling)))

        assert await everything(peer) == []

        assert [told["id"] for told in peer.told] == ["s1", "s2"]
        assert "result" in peer.told[0]
        assert peer.told[1]["error"]["code"] == -32601

    @pytest.mark.parametrize("junk", [b"data: {\n\n", b'data: {"method": 1}\n\n', b": ping\n\n", b"data:\n\n"])
    async def test_what_cannot_be_read_does_not_end_the_listening(self, junk):
        peer = Peer(stream(junk, event(elicitation())))

        assert len(await everything(peer)) == 1

    async def test_a_question_that_cannot_be_shown_does_not_end_it_either(self):
        peer = Peer(stream(event(elicitation(1, requestedSchema=7)), event(elicitation(2))))

        assert [heard.question.key for heard in await everything(peer)] == ["2"]

    async def test_b122_a_server_without_a_standing_stream_refuses(self):
        with pytest.raises(Refused):
            await everything(Peer(405))

    async def test_a_session_that_is_gone_is_lost(self):
        with pytest.raises(SessionLost):
            await everything(Peer(404))

    async def test_a_stream_that_breaks_off_gives_out_what_came_before(self):
        peer = Peer(stream(event(elicitation()), breaks=True))

        async with listening(peer) as standing:
            heard = standing.heard()
            first = await anext(heard)
            with pytest.raises(MaybeSent):
                await anext(heard)

        assert first.question.key == "0"


class TestAnyBytes:
    @pytest.mark.parametrize(
        "body",
        [b"", b"{", b"[]", b"null", b'{"jsonrpc":"2.0"}', b"\xff\xfe", b"[" * 100_000, b"\0" * 64, b'{"a":1,"a":2}'],
        ids=lambda body: repr(body[:24]),
    )
    @pytest.mark.parametrize(
        "frame", [b"%s", b"data: %s\n\n", b"id: \0\ndata: %s\r\r", b"retry: 9999999999\ndata:%s\n\n"]
    )
    async def test_no_stream_brings_an_error_from_outside_the_tree(self, frame, body):
        """Neither the standing stream nor a resumed one."""
        raw = frame.replace(b"%s", body)
        peer = Peer(stream(raw), stream(event(event_id="e-1")), stream(raw), 405)

        assert await everything(peer) == []
        with pytest.raises(AdapterError) as caught:
            await ADAPTER.submit(peer.wire(), SESSION, CALL)

        assert caught.value.exchanges, "an error without its evidence"
