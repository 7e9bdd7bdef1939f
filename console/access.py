"""Who may do what: the people of the console, their roles, and the one table of what a role allows (W).

Identity comes from the session and from nowhere else: no header, no parameter and no form field names a person.
Call nodes have tokens instead of roles: see `console.tokens`.

Two separations are on purpose. Admins neither answer nor cancel: who decides how calls are run does not decide what
a call is told. And Django's superuser flag means nothing here: a role is a group, so that one list shows all rights.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Concatenate, ParamSpec

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django_htmx.http import HttpResponseClientRedirect

from operations.approval import Person
from operations.queries import scope
from operations.queries.scope import Scope

if TYPE_CHECKING:
    from django_htmx.middleware import HtmxDetails

P = ParamSpec("P")


class Role(enum.StrEnum):
    """The four kinds of people; the value is the name of the Django group."""

    APPROVER = "approver"
    OPERATOR = "operator"
    ADMIN = "admin"
    VIEWER = "viewer"


class Deed(enum.StrEnum):
    """What a person may want to do. The value completes "may …"."""

    SEE = "see operations"
    TRY = "submit a call of the demo"
    ANSWER = "answer what a server asks"
    EXTEND_ROUND = "give a question more time"
    CANCEL = "ask for a cancel"
    LOOK_NOW = "have a server looked at now"
    RECONCILE = "settle what no evidence could"
    SETTLE_EFFECTS = "close an effect record"
    READ_PAYLOADS = "read raw payloads"
    PROPOSE_ROLLBACK = "propose a rollback"
    ROLL_BACK = "roll a protocol version back"
    SWITCH_SUBMITS = "open or close submits"
    MANAGE_SERVERS = "register servers and tools"
    MANAGE_TOKENS = "issue and revoke tokens"
    MANAGE_PEOPLE = "change roles"
    SET_APPROVALS = "say who has to agree"
    MANAGE_NOTICES = "say who is told"
    READ_AUDIT = "read the audit"


_EVERYBODY = frozenset(Role)

MATRIX: Mapping[Deed, frozenset[Role]] = MappingProxyType(
    {
        Deed.SEE: _EVERYBODY,
        Deed.TRY: frozenset({Role.APPROVER, Role.OPERATOR, Role.ADMIN}),
        Deed.ANSWER: frozenset({Role.APPROVER}),
        Deed.EXTEND_ROUND: frozenset({Role.OPERATOR}),
        Deed.CANCEL: frozenset({Role.OPERATOR}),
        Deed.LOOK_NOW: frozenset({Role.OPERATOR}),
        Deed.RECONCILE: frozenset({Role.OPERATOR}),
        Deed.SETTLE_EFFECTS: frozenset({Role.OPERATOR}),
        Deed.READ_PAYLOADS: frozenset({Role.OPERATOR, Role.ADMIN}),
        Deed.PROPOSE_ROLLBACK: frozenset({Role.OPERATOR, Role.ADMIN}),
        Deed.ROLL_BACK: frozenset({Role.ADMIN}),
        Deed.SWITCH_SUBMITS: frozenset({Role.ADMIN}),
        Deed.MANAGE_SERVERS: frozenset({Role.ADMIN}),
        Deed.MANAGE_TOKENS: frozenset({Role.ADMIN}),
        Deed.MANAGE_PEOPLE: frozenset({Role.ADMIN}),
        Deed.SET_APPROVALS: frozenset({Role.ADMIN}),
        Deed.MANAGE_NOTICES: frozenset({Role.ADMIN}),
        Deed.READ_AUDIT: frozenset({Role.OPERATOR, Role.ADMIN}),
    }
)
"""What is not in a row is denied. Somebody with two roles may do what either of them may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """A signed-in person, as the pages and the ledger know them."""

    username: str
    title: str
    """The full name, or the user name where there is none."""
    roles: frozenset[Role]
    names: frozenset[str] = frozenset()
    """Every name that a call may be made under for this person, in lower case."""
    teams: frozenset[str] = frozenset()
    scope: Scope = scope.NOTHING
    """The servers that the person's teams look after."""

    @property
    def by(self) -> str:
        """How the ledger names this person."""
        return f"person:{self.username}"

    @property
    def standing(self) -> tuple[Role, ...]:
        """The roles in the order in which people read them everywhere."""
        return tuple(role for role in Role if role in self.roles)

    def may(self, deed: Deed) -> bool:
        """True: one of the person's roles allows it."""
        return bool(self.roles & MATRIX[deed])

    @property
    def person(self) -> Person:
        """What the ledger asks of somebody who wants to answer."""
        return Person(
            by=self.by,
            names=self.names,
            approves=self.may(Deed.ANSWER),
            servers=self.scope.servers,
            teams=self.teams,
        )


class PersonRequest(HttpRequest):
    """A request that has passed `require` or `allow`: whose it is, is known."""

    actor: Actor
    htmx: HtmxDetails
    decides_nothing: bool
    """Set by a view whose post changes nothing: there is nothing to note."""
    refusal: str
    """Set by a view that leads somebody away from what was refused: why it was, for the audit."""


View = Callable[Concatenate[PersonRequest, P], HttpResponse]
GatedView = Callable[Concatenate[HttpRequest, P], HttpResponse]


def actor_of(user: AbstractBaseUser | AnonymousUser) -> Actor | None:
    """Return the person behind a session's user; None for an anonymous one. Reads groups and teams once."""
    if not isinstance(user, User):
        return None
    groups = set(user.groups.values_list("name", flat=True))
    return _actor(user, groups, scope.membership_of(f"person:{user.get_username()}"))


def people_of(names: Collection[str]) -> Mapping[str, Person]:
    """Return the rights of these people (`person:ada`) as they are now; whoever is unknown or gone is left out."""
    usernames = {name.removeprefix("person:") for name in names if name.startswith("person:")}
    users = list(User.objects.filter(username__in=usernames, is_active=True).prefetch_related("groups"))
    held = scope.memberships([f"person:{user.get_username()}" for user in users])
    actors = [
        _actor(user, {group.name for group in user.groups.all()}, held[f"person:{user.get_username()}"])
        for user in users
    ]
    return {actor.by: actor.person for actor in actors}


def everybody() -> list[tuple[str, str]]:
    """Return every person whose account is open, as the ledger names them and as people do."""
    users = User.objects.filter(is_active=True).order_by("username")
    return [(f"person:{user.get_username()}", user.get_full_name() or user.get_username()) for user in users]


def _actor(user: User, groups: set[str], membership: scope.Membership) -> Actor:
    username = user.get_username()
    return Actor(
        username=username,
        title=user.get_full_name() or username,
        roles=frozenset(role for role in Role if role.value in groups),
        names=frozenset(name.lower() for name in (username, user.email, user.get_full_name()) if name),
        teams=membership.teams,
        scope=membership.scope,
    )


def may(user: AbstractBaseUser | AnonymousUser, deed: Deed) -> bool:
    """True: this user's roles allow the deed. An anonymous user may do nothing."""
    actor = actor_of(user)
    return actor is not None and actor.may(deed)


def require(*roles: Role) -> Callable[[View[P]], GatedView[P]]:
    """Let only people with one of the roles in; without roles: people with any role at all.

    Anonymous people are sent to the login page and come back; the wrong role gets a 403 page that says which role is
    needed. Rights are read again on every request, so that a role that is taken away is gone at once.
    """
    wanted = frozenset(roles) or _EVERYBODY
    return _gate(wanted, f"This needs the role {_listed(wanted)}.")


def allow(deed: Deed) -> Callable[[View[P]], GatedView[P]]:
    """Let only people in whose roles allow the deed; otherwise as `require`."""
    return _gate(MATRIX[deed], f"To {deed.value}, one needs the role {_listed(MATRIX[deed])}.")


def _gate(wanted: frozenset[Role], reason: str) -> Callable[[View[P]], GatedView[P]]:
    def decorate(view: View[P]) -> GatedView[P]:
        @functools.wraps(view)
        def gated(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
            # What the middleware read at the beginning of this very request need not be read twice.
            actor = getattr(request, "known", None) or actor_of(request.user)
            if actor is None:
                return _to_login(request)
            if not actor.roles & wanted:
                raise PermissionDenied(f"{reason} {_standing(actor)}")
            request.actor = actor  # type: ignore[attr-defined]
            with scope.seen_by(actor.scope):
                return view(request, *args, **kwargs)  # type: ignore[arg-type]

        return gated

    return decorate


def _to_login(request: HttpRequest) -> HttpResponse:
    htmx: HtmxDetails | None = getattr(request, "htmx", None)
    if not htmx:
        return redirect_to_login(request.get_full_path())
    # A plain redirect would put the login form into the fragment that was asked for.
    page = htmx.current_url_abs_path or "/"
    return HttpResponseClientRedirect(redirect_to_login(page).url)


def _listed(roles: frozenset[Role]) -> str:
    return " or ".join(role.value for role in Role if role in roles)


def _standing(actor: Actor) -> str:
    held = ", ".join(role.value for role in Role if role in actor.roles)
    return f"{actor.title} has: {held}." if held else f"{actor.title} has no role yet; an admin can give one."
