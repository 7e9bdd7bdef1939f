"""What every simulated server does, whatever it speaks: time, chance, faults, tasks, truth.

Pure and deterministic: the clock and the chance are arguments, and a reply only *says* what should
happen on the wire (`drop`, `truncate`, `delay_s`); `face` makes it so. The truth is written before
any fault can bend the answer. The words of one contract are in `core` and in `modern`.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from adapters.contract import Json
from adapters.simulator import truth
from adapters.simulator.messages import Message, as_object, error
from adapters.simulator.scenario import Fault, FaultKind, Scenario
from adapters.simulator.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What should happen on the wire. No message and no stream: a bare status."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    message: Message | None = None
    stream: Stream | Standing | None = None
    delay_s: float = 0.0
    drop: bool = False
    truncate: bool = False


@dataclass(slots=True, kw_only=True)
class Stream:
    """An answer that is not there yet. `take` gives what can be sent by now."""

    server: Engine
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


@dataclass(slots=True, kw_only=True)
class Standing:
    """The stream of a session on which its server speaks first."""

    server: Engine
    session: str | None
    opened_at: float
    finished: bool = False

    def take(self) -> list[Message]:
        """Take the messages that are due."""
        return self.server.speak(self)

    def leave(self) -> None:
        """Say that nobody reads this stream any more."""
        self.finished = True


class RpcError(Exception):
    """The request is answered with this error."""

    def __init__(self, code: int, message: str, data: Json = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class Engine:
    """One server with its tasks and its truth. Abstract: `core` and `modern` say what it speaks.

    `clock` gives seconds since 1970. `chance` is asked for ids, and by faults with a probability
    below one.
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
        self._tasks: dict[str, Task] = {}
        self._moving: list[Task] = []
        self._streams: list[Stream] = []
        self._passed: Counter[int] = Counter()
        self._struck: Counter[int] = Counter()
        self._said: dict[str, Message] = {}

    def _look_up(self, params: Message) -> Message:
        """Answer the lookup tool: what came under this submission key, and which task it became."""
        key = as_object(params.get("arguments")).get("submissionKey")
        known = [] if self.scenario.lookup_tool_is_blind else self.truth.created
        made = [one for one in known if one.submission_key == key]
        said: Message = {"found": bool(made)}
        if made and made[-1].task_id is not None:
            said["taskId"] = made[-1].task_id
        return {"content": [{"type": "text", "text": json.dumps(said)}], "structuredContent": said}

    def _lookup_tool(self) -> list[Json]:
        """Describe the lookup tool, where there is one."""
        if not self.scenario.lookup_tool:
            return []
        key: Message = {"submissionKey": {"type": "string"}}
        told: Message = {
            "name": self.scenario.lookup_tool,
            "description": "Looks up what came under a submission key.",
            "inputSchema": {"type": "object", "properties": key, "required": ["submissionKey"]},
            "annotations": {"readOnlyHint": True},
        }
        return [told]

    def post(self, message: Message, headers: Mapping[str, str]) -> Reply:
        """Take one JSON-RPC message that was POSTed. Header names are in lower case."""
        raise NotImplementedError

    def delete(self, headers: Mapping[str, str]) -> Reply:  # noqa: ARG002 - for who has sessions
        """Take a DELETE of the endpoint: there is nothing to end."""
        return Reply(status=405)

    def listen(self, headers: Mapping[str, str]) -> Reply:  # noqa: ARG002 - for who has one
        """Take a GET of the endpoint: there is no standing stream."""
        return Reply(status=405, headers=(("allow", "POST"),))

    def speak(self, standing: Standing) -> list[Message]:  # noqa: ARG002 - as above
        """Take what a standing stream may send now (see `Standing.take`)."""
        return []

    def take(self, stream: Stream) -> list[Message]:
        """Take what a waiting stream may send now (see `Stream.take`)."""
        raise NotImplementedError

    def leave(self, stream: Stream) -> None:
        """Notice that a stream was dropped (see `Stream.leave`), as far as this server does."""
        self._close(stream)

    def _act(self, name: str, message: Message, session: str | None, now: float) -> Reply:
        """Carry a request out."""
        raise NotImplementedError

    def _refusal(self, request_id: Json, refused: RpcError) -> Reply:
        """Answer with an error."""
        return Reply(message=error(request_id, refused.code, refused.message, refused.data))

    def _serve(self, message: Message, session: str | None, door: Callable[[str], Reply | None]) -> Reply:
        """Take a message under the faults. `door` may refuse it, given the name of its method."""
        now = self._clock()
        self._advance(now)
        method = message.get("method")
        name = method if isinstance(method, str) else "answer"
        self.truth.arrivals.append(truth.Arrival(at=now, method=name, session=session))
        fault = self._strike(name)
        if fault is not None and (early := self._refuse(fault, message, session)) is not None:
            return early
        if (closed := door(name)) is not None:
            return closed
        if fault is not None and fault.kind is FaultKind.FINISHES_FIRST:
            self._finish_named(message, now)
        reply = self._act(name, message, session, now)
        return self._bend(reply, fault, name) if fault is not None else self._remember(reply, name)

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

    def _refuse(self, fault: Fault, message: Message, session: str | None) -> Reply | None:  # noqa: ARG002 - as above
        """Answer for the faults in which the server does nothing."""
        if fault.kind is FaultKind.REQUEST_LOST:
            return Reply(drop=True)
        if fault.kind is FaultKind.HTTP_STATUS:
            wait = (("retry-after", fault.retry_after),) if fault.retry_after else ()
            return Reply(status=fault.status, headers=wait)
        if fault.kind is FaultKind.RPC_ERROR:
            return self._refusal(message.get("id"), RpcError(fault.code, "refused by a fault"))
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

    # Tasks ----------------------------------------------------------------------------------------

    def _finish_named(self, message: Message, now: float) -> None:
        task_id = as_object(message.get("params")).get("taskId")
        if isinstance(task_id, str) and task_id in self._tasks:
            self._tasks[task_id].finish(now)

    def _advance(self, now: float) -> None:
        for task in self._moving:
            was_over = task.is_over
            task.advance(now)
            if task.status == "cancelled" and not was_over:
                self.truth.cancels.append(truth.Cancelled(at=task.changed_at, task_id=task.task_id, won=True))
        self._moving = [task for task in self._moving if task.can_move or task.asked is not None]

    def _cancel_later(self, task: Task, now: float) -> None:
        at = now + self.scenario.cancel_after_s / self.scenario.speed
        task.cancel_later(at, works_on=self.scenario.works_on_after_cancel)

    def _close(self, stream: Stream) -> None:
        stream.finished = True
        self._streams = [other for other in self._streams if other is not stream]

    def _mint(self, what: str) -> str:
        # From chance, not counted: a server that was restarted must not hand out old ids again.
        return f"{self.scenario.name}-{what}-{self._chance.getrandbits(64):016x}"


def _with_task_member(message: Message | None, member: str, word: str) -> Message | None:
    if message is None or not isinstance(result := message.get("result"), dict):
        return message
    if isinstance(task := result.get("task"), dict):
        return message | {"result": result | {"task": task | {member: word}}}
    return message | {"result": result | {member: word}}
