"""Google AIP-151 long-running operations over HTTP and JSON.

What shapes this adapter:

* A *tool* is a method: its name is the method's path below the registered URL, such as
  `projects/p/locations/l/reports:generate`. A call POSTs its arguments there; the answer is an
  operation, whose server-made name is the task id. A name becomes part of a URL, so it must have
  the shape of a name and can never lead out of the registered URL (B138).
* AIP-151 has no discovery. Whoever registers a server publishes a *tools document*,
  `longcall-tools.json` below the registered URL: a static file at the service or at the gateway
  before it. It is what `negotiate` reads, and what it does not declare is absent (N2). Where
  nobody can put a file there, an admin gives the same document at the registration::

      {"name": "reports", "version": "1", "cancel": true, "list": true,
       "tools": [{"name": "projects/p/locations/l/reports:generate",
                  "title": "...", "description": "...",
                  "inputSchema": {...}, "outputSchema": {...}}]}

  The output schema describes the operation's `response` as it comes, `@type` included, so that
  `{"@type": {"const": "type.googleapis.com/acme.Report"}}` pins its type (B136).
* The submission key travels as AIP-155's `requestId` in the query. Where the profile says that the
  server honours it, sending the same bytes again *is* the lookup (class A); where operations echo
  it in their metadata, the list is one (class B). Nothing else is assumed.
* Cancel is cooperative: its acceptance proves nothing, an operation that ended with error code 1
  does (C5). The result is in the operation itself; there are no questions.
* Never sent: `:wait`, whose waiting no rate limit could count, and DELETE, which destroys evidence.

The words themselves are in `aip_151_codec`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from adapters import aip_151_codec as codec
from adapters import strictjson
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
    ToolResult,
    Wire,
    WireRequest,
    WireResponse,
    WrongProtocol,
)

TOOLS_DOCUMENT = "longcall-tools.json"
MAX_PAGES = 50
PAGE_SIZE = 100


class Aip151:
    """The adapter."""

    release = "r1"
    promises = Promises(
        protocol_version=codec.PROTOCOL_VERSION,
        stability=Stability.STABLE,
        needs_session=False,
        cancel_ack_is_terminal=False,
        result_inline=True,
        tool_error=ProtocolStatus.FAILED,
        has_input_rounds=False,
        answers_repeatable=False,
        input_before_task=False,
        disconnect_cancels_request=False,
        lookups=frozenset({Lookup.SAME_KEY_REPLAY, Lookup.LIST_BY_KEY, Lookup.NONE}),
    )

    async def negotiate(self, wire: Wire) -> Negotiation:
        """Read the tools document. Raises Refused(ADMIN) where there is none."""
        response = await wire.send(_get(TOOLS_DOCUMENT))
        with _evidence(response):
            found = codec.decode_declaration(response)
        return Negotiation(capabilities=found.capabilities, tools=found.tools, exchanges=(response.exchange,))

    def read_tools(self, document: bytes) -> Negotiation:
        """Read a tools document that an admin gives. Raises WrongProtocol for the first thing that is wrong with it."""
        found = codec.decode_tools_document(document)
        return Negotiation(capabilities=found.capabilities, tools=found.tools)

    async def open(self, wire: Wire) -> Opened:
        """There are no sessions: read again what the server declares."""
        found = await self.negotiate(wire)
        return Opened(session=None, capabilities=found.capabilities, exchanges=found.exchanges)

    async def submit(self, wire: Wire, handle: Handle, call: Call) -> Observation:  # noqa: ARG002 - no session
        """POST the arguments to the method. The operation may be done at once."""
        response = await wire.send(_call(call))
        with _evidence(response):
            found = codec.decode_created(response)
        return replace(found, exchanges=(response.exchange,))

    async def find(self, wire: Wire, handle: Handle, call: Call, lookup: Lookup) -> Observation:
        """Send the same bytes again, or read the list: as the server's profile has proved.

        A replay is a write: whoever asks for it must be inside the server's key window (X2). Its
        refusal proves nothing about the first request, so that it is never Absent.
        """
        match lookup:
            case Lookup.SAME_KEY_REPLAY:
                return await self.submit(wire, handle, call)
            case Lookup.LIST_BY_KEY:
                return await self._find_in_list(wire, call)
            case _:
                raise Refused(f"this protocol has no lookup {lookup.value}", kind=RefusalKind.ADMIN)

    async def look(self, wire: Wire, handle: Handle, *, expect_question: bool) -> Observation:  # noqa: ARG002 - none come
        """Send GetOperation. A terminal look carries the result."""
        name = _name_of(handle)
        response = await wire.send(_get(codec.path_of(name)))
        with _evidence(response):
            found = codec.decode_look(response, name=name)
        return replace(found, exchanges=(response.exchange,))

    async def answer(self, wire: Wire, handle: Handle, replies: Sequence[Reply]) -> Delivered:  # noqa: ARG002 - always refused
        """Refuse: an operation of AIP-151 asks nothing, so that there is nothing to answer."""
        raise Refused("this protocol has no questions", kind=RefusalKind.REQUEST)

    async def cancel(self, wire: Wire, handle: Handle) -> CancelAnswer | CancelRefused:
        """Send CancelOperation. The answer never carries an operation."""
        path = f"{codec.path_of(_name_of(handle))}:cancel"
        response = await wire.send(_post(path, b"{}"))
        with _evidence(response):
            found = codec.decode_cancel(response)
        return replace(found, exchanges=(response.exchange,))

    async def fetch(self, wire: Wire, handle: Handle, status: ProtocolStatus) -> ToolResult | NotReady:
        """Look again, and take the result out of the operation."""
        seen = await self.look(wire, handle, expect_question=False)
        return replace(codec.decode_result(seen, status=status), exchanges=seen.exchanges)

    async def _find_in_list(self, wire: Wire, call: Call) -> Observation:
        seen: list[Exchange] = []
        listed = await self._list(wire, codec.list_path(call.tool), seen)
        key = codec.request_id(call.submission_key)
        names = {operation.name for operation in listed if operation.request_id == key}
        if len(names) > 1:
            raise WrongProtocol("more than one operation has our request id", exchanges=seen)
        if names:
            found = await self.look(wire, Handle(task_id=names.pop()), expect_question=False)
            return replace(found, exchanges=(*seen, *found.exchanges))
        if any(operation.request_id is None for operation in listed):
            # It may be the very one: a list that does not name every request proves no absence.
            raise BrokenPeer("the list does not say which request made each operation", exchanges=seen)
        return Absent(code=0, message="no operation has our request id", by_key=True, exchanges=tuple(seen))

    async def _list(self, wire: Wire, path: str, seen: list[Exchange]) -> list[codec.Listed]:
        found: list[codec.Listed] = []
        query: tuple[tuple[str, str], ...] = (("pageSize", str(PAGE_SIZE)),)
        token: str | None = None
        for _ in range(MAX_PAGES):
            more = () if token is None else (("pageToken", token),)
            response = await wire.send(_get(path, query=(*query, *more)))
            with _evidence(response, before=seen):
                page = codec.decode_page(response)
            seen.append(response.exchange)
            found += page.operations
            token = page.next_token
            if token is None:
                return found
        raise BrokenPeer("the list of operations does not end", exchanges=seen)


def _call(call: Call) -> WireRequest:
    if not call.as_task:
        raise Refused("every method of AIP-151 makes an operation", kind=RefusalKind.ADMIN)
    if not codec.is_tool(call.tool):
        raise Refused("the tool's name is no path of a method", kind=RefusalKind.REQUEST)
    try:
        strictjson.members(call.arguments)
    except strictjson.BadJson as error:
        raise Refused(f"the arguments cannot be sent: {error}", kind=RefusalKind.REQUEST) from None
    return _post(call.tool, call.arguments, query=(("requestId", codec.request_id(call.submission_key)),))


def _get(path: str, *, query: tuple[tuple[str, str], ...] = ()) -> WireRequest:
    headers = (("Accept", codec.MEDIA_TYPE),)
    return WireRequest(
        label=_label("GET", path, query), body=b"", method="GET", headers=headers, path=path, query=query
    )


def _post(path: str, body: bytes, *, query: tuple[tuple[str, str], ...] = ()) -> WireRequest:
    headers = (("Accept", codec.MEDIA_TYPE), ("Content-Type", codec.MEDIA_TYPE))
    return WireRequest(label=_label("POST", path, query), body=body, headers=headers, path=path, query=query)


def _label(method: str, path: str, query: tuple[tuple[str, str], ...]) -> str:
    # Here the URL is part of what was asked, so that the evidence has to show it.
    asked = "&".join(f"{name}={value}" for name, value in query)
    return f"{method} {path}?{asked}" if asked else f"{method} {path}"


def _name_of(handle: Handle) -> str:
    if handle.task_id is None:
        raise NotSent("no operation is known yet")
    if not codec.is_name(handle.task_id):
        raise NotSent("the task id is no name of an operation")
    return handle.task_id


@contextlib.contextmanager
def _evidence(response: WireResponse, *, before: Sequence[Exchange] = ()) -> Iterator[None]:
    """Give an error what was seen on the wire."""
    try:
        yield
    except AdapterError as error:
        error.exchanges = (*before, response.exchange)
        raise
