"""Servers come in here: register, try the connection, negotiate, and say what a call of each tool will be.

Negotiation starts no work. It is asked before any submit and kept with its time (N1). What a server, a tool or we
ourselves did not declare is not assumed to exist, each one by itself (N2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from asgiref.sync import async_to_sync, sync_to_async

from adapters import addresses, http, registry, strictjson
from adapters.contract import (
    AdapterError,
    BrokenPeer,
    Endpoint,
    Lookup,
    MaybeSent,
    Negotiation,
    NotSent,
    Promises,
    Refused,
    Stability,
    TakesTools,
    TaskSupport,
    Throttled,
    WrongProtocol,
)
from operations import ledger, outputguard
from operations.ledger import NewServer, Note
from operations.queries.servers import ServerAddress, ToolView, server_address, tools_of

Clock = Callable[[], datetime]
ConnectionsFor = Callable[[], http.Connections]


class CannotRegister(Exception):
    """The profile cannot work as it is; the message says what to change. Nothing was stored."""


class CannotDescribe(Exception):
    """The tools document cannot be used; the message says what to change. Nothing was stored."""


class CannotNegotiate(Exception):
    """The server brought no capabilities; `advice` says what an admin can do. What was known before still holds."""

    def __init__(self, reason: str, *, advice: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.advice = advice


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutlook:
    """What a call of one tool will be."""

    tool: str
    task_support: str
    callable: bool
    """False: a call is refused before a byte of it is sent."""
    what_happens: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOutlook:
    """What a server turned out to be."""

    server: str
    server_name: str
    server_version: str
    protocol_version: str
    release: str
    stability: str
    creates_tasks: bool
    cancels_tasks: bool
    lists_tasks: bool
    tools: tuple[ToolOutlook, ...]
    lookup_problem: str = ""
    """Why the lookup tool that the profile names cannot be asked; empty where it can, or none is named."""


def protocols() -> tuple[str, ...]:
    """Return every protocol version that a server can be registered with."""
    return registry.versions()


def lookups() -> tuple[str, ...]:
    """Return every way to find a lost submit that a server's operator may vouch for (X2)."""
    return tuple(lookup.value for lookup in Lookup)


def releases(version: str) -> tuple[str, ...]:
    """Return the releases of a protocol version that this installation has code for, oldest first."""
    return registry.releases(version)


def promises(version: str, *, release: str) -> Promises | None:
    """Return what a protocol version itself promises; None when no adapter of this release is left."""
    try:
        return registry.adapter(version, release).promises
    except registry.UnknownAdapterError:
        return None


def register(server: NewServer, *, note: Note | None = None, moves: bool = False) -> None:
    """Store the profile of a server; it offers no tools before it was negotiated with.

    `note` says which admin did it and why; `moves`, that the same server has a new address. Raises CannotRegister.
    """
    if server.protocol not in registry.versions():
        raise CannotRegister(f"no adapter speaks {server.protocol!r}; there are: {', '.join(registry.versions())}")
    _check_lookup(server)
    if problem := addresses.url_problem(server.url):
        raise CannotRegister(f"{server.url!r}: {problem}")
    if server.max_qps <= 0:
        raise CannotRegister("a server that may be asked nothing cannot be looked after: max QPS must be above 0")
    ledger.register_protocol(server.protocol, release=registry.first_release(server.protocol))
    try:
        ledger.register_server(server, note=note, moves=moves)
    except ledger.ServerInUse as error:
        raise CannotRegister(
            f"{error}, and their tasks live at its present address. Register the other one under a name of its own, "
            "or say that the same server has moved"
        ) from error


def _check_lookup(server: NewServer) -> None:
    """Refuse a lookup that this protocol does not have, or that lacks what it needs (L4, X2)."""
    offered = registry.adapter(server.protocol, registry.releases(server.protocol)[-1]).promises.lookups
    if server.lookup not in lookups():
        raise CannotRegister(f"{server.lookup!r} is no kind of lookup; there are: {', '.join(lookups())}")
    if Lookup(server.lookup) not in offered:
        names = ", ".join(sorted(offered))
        raise CannotRegister(f"{server.protocol} has no lookup {server.lookup!r}; it has: {names}")
    if (server.lookup == Lookup.LOOKUP_TOOL) != bool(server.lookup_tool):
        raise CannotRegister("the lookup 'lookup_tool', and no other, needs the name of the tool to ask")
    if server.lookup == Lookup.SAME_KEY_REPLAY and server.key_window_s <= 0:
        raise CannotRegister("'same_key_replay' needs to know for how long the server honours a key")


def negotiate(
    slug: str,
    *,
    clock: Clock,
    environ: Mapping[str, str],
    connections_for: ConnectionsFor = http.Connections,
    note: Note | None = None,
) -> ServerOutlook:
    """Ask a registered server what it is and offers, keep that, and say what it means.

    `environ` holds the credentials; `connections_for` makes the way to the network, and a test puts its own in.
    Takes send slots of the server like every other request (P2). Raises ledger.NoSuchServer, CannotNegotiate.
    """
    server = _address(slug)
    negotiation = _asked(server, clock=clock, environ=environ, connections_for=connections_for)
    ledger.save_negotiation(slug, negotiation, now=clock(), note=note)
    return _outlook(server, negotiation, known={tool.name: tool for tool in tools_of(slug)})


def try_connection(
    slug: str, *, clock: Clock, environ: Mapping[str, str], connections_for: ConnectionsFor = http.Connections
) -> ServerOutlook:
    """Ask as `negotiate` does, but keep nothing. Raises the same."""
    server = _address(slug)
    negotiation = _asked(server, clock=clock, environ=environ, connections_for=connections_for)
    return _outlook(server, negotiation, known={tool.name: tool for tool in tools_of(slug)})


def takes_tools(version: str) -> bool:
    """Whether a server of this protocol version may have its tools described by an admin (`describe`)."""
    return isinstance(registry.adapter(version, registry.releases(version)[-1]), TakesTools)


def read_tools(version: str, document: bytes) -> Negotiation:
    """Read a tools document for a server of this protocol version, and store nothing. Raises CannotDescribe."""
    adapter = registry.adapter(version, registry.releases(version)[-1])
    if not isinstance(adapter, TakesTools):
        raise CannotDescribe(f"servers of {version} describe their tools themselves: negotiate with them")
    try:
        found = adapter.read_tools(document)
    except WrongProtocol as error:
        raise CannotDescribe(error.reason) from error
    for tool in found.tools:
        for what, schema in (("inputSchema", tool.input_schema), ("outputSchema", tool.output_schema or {})):
            if problem := outputguard.schema_problem(dict(schema)):
                raise CannotDescribe(f"{tool.name}: {what}: {problem}")
    return found


def describe(slug: str, document: bytes, *, clock: Clock, note: Note | None = None) -> ServerOutlook:
    """Keep what an admin's tools document says of a server, in place of a negotiation, and say what it means.

    The document is the one that `adapters.aip_151` shows. What it does not name stays as it was; a tool that it
    describes anew has a new version (L1). Raises ledger.NoSuchServer, CannotDescribe.
    """
    server = _address(slug)
    negotiation = read_tools(server.protocol_version, document)
    ledger.save_negotiation(slug, negotiation, now=clock(), note=note, by_hand=True)
    return _outlook(server, negotiation, known={tool.name: tool for tool in tools_of(slug)})


def credential(ref: str, *, environ: Mapping[str, str]) -> str | None:
    """Return the Authorization value that a profile refers to; None for a profile without one.

    Raises CannotNegotiate when the variable is not set: a request without its credential must not be sent.
    """
    if not ref:
        return None
    if not (value := environ.get(ref, "").strip()):
        raise CannotNegotiate(
            f"the environment variable {ref} is not set", advice="Set it for the processes of Longcall, and try again."
        )
    return value


def _address(slug: str) -> ServerAddress:
    server = server_address(slug)
    if server is None:
        raise ledger.NoSuchServer(f"no server {slug!r} is registered")
    return server


def _asked(
    server: ServerAddress, *, clock: Clock, environ: Mapping[str, str], connections_for: ConnectionsFor
) -> Negotiation:
    endpoint = Endpoint(
        url=server.url,
        credential=credential(server.credential_ref, environ=environ),
        allow_private=server.allow_private,
    )
    adapter = registry.adapter(server.protocol_version, server.release)

    async def ask() -> Negotiation:
        connections = connections_for()
        try:
            return await adapter.negotiate(connections.wire(endpoint, gate=_gate(server.slug, clock), clock=clock))
        finally:
            await connections.aclose()

    try:
        # A loop of its own, for this one conversation; the ledger's steps run in the thread of the caller.
        return async_to_sync(ask)()
    except AdapterError as error:
        raise CannotNegotiate(error.reason, advice=_advice(error)) from error


def _gate(slug: str, clock: Clock) -> Callable[[], Awaitable[None]]:
    async def wait_for_slot() -> None:
        slot = await sync_to_async(ledger.reserve_slot)(slug, now=clock())
        await asyncio.sleep(max(0.0, (slot - clock()).total_seconds()))

    return wait_for_slot


def _advice(error: AdapterError) -> str:
    match error:
        case NotSent() | MaybeSent():
            return "Check the URL and the network. A private address must be allowed (--allow-private, or on its page)."
        case Refused():
            return "Check the credential and the path of the URL."
        case Throttled():
            return "Wait, or lower the server's max QPS."
        case WrongProtocol() | BrokenPeer():
            return "Check that the server speaks the protocol version it was registered with."
        case _:
            return "Try again."


def _outlook(server: ServerAddress, negotiation: Negotiation, *, known: Mapping[str, ToolView]) -> ServerOutlook:
    capabilities = negotiation.capabilities
    promises = registry.adapter(server.protocol_version, server.release).promises
    limits = {name: tool.sync_limit_s for name, tool in known.items()}
    return ServerOutlook(
        server=server.slug,
        server_name=capabilities.server_name,
        server_version=capabilities.server_version,
        protocol_version=server.protocol_version,
        release=server.release,
        stability=Stability(promises.stability).value,
        creates_tasks=capabilities.creates_tasks,
        cancels_tasks=capabilities.cancels_tasks,
        lists_tasks=capabilities.lists_tasks,
        tools=tuple(
            _tool_outlook(
                tool.name, tool.task_support, creates_tasks=capabilities.creates_tasks, limit_s=limits.get(tool.name)
            )
            for tool in negotiation.tools
        ),
        lookup_problem=_lookup_problem(server.lookup_tool, negotiation),
    )


def _lookup_problem(name: str, negotiation: Negotiation) -> str:
    tool = next((tool for tool in negotiation.tools if tool.name == name), None)
    if not name:
        return ""
    if tool is None:
        return f"the server describes no tool {name!r}: a lost submit goes to a person"
    told = strictjson.parse(tool.raw)
    annotations = told.get("annotations") if isinstance(told, dict) else None
    read_only = isinstance(annotations, dict) and annotations.get("readOnlyHint") is True
    return "" if read_only else f"{name!r} does not say that it is read-only (readOnlyHint); a lookup changes nothing"


def _tool_outlook(name: str, support: TaskSupport, *, creates_tasks: bool, limit_s: int | None) -> ToolOutlook:
    if creates_tasks and support is not TaskSupport.FORBIDDEN:
        can, what = True, "runs as a task: submitted, looked after, and fetched when it has ended"
    elif limit_s is not None:
        can, what = True, f"runs at once, under its published limit of {limit_s} s"
    elif support is TaskSupport.REQUIRED:
        can, what = False, "refused: the tool wants a task, and the server does not offer tasks"
    else:
        who = "this tool" if creates_tasks else "the server"
        can, what = False, f"refused: {who} does not offer tasks, and no synchronous limit is registered for it"
    return ToolOutlook(tool=name, task_support=support.value, callable=can, what_happens=what)
