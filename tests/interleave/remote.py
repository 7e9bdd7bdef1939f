"""The far side of a run: a tool server that spoils its answers as chosen, and a network that loses them.

The server keeps its own truth (`ToolServer.truth`), which nothing below bends.
"""

import asyncio
import json
import random
from typing import Any

import httpx

from adapters.contract import MaybeSent, NotSent
from adapters.simulator.core import ToolServer
from adapters.simulator.engine import Reply
from adapters.simulator.messages import KEY_META, result
from adapters.simulator.scenario import Fault, FaultKind
from adapters.simulator.scripts import Answer, Ask, Crash, Effect, Finish, Tool, Work
from tests.adapters.inprocess import InProcessTransport

_S = FaultKind
_ANY = {
    "429": {"kind": _S.HTTP_STATUS, "status": 429},
    "429 with Retry-After": {"kind": _S.HTTP_STATUS, "status": 429, "retry_after": "7"},
    "503": {"kind": _S.HTTP_STATUS, "status": 503},
    "503 with Retry-After": {"kind": _S.HTTP_STATUS, "status": 503, "retry_after": "5"},
    "answer truncated": {"kind": _S.ANSWER_TRUNCATED},
}
SPOILT = {
    "initialize": _ANY,
    "tools/call": _ANY
    | {
        "401": {"kind": _S.HTTP_STATUS, "status": 401},
        "422": {"kind": _S.HTTP_STATUS, "status": 422},
        "session lost": {"kind": _S.SESSION_LOST},
    },
    "tasks/get": _ANY
    | {
        "401": {"kind": _S.HTTP_STATUS, "status": 401},
        "404": {"kind": _S.HTTP_STATUS, "status": 404},
        "not found by mistake": {"kind": _S.RPC_ERROR, "code": -32602},
        "session lost": {"kind": _S.SESSION_LOST},
        "an older answer repeated": {"kind": _S.ANSWER_REPEATED},
        "an unknown status": {"kind": _S.STATUS_WORD, "word": "pondering"},
        "completed too early": {"kind": _S.STATUS_WORD, "word": "completed"},
        "failed by mistake": {"kind": _S.STATUS_WORD, "word": "failed"},
        "another task's id": {"kind": _S.TASK_ID, "word": "task-of-a-stranger"},
        "finishes first": {"kind": _S.FINISHES_FIRST},
    },
    "tasks/result": _ANY
    | {
        "not found by mistake": {"kind": _S.RPC_ERROR, "code": -32602},
        "session lost": {"kind": _S.SESSION_LOST},
    },
    "tasks/cancel": _ANY
    | {
        "not found by mistake": {"kind": _S.RPC_ERROR, "code": -32602},
        "finishes first": {"kind": _S.FINISHES_FIRST},
        "another task's id": {"kind": _S.TASK_ID, "word": "task-of-a-stranger"},
    },
    "tasks/list": _ANY | {"the list lags behind": {"kind": _S.ANSWER_DELAYED}},
    "answer": {name: _ANY[name] for name in ("429", "503")},
}
LIES = {"completed too early", "failed by mistake", "not found by mistake", "an older answer repeated"}

SLOW_S = 40.0
"""The longest that a request travels. Every honest quarantine is longer."""
PATIENCE_S = 10.0


class ChosenServer(ToolServer):
    """A simulated server whose faults are choices of the run."""

    def __init__(self, scenario, *, run, prefix):
        super().__init__(scenario, clock=run.loop.time, chance=random.Random(prefix))
        self._run_ = run
        self._prefix = prefix
        self._numbers = {"task": 0, "session": 0}
        self.doubled = {}
        """Submission key -> tasks that came of a request which the network doubled."""
        self.reused = set()
        self.first_forms = set()
        """What people wrote to questions that came before a task."""
        self.all_tasks = []
        """(submission key, task), also those whose id another one took over."""
        self._now_struck: Fault | None = None

    def _strike(self, method):
        run = self._run_
        spoilt = SPOILT.get(method)
        if spoilt is None or not run.faults_on:
            return None
        kind = "hot" if method == run.plan.hot else "server"
        name = run.choices.choose(kind, ("", *spoilt), f"{run.at()} {method} is answered")
        if not name:
            return None
        run.count(name, method=method)
        if name in LIES:
            run.lied = True
        self._now_struck = Fault(on=method, **spoilt[name])
        return self._now_struck

    def _mint(self, what):
        run = self._run_
        can_reuse = what == "task" and self._numbers["task"] and run.plan.reuses_ids
        if can_reuse and (run.plan.theme or run.choices.pick(2, "people", "task id reused")):
            run.count("task id reused")
            reused = f"{self._prefix}-task-{self._numbers['task']}"
            self.reused.add(reused)
            return reused
        self._numbers[what] += 1
        return f"{self._prefix}-{what}-{self._numbers[what]}"

    def _start(self, tool, params, session, now, *, as_task):
        task = super()._start(tool, params, session, now, as_task=as_task)
        self.all_tasks.append((params["_meta"][KEY_META], task))
        return task

    def _call(self, params, request_id, session, now):
        if self._run_.plan.asks_first:
            if "answers" not in params:
                return Reply(message=result(request_id, {"asks": FIRST_QUESTION}))
            self._note_first(params)
        if self._run_.plan.honours_keys:
            key = params["_meta"][KEY_META]
            for made, task in self.all_tasks:
                if made == key:
                    return self._again(task, request_id)
        return super()._call(params, request_id, session, now)

    def _note_first(self, params):
        for given in params["answers"]:
            answer = Answer(action=given["action"], content=given.get("content", {}))
            self.first_forms.add(str(answer.content.get("form")))
            self._run_.server_used(params["arguments"]["node"], "before the task", answer)

    def _again(self, task, request_id):
        if not task.task_id:
            return self._hold(task, request_id, inline=True)
        return Reply(message=result(request_id, {"task": task.facts(self.scenario.poll_ms)}))

    def _list_tasks(self, session):
        listed = super()._list_tasks(session)
        fault = self._now_struck
        lags = fault is not None and fault.kind is _S.ANSWER_DELAYED
        young = all(self._clock() < task.created_at + SLOW_S for _, task in self.all_tasks)
        return {"tasks": []} if lags and young else listed

    def _hides(self):
        return self._run_.plan.list_lies and self._run_.choices.pick(2, "people", "the list lacks it")

    def receive(self, message, *, session):
        self._now_struck = None
        return super().receive(message, session=session)

    def find_by_key(self, key):
        """The lookup of a class B server: the newest task of this key, or None."""
        now = self._clock()
        made = [t for known, t in self.all_tasks if known == key and t.task_id and not t.is_expired(now)]
        return made[-1] if made and not self._hides() else None


def tool_of(run, *, name, support):
    """The run's one tool: its script comes from the run's plan."""
    plan = run.plan

    def script(arguments):
        node = arguments["node"]
        for number, seconds in enumerate(plan.work):
            yield Work(seconds=seconds, message=f"step {number}")
            if number < plan.asks:
                answer = yield Ask(message=f"question {number}", schema=QUESTION)
                run.server_used(node, number, answer)
                if answer.action != "accept" and plan.stops_on_decline:
                    return Finish(text="stopped", structured={"node": node})
        if plan.effect:
            yield Effect(name=node)
        if plan.end == "crash":
            return Crash(message="crashed")
        if plan.end == "breaks its schema":
            return Finish(text="odd", structured={"node": 7})
        return Finish(text="done", structured={"node": node}, is_error=plan.end == "error")

    return Tool(
        name=name,
        title=name,
        description="",
        script=script,
        input_schema={"type": "object"},
        output_schema={"type": "object", "properties": {"node": {"type": "string"}}, "required": ["node"]},
        task_support=support,
    )


FIRST_QUESTION: dict[str, Any] = {
    "id": "first",
    "method": "elicitation/create",
    "params": {"mode": "form", "message": "question before the task", "requestedSchema": {}},
}
QUESTION = {"type": "object", "properties": {"k": {"type": "string"}, "form": {"type": "string"}}}
FIRST_QUESTION["params"]["requestedSchema"] = QUESTION


class Network:
    """Carries one request and its answer, or does not."""

    FATES = (
        "",
        "no connection",
        "request lost",
        "request hangs, then acts",
        "answer lost",
        "connection breaks after the server acted",
        "answer slow",
        "answer very slow",
        "request doubled",
    )

    def __init__(self, run):
        self._run = run

    async def carry(self, method, call, *, worker, not_sent, maybe_sent, discard):
        """Return what `call` gives. Raises `not_sent()` and `maybe_sent()`."""
        run, loop = self._run, self._run.loop
        fate = self._draw(method) if run.faults_on else ""
        if fate:
            run.count(fate, method=method)
        await loop.point(f"{worker} sends {method}")
        if fate == "no connection":
            raise not_sent()
        if fate in {"request lost", "request hangs, then acts"}:
            if fate != "request lost":
                loop.call_later(
                    run.choices.choose("people", (12.0, 3.0, SLOW_S)), lambda: run.spawn(self._late(call, discard))
                )
            await asyncio.sleep(PATIENCE_S)
            raise maybe_sent()
        await asyncio.sleep(0.02)
        loop.note(f"{worker} sends {method}")
        answer = await call()
        if fate == "request doubled":
            await discard(await self._again(method, call))
        if fate == "answer lost":
            await discard(answer)
            await asyncio.sleep(PATIENCE_S)
            raise maybe_sent()
        if fate == "connection breaks after the server acted":
            await discard(answer)
            raise maybe_sent()
        await asyncio.sleep({"answer slow": 3.0, "answer very slow": 29.0}.get(fate, 0.02))
        await loop.point(f"{worker} receives {method}")
        return answer

    def _draw(self, method):
        plan = self._run.plan
        if method == "tools/call" and plan.first_fate:
            fate, plan.first_fate = plan.first_fate, ""
            return fate
        kind = "hot" if method == plan.hot else "net"
        return self._run.choices.choose(kind, self.FATES, f"{self._run.at()} {method}")

    async def _again(self, method, call):
        server = self._run.server
        before = len(server.truth.created)
        answer = await call()
        for made in server.truth.created[before:]:
            server.doubled[made.submission_key] = server.doubled.get(made.submission_key, 0) + 1
        return answer

    async def _late(self, call, discard):
        await discard(await call())


class NetworkTransport(httpx.AsyncBaseTransport):
    """httpx's way through the network of a run."""

    def __init__(self, run, app):
        self._run = run
        self._inner = InProcessTransport(app)

    async def handle_async_request(self, request):
        body = json.loads(request.content)
        return await self._run.network.carry(
            body.get("method", "answer"),
            lambda: self._inner.handle_async_request(request),
            worker=self._run.worker_of(asyncio.current_task()),
            not_sent=lambda: httpx.ConnectError("chosen"),
            maybe_sent=lambda: httpx.ReadError("chosen"),
            discard=_discard,
        )


async def _discard(response):
    await response.stream.aclose()


def not_sent():
    return NotSent("chosen")


def maybe_sent():
    return MaybeSent("chosen")
