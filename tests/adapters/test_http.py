"""The wire against real sockets: what it says has happened is what did happen."""

import asyncio
import gzip
import inspect
import ssl
import time
import zlib

import httpx
import pytest

from adapters import http, pools
from adapters.contract import (
    BrokenPeer,
    Endpoint,
    Exchange,
    Limits,
    MaybeSent,
    NotSent,
    Wire,
    WireRequest,
)
from tests.adapters.scripted import BODY, NOON, OK, REQUEST, ask, open_gate, reply, saying, serve, wired

SECRET = "Bearer tok-SECRET123"

pytestmark = pytest.mark.asyncio


# What is sent and what comes back ------------------------------------------------------------------


async def test_a_request_goes_out_as_given_and_its_answer_comes_back_whole():
    answer, served = await ask(saying(reply(OK, "X-Note: a", "X-Note: b")), credential=SECRET)

    head, body = served.heard[0]
    assert head.startswith(b"POST /mcp HTTP/1.1\r\n")
    assert b"authorization: bearer tok-secret123\r\n" in head.lower()
    assert b"accept-encoding: gzip\r\n" in head.lower()
    assert body == BODY
    assert (answer.status, answer.media_type, answer.body) == (200, "application/json", OK)
    assert answer.headers["x-note"] == "a, b"
    assert answer.exchange == Exchange(
        label="tasks/get", request=BODY, http_status=200, media_type="application/json", body=OK
    )


async def test_a_get_carries_no_body():
    _, served = await ask(saying(reply()), WireRequest(label="GET", body=b"", method="GET"))

    head, _ = served.heard[0]
    assert head.startswith(b"GET /mcp ")
    assert b"content-length" not in head.lower()


async def test_a_request_may_name_a_place_below_the_registered_url():
    request = WireRequest(
        label="GET", body=b"", method="GET", path="operations/a%20b", query=(("pageToken", "x&y=1"), ("pageSize", "2"))
    )
    _, served = await ask(saying(reply()), request)

    assert served.heard[0][0].startswith(b"GET /mcp/operations/a%20b?pageToken=x%26y%3D1&pageSize=2 HTTP/1.1\r\n")


@pytest.mark.parametrize(
    "path", ["../admin", "/etc", "//evil.example/x", "a/%2e%2e/b", "a%2fb", "a?b", "a#b", "a b", "a/"]
)
async def test_b138_a_place_outside_the_registered_url_is_not_sent(path):
    async with serve(saying(reply())) as served, wired(served.url) as wire:
        with pytest.raises(NotSent, match="leave the registered URL"):
            await wire.send(WireRequest(label="GET", body=b"", method="GET", path=path))

        assert served.connections == 0


async def test_the_gate_is_passed_before_every_request_and_may_refuse_it():
    passed = []

    async def gate():
        passed.append(1)
        if len(passed) > 1:
            raise NotSent("no budget left")

    async with serve(saying(reply(), reply())) as served, wired(served.url, gate=gate) as wire:
        await wire.send(REQUEST)
        with pytest.raises(NotSent, match="budget"):
            await wire.send(REQUEST)

        assert len(served.heard) == 1


async def test_the_time_spent_before_the_gate_is_not_the_requests_time():
    async def gate():
        await asyncio.sleep(0.3)

    answer, _ = await ask(saying(reply()), gate=gate, total_s=0.25)

    assert answer.status == 200


async def test_cookies_are_not_kept():
    script = saying(reply(OK, "Set-Cookie: sid=1"), reply())
    async with serve(script) as served, wired(served.url) as wire:
        await wire.send(REQUEST)
        await wire.send(REQUEST)

        assert b"cookie" not in served.heard[1][0].lower()


async def test_b101_parameters_and_case_of_a_media_type_do_not_matter():
    raw = b"HTTP/1.1 200 OK\r\nContent-Type: Application/JSON; charset=utf-8\r\nContent-Length: 2\r\n\r\n{}"

    answer, _ = await ask(saying(raw))

    assert answer.media_type == "application/json"


async def test_b102_proxies_of_the_environment_are_ignored(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    answer, served = await ask(saying(reply()))

    assert answer.status == 200
    assert served.connections == 1


async def test_b103_an_ipv6_server_works_end_to_end():
    async with serve(saying(reply()), host="::1") as served:
        async with wired(f"http://[::1]:{served.port}/mcp") as wire:
            answer = await wire.send(REQUEST)

        assert answer.status == 200
        assert f"host: [::1]:{served.port}\r\n".encode() in served.heard[0][0].lower()


async def test_b105_http_1_0_without_a_length_is_read_to_its_end():
    raw = b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + OK

    answer, _ = await ask(saying(raw))

    assert answer.body == OK
    assert answer.exchange.complete


async def test_b105_a_server_that_closes_every_time_gets_a_new_connection_each_time():
    script = saying(reply(OK, "Connection: close"))
    async with serve(script) as served, wired(served.url) as wire:
        for _ in range(20):
            await wire.send(REQUEST)

        assert served.connections == 20


async def test_a_connection_is_kept_and_used_again():
    async with serve(saying(*[reply()] * 5)) as served, wired(served.url) as wire:
        for _ in range(5):
            await wire.send(REQUEST)

        assert served.connections == 1


# Not sent, or maybe --------------------------------------------------------------------------------


def httpx_errors():
    """Every error class that httpx exports, except the abstract ones above them."""
    found = {
        value
        for value in vars(httpx).values()
        if inspect.isclass(value) and issubclass(value, Exception) and not issubclass(value, Warning)
    }
    return {one for one in found if not any(other is not one and issubclass(other, one) for other in found)}


async def test_every_error_of_httpx_is_sorted():
    assert set(http.FAULTS) == httpx_errors()


@pytest.mark.parametrize("error", sorted(httpx_errors(), key=str))
async def test_b096_every_error_of_a_transport_becomes_what_the_table_says(error):
    made = error.__new__(error)
    Exception.__init__(made, "SECRET123")

    async def fail(request):
        raise made

    async with wired("http://127.0.0.1/mcp", transport=httpx.MockTransport(fail)) as wire:
        with pytest.raises((NotSent, MaybeSent)) as raised:
            await wire.send(REQUEST)

    assert type(raised.value) is http.FAULTS[error][0]
    assert "SECRET123" not in raised.value.reason
    assert raised.value.__cause__ is None


async def test_only_errors_from_before_the_first_byte_permit_a_resend():
    assert {error for error, (fault, _) in http.FAULTS.items() if fault is NotSent} == {
        httpx.InvalidURL,
        httpx.UnsupportedProtocol,
        httpx.PoolTimeout,
        httpx.ConnectTimeout,
        httpx.ConnectError,
    }


async def test_b093_a_reset_after_the_request_may_have_been_sent():
    async def script(talk, served):
        await talk.hear()
        talk.reset()

    with pytest.raises(MaybeSent) as maybe:
        await ask(script)

    (exchange,) = maybe.value.exchanges
    assert (exchange.request, exchange.http_status, exchange.complete) == (BODY, None, False)


async def test_b095_a_kept_connection_that_breaks_is_never_tried_again():
    async def script(talk, served):
        for _ in range(2):
            served.heard.append(await talk.hear())
            if len(served.heard) == 1:
                await talk.answer(OK)

    async with serve(script) as served, wired(served.url) as wire:
        await wire.send(REQUEST)
        with pytest.raises(MaybeSent):
            await wire.send(REQUEST)

        assert (len(served.heard), served.connections) == (2, 1)


async def test_b094_a_refused_connection_is_not_sent():
    async with serve(saying()) as served:
        url = served.url

    async with wired(url) as wire:
        with pytest.raises(NotSent) as refused:
            await wire.send(REQUEST)

    assert refused.value.exchanges == ()


async def test_b094_a_name_that_does_not_resolve_is_not_sent():
    async def resolve(host, port):
        raise OSError("no such name")

    connections = http.Connections(resolve=resolve)
    async with wired("http://nowhere.test/mcp", connections=connections) as wire:
        with pytest.raises(NotSent):
            await wire.send(REQUEST)


async def test_b094_a_certificate_nobody_vouches_for_is_not_sent_and_named(certificate):
    async with serve(saying(reply()), tls=certificate) as served:
        async with wired(served.url.replace("http:", "https:")) as wire:
            with pytest.raises(NotSent, match="certificate is not accepted"):
                await wire.send(REQUEST)

        assert served.heard == []


async def test_b094_a_tls_handshake_that_hangs_is_not_sent():
    async def script(talk, served):
        await talk.gone()

    async with serve(script) as served, wired(served.url.replace("http:", "https:"), connect_s=0.1) as wire:
        with pytest.raises(NotSent):
            await wire.send(REQUEST)


async def test_b096_a_total_deadline_while_connecting_is_not_sent_and_hangs_up():
    hung_up = asyncio.Event()

    async def script(talk, served):
        await talk.gone()
        hung_up.set()

    limits = {"connect_s": 30, "total_s": 0.1}
    async with serve(script) as served, wired(served.url.replace("http:", "https:"), **limits) as wire:
        with pytest.raises(NotSent):
            await wire.send(REQUEST)

        await asyncio.wait_for(hung_up.wait(), 5)


async def test_b094_a_pool_without_a_free_place_is_not_sent():
    async def script(talk, served):
        await talk.hear()
        await talk.gone()

    tls = httpx.create_ssl_context(trust_env=False)
    pool = pools.KeptTransport(tls=tls, allow_private=True, connections=1)
    async with serve(script) as served, wired(served.url, transport=pool, connect_s=0.1, total_s=1) as wire:
        first = asyncio.create_task(wire.send(REQUEST))
        await asyncio.sleep(0.05)
        with pytest.raises(NotSent, match="free"):
            await wire.send(REQUEST)

        first.cancel()
        await asyncio.gather(first, return_exceptions=True)


async def test_b096_no_answer_in_time_may_have_been_sent():
    async def script(talk, served):
        await talk.hear()
        await talk.gone()

    with pytest.raises(MaybeSent, match="in time"):
        await ask(script, total_s=0.1)


async def test_b096_a_request_that_cannot_be_written_in_time_may_have_been_sent():
    async def script(talk, served):
        await asyncio.sleep(5)  # reads nothing: the socket's buffers fill up

    with pytest.raises(MaybeSent):
        await ask(script, WireRequest(label="big", body=b"x" * 30_000_000), total_s=0.2)


async def test_a_request_may_have_its_own_deadline():
    async def script(talk, served):
        await talk.hear()
        await talk.gone()

    began = time.monotonic()
    with pytest.raises(MaybeSent):
        await ask(script, WireRequest(label="tasks/get", body=BODY, total_s=0.1))

    assert time.monotonic() - began < 5


async def test_a_transport_that_says_nothing_of_itself_may_have_sent():
    async def hang(request):
        await asyncio.sleep(60)

    async with wired("http://127.0.0.1/mcp", transport=httpx.MockTransport(hang), total_s=0.05) as wire:
        with pytest.raises(MaybeSent):
            await wire.send(REQUEST)


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "http://u:p@127.0.0.1/", "http://good.example\\@127.0.0.1/"])
async def test_b255_a_url_with_a_trick_in_it_is_never_used(url):
    async with wired(url) as wire:
        with pytest.raises(NotSent) as refused:
            await wire.send(REQUEST)

    assert url not in refused.value.reason


async def test_b255_a_private_address_without_an_admins_word_is_not_sent():
    async with serve(saying(reply())) as served:
        async with wired(served.url, allow_private=False) as wire:
            with pytest.raises(NotSent, match="forbidden"):
                await wire.send(REQUEST)

        assert served.connections == 0


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\tb é", "a\x00"])
async def test_b104_a_header_that_http_cannot_carry_is_not_sent(value):
    with pytest.raises(NotSent):
        await ask(saying(reply()), WireRequest(label="x", body=BODY, headers=(("MCP-Session-Id", value),)))


# Answers over a cap, cut off, or too slow -----------------------------------------------------------


async def test_b097_dripping_bytes_do_not_move_the_deadline():
    async def script(talk, served):
        await talk.hear()
        await talk.say(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n")
        for _ in range(4000):
            await talk.say(b" ")
            await asyncio.sleep(0.01)

    began = time.monotonic()
    with pytest.raises(MaybeSent) as maybe:
        await ask(script, total_s=0.3)

    assert time.monotonic() - began < 20, "a deadline that moved would have come after 40 s"
    (exchange,) = maybe.value.exchanges
    assert (exchange.http_status, exchange.complete) == (200, False)
    assert exchange.body.strip() == b""


async def test_b114_keep_alive_comments_do_not_move_the_deadline():
    async def script(talk, served):
        await talk.hear()
        await talk.say(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        for _ in range(400):
            await talk.say(b": ping\n\n")
            await asyncio.sleep(0.01)

    with pytest.raises(MaybeSent):
        await ask(script, total_s=0.3)


@pytest.mark.parametrize(
    "raw",
    [
        reply(OK, length=len(OK) + 5),
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"a":\r\n',
        reply(gzip.compress(OK)[:-6], "Content-Encoding: gzip"),
    ],
    ids=["length", "chunked", "gzip"],
)
async def test_an_answer_that_was_cut_off_is_a_broken_peer_with_evidence(raw):
    with pytest.raises(BrokenPeer, match="cut off") as broken:
        await ask(saying(raw))

    assert broken.value.exchanges[0].http_status == 200
    assert not broken.value.exchanges[0].complete


async def test_an_answer_that_breaks_off_by_a_reset_may_have_been_sent():
    async def script(talk, served):
        await talk.hear()
        await talk.say(reply(OK, length=9999))
        await asyncio.sleep(0.05)
        talk.reset()

    with pytest.raises(MaybeSent):
        await ask(script)


async def test_a_body_over_its_cap_is_refused_and_kept_up_to_the_cap():
    with pytest.raises(BrokenPeer, match="over 10 bytes") as broken:
        await ask(saying(reply(b"x" * 500_000)), body_bytes=10)

    assert broken.value.exchanges[0].body == b"x" * 10


async def test_a_body_one_byte_over_its_cap_is_refused():
    with pytest.raises(BrokenPeer):
        await ask(saying(reply(b"x" * 11)), body_bytes=10)


async def test_a_body_of_exactly_its_cap_is_taken():
    answer, _ = await ask(saying(reply(b"x" * 10)), body_bytes=10)

    assert answer.body == b"x" * 10


async def test_an_endless_body_is_left_at_the_cap():
    async def script(talk, served):
        await talk.hear()
        await talk.say(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            await talk.say(b"x" * 65536)

    with pytest.raises(BrokenPeer):
        await ask(script, body_bytes=1_000_000)


async def test_gzip_is_unpacked():
    answer, _ = await ask(saying(reply(gzip.compress(OK), "Content-Encoding: GZIP")))

    assert answer.body == OK


async def test_b099_a_gzip_bomb_never_fills_the_memory():
    bomb = gzip.compress(bytes(200 * 1024 * 1024), compresslevel=1)

    with pytest.raises(BrokenPeer) as broken:
        await ask(saying(reply(bomb, "Content-Encoding: gzip")))

    assert len(broken.value.exchanges[0].body) <= Limits().body_bytes


async def test_b099_inflation_has_a_cap_of_its_own():
    bomb = gzip.compress(bytes(4_000_000))

    with pytest.raises(BrokenPeer, match="inflates"):
        await ask(saying(reply(bomb, "Content-Encoding: gzip")))


@pytest.mark.parametrize(
    "body,encoding",
    [
        (b"no gzip at all", "gzip"),
        (gzip.compress(OK, mtime=0) + b"more", "gzip"),  # a fixed time: the bytes are part of the test's name
        (OK, "br"),
        (OK, "deflate"),
        (OK, "gzip, gzip"),
    ],
)
async def test_an_encoding_that_cannot_be_undone_is_a_broken_peer(body, encoding):
    with pytest.raises(BrokenPeer):
        await ask(saying(reply(body, f"Content-Encoding: {encoding}")))


async def test_an_empty_answer_may_call_itself_compressed():
    answer, _ = await ask(saying(reply(b"", "Content-Encoding: gzip", status="202 Accepted")))

    assert (answer.status, answer.body) == (202, b"")


@pytest.mark.parametrize("size,error", [(64_000, BrokenPeer), (900_000, MaybeSent)])
async def test_b104_headers_over_their_cap_are_refused(size, error):
    with pytest.raises(error):
        await ask(saying(reply(OK, "X-Big: " + "x" * size)))


@pytest.mark.parametrize(
    "raw", [b"no http\r\n\r\n", b"HTTP/1.1 abc OK\r\n\r\n", b"\x00" * 100 + b"\r\n\r\n", b"SSH-2.0-x\r\n"]
)
async def test_what_is_not_http_may_have_been_sent(raw):
    with pytest.raises(MaybeSent):
        await ask(saying(raw))


async def test_b104_odd_header_values_do_not_crash_the_wire():
    answer, _ = await ask(saying(reply(OK, "MCP-Session-Id: a\tb \xe9", "MCP-Session-Id: ")))

    assert answer.headers["mcp-session-id"] == "a\tb \xe9, "


# Streams ---------------------------------------------------------------------------------------------


async def test_a_stream_is_read_as_it_comes_and_leaving_it_hangs_up():
    hung_up = asyncio.Event()

    async def script(talk, served):
        await talk.hear()
        await talk.say(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
        await talk.gone()
        hung_up.set()

    async with serve(script) as served, wired(served.url) as wire:
        async with wire.stream(REQUEST) as answer:
            async for chunk in answer.chunks():
                assert chunk == b"data: 1\n\n"
                break
            seen = answer.exchange()

        await asyncio.wait_for(hung_up.wait(), 5)
        assert (seen.body, seen.complete, answer.media_type) == (b"data: 1\n\n", False, "text/event-stream")


async def test_a_gzipped_stream_gives_each_event_when_it_comes():
    packer = zlib.compressobj(wbits=31)
    first = packer.compress(b"data: 1\n\n") + packer.flush(zlib.Z_SYNC_FLUSH)

    async def script(talk, served):
        await talk.hear()
        await talk.say(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + first)
        await talk.gone()

    async with serve(script) as served, wired(served.url, total_s=5) as wire, wire.stream(REQUEST) as answer:
        assert await anext(answer.chunks()) == b"data: 1\n\n"


async def test_b112_a_stream_that_breaks_off_may_have_been_sent_and_keeps_what_came():
    raw = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n"
    came = []

    async def read(wire):
        async with wire.stream(REQUEST) as answer:
            async for chunk in answer.chunks():
                came.append(chunk)  # noqa: PERF401 - what came before the error is the point

    async with serve(saying(raw)) as served, wired(served.url) as wire:
        with pytest.raises(MaybeSent) as maybe:
            await read(wire)

    assert came == [b"data: 1\n\n"]
    assert maybe.value.exchanges[0].body == b"data: 1\n\n"


async def test_the_deadline_never_cancels_what_the_caller_does_between_chunks():
    async def script(talk, served):
        await talk.hear()
        await talk.say(b"HTTP/1.1 200 OK\r\n\r\none")
        await talk.gone()

    stored = False
    async with serve(script) as served, wired(served.url, total_s=0.2) as wire, wire.stream(REQUEST) as answer:
        chunks = answer.chunks()
        await anext(chunks)
        await asyncio.sleep(0.4)
        stored = True
        with pytest.raises(MaybeSent):
            await anext(chunks)

    assert stored


async def test_a_cancelled_request_lets_its_connection_go():
    hung_up = asyncio.Event()

    async def script(talk, served):
        await talk.hear()
        await talk.gone()
        hung_up.set()

    async with serve(script) as served, wired(served.url) as wire:
        task = asyncio.create_task(wire.send(REQUEST))
        await asyncio.sleep(0.05)
        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(hung_up.wait(), 5)


# Secrets -----------------------------------------------------------------------------------------------


async def test_b259_a_credential_never_shows():
    leaked = b'{"echo":"tok-SECRET123"}'  # and as JSON may spell it: see test_veil
    body = b'{"copy":"Bearer tok-SECRET123"}'

    answer, served = await ask(saying(reply(leaked)), WireRequest(label="x", body=body), credential=SECRET)

    assert answer.body == b'{"echo":"[masked]"}', "it would be in a message, a question or a result"
    assert answer.exchange.body == answer.body
    assert answer.exchange.request == b'{"copy":"[masked]"}'
    assert answer.exchange.masked == len(["the answer", "the request"])
    assert served.heard[0][1] == body
    shown = repr(answer) + repr(answer.exchange) + repr(Endpoint(url="http://x/", credential=SECRET))
    assert "SECRET123" not in shown


@pytest.mark.parametrize("size", [1, 2, 3, 7, 18, 40])
async def test_b259_an_echo_is_masked_wherever_the_network_cuts_it(size):
    """Also what only begins like the credential comes through, at once where it can be told."""
    body = b"a tok-SECRET123 b Bearer tok-SECRET123 c tok-SECRE d tok-SEC"

    class Pieces(httpx.AsyncByteStream):
        async def __aiter__(self):
            for at in range(0, len(body), size):
                yield body[at : at + size]

    answer = lambda _request: httpx.Response(200, stream=Pieces(), headers={"x-echo": SECRET})
    connections = http.Connections(transport_for=lambda _endpoint: httpx.MockTransport(answer))
    endpoint = Endpoint(url="http://a.test/", credential=SECRET)
    wire = connections.wire(endpoint, gate=open_gate, clock=lambda: NOON)

    async with wire.stream(REQUEST) as stream:
        shown = b"".join([piece async for piece in stream.chunks()])

    assert shown == b"a [masked] b [masked] c tok-SECRE d tok-SEC"
    assert stream.headers["x-echo"] == "[masked]"
    assert stream.exchange().body == shown


async def test_b259_no_error_and_no_cause_of_one_holds_the_credential():
    async def script(talk, served):
        await talk.hear()
        talk.reset()

    with pytest.raises(MaybeSent) as maybe:
        await ask(script, credential=SECRET)

    error = maybe.value
    assert error.__cause__ is None
    assert error.__suppress_context__
    assert "SECRET123" not in "".join(map(repr, [error, error.args, error.exchanges, error.exchanges[0].request]))


# Pools -------------------------------------------------------------------------------------------------


async def test_connections_are_shared_by_origin_but_not_between_public_and_private():
    made = []

    def transport_for(endpoint):
        made.append(endpoint)
        return httpx.MockTransport(
            lambda request: httpx.Response(200, content=request.headers.get("authorization", "")[::-1])
        )

    connections = http.Connections(transport_for=transport_for)
    bodies = []
    for endpoint in (
        Endpoint(url="http://a.test/one", credential="secret-one"),
        Endpoint(url="http://a.test/two", credential="secret-two"),
        Endpoint(url="http://a.test/one", allow_private=True),
        Endpoint(url="http://b.test/one"),
    ):
        wire: Wire = connections.wire(endpoint, gate=open_gate, clock=lambda: NOON)
        bodies.append((await wire.send(REQUEST)).body)

    assert len(made) == 3
    assert bodies == [b"eno-terces", b"owt-terces", b"", b""]


async def test_requests_at_once_have_a_connection_each():
    release = asyncio.Event()

    async def script(talk, served):
        await talk.hear()
        await release.wait()
        await talk.answer(OK)

    async with serve(script) as served, wired(served.url, connect_s=2, total_s=5) as wire:
        asked = [asyncio.create_task(wire.send(REQUEST)) for _ in range(25)]
        for _ in range(100):
            await asyncio.sleep(0.02)
            if served.connections == 25:
                break

        assert served.connections == 25
        release.set()
        assert {answer.status for answer in await asyncio.gather(*asked)} == {200}


async def test_places_are_given_back_however_a_request_ends():
    async def script(talk, served):
        while True:
            head, _ = await talk.hear()
            if b"fail" in head:
                talk.reset()
                return
            await talk.answer(OK)

    tls = httpx.create_ssl_context(trust_env=False)
    pool = pools.KeptTransport(tls=tls, allow_private=True, connections=2)
    async with serve(script) as served:
        for path in ("ok", "fail", "ok", "fail", "fail", "ok"):
            async with wired(f"{served.url}/{path}", transport=pool) as wire:
                if path == "fail":
                    with pytest.raises(MaybeSent):
                        await wire.send(REQUEST)
                else:
                    await wire.send(REQUEST)

        assert pool._room + len(pool._idle) == 2
        await pool.aclose()


async def test_who_waits_for_a_place_gets_the_next_free_connection():
    async def script(talk, served):
        while True:
            await talk.hear()
            await asyncio.sleep(0.05)
            await talk.answer(OK)

    tls = httpx.create_ssl_context(trust_env=False)
    pool = pools.KeptTransport(tls=tls, allow_private=True, connections=2)
    async with serve(script) as served, wired(served.url, transport=pool, connect_s=10, total_s=20) as wire:
        answers = await asyncio.gather(*(wire.send(REQUEST) for _ in range(6)))

        assert [answer.status for answer in answers] == [200] * 6
        assert served.connections == 2


async def test_a_waiter_that_gives_up_leaves_its_place_to_the_next():
    async def script(talk, served):
        while True:
            await talk.hear()
            await asyncio.sleep(0.05)
            await talk.answer(OK)

    tls = httpx.create_ssl_context(trust_env=False)
    pool = pools.KeptTransport(tls=tls, allow_private=True, connections=1)
    async with serve(script) as served, wired(served.url, transport=pool, connect_s=10, total_s=20) as wire:
        first, second, third = (asyncio.create_task(wire.send(REQUEST)) for _ in range(3))
        await asyncio.sleep(0.02)
        second.cancel()

        assert (await first).status == 200
        assert (await third).status == 200
        await asyncio.gather(second, return_exceptions=True)


async def test_bytes_that_nobody_asked_for_end_a_kept_connection():
    async def script(talk, served):
        await talk.hear()
        if served.connections == 1:
            await talk.answer(OK)
            await talk.say(reply(b'{"for": "whom?"}'))
            await talk.gone()

    async with serve(script) as served, wired(served.url) as wire:
        await wire.send(REQUEST)
        await asyncio.sleep(0.05)
        with pytest.raises(MaybeSent):
            await wire.send(REQUEST)

        assert served.connections == 2


async def test_an_interim_answer_is_passed_over():
    answer, _ = await ask(saying(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + reply()))

    assert (answer.status, answer.body) == (200, OK)
    assert "link" not in answer.headers


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nxx",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
    ],
)
async def test_framing_that_two_readers_could_read_in_two_ways_is_refused(head):
    with pytest.raises(MaybeSent):
        await ask(saying(head))


async def test_a_reader_that_is_slow_holds_the_server_up_and_not_our_memory():
    async def script(talk, served):
        await talk.hear()
        await talk.say(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6000000\r\n\r\n")
        await talk.say(b"x" * 6_000_000)
        await talk.gone()

    async with serve(script) as served, wired(served.url, total_s=30) as wire, wire.stream(REQUEST) as answer:
        await asyncio.sleep(0.3)
        held = answer._stream._connection._held
        total = sum([len(piece) async for piece in answer.chunks()])

    assert held < 2_000_000
    assert total == 6_000_000


async def test_certificates_are_verified():
    tls = httpx.create_ssl_context(trust_env=False)

    assert tls.verify_mode is ssl.CERT_REQUIRED
    assert tls.check_hostname


@pytest.fixture
def certificate(tmp_path):
    """A certificate that names this machine and that nobody vouches for."""
    import subprocess

    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)],
        check=True,
        capture_output=True,
        timeout=30,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context
