"""Registered servers and their tools, and whether anybody looks after what is due."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F, IntegerField, Min, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce, Greatest, Length

from operations.models import Due, Operation, Server, Tool, ToolDescriptor
from operations.queries import CAP, PAGE
from operations.queries.scope import within


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """What is needed to talk to a registered server."""

    slug: str
    url: str
    protocol_version: str
    release: str
    credential_ref: str
    """Name of the environment variable that holds the Authorization value; empty without one."""
    allow_private: bool
    max_qps: float
    lookup_tool: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolView:
    """One tool as its server described it last, and what we decided about it."""

    name: str
    title: str
    description: str
    version: str
    """Digest of the descriptor."""
    task_support: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None
    effect: str
    effect_on_error: bool
    expected_s: int
    budget_s: int
    answer_within_s: int
    sync_limit_s: int | None
    submits_open: bool
    closed_reason: str

    @property
    def has_output_schema(self) -> bool:
        """True: results are held against a schema of the tool's own."""
        return self.output_schema is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescriptorView:
    """One version of a tool's description, as the server gave it."""

    version: str
    """Its digest."""
    title: str
    task_support: str
    seen_at: datetime
    size: int
    """Bytes as received."""
    is_current: bool
    calls: int
    """Operations made with it, counted up to the cap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What a server declared when it was negotiated with last (N1)."""

    server_name: str
    server_version: str
    creates_tasks: bool
    cancels_tasks: bool
    lists_tasks: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractChange:
    """One thing that a server declares or describes otherwise than before (O5)."""

    what: str
    """CAPABILITY, TOOL_CHANGED, TOOL_NEW or TOOL_GONE."""
    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerView:
    """One server as registered."""

    slug: str
    title: str
    url: str
    protocol_version: str
    release: str
    """The release that looks after what was begun under an earlier epoch; negotiation uses it."""
    version_open: bool
    """False: new calls are stopped for the whole protocol version (O5)."""
    credential_ref: str
    allow_private: bool
    max_qps: float
    used_qps: float | None
    """Requests a second in the last measured minute; None before the first measurement."""
    poll_floor_ms: int
    poll_cap_ms: int
    lookup: str
    lookup_tool: str
    quarantine_s: int
    key_window_s: int
    task_ttl_s: int
    lookup_proved_at: datetime | None
    """When the list of a session was last seen to hold a task of ours; its silence counts only since then."""
    lookup_disproved: str
    listens: bool
    submits_open: bool
    closed_reason: str
    declared: Declared | None
    negotiated_at: datetime | None
    contract_changed_at: datetime | None
    """Since when changes wait for an admin; None: none do."""
    contract_changes: tuple[ContractChange, ...]
    paused_until: datetime | None
    pause_reason: str
    tools: tuple[ToolView, ...]


def server_address(slug: str) -> ServerAddress | None:
    """Return how to reach a server; None when none has this name. 1 query."""
    row = Server.objects.select_related("protocol").filter(pk=slug).first()
    if row is None:
        return None
    return ServerAddress(
        slug=row.slug,
        url=row.url,
        protocol_version=row.protocol_id,
        release=row.protocol.release,
        credential_ref=row.credential_ref,
        allow_private=row.allow_private,
        max_qps=row.max_qps,
        lookup_tool=row.lookup_tool,
    )


def servers() -> tuple[ServerView, ...]:
    """Return every registered server with its tools, by name. 2 queries."""
    by_server: dict[str, list[ToolView]] = {}
    for tool in within(Tool.objects.select_related("descriptor").defer("descriptor__raw")).order_by("name"):
        by_server.setdefault(tool.server_id, []).append(_tool_view(tool))
    rows = within(Server.objects.select_related("protocol"), server="slug").order_by("slug")
    return tuple(_server_view(row, tuple(by_server.get(row.slug, ()))) for row in rows)


def server(slug: str) -> ServerView | None:
    """Return one server with its tools; None when none has this name. 2 queries."""
    row = within(Server.objects.select_related("protocol"), server="slug").filter(pk=slug).first()
    return _server_view(row, tools_of(slug)) if row else None


def tools_of(slug: str) -> tuple[ToolView, ...]:
    """Return the tools of one server, by name. 1 query."""
    tools = within(Tool.objects.filter(server=slug)).select_related("descriptor").defer("descriptor__raw")
    return tuple(_tool_view(tool) for tool in tools.order_by("name"))


def descriptors_of(slug: str, name: str) -> tuple[DescriptorView, ...]:
    """Return every description that a server ever gave of a tool, newest first. 2 queries.

    One that came back counts from when it was seen first.
    """
    current = Tool.objects.filter(server=slug, name=name).values_list("descriptor_id", flat=True).first()
    calls = Operation.objects.filter(descriptor=OuterRef("pk")).order_by().values("pk")[:CAP]
    rows = (
        ToolDescriptor.objects.filter(server=slug, name=name)
        .annotate(size=Length("raw"), calls=_Counted(calls))
        .order_by("-seen_at", "-id")[:PAGE]
    )
    return tuple(
        DescriptorView(
            version=row.digest,
            title=row.title,
            task_support=row.task_support,
            seen_at=row.seen_at,
            size=row.size,
            is_current=row.pk == current,
            calls=row.calls,
        )
        for row in rows.defer("raw", "input_schema", "output_schema", "description")
    )


class _Counted(Subquery):
    """How many rows a limited subquery gives."""

    template = "(SELECT count(*) FROM (%(subquery)s) counted)"
    output_field = IntegerField()


def oldest_overdue(*, now: datetime) -> datetime | None:
    """Return since when the most patient row waits for its look; None when nothing is due anywhere. 1 query.

    A row that a worker holds is due again when its lease ends. A paused server's rows are not overdue: nobody is
    meant to look at them.
    """
    # Server by server, as the index has it: what is not due yet is not read, were it a million rows.
    since = Greatest(
        F("due_at"), Coalesce(F("lease_until"), F("due_at")), Coalesce(OuterRef("paused_until"), F("due_at"))
    )
    due = Due.objects.filter(server=OuterRef("pk"), due_at__lte=now).order_by().values("server")
    unpaused = Server.objects.filter(Q(paused_until=None) | Q(paused_until__lte=now))
    waiting = unpaused.annotate(since=Subquery(due.annotate(since=Min(since)).values("since")))
    oldest: datetime | None = waiting.aggregate(oldest=Min("since"))["oldest"]
    return oldest


def _server_view(row: Server, tools: tuple[ToolView, ...]) -> ServerView:
    return ServerView(
        slug=row.slug,
        title=row.title,
        url=row.url,
        protocol_version=row.protocol_id,
        release=row.protocol.release,
        version_open=row.protocol.submits_open,
        credential_ref=row.credential_ref,
        allow_private=row.allow_private,
        max_qps=row.max_qps,
        used_qps=row.used_qps,
        poll_floor_ms=row.poll_floor_ms,
        poll_cap_ms=row.poll_cap_ms,
        lookup=row.lookup,
        lookup_tool=row.lookup_tool,
        quarantine_s=row.quarantine_s,
        key_window_s=row.key_window_s,
        task_ttl_s=row.task_ttl_s,
        lookup_proved_at=row.lookup_proved_at,
        lookup_disproved=row.lookup_disproved,
        listens=row.listens,
        declared=Declared(**row.capabilities) if row.capabilities else None,
        submits_open=row.submits_open,
        closed_reason=row.closed_reason,
        negotiated_at=row.negotiated_at,
        contract_changed_at=row.contract_changed_at,
        contract_changes=tuple(ContractChange(**one) for one in row.contract_changes),
        paused_until=row.paused_until,
        pause_reason=row.pause_reason,
        tools=tools,
    )


def _tool_view(row: Tool) -> ToolView:
    return ToolView(
        name=row.name,
        title=row.descriptor.title,
        description=row.descriptor.description,
        version=row.descriptor.digest,
        task_support=row.descriptor.task_support,
        input_schema=row.descriptor.input_schema,
        output_schema=row.descriptor.output_schema,
        effect=row.effect,
        effect_on_error=row.effect_on_error,
        expected_s=row.expected_s,
        budget_s=row.budget_s,
        answer_within_s=row.answer_within_s,
        sync_limit_s=row.sync_limit_s,
        submits_open=row.submits_open,
        closed_reason=row.closed_reason,
    )
