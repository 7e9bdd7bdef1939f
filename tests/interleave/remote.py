"""What can go wrong between a run and its tool server: the answers that it spoils, and the network that loses them.

Requests have the names of MCP 2025-11-25, whatever contract they are of.
"""

import asyncio
import json
from typing import Any

import httpx

from adapters.contract import MaybeSent, NotSent
from adapters.simulator.scenario import FaultKind
from adapters.simulator.scripts import Ask, Crash, Effect, Finish, Tool, Work
from tests.adapters.inprocess import InProcessTransport
from tests.interleave.place import LOOKUP_TOOL
from tests.interleave.plan import AIP_151, MCP_2026

_S = FaultKind
LAGS = "the list lags behind"
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
    "tasks/list": _ANY | {LAGS: {"kind": _S.ANSWER_DELAYED}},
    LOOKUP_TOOL: _ANY | {LAGS: {"kind": _S.ANSWER_DELAYED}},
    "answer": {name: _ANY[name] for name in ("429", "503")},
}
ANSWERING = {"tasks/update": "answer"}
"""What 2026-07-28 answers questions with."""
LIES = {"completed too early", "failed by mistake", "not found by mistake", "an older answer repeated"}

SLOW_S = 40.0
"""The longest that a request travels. Every honest quarantine is longer."""
PATIENCE_S = 10.0


def tool_of(run, *, name, support):
    """The run's one tool: its script comes from the run's plan."""
    plan = run.plan

    def script(arguments):
        node = arguments["node"]
        if plan.asks_first and plan.contract == MCP_2026:
            message = FIRST_QUESTION["params"]["message"]
            run.server_used(node, FIRST, (yield Ask(message=message, schema=QUESTION)))
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


FIRST = "before the task"
FIRST_QUESTION: dict[str, Any] = {
    "id": "first",
    "method": "elicitation/create",
    "params": {"mode": "form", "message": f"question {FIRST}", "requestedSchema": {}},
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
        fate = plan.next_of(method)
        if fate is not None:
            return fate
        kind = "hot" if method == plan.hot else "net"
        return self._run.choices.choose(kind, self.FATES, f"{self._run.at()} {method}")

    async def _again(self, method, call):
        server = self._run.server
        before = len(server.all_tasks)
        answer = await call()
        server.doubled.update(key for key, _ in server.all_tasks[before:])
        return answer

    async def _late(self, call, discard):
        await discard(await call())


class NetworkTransport(httpx.AsyncBaseTransport):
    """httpx's way through the network of a run."""

    def __init__(self, run, app):
        self._run = run
        self._inner = InProcessTransport(app)

    async def handle_async_request(self, request):
        return await self._run.network.carry(
            _method_of(request, self._run.plan.contract),
            lambda: self._inner.handle_async_request(request),
            worker=self._run.worker_of(asyncio.current_task()),
            not_sent=lambda: httpx.ConnectError("chosen"),
            maybe_sent=lambda: httpx.ReadError("chosen"),
            discard=_discard,
        )


def _method_of(request, contract):
    """Name a request as the plan's faults do."""
    if contract == AIP_151:
        if request.method == "GET":
            return "tasks/list" if request.url.path.endswith("operations") else "tasks/get"
        return "tasks/cancel" if request.url.path.endswith(":cancel") else "tools/call"
    body = json.loads(request.content)
    method = body.get("method", "answer")
    if method == "tools/call" and body["params"]["name"] == LOOKUP_TOOL:
        return LOOKUP_TOOL
    return ANSWERING.get(method, method)


async def _discard(response):
    await response.stream.aclose()


def not_sent():
    return NotSent("chosen")


def maybe_sent():
    return MaybeSent("chosen")
