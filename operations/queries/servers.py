"""Registered servers and their tools, and whether anybody looks after what is due."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F, Min
from django.db.models.functions import Coalesce, Greatest

from operations.models import Due, Server, Tool


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
    has_output_schema: bool
    effect: str
    budget_s: int
    answer_within_s: int
    sync_limit_s: int | None
    submits_open: bool
    closed_reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerView:
    """One server as registered."""

    slug: str
    title: str
    url: str
    protocol_version: str
    max_qps: float
    lookup: str
    submits_open: bool
    closed_reason: str
    negotiated_at: datetime | None
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
    )


def servers() -> tuple[ServerView, ...]:
    """Return every registered server with its tools, by name. 2 queries."""
    by_server: dict[str, list[ToolView]] = {}
    for tool in Tool.objects.select_related("descriptor").defer("descriptor__raw").order_by("name"):
        by_server.setdefault(tool.server_id, []).append(_tool_view(tool))
    return tuple(_server_view(row, tuple(by_server.get(row.slug, ()))) for row in Server.objects.order_by("slug"))


def tools_of(slug: str) -> tuple[ToolView, ...]:
    """Return the tools of one server, by name. 1 query."""
    tools = Tool.objects.filter(server=slug).select_related("descriptor").defer("descriptor__raw")
    return tuple(_tool_view(tool) for tool in tools.order_by("name"))


def oldest_overdue() -> datetime | None:
    """Return since when the most patient row waits for its look; None when nothing is due anywhere. 1 query.

    A row that a worker holds is due again when its lease ends. A paused server's rows are not overdue: nobody is
    meant to look at them.
    """
    unpaused = Due.objects.annotate(
        from_then=Greatest(
            F("due_at"), Coalesce(F("lease_until"), F("due_at")), Coalesce(F("server__paused_until"), F("due_at"))
        )
    )
    oldest: datetime | None = unpaused.aggregate(oldest=Min("from_then"))["oldest"]
    return oldest


def _server_view(row: Server, tools: tuple[ToolView, ...]) -> ServerView:
    return ServerView(
        slug=row.slug,
        title=row.title,
        url=row.url,
        protocol_version=row.protocol_id,
        max_qps=row.max_qps,
        lookup=row.lookup,
        submits_open=row.submits_open,
        closed_reason=row.closed_reason,
        negotiated_at=row.negotiated_at,
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
        has_output_schema=row.descriptor.output_schema is not None,
        effect=row.effect,
        budget_s=row.budget_s,
        answer_within_s=row.answer_within_s,
        sync_limit_s=row.sync_limit_s,
        submits_open=row.submits_open,
        closed_reason=row.closed_reason,
    )
