"""What the MCP contracts write alike: task, tool, question, page, error answer.

Pure. Strict on what the ledger relies on (a task's id, its status), tolerant on the rest; what is
tolerated is named as an anomaly, never guessed. Free text is never read by machine (B187); the
status words are taken exactly or not at all (B003). Whether and where a shape may stand, and what
it proves, is for each contract's own codec to say (N3).

Note [A lookup tool]
No MCP contract honours a key of ours, but every `tools/call` carries it in `_meta`, and a server may
offer a read-only tool that looks it up. It takes `{"submissionKey": "..."}` and answers in its
structured content with `{"found": false}`, or with `{"found": true, "taskId": "..."}`; members beside
these are ignored. It must know of every call that arrived, also of one that became no task: that one is
`{"found": true}`. Two words can then be told apart that must never be mixed up (X2): "never arrived",
which after the quarantine is a proof, and everything else, which is none. So an error, a text, a task, a
`found` that is no boolean, or an id beside `false` are not read as absence. The id only says where to
look: what became of the task is for `tasks/get` to say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from adapters import strictjson
from adapters.contract import (
    Answered,
    BrokenPeer,
    Call,
    Json,
    Mode,
    ProtocolStatus,
    Question,
    RefusalKind,
    Refused,
    TaskFacts,
    TaskSupport,
    ToolDescriptor,
    WrongProtocol,
)
from adapters.jsonrpc import RpcError, RpcId

KEY_META = "dev.longcall/submission-key"
OLD_DRAFT_TASK = "modelcontextprotocol.io/task"

UNKNOWN_METHOD = -32601
BAD_PARAMS = -32602

_ADMIN_CODES = frozenset({UNKNOWN_METHOD, -32020, -32021, -32022})
"""What we and the server do not have in common: a capability, a header, a version."""
_REQUEST_CODES = frozenset({BAD_PARAMS, -32600, -32700, -32042})
"""What is wrong with this request; -32042 wants a visit to a page before the call."""

_STATUSES = {status.value: status for status in ProtocolStatus}

_TEN_YEARS_MS = 315_360_000_000
_ONE_WEEK_MS = 604_800_000
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def refusal(error: RpcError, method: str) -> Answered:
    """Sort an error answer. What is neither our fault nor an admin's proves nothing about the work."""
    said = f"{method} was refused with {error.code}: {strictjson.printable(error.message)[:300]}"
    if error.code in _ADMIN_CODES:
        return Refused(said, kind=RefusalKind.ADMIN, code=error.code)
    if error.code in _REQUEST_CODES:
        return Refused(said, kind=RefusalKind.REQUEST, code=error.code)
    return BrokenPeer(said)


def read_task(value: Json, *, ttl: str, poll: str, expected_id: str | None = None) -> TaskFacts:
    """Read a task object; `ttl` and `poll` are this contract's names of those two members.

    Raises WrongProtocol for an id or a status that cannot be relied on. All else is tolerated.
    """
    told = as_object(value, "a task")
    task_id, status = told.get("taskId"), told.get("status")
    if not isinstance(task_id, str) or not task_id or strictjson.printable(task_id) != task_id:
        raise WrongProtocol("a task whose id is not a text that can be stored")
    if expected_id is not None and task_id != expected_id:
        raise WrongProtocol("the answer is about another task")
    if not isinstance(status, str) or status not in _STATUSES:
        raise WrongProtocol("a task whose status is not one of the five words")
    anomalies: list[str] = []
    return TaskFacts(
        task_id=task_id,
        status=_STATUSES[status],
        message=_optional_text(told, "statusMessage", anomalies),
        created_at=_instant(told, "createdAt", anomalies),
        ttl_ms=_ttl(told, ttl, anomalies),
        poll_ms=_poll(told, poll, anomalies),
        anomalies=tuple(anomalies),
    )


def read_question(params: Mapping[str, Json], *, key: RpcId, raw: bytes) -> Question:
    """Read the params of `elicitation/create`. Raises WrongProtocol for what no person can be shown."""
    mode, message = params.get("mode", "form"), params.get("message")
    schema, url = params.get("requestedSchema", {}), params.get("url", "")
    if mode not in ("form", "url") or not isinstance(message, str):
        raise WrongProtocol("a question of an unknown kind, or without a message")
    if not isinstance(schema, dict) or not isinstance(url, str) or (mode == "url" and not url):
        raise WrongProtocol("a question without a usable schema or address")
    return Question(
        key=strictjson.canonical(key).decode("ascii"),
        mode=Mode.FORM if mode == "form" else Mode.URL,
        message=strictjson.printable(message),
        schema=schema if mode == "form" else {},
        url=strictjson.printable(url),
        raw=raw,
        digest=strictjson.digest_of(dict(params)),
    )


def read_tool(told: Mapping[str, Json], *, task_support: TaskSupport) -> ToolDescriptor:
    """Read a tool's description. Raises WrongProtocol for one without a name."""
    name = told.get("name")
    if not isinstance(name, str) or not name:
        raise WrongProtocol("a tool without a name")
    raw = strictjson.canonical(told)
    output = told.get("outputSchema")
    return ToolDescriptor(
        name=name,
        title=as_text(told.get("title")) or as_text(member(told, "annotations").get("title")),
        description=as_text(told.get("description")),
        task_support=task_support,
        input_schema=member(told, "inputSchema"),
        output_schema=output if isinstance(output, dict) else None,
        raw=raw,
        digest=strictjson.digest(raw),
    )


def lookup_params(call: Call) -> dict[str, Json]:
    """What a lookup tool is called with. See Note [A lookup tool]."""
    return {"name": call.lookup_tool, "arguments": {"submissionKey": call.submission_key}}


def read_lookup(value: Json) -> str | None:
    """Return the id of the task that a lookup tool found; None where the server never saw the key.

    Raises WrongProtocol or BrokenPeer for every other answer: it proves nothing. See Note [A lookup tool].
    """
    told = as_object(value, "the answer of the lookup tool")
    if told.get("resultType", "complete") != "complete":
        raise WrongProtocol("the lookup tool did not answer at once")
    if told.get("isError", False) is not False:
        raise BrokenPeer("the lookup tool failed")
    said = as_object(told.get("structuredContent"), "the structured content of the lookup tool")
    found, task_id = said.get("found"), said.get("taskId")
    if not isinstance(found, bool) or (task_id is not None and not found):
        raise WrongProtocol("the lookup tool says neither that the key is known nor that it is not")
    if not found:
        return None
    if task_id is None:
        raise BrokenPeer("the server knows the key, and names no task of it")
    if not isinstance(task_id, str) or not task_id or strictjson.printable(task_id) != task_id:
        raise WrongProtocol("the lookup tool names a task whose id is not a text that can be stored")
    return task_id


def read_page(value: Json, *, method: str, of: str) -> tuple[list[Json], str | None]:
    """Read one page of a list and the cursor of the next. Raises WrongProtocol."""
    page = as_object(value, f"the answer to {method}")
    entries, cursor = page.get(of), page.get("nextCursor")
    if not isinstance(entries, list):
        raise WrongProtocol(f"{method} was answered without {of}")
    return entries, cursor if isinstance(cursor, str) else None


def as_object(value: Json, what: str) -> Mapping[str, Json]:
    """The value, if it is an object. Raises WrongProtocol, with `what` in its words."""
    if not isinstance(value, dict):
        raise WrongProtocol(f"{what} is not an object")
    return value


def member(value: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    """The object under this name; empty when there is none."""
    inner = value.get(name)
    return inner if isinstance(inner, dict) else {}


def as_text(value: Json) -> str:
    """The text, made printable; empty for what is no text."""
    return strictjson.printable(value) if isinstance(value, str) else ""


def _optional_text(told: Mapping[str, Json], name: str, anomalies: list[str]) -> str:
    if told.get(name) is not None and not isinstance(told[name], str):
        anomalies.append(f"{name} is not a text")
    return as_text(told.get(name))


def _instant(told: Mapping[str, Json], name: str, anomalies: list[str]) -> str:
    text = as_text(told.get(name))
    if not _INSTANT.fullmatch(text):
        anomalies.append(f"{name} is not an instant")
    return text[:64]


def _ttl(told: Mapping[str, Json], name: str, anomalies: list[str]) -> int | None:
    if name not in told:
        anomalies.append(f"{name} is missing")
        return None
    if told[name] is None:
        return None
    ttl = _milliseconds(told[name])
    if ttl is None or ttl == 0:
        anomalies.append(f"{name} is not a time to live: the task may vanish at any moment")
        return None
    if ttl > _TEN_YEARS_MS:
        anomalies.append(f"{name} is beyond ten years")
    return min(ttl, _TEN_YEARS_MS)


def _poll(told: Mapping[str, Json], name: str, anomalies: list[str]) -> int | None:
    if told.get(name) is None:
        return None
    poll = _milliseconds(told[name])
    if poll is None:
        anomalies.append(f"{name} is not an interval")
        return None
    if poll > _ONE_WEEK_MS:
        anomalies.append(f"{name} is beyond a week")
    return min(poll, _ONE_WEEK_MS)


def _milliseconds(value: Json) -> int | None:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if not whole or isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        return None
    return int(value)
