"""The JSON-RPC 2.0 envelope that both MCP contracts share.

Writing is deterministic: the same request is the same bytes (X2). Reading decides by id *and* by
the absence of `method`: a server numbers its own requests in a space of its own, which may start
at 0 and may collide with ours. The JSON-RPC body is read first, the HTTP status second: servers
answer the same error with 200, 400 or 404.
"""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from adapters import http, strictjson
from adapters.contract import (
    AdapterError,
    BrokenPeer,
    Json,
    SessionLost,
    WireResponse,
    WrongProtocol,
)
from adapters.strictjson import BadJson, Member, Verbatim

RpcId: TypeAlias = int | str

MEDIA_TYPE = "application/json"


class NotRpc(ValueError):
    """Strict JSON, but not one JSON-RPC message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcResult:
    """The result of one request, with the exact bytes the server sent for it (R8)."""

    value: Json = field(repr=False)
    raw: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcError:
    """The error answer to one request. `raw` is the exact error object."""

    code: int
    message: str
    data: Json = field(repr=False, default=None)
    raw: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """An answer. `id` is None where a transport error names no request, or no usable one."""

    id: RpcId | None
    answer: RpcResult | RpcError


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRequest:
    """The server asks us. Its id must be given back with the same type."""

    id: RpcId
    method: str
    params: Mapping[str, Json] = field(repr=False)
    raw_params: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """The server tells us something, and waits for nothing."""

    method: str
    params: Mapping[str, Json] = field(repr=False)


Message: TypeAlias = Response | ServerRequest | Notification

SessionRule: TypeAlias = Callable[[int, RpcError | None], bool]
"""Given the HTTP status and the error in the body, if any: is our session gone?"""


def encode_request(*, request_id: RpcId, method: str, params: bytes = b"{}") -> bytes:
    """Write a request. `params` is one JSON value, spliced as it is. Raises BadJson if it is not."""
    return strictjson.compose({"jsonrpc": "2.0", "id": request_id, "method": method, "params": Verbatim(params)})


def encode_plain(*, request_id: RpcId, method: str, params: bytes) -> bytes:
    """Write a request whose params are our own words, in canonical form: then so is the whole."""
    told = strictjson.canonical(request_id), strictjson.canonical(method), params
    return b'{"id":%s,"jsonrpc":"2.0","method":%s,"params":%s}' % told


class Ids:
    """Ids that no other request has, in no process: a random beginning for each process, and a number."""

    def __init__(self) -> None:
        self._pid = 0
        self._beginning = ""
        self._numbers = itertools.count()

    def __call__(self) -> str:
        """Return the next id."""
        if os.getpid() != self._pid:  # made before a fork, it would begin alike in every child
            self._pid, self._beginning = os.getpid(), f"lc-{uuid.uuid4().hex}"
        return f"{self._beginning}-{next(self._numbers)}"


new_id = Ids()


def encode_notification(*, method: str, params: bytes = b"{}") -> bytes:
    """Write a notification. `params` as in `encode_request`."""
    return strictjson.compose({"jsonrpc": "2.0", "method": method, "params": Verbatim(params)})


def encode_response(*, request_id: RpcId, result: bytes) -> bytes:
    """Write our answer to a server's request. `result` is one JSON value, spliced as it is."""
    return strictjson.compose({"jsonrpc": "2.0", "id": request_id, "result": Verbatim(result)})


def encode_error(*, request_id: RpcId, code: int, message: str) -> bytes:
    """Write our refusal of a server's request, such as -32601 for what we never offered."""
    return strictjson.compose({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}})


def read_message(raw: bytes) -> Message:
    """Read one message. Raises BadJson (also for a batch) or NotRpc (some other JSON object)."""
    envelope = strictjson.members(raw)
    version = envelope.get("jsonrpc")
    if version is None or version.value != "2.0":
        raise NotRpc("an object that is no JSON-RPC 2.0 message")
    if "method" in envelope:
        return _read_call(envelope)
    return Response(id=_id_of(envelope), answer=_read_answer(envelope))


def no_session(_status: int, _error: RpcError | None) -> bool:
    """The rule of a request that named no session: none can be lost."""
    return False


def is_answer_to(message: Message, *, request_id: RpcId) -> bool:
    """Whether this is the answer to our request. `17` and `"17"` differ."""
    return isinstance(message, Response) and (message.id, type(message.id)) == (request_id, type(request_id))


def decode_answer(
    response: WireResponse,
    *,
    request_id: RpcId,
    session_lost: SessionRule = no_session,
) -> RpcResult | RpcError:
    """Read the answer to our request out of a whole JSON response.

    A result for our id wins over every status. An error for our id wins too, unless the status
    is one that the door itself gives (`http.is_door_status`).

    Raises SessionLost where the caller's rule says so, WrongProtocol for a JSON object of another
    shape (N3), BrokenPeer for what cannot be read, and for the rest what `http.status_error` sorts.
    """
    found = _rpc_in(response)
    seen = (response.exchange,)
    answer = found.answer if isinstance(found, Response) else None
    ours = isinstance(found, Response) and is_answer_to(found, request_id=request_id)
    if ours and isinstance(answer, RpcResult):
        return answer
    error = answer if isinstance(answer, RpcError) else None
    if session_lost(response.status, error):
        raise SessionLost(f"HTTP {response.status}: the session is gone{_said(error)}", exchanges=seen)
    if ours and error is not None and not http.is_door_status(response.status):
        return error
    raise _unusable(response, found)


def _rpc_in(response: WireResponse) -> Message | BadJson | NotRpc | None:
    """What the body holds; None when it is not JSON at all.

    Errors are values here: the status may explain the body better than the body itself.
    """
    if response.media_type != MEDIA_TYPE or not response.body:
        return None
    try:
        return read_message(response.body)
    except (BadJson, NotRpc) as error:
        return error


def _unusable(response: WireResponse, found: Message | BadJson | NotRpc | None) -> AdapterError:
    error = found.answer if isinstance(found, Response) and isinstance(found.answer, RpcError) else None
    if found is None or not http.is_success(response.status):
        return http.status_error(response, said=_said(error))
    seen = (response.exchange,)
    match found:
        case NotRpc():
            return WrongProtocol(f"the answer is {found}", exchanges=seen)
        case BadJson():
            return BrokenPeer(f"the answer cannot be read: {found}", exchanges=seen)
        case Response(id=None):
            return BrokenPeer(f"an answer that names no request{_said(error)}", exchanges=seen)
        case Response():
            return BrokenPeer(f"an answer to another request{_said(error)}", exchanges=seen)
        case _:
            return BrokenPeer("a message of the server instead of an answer", exchanges=seen)


def _said(error: RpcError | None) -> str:
    # The code only: a message may quote what nobody should log.
    return "" if error is None else f" (JSON-RPC error {error.code})"


def _read_call(envelope: Mapping[str, Member]) -> ServerRequest | Notification:
    method = envelope["method"].value
    params = envelope.get("params", Member({}, b"{}"))
    if not isinstance(method, str) or not isinstance(params.value, dict):
        raise NotRpc("a JSON-RPC message whose method or params have the wrong type")
    if "id" not in envelope:
        return Notification(method=method, params=params.value)
    request_id = _id_of(envelope)
    if request_id is None:
        raise NotRpc("a JSON-RPC request whose id is neither text nor an integer")
    return ServerRequest(id=request_id, method=method, params=params.value, raw_params=params.raw)


def _id_of(envelope: Mapping[str, Member]) -> RpcId | None:
    found = envelope["id"].value if "id" in envelope else None
    # A bool is an int in Python: True would be taken for the id 1.
    return found if isinstance(found, int | str) and not isinstance(found, bool) else None


def _read_answer(envelope: Mapping[str, Member]) -> RpcResult | RpcError:
    if ("result" in envelope) == ("error" in envelope):
        raise NotRpc("a JSON-RPC message with neither or both of result and error")
    if "result" in envelope:
        return RpcResult(value=envelope["result"].value, raw=envelope["result"].raw)
    error = envelope["error"]
    details = error.value if isinstance(error.value, dict) else {}
    code, message = details.get("code"), details.get("message")
    if not isinstance(code, int) or isinstance(code, bool) or not isinstance(message, str):
        raise NotRpc("a JSON-RPC error without a code or a message")
    return RpcError(code=code, message=message, data=details.get("data"), raw=error.raw)
