"""MCP 2025-11-25 with its experimental tasks, over Streamable HTTP.

What shapes this adapter:

* No key of ours is honoured by any server of this contract. One MCP session per operation, stored
  before `tools/call`, is what turns `tasks/list` into a lookup (L4, class B where it is proved).
* A question is delivered once, on the stream of `tasks/result`. The stream is opened only when a
  look saw `input_required` and nobody holds the question yet, and dropped as soon as it is here.
* A server may also ask on the standing stream of the session, and need not show `input_required`
  then. `listen` holds that stream; whoever calls it stores what it hears before anything else.
* A stream that broke off is resumed where its server gave event ids: nothing is sent twice for it.
* `tasks/get` is the only source of a status. A status that is pushed on the standing stream is a hint to look (P7).
* A server numbers its questions in a space of its own that may start at 0 and may repeat.
* What a server asks that no person is needed for is answered while its stream is open: it may wait
  for our word. So is a question of a call that runs at once. It has no task that could keep the
  question, its limit is shorter than a person's time, and an answer could not be bound to it once
  its stream is gone (I3, N2): the server hears that nobody can be asked, and ends the call by
  itself. That is neither accept, nor decline, nor dismiss (I5).

The words themselves are in `mcp_2025_11_25_codec`.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

from adapters import http, jsonrpc, mcp_exchange, mcp_shapes, strictjson
from adapters import mcp_2025_11_25_codec as codec
from adapters.contract import (
    Absent,
    AdapterError,
    BrokenPeer,
    Call,
    CancelAnswer,
    CancelRefused,
    Delivered,
    Exchange,
    Handle,
    Hinted,
    Lookup,
    MaybeSent,
    NeedsInput,
    Negotiation,
    NotReady,
    NotSent,
    Observation,
    Opened,
    Overheard,
    Promises,
    ProtocolStatus,
    Question,
    RefusalKind,
    Refused,
    Reply,
    Stability,
    StandingStream,
    TaskFacts,
    ToolDescriptor,
    ToolResult,
    Wire,
    WireRequest,
    WireResponse,
    WrongProtocol,
)
from adapters.jsonrpc import Notification, ServerRequest
from adapters.mcp_exchange import Evidence, Heard

QUESTION_WAIT_S = 8.0
"""How long one look waits on the `tasks/result` stream for a question."""
MAX_PAGES = 50
MAX_COURTESIES = 4
"""How many of a server's own requests one verb answers: each costs a request (P2)."""

COURTESY_S = 5.0


class Mcp20251125:
    """The adapter. `new_id` makes the JSON-RPC id of every request but the submit.

    Ids are never used twice in a session: a server that still holds a dropped stream would send
    its late answer to whoever asks under the same id now.
    """

    release = "r1"
    promises = Promises(
        protocol_version=codec.PROTOCOL_VERSION,
        stability=Stability.EXPERIMENTAL,
        needs_session=True,
        cancel_ack_is_terminal=True,
        result_inline=False,
        tool_error=ProtocolStatus.FAILED,
        has_input_rounds=True,
        answers_repeatable=False,
        input_before_task=False,
        disconnect_cancels_request=False,
        lookups=frozenset({Lookup.SESSION_LIST, Lookup.LOOKUP_TOOL, Lookup.NONE}),
    )

    def __init__(self, *, new_id: Callable[[], str] = jsonrpc.new_id) -> None:
        self._new_id = new_id

    async def negotiate(self, wire: Wire) -> Negotiation:
        """Open a session and read every page of `tools/list`.

        The session is left to the server's own clock: one SDK breaks its other sessions when one
        is closed.
        """
        opened = await self.open(wire)
        seen = list(opened.exchanges)
        tools: list[ToolDescriptor] = []
        cursor: str | None = None
        with Evidence(seen):
            for _ in range(MAX_PAGES):
                heard = await self._ask(wire, opened.session, "tools/list", _page(cursor))
                seen += heard.exchanges
                page, cursor = codec.decode_tools(heard.result.value)
                tools += page
                if cursor is None:
                    break
            else:
                raise BrokenPeer("the list of tools does not end")
        return Negotiation(capabilities=opened.capabilities, tools=tuple(tools), exchanges=tuple(seen))

    async def open(self, wire: Wire) -> Opened:
        """Send `initialize` and `notifications/initialized`."""
        request_id = self._new_id()
        body = codec.encode_initialize(request_id=request_id)
        seen: list[Exchange] = []
        with Evidence(seen):
            heard = await _converse(wire, _request("initialize", body, None, first=True), request_id, None)
            seen += heard.exchanges
            capabilities = codec.decode_capabilities(heard.result)
            session = codec.decode_session(heard.headers)
            seen.append(await _tell(wire, session, "notifications/initialized", codec.encode_initialized()))
        return Opened(session=session, capabilities=capabilities, exchanges=tuple(seen))

    async def submit(self, wire: Wire, handle: Handle, call: Call) -> Observation:
        """Send `tools/call`. A server may still answer at once, or with an ended task."""
        try:
            body = codec.encode_call(call)
        except strictjson.BadJson as error:
            raise Refused(f"the arguments cannot be sent: {error}", kind=RefusalKind.REQUEST) from None
        request = _request("tools/call", body, handle.session, total_s=call.within_s)
        seen: list[Exchange] = []
        with Evidence(seen):
            heard = await _converse(
                wire, request, codec.call_id(call), handle.session, keeps=_is_question if call.as_task else _nothing
            )
            seen += heard.exchanges
            found = codec.decode_created(heard.said, asked=heard.asked, as_task=call.as_task)
        if call.as_task:
            task_id = None if isinstance(found, Absent) or found.task is None else found.task.task_id
            await self._be_polite(wire, handle.session, heard.asked, task_id)
        return replace(found, exchanges=tuple(seen))

    async def find(self, wire: Wire, handle: Handle, call: Call, lookup: Lookup) -> Observation:
        """Read `tasks/list` on the operation's own session, or ask the server's lookup tool, as the profile says."""
        match lookup:
            case Lookup.SESSION_LIST:
                return await self._find_in_session(wire, handle)
            case Lookup.LOOKUP_TOOL:
                return await self._find_by_tool(wire, handle, call)
            case _:
                raise Refused(f"this protocol has no lookup {lookup.value}", kind=RefusalKind.ADMIN)

    async def _find_by_tool(self, wire: Wire, handle: Handle, call: Call) -> Observation:
        """See Note [A lookup tool] in mcp_shapes."""
        seen: list[Exchange] = []
        with Evidence(seen):
            heard = await self._ask(
                wire, handle.session, "tools/call", strictjson.canonical(mcp_shapes.lookup_params(call))
            )
            seen += heard.exchanges
            task_id = mcp_shapes.read_lookup(heard.result.value)
            if task_id is None:
                return Absent(code=0, message="the server never saw our key", by_key=True, exchanges=tuple(seen))
            found = await self.look(wire, replace(handle, task_id=task_id), expect_question=False)
        return replace(found, exchanges=(*seen, *found.exchanges))

    async def _find_in_session(self, wire: Wire, handle: Handle) -> Observation:
        """The session of one operation holds one task, or none."""
        seen: list[Exchange] = []
        with Evidence(seen):
            tasks, asked = await self._list_tasks(wire, handle.session, seen)
            if len(tasks) > 1:
                raise WrongProtocol("the session of one operation holds more than one task")
            if not tasks:
                return Absent(code=0, message="the session holds no task", by_key=True, exchanges=tuple(seen))
            questions = codec.decode_questions(asked, task_id=tasks[0].task_id)
        await self._be_polite(wire, handle.session, asked, tasks[0].task_id)
        return replace(codec.observe(tasks[0], questions), exchanges=tuple(seen))

    async def look(self, wire: Wire, handle: Handle, *, expect_question: bool) -> Observation:
        """Send `tasks/get`, and fetch the question when the task waits with one we do not hold."""
        task_id = _task_id_of(handle)
        seen: list[Exchange] = []
        found = await self._get(wire, handle.session, task_id, seen)
        if not (expect_question and isinstance(found, NeedsInput) and not found.questions):
            return found
        questions, is_over = await self._await_question(wire, handle.session, task_id, seen)
        if is_over:
            found = await self._get(wire, handle.session, task_id, seen)
        if questions and isinstance(found, NeedsInput):
            found = replace(found, questions=questions)
        return replace(found, exchanges=tuple(seen))

    async def answer(self, wire: Wire, handle: Handle, replies: Sequence[Reply]) -> Delivered:
        """POST each answer as a JSON-RPC response. 202 says that it arrived, no more (I6)."""
        seen: list[Exchange] = []
        with Evidence(seen):
            for reply in replies:
                try:
                    body = codec.encode_reply(reply, task_id=handle.task_id)
                except strictjson.BadJson as error:
                    raise Refused(f"the answer cannot be sent: {error}", kind=RefusalKind.REQUEST) from None
                seen.append(await _tell(wire, handle.session, "elicitation/create", body))
        return Delivered(exchanges=tuple(seen))

    async def cancel(self, wire: Wire, handle: Handle) -> CancelAnswer | CancelRefused:
        """Send `tasks/cancel`."""
        task_id = _task_id_of(handle)
        seen: list[Exchange] = []
        with Evidence(seen):
            heard = await self._ask(wire, handle.session, "tasks/cancel", _about(task_id))
            seen += heard.exchanges
            found = codec.decode_cancel(heard.said, task_id=task_id)
        return replace(found, exchanges=tuple(seen))

    async def fetch(self, wire: Wire, handle: Handle, status: ProtocolStatus) -> ToolResult | NotReady:
        """Send `tasks/result`. It blocks while the task is not terminal; the wire's deadline ends it."""
        task_id = _task_id_of(handle)
        seen: list[Exchange] = []
        with Evidence(seen):
            heard = await self._ask(wire, handle.session, "tasks/result", _about(task_id))
            seen += heard.exchanges
            found = codec.decode_result(heard.said, status=status)
        return replace(found, exchanges=tuple(seen))

    @contextlib.asynccontextmanager
    async def listen(
        self, wire: Wire, handle: Handle, *, last_event_id: str, total_s: float
    ) -> AsyncIterator[StandingStream]:
        """GET the session's standing stream. 405 is a server without one; the second of a session is 409."""
        request = _standing_request(handle.session, last_event_id, total_s)
        rule = _session_rule(handle.session)
        async with mcp_exchange.standing(wire, request, last_event_id=last_event_id, session_lost=rule) as standing:
            yield _Listening(self, wire, handle, standing)

    async def _get(self, wire: Wire, session: str | None, task_id: str, seen: list[Exchange]) -> Observation:
        with Evidence(seen):
            heard = await self._ask(wire, session, "tasks/get", _about(task_id))
            seen += heard.exchanges
            found = codec.decode_look(heard.said, task_id=task_id, asked=heard.asked, exchanges=heard.exchanges)
        if heard.asked:
            await self._be_polite(wire, session, heard.asked, task_id)
        return found

    async def _await_question(
        self, wire: Wire, session: str | None, task_id: str, seen: list[Exchange]
    ) -> tuple[tuple[Question, ...], bool]:
        """Listen for a question. The flag: the stream gave its answer, so the status may be another now."""
        request_id = self._new_id()
        body = jsonrpc.encode_request(request_id=request_id, method="tasks/result", params=_about(task_id))
        request = _request("tasks/result", body, session, total_s=QUESTION_WAIT_S)

        def is_question(asked: ServerRequest) -> bool:
            return codec.is_about(asked, task_id, on_own_stream=True)

        with Evidence(seen):
            try:
                heard = await _converse(wire, request, request_id, session, enough=is_question)
            except MaybeSent as silence:
                # Nothing came in time (B019): asking for a result changes nothing at the server.
                seen.extend(silence.exchanges)
                await self._stop_listening(wire, session, request_id)
                return (), False
            seen += heard.exchanges
            if heard.answer is None:
                await self._stop_listening(wire, session, request_id)
            questions = codec.decode_questions(heard.asked, task_id=task_id, on_own_stream=True)
        await self._be_polite(wire, session, heard.asked, task_id, on_own_stream=True)
        return questions, heard.answer is not None

    async def _stop_listening(self, wire: Wire, session: str | None, request_id: str) -> None:
        """Tell the server that we left its `tasks/result` stream.

        A server need not notice: the official Python SDK would send the next round's question, which
        it delivers once, to the stream that nobody reads. This cancels the request, not the task.
        """
        body = codec.encode_cancelled(request_id=request_id)
        with contextlib.suppress(AdapterError):
            await _tell(wire, session, "notifications/cancelled", body, total_s=COURTESY_S)

    async def _list_tasks(
        self, wire: Wire, session: str | None, seen: list[Exchange]
    ) -> tuple[list[TaskFacts], list[ServerRequest]]:
        tasks: list[TaskFacts] = []
        asked: list[ServerRequest] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            heard = await self._ask(wire, session, "tasks/list", _page(cursor))
            seen += heard.exchanges
            page, cursor = codec.decode_tasks(heard.result.value)
            tasks += page
            asked += heard.asked
            if cursor is None:
                return tasks, asked
        raise BrokenPeer("the list of tasks does not end")

    async def _ask(self, wire: Wire, session: str | None, method: str, params: bytes) -> Heard:
        request_id = self._new_id()
        body = jsonrpc.encode_plain(request_id=request_id, method=method, params=params)
        return await _converse(wire, _request(method, body, session), request_id, session)

    async def be_polite(self, wire: Wire, handle: Handle, request: ServerRequest) -> None:
        """Answer one request of the server that is no question of ours."""
        await _say(wire, handle.session, codec.encode_courtesy(request), request.method)

    async def _be_polite(
        self,
        wire: Wire,
        session: str | None,
        asked: Sequence[ServerRequest],
        task_id: str | None,
        *,
        on_own_stream: bool = False,
    ) -> None:
        """Refuse the questions that name no task of ours (B033). All else was answered as it came."""
        strangers = [
            request
            for request in asked
            if _is_question(request)
            and (task_id is None or not codec.is_about(request, task_id, on_own_stream=on_own_stream))
        ]
        for request in strangers[:MAX_COURTESIES]:
            await _say(wire, session, codec.encode_courtesy(request), request.method)


class _Listening:
    """`contract.StandingStream` of one operation's session."""

    def __init__(self, adapter: Mcp20251125, wire: Wire, handle: Handle, standing: mcp_exchange.Standing) -> None:
        self._adapter = adapter
        self._wire = wire
        self._handle = handle
        self._standing = standing

    @property
    def last_event_id(self) -> str:
        """Where to resume."""
        return self._standing.last_event_id

    @property
    def retry_s(self) -> float | None:
        """How long the server wants us away."""
        return self._standing.retry_s

    async def heard(self) -> AsyncIterator[Overheard | Hinted]:
        """Yield the questions that may be this operation's, and hints; answer or refuse all else that is asked."""
        async for message, exchange in self._standing.messages():
            if isinstance(message, Notification) and codec.is_hint(message, task_id=self._handle.task_id):
                yield Hinted()
            if not isinstance(message, ServerRequest):
                continue
            if not self._may_be_ours(message):
                await self._adapter.be_polite(self._wire, self._handle, message)
                continue
            # One that cannot be shown is no reason to leave the stream: the next can (B033).
            with contextlib.suppress(WrongProtocol):
                question, named = codec.decode_question(message), codec.named_task(message)
                event_id = self._standing.last_event_id
                yield Overheard(question=question, task_id=named, event_id=event_id, exchange=exchange)

    def _may_be_ours(self, asked: ServerRequest) -> bool:
        named, task_id = codec.named_task(asked), self._handle.task_id
        return _is_question(asked) and not (named and task_id and named != task_id)


def _standing_request(session: str | None, last_event_id: str, total_s: float | None) -> WireRequest:
    headers = [("Accept", "text/event-stream"), ("MCP-Protocol-Version", codec.PROTOCOL_VERSION)]
    if session is not None:
        headers.append(("MCP-Session-Id", session))
    if last_event_id:
        headers.append(("Last-Event-ID", last_event_id))
    return WireRequest(label="GET stream", body=b"", headers=tuple(headers), method="GET", total_s=total_s)


_FIRST: tuple[tuple[str, str], ...] = (mcp_exchange.ACCEPT, mcp_exchange.CONTENT_TYPE)
_ALWAYS = (*_FIRST, ("MCP-Protocol-Version", codec.PROTOCOL_VERSION))


def _request(
    label: str,
    body: bytes,
    session: str | None,
    *,
    first: bool = False,
    total_s: float | None = None,
) -> WireRequest:
    headers = _FIRST if first else _ALWAYS
    if session is not None:
        headers = (*headers, ("MCP-Session-Id", session))
    return WireRequest(label=label, body=body, headers=headers, total_s=total_s)


async def _tell(wire: Wire, session: str | None, label: str, body: bytes, *, total_s: float | None = None) -> Exchange:
    """POST a notification or a response: anything but an acceptance is an error."""
    response = await wire.send(_request(label, body, session, total_s=total_s))
    if http.is_success(response.status):
        return response.exchange
    raise _refused_delivery(response, session)


def _refused_delivery(response: WireResponse, session: str | None) -> AdapterError:
    """Sort a refused delivery. It has no id of ours, so that every answer ends in an error."""
    try:
        jsonrpc.decode_answer(response, request_id="", session_lost=_session_rule(session))
    except AdapterError as error:
        return error
    return http.status_error(response)


async def _say(wire: Wire, session: str | None, body: bytes, label: str) -> None:
    # Only a courtesy: what is seen besides must not be lost to it.
    with contextlib.suppress(AdapterError):
        await _tell(wire, session, label, body, total_s=COURTESY_S)


def _is_question(asked: ServerRequest) -> bool:
    return asked.method == "elicitation/create"


def _nothing(_asked: ServerRequest) -> bool:
    return False


async def _converse(
    wire: Wire,
    request: WireRequest,
    request_id: str,
    session: str | None,
    *,
    enough: Callable[[ServerRequest], bool] = _nothing,
    keeps: Callable[[ServerRequest], bool] = _is_question,
) -> Heard:
    """Ask, and meanwhile answer a ping and refuse what we never offered; `keeps` says what is left for later."""
    courtesies = 0

    async def answer(asked: ServerRequest) -> None:
        nonlocal courtesies
        if not keeps(asked) and courtesies < MAX_COURTESIES:
            courtesies += 1
            await _say(wire, session, codec.encode_courtesy(asked, inline=keeps is _nothing), asked.method)

    return await mcp_exchange.ask(
        wire,
        request,
        request_id,
        enough=enough,
        session_lost=_session_rule(session),
        resume=lambda event_id, left_s: _standing_request(session, event_id, left_s),
        aside=answer,
    )


def _session_rule(session: str | None) -> jsonrpc.SessionRule:
    return codec.is_session_lost if session is not None else jsonrpc.no_session


def _task_id_of(handle: Handle) -> str:
    if handle.task_id is None:
        raise NotSent("no task is known yet")
    return handle.task_id


def _page(cursor: str | None) -> bytes:
    return strictjson.canonical({} if cursor is None else {"cursor": cursor})


def _about(task_id: str) -> bytes:
    return b'{"taskId":%s}' % strictjson.canonical(task_id)
