"""The words of MCP 2026-07-28 and its extension `io.modelcontextprotocol/tasks`.

Pure: no I/O, no clock, no state. How a task or a question is read is in `mcp_shapes`, what travels
in headers is in `mcp_headers`; here stands where a shape may occur and what it proves. Every
function named `decode_*` raises nothing outside the tree of AdapterError.

Note [Three kinds of result]
    `resultType` decides, before anything else is looked at: one SDK adds `content: []` to a task.
    Absent means `complete`. Only `tools/call` may be answered by `task` or `input_required`. Any
    other word is no answer of this contract (WrongProtocol), and never "done".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from adapters import jsonrpc, mcp_headers, mcp_shapes, strictjson
from adapters.contract import (
    Absent,
    BrokenPeer,
    Call,
    CancelAnswer,
    CancelRefused,
    Capabilities,
    Ended,
    Json,
    NeedsInput,
    NotReady,
    Observation,
    ProtocolStatus,
    Question,
    Reply,
    TaskFacts,
    TaskSupport,
    ToolDescriptor,
    ToolResult,
    Working,
    WrongProtocol,
)
from adapters.jsonrpc import RpcError, RpcResult
from adapters.mcp_shapes import (
    BAD_PARAMS,
    KEY_META,
    OLD_DRAFT_TASK,
    UNKNOWN_METHOD,
    as_object,
    as_text,
    member,
    refusal,
)
from adapters.strictjson import BadJson, Member, Verbatim

PROTOCOL_VERSION = "2026-07-28"
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"

_META = "io.modelcontextprotocol/"
_ELICITATION = "elicitation/create"
_OWN_NAME: dict[str, Json] = {"name": "longcall", "version": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsPage:
    """One page of `tools/list`."""

    tools: tuple[ToolDescriptor, ...]
    left_out: tuple[str, ...]
    """Tools that a client must not offer, each with the reason."""
    cursor: str | None


# Encode -------------------------------------------------------------------------------------------


def encode_request(*, request_id: str, method: str, params: Mapping[str, Json]) -> bytes:
    """Write any request but `tools/call` and `tasks/update`."""
    body = strictjson.canonical({**params, "_meta": _meta(as_task=True)})
    return jsonrpc.encode_request(request_id=request_id, method=method, params=body)


def encode_call(call: Call) -> bytes:
    """Write `tools/call`. The same call is the same bytes, its JSON-RPC id included (X2).

    Nobody can ask for a task here: the server decides. What we decide is whether it may (N2).
    """
    params: dict[str, Json | Verbatim] = {"name": call.tool, "arguments": Verbatim(call.arguments)}
    goes_on = call.continuation
    if goes_on is not None and goes_on.replies:
        params["inputResponses"] = Verbatim(_responses(goes_on.replies))
    if goes_on is not None and goes_on.state is not None:
        params["requestState"] = Verbatim(goes_on.state.encode())
    params["_meta"] = {**_meta(as_task=call.as_task), KEY_META: call.submission_key}
    return jsonrpc.encode_request(request_id=call_id(call), method="tools/call", params=strictjson.compose(params))


def call_id(call: Call) -> str:
    """The JSON-RPC id of a submit, made from the submission key, and from the round it goes on from."""
    attempt = call.submission_key if call.continuation is None else [call.submission_key, call.continuation.number]
    return f"call-{strictjson.digest_of(attempt)[:32]}"


def encode_update(*, request_id: str, task_id: str, replies: Sequence[Reply]) -> bytes:
    """Write `tasks/update` with a person's answers: all keys of a round, or some. Raises BadJson."""
    params: dict[str, Json | Verbatim] = {
        "taskId": task_id,
        "inputResponses": Verbatim(_responses(replies)),
        "_meta": _meta(as_task=True),
    }
    return jsonrpc.encode_request(request_id=request_id, method="tasks/update", params=strictjson.compose(params))


def encode_headers(*, method: str, name: str | None = None) -> tuple[tuple[str, str], ...]:
    """The headers that repeat the body: version, method, and the tool or task it is about."""
    headers = [("MCP-Protocol-Version", PROTOCOL_VERSION), ("Mcp-Method", method)]
    if name is not None:
        headers.append(("Mcp-Name", mcp_headers.encode_value(name)))
    return tuple(headers)


def encode_argument_headers(call: Call) -> tuple[tuple[str, str], ...]:
    """The headers that repeat marked arguments. Raises BadJson, BadAnnotation or UnfitArgument."""
    mirrors = mcp_headers.read_mirrors(call.input_schema)
    return mcp_headers.mirrored(mirrors, strictjson.parse(call.arguments)) if mirrors else ()


def _meta(*, as_task: bool) -> dict[str, Json]:
    capabilities: dict[str, Json] = {"elicitation": {"form": {}, "url": {}}}
    if as_task:
        capabilities["extensions"] = {TASKS_EXTENSION: {}}
    return {
        f"{_META}protocolVersion": PROTOCOL_VERSION,
        f"{_META}clientInfo": _OWN_NAME,
        f"{_META}clientCapabilities": capabilities,
    }


def _responses(replies: Sequence[Reply]) -> bytes:
    return strictjson.compose({_key_of(reply): Verbatim(_response(reply)) for reply in replies})


def _response(reply: Reply) -> bytes:
    response: dict[str, Json | Verbatim] = {"action": reply.action.value}
    if reply.content is not None:
        response["content"] = Verbatim(reply.content)
    return strictjson.compose(response)


def _key_of(reply: Reply) -> str:
    key = strictjson.parse(reply.key.encode())
    if not isinstance(key, str):
        raise BadJson("a question's key is no text")
    return key


# Decode -------------------------------------------------------------------------------------------


def decode_capabilities(result: RpcResult) -> Capabilities:
    """Read the answer to `server/discover`. Raises WrongProtocol when it lists another version (N1)."""
    told = _complete(result, "server/discover")
    versions = told.get("supportedVersions")
    if not isinstance(versions, list) or PROTOCOL_VERSION not in versions:
        raise WrongProtocol(f"the server does not speak {PROTOCOL_VERSION}")
    server = member(member(told, "_meta"), f"{_META}serverInfo")
    extensions = member(member(told, "capabilities"), "extensions")
    has_tasks = isinstance(extensions.get(TASKS_EXTENSION), dict)
    return Capabilities(
        server_name=as_text(server.get("name")),
        server_version=as_text(server.get("version")),
        creates_tasks=has_tasks,
        cancels_tasks=has_tasks,
        lists_tasks=False,
        raw=result.raw,
    )


def decode_tools(result: RpcResult) -> ToolsPage:
    """Read one page of `tools/list`, without the tools that mark arguments wrongly. Raises WrongProtocol.

    Every tool may become a task: in this contract the server decides so call by call.
    """
    _complete(result, "tools/list")
    entries, cursor = mcp_shapes.read_page(result.value, method="tools/list", of="tools")
    tools, left_out = [], []
    for entry in entries:
        tool = mcp_shapes.read_tool(as_object(entry, "a tool"), task_support=TaskSupport.OPTIONAL)
        try:
            mcp_headers.read_mirrors(tool.input_schema)
        except mcp_headers.BadAnnotation as error:
            left_out.append(f"{strictjson.printable(tool.name)}: {error}")
        else:
            tools.append(tool)
    return ToolsPage(tools=tuple(tools), left_out=tuple(left_out), cursor=cursor)


def decode_created(result: RpcResult) -> Observation:
    """Read the answer to `tools/call`. See Note [Three kinds of result]."""
    told = as_object(result.value, "the answer to tools/call")
    match told.get("resultType", "complete"):
        case "task":
            return _observe(decode_task(told), result, told)
        case "input_required":
            return _asked_before_task(result, told)
        case "complete":
            return _answered_at_once(result, told)
    raise WrongProtocol("tools/call was answered with a result of an unknown type")


def decode_look(answer: RpcResult | RpcError, *, task_id: str) -> Observation:
    """Read the answer to `tasks/get`. -32602 is Absent: it proves nothing by itself (X1).

    Raises BrokenPeer for a finished task without its result or its error (B022).
    """
    if isinstance(answer, RpcError):
        if answer.code == BAD_PARAMS:
            return Absent(code=answer.code, message=strictjson.printable(answer.message))
        raise refusal(answer, "tasks/get")
    told = _complete(answer, "tasks/get", also="task")
    task = decode_task(told, expected_id=task_id)
    seen = _observe(task, answer, told)
    return replace(seen, result=_inline_result(answer, told, task.status)) if isinstance(seen, Ended) else seen


def decode_task(value: Json | Mapping[str, Json], *, expected_id: str | None = None) -> TaskFacts:
    """Read a flat task. Raises WrongProtocol for an id or a status that cannot be relied on."""
    told = dict(value) if isinstance(value, Mapping) else value
    return mcp_shapes.read_task(told, ttl="ttlMs", poll="pollIntervalMs", expected_id=expected_id)


def decode_updated(answer: RpcResult | RpcError) -> None:
    """Read the answer to `tasks/update`: an acknowledgement, no evidence of use (I6). Raises what a no means."""
    _acknowledged(answer, "tasks/update")


def decode_cancel(answer: RpcResult | RpcError) -> CancelAnswer | CancelRefused:
    """Read the answer to `tasks/cancel`. It says "noted" and no more, also for a finished task (C5)."""
    if isinstance(answer, RpcError) and answer.code in {BAD_PARAMS, UNKNOWN_METHOD}:
        return CancelRefused(code=answer.code, message=strictjson.printable(answer.message))
    _acknowledged(answer, "tasks/cancel")
    return CancelAnswer(task=None)


def decode_result(answer: RpcResult | RpcError, *, task_id: str, status: ProtocolStatus) -> ToolResult | NotReady:
    """Read the result of a task that was seen in this terminal status, out of `tasks/get`.

    An error answer is not the task's own error, which stands inside a result (R2, X3).
    """
    seen = decode_look(answer, task_id=task_id)
    if isinstance(seen, Absent):
        return NotReady(code=seen.code, message=seen.message)
    if not isinstance(seen, Ended):
        return NotReady(code=0, message="the task goes on")
    if seen.status is not status:
        return NotReady(code=0, message=f"the task is now {seen.status.value}")
    return seen.result or NotReady(code=0, message="a cancelled task without a result")


# The parts of an answer ---------------------------------------------------------------------------


def _complete(result: RpcResult, method: str, *, also: str = "complete") -> Mapping[str, Json]:
    told = as_object(result.value, f"the answer to {method}")
    # Examples of the extension show "task" where its text wants "complete": the meaning is clear.
    if told.get("resultType", "complete") not in ("complete", also):
        raise WrongProtocol(f"{method} was answered with a result of an unknown type")
    return told


def _acknowledged(answer: RpcResult | RpcError, method: str) -> None:
    if isinstance(answer, RpcError):
        raise refusal(answer, method)
    _complete(answer, method)


def _observe(task: TaskFacts, result: RpcResult, told: Mapping[str, Json]) -> Working | NeedsInput | Ended:
    if task.status.is_terminal:
        return Ended(status=task.status, task=task)
    if task.status is ProtocolStatus.WORKING:
        return Working(task=task)
    questions, unusable = _questions(result, told)
    return NeedsInput(task=replace(task, anomalies=task.anomalies + unusable), questions=questions)


def _questions(result: RpcResult, told: Mapping[str, Json]) -> tuple[tuple[Question, ...], tuple[str, ...]]:
    """Read every outstanding question; what cannot be shown to a person is named, and answered by nobody.

    The others of its round can still be answered, for the server takes a part of them (B166). They
    are ordered by key: a map has no order, and one runtime shuffles it.
    """
    if not isinstance(told.get("inputRequests"), dict):
        return (), (
            ("inputRequests is missing",) if told.get("inputRequests") is None else ("inputRequests is no map",)
        )
    questions: list[Question] = []
    unusable: list[str] = []
    for key, request in sorted(_members(_members(result.raw)["inputRequests"].raw).items()):
        try:
            questions.append(_question(key, request))
        except WrongProtocol as error:
            unusable.append(f"the question {strictjson.printable(key)[:80]} cannot be shown: {error.reason}")
    return tuple(questions), tuple(unusable)


def _question(key: str, request: Member) -> Question:
    asked = as_object(request.value, "a question")
    if asked.get("method") != _ELICITATION:
        raise WrongProtocol("a request of a kind that we never offered")
    params = as_object(asked.get("params"), "a question's params")
    return mcp_shapes.read_question(params, key=key, raw=_members(request.raw)["params"].raw)


def _asked_before_task(result: RpcResult, told: Mapping[str, Json]) -> NeedsInput:
    state = told.get("requestState")
    if not isinstance(state, str | None):
        raise WrongProtocol("a call to go on with, whose state is no text")
    questions, unusable = _questions(result, told) if told.get("inputRequests") is not None else ((), ())
    if unusable:
        # Here all must be answered at once: half a round would only be asked again.
        raise WrongProtocol(f"questions before the task, and {unusable[0]}")
    if not questions and state is None:
        raise WrongProtocol("a call to go on with, with neither a question nor a state")
    given = None if state is None else strictjson.canonical(state).decode("ascii")
    return NeedsInput(task=None, questions=questions, continuation_state=given)


def _answered_at_once(result: RpcResult, told: Mapping[str, Json]) -> Ended:
    if "task" in told or "taskId" in told or OLD_DRAFT_TASK in member(told, "_meta"):
        # Read naively, each of these is a call that completed with nothing to say.
        raise WrongProtocol("tools/call was answered with a task in the shape of another version")
    outcome = _tool_result(told, result.raw)
    return Ended(status=ProtocolStatus.COMPLETED, task=None, result=outcome)


def _inline_result(result: RpcResult, told: Mapping[str, Json], status: ProtocolStatus) -> ToolResult | None:
    if status is ProtocolStatus.FAILED:
        if not isinstance(told.get("error"), dict):
            raise BrokenPeer("a failed task without its error")
        return ToolResult(raw=_members(result.raw)["error"].raw, value=told["error"], is_error=True)
    if told.get("result") is None:
        if status is ProtocolStatus.COMPLETED:
            raise BrokenPeer("a completed task without its result")
        return None
    value = as_object(told["result"], "the result of a task")
    return _tool_result(value, _members(result.raw)["result"].raw)


def _tool_result(told: Mapping[str, Json], raw: bytes) -> ToolResult:
    if told.get("resultType", "complete") != "complete" or not isinstance(told.get("content"), list):
        raise WrongProtocol("a tool result without content")
    return ToolResult(raw=raw, value=dict(told), is_error=told.get("isError") is True)


def _members(raw: bytes) -> dict[str, Member]:
    try:
        return strictjson.members(raw)
    except BadJson as error:
        raise BrokenPeer(f"a part of the answer cannot be read: {error}") from None
