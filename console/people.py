"""People of the console: who there is, which roles they have, and how an admin gives and takes them (W).

Whoever is made here gets a password that is shown once; whoever leaves is shut out and stays on the list, because the
ledger names people for ever.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import Group, User
from django.db import connection, transaction

from console.access import Role
from operations import ledger
from operations.ledger import Note
from operations.queries import scope

PASSWORD_BYTES = 15
"""Of chance in a password that is made for somebody: 20 letters and digits."""


class NameTaken(Exception):
    """There is a person of this name, in whatever case."""


class LastAdmin(Exception):
    """Nobody would be left who can give roles."""


class OwnRights(Exception):
    """Nobody takes the role of an admin, or the way in, from themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonView:
    """A person as admins see it."""

    username: str
    title: str
    email: str
    roles: tuple[Role, ...]
    teams: tuple[str, ...]
    servers: tuple[str, ...] | None
    """What the teams look after; None: every server."""
    is_open: bool
    """False: the person cannot sign in."""
    last_login: datetime | None

    @property
    def by(self) -> str:
        """How the ledger names this person."""
        return f"person:{self.username}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What an admin decides about somebody."""

    full_name: str
    email: str
    roles: frozenset[Role]
    is_open: bool


def find() -> tuple[PersonView, ...]:
    """Return everybody, open accounts first, then by name. Three queries."""
    users = list(User.objects.prefetch_related("groups").order_by("-is_active", "username"))
    held = scope.memberships([f"person:{user.get_username()}" for user in users])
    return tuple(_view(user, held[f"person:{user.get_username()}"]) for user in users)


def read(username: str) -> PersonView | None:
    """Return one person; None where there is none of this name."""
    user = User.objects.prefetch_related("groups").filter(username=username).first()
    return _view(user, scope.membership_of(f"person:{username}")) if user else None


def make(username: str, rights: Rights, *, note: Note) -> str:
    """Make a person and return the password, which is kept nowhere else. Raises NameTaken."""
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    with transaction.atomic():
        _one_at_a_time()
        if User.objects.filter(username__iexact=username).exists():
            raise NameTaken(username)
        user = User(username=username)
        user.set_password(password)
        _write(user, rights)
        ledger.audit(
            note.by, "PERSON_MADE", f"person:{username}", now=note.now, reason=note.reason, after=_facts(rights)
        )
    return password


def change(username: str, rights: Rights, *, note: Note) -> bool:
    """Give somebody these rights and no others; what is taken is gone at the next request.

    False: there is no such person. Raises OwnRights and LastAdmin.
    """
    with transaction.atomic():
        _one_at_a_time()
        user = User.objects.filter(username=username).first()
        if user is None:
            return False
        before = _rights_of(user)
        _may_change(user, before, rights, by=note.by)
        _write(user, rights)
        target, was, is_now = f"person:{username}", _facts(before), _facts(rights)
        ledger.audit(note.by, "PERSON_CHANGED", target, now=note.now, reason=note.reason, before=was, after=is_now)
    return True


def new_password(username: str, *, note: Note) -> str | None:
    """Make somebody a new password and return it; whoever is signed in under the old one is signed out.

    None: there is no such person.
    """
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    with transaction.atomic():
        user = User.objects.filter(username=username).first()
        if user is None:
            return None
        user.set_password(password)
        user.save(update_fields=["password"])
        ledger.audit(note.by, "PASSWORD_MADE", f"person:{username}", now=note.now, reason=note.reason)
    return password


def _view(user: User, membership: scope.Membership) -> PersonView:
    servers = membership.scope.servers
    return PersonView(
        username=user.get_username(),
        title=user.get_full_name() or user.get_username(),
        email=user.email,
        roles=tuple(role for role in Role if role.value in {group.name for group in user.groups.all()}),
        teams=tuple(sorted(membership.teams)),
        servers=None if servers is None else tuple(sorted(servers)),
        is_open=user.is_active,
        last_login=user.last_login,
    )


def _rights_of(user: User) -> Rights:
    held = set(user.groups.values_list("name", flat=True))
    roles = frozenset(role for role in Role if role.value in held)
    return Rights(full_name=user.get_full_name(), email=user.email, roles=roles, is_open=user.is_active)


def _facts(rights: Rights) -> dict[str, object]:
    roles = sorted(role.value for role in rights.roles)
    return {"name": rights.full_name, "email": rights.email, "roles": roles, "may sign in": rights.is_open}


def _may_change(user: User, before: Rights, after: Rights, *, by: str) -> None:
    was_admin = Role.ADMIN in before.roles and before.is_open
    if not was_admin or (Role.ADMIN in after.roles and after.is_open):
        return
    if by == f"person:{user.get_username()}":
        raise OwnRights(by)
    others = User.objects.filter(is_active=True, groups__name=Role.ADMIN.value).exclude(pk=user.pk)
    if not others.exists():
        raise LastAdmin(user.get_username())


def _write(user: User, rights: Rights) -> None:
    user.first_name, user.last_name, user.email = rights.full_name, "", rights.email
    user.is_active = rights.is_open
    user.save()
    user.groups.remove(*Group.objects.filter(name__in=[role.value for role in Role]))
    user.groups.add(*(Group.objects.get_or_create(name=role.value)[0] for role in rights.roles))


def _one_at_a_time() -> None:
    # Two admins who take each other's role at the same moment would leave none.
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('longcall.people', 0))")
