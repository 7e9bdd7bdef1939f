"""The lists that a person has kept, or that were shared with a team of theirs."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from django.db.models import Q

from operations.models import DefaultView, SavedView, Team, TeamMember


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptView:
    """A list under a name."""

    id: uuid.UUID
    name: str
    query: str
    owner: str
    team: str
    team_title: str
    is_mine: bool
    is_default: bool


def find(person: str) -> tuple[KeptView, ...]:
    """Return a person's own lists and those shared with their teams, by name. 2 queries."""
    chosen = DefaultView.objects.filter(person=person).values_list("view_id", flat=True).first()
    shared = TeamMember.objects.filter(person=person).values("team_id")
    rows = SavedView.objects.filter(Q(owner=person) | Q(team__in=shared)).select_related("team").order_by("name", "id")
    return tuple(
        KeptView(
            id=row.id,
            name=row.name,
            query=row.query,
            owner=row.owner,
            team=row.team_id or "",
            team_title=row.team.title if row.team else "",
            is_mine=row.owner == person,
            is_default=row.id == chosen,
        )
        for row in rows
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamName:
    """A team that a list can be shared with."""

    slug: str
    title: str


def teams_of(person: str) -> tuple[TeamName, ...]:
    """Return the teams that a person belongs to. 1 query."""
    rows = Team.objects.filter(members__person=person).order_by("title", "slug")
    return tuple(TeamName(slug=row.slug, title=row.title) for row in rows)
