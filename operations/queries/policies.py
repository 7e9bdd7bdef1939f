"""Approval policies as admins see them: one for each side-effect class, and the tools that have their own."""

from __future__ import annotations

from dataclasses import dataclass

from operations.approval import Policy
from operations.models import ApprovalPolicy, Effect, Tool
from operations.queries.scope import within


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassPolicy:
    """What stands for every tool of one side-effect class that has no policy of its own."""

    effect: str
    policy: Policy
    own: bool
    """False: nobody has set one, so the default stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPolicyRow:
    """One tool with what stands for its next round."""

    server: str
    server_title: str
    name: str
    title: str
    effect: str
    policy: Policy
    own: bool


def class_policies() -> tuple[ClassPolicy, ...]:
    """Return one row for each side-effect class. One query."""
    held = {row.effect: _policy(row) for row in ApprovalPolicy.objects.filter(effect__isnull=False)}
    return tuple(
        ClassPolicy(effect=effect, policy=held.get(effect, Policy()), own=effect in held) for effect in Effect.values
    )


def tool_policies() -> tuple[ToolPolicyRow, ...]:
    """Return every tool of the servers that are seen, by server and name. Two queries."""
    by_class = {row.effect: row.policy for row in class_policies()}
    rows = within(Tool.objects.all()).select_related("server", "descriptor", "approvalpolicy")
    return tuple(_row(row, by_class[row.effect]) for row in rows.order_by("server__title", "server_id", "name"))


def tool_policy(server: str, name: str) -> ToolPolicyRow | None:
    """Return what stands for the next round of one tool; None where nobody sees such a tool. Two queries."""
    by_class = {row.effect: row.policy for row in class_policies()}
    rows = within(Tool.objects.filter(server=server, name=name)).select_related(
        "server", "descriptor", "approvalpolicy"
    )
    found = rows.first()
    return _row(found, by_class[found.effect]) if found is not None else None


def _row(tool: Tool, of_class: Policy) -> ToolPolicyRow:
    own: ApprovalPolicy | None = getattr(tool, "approvalpolicy", None)
    return ToolPolicyRow(
        server=tool.server_id,
        server_title=tool.server.title,
        name=tool.name,
        title=tool.descriptor.title or tool.name,
        effect=tool.effect,
        policy=_policy(own) if own else of_class,
        own=own is not None,
    )


def _policy(row: ApprovalPolicy) -> Policy:
    return Policy(
        needed=row.needed,
        four_eyes=row.four_eyes,
        team=row.team_id or "",
        comment=row.comment,
        remind_s=tuple(row.remind_s),
        escalate_to=row.escalate_to_id or "",
    )
