"""Which servers a person sees: the one place through which every list, page and fragment is narrowed (W).

Note [Scope]
What a person may see is decided by the servers that the person's teams look after. Whoever lets a person in says so
once, with `seen_by`; every query for people goes through `within`, or `clause` where it is written as SQL. A foreign
row is then not there: a list leaves it out, a page about it is a 404. Workers, watches and commands see everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db.models import Model, QuerySet

from operations.models import Team, TeamMember, TeamServer

M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The servers that somebody sees; None: all of them, also one that is registered later."""

    servers: frozenset[str] | None

    def sees(self, server: str | None) -> bool:
        """True: what belongs to this server may be shown. What belongs to none is for everybody."""
        return server is None or self.servers is None or server in self.servers


EVERYTHING = Scope(servers=None)
NOTHING = Scope(servers=frozenset())
_now: ContextVar[Scope] = ContextVar("scope", default=EVERYTHING)


@contextmanager
def seen_by(scope: Scope) -> Iterator[None]:
    """Narrow every query inside to what this scope sees."""
    token = _now.set(scope)
    try:
        yield
    finally:
        _now.reset(token)


def present() -> Scope:
    """Return the scope that queries are narrowed to now."""
    return _now.get()


def within(rows: QuerySet[M], *, server: str = "server_id") -> QuerySet[M]:
    """Leave out the rows of servers that are not seen. `server` is the path to the server's slug."""
    servers = _now.get().servers
    return rows if servers is None else rows.filter(**{f"{server}__in": sorted(servers)})


def clause(column: str) -> tuple[str, list[Any]]:
    """Return the same condition for a WHERE, with its parameters."""
    servers = _now.get().servers
    return ("true", []) if servers is None else (f"{column} = ANY(%s)", [sorted(servers)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """What a person's teams amount to."""

    teams: frozenset[str]
    scope: Scope


def membership_of(person: str) -> Membership:
    """Return what one person's teams amount to. One query."""
    return memberships([person])[person]


def memberships(people: list[str]) -> dict[str, Membership]:
    """Return what each person's teams amount to; whoever is in no team sees nothing. One query."""
    teams: dict[str, set[str]] = {person: set() for person in people}
    servers: dict[str, set[str]] = {person: set() for person in people}
    everything: set[str] = set()
    rows = TeamMember.objects.filter(person__in=people).values_list(
        "person", "team_id", "team__all_servers", "team__servers__server_id"
    )
    for person, team, all_servers, server in rows:
        teams[person].add(team)
        servers[person] |= {server} if server else set()
        everything |= {person} if all_servers else set()
    return {
        person: Membership(
            teams=frozenset(teams[person]),
            scope=EVERYTHING if person in everything else Scope(servers=frozenset(servers[person])),
        )
        for person in people
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamRow:
    """A team with what it looks after."""

    slug: str
    title: str
    all_servers: bool
    servers: tuple[str, ...]
    members: tuple[str, ...]


def teams() -> tuple[TeamRow, ...]:
    """Return every team by title. Three queries."""
    rows = Team.objects.prefetch_related("servers", "members").order_by("title", "slug")
    return tuple(
        TeamRow(
            slug=row.slug,
            title=row.title,
            all_servers=row.all_servers,
            servers=tuple(sorted(held.server_id for held in row.servers.all())),
            members=tuple(sorted(held.person for held in row.members.all())),
        )
        for row in rows
    )


def teams_of(server: str) -> tuple[str, ...]:
    """Return the teams that look after a server, by slug. Two queries."""
    wide = Team.objects.filter(all_servers=True).values_list("slug", flat=True)
    own = TeamServer.objects.filter(server_id=server).values_list("team_id", flat=True)
    return tuple(sorted({*wide, *own}))
