"""A simulated AIP-151 server: one HTTP request in, one reply out, over the same scripts and truth.

Pure and deterministic like `core`: the clock and the chance are arguments, and a reply only *says*
what should happen on the wire. The truth is written before any fault can bend the answer.

Faithful where real clients look: `done` is left out while it is false, metadata and responses are
types that they know, an error has its HTTP status and its ErrorInfo, a cancel takes an empty body
as well as `{}`, delete removes the record and nothing else.
"""

from __future__ import annotations

import json
import random
import re
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from adapters import strictjson
from adapters.contract import Json
from adapters.simulator import truth
from adapters.simulator.aip151_scenario import CancelStyle, Fault, FaultKind, Scenario
from adapters.simulator.scripts import Answer, Crash, Finish, Tool
from adapters.simulator.task import Task, instant

TOOLS_DOCUMENT = "longcall-tools.json"
STRUCT = "type.googleapis.com/google.protobuf.Struct"

_LOCATION = re.compile(r"(?:.*/)?locations/[^/:]+(?=[/:]|$)")
_JSON = (("content-type", "application/json"),)
_CODES = {
    1: ("CANCELLED", 499),
    3: ("INVALID_ARGUMENT", 400),
    4: ("DEADLINE_EXCEEDED", 504),
    5: ("NOT_FOUND", 404),
    7: ("PERMISSION_DENIED", 403),
    8: ("RESOURCE_EXHAUSTED", 429),
    9: ("FAILED_PRECONDITION", 400),
    10: ("ABORTED", 409),
    12: ("UNIMPLEMENTED", 501),
    13: ("INTERNAL", 500),
    14: ("UNAVAILABLE", 503),
    16: ("UNAUTHENTICATED", 401),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request below the server's URL; the path has no leading slash."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What should happen on the wire."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = _JSON
    body: bytes = b"{}"
    delay_s: float = 0.0
    drop: bool = False
    truncate: bool = False


class _ApiError(Exception):
    def __init__(self, code: int, message: str, *, retry_after: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retry_after = retry_after


@dataclass(slots=True, kw_only=True)
class _Operation:
    task: Task
    request_id: str
    cancel_asked: bool = False
    cancel_noted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    name: str
    digest: str
    at: float


class OperationsServer:
    """One server with its operations and its truth. `clock` gives seconds since 1970."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        clock: Callable[[], float],
        chance: random.Random | None = None,
    ) -> None:
        self.scenario = scenario
        self.truth = truth.Truth()
        self._clock = clock
        self._chance = chance or random.Random(0)  # noqa: S311 - ids of a simulation, not secrets
        self._operations: dict[str, _Operation] = {}
        self._moving: list[_Operation] = []
        self._keys: dict[str, _Key] = {}
        self._passed: Counter[int] = Counter()
        self._struck: Counter[int] = Counter()
        self._said: dict[str, bytes] = {}

    def receive(self, request: Request) -> Reply:
        """Take one request."""
        now = self._clock()
        self._advance(now)
        kind, name = self._kind(request)
        self.truth.arrivals.append(truth.Arrival(at=now, method=kind, session=None))
        fault = self._strike(kind)
        try:
            if fault is not None and (early := _refuse(fault)) is not None:
                return early
            if fault is not None and fault.kind is FaultKind.FINISHES_FIRST and name in self._operations:
                self._operations[name].task.finish(now)
            body = json.dumps(self._act(kind, name, request, now)).encode()
        except _ApiError as error:
            return self._error(error)
        reply = Reply(body=body)
        return self._bend(reply, fault, kind, self._name_in(body) or name) if fault else self._remember(reply, kind)

    # Faults ---------------------------------------------------------------------------------------

    def _strike(self, kind: str) -> Fault | None:
        for number, fault in enumerate(self.scenario.faults):
            if fault.on != kind or self._struck[number] >= fault.times:
                continue
            self._passed[number] += 1
            late = self._passed[number] - fault.skip
            if late > 0 and (late - 1) % fault.every == 0:
                self._struck[number] += 1
                return fault
        return None

    def _bend(self, reply: Reply, fault: Fault, kind: str, name: str) -> Reply:
        """Spoil the answer of a request that was carried out."""
        match fault.kind:
            case FaultKind.ANSWER_LOST:
                return Reply(drop=True)
            case FaultKind.ANSWER_TRUNCATED:
                return replace(reply, truncate=True)
            case FaultKind.ANSWER_DELAYED:
                return replace(reply, delay_s=fault.seconds / self.scenario.speed)
            case FaultKind.ANSWER_REPEATED:
                return replace(reply, body=self._said.get(kind, reply.body))
            case FaultKind.REPLACED:
                return Reply(status=fault.status, headers=fault.headers, body=fault.body.replace("NAME", name).encode())
        return reply

    def _remember(self, reply: Reply, kind: str) -> Reply:
        self._said[kind] = reply.body
        return reply

    def _error(self, error: _ApiError) -> Reply:
        word, status = _CODES[error.code]
        info: Json = {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": f"SIMULATED_{word}",
            "domain": "simulator.longcall.dev",
        }
        details: list[Json] = [info]
        if error.retry_after:
            retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{error.retry_after}s"}
            details.append(dict(retry))
        inner = {"code": status, "message": error.message, "status": word, "details": details}
        bare = {"code": error.code, "message": error.message, "details": details}
        headers = (*_JSON, ("retry-after", error.retry_after)) if error.retry_after else _JSON
        told = bare if self.scenario.writes_defaults else {"error": inner}
        return Reply(status=status, headers=headers, body=json.dumps(told).encode())

    # Requests -------------------------------------------------------------------------------------

    def _kind(self, request: Request) -> tuple[str, str]:
        """Say what is asked for, and of which operation."""
        path = request.path
        if request.method == "GET":
            if path == TOOLS_DOCUMENT:
                return "tools", ""
            return ("list", path) if path.endswith("operations") else ("get", path)
        if request.method == "DELETE":
            return "delete", path
        if path.endswith(":cancel") and "operations/" in path:
            return "cancel", path.removesuffix(":cancel")
        return "submit", path

    def _act(self, kind: str, name: str, request: Request, now: float) -> dict[str, Json]:
        if kind == "tools" and self.scenario.publishes_tools:
            return self._tools()
        if kind == "submit" and request.method == "POST":
            return self._submit(request, now)
        if kind == "list" and self.scenario.lists:
            return self._list(name, request.query, now)
        if kind == "get":
            return self._view(self._find(name, now))
        if kind == "cancel":
            return self._cancel(name, now)
        if kind == "delete":
            self._find(name, now)
            # The record goes; the work does not (`_moving` still holds it).
            del self._operations[name]
            return {}
        raise _ApiError(5, f"Method not found: {request.method} {request.path}")

    def _tools(self) -> dict[str, Json]:
        return {
            "name": self.scenario.name,
            "version": "1",
            "cancel": self.scenario.cancel is not CancelStyle.REFUSES,
            "list": self.scenario.lists,
            "tools": [_described(tool) for tool in self.scenario.tools],
        }

    def _submit(self, request: Request, now: float) -> dict[str, Json]:
        tool = next((tool for tool in self.scenario.tools if tool.name == request.path), None)
        if tool is None:
            raise _ApiError(5, f"Method not found: {request.path}")
        arguments = _arguments(request.body)
        key = _request_id(request.query.get("requestId", ""))
        digest = strictjson.digest_of([tool.name, arguments])
        known = self._keys.get(key) if self.scenario.honours_request_id else None
        if known is not None and now < known.at + self.scenario.key_window_s:
            if known.digest != digest:
                raise _ApiError(3, "request_id was used with another payload")
            return self._view(self._find(known.name, now))
        made = self._start(tool, arguments, key, now)
        if key:
            self._keys[key] = _Key(name=made.task.task_id, digest=digest, at=now)
        return self._view(made)

    def _start(self, tool: Tool, arguments: Mapping[str, Json], key: str, now: float) -> _Operation:
        name = f"{_parent(tool.name)}operations/{self.scenario.reuse_id or self._mint()}"
        created = truth.Created(at=now, submission_key=key or None, tool=tool.name, task_id=name, session=None)
        self.truth.created.append(created)
        task = Task(
            task_id=name,
            session=None,
            running=tool.script(arguments),
            created_at=now,
            speed=self.scenario.speed,
            ttl_ms=None if self.scenario.keeps_s is None else round(self.scenario.keeps_s * 1000),
            on_effect=lambda at, effect: self.truth.effects.append(truth.Done(at=at, task_id=name, name=effect)),
        )
        made = _Operation(task=task, request_id=key)
        self._operations[name] = made
        self._moving.append(made)
        self._advance(now)
        return made

    def _list(self, path: str, query: Mapping[str, str], now: float) -> dict[str, Json]:
        names = [
            name
            for name, found in self._operations.items()
            if name.startswith(f"{path}/") and not found.task.is_expired(now)
        ]
        start = _number(query.get("pageToken"), otherwise=0)
        size = min(_number(query.get("pageSize"), otherwise=self.scenario.page_size) or 1, self.scenario.page_size)
        shown: list[Json] = [self._view(self._operations[name]) for name in names[start : start + size]]
        more: dict[str, Json] = {"nextPageToken": str(start + size)} if start + size < len(names) else {}
        return {"operations": shown, **more}

    def _cancel(self, name: str, now: float) -> dict[str, Json]:
        if self.scenario.cancel is CancelStyle.REFUSES:
            raise _ApiError(12, "Operations of this service cannot be cancelled")
        found = self._find(name, now)
        if found.task.is_over or self.scenario.cancel is CancelStyle.IGNORES:
            self.truth.cancels.append(truth.Cancelled(at=now, task_id=name, won=False))
            return {}
        if not found.cancel_asked:
            at = now + self.scenario.cancel_after_s / self.scenario.speed
            found.task.cancel_later(at, works_on=self.scenario.works_on_after_cancel)
            found.cancel_asked = True
        return {}

    # Operations -----------------------------------------------------------------------------------

    def _find(self, name: str, now: float) -> _Operation:
        found = self._operations.get(name)
        if found is None or found.task.is_expired(now):
            raise _ApiError(5, f"Operation {name} not found")
        return found

    def _view(self, found: _Operation) -> dict[str, Json]:
        task = found.task
        about: dict[str, Json] = {
            "createTime": instant(task.created_at),
            "statusMessage": task.message,
            "requestedCancellation": found.cancel_asked,
            "apiVersion": "v1",
        }
        if self.scenario.echoes_request_id and found.request_id:
            about["requestId"] = found.request_id
        shown: dict[str, Json] = {"name": task.task_id, "metadata": {"@type": STRUCT, "value": about}}
        if task.is_over:
            return shown | {"done": True} | _result_of(task)
        if self.scenario.writes_defaults:
            return shown | {"done": False, "error": None, "response": None}
        return shown

    def _advance(self, now: float) -> None:
        for found in self._moving:
            task = found.task
            task.advance(now)
            while task.asked is not None and not task.is_over:
                # Nobody can be asked under this contract: the tool is told so, and goes on.
                task.answer(task.changed_at, Answer(action="cancel", content={}))
                task.advance(now)
            if found.cancel_asked and task.is_over and not found.cancel_noted:
                found.cancel_noted = True
                won = task.status == "cancelled"
                self.truth.cancels.append(truth.Cancelled(at=task.changed_at, task_id=task.task_id, won=won))
        self._moving = [found for found in self._moving if found.task.can_move]

    def _name_in(self, body: bytes) -> str:
        name = json.loads(body).get("name")
        return name if isinstance(name, str) else ""

    def _mint(self) -> str:
        # From chance, not counted: a server that was restarted must not hand out old ids again.
        return f"{self.scenario.name}-{self._chance.getrandbits(64):016x}"


def _refuse(fault: Fault) -> Reply | None:
    """Answer for the faults in which the server does nothing."""
    match fault.kind:
        case FaultKind.REQUEST_LOST:
            return Reply(drop=True)
        case FaultKind.API_ERROR:
            raise _ApiError(fault.code, "refused by a fault", retry_after=fault.retry_after)
        case FaultKind.HTTP_STATUS:
            return Reply(status=fault.status, headers=fault.headers, body=fault.body.encode())
    return None


def _result_of(task: Task) -> dict[str, Json]:
    outcome = task.outcome
    if task.status == "cancelled":
        return {"error": {"code": 1, "message": "The operation was cancelled"}}
    if isinstance(outcome, Finish) and not outcome.is_error:
        told: dict[str, Json] = {"text": outcome.text} if outcome.structured is None else dict(outcome.structured)
        return {"response": {"@type": STRUCT, "value": told}}
    if isinstance(outcome, Finish):
        return {"error": {"code": 9, "message": outcome.text}}
    return {"error": {"code": 13, "message": outcome.message if isinstance(outcome, Crash) else ""}}


def _described(tool: Tool) -> dict[str, Json]:
    told: dict[str, Json] = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": dict(tool.input_schema),
    }
    if tool.output_schema is not None:
        told["outputSchema"] = {
            "type": "object",
            "properties": {"@type": {"const": STRUCT}, "value": dict(tool.output_schema)},
            "required": ["@type", "value"],
        }
    return told


def _arguments(body: bytes) -> Mapping[str, Json]:
    try:
        value = strictjson.parse(body or b"{}")
    except strictjson.BadJson:
        raise _ApiError(3, "The body is not JSON") from None
    if not isinstance(value, dict):
        raise _ApiError(3, "The body is no message")
    return value


def _request_id(text: str) -> str:
    if not text:
        return ""
    try:
        found = uuid.UUID(text)
    except ValueError:
        raise _ApiError(3, "request_id must be a UUID") from None
    if not found.int:
        raise _ApiError(3, "request_id must not be the zero UUID")
    return str(found)


def _parent(path: str) -> str:
    found = _LOCATION.match(path)
    return f"{found.group()}/" if found else ""


def _number(text: str | None, *, otherwise: int) -> int:
    return int(text) if text is not None and text.isdecimal() and len(text) < len("1000000000") else otherwise
