"""A simulated MCP 2025-11-25 tool server: one message in, one reply out."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from adapters.contract import Json
from adapters.simulator import truth
from adapters.simulator.engine import Engine, Reply, RpcError, Standing, Stream
from adapters.simulator.messages import KEY_META, Message, submission_key_of
from adapters.simulator.messages import as_object as _object
from adapters.simulator.messages import error as _error
from adapters.simulator.messages import result as _result
from adapters.simulator.scenario import CancelStyle, Fault, FaultKind, QuestionStyle, Scenario
from adapters.simulator.scripts import Answer, Ask, Crash, Tool
from adapters.simulator.task import Task, result_of

__all__ = ["KEY_META", "PROTOCOL_VERSION", "RELATED_TASK", "Message", "Reply", "Stream", "ToolServer"]

PROTOCOL_VERSION = "2025-11-25"
RELATED_TASK = "io.modelcontextprotocol/related-task"


@dataclass(slots=True)
class _Session:
    tasks: list[str] = field(default_factory=list)
    questions: int = 0
    standing: Standing | None = None


class ToolServer(Engine):
    """One server with its tasks, its sessions and its truth."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        clock: Callable[[], float],
        chance: random.Random | None = None,
    ) -> None:
        super().__init__(scenario, clock=clock, chance=chance)
        self._sessions: dict[str, _Session] = {}

    def post(self, message: Message, headers: Mapping[str, str]) -> Reply:
        """Take one JSON-RPC message that was POSTed."""
        return self.receive(message, session=headers.get("mcp-session-id"))

    def receive(self, message: Message, *, session: str | None) -> Reply:
        """Take one JSON-RPC message that was POSTed under this session id."""
        return self._serve(message, session, lambda name: self._check_session(name, session))

    def delete(self, headers: Mapping[str, str]) -> Reply:
        """End a session."""
        self.forget_session(headers.get("mcp-session-id", ""))
        return Reply()

    def listen(self, headers: Mapping[str, str]) -> Reply:
        """Open the standing stream of a session: one at a time."""
        session = headers.get("mcp-session-id")
        refused = self._check_session("GET", session)
        holder = self._sessions.get(session or "")
        if self.scenario.questions is not QuestionStyle.STANDING or holder is None or refused is not None:
            return refused or super().listen(headers)
        if holder.standing is not None and not holder.standing.finished:
            return Reply(status=409)
        holder.standing = Standing(server=self, session=session, opened_at=self._clock())
        return Reply(stream=holder.standing)

    def speak(self, standing: Standing) -> list[Message]:
        """Give out the questions that were asked since the stream is there (see `Standing.take`)."""
        self._advance(self._clock())
        standing.finished = standing.finished or standing.session not in self._sessions
        told: list[Message] = []
        for task in self._moving:
            due = task.asked is not None and not task.delivered and task.changed_at >= standing.opened_at
            due = due and task.task_id != ""  # a call that runs at once asks on its own stream
            if task.asked is not None and due and task.session == standing.session and not standing.finished:
                told.append(_unnamed(self._question(task, task.asked)))
        return told

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
        if task.asked is None or stream.sent_question == task.asked_number:
            return []
        if not self._may_deliver(task, stream):
            return []
        stream.sent_question = task.asked_number
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

    def _refuse(self, fault: Fault, message: Message, session: str | None) -> Reply | None:
        if fault.kind is FaultKind.SESSION_LOST and session is not None:
            self.forget_session(session)
        return super()._refuse(fault, message, session)

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
        except RpcError as error:
            return self._refusal(request_id, error)

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
            facts = task.facts(scenario.poll_ms)
            hides = scenario.questions is QuestionStyle.STANDING and task.status == "input_required"
            return Reply(message=_result(request_id, facts | {"status": "working"} if hides else facts))
        if name == "tasks/result":
            return self._result(self._find_task(message, session), request_id)
        if name == "tasks/cancel" and scenario.cancel is not CancelStyle.REFUSES:
            return Reply(message=_result(request_id, self._cancel(self._find_task(message, session), now)))
        if name == "tasks/list" and scenario.lists_tasks:
            return Reply(message=_result(request_id, self._list_tasks(session)))
        raise RpcError(-32601, "Method not found")

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
            raise RpcError(-32602, "Invalid cursor")
        start, size = int(cursor), self.scenario.tools_per_page
        offered = [*map(_descriptor, self.scenario.tools), *self._lookup_tool()]
        shown, more = offered[start : start + size], start + size < len(offered)
        return {"tools": shown, **({"nextCursor": str(start + size)} if more else {})}

    def _call(self, params: Message, request_id: Json, session: str | None, now: float) -> Reply:
        if self.scenario.lookup_tool and params.get("name") == self.scenario.lookup_tool:
            return Reply(message=_result(request_id, self._look_up(params)))
        tool = next((tool for tool in self.scenario.tools if tool.name == params.get("name")), None)
        if tool is None:
            raise RpcError(-32602, f"Unknown tool: {params.get('name')}")
        as_task = self.scenario.declares_tasks and "task" in params
        if as_task and tool.task_support == "forbidden":
            raise RpcError(-32601, f"Tool {tool.name} cannot be called as a task")
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
        self.truth.created.append(
            truth.Created(
                at=now,
                submission_key=submission_key_of(params),
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
            if style is CancelStyle.LATE and not task.is_over:
                self._cancel_later(task, now)
            if style in {CancelStyle.IGNORES, CancelStyle.LATE}:
                return task.facts(self.scenario.poll_ms)
            if style is CancelStyle.LIES and task.is_over:
                return task.facts(self.scenario.poll_ms) | {"status": "cancelled"}
            if task.is_over:
                raise RpcError(-32602, f"Cannot cancel task in terminal state '{task.status}'")
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
        standing = self.scenario.questions is QuestionStyle.STANDING and not stream.inline
        return not self.scenario.json_only and not standing and not waits_in_line and (again or not task.delivered)

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
            raise RpcError(-32602, "Task not found")
        # An expired task is out of sight; its work goes on (`_moving` still holds it).
        if task.is_expired(self._clock()):
            raise RpcError(-32602, "Task has expired")
        return task


def _unnamed(question: Message) -> Message:
    params = {name: value for name, value in _object(question["params"]).items() if name != "_meta"}
    return question | {"params": params}


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


def _text_error(words: str) -> Message:
    return {"content": [{"type": "text", "text": words}], "isError": True}
