"""Servers, tools and protocol versions as registered: the profile that everything is done under."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.backends.utils import CursorWrapper

from adapters.contract import Negotiation, ToolDescriptor
from operations.ledger import admin, contracts
from operations.ledger.admin import Note
from operations.ledger.step import LedgerError
from operations.machine import FINAL
from operations.rollout import Mode

_TOOL_NAME = "server_id || '/' || name"


class NoSuchServer(LedgerError):
    """No server is registered under this slug."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewServer:
    """What an admin registers. Milliseconds and seconds as named; `lookup` is a contract.Lookup."""

    slug: str
    title: str
    url: str
    protocol: str
    credential_ref: str = ""
    allow_private: bool = False
    max_qps: float = 5
    poll_floor_ms: int = 1000
    poll_cap_ms: int = 60_000
    lookup: str = "none"
    lookup_tool: str = ""
    """The server's tool that the lookup `lookup_tool` asks; empty for every other."""
    quarantine_s: int = 300
    key_window_s: int = 0
    task_ttl_s: int = 86_400
    listens: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPolicy:
    """What an admin decides about a tool; the rest comes from its descriptor."""

    effect: str = "EXTERNAL"
    effect_on_error: bool = False
    expected_s: int = 60
    budget_s: int = 3600
    answer_within_s: int = 1800
    sync_limit_s: int | None = None


def register_protocol(version: str, *, release: str) -> None:
    """Register a protocol version with the adapter release that takes its calls and looks after them.

    Repeating is harmless: the releases of a version that is there change by `set_share` and `roll_back` alone.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO protocol_version (version, epoch, submits_open, closed_reason, release)
            VALUES (%s, 1, true, '', %s) ON CONFLICT (version) DO NOTHING""",
            [version, release],
        )
        if cursor.rowcount:
            cursor.execute(
                "INSERT INTO adapter_release (protocol, release, mode, share) VALUES (%s, %s, %s, 100)",
                [version, release, Mode.FULL],
            )


class ServerInUse(LedgerError):
    """Another address or protocol would strand the operations under way there: a task lives at one place."""

    def __init__(self, slug: str, under_way: int) -> None:
        super().__init__(f"{under_way} operations are under way at {slug}")
        self.under_way = under_way


def register_server(server: NewServer, *, note: Note | None = None, moves: bool = False) -> None:
    """Register a server, or change the profile of one; its switches and its tools stay.

    `note` says which admin did it and why; None where it was done on the machine itself. `moves`: the
    same server, with the same tasks, has another address. Raises ServerInUse for any other change of
    address or protocol while operations are under way.
    """
    profile = asdict(server)
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        before = admin.locked("server", "slug", server.slug, tuple(profile))
        if before is not None and not moves and any(before[name] != profile[name] for name in ("url", "protocol")):
            _require_idle(cursor, server.slug)
        if note is not None:
            what = "SERVER_REGISTERED" if before is None else "SERVER_CHANGED"
            admin.record(note, what, f"server:{server.slug}", before=before or {}, after=profile)
        cursor.execute(
            """INSERT INTO server (slug, title, url, protocol, credential_ref, allow_private, max_qps,
                poll_floor_ms, poll_cap_ms, lookup, lookup_tool, quarantine_s, key_window_s, task_ttl_s,
                listens, submits_open, closed_reason, pause_reason)
            VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, true, '', '')
            ON CONFLICT (slug) DO UPDATE SET title = EXCLUDED.title, url = EXCLUDED.url,
                protocol = EXCLUDED.protocol, credential_ref = EXCLUDED.credential_ref,
                allow_private = EXCLUDED.allow_private, max_qps = EXCLUDED.max_qps,
                poll_floor_ms = EXCLUDED.poll_floor_ms, poll_cap_ms = EXCLUDED.poll_cap_ms,
                lookup = EXCLUDED.lookup, lookup_tool = EXCLUDED.lookup_tool, quarantine_s = EXCLUDED.quarantine_s,
                key_window_s = EXCLUDED.key_window_s, task_ttl_s = EXCLUDED.task_ttl_s,
                listens = EXCLUDED.listens, lookup_disproved = '',
                lookup_proved_at = CASE WHEN server.url = EXCLUDED.url AND server.protocol = EXCLUDED.protocol
                        AND server.lookup = EXCLUDED.lookup AND server.lookup_tool = EXCLUDED.lookup_tool
                    THEN server.lookup_proved_at END""",
            [server.slug, server.title, server.url, server.protocol, server.credential_ref]
            + [server.allow_private, server.max_qps, server.poll_floor_ms, server.poll_cap_ms]
            + [
                server.lookup,
                server.lookup_tool,
                server.quarantine_s,
                server.key_window_s,
                server.task_ttl_s,
                server.listens,
            ],
        )


class ServerKept(LedgerError):
    """It has a history: calls were made there, or it described tools. That is a record, and stays."""


def remove_server(slug: str, *, note: Note | None = None) -> None:
    """Forget a server that was registered and never got further. Raises NoSuchServer and ServerKept."""
    try:
        with transaction.atomic(durable=True), connection.cursor() as cursor:
            before = admin.locked("server", "slug", slug, ("title", "url", "protocol"))
            if before is None:
                raise NoSuchServer(f"no server {slug!r} is registered")
            if note is not None:
                admin.record(note, "SERVER_REMOVED", f"server:{slug}", before=before, after={})
            cursor.execute("DELETE FROM server WHERE slug = %s", [slug])
    except IntegrityError as error:
        raise ServerKept(f"{slug} has a history: stop its calls instead") from error


def _require_idle(cursor: CursorWrapper, slug: str) -> None:
    cursor.execute(
        "SELECT count(*) FROM operation WHERE server_id = %s AND state <> ALL(%s)", [slug, [str(end) for end in FINAL]]
    )
    under_way: int = cursor.fetchone()[0]
    if under_way:
        raise ServerInUse(slug, under_way)


def save_negotiation(
    server: str, negotiation: Negotiation, *, now: datetime, note: Note | None = None, by_hand: bool = False
) -> None:
    """Keep what a server declares and each tool it describes; new descriptors become current (N1).

    Operations keep the descriptor they were made with (R3). What differs from the negotiation before stands on the
    server's page until an admin has looked at it (O5). `by_hand`: an admin described the tools, so nothing is to be
    looked at. Raises NoSuchServer.
    """
    declared = contracts.declared_of(negotiation.capabilities)
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        changes = [] if by_hand else contracts.compare(server, negotiation)
        cursor.execute(
            """UPDATE server SET capabilities = %s, negotiated_at = %s, lookup_disproved = '',
                lookup_proved_at = CASE WHEN capabilities = %s::jsonb THEN lookup_proved_at END
            WHERE slug = %s""",
            [json.dumps(declared), now, json.dumps(declared), server],
        )
        if cursor.rowcount == 0:
            raise NoSuchServer(server)
        for descriptor in negotiation.tools:
            _save_tool(server, descriptor, now)
        contracts.keep(server, changes, now=now)
        if note is not None:
            after = declared | {"tools": sorted(tool.name for tool in negotiation.tools)}
            admin.record(note, "NEGOTIATED", f"server:{server}", before={}, after=after)


def _save_tool(server: str, tool: ToolDescriptor, now: datetime) -> None:
    schemas = [json.dumps(dict(tool.input_schema))]
    schemas += [json.dumps(dict(tool.output_schema)) if tool.output_schema is not None else None]  # type: ignore[list-item]
    with connection.cursor() as cursor:
        cursor.execute(
            """WITH made AS (
                INSERT INTO tool_descriptor (server_id, name, digest, title, description,
                    task_support, input_schema, output_schema, raw, seen_at)
                VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
                ON CONFLICT (server_id, name, digest) DO NOTHING RETURNING id),
            current AS (
                SELECT id FROM made UNION ALL
                SELECT id FROM tool_descriptor WHERE server_id = %s AND name = %s AND digest = %s)
            INSERT INTO tool (server_id, name, descriptor_id, effect, effect_on_error, expected_s,
                budget_s, answer_within_s, submits_open, closed_reason)
            SELECT %s, %s, id, 'EXTERNAL', false, 60, 3600, 1800, true, '' FROM current LIMIT 1
            ON CONFLICT (server_id, name) DO UPDATE SET descriptor_id = EXCLUDED.descriptor_id""",
            [server, tool.name, tool.digest, tool.title, tool.description, tool.task_support]
            + [*schemas, tool.raw, now, server, tool.name, tool.digest, server, tool.name],
        )


def lookup_proved(server: str, *, now: datetime) -> None:
    """Keep that a submit of ours was seen in the list of its session: from now on its silence counts (L4)."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE server SET lookup_proved_at = %s WHERE slug = %s AND lookup_disproved = ''", [now, server]
        )


def lookup_disproved(server: str, *, why: str) -> None:
    """Withdraw that proof, and take no other before somebody negotiates with the server again (X2)."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE server SET lookup_proved_at = NULL, lookup_disproved = %s WHERE slug = %s", [why[:500], server]
        )


def set_policy(server: str, tool: str, policy: ToolPolicy, *, note: Note | None = None) -> bool:
    """Set what was decided about a tool. False: the server has described no such tool yet."""
    decision = asdict(policy)
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        before = admin.locked("tool", _TOOL_NAME, f"{server}/{tool}", tuple(decision))
        if before is None:
            return False
        if note is not None:
            admin.record(note, "POLICY_SET", f"tool:{server}/{tool}", before=before, after=decision)
        decided: list[Any] = [policy.effect, policy.effect_on_error, policy.expected_s, policy.budget_s]
        cursor.execute(
            """UPDATE tool SET effect = %s, effect_on_error = %s, expected_s = %s, budget_s = %s,
                answer_within_s = %s, sync_limit_s = %s WHERE server_id = %s AND name = %s""",
            [*decided, policy.answer_within_s, policy.sync_limit_s, server, tool],
        )
        return bool(cursor.rowcount)


def set_submits(scope: str, name: str, *, is_open: bool, reason: str, note: Note | None = None) -> bool:
    """Open or shut a submit switch of O5: `scope` is protocol, server or tool (`server/tool`).

    False: there is nothing of this name. `reason` is what a refused caller reads.
    """
    table, key = {
        "protocol": ("protocol_version", "version"),
        "server": ("server", "slug"),
        "tool": ("tool", _TOOL_NAME),
    }[scope]
    after = {"submits_open": is_open, "closed_reason": reason}
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        before = admin.locked(table, key, name, tuple(after))
        if before is None:
            return False
        if note is not None:
            what = "SUBMITS_OPENED" if is_open else "SUBMITS_CLOSED"
            admin.record(note, what, f"{scope}:{name}", before=before, after=after)
        cursor.execute(
            f"UPDATE {table} SET submits_open = %s, closed_reason = %s WHERE {key} = %s",
            [is_open, reason, name],
        )
        return bool(cursor.rowcount)
