"""A simulated MCP 2026-07-28 tool server with the tasks extension: one message in, one reply out.

It checks every header that the contract names, as strictly as the strictest peer. Questions before
a task need no memory: the `requestState` holds the answers so far, and the script is run again with
them from its beginning.
"""

from __future__ import annotations

import base64
import json
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

from adapters.contract import Json
from adapters.simulator import messages, truth
from adapters.simulator.engine import Engine, Reply, RpcError, Stream
from adapters.simulator.messages import Message, as_object
from adapters.simulator.scenario import CancelStyle, Fault, FaultKind, Scenario
from adapters.simulator.scripts import Answer, Ask, Crash, Outcome, Running, Tool
from adapters.simulator.task import Task, instant, result_of

PROTOCOL_VERSION = "2026-07-28"
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"

_UNKNOWN_METHOD = -32601
_DOOR_CODES = frozenset({-32020, -32021, -32022})
_META = "io.modelcontextprotocol/"
_NAMED_BY = {"tools/call": "name", "tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId"}
_ACTIONS = frozenset({"accept", "decline", "cancel"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _AnsweredAsk:
    """A question that is still shown although it was answered."""

    key: str
    ask: Ask
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Leg:
    """One of the calls that a tool needs when it asks before a task exists."""

    rounds: tuple[Answer, ...]
    """What was answered in the calls before."""


@dataclass(slots=True, kw_only=True)
class _HeldCall(Stream):
    """A call that runs at once."""

    leg: _Leg


class ModernToolServer(Engine):
    """One server with its tasks and its truth. It has no sessions and no list of tasks."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        clock: Callable[[], float],
        chance: random.Random | None = None,
    ) -> None:
        super().__init__(scenario, clock=clock, chance=chance)
        self._old_asks: dict[str, list[_AnsweredAsk]] = {}

    def post(self, message: Message, headers: Mapping[str, str]) -> Reply:
        """Take one JSON-RPC message that was POSTed. Header names are in lower case."""
        return self._serve(message, None, lambda name: self._door(name, message, headers))

    def take(self, stream: Stream) -> list[Message]:
        """Take the answer to a call that runs at once, when it is there."""
        self._advance(self._clock())
        task = stream.task
        if stream.finished or (task.outcome is None and not task.open):
            return []
        self._close(stream)
        if task.open and isinstance(stream, _HeldCall):
            self._moving = [other for other in self._moving if other is not task]
            return [messages.result(stream.request_id, _ask_back(task, stream.leg))]
        return [_final(stream.request_id, task.outcome)]

    def leave(self, stream: Stream) -> None:
        """To leave the stream of a call is to cancel the call (C8)."""
        if not stream.finished and not stream.task.is_over:
            stream.task.cancel(self._clock(), works_on=self.scenario.works_on_after_cancel)
        super().leave(stream)

    def _bend(self, reply: Reply, fault: Fault, method: str) -> Reply:
        if fault.kind is FaultKind.ANSWER_LOST and reply.stream is not None:
            # A broken connection is a cancel here, whoever broke it.
            reply.stream.leave()
        return super()._bend(reply, fault, method)

    # The door -------------------------------------------------------------------------------------

    def _door(self, name: str, message: Message, headers: Mapping[str, str]) -> Reply | None:
        try:
            self._check(name, as_object(message.get("params")), headers)
        except RpcError as refused:
            return self._refusal(message.get("id"), refused)
        return None

    def _check(self, name: str, params: Message, headers: Mapping[str, str]) -> None:
        meta = as_object(params.get("_meta"))
        version = meta.get(f"{_META}protocolVersion")
        if not isinstance(version, str) or not isinstance(meta.get(f"{_META}clientCapabilities"), dict):
            raise RpcError(-32602, "params._meta lacks the protocol version or the client's capabilities")
        if headers.get("mcp-protocol-version") != version or headers.get("mcp-method") != name:
            raise RpcError(-32020, "a header does not match the body")
        if version != PROTOCOL_VERSION:
            told: Message = {"supported": [PROTOCOL_VERSION], "requested": version}
            raise RpcError(-32022, "Unsupported protocol version", told)
        named = params.get(_NAMED_BY[name]) if name in _NAMED_BY else None
        if isinstance(named, str) and _decoded(headers.get("mcp-name", "")) != named:
            raise RpcError(-32020, "the header Mcp-Name does not match the body")
        if name == "tools/call":
            self._check_arguments(params, headers)

    def _check_arguments(self, params: Message, headers: Mapping[str, str]) -> None:
        tool = self._tool(params.get("name"))
        for path, header in _marked(dict(tool.input_schema) if tool else {}, ()):
            value: Json = params.get("arguments")
            for step in path:
                value = as_object(value).get(step)
            wanted = None if value is None else _shown(value)
            sent = headers.get(f"mcp-param-{header.lower()}")
            if (None if sent is None else _decoded(sent)) != wanted:
                raise RpcError(-32020, f"the header Mcp-Param-{header} does not match the body")

    # Verbs ----------------------------------------------------------------------------------------

    def _act(self, name: str, message: Message, session: str | None, now: float) -> Reply:  # noqa: ARG002 - none here
        if "id" not in message:
            return Reply(status=202)
        request_id = message["id"]
        try:
            return self._dispatch(name, as_object(message.get("params")), request_id, now)
        except RpcError as refused:
            return self._refusal(request_id, refused)

    def _refusal(self, request_id: Json, refused: RpcError) -> Reply:
        status = HTTPStatus.NOT_FOUND if refused.code == _UNKNOWN_METHOD else HTTPStatus.BAD_REQUEST
        if self.scenario.errors_as_200 and refused.code not in _DOOR_CODES:
            status = HTTPStatus.OK
        return Reply(status=status, message=messages.error(request_id, refused.code, refused.message, refused.data))

    def _dispatch(self, name: str, params: Message, request_id: Json, now: float) -> Reply:
        if name == "server/discover":
            return Reply(message=messages.result(request_id, self._discovery()))
        if name == "tools/list":
            return Reply(message=messages.result(request_id, self._list_tools(params)))
        if name == "tools/call":
            return self._call(params, request_id, now)
        if not name.startswith("tasks/") or not self.scenario.declares_tasks:
            raise RpcError(-32601, "Method not found")
        if not _has_tasks(params):
            raise _missing_tasks()
        return Reply(message=messages.result(request_id, self._task_verb(name, params, now)))

    def _task_verb(self, name: str, params: Message, now: float) -> Message:
        if name == "tasks/get":
            return {"resultType": "complete", **self._facts(self._find_task(params, now))}
        if name == "tasks/update":
            self._update(self._find_task(params, now), params, now)
        elif name == "tasks/cancel" and self.scenario.cancel is not CancelStyle.REFUSES:
            self._cancel(self._find_task(params, now), now)
        else:
            raise RpcError(-32601, "Method not found")
        return {"resultType": "complete"}

    def _discovery(self) -> Message:
        capabilities: Message = {"tools": {}}
        if self.scenario.declares_tasks:
            capabilities["extensions"] = {TASKS_EXTENSION: {}}
        return {
            "resultType": "complete",
            "supportedVersions": [PROTOCOL_VERSION],
            "capabilities": capabilities,
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {f"{_META}serverInfo": {"name": self.scenario.name, "version": "1"}},
        }

    def _list_tools(self, params: Message) -> Message:
        cursor = params.get("cursor", "0")
        if not isinstance(cursor, str) or not cursor.isdecimal():
            raise RpcError(-32602, "Invalid cursor")
        start, size = int(cursor), self.scenario.tools_per_page
        offered = [*map(_descriptor, self.scenario.tools), *self._lookup_tool()]
        shown, more = offered[start : start + size], start + size < len(offered)
        return {"resultType": "complete", "tools": shown, **({"nextCursor": str(start + size)} if more else {})}

    def _tool(self, name: Json) -> Tool | None:
        return next((tool for tool in self.scenario.tools if tool.name == name), None)

    # Calls ----------------------------------------------------------------------------------------

    def _call(self, params: Message, request_id: Json, now: float) -> Reply:
        if self.scenario.lookup_tool and params.get("name") == self.scenario.lookup_tool:
            return Reply(message=messages.result(request_id, {"resultType": "complete", **self._look_up(params)}))
        tool = self._tool(params.get("name"))
        if tool is None:
            raise RpcError(-32602, f"Unknown tool: {params.get('name')}")
        may = self.scenario.declares_tasks and _has_tasks(params)
        if tool.task_support == "required" and not may:
            raise _missing_tasks()
        leg = _read_leg(params)
        task = self._prepare(tool, params, leg, now, as_task=may and tool.task_support != "forbidden")
        if task.open and (self.scenario.asks_before_task or not task.task_id):
            return Reply(message=messages.result(request_id, _ask_back(task, leg)))
        self._begin(task, params, now)
        if task.task_id:
            return Reply(message=messages.result(request_id, {"resultType": "task", **self._flat(task)}))
        stream = _HeldCall(server=self, task=task, request_id=request_id, inline=True, leg=leg)
        self._streams.append(stream)
        return Reply(stream=stream)

    def _prepare(self, tool: Tool, params: Message, leg: _Leg, now: float, *, as_task: bool) -> Task:
        task_id = (self.scenario.reuse_task_id or self._mint("task")) if as_task else ""
        effects, shown_id = self.truth.effects, task_id or None
        task = Task(
            task_id=task_id,
            session=None,
            running=_answered(tool.script(as_object(params.get("arguments"))), leg.rounds),
            created_at=now,
            speed=self.scenario.speed,
            ttl_ms=self.scenario.ttl_ms,
            error_fails=False,
            on_effect=lambda at, name: effects.append(truth.Done(at=at, task_id=shown_id, name=name)),
        )
        task.advance(now)
        return task

    def _begin(self, task: Task, params: Message, now: float) -> None:
        self._moving.append(task)
        if task.task_id:
            self._tasks[task.task_id] = task
        self.truth.created.append(
            truth.Created(
                at=now,
                submission_key=messages.submission_key_of(params),
                tool=str(params.get("name")),
                task_id=task.task_id or None,
                session=None,
            )
        )

    # Tasks ----------------------------------------------------------------------------------------

    def _find_task(self, params: Message, now: float) -> Task:
        task_id = params.get("taskId")
        task = self._tasks.get(task_id) if isinstance(task_id, str) else None
        if task is None or task.is_expired(now):
            raise RpcError(-32602, f"Task {task_id} not found")
        return task

    def _flat(self, task: Task) -> Message:
        shown: Message = {
            "taskId": task.task_id,
            "status": "input_required" if self._lingering(task) else task.status,
            "createdAt": instant(task.created_at),
            "lastUpdatedAt": instant(task.changed_at),
            "ttlMs": task.ttl_ms,
        }
        if task.message:
            shown["statusMessage"] = task.message
        if self.scenario.poll_ms is not None:
            shown["pollIntervalMs"] = self.scenario.poll_ms
        return shown

    def _facts(self, task: Task) -> Message:
        shown, outcome = self._flat(task), task.outcome
        if shown["status"] == "input_required":
            asked = {old.key: old.ask for old in self._lingering(task)}
            asked |= {self._key(task, number): ask for number, ask in task.open.items()}
            shown["inputRequests"] = {key: _request(ask) for key, ask in asked.items()}
        elif isinstance(outcome, Crash) and task.status == "failed":
            shown["error"] = {"code": -32603, "message": outcome.message}
        elif outcome is not None and not isinstance(outcome, Crash) and task.status == "completed":
            shown["result"] = {"resultType": "complete", **result_of(outcome)}
        return shown

    def _key(self, task: Task, number: int) -> str:
        return f"{task.task_id}:{number - task.round_start if self.scenario.reuses_keys else number}"

    def _lingering(self, task: Task) -> list[_AnsweredAsk]:
        now = self._clock()
        return [old for old in self._old_asks.get(task.task_id, []) if now < old.until and not task.is_over]

    def _update(self, task: Task, params: Message, now: float) -> None:
        numbers = {self._key(task, number): number for number in task.open}
        responses = as_object(params.get("inputResponses"))
        # A malformed answer counts only where its question is open; then none of them is used.
        answers = {key: _answer_of(response) for key, response in responses.items() if key in numbers}
        for key, response in responses.items():
            answer = answers.get(key)
            if answer is not None:
                until = now + self.scenario.answered_listed_s
                old = _AnsweredAsk(key=key, ask=task.open[numbers[key]], until=until)
                self._old_asks.setdefault(task.task_id, []).append(old)
                task.answer(now, answer, number=numbers[key])
            self._note_answer(key, as_object(response), task, now, used=answer is not None)
        task.advance(now)

    def _note_answer(self, key: str, response: Message, task: Task, now: float, *, used: bool) -> None:
        self.truth.answers.append(
            truth.Answered(
                at=now,
                key=key,
                task_id=task.task_id,
                action=str(response.get("action")),
                content=as_object(response.get("content")),
                used=used,
            )
        )

    def _cancel(self, task: Task, now: float) -> None:
        style = self.scenario.cancel
        won = not task.is_over and style not in {CancelStyle.IGNORES, CancelStyle.LATE}
        if won:
            task.cancel(now, works_on=self.scenario.works_on_after_cancel)
        elif style is CancelStyle.LATE and not task.is_over:
            self._cancel_later(task, now)
        self.truth.cancels.append(truth.Cancelled(at=now, task_id=task.task_id, won=won))


# Questions before a task --------------------------------------------------------------------------


def _answered(running: Running, rounds: Sequence[Answer]) -> Running:
    """The script, with its first rounds already answered."""
    left = deque(rounds)
    answer: Answer | None = None
    while True:
        try:
            step = running.send(answer)
        except StopIteration as stop:
            outcome: Outcome = stop.value
            return outcome
        answer = left.popleft() if isinstance(step, Ask) and left else (yield step)


def _ask_back(task: Task, leg: _Leg) -> Message:
    """Ask before a task exists. What was answered so far goes with it, in the state."""
    state = {"rounds": [_told(answer) for answer in leg.rounds], "asked": len(task.open)}
    requests: Message = {f"q{place}": _request(ask) for place, ask in enumerate(task.open.values(), start=1)}
    sealed = base64.b64encode(json.dumps(state).encode()).decode()
    return {"resultType": "input_required", "inputRequests": requests, "requestState": sealed}


def _read_leg(params: Message) -> _Leg:
    """Read what a call brings back. A round that is not wholly answered is asked again."""
    if "requestState" not in params:
        return _Leg(rounds=())
    state = _unsealed(params["requestState"])
    responses = as_object(params.get("inputResponses"))
    rounds = [_heard(told) for told in state["rounds"]]
    given = [_answer_of(responses[key]) for place in range(state["asked"]) if (key := f"q{place + 1}") in responses]
    if given and len(given) == state["asked"]:
        rounds.append(replace(given[0], others=tuple(given[1:])))
    return _Leg(rounds=tuple(rounds))


def _unsealed(state: Json) -> dict[str, Any]:
    try:
        opened = json.loads(base64.b64decode(str(state), validate=True))
    except ValueError:
        raise RpcError(-32602, "Invalid request state", {"reason": "invalid_request_state"}) from None
    return dict(opened)


def _told(answer: Answer) -> Message:
    others: list[Json] = [_told(other) for other in answer.others]
    return {"action": answer.action, "content": dict(answer.content), "others": others}


def _heard(told: dict[str, Any]) -> Answer:
    others = tuple(_heard(other) for other in told["others"])
    return Answer(action=told["action"], content=told["content"], others=others)


def _answer_of(response: Json) -> Answer:
    given = as_object(response)
    if given.get("action") not in _ACTIONS:
        raise RpcError(-32602, "Invalid request parameters")
    return Answer(action=str(given["action"]), content=as_object(given.get("content")))


# Parts of messages --------------------------------------------------------------------------------


def _request(ask: Ask) -> Message:
    params: Message = {"mode": "form", "message": ask.message, "requestedSchema": dict(ask.schema)}
    if ask.url:
        params = {"mode": "url", "message": ask.message, "url": ask.url}
    return {"method": "elicitation/create", "params": params}


def _final(request_id: Json, outcome: Outcome | None) -> Message:
    if outcome is None or isinstance(outcome, Crash):
        return messages.error(request_id, -32603, outcome.message if outcome else "cancelled")
    return messages.result(request_id, {"resultType": "complete", **result_of(outcome)})


def _descriptor(tool: Tool) -> Message:
    told: Message = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": dict(tool.input_schema),
    }
    if tool.output_schema is not None:
        told["outputSchema"] = dict(tool.output_schema)
    return told


def _has_tasks(params: Message) -> bool:
    capabilities = as_object(as_object(params.get("_meta")).get(f"{_META}clientCapabilities"))
    return isinstance(as_object(capabilities.get("extensions")).get(TASKS_EXTENSION), dict)


def _missing_tasks() -> RpcError:
    required: Message = {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
    return RpcError(-32021, "The client did not declare the tasks extension for this request", required)


def _marked(schema: Message, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every argument that must come in a header too, with the name of that header."""
    for name, member in as_object(schema.get("properties")).items():
        inner = as_object(member)
        if isinstance(header := inner.get("x-mcp-header"), str):
            yield (*path, name), header
        yield from _marked(inner, (*path, name))


def _shown(value: Json) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _decoded(value: str) -> str:
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except ValueError:
        raise RpcError(-32020, "a header is not what its encoding says") from None
