"""A simulated MCP 2025-11-25 tool server: one message in, one reply out.

Pure and deterministic: the clock and the chance are arguments, and a reply only *says* what should
happen on the wire (`drop`, `truncate`, `delay_s`); `face` makes it so. The truth is written before
any fault can bend the answer.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from adapters.contract import Json
from adapters.simulator import truth
from adapters.simulator.scenario import CancelStyle, Fault, FaultKind, QuestionStyle, Scenario
from adapters.simulator.scripts import Answer, Ask, Crash, Tool
from adapters.simulator.task import Task, result_of

PROTOCOL_VERSION = "2025-11-25"
KEY_META = "dev.longcall/submission-key"
RELATED_TASK = "io.modelcontextprotocol/related-task"

Message = dict[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What should happen on the wire. No message and no stream: a bare status."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    message: Message | None = None
    stream: Stream | None = None
    delay_s: float = 0.0
    drop: bool = False
    truncate: bool = False


@dataclass(slots=True, kw_only=True)
class Stream:
    """An answer that is not there yet. `take` gives what can be sent by now."""

    server: ToolServer
    task: Task
    request_id: Json
    inline: bool
    finished: bool = False
    sent_question: int = 0
    """The number of the last question that this stream carried."""

    def take(self) -> list[Message]:
        """Take the messages that are due. Sets `finished` with the last one."""
        return self.server.take(self)

    def leave(self) -> None:
        """Say that nobody reads this stream any more."""
        self.server.leave(self)


class _RpcError(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(slots=True)
class _Session:
    tasks: list[str] = field(default_factory=list)
    questions: int = 0


class ToolServer:
    """One server with its tasks, its sessions and its truth.

    `clock` gives seconds since 1970. `chance` is asked only by faults with a probability below one.
    """

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
        self._chance = chance or random.Random(0)  # noqa: S311 - faults, not secrets
        self._sessions: dict[str, _Session] = {}
        self._tasks: dict[str, Task] = {}
        self._moving: list[Task] = []
        self._streams: list[Stream] = []
        self._passed: Counter[int] = Counter()
        self._struck: Counter[int] = Counter()
        self._said: dict[str, Message] = {}

    def receive(self, message: Message, *, session: str | None) -> Reply:
        """Take one JSON-RPC message that was POSTed under this session id."""
        now = self._clock()
        self._advance(now)
        method = message.get("method")
        name = method if isinstance(method, str) else "answer"
        self.truth.arrivals.append(truth.Arrival(at=now, method=name, session=session))
        fault = self._strike(name)
        if fault is not None and (early := self._refuse(fault, message, session)) is not None:
            return early
        if (lost := self._check_session(name, session)) is not None:
            return lost
        if fault is not None and fault.kind is FaultKind.FINISHES_FIRST:
            self._finish_named(message, now)
        reply = self._act(name, message, session, now)
        return self._bend(reply, fault, name) if fault is not None else self._remember(reply, name)

    def take(self, stream: Stream) -> list[Message]:
        """Take what a waiting stream may send now (see `Stream.take`)."""
        now = self._clock()
        self._advance(now)
        task = stream.task
        if stream.finished:
            return []
        if task.is_over or task.outcome is not None:
            self._close(stream)
            return [self._final(stream)]
        if task.asked is None or stream.sent_question == task.asked_times:
            return []
        if not self._may_deliver(task, stream):
            return []
        stream.sent_question = task.asked_times
        if self.scenario.closes_stream_after_question:
            self._close(stream)
        return [self._question(task, task.asked)]

    def leave(self, stream: Stream) -> None:
        """Notice that a stream was dropped (see `Stream.leave`), as far as this server does."""
        if not self.scenario.stale_streams_swallow:
            self._close(stream)

    def forget_session(self, session: str) -> None:
        """Lose a session; its tasks run on."""
        self._sessions.pop(session, None)

    # Faults ---------------------------------------------------------------------------------------

    def _strike(self, method: str) -> Fault | None:
        for number, fault in enumerate(self.scenario.faults):
            if fault.on != method or self._struck[number] >= fault.times:
                continue
            self._passed[number] += 1
            if self._passed[number] <= fault.skip:
                continue
            if fault.chance >= 1.0 or self._chance.random() < fault.chance:
                self._struck[number] += 1
                return fault
        return None

    def _refuse(self, fault: Fault, message: Message, session: str | None) -> Reply | None:
        """Answer for the faults in which the server does nothing."""
        if fault.kind is FaultKind.REQUEST_LOST:
            return Reply(drop=True)
        if fault.kind is FaultKind.HTTP_STATUS:
            wait = (("retry-after", fault.retry_after),) if fault.retry_after else ()
            return Reply(status=fault.status, headers=wait)
        if fault.kind is FaultKind.RPC_ERROR:
            return Reply(message=_error(message.get("id"), fault.code, "refused by a fault"))
        if fault.kind is FaultKind.SESSION_LOST and session is not None:
            self.forget_session(session)
        return None

    def _bend(self, reply: Reply, fault: Fault, method: str) -> Reply:
        """Spoil the answer of a request that was carried out."""
        kind = fault.kind
        if kind is FaultKind.ANSWER_LOST:
            return Reply(drop=True)
        if kind is FaultKind.ANSWER_TRUNCATED:
            return replace(reply, truncate=True)
        if kind is FaultKind.ANSWER_DELAYED:
            return replace(reply, delay_s=fault.seconds / self.scenario.speed)
        if kind is FaultKind.ANSWER_REPEATED and method in self._said and reply.message:
            return replace(reply, message=self._said[method] | {"id": reply.message.get("id")})
        if kind is FaultKind.STATUS_WORD:
            return replace(reply, message=_with_task_member(reply.message, "status", fault.word))
        if kind is FaultKind.TASK_ID:
            return replace(reply, message=_with_task_member(reply.message, "taskId", fault.word))
        return reply

    def _remember(self, reply: Reply, method: str) -> Reply:
        if reply.message is not None:
            self._said[method] = reply.message
        return reply

    # Verbs ----------------------------------------------------------------------------------------

    def _check_session(self, name: str, session: str | None) -> Reply | None:
        if not self.scenario.sessions or name == "initialize" or session in self._sessions:
            return None
        status, words = (400, "Missing session ID") if session is None else (404, "Session not found")
        return Reply(status=status, message=_error(None, -32600, words))

    def _act(self, name: str, message: Message, session: str | None, now: float) -> Reply:
        if name == "answer":
            self._take_answer(message, session, now)
            return Reply(status=202)
        if name == "notifications/cancelled":
            self._cancel_request(_object(message.get("params")).get("requestId"), session)
        if "id" not in message:
            return Reply(status=202)
        request_id = message["id"]
        try:
            return self._dispatch(name, message, session, now)
        except _RpcError as error:
            return Reply(message=_error(request_id, error.code, error.message))

    def _dispatch(self, name: str, message: Message, session: str | None, now: float) -> Reply:
        params, request_id = _object(message.get("params")), message["id"]
        scenario = self.scenario
        if name == "initialize":
            return self._initialize(request_id)
        if name == "ping":
            return Reply(message=_result(request_id, {}))
        if name == "tools/list":
            return Reply(message=_result(request_id, self._list_tools(params)))
        if name == "tools/call":
            return self._call(params, request_id, session, now)
        if name == "tasks/get":
            task = self._find_task(message, session)
            return Reply(message=_result(request_id, task.facts(scenario.poll_ms)))
        if name == "tasks/result":
            return self._result(self._find_task(message, session), request_id)
        if name == "tasks/cancel" and scenario.cancel is not CancelStyle.REFUSES:
            return Reply(message=_result(request_id, self._cancel(self._find_task(message, session), now)))
        if name == "tasks/list" and scenario.lists_tasks:
            return Reply(message=_result(request_id, self._list_tasks(session)))
        raise _RpcError(-32601, "Method not found")

    def _initialize(self, request_id: Json) -> Reply:
        headers: tuple[tuple[str, str], ...] = ()
        if self.scenario.sessions:
            session = self._mint("session")
            self._sessions[session] = _Session()
            headers = (("mcp-session-id", session),)
        told: Message = {
            "protocolVersion": PROTOCOL_VERSION,
            "capabilities": self._capabilities(),
            "serverInfo": {"name": self.scenario.name, "version": "1"},
        }
        return Reply(headers=headers, message=_result(request_id, told))

    def _capabilities(self) -> Message:
        told: Message = {"tools": {}}
        if self.scenario.declares_tasks:
            tasks: Message = {"requests": {"tools": {"call": {}}}}
            if self.scenario.lists_tasks:
                tasks["list"] = {}
            if self.scenario.cancel is not CancelStyle.REFUSES:
                tasks["cancel"] = {}
            told["tasks"] = tasks
        return told

    def _list_tools(self, params: Message) -> Message:
        cursor = params.get("cursor", "0")
        if not isinstance(cursor, str) or not cursor.isdecimal():
            raise _RpcError(-32602, "Invalid cursor")
        start, size = int(cursor), self.scenario.tools_per_page
        shown: list[Json] = [_descriptor(tool) for tool in self.scenario.tools[start : start + size]]
        more = start + size < len(self.scenario.tools)
        return {"tools": shown, **({"nextCursor": str(start + size)} if more else {})}

    def _call(self, params: Message, request_id: Json, session: str | None, now: float) -> Reply:
        tool = next((tool for tool in self.scenario.tools if tool.name == params.get("name")), None)
        if tool is None:
            raise _RpcError(-32602, f"Unknown tool: {params.get('name')}")
        as_task = self.scenario.declares_tasks and "task" in params
        if as_task and tool.task_support == "forbidden":
            raise _RpcError(-32601, f"Tool {tool.name} cannot be called as a task")
        if tool.task_support == "required" and not as_task:
            # What every SDK does, although the specification wants an error.
            words = "This tool requires task-augmented invocation"
            return Reply(message=_result(request_id, _text_error(words)))
        task = self._start(tool, params, session, now, as_task=as_task)
        if as_task:
            created: Message = {"task": task.facts(self.scenario.poll_ms)}
            return Reply(message=_result(request_id, created))
        return self._hold(task, request_id, inline=True)

    def _start(self, tool: Tool, params: Message, session: str | None, now: float, *, as_task: bool) -> Task:
        task_id = (self.scenario.reuse_task_id or self._mint("task")) if as_task else ""
        shown_id = task_id or None
        key = _object(params.get("_meta")).get(KEY_META)
        self.truth.created.append(
            truth.Created(
                at=now,
                submission_key=key if isinstance(key, str) else None,
                tool=tool.name,
                task_id=shown_id,
                session=session,
            )
        )
        task = Task(
            task_id=task_id,
            session=session,
            running=tool.script(_object(params.get("arguments"))),
            created_at=now,
            speed=self.scenario.speed,
            ttl_ms=self._ttl(_object(params.get("task"))),
            on_effect=lambda at, name: self.truth.effects.append(truth.Done(at=at, task_id=shown_id, name=name)),
        )
        self._keep(task, session, as_task=as_task)
        task.advance(now)
        return task

    def _keep(self, task: Task, session: str | None, *, as_task: bool) -> None:
        self._moving.append(task)
        if as_task:
            self._tasks[task.task_id] = task
        if as_task and session is not None:
            self._sessions[session].tasks.append(task.task_id)

    def _ttl(self, wish: Message) -> int | None:
        if self.scenario.ttl_ms is not None:
            return self.scenario.ttl_ms
        asked = wish.get("ttl")
        return asked if isinstance(asked, int) and not isinstance(asked, bool) else None

    def _result(self, task: Task, request_id: Json) -> Reply:
        if task.outcome is not None or task.is_over:
            stream = Stream(server=self, task=task, request_id=request_id, inline=False)
            return Reply(message=self._final(stream))
        return self._hold(task, request_id, inline=False)

    def _hold(self, task: Task, request_id: Json, *, inline: bool) -> Reply:
        stream = Stream(server=self, task=task, request_id=request_id, inline=inline)
        self._streams.append(stream)
        return Reply(stream=stream)

    def _close(self, stream: Stream) -> None:
        stream.finished = True
        self._streams = [other for other in self._streams if other is not stream]

    def _cancel_request(self, request_id: Json, session: str | None) -> None:
        for stream in list(self._streams):
            if stream.request_id == request_id and stream.task.session == session:
                self._close(stream)

    def _final(self, stream: Stream) -> Message:
        task, outcome = stream.task, stream.task.outcome
        if outcome is None or isinstance(outcome, Crash):
            words = outcome.message if isinstance(outcome, Crash) else f"Task {task.status}"
            return _error(stream.request_id, -32603, words)
        result = result_of(outcome)
        related = task.task_id if self.scenario.related_task is None else self.scenario.related_task
        if related and not stream.inline:
            result["_meta"] = {RELATED_TASK: {"taskId": related}}
        return _result(stream.request_id, result)

    def _cancel(self, task: Task, now: float) -> Message:
        style, won = self.scenario.cancel, False
        try:
            if style is CancelStyle.IGNORES:
                return task.facts(self.scenario.poll_ms)
            if style is CancelStyle.LIES and task.is_over:
                return task.facts(self.scenario.poll_ms) | {"status": "cancelled"}
            if task.is_over:
                raise _RpcError(-32602, f"Cannot cancel task in terminal state '{task.status}'")
            won = True
            task.cancel(now, works_on=self.scenario.works_on_after_cancel)
            return task.facts(self.scenario.poll_ms)
        finally:
            self.truth.cancels.append(truth.Cancelled(at=now, task_id=task.task_id, won=won))

    def _list_tasks(self, session: str | None) -> Message:
        known = self._sessions[session].tasks if session is not None else list(self._tasks)
        now = self._clock()
        kept = [self._tasks[task_id] for task_id in known if not self._tasks[task_id].is_expired(now)]
        return {"tasks": [task.facts(self.scenario.poll_ms) for task in kept]}

    # Questions ------------------------------------------------------------------------------------

    def _may_deliver(self, task: Task, stream: Stream) -> bool:
        again = self.scenario.questions is not QuestionStyle.ONCE
        oldest = next(other for other in self._streams if other.task is task)
        waits_in_line = self.scenario.stale_streams_swallow and oldest is not stream
        return not self.scenario.json_only and not waits_in_line and (again or not task.delivered)

    def _question(self, task: Task, asked: Ask) -> Message:
        if task.question_id is None or self.scenario.questions is QuestionStyle.RENAMED:
            task.question_id = self._next_question_id(task.session)
        task.delivered = True
        params: Message = {"mode": "form", "message": asked.message, "requestedSchema": dict(asked.schema)}
        if asked.url:
            visit = f"visit-{task.question_id}"
            params = {"mode": "url", "message": asked.message, "url": asked.url, "elicitationId": visit}
        if task.task_id:
            params["_meta"] = {RELATED_TASK: {"taskId": task.task_id}}
        return {"jsonrpc": "2.0", "id": task.question_id, "method": "elicitation/create", "params": params}

    def _next_question_id(self, session: str | None) -> int:
        # Counted from 0 in each session, as the TypeScript SDK does: a falsy id that others repeat.
        holder = self._sessions.setdefault(session or "", _Session())
        holder.questions += 1
        return holder.questions - 1

    def _take_answer(self, message: Message, session: str | None, now: float) -> None:
        task = self._waiting_task(message.get("id"), session)
        result = _object(message.get("result"))
        action = result.get("action") if "result" in message else "error"
        content = _object(result.get("content"))
        self.truth.answers.append(
            truth.Answered(
                at=now,
                key=repr(message.get("id")),
                task_id=task.task_id if task else None,
                action=str(action),
                content=content,
                used=task is not None,
            )
        )
        if task is not None:
            task.answer(now, Answer(action=str(action), content=content))
            task.advance(now)

    def _waiting_task(self, question_id: Json, session: str | None) -> Task | None:
        for task in self._moving:
            waits = task.asked is not None and task.delivered
            same = type(task.question_id) is type(question_id) and task.question_id == question_id
            if waits and same and task.session == session:
                return task
        return None

    # Tasks ----------------------------------------------------------------------------------------

    def _find_task(self, message: Message, session: str | None) -> Task:
        task_id = _object(message.get("params")).get("taskId")
        task = self._tasks.get(task_id) if isinstance(task_id, str) else None
        # Both official SDKs show a task only to the session that made it.
        if task is None or (self.scenario.sessions and task.session != session):
            raise _RpcError(-32602, "Task not found")
        # An expired task is out of sight; its work goes on (`_moving` still holds it).
        if task.is_expired(self._clock()):
            raise _RpcError(-32602, "Task has expired")
        return task

    def _finish_named(self, message: Message, now: float) -> None:
        task_id = _object(message.get("params")).get("taskId")
        if isinstance(task_id, str) and task_id in self._tasks:
            self._tasks[task_id].finish(now)

    def _advance(self, now: float) -> None:
        for task in self._moving:
            task.advance(now)
        self._moving = [task for task in self._moving if task.can_move or task.asked is not None]

    def _mint(self, what: str) -> str:
        # From chance, not counted: a server that was restarted must not hand out old ids again.
        return f"{self.scenario.name}-{what}-{self._chance.getrandbits(64):016x}"


def _descriptor(tool: Tool) -> Message:
    told: Message = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": dict(tool.input_schema),
        "execution": {"taskSupport": tool.task_support},
    }
    if tool.output_schema is not None:
        told["outputSchema"] = dict(tool.output_schema)
    return told


def _with_task_member(message: Message | None, member: str, word: str) -> Message | None:
    if message is None or not isinstance(result := message.get("result"), dict):
        return message
    if isinstance(task := result.get("task"), dict):
        return message | {"result": result | {"task": task | {member: word}}}
    return message | {"result": result | {member: word}}


def _object(value: Json) -> Message:
    return value if isinstance(value, dict) else {}


def _result(request_id: Json, result: Message) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def _error(request_id: Json, code: int, words: str) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": words}}


def _text_error(words: str) -> Message:
    return {"content": [{"type": "text", "text": words}], "isError": True}
