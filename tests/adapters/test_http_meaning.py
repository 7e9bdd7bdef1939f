"""What an answer means that is none: each HTTP status, each form of Retry-After, and what is said of it."""

import pytest

from adapters import http
from adapters.contract import BrokenPeer, Exchange, RefusalKind, Refused, Throttled, WireResponse
from tests.adapters.scripted import BODY, NOON, ask, reply, saying

pytestmark = pytest.mark.asyncio


def met(status, body=b"", media_type="", **headers):
    exchange = Exchange(label="x", request=BODY, http_status=status, media_type=media_type, body=body)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return WireResponse(status=status, headers=named, media_type=media_type, body=body, exchange=exchange)


MEANINGS = {
    BrokenPeer: [200, 202, 204, 101, 300, 304, 408, 409, 500, 502, 503, 504, 599, 700],
    Throttled: [425, 429],
    Refused: [301, 302, 303, 307, 308, 400, 401, 403, 404, 405, 406, 413, 415, 422, 499],
}


@pytest.mark.parametrize("status,error", [(status, error) for error, all_of in MEANINGS.items() for status in all_of])
async def test_every_status_has_its_meaning(status, error):
    sorted_as = http.status_error(met(status))

    assert type(sorted_as) is error
    assert sorted_as.exchanges[0].http_status == status


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 415, 301, 307])
async def test_b085_a_shut_door_is_for_an_admin(status):
    refused = http.status_error(met(status))

    assert isinstance(refused, Refused)
    assert (refused.kind, refused.code) == (RefusalKind.ADMIN, status)


@pytest.mark.parametrize("status", [413, 422])
async def test_a_request_at_fault_is_for_another_call_node(status):
    refused = http.status_error(met(status))

    assert isinstance(refused, Refused)
    assert refused.kind is RefusalKind.REQUEST


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_b081_b257_a_redirect_is_not_followed_but_named(status):
    raw = f"HTTP/1.1 {status} Moved\r\nLocation: http://169.254.169.254/latest?token=abc\r\nContent-Length: 0\r\n\r\n"

    answer, served = await ask(saying(raw.encode()))

    assert len(served.heard) == 1
    reason = http.status_error(answer).reason
    assert "http://169.254.169.254/latest" in reason
    assert "token" not in reason


@pytest.mark.parametrize("location", ["/mcp/", "http://[bad", "", "/\u00e9", "/" + "x" * 900])
async def test_b082_a_redirects_target_may_be_anything(location):
    reason = http.status_error(met(307, location=location)).reason

    assert "redirect" in reason
    assert len(reason) < 300


async def test_b259_an_error_page_is_not_quoted():
    reason = http.status_error(met(500, b"<input name=state value=SECRET123> token=abc", "text/html")).reason

    assert reason == "HTTP 500, text/html, 44 bytes"


@pytest.mark.parametrize(
    "text,seconds",
    [
        ("120", 120),
        (" 5 ", 5),
        ("Wed, 21 Oct 2026 12:02:00 GMT", 120),
        ("Wednesday, 21-Oct-26 12:02:00 GMT", 120),
        ("Wed Oct 21 12:02:00 2026", 120),
        ("Mon, 01 Jan 2001 00:00:00 GMT", 0),
        ("9999999", 86_400),
        ("Wed, 21 Oct 2099 12:00:00 GMT", 86_400),
        ("120junk", None),
        ("-1", None),
        ("0.493", None),
        ("0x10", None),
        ("10, 20", None),
        ("", None),
        ("soon", None),
        ("NaN", None),
        ("٣", None),
        ("Wed, 21 Oct 99999 07:28:00 GMT", None),
        ("99999999999999999999", None),
    ],
)
async def test_b090_every_form_of_retry_after(text, seconds):
    answer = met(503, retry_after=text, date="Wed, 21 Oct 2026 12:00:00 GMT")

    assert http.retry_after_s(answer) == seconds


@pytest.mark.parametrize("status", ["429 Too Many", "503 Busy"])
async def test_b089_a_server_that_names_no_date_is_read_by_our_clock(status):
    later = "Retry-After: " + NOON.replace(minute=1).strftime("%a, %d %b %Y %H:%M:%S GMT")

    answer, _ = await ask(saying(reply(b"", later, status=status)))

    error = http.status_error(answer)
    assert isinstance(error, Throttled | BrokenPeer)
    assert error.retry_after_s == 60
