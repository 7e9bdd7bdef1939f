import httpx
import pytest

from adapters import messages
from adapters.contract import NotSent
from adapters.messages import Incoming, Outgoing

BODY = b'{"a":1}'


def outgoing():
    opening = messages.opening("POST", "https://tools.example:8443/mcp", "", ())
    head = opening.lines + messages.line("X-Note", "one: two") + b"content-length: %d\r\n\r\n" % len(BODY)
    return Outgoing(opening, head=head, body=BODY, extensions={"timeout": {}})


@pytest.mark.asyncio
async def test_a_written_request_is_the_same_request_to_a_transport_that_reads_it_httpx_s_way():
    request = outgoing()

    assert (request.method, str(request.url)) == ("POST", "https://tools.example:8443/mcp")
    assert request.headers.raw == [
        (b"host", b"tools.example:8443"),
        (b"user-agent", b"longcall"),
        (b"accept-encoding", b"gzip"),
        (b"x-note", b"one: two"),
        (b"content-length", b"7"),
    ]
    assert b"".join([piece async for piece in request.stream]) == request.content == BODY


def test_a_place_is_named_as_httpx_names_it():
    opening = messages.opening("GET", "http://127.0.0.1:80/a", "c/d", (("q", "ü&"),))

    plain = httpx.Request("GET", opening.url)
    first = b"GET %s HTTP/1.1\r\nhost: %s\r\n" % (plain.url.raw_path, plain.headers["host"].encode())
    assert opening.lines.startswith(first)


@pytest.mark.asyncio
async def test_an_answer_is_an_answer_of_httpx_to_whoever_asks_it_as_one():
    pairs = [(b"Content-Type", b"text/plain"), (b"X-Note", b"a"), (b"x-note", b"b")]
    response = Incoming(status=201, pairs=pairs, stream=httpx.ByteStream(b"text"))

    assert messages.pairs_of(response) is pairs
    assert response.headers["x-note"] == "a, b"
    assert await response.aread() == b"text"
    assert (response.status_code, response.text, response.is_success) == (201, "text", True)
    with pytest.raises(AttributeError):
        response.nothing_of_httpx  # noqa: B018 - the reading itself is what is tried


@pytest.mark.parametrize(
    "name",
    ["Host", "content-length", "Transfer-Encoding", "connection", "AUTHORIZATION", "user-agent", "Accept-Encoding"],
)
def test_no_protocol_sets_a_header_that_the_framing_or_the_credential_hangs_on(name):
    with pytest.raises(NotSent):
        messages.kept_line(name, "1")


def test_only_what_is_no_secret_is_kept():
    messages.kept_line.cache_clear()

    messages.line("authorization", "Bearer secret")
    assert messages.kept_line.cache_info().currsize == 0
