"""An adapter without bytes: it asks the simulated server's core and hands the driver observations.

Three times as fast as the real one, and able to keep promises that no real adapter keeps yet: keys
that are honoured, a cancel that is cooperative, results that come with the look.
"""

import json

from adapters import mcp_2025_11_25_codec as codec
from adapters.contract import (
    Absent,
    BrokenPeer,
    CancelAnswer,
    CancelRefused,
    Capabilities,
    Delivered,
    Ended,
    Exchange,
    Lookup,
    MaybeSent,
    NeedsInput,
    NotReady,
    Opened,
    Promises,
    ProtocolStatus,
    RefusalKind,
    Refused,
    SessionLost,
    Stability,
    TaskFacts,
    Throttled,
    ToolResult,
    Working,
    WrongProtocol,
)
from adapters.jsonrpc import ServerRequest
from adapters.simulator.messages import KEY_META
from tests.interleave.plan import LATER
from tests.interleave.remote import PATIENCE_S, maybe_sent, not_sent

BAD_PARAMS = -32602


class DirectWire:
    """Stands for a wire: who asks, for whom."""

    def __init__(self, run, worker, work):
        self.run = run
        self.worker = worker
        self.work = work


class Decoded:
    """One per run: its promises are part of the run's plan."""

    release = "r1"

    def __init__(self, plan):
        self._is_later = plan.contract == LATER
        self._asks_first = plan.asks_first
        self.promises = Promises(
            protocol_version="2025-11-25",
            stability=Stability.EXPERIMENTAL,
            needs_session=plan.lookup is Lookup.SESSION_LIST,
            cancel_ack_is_terminal=not self._is_later,
            result_inline=self._is_later,
            tool_error=ProtocolStatus.COMPLETED if self._is_later else ProtocolStatus.FAILED,
            has_input_rounds=True,
            answers_repeatable=False,
            input_before_task=self._asks_first,
            disconnect_cancels_request=False,
            lookups=frozenset(Lookup),
        )

    async def open(self, wire):
        reply = await self._ask(wire, None, "initialize", {})
        tasks = reply.message["result"]["capabilities"].get("tasks", {})
        declared = Capabilities(
            server_name="",
            server_version="",
            creates_tasks=bool(tasks),
            cancels_tasks="cancel" in tasks,
            lists_tasks=True,
        )
        return Opened(session=dict(reply.headers).get("mcp-session-id"), capabilities=declared, exchanges=_SEEN)

    async def submit(self, wire, handle, call):
        params = {"name": call.tool, "arguments": json.loads(call.arguments), "_meta": {KEY_META: call.submission_key}}
        if call.as_task:
            params["task"] = {"ttl": call.ttl_ms}
        if call.continuation is not None:
            params["answers"] = [_answer(reply) for reply in call.continuation.replies]
        reply = await self._ask(wire, handle.session, "tools/call", params)
        if reply.stream is not None:
            return self._at_once(reply.stream)
        answer = reply.message
        if "error" in answer:
            raise Refused(answer["error"]["message"], kind=RefusalKind.REQUEST, exchanges=_SEEN)
        if "asks" in answer["result"]:
            question = _question(answer["result"]["asks"])
            return NeedsInput(task=None, questions=(question,), continuation_state='"kept"', exchanges=_SEEN)
        return self._observe(wire, answer["result"]["task"], expect_question=self._is_later)

    async def find(self, wire, handle, call, lookup):
        if lookup is Lookup.SAME_KEY_REPLAY:
            return await self.submit(wire, handle, call)
        if lookup is Lookup.SESSION_LIST:
            reply = await self._ask(wire, handle.session, "tasks/list", {})
            tasks = reply.message["result"]["tasks"]
            if len(tasks) > 1:
                raise WrongProtocol("more than one task in the session", exchanges=_SEEN)
            found = tasks[0] if tasks else None
        else:
            await self._ask(wire, handle.session, "tasks/list", {})
            made = wire.run.server.find_by_key(call.submission_key)
            found = made.facts(1000) if made else None
        if found is None:
            return Absent(code=0, message="no task of this key", by_key=True, exchanges=_SEEN)
        return self._observe(wire, found, expect_question=self._is_later)

    async def look(self, wire, handle, *, expect_question):
        answer = await self._get(wire, handle)
        if "error" in answer:
            if answer["error"]["code"] == BAD_PARAMS:
                return Absent(code=BAD_PARAMS, message="not found", exchanges=_SEEN)
            raise BrokenPeer("an error", exchanges=_SEEN)
        shown = answer["result"]
        if shown["taskId"] != handle.task_id or shown["status"] not in set(ProtocolStatus):
            raise WrongProtocol("another task, or an unknown status", exchanges=_SEEN)
        return self._observe(wire, shown, expect_question=expect_question or self._is_later)

    async def answer(self, wire, handle, replies):
        for reply in replies:
            message = {"id": json.loads(reply.key), "result": _answer(reply)}
            await self._send(wire, handle.session, "answer", message)
        return Delivered(exchanges=_SEEN)

    async def cancel(self, wire, handle):
        reply = await self._ask(wire, handle.session, "tasks/cancel", {"taskId": handle.task_id})
        answer = reply.message
        if "error" in answer:
            return CancelRefused(code=answer["error"]["code"], message="refused", exchanges=_SEEN)
        if self._is_later:
            return CancelAnswer(task=None, exchanges=_SEEN)
        facts = _facts(answer["result"])
        if facts.task_id != handle.task_id:
            raise WrongProtocol("the answer is about another task", exchanges=_SEEN)
        return CancelAnswer(task=facts, exchanges=_SEEN)

    async def fetch(self, wire, handle, status):
        reply = await self._ask(wire, handle.session, "tasks/result", {"taskId": handle.task_id})
        for message in [reply.message] if reply.stream is None else reply.stream.take():
            if "error" in message and status is not ProtocolStatus.FAILED:
                return NotReady(code=message["error"]["code"], message="no result", exchanges=_SEEN)
            if "error" in message or "result" in message:
                return _result_of(message, status)
        reply.stream.leave()
        raise MaybeSent("the fetch blocks", exchanges=_SEEN)

    # ----------------------------------------------------------------------------------------------

    async def _get(self, wire, handle):
        reply = await self._ask(wire, handle.session, "tasks/get", {"taskId": handle.task_id})
        return reply.message

    async def _ask(self, wire, session, method, params):
        return await self._send(wire, session, method, {"id": 1, "method": method, "params": params})

    async def _send(self, wire, session, method, message):
        run = wire.run

        async def call():
            return run.server.receive(message, session=session)

        reply = await run.network.carry(
            method, call, worker=wire.worker, not_sent=not_sent, maybe_sent=maybe_sent, discard=_leave
        )
        if reply.truncate:
            raise BrokenPeer("cut off", exchanges=_SEEN)
        if (reply.message is None and reply.stream is None) or reply.status != 200:
            _check_status(reply, method)
        return reply

    def _observe(self, wire, shown, *, expect_question):
        facts = _facts(shown)
        server = wire.run.server
        if facts.status.is_terminal:
            return Ended(status=facts.status, task=facts, result=self._inline(server, facts), exchanges=_SEEN)
        if facts.status is not ProtocolStatus.INPUT_REQUIRED:
            return Working(task=facts, exchanges=_SEEN)
        task = server._tasks.get(facts.task_id)
        asks = expect_question and task is not None and task.asked is not None
        questions = [_question(server._question(task, task.asked))] if asks else []
        return NeedsInput(task=facts, questions=tuple(questions), exchanges=_SEEN)

    def _inline(self, server, facts):
        task = server._tasks.get(facts.task_id)
        if not self._is_later or task is None or task.outcome is None or facts.status is ProtocolStatus.CANCELLED:
            return None
        return _result_of(server._result(task, 1).message, facts.status)

    def _at_once(self, stream):
        for message in stream.take():
            if "result" in message:
                result = _result_of(message, ProtocolStatus.COMPLETED)
                status = ProtocolStatus.FAILED if result.is_error else ProtocolStatus.COMPLETED
                return Ended(status=status, task=None, result=result, exchanges=_SEEN)
        stream.leave()
        raise MaybeSent(f"no answer within {PATIENCE_S} s", exchanges=_SEEN)


_SEEN = (Exchange(label="decoded", request=b"", http_status=200, media_type="application/json", body=b"{}"),)


def _facts(shown):
    return TaskFacts(
        task_id=shown["taskId"],
        status=ProtocolStatus(shown["status"]),
        message=shown.get("statusMessage", ""),
        created_at=shown["createdAt"],
        ttl_ms=shown["ttl"],
        poll_ms=shown.get("pollInterval"),
    )


def _answer(reply):
    given = {"action": reply.action.value}
    return given if reply.content is None else given | {"content": json.loads(reply.content)}


def _question(asked):
    request = ServerRequest(id=asked["id"], method=asked["method"], params=asked["params"], raw_params=b"{}")
    return codec.decode_question(request)


def _result_of(message, status):
    value = message.get("result", message.get("error"))
    raw = json.dumps(value).encode()
    named = value.get("_meta", {}).get(codec.RELATED_TASK, {}).get("taskId")
    failed = status is ProtocolStatus.FAILED or "error" in message
    return ToolResult(
        raw=raw, value=value, is_error=failed or value.get("isError") is True, task_id=named, exchanges=_SEEN
    )


def _check_status(reply, method):
    wait = dict(reply.headers).get("retry-after")
    seconds = float(wait) if wait else None
    if reply.status == 202:
        return
    if reply.status == 429:
        raise Throttled("429", retry_after_s=seconds, exchanges=_SEEN)
    if reply.status == 401:
        raise Refused("401", kind=RefusalKind.ADMIN, code=401, exchanges=_SEEN)
    if reply.status == 422:
        raise Refused("422", kind=RefusalKind.REQUEST, code=422, exchanges=_SEEN)
    if reply.status in {400, 404}:
        raise SessionLost("the session is gone", exchanges=_SEEN)
    raise BrokenPeer(f"{reply.status} to {method}", retry_after_s=seconds, exchanges=_SEEN)


async def _leave(reply):
    if reply.stream is not None:
        reply.stream.leave()
