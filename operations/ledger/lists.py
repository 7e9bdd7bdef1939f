"""The lists that people keep under a name, for themselves or for a team."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime

from django.db import IntegrityError, connection, transaction

from operations.ledger import trail
from operations.ledger.step import LedgerError


class NameTaken(LedgerError):
    """This person has another list of this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptList:
    """A list to keep. `id` is the form's own, so that a second post is the same list; `team` shares it."""

    id: uuid.UUID
    name: str
    query: str
    team: str | None = None


def keep_list(kept: KeptList, *, by: str, now: datetime) -> bool:
    """Keep a list, or change one's own; False: it is somebody else's. Raises NameTaken."""
    try:
        with transaction.atomic(durable=True), connection.cursor() as cursor:
            cursor.execute(
                """INSERT INTO saved_view (id, owner, name, query, team_id, changed_at) VALUES (%s, %s, %s, %s, %s, %s)
                ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name, query = EXCLUDED.query,
                    team_id = EXCLUDED.team_id, changed_at = EXCLUDED.changed_at
                WHERE saved_view.owner = EXCLUDED.owner""",
                [kept.id, by, kept.name, kept.query, kept.team, now],
            )
            if not cursor.rowcount:
                return False
            shared = {"name": kept.name, "query": kept.query, "team": kept.team or ""}
            trail.audit(by, "LIST_KEPT", f"list:{kept.id}", now=now, after=shared)
    except IntegrityError:
        raise NameTaken(kept.name) from None
    return True


def drop_list(key: uuid.UUID, *, by: str, now: datetime) -> bool:
    """Drop one's own list; False: there is none of this person's."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SELECT name FROM saved_view WHERE id = %s AND owner = %s FOR UPDATE", [key, by])
        found = cursor.fetchone()
        if found is None:
            return False
        cursor.execute("DELETE FROM default_view WHERE view_id = %s", [key])
        cursor.execute("DELETE FROM saved_view WHERE id = %s", [key])
        trail.audit(by, "LIST_DROPPED", f"list:{key}", now=now, before={"name": found[0]})
    return True


def open_with(key: uuid.UUID | None, *, by: str) -> None:
    """Let a person's list open with this one from now on; None: with everything open again."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        if key is None:
            cursor.execute("DELETE FROM default_view WHERE person = %s", [by])
            return
        cursor.execute(
            """INSERT INTO default_view (person, view_id) SELECT %s, id FROM saved_view WHERE id = %s
            ON CONFLICT (person) DO UPDATE SET view_id = EXCLUDED.view_id""",
            [by, key],
        )
