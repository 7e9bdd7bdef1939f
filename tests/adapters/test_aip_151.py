"""What the adapter sends to an AIP-151 server, and what it makes of the whole conversation."""

from collections import deque

import httpx
import pytest

from adapters.aip_151 import MAX_PAGES, Aip151
from adapters.aip_151_codec import request_id
from adapters.contract import (
    Absent,
    BrokenPeer,
    Call,
    CancelAnswer,
    CancelRefused,
    Ended,
    Endpoint,
    Handle,
    Lookup,
    MaybeSent,
    NotReady,
    NotSent,
    ProtocolStatus,
    RefusalKind,
    Refused,
    Throttled,
    Working,
    WrongProtocol,
)
from adapters.http import HttpWire
from tests.adapters.scripted import NOON, open_gate

pytestmark = pytest.mark.asyncio

ADAPTER = Aip151()
NAME = "projects/p/locations/l/operations/op-1"
HANDLE = Handle(task_id=NAME)
TOOL = "projects/p/locations/l/jobs:run"
KEY = "7b0c8e0e-6d3c-4b1e-9a9e-0d6f3c2b1a00"
CALL = Call(submission_key=KEY, tool=TOOL, arguments=b'{"rows" : 9007199254740993}', ttl_ms=None)
RESPONSE = {"@type": "type.example/R", "answer": 42}
WORKING = {"name": NAME, "metadata": {"requestId": KEY}}
DONE = {"name": NAME, "done": True, "response": RESPONSE}


class Server(httpx.AsyncBaseTransport):
    """Answers each request with the next of `answers`: a value as JSON, a response, or an error to raise."""

    def __init__(self, *answers):
        self.answers = deque(answers)
        self.heard = []

    async def handle_async_request(self, request):
        await request.aread()
        self.heard.append(request)
        answer = self.answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer)

    @property
    def lines(self):
        return [f"{request.method} {request.url.raw_path.decode()}" for request in self.heard]

    def wire(self):
        return HttpWire(
            transport=self,
            endpoint=Endpoint(url="https://api.test/v1", credential="Bearer secret-1", allow_private=True),
            gate=open_gate,
            clock=lambda: NOON,
        )


def failing(code, word):
    return httpx.Response(code, json={"error": {"code": code, "message": "no", "status": word}})


class TestRequests:
    async def test_a_submit_posts_the_very_arguments_with_the_key_as_request_id(self):
        """X2, AIP-155."""
        server = Server(WORKING, WORKING)

        for _ in range(2):
            await ADAPTER.submit(server.wire(), Handle(), CALL)

        first, second = server.heard
        assert server.lines[0] == f"POST /v1/{TOOL}?requestId={KEY}"
        assert first.content == CALL.arguments
        assert (first.url, first.content, first.headers) == (second.url, second.content, second.headers)
        assert first.headers["content-type"] == "application/json"

    async def test_every_other_request_names_the_operation_and_stays_below_the_url(self):
        server = Server(WORKING, {}, DONE)
        odd = Handle(task_id="projects/p/operations/x?y#z é")

        with pytest.raises(WrongProtocol):
            await ADAPTER.look(server.wire(), odd, expect_question=True)
        await ADAPTER.cancel(server.wire(), odd)
        await ADAPTER.fetch(server.wire(), HANDLE, ProtocolStatus.COMPLETED)

        assert server.lines == [
            "GET /v1/projects/p/operations/x%3Fy%23z%20%C3%A9",
            "POST /v1/projects/p/operations/x%3Fy%23z%20%C3%A9:cancel",
            f"GET /v1/{NAME}",
        ]
        assert server.heard[1].content == b"{}"

    async def test_the_evidence_shows_what_was_asked_and_no_secret(self):
        """L7: here the URL is a part of the question."""
        server = Server(WORKING)

        seen = await ADAPTER.submit(server.wire(), Handle(), CALL)

        (exchange,) = seen.exchanges
        assert exchange.label == f"POST {TOOL}?requestId={KEY}"
        assert exchange.request == CALL.arguments
        assert "secret" not in repr(exchange)

    @pytest.mark.parametrize(
        "changes",
        [{"as_task": False}, {"tool": "../admin"}, {"tool": "a/{b}"}, {"arguments": b"[1]"}, {"arguments": b"{"}],
    )
    async def test_what_cannot_be_sent_is_refused_before_a_byte_of_it(self, changes):
        """N2."""
        server = Server()
        fields = {"submission_key": KEY, "tool": TOOL, "arguments": b"{}", "ttl_ms": None} | changes

        with pytest.raises(Refused):
            await ADAPTER.submit(server.wire(), Handle(), Call(**fields))

        assert server.heard == []

    @pytest.mark.parametrize("task_id", [None, "../../admin", "https://evil.example/operations/1"])
    async def test_b138_a_name_that_would_move_is_never_asked_for(self, task_id):
        """Also when the ledger holds it."""
        server = Server()
        handle = Handle(task_id=task_id)

        for verb in (
            ADAPTER.look(server.wire(), handle, expect_question=False),
            ADAPTER.cancel(server.wire(), handle),
            ADAPTER.fetch(server.wire(), handle, ProtocolStatus.COMPLETED),
        ):
            with pytest.raises(NotSent):
                await verb

        assert server.heard == []

    async def test_there_is_nothing_to_answer(self):
        with pytest.raises(Refused):
            await ADAPTER.answer(Server().wire(), HANDLE, [])


class TestConversations:
    async def test_b125_done_without_a_result_is_evidence_and_no_end(self):
        server = Server({"name": NAME, "done": True})

        with pytest.raises(BrokenPeer) as caught:
            await ADAPTER.look(server.wire(), HANDLE, expect_question=False)

        assert caught.value.exchanges[0].body == server_body({"name": NAME, "done": True})

    async def test_b131_a_call_that_is_done_at_once(self):
        server = Server({"done": True, "response": RESPONSE})

        seen = await ADAPTER.submit(server.wire(), Handle(), CALL)

        assert isinstance(seen, Ended)
        assert seen.task is None
        assert seen.result.value == RESPONSE

    async def test_b134_an_unavailable_server_and_then_the_result(self):
        server = Server(failing(503, "UNAVAILABLE"), DONE)

        with pytest.raises(BrokenPeer):
            await ADAPTER.look(server.wire(), HANDLE, expect_question=False)
        seen = await ADAPTER.look(server.wire(), HANDLE, expect_question=False)

        assert seen.status is ProtocolStatus.COMPLETED

    async def test_b139_a_server_that_cannot_cancel_and_ends_by_itself(self):
        server = Server(failing(501, "UNIMPLEMENTED"), DONE)

        refused = await ADAPTER.cancel(server.wire(), HANDLE)
        seen = await ADAPTER.look(server.wire(), HANDLE, expect_question=False)

        assert isinstance(refused, CancelRefused)
        assert refused.exchanges[0].http_status == 501
        assert seen.status is ProtocolStatus.COMPLETED

    async def test_b140_only_code_1_is_a_won_cancel(self):
        """C5."""
        server = Server({}, WORKING, {"name": NAME, "done": True, "error": {"code": 1, "message": "cancelled"}})

        answer = await ADAPTER.cancel(server.wire(), HANDLE)
        during = await ADAPTER.look(server.wire(), HANDLE, expect_question=False)
        after = await ADAPTER.look(server.wire(), HANDLE, expect_question=False)

        assert isinstance(answer, CancelAnswer)
        assert answer.task is None
        assert isinstance(during, Working)
        assert after.status is ProtocolStatus.CANCELLED
        assert not ADAPTER.promises.cancel_ack_is_terminal

    async def test_a_fetch_of_another_end_is_not_ready(self):
        """R10."""
        server = Server({"name": NAME, "done": True, "error": {"code": 8, "message": "quota"}})

        found = await ADAPTER.fetch(server.wire(), HANDLE, ProtocolStatus.COMPLETED)

        assert isinstance(found, NotReady)
        assert len(found.exchanges) == 1

    async def test_a_redirect_is_not_followed(self):
        server = Server(httpx.Response(302, headers={"location": "https://evil.example/v1/x"}))

        with pytest.raises(Refused) as caught:
            await ADAPTER.look(server.wire(), HANDLE, expect_question=False)

        assert caught.value.kind is RefusalKind.ADMIN
        assert len(server.heard) == 1

    @pytest.mark.parametrize(
        "answer, error",
        [(httpx.ReadError("gone"), MaybeSent), (failing(409, "ABORTED"), BrokenPeer), ({}, WrongProtocol)],
    )
    async def test_l4_a_submit_without_a_usable_answer_proves_nothing(self, answer, error):
        with pytest.raises(error):
            await ADAPTER.submit(Server(answer).wire(), Handle(), CALL)


class TestFind:
    async def test_the_same_bytes_again_are_the_lookup_of_class_a(self):
        server = Server(httpx.ReadError("gone"), WORKING)

        with pytest.raises(MaybeSent):
            await ADAPTER.submit(server.wire(), Handle(), CALL)
        found = await ADAPTER.find(server.wire(), Handle(), CALL, Lookup.SAME_KEY_REPLAY)

        first, second = server.heard
        assert (first.url, first.content) == (second.url, second.content)
        assert found.task.task_id == NAME

    async def test_a_refused_replay_is_no_proof_of_absence(self):
        """X2: it says nothing about the first request."""
        for answer in (failing(400, "INVALID_ARGUMENT"), failing(404, "NOT_FOUND")):
            with pytest.raises(Refused):
                await ADAPTER.find(Server(answer).wire(), Handle(), CALL, Lookup.SAME_KEY_REPLAY)

    async def test_the_list_names_the_operation_and_a_look_tells_how_it_is(self):
        other = {"name": "operations/o", "metadata": {"requestId": "other"}}
        server = Server({"operations": [other], "nextPageToken": "2&x"}, {"operations": [WORKING]}, DONE)

        found = await ADAPTER.find(server.wire(), Handle(), CALL, Lookup.LIST_BY_KEY)

        assert server.lines == [
            "GET /v1/projects/p/locations/l/operations?pageSize=100",
            "GET /v1/projects/p/locations/l/operations?pageSize=100&pageToken=2%26x",
            f"GET /v1/{NAME}",
        ]
        assert found.status is ProtocolStatus.COMPLETED
        assert len(found.exchanges) == 3

    @pytest.mark.parametrize("operations", [[], [{"name": "operations/o", "metadata": {"requestId": "other"}}]])
    async def test_a_whole_list_without_our_request_is_the_servers_word(self, operations):
        found = await ADAPTER.find(Server({"operations": operations}).wire(), Handle(), CALL, Lookup.LIST_BY_KEY)

        assert isinstance(found, Absent)
        assert found.by_key

    async def test_a_list_that_does_not_name_every_request_proves_nothing(self):
        server = Server({"operations": [{"name": "operations/o"}]})

        with pytest.raises(BrokenPeer) as caught:
            await ADAPTER.find(server.wire(), Handle(), CALL, Lookup.LIST_BY_KEY)

        assert len(caught.value.exchanges) == 1

    async def test_two_operations_of_one_request_are_no_answer(self):
        twin = {"name": "operations/o", "metadata": {"requestId": KEY.upper()}}

        with pytest.raises(WrongProtocol):
            await ADAPTER.find(Server({"operations": [WORKING, twin]}).wire(), Handle(), CALL, Lookup.LIST_BY_KEY)

    async def test_an_error_on_a_later_page_keeps_the_evidence_of_the_first(self):
        server = Server({"operations": [], "nextPageToken": "2"}, failing(429, "RESOURCE_EXHAUSTED"))

        with pytest.raises(Throttled) as caught:
            await ADAPTER.find(server.wire(), Handle(), CALL, Lookup.LIST_BY_KEY)

        assert [exchange.http_status for exchange in caught.value.exchanges] == [200, 429]

    async def test_a_list_without_an_end_is_left(self):
        server = Server(*[{"operations": [], "nextPageToken": "x"}] * (MAX_PAGES + 1))

        with pytest.raises(BrokenPeer):
            await ADAPTER.find(server.wire(), Handle(), CALL, Lookup.LIST_BY_KEY)

        assert len(server.heard) == MAX_PAGES

    @pytest.mark.parametrize("lookup", [lookup for lookup in Lookup if lookup not in ADAPTER.promises.lookups])
    async def test_a_lookup_that_this_protocol_has_not_is_refused(self, lookup):
        with pytest.raises(Refused):
            await ADAPTER.find(Server().wire(), Handle(), CALL, lookup)

    async def test_a_key_that_is_no_uuid_is_looked_up_under_its_request_id(self):
        call = Call(submission_key="invoice 7", tool=TOOL, arguments=b"{}", ttl_ms=None)
        named = {"name": NAME, "metadata": {"requestId": request_id("invoice 7")}}

        found = await ADAPTER.find(Server({"operations": [named]}, named).wire(), Handle(), call, Lookup.LIST_BY_KEY)

        assert isinstance(found, Working)


DOCUMENT = {"name": "jobs", "cancel": True, "tools": [{"name": TOOL}]}


class TestNegotiation:
    async def test_the_tools_document_is_read_below_the_url(self):
        """N1: no work is started."""
        server = Server(DOCUMENT)

        found = await ADAPTER.negotiate(server.wire())

        assert server.lines == ["GET /v1/longcall-tools.json"]
        assert [tool.name for tool in found.tools] == [TOOL]
        assert (found.capabilities.creates_tasks, found.capabilities.lists_tasks) == (True, False)

    async def test_to_open_is_to_read_it_again(self):
        opened = await ADAPTER.open(Server(DOCUMENT).wire())

        assert opened.session is None
        assert opened.capabilities.cancels_tasks

    async def test_n2_a_server_without_one_is_for_an_admin(self):
        with pytest.raises(Refused) as caught:
            await ADAPTER.negotiate(Server(httpx.Response(404)).wire())

        assert caught.value.kind is RefusalKind.ADMIN
        assert "tools document" in caught.value.reason
        assert len(caught.value.exchanges) == 1


def server_body(value):
    """The bytes in which `Server` says a value."""
    return httpx.Response(200, json=value).content
