"""What a server declares and describes now, held against what it did before: its contract may have changed (N1, O5).

A change decides nothing. It stands on the server's page, and on its version's, until an admin has looked at it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from adapters.contract import Capabilities, Negotiation
from operations.ledger import admin
from operations.ledger.admin import Note
from operations.ledger.step import Step

MOST_CHANGES = 100
"""A server that declares something else at every look must not fill its row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that is not as it was. `what` is CAPABILITY, TOOL_CHANGED, TOOL_NEW or TOOL_GONE."""

    what: str
    name: str
    before: str | None
    after: str | None

    def as_json(self) -> dict[str, str | None]:
        """Return it as it stands in the server's row."""
        return {"what": self.what, "name": self.name, "before": self.before, "after": self.after}


def declared_of(capabilities: Capabilities) -> dict[str, Any]:
    """Return what is kept of a declaration, by name."""
    return {
        "server_name": capabilities.server_name,
        "server_version": capabilities.server_version,
        "creates_tasks": capabilities.creates_tasks,
        "cancels_tasks": capabilities.cancels_tasks,
        "lists_tasks": capabilities.lists_tasks,
    }


def compare(server: str, negotiation: Negotiation) -> list[Change]:
    """Hold a negotiation against what was kept before; nothing differs where nothing was. Locks the server's row."""
    held = admin.locked("server", "slug", server, ("capabilities",))
    if held is None or held["capabilities"] is None:
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT t.name, d.digest FROM tool t JOIN tool_descriptor d ON d.id = t.descriptor_id
            WHERE t.server_id = %s""",
            [server],
        )
        known = dict(cursor.fetchall())
    before = json.loads(held["capabilities"]) if isinstance(held["capabilities"], str) else held["capabilities"]
    described = {tool.name: tool.digest for tool in negotiation.tools}
    return _capabilities(before, declared_of(negotiation.capabilities)) + _tools(known, described)


def _capabilities(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    return [
        Change(what="CAPABILITY", name=name, before=_word(before.get(name)), after=_word(after[name]))
        for name in sorted(after)
        if before.get(name) != after[name]
    ]


def _tools(before: Mapping[str, str], after: Mapping[str, str]) -> list[Change]:
    if not after:  # a contract in which servers do not describe their tools
        return []
    found = []
    for name in sorted({*before, *after}):
        was, is_now = before.get(name), after.get(name)
        if was != is_now:
            what = "TOOL_NEW" if was is None else "TOOL_GONE" if is_now is None else "TOOL_CHANGED"
            found.append(Change(what=what, name=name, before=was, after=is_now))
    return found


def _word(value: object) -> str | None:
    return None if value is None else str(value)


def keep(server: str, changes: list[Change], *, now: datetime) -> None:
    """Let the changes stand on the server's page, inside the transaction that found them."""
    if not changes:
        return
    with connection.cursor() as cursor:
        cursor.execute(_KEEP, [now, json.dumps([one.as_json() for one in changes]), server, MOST_CHANGES])


_KEEP = """UPDATE server SET contract_changed_at = COALESCE(contract_changed_at, %s),
        contract_changes = contract_changes || %s::jsonb
    WHERE slug = %s AND jsonb_array_length(contract_changes) < %s"""


def heard(step: Step, capabilities: Capabilities) -> None:
    """Hold what a server declares to one operation's session against what was negotiated, within the step.

    The statement touches the server's row only where something differs, and says it once.
    """
    step.write(
        """WITH told AS (SELECT d.key AS name, s.capabilities ->> d.key AS before, d.value AS after
            FROM server s CROSS JOIN jsonb_each_text(%s::jsonb) d
            WHERE s.slug = %s AND s.capabilities IS NOT NULL AND s.capabilities ->> d.key IS DISTINCT FROM d.value),
        changes AS (SELECT jsonb_agg(jsonb_build_object('what', 'CAPABILITY', 'name', name, 'before', before,
            'after', after) ORDER BY name) AS list FROM told)
        UPDATE server SET contract_changed_at = COALESCE(contract_changed_at, %s),
            contract_changes = contract_changes || changes.list
        FROM changes WHERE slug = %s AND changes.list IS NOT NULL AND NOT contract_changes @> changes.list
            AND jsonb_array_length(contract_changes) < %s""",
        [json.dumps(declared_of(capabilities)), step.row.server_id, step.now, step.row.server_id, MOST_CHANGES],
    )


def contract_seen(server: str, *, note: Note) -> bool:
    """Take the changes off the page: an admin has looked at them and says why calls may go on.

    False: there is nothing to look at.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        held = admin.locked("server", "slug", server, ("contract_changed_at", "contract_changes"))
        if held is None or held["contract_changed_at"] is None:
            return False
        cursor.execute(
            "UPDATE server SET contract_changed_at = NULL, contract_changes = '[]' WHERE slug = %s", [server]
        )
        changes = held["contract_changes"]
        seen = {"changes": json.loads(changes) if isinstance(changes, str) else changes}
        admin.record(note, "CONTRACT_SEEN", f"server:{server}", before=seen, after={})
    return True
