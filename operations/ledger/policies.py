"""Who has to agree before an answer leaves: policies of tools and of side-effect classes (I3)."""

from __future__ import annotations

from typing import Any

from django.db import connection, transaction

from operations.approval import Policy
from operations.ledger import admin, trail
from operations.ledger.admin import Note

_COLUMNS = "p.needed, p.four_eyes, p.team_id, p.comment, p.remind_s, p.escalate_to_id"


def policy_of(tool: int, effect: str) -> Policy:
    """Return what stands for a tool: its own policy, else the one of its side-effect class, else the default."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""SELECT {_COLUMNS} FROM approval_policy p WHERE p.tool_id = %s OR p.effect = %s
            ORDER BY p.tool_id IS NULL LIMIT 1""",
            [tool, effect],
        )
        found = cursor.fetchone()
    return _policy(found) if found else Policy()


def _policy(found: tuple[Any, ...]) -> Policy:
    needed, four_eyes, team, comment, remind_s, escalate_to = found
    return Policy(
        needed=needed,
        four_eyes=four_eyes,
        team=team or "",
        comment=comment,
        remind_s=tuple(remind_s),
        escalate_to=escalate_to or "",
    )


def set_approval(policy: Policy | None, *, server: str = "", tool: str = "", effect: str = "", note: Note) -> bool:
    """Set who has to agree for one tool, or for a side-effect class; None takes a policy of its own away.

    Rounds that are open keep the policy they were opened under. False: there is no such tool.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        key = _tool_id(server, tool) if tool else None
        if tool and key is None:
            return False
        column, value = ("tool_id", key) if tool else ("effect", effect)
        target = f"tool:{server}/{tool}" if tool else f"effect:{effect}"
        cursor.execute(f"SELECT {_COLUMNS} FROM approval_policy p WHERE {column} = %s FOR UPDATE", [value])
        found = cursor.fetchone()
        before = _policy(found).facts() if found else {}
        after = policy.facts() if policy else {}
        trail.audit(note.by, "APPROVAL_SET", target, reason=note.reason, before=before, after=after, now=note.now)
        cursor.execute(f"DELETE FROM approval_policy WHERE {column} = %s", [value])
        if policy is not None:
            cursor.execute(
                f"""INSERT INTO approval_policy ({column}, needed, four_eyes, team_id, comment, remind_s,
                    escalate_to_id) VALUES (%s, %s, %s, %s, %s, %s, %s)""",
                [value, policy.needed, policy.four_eyes, policy.team or None, policy.comment]
                + [sorted(set(policy.remind_s), reverse=True), policy.escalate_to or None],
            )
        return True


def _tool_id(server: str, tool: str) -> int | None:
    found = admin.locked("tool", "server_id || '/' || name", f"{server}/{tool}", ("id",))
    return int(found["id"]) if found else None
