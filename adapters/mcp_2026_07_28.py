"""MCP 2026-07-28 with the tasks extension, over Streamable HTTP.

What shapes this adapter:

* There is no session, no handshake and no list of tasks. Every request stands for itself, and a
  lost submit can be asked about nowhere (class C, L4).
* To close the stream of a request is to cancel that request (C8). A submit is listened to until its
  own total deadline, whatever odd things come before the answer.
* The server alone decides whether a call becomes a task, is answered at once, or first asks a
  person. In the last case the call itself is sent again, as a new request under a new id, with the
  answers (`Call.continuation`).
* A look brings everything: the status, every outstanding question, the result. Nothing else is
  evidence; a cancel and an answer are only acknowledged (C5, I6).

The words themselves are in `mcp_2026_07_28_codec`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from adapters import jsonrpc, mcp_exchange, mcp_headers, mcp_shapes, strictjson
from adapters import mcp_2026_07_28_codec as codec
from adapters.contract import (
    Absent,
    BrokenPeer,
    Call,
    CancelAnswer,
    CancelRefused,
    Delivered,
    Exchange,
    Handle,
    Json,
    Lookup,
    Negotiation,
    NotReady,
    NotSent,
    Observation,
    Opened,
    Promises,
    ProtocolStatus,
    RefusalKind,
    Refused,
    Reply,
    Stability,
    ToolDescriptor,
    ToolResult,
    Wire,
    WireRequest,
)
from adapters.mcp_exchange import Evidence, Heard

MAX_PAGES = 50

log = logging.getLogger(__name__)


class Mcp20260728:
    """The adapter. `new_id` makes the JSON-RPC id of every request but the submit."""

    release = "r1"
    promises = Promises(
        protocol_version=codec.PROTOCOL_VERSION,
        stability=Stability.STABLE,
        needs_session=False,
        cancel_ack_is_terminal=False,
        result_inline=True,
        tool_error=ProtocolStatus.COMPLETED,
        has_input_rounds=True,
        answers_repeatable=True,
        input_before_task=True,
        disconnect_cancels_request=True,
        lookups=frozenset({Lookup.LOOKUP_TOOL, Lookup.NONE}),
    )

    def __init__(self, *, new_id: Callable[[], str] = jsonrpc.new_id) -> None:
        self._new_id = new_id

    async def negotiate(self, wire: Wire) -> Negotiation:
        """Send `server/discover` and read every page of `tools/list`."""
        opened = await self.open(wire)
        seen = list(opened.exchanges)
        tools: list[ToolDescriptor] = []
        left_out: list[str] = []
        params: dict[str, Json] = {}
        with Evidence(seen):
            for _ in range(MAX_PAGES):
                heard = await self._ask(wire, "tools/list", params)
                seen.append(heard.exchange)
                page = codec.decode_tools(heard.result)
                tools += page.tools
                left_out += page.left_out
                if page.cursor is None:
                    break
                params = {"cursor": page.cursor}
            else:
                raise BrokenPeer("the list of tools does not end")
        for reason in left_out:
            log.warning("a tool is left out", extra={"why": reason})
        return Negotiation(
            capabilities=opened.capabilities,
            tools=tuple(tools),
            left_out=tuple(left_out),
            exchanges=tuple(seen),
        )

    async def open(self, wire: Wire) -> Opened:
        """Send `server/discover`. There is no session: nothing needs to be kept."""
        seen: list[Exchange] = []
        with Evidence(seen):
            heard = await self._ask(wire, "server/discover", {})
            seen.append(heard.exchange)
            capabilities = codec.decode_capabilities(heard.result)
        return Opened(session=None, capabilities=capabilities, exchanges=tuple(seen))

    async def submit(self, wire: Wire, handle: Handle, call: Call) -> Observation:  # noqa: ARG002 - nothing is known yet
        """Send `tools/call`, or go on with it after questions. Waits its whole total deadline (C8)."""
        request = _call_request(call)
        seen: list[Exchange] = []
        with Evidence(seen):
            heard = await mcp_exchange.ask(wire, request, codec.call_id(call), patient=True)
            seen.append(heard.exchange)
            found = codec.decode_created(heard.result)
        return replace(found, exchanges=tuple(seen))

    async def find(self, wire: Wire, handle: Handle, call: Call, lookup: Lookup) -> Observation:
        """Ask the server's lookup tool. The contract itself knows no key of ours, no session and no list (X2)."""
        if lookup is not Lookup.LOOKUP_TOOL:
            raise Refused(f"this protocol has no lookup {lookup.value}", kind=RefusalKind.ADMIN)
        seen: list[Exchange] = []
        with Evidence(seen):
            heard = await self._ask(wire, "tools/call", mcp_shapes.lookup_params(call), name=call.lookup_tool)
            seen.append(heard.exchange)
            task_id = mcp_shapes.read_lookup(heard.result.value)
            if task_id is None:
                return Absent(code=0, message="the server never saw our key", by_key=True, exchanges=tuple(seen))
            found = await self.look(wire, replace(handle, task_id=task_id), expect_question=False)
        return replace(found, exchanges=(*seen, *found.exchanges))

    async def look(self, wire: Wire, handle: Handle, *, expect_question: bool) -> Observation:  # noqa: ARG002 - all come
        """Send `tasks/get`. Every outstanding question comes with it, asked for or not."""
        task_id = _task_id_of(handle)
        seen: list[Exchange] = []
        with Evidence(seen):
            heard = await self._ask(wire, "tasks/get", {"taskId": task_id}, name=task_id)
            seen.append(heard.exchange)
            found = codec.decode_look(heard.said, task_id=task_id)
        return replace(found, exchanges=tuple(seen))

    async def answer(self, wire: Wire, handle: Handle, replies: Sequence[Reply]) -> Delivered:
        """Send `tasks/update`. Keys that it leaves out stay open; to repeat it is harmless (I7)."""
        task_id, request_id = _task_id_of(handle), self._new_id()
        try:
            body = codec.encode_update(request_id=request_id, task_id=task_id, replies=replies)
        except strictjson.BadJson as error:
            raise Refused(f"the answer cannot be sent: {error}", kind=RefusalKind.REQUEST) from None
        seen: list[Exchange] = []
        with Evidence(seen):
            heard = await mcp_exchange.ask(wire, _request("tasks/update", body, name=task_id), request_id)
            seen.append(heard.exchange)
            codec.decode_updated(heard.said)
        return Delivered(exchanges=tuple(seen))

    async def cancel(self, wire: Wire, handle: Handle) -> CancelAnswer | CancelRefused:
        """Send `tasks/cancel`. Only a later look says what became of it (C5)."""
        task_id = _task_id_of(handle)
        seen: list[Exchange] = []
        with Evidence(seen):
            heard = await self._ask(wire, "tasks/cancel", {"taskId": task_id}, name=task_id)
            seen.append(heard.exchange)
            found = codec.decode_cancel(heard.said)
        return replace(found, exchanges=tuple(seen))

    async def fetch(self, wire: Wire, handle: Handle, status: ProtocolStatus) -> ToolResult | NotReady:
        """Send `tasks/get` once more: the result is inline, so this is for one that was not kept."""
        task_id = _task_id_of(handle)
        seen: list[Exchange] = []
        with Evidence(seen):
            heard = await self._ask(wire, "tasks/get", {"taskId": task_id}, name=task_id)
            seen.append(heard.exchange)
            found = codec.decode_result(heard.said, task_id=task_id, status=status)
        return replace(found, exchanges=tuple(seen))

    async def _ask(self, wire: Wire, method: str, params: Mapping[str, Json], *, name: str | None = None) -> Heard:
        request_id = self._new_id()
        body = codec.encode_request(request_id=request_id, method=method, params=params)
        return await mcp_exchange.ask(wire, _request(method, body, name=name), request_id)


def _call_request(call: Call) -> WireRequest:
    """Write the submit. Raises Refused for what cannot be sent: then no byte of it was."""
    try:
        extra = codec.encode_argument_headers(call)
        body = codec.encode_call(call)
    except mcp_headers.BadAnnotation as error:
        raise Refused(f"{call.tool} cannot be called: {error}", kind=RefusalKind.ADMIN) from None
    except (strictjson.BadJson, mcp_headers.UnfitArgument) as error:
        raise Refused(f"the arguments cannot be sent: {error}", kind=RefusalKind.REQUEST) from None
    return _request("tools/call", body, name=call.tool, extra=extra, total_s=call.within_s)


def _request(
    method: str,
    body: bytes,
    *,
    name: str | None = None,
    extra: Sequence[tuple[str, str]] = (),
    total_s: float | None = None,
) -> WireRequest:
    headers = (mcp_exchange.ACCEPT, mcp_exchange.CONTENT_TYPE, *codec.encode_headers(method=method, name=name), *extra)
    return WireRequest(label=method, body=body, headers=headers, total_s=total_s)


def _task_id_of(handle: Handle) -> str:
    if handle.task_id is None:
        raise NotSent("no task is known yet")
    return handle.task_id
