import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters import jsonrpc, strictjson
from adapters.contract import (
    BrokenPeer,
    Exchange,
    RefusalKind,
    Refused,
    SessionLost,
    Throttled,
    WireResponse,
    WrongProtocol,
)
from adapters.jsonrpc import Notification, NotRpc, Response, RpcError, RpcResult, ServerRequest
from adapters.strictjson import BadJson

TASK = b'{"status" : "completed", "n":1.50}'
OURS = b'{"jsonrpc":"2.0","id":17,"result":' + TASK + b"}"
GONE = b'{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}}'


def answered(body, *, status=200, media_type="application/json", **headers):
    exchange = Exchange(label="tasks/get", request=b"{}", http_status=status, media_type=media_type, body=body)
    return WireResponse(status=status, headers=headers, media_type=media_type, body=body, exchange=exchange)


def decode(body, **options):
    return jsonrpc.decode_answer(answered(body, **options), request_id=17)


def error_body(request_id, code=-32602):
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": "no SECRET123"}}).encode()


def test_the_same_request_is_the_same_bytes_and_keeps_its_arguments_exactly():
    params = b'{"name":"x","arguments":{"n" : 1e0}}'

    encoded = [jsonrpc.encode_request(request_id=1, method="tools/call", params=params) for _ in range(2)]

    assert encoded == [b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + params + b"}"] * 2


def test_what_we_write_is_what_we_read():
    read = jsonrpc.read_message

    assert read(jsonrpc.encode_request(request_id="a", method="m", params=b'{"x":1}')) == ServerRequest(
        id="a", method="m", params={"x": 1}, raw_params=b'{"x":1}'
    )
    assert read(jsonrpc.encode_notification(method="m")) == Notification(method="m", params={})
    assert read(jsonrpc.encode_response(request_id=0, result=b'{"action":"accept"}')) == Response(
        id=0, answer=RpcResult(value={"action": "accept"}, raw=b'{"action":"accept"}')
    )
    assert read(jsonrpc.encode_error(request_id=0, code=-32601, message="no")) == Response(
        id=0, answer=RpcError(code=-32601, message="no", raw=b'{"code":-32601,"message":"no"}')
    )


def test_params_cannot_break_out_of_the_envelope():
    with pytest.raises(BadJson):
        jsonrpc.encode_request(request_id=1, method="m", params=b'{},"id":2')


def test_a_result_carries_the_exact_bytes_of_the_server():
    assert decode(OURS) == RpcResult(value={"status": "completed", "n": 1.5}, raw=TASK)


@pytest.mark.parametrize("status", [200, 202, 400, 404, 500, 401])
def test_a_result_for_our_id_wins_over_every_status(status):
    assert isinstance(decode(OURS, status=status), RpcResult)


@pytest.mark.parametrize("status", [200, 400, 404, 500])
def test_an_error_for_our_id_is_read_before_the_status(status):
    answer = decode(error_body(17), status=status)

    assert isinstance(answer, RpcError)
    assert answer.code == -32602


@pytest.mark.parametrize("status", [401, 403, 307])
def test_an_error_for_our_id_does_not_hide_a_shut_door(status):
    with pytest.raises(Refused) as refused:
        decode(error_body(17), status=status)

    assert (refused.value.kind, refused.value.code) == (RefusalKind.ADMIN, status)


def test_an_error_for_our_id_does_not_hide_the_throttle():
    with pytest.raises(Throttled) as throttled:
        decode(error_body(17), status=429, **{"retry-after": "30"})

    assert throttled.value.retry_after_s == 30


@pytest.mark.parametrize("other", [0, "17", None, 18, True, 17.0])
def test_b073_an_answer_with_another_id_is_not_ours(other):
    body = json.dumps({"jsonrpc": "2.0", "id": other, "result": {"status": "completed"}}).encode()

    with pytest.raises(BrokenPeer):
        decode(body)


def test_b073_an_id_of_zero_is_an_id():
    message = jsonrpc.read_message(b'{"jsonrpc":"2.0","id":0,"result":{}}')

    assert jsonrpc.is_answer_to(message, request_id=0)
    assert not jsonrpc.is_answer_to(message, request_id="0")


def test_b073_true_is_not_the_id_one():
    message = jsonrpc.read_message(b'{"jsonrpc":"2.0","id":true,"result":{}}')

    assert not jsonrpc.is_answer_to(message, request_id=1)


@pytest.mark.parametrize("request_id", [None, "server-error"])
def test_b073_an_error_without_a_request_fails_only_this_exchange(request_id):
    with pytest.raises(BrokenPeer) as broken:
        decode(error_body(request_id))

    assert "-32602" in broken.value.reason
    assert broken.value.exchanges[0].http_status == 200


@pytest.mark.parametrize(
    "body",
    [
        b"[" + OURS + b"]",
        b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}',
        b'{"jsonrpc":"2.0","id":17,"method":"ping"}',
        OURS + b'{"x":1}',
        OURS[:-1],
        b'{"jsonrpc":"2.0","id":17,"result":{"score":NaN}}',
        b'{"jsonrpc":"2.0","id":17,"result":{"status":"working","status":"completed"}}',
        b"null",
    ],
)
def test_b075_anything_but_one_answer_is_a_broken_peer(body):
    with pytest.raises(BrokenPeer):
        decode(body)


@pytest.mark.parametrize(
    "body", [b'{"name":"operations/1","done":true}', b'{"jsonrpc":"1.0","id":17,"result":{}}', b"{}"]
)
def test_an_object_of_another_shape_is_the_wrong_protocol(body):
    with pytest.raises(WrongProtocol):
        decode(body)


@pytest.mark.parametrize(
    "envelope",
    [
        {"id": 1},
        {"id": 1, "result": {}, "error": {"code": 1, "message": ""}},
        {"id": 1, "error": "no"},
        {"id": 1, "error": {"code": "1", "message": ""}},
        {"id": 1, "error": {"code": True, "message": ""}},
        {"id": 1, "method": 5},
        {"id": 1, "method": "m", "params": [1]},
        {"id": None, "method": "m"},
        {"id": 1.5, "method": "m"},
        {"id": True, "method": "m"},
    ],
)
def test_a_malformed_envelope_is_no_message(envelope):
    with pytest.raises(NotRpc):
        jsonrpc.read_message(json.dumps({"jsonrpc": "2.0", **envelope}).encode())


def test_b077_a_login_page_is_named_but_not_quoted():
    with pytest.raises(BrokenPeer, match="login page") as broken:
        decode(b"<!doctype html><title>Sign in</title>", media_type="text/html")

    assert "Sign in" not in broken.value.reason


@pytest.mark.parametrize("status", [202, 204])
def test_b079_received_is_not_answered(status):
    with pytest.raises(BrokenPeer, match="received"):
        decode(b"", status=status, media_type="")


@pytest.mark.parametrize("media_type", ["text/plain", "", "text/event-stream"])
def test_b101_json_under_another_name_is_not_sniffed(media_type):
    with pytest.raises(BrokenPeer):
        decode(OURS, media_type=media_type)


def test_b101_an_event_stream_under_the_name_of_json_is_broken():
    with pytest.raises(BrokenPeer):
        decode(b"data: " + OURS + b"\n\n")


@pytest.mark.parametrize(
    "status,body,media_type",
    [
        (404, GONE, "application/json"),
        (404, b"", ""),
        (404, error_body(17), "application/json"),
        (400, GONE, "application/json"),
    ],
)
def test_b106_a_lost_session_is_told_by_the_callers_rule(status, body, media_type):
    asked = []

    def rule(seen_status, error):
        asked.append((seen_status, error and error.message))
        return True

    with pytest.raises(SessionLost):
        jsonrpc.decode_answer(answered(body, status=status, media_type=media_type), request_id=17, session_lost=rule)

    assert asked[0][0] == status
    assert len(asked) == 1


def test_b106_without_a_rule_a_404_is_for_an_admin():
    with pytest.raises(Refused) as refused:
        decode(GONE, status=404)

    assert refused.value.kind is RefusalKind.ADMIN


def test_b106_a_result_is_never_a_lost_session():
    answer = jsonrpc.decode_answer(answered(OURS), request_id=17, session_lost=lambda _status, _error: True)

    assert isinstance(answer, RpcResult)


def test_b120_requests_of_the_server_are_told_from_answers_even_with_our_id():
    message = jsonrpc.read_message(b'{"jsonrpc":"2.0","id":17,"method":"sampling/createMessage","params":{}}')

    assert isinstance(message, ServerRequest)
    assert not jsonrpc.is_answer_to(message, request_id=17)


def test_b259_a_servers_words_never_reach_a_reason():
    with pytest.raises(BrokenPeer) as broken:
        decode(error_body(None))

    assert "SECRET123" not in str(broken.value)


@given(
    st.binary(max_size=200)
    | st.sampled_from([OURS, GONE]).flatmap(lambda raw: st.integers(0, len(raw)).map(lambda cut: raw[:cut]))
)
def test_no_body_raises_anything_outside_the_declared_errors(body):
    try:
        jsonrpc.read_message(body)
    except (BadJson, NotRpc):
        return


@given(task=st.text())
def test_a_plain_request_is_in_canonical_form(task):
    params = {"taskId": task}

    raw = jsonrpc.encode_plain(request_id="lc-1", method="tasks/get", params=strictjson.canonical(params))

    told = {"jsonrpc": "2.0", "id": "lc-1", "method": "tasks/get", "params": params}
    assert raw == strictjson.canonical(told)
