"""Teams: who looks after which servers. Whoever is in no team sees no server (W)."""

from __future__ import annotations

from collections.abc import Collection

from django.db import connection, transaction

from operations.ledger import trail
from operations.ledger.admin import Note


def save_team(
    slug: str,
    *,
    title: str,
    all_servers: bool,
    servers: Collection[str] = (),
    members: Collection[str] = (),
    note: Note,
) -> None:
    """Make a team, or change one: what it looks after and who is in it are replaced by what is given.

    `servers` are slugs, `members` are named as everywhere in the ledger: `person:ada`.
    """
    looked_after, people = sorted(set(servers)), sorted(set(members))
    after = {"title": title, "all_servers": all_servers, "servers": looked_after, "members": people}
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SELECT title, all_servers FROM team WHERE slug = %s FOR UPDATE", [slug])
        found = cursor.fetchone()
        before = {"title": found[0], "all_servers": found[1], **_holdings(slug)} if found else {}
        what = "TEAM_CHANGED" if found else "TEAM_MADE"
        trail.audit(note.by, what, f"team:{slug}", reason=note.reason, before=before, after=after, now=note.now)
        cursor.execute(
            """INSERT INTO team (slug, title, all_servers) VALUES (%s, %s, %s)
            ON CONFLICT (slug) DO UPDATE SET title = EXCLUDED.title, all_servers = EXCLUDED.all_servers""",
            [slug, title, all_servers],
        )
        cursor.execute("DELETE FROM team_server WHERE team_id = %s", [slug])
        cursor.execute("DELETE FROM team_member WHERE team_id = %s", [slug])
        cursor.execute(
            "INSERT INTO team_server (team_id, server_id) SELECT %s, unnest(%s::text[])", [slug, looked_after]
        )
        cursor.execute("INSERT INTO team_member (team_id, person) SELECT %s, unnest(%s::text[])", [slug, people])


def join_team(slug: str, *, member: str, note: Note) -> bool:
    """Put one more person into a team. False: there is no such team, or the person is in it."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO team_member (team_id, person) SELECT slug, %s FROM team WHERE slug = %s
            ON CONFLICT DO NOTHING""",
            [member, slug],
        )
        if cursor.rowcount:
            after = {"member": member}
            trail.audit(note.by, "TEAM_JOINED", f"team:{slug}", reason=note.reason, after=after, now=note.now)
        return bool(cursor.rowcount)


def _holdings(slug: str) -> dict[str, object]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT server_id FROM team_server WHERE team_id = %s ORDER BY 1", [slug])
        servers = [server for (server,) in cursor.fetchall()]
        cursor.execute("SELECT person FROM team_member WHERE team_id = %s ORDER BY 1", [slug])
        return {"servers": servers, "members": [person for (person,) in cursor.fetchall()]}
