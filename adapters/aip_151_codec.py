"""The words of Google AIP-151: names to paths, answers to observations.

Pure: no I/O, no clock, no state. Strict on what the ledger relies on (the name, `done`, exactly one
of `error` and `response`), tolerant on the rest: unknown members, unknown types of metadata, `done`
left out, and the three spellings of a protobuf integer. Every function named `decode_*` raises
nothing outside the tree of AdapterError.

Note [Two number spaces]
    `error.code` inside an operation is a number of google.rpc.Code: 1 is CANCELLED, 5 NOT_FOUND.
    `error.code` in the body of an HTTP error is the HTTP status (AIP-193), except at grpc-gateways
    and emulators, which write the gRPC number there too. `Code` is the one space everything is
    brought into; an operation's own error never passes through the HTTP numbers.
"""

from __future__ import annotations

import enum
import math
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from http import HTTPStatus
from urllib.parse import quote, unquote

from adapters import http, strictjson
from adapters.contract import (
    Absent,
    AdapterError,
    BrokenPeer,
    CancelAnswer,
    CancelRefused,
    Capabilities,
    Ended,
    Json,
    NotReady,
    Observation,
    ProtocolStatus,
    RefusalKind,
    Refused,
    TaskFacts,
    TaskSupport,
    Throttled,
    ToolDescriptor,
    ToolResult,
    WireResponse,
    Working,
    WrongProtocol,
)
from adapters.strictjson import BadJson, Member

PROTOCOL_VERSION = "aip-151"
MEDIA_TYPE = "application/json"
MAX_NAME = 1000

_NAME = re.compile(r"(?:[^/:]+/(?:[^/]+/)*)?operations(?:/[^/]+)+")
_TOOL = re.compile(r"[A-Za-z0-9._~-]+(?:/[A-Za-z0-9._~-]+)*(?::[A-Za-z][A-Za-z0-9]*)?")
_LOCATION = re.compile(r"(?:.*/)?locations/[^/:]+(?=[/:]|$)")
_MOVES = re.compile(r"[/\\\x00-\x1f\x7f]")
_DELAY = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s", re.ASCII)
_WHOLE = re.compile(r"-?\d{1,10}", re.ASCII)
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_PERCENTS = ("progressPercent", "progressPercentage", "percentComplete")
_PHRASES = ("statusMessage", "statusDetail", "message", "stage", "state")
_CANCEL_FLAGS = ("requestedCancellation", "cancelRequested")
_AZURE_HEADERS = frozenset({"azure-asyncoperation", "operation-location"})
_PAGE_MEMBERS = frozenset({"nextPageToken", "unreachable"})
_WILL_NOT = frozenset({400, 404, 405, 501})
"""A cancel was not taken: no such method, no such operation, or not in its state."""
_CLIENT_CLOSED = 499


class Code(enum.IntEnum):
    """google.rpc.Code. See Note [Two number spaces]."""

    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


_BY_HTTP = {
    400: Code.INVALID_ARGUMENT,
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    404: Code.NOT_FOUND,
    409: Code.ABORTED,
    429: Code.RESOURCE_EXHAUSTED,
    499: Code.CANCELLED,
    500: Code.INTERNAL,
    501: Code.UNIMPLEMENTED,
    503: Code.UNAVAILABLE,
    504: Code.DEADLINE_EXCEEDED,
}
_REQUEST_CODES = frozenset({Code.INVALID_ARGUMENT, Code.FAILED_PRECONDITION, Code.OUT_OF_RANGE})
"""What is wrong with this request: checked before any work starts (AIP-151, AIP-193)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiError:
    """The error object of an HTTP answer. `code` is None where nothing names one."""

    code: Code | None
    message: str
    retry_s: float | None
    """From google.rpc.RetryInfo, in seconds: a floor like `Retry-After` (P1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One operation in a list: its name, and the request id that its metadata echoes, if any."""

    name: str
    request_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of ListOperations. `next_token` is None on the last."""

    operations: tuple[Listed, ...]
    next_token: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What the tools document of a server says."""

    capabilities: Capabilities
    tools: tuple[ToolDescriptor, ...] = field(default=())


MAX_TOOLS_BYTES = 1_000_000
_DOCUMENT: Mapping[str, type] = {"name": str, "version": str, "cancel": bool, "list": bool, "tools": list}
_DESCRIPTION: Mapping[str, type] = {
    "name": str,
    "title": str,
    "description": str,
    "inputSchema": dict,
    "outputSchema": dict,
}
_KINDS: Mapping[type, str] = {str: "a text", bool: "true or false", list: "a list", dict: "an object"}


# Encode -------------------------------------------------------------------------------------------


def request_id(submission_key: str) -> str:
    """Return the AIP-155 request id of a submission key: always the same, always a UUID (X2).

    Servers refuse what is no UUID, and the zero UUID. A key that is a UUID is sent as it is.
    """
    try:
        given = uuid.UUID(submission_key)
    except ValueError:
        given = None
    if given is not None and given.int and str(given) == submission_key:
        return submission_key
    return str(uuid.UUID(bytes=sha256(submission_key.encode("utf-8", "surrogatepass")).digest()[:16], version=4))


def is_name(text: str) -> bool:
    """Whether this can be the name of an operation (B138).

    Whole segments, one of them `operations`, and none that moves, as it is or unescaped.
    """
    if len(text) > MAX_NAME or not _NAME.fullmatch(text) or strictjson.printable(text) != text:
        return False
    plain = [unquote(segment, errors="replace") for segment in text.split("/")]
    return not any(segment in {".", ".."} or _MOVES.search(segment) for segment in plain)


def is_tool(text: str) -> bool:
    """Whether this can be the path of a method: literal segments, and a custom verb at most.

    Never one of an operation's own: `:wait`, `:cancel` and the like are no tools.
    """
    return bool(_TOOL.fullmatch(text)) and not {".", "..", "operations"} & set(text.partition(":")[0].split("/"))


def path_of(name: str) -> str:
    """Return the path of a resource below the server's URL, escaped as google.api.http wants it."""
    return quote(name, safe="/-_.~")


def list_path(tool: str) -> str:
    """Return the path of the list that holds the operations of a method.

    That of the method's own location, or the one list of a server that knows no locations.
    """
    found = _LOCATION.match(tool)
    return f"{found.group()}/operations" if found else "operations"


# Decode: operations -------------------------------------------------------------------------------


def decode_created(response: WireResponse) -> Observation:
    """Read the answer to a method: an operation, which may be done already and then nameless (B131)."""
    _check_success(response)
    return _operation(response.body, expected=None)


def decode_look(response: WireResponse, *, name: str) -> Observation:
    """Read the answer to GetOperation. A 404 that says NOT_FOUND is Absent and proves nothing (X1)."""
    error = decode_error(response)
    if response.status == HTTPStatus.NOT_FOUND and error is not None and error.code is Code.NOT_FOUND:
        return Absent(code=Code.NOT_FOUND, message=error.message)
    _check_success(response)
    return _operation(response.body, expected=name)


def decode_cancel(response: WireResponse) -> CancelAnswer | CancelRefused:
    """Read the answer to CancelOperation. An acceptance is no evidence; only code 1 is (C5).

    CancelRefused: there is no such method here, or no such operation, or it is not to be
    cancelled. Which of these, the next look decides.
    """
    if http.is_success(response.status):
        if response.body.strip():
            _check_success(response)
            _members(response.body)
        return CancelAnswer(task=None)
    if response.status in _WILL_NOT:
        error = decode_error(response)
        code = (error.code if error is not None else None) or response.status
        words = (error.message if error is not None else "") or "this server cannot cancel"
        return CancelRefused(code=code, message=words)
    raise _failure(response)


def decode_result(seen: Observation, *, status: ProtocolStatus) -> ToolResult | NotReady:
    """Take the result out of a look at a task that was seen in this terminal status."""
    match seen:
        case Ended(status=found, result=ToolResult() as result) if found is status:
            return result
        case Ended(status=found):
            return NotReady(code=0, message=f"the operation is {found.value}")
        case Absent(code=code, message=message):
            return NotReady(code=code, message=message)
        case _:
            return NotReady(code=0, message="the operation is not done")


def decode_page(response: WireResponse) -> Page:
    """Read one page of ListOperations. Raises BrokenPeer for a list that admits to be incomplete."""
    _check_success(response)
    told = {name: member.value for name, member in _members(response.body).items()}
    if told.get("unreachable"):
        raise BrokenPeer("the list is not whole: some places could not be reached")
    operations = [] if told.get("operations") is None else told["operations"]
    if not isinstance(operations, list) or ("operations" not in told and set(told) - _PAGE_MEMBERS):
        raise WrongProtocol("a list without operations")
    token = told.get("nextPageToken")
    return Page(
        operations=tuple(_listed(entry) for entry in operations),
        next_token=token if isinstance(token, str) and token else None,
    )


def decode_declaration(response: WireResponse) -> Declaration:
    """Read a server's tools document (see `aip_151`). What it does not declare is absent (N2)."""
    if response.status == HTTPStatus.NOT_FOUND:
        raise Refused("the server has no tools document under its URL", kind=RefusalKind.ADMIN, code=response.status)
    _check_success(response)
    told = {name: member.value for name, member in _members(response.body).items()}
    tools = told.get("tools")
    if not isinstance(tools, list):
        raise WrongProtocol("a tools document without tools")
    capabilities = Capabilities(
        server_name=_text(told.get("name")),
        server_version=_text(told.get("version")),
        creates_tasks=True,
        cancels_tasks=told.get("cancel") is True,
        lists_tasks=told.get("list") is True,
        raw=response.body,
    )
    return Declaration(capabilities=capabilities, tools=tuple(_tool(tool) for tool in tools))


def decode_tools_document(document: bytes) -> Declaration:
    """Read a tools document that an admin gives (see `aip_151`): strictly, and in full.

    What is not known is refused: a slip in `outputSchema` would be a result that nothing is held
    against. Raises WrongProtocol, with what to change in its words.
    """
    try:
        told = strictjson.parse(document, max_bytes=MAX_TOOLS_BYTES)
    except BadJson as error:
        raise WrongProtocol(f"it is no JSON document: {error}") from None
    top = _checked(told, _DOCUMENT, required="tools", where="the document")
    tools = top["tools"]
    if not isinstance(tools, list) or not tools:
        raise WrongProtocol("tools: it describes none")
    described: dict[str, ToolDescriptor] = {}
    for number, one in enumerate(tools, start=1):
        tool = _checked(one, _DESCRIPTION, required="name", where=f"tool {number}")
        if not is_tool(str(tool["name"])):
            raise WrongProtocol(f"tool {number}: its name is no path of a method, such as projects/p/reports:generate")
        if str(tool["name"]) in described:
            raise WrongProtocol(f"tool {number}: {tool['name']} is described twice")
        described[str(tool["name"])] = _tool(tool)
    capabilities = Capabilities(
        server_name=_text(top.get("name")),
        server_version=_text(top.get("version")),
        creates_tasks=True,
        cancels_tasks=top.get("cancel") is True,
        lists_tasks=top.get("list") is True,
        raw=document,
    )
    return Declaration(capabilities=capabilities, tools=tuple(described.values()))


def _checked(value: Json, known: Mapping[str, type], *, required: str, where: str) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise WrongProtocol(f"{where} is not an object")
    if unknown := sorted(set(value) - set(known)):
        raise WrongProtocol(f"{where}: {unknown[0]!r} is not known here; there are {', '.join(known)}")
    if required not in value:
        raise WrongProtocol(f"{where}: {required} is missing")
    for name, one in value.items():
        if not isinstance(one, known[name]):
            raise WrongProtocol(f"{where}: {name} is not {_KINDS[known[name]]}")
    return value


def _operation(raw: bytes, *, expected: str | None) -> Working | Ended:
    parts = _members(raw)
    _refuse_lookalike(parts)
    done = _is_done(parts)
    name = _name(parts, expected=expected, may_be_empty=done)
    error, answer = _held(parts, "error"), _held(parts, "response")
    if not done:
        early = ("a result before the operation is done: it does not count yet",) if error or answer else ()
        return Working(task=_facts(name, ProtocolStatus.WORKING, parts, anomalies=early))
    if error is not None and answer is not None:
        raise BrokenPeer("an operation that holds both an error and a response")
    if answer is not None:
        return _completed(name, parts, answer)
    if error is not None:
        return _failed(name, parts, error)
    raise BrokenPeer("an operation that is done, but holds neither a response nor an error")


def _completed(name: str, parts: Mapping[str, Member], answer: Member) -> Ended:
    if not isinstance(answer.value, dict):
        raise BrokenPeer("a response that is no object")
    untyped = () if isinstance(answer.value.get("@type"), str) else ("the response does not name its type",)
    return Ended(
        status=ProtocolStatus.COMPLETED,
        task=_facts(name, ProtocolStatus.COMPLETED, parts, anomalies=untyped) if name else None,
        result=ToolResult(raw=answer.raw, value=answer.value, is_error=False),
    )


def _failed(name: str, parts: Mapping[str, Member], error: Member) -> Ended:
    told = error.value if isinstance(error.value, dict) else {}
    number = _whole(told.get("code"))
    if number is None or number <= 0:
        raise BrokenPeer("an error without a code")
    cancelled = number == Code.CANCELLED
    status = ProtocolStatus.CANCELLED if cancelled else ProtocolStatus.FAILED
    foreign = () if number in set(Code) else (f"the error code {number} is no number of google.rpc.Code",)
    words = f"{_word(number)}: {_text(told.get('message'))}"
    return Ended(
        status=status,
        task=_facts(name, status, parts, message=words, anomalies=foreign) if name else None,
        result=None if cancelled else ToolResult(raw=error.raw, value=error.value, is_error=True),
    )


def _facts(
    name: str,
    status: ProtocolStatus,
    parts: Mapping[str, Member],
    *,
    message: str = "",
    anomalies: Sequence[str] = (),
) -> TaskFacts:
    metadata = _metadata(parts["metadata"].value if "metadata" in parts else None)
    created_at = _text(metadata.get("createTime"))
    return TaskFacts(
        task_id=name,
        status=status,
        message=message or _progress(metadata),
        created_at=created_at[:64] if _INSTANT.fullmatch(created_at) else "",
        anomalies=tuple(anomalies),
    )


def _refuse_lookalike(parts: Mapping[str, Member]) -> None:
    """N3: Compute, Cloud SQL, Azure and A2A answer with a `status`, which AIP-151 has not."""
    kind, status = _value(parts, "kind"), _value(parts, "status")
    if isinstance(kind, str) and kind.lower().endswith("#operation"):
        raise WrongProtocol("an operation in the shape of Compute, not of AIP-151")
    if status is not None:
        raise WrongProtocol("an answer in the shape of another protocol: AIP-151 has no status word")


def _is_done(parts: Mapping[str, Member]) -> bool:
    # proto3 leaves `false` out, and gateways write null. "true" and 1 are no booleans (B128).
    done = _value(parts, "done")
    if done is not None and not isinstance(done, bool):
        raise BrokenPeer("an operation whose `done` is no boolean")
    return bool(done)


def _name(parts: Mapping[str, Member], *, expected: str | None, may_be_empty: bool) -> str:
    name = _value(parts, "name")
    if expected is None and may_be_empty and name in (None, ""):
        return ""
    if not isinstance(name, str) or not is_name(name):
        raise WrongProtocol("an answer without a usable name of an operation")
    if expected is not None and name != expected:
        raise WrongProtocol("the answer is about another operation")
    return name


# Decode: errors -----------------------------------------------------------------------------------


def decode_error(response: WireResponse) -> ApiError | None:
    """Read the error of an HTTP answer; None for a success, and for a body that holds none.

    Three forms are in use: `{"error": {...}}`, the same in a list, and a bare google.rpc.Status.
    """
    if http.is_success(response.status) or response.media_type != MEDIA_TYPE:
        return None
    try:
        told = strictjson.parse(response.body)
    except BadJson:
        return None
    if isinstance(told, list):
        told = told[0] if told else None
    if isinstance(told, dict) and isinstance(told.get("error"), dict):
        told = told["error"]
    if not isinstance(told, dict) or not {"code", "status"} & set(told):
        return None
    return ApiError(code=_code(told), message=_text(told.get("message"))[:500], retry_s=_retry_s(told.get("details")))


def _code(told: Mapping[str, Json]) -> Code | None:
    word, number = told.get("status"), _whole(told.get("code"))
    if isinstance(word, str) and word in Code.__members__:
        return Code[word]
    if number in set(Code):
        return Code(number)
    return _BY_HTTP.get(number) if number is not None else None


def _retry_s(details: Json) -> float | None:
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict) and str(detail.get("@type")).endswith("/google.rpc.RetryInfo"):
            delay = _DELAY.fullmatch(_text(detail.get("retryDelay")))
            return min(float(delay.group(1)), http.MAX_RETRY_AFTER_S) if delay else None
    return None


def _check_success(response: WireResponse) -> None:
    """Raise what an answer means that holds no protocol object."""
    if not http.is_success(response.status):
        raise _failure(response)
    azure = _AZURE_HEADERS & set(response.headers)
    if azure or (not response.body and "location" in response.headers):
        raise WrongProtocol("the answer points to a status monitor, as Azure's do, and names no operation")
    if response.media_type != MEDIA_TYPE or not response.body:
        raise http.status_error(response)


def _failure(response: WireResponse) -> AdapterError:
    """Sort an HTTP error. The body refines what its status says, and never contradicts it.

    409 stays BrokenPeer: it may be our own duplicate, or somebody else's work on the resource. So
    does 499, which says that a caller left and not what became of the request.
    """
    error = decode_error(response)
    if error is None:
        return BrokenPeer("HTTP 499") if response.status == _CLIENT_CLOSED else http.status_error(response)
    word = error.code.name if error.code is not None else "no known code"
    said = f"HTTP {response.status} ({word})"
    if response.status == HTTPStatus.BAD_REQUEST and error.code in _REQUEST_CODES:
        return Refused(f"{said}: {error.message[:300]}", kind=RefusalKind.REQUEST, code=error.code)
    if response.status == HTTPStatus.NOT_IMPLEMENTED and error.code is Code.UNIMPLEMENTED:
        return Refused(f"{said}: {error.message[:300]}", kind=RefusalKind.ADMIN, code=error.code)
    if response.status == _CLIENT_CLOSED:
        return BrokenPeer(said)
    found = http.status_error(response, said=f" ({word})")
    if isinstance(found, Throttled | BrokenPeer) and error.retry_s is not None:
        found.retry_after_s = max(error.retry_s, found.retry_after_s or 0.0)
    return found


# Small readers ------------------------------------------------------------------------------------


def _members(raw: bytes) -> dict[str, Member]:
    try:
        return strictjson.members(raw)
    except BadJson as error:
        reason = str(error)
    try:
        strictjson.parse(raw)
    except BadJson:
        raise BrokenPeer(f"the answer cannot be read: {reason}") from None
    raise WrongProtocol("the answer is no JSON object")


def _held(parts: Mapping[str, Member], name: str) -> Member | None:
    # null is how a gateway writes what is not there.
    return parts[name] if _value(parts, name) is not None else None


def _value(parts: Mapping[str, Member], name: str) -> Json:
    return parts[name].value if name in parts else None


def _metadata(value: Json) -> Mapping[str, Json]:
    if not isinstance(value, dict):
        return {}
    inner = value.get("value")
    # A type with JSON of its own, such as Struct, is wrapped.
    return inner if isinstance(inner, dict) and set(value) == {"@type", "value"} else value


def _progress(metadata: Mapping[str, Json]) -> str:
    """Say how far the work is, from the members that many services share. Free words, for people."""
    inner = metadata.get("progress")
    places = (metadata, inner) if isinstance(inner, dict) else (metadata,)
    words = next((text for name in _PHRASES if (text := _text(metadata.get(name)))), "")
    share = next((found for place in places for name in _PERCENTS if (found := _percent(place.get(name)))), "")
    asked = "cancellation requested" if any(metadata.get(flag) is True for flag in _CANCEL_FLAGS) else ""
    return ", ".join(part for part in (words[:400], share, asked) if part)


def _percent(value: Json) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 100:  # noqa: PLR2004 - per cent
        return ""
    return f"{math.floor(value)} %"


def _listed(entry: Json) -> Listed:
    told = entry if isinstance(entry, dict) else {}
    name = told.get("name")
    if not isinstance(name, str) or not is_name(name):
        raise WrongProtocol("a list that holds what is no operation")
    echoed = _metadata(told.get("metadata")).get("requestId")
    return Listed(name=name, request_id=echoed.lower() if isinstance(echoed, str) and echoed else None)


def _tool(value: Json) -> ToolDescriptor:
    told = value if isinstance(value, dict) else {}
    name, takes, gives = told.get("name"), told.get("inputSchema"), told.get("outputSchema")
    if not isinstance(name, str) or not is_tool(name):
        raise WrongProtocol("a tool whose name is no path of a method")
    raw = strictjson.canonical(told)
    return ToolDescriptor(
        name=name,
        title=_text(told.get("title")),
        description=_text(told.get("description")),
        task_support=TaskSupport.REQUIRED,
        input_schema=takes if isinstance(takes, dict) else {},
        output_schema=gives if isinstance(gives, dict) else None,
        raw=raw,
        digest=strictjson.digest(raw),
    )


def _text(value: Json) -> str:
    return strictjson.printable(value) if isinstance(value, str) else ""


def _whole(value: Json) -> int | None:
    """A protobuf integer, which JSON may spell 1, 1.0 or "1"."""
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _word(number: int) -> str:
    return Code(number).name if number in set(Code) else f"code {number}"
