"""The words of MCP 2025-11-25 with its experimental tasks: values to bytes, answers to observations.

Pure: no I/O, no clock, no state. How a task or a question is read is in `mcp_shapes`; here stands
where it may occur and what it proves. Every function named `decode_*` raises nothing outside the
tree of AdapterError.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus

from adapters import jsonrpc, mcp_shapes, strictjson
from adapters.contract import (
    Absent,
    BrokenPeer,
    Call,
    CancelAnswer,
    CancelRefused,
    Capabilities,
    Ended,
    Exchange,
    Json,
    NeedsInput,
    NotReady,
    Observation,
    ProtocolStatus,
    Question,
    RefusalKind,
    Refused,
    Reply,
    TaskFacts,
    TaskSupport,
    ToolDescriptor,
    ToolResult,
    Working,
    WrongProtocol,
)
from adapters.jsonrpc import Notification, RpcError, RpcResult, ServerRequest
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
from adapters.strictjson import BadJson, Verbatim

PROTOCOL_VERSION = "2025-11-25"
RELATED_TASK = "io.modelcontextprotocol/related-task"

_VISIBLE_ASCII = re.compile(r"[\x21-\x7e]{1,1024}")

_NO_SESSION_CODES = frozenset({UNKNOWN_METHOD, BAD_PARAMS})
"""Errors about the request itself: under a 404 they do not say that the session is gone."""


# Encode -------------------------------------------------------------------------------------------


def encode_initialize(*, request_id: str) -> bytes:
    """Write `initialize`. We declare that we can ask people, by form and by URL."""
    params = strictjson.canonical(
        {
            "protocolVersion": PROTOCOL_VERSION,
            "capabilities": {"elicitation": {"form": {}, "url": {}}},
            "clientInfo": {"name": "longcall", "version": "1"},
        }
    )
    return jsonrpc.encode_request(request_id=request_id, method="initialize", params=params)


def encode_initialized() -> bytes:
    """Write `notifications/initialized`."""
    return jsonrpc.encode_notification(method="notifications/initialized")


def encode_cancelled(*, request_id: str) -> bytes:
    """Write `notifications/cancelled` for a request of ours. It never cancels a task."""
    params: dict[str, Json] = {"requestId": request_id, "reason": "the client stopped listening"}
    return jsonrpc.encode_notification(method="notifications/cancelled", params=strictjson.canonical(params))


def encode_call(call: Call) -> bytes:
    """Write `tools/call`. The same call is the same bytes, its JSON-RPC id included (X2)."""
    params: dict[str, Json | Verbatim] = {
        "name": call.tool,
        "arguments": Verbatim(call.arguments),
        "_meta": {KEY_META: call.submission_key},
    }
    if call.as_task:
        params["task"] = {} if call.ttl_ms is None else {"ttl": call.ttl_ms}
    return jsonrpc.encode_request(request_id=call_id(call), method="tools/call", params=strictjson.compose(params))


def call_id(call: Call) -> str:
    """The JSON-RPC id of a submit: made from the submission key alone."""
    return f"call-{strictjson.digest_of(call.submission_key)[:32]}"


def encode_reply(reply: Reply, *, task_id: str | None) -> bytes:
    """Write a person's answer under the server's exact id. Raises BadJson for a broken key."""
    result: dict[str, Json | Verbatim] = {"action": reply.action.value}
    if reply.content is not None:
        result["content"] = Verbatim(reply.content)
    if task_id is not None:
        result["_meta"] = {RELATED_TASK: {"taskId": task_id}}
    key = strictjson.parse(reply.key.encode())
    if not isinstance(key, (int, str)) or isinstance(key, bool):
        raise BadJson("a question's key is neither text nor an integer")
    return jsonrpc.encode_response(request_id=key, result=strictjson.compose(result))


def encode_courtesy(request: ServerRequest, *, inline: bool = False) -> bytes:
    """Write what we say to a request that no person will see: a pong, or a refusal (B033, B120).

    `inline`: it came from a call that runs at once.
    """
    if request.method == "ping":
        return jsonrpc.encode_response(request_id=request.id, result=b"{}")
    if request.method == "elicitation/create":
        words = "nobody can be asked in a call that runs at once" if inline else "this question names no task of ours"
        return jsonrpc.encode_error(request_id=request.id, code=BAD_PARAMS, message=words)
    return jsonrpc.encode_error(request_id=request.id, code=UNKNOWN_METHOD, message="not offered")


# Decode -------------------------------------------------------------------------------------------


def decode_capabilities(result: RpcResult) -> Capabilities:
    """Read the answer to `initialize`. Raises WrongProtocol for another version (N1)."""
    told = as_object(result.value, "the answer to initialize")
    if told.get("protocolVersion") != PROTOCOL_VERSION:
        raise WrongProtocol(f"the server does not speak {PROTOCOL_VERSION}")
    server = member(told, "serverInfo")
    tasks = member(member(told, "capabilities"), "tasks")
    return Capabilities(
        server_name=as_text(server.get("name")),
        server_version=as_text(server.get("version")),
        creates_tasks=_declares(tasks, "requests", "tools", "call"),
        cancels_tasks=_declares(tasks, "cancel"),
        lists_tasks=_declares(tasks, "list"),
        raw=result.raw,
    )


def decode_session(headers: Mapping[str, str]) -> str | None:
    """Read the session id; None when the server gives none. Raises BrokenPeer for an unusable one."""
    session = headers.get("mcp-session-id")
    if session is not None and not _VISIBLE_ASCII.fullmatch(session):
        raise BrokenPeer("a session id that no header can carry back")
    return session


def decode_tools(value: Json) -> tuple[list[ToolDescriptor], str | None]:
    """Read one page of `tools/list` and the cursor of the next. Raises WrongProtocol."""
    tools, cursor = mcp_shapes.read_page(value, method="tools/list", of="tools")
    return [_decode_tool(tool) for tool in tools], cursor


def decode_tasks(value: Json) -> tuple[list[TaskFacts], str | None]:
    """Read one page of `tasks/list` and the cursor of the next. Raises WrongProtocol."""
    tasks, cursor = mcp_shapes.read_page(value, method="tasks/list", of="tasks")
    return [decode_task(task) for task in tasks], cursor


def decode_task(value: Json, *, expected_id: str | None = None) -> TaskFacts:
    """Read a task object. Raises WrongProtocol for an id or a status that cannot be relied on."""
    return mcp_shapes.read_task(value, ttl="ttl", poll="pollInterval", expected_id=expected_id)


def decode_created(
    answer: RpcResult | RpcError, *, asked: Iterable[ServerRequest] = (), as_task: bool = False
) -> Observation:
    """Read the answer to `tools/call`: a task, or the result of a call that ran at once.

    Raises Refused; with RefusalKind.TASK where the server does not know this tool as a task.
    """
    if isinstance(answer, RpcError):
        if as_task and answer.code == UNKNOWN_METHOD:
            words = strictjson.printable(answer.message)[:300]
            raise Refused(f"refused as a task: {words}", kind=RefusalKind.TASK, code=answer.code)
        raise refusal(answer, "tools/call")
    return _decode_created(answer, asked)


def _decode_created(result: RpcResult, asked: Iterable[ServerRequest]) -> Observation:
    told = as_object(result.value, "the answer to tools/call")
    if isinstance(told.get("task"), dict):
        task = decode_task(told["task"])
        return observe(task, decode_questions(asked, task_id=task.task_id))
    if "resultType" in told and told["resultType"] != "complete":
        raise WrongProtocol("tools/call was answered in the shape of a later protocol version")
    if "task" in told or "taskId" in told or OLD_DRAFT_TASK in member(told, "_meta"):
        # Read naively, the draft's shape is a call that completed with nothing to say.
        raise WrongProtocol("tools/call was answered with a task in the shape of another version")
    outcome = _tool_result(result, told, failed=False)
    status = ProtocolStatus.FAILED if outcome.is_error else ProtocolStatus.COMPLETED
    return Ended(status=status, task=None, result=outcome)


def decode_look(
    answer: RpcResult | RpcError,
    *,
    task_id: str,
    asked: Iterable[ServerRequest] = (),
    exchanges: tuple[Exchange, ...] = (),
) -> Observation:
    """Read the answer to `tasks/get`. -32602 is Absent: it proves nothing by itself (X1)."""
    if isinstance(answer, RpcError):
        if answer.code == BAD_PARAMS:
            return Absent(code=answer.code, message=strictjson.printable(answer.message), exchanges=exchanges)
        raise refusal(answer, "tasks/get")
    task = decode_task(answer.value, expected_id=task_id)
    return observe(task, decode_questions(asked, task_id=task_id), exchanges)


def observe(task: TaskFacts, questions: Sequence[Question] = (), exchanges: tuple[Exchange, ...] = ()) -> Observation:
    """Turn a task into an observation. A question in hand counts, whatever the status says."""
    if task.status.is_terminal:
        return Ended(status=task.status, task=task, exchanges=exchanges)
    if questions or task.status is ProtocolStatus.INPUT_REQUIRED:
        return NeedsInput(task=task, questions=tuple(questions), exchanges=exchanges)
    return Working(task=task, exchanges=exchanges)


def decode_questions(
    asked: Iterable[ServerRequest], *, task_id: str, on_own_stream: bool = False
) -> tuple[Question, ...]:
    """Pick the questions of this task, each key once (B123).

    `on_own_stream`: they came on the `tasks/result` stream of this very task, which names the task
    for a server that forgot to. Anywhere else a question without a name belongs to nobody (B033).
    Raises WrongProtocol for a question of this task that cannot be read.
    """
    found: dict[str, Question] = {}
    for request in asked:
        if is_about(request, task_id, on_own_stream=on_own_stream):
            question = decode_question(request)
            found.setdefault(question.key, question)
    return tuple(found.values())


def is_about(request: ServerRequest, task_id: str, *, on_own_stream: bool = False) -> bool:
    """Whether the server asks a person for this task."""
    if request.method != "elicitation/create":
        return False
    named = named_task(request)
    return named == task_id or (named is None and on_own_stream)


def named_task(request: ServerRequest) -> str | None:
    """Return the task that a request of the server says it is about; empty for a name that is no text."""
    named = member(member(request.params, "_meta"), RELATED_TASK).get("taskId")
    return named if named is None or isinstance(named, str) else ""


def is_hint(told: Notification, *, task_id: str | None) -> bool:
    """Whether a notification says that this task has moved. Where none is known, the session's one may be meant.

    What it says of the status is not read: only a look is evidence (P7, B026).
    """
    named = told.params.get("taskId")
    return told.method == "notifications/tasks/status" and isinstance(named, str) and task_id in (None, named)


def decode_question(request: ServerRequest) -> Question:
    """Read `elicitation/create`. Raises WrongProtocol for one that cannot be shown to a person."""
    return mcp_shapes.read_question(request.params, key=request.id, raw=request.raw_params)


def decode_cancel(answer: RpcResult | RpcError, *, task_id: str) -> CancelAnswer | CancelRefused:
    """Read the answer to `tasks/cancel`. Only a task is evidence (C2): a bare "yes" is not one.

    The task may show any status; `cancelled` alone says that the cancel was carried out (B189).
    """
    if isinstance(answer, RpcResult):
        return CancelAnswer(task=decode_task(answer.value, expected_id=task_id))
    if answer.code in {BAD_PARAMS, UNKNOWN_METHOD}:
        return CancelRefused(code=answer.code, message=strictjson.printable(answer.message))
    raise refusal(answer, "tasks/cancel")


def decode_result(answer: RpcResult | RpcError, *, status: ProtocolStatus) -> ToolResult | NotReady:
    """Read the answer to `tasks/result` of a task that was seen in this terminal status.

    For FAILED whatever the server says *is* the result (R2). Otherwise an error is no result.
    """
    failed = status is ProtocolStatus.FAILED
    if isinstance(answer, RpcError):
        if not failed:
            return NotReady(code=answer.code, message=strictjson.printable(answer.message))
        error: dict[str, Json] = {"code": answer.code, "message": answer.message, "data": answer.data}
        return ToolResult(raw=answer.raw, value=error, is_error=True)
    told = as_object(answer.value, "the answer to tasks/result")
    if status is ProtocolStatus.CANCELLED and not isinstance(told.get("content"), list):
        return NotReady(code=0, message="a cancelled task without a result")
    return _tool_result(answer, told, failed=failed)


def is_session_lost(status: int, error: RpcError | None) -> bool:
    """Whether this refusal, of a request that named a session, says that the session is gone.

    The specification wants 404. server-everything says 400 and names the session in words.
    """
    if status == HTTPStatus.NOT_FOUND:
        return error is None or error.code not in _NO_SESSION_CODES
    return status == HTTPStatus.BAD_REQUEST and error is not None and "session" in error.message.lower()


# Small readers ------------------------------------------------------------------------------------


def _decode_tool(value: Json) -> ToolDescriptor:
    told = as_object(value, "a tool")
    support = _task_support(member(told, "execution").get("taskSupport"))
    return mcp_shapes.read_tool(told, task_support=support)


def _task_support(word: Json) -> TaskSupport:
    # Absent means forbidden; so does a word that nobody defined (N2: not assumed).
    if isinstance(word, str) and word in set(TaskSupport):
        return TaskSupport(word)
    return TaskSupport.FORBIDDEN


def _tool_result(result: RpcResult, told: Mapping[str, Json], *, failed: bool) -> ToolResult:
    if not failed and not isinstance(told.get("content"), list):
        raise WrongProtocol("a tool result without content")
    related = member(member(told, "_meta"), RELATED_TASK).get("taskId")
    return ToolResult(
        raw=result.raw,
        value=result.value,
        is_error=failed or told.get("isError") is True,
        task_id=related if isinstance(related, str) else None,
    )


def _declares(tasks: Mapping[str, Json], *path: str) -> bool:
    for name in path[:-1]:
        tasks = member(tasks, name)
    return isinstance(tasks.get(path[-1]), dict)
