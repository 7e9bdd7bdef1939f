"""What every page's shell needs: the navigation with its counts, the person, the preferences."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from console import access, markup, preferences, words
from console.access import Actor, Deed
from operations.queries import CAP, desk, gates

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One entry of the navigation."""

    name: str
    icon: str
    word: _StrPromise
    address: str
    current: bool
    count: str = ""
    tone: str = ""
    count_word: _StrPromise | str = ""


_PLACES = (
    ("home", "home", _("Start")),
    ("approvals", "inbox", _("Approvals")),
    ("operations", "ops", _("Operations")),
    ("reconcile", "recon", _("Reconcile")),
    ("adapters", "plug", _("Adapters")),
    ("servers", "srv", _("Servers")),
    ("gates", "gate", _("Gates")),
    ("audit", "eye", _("Audit")),
    ("teams", "two", _("Teams")),
    ("help", "help", _("Help")),
)
_NEEDS = {"audit": Deed.READ_AUDIT, "teams": Deed.MANAGE_PEOPLE}
"""Rooms that not every role may enter; a door that stays shut is not shown."""
_ROOM_OF = (
    (("approval", "round"), "approvals"),
    (("operation", "cancel", "evidence", "batch", "list"), "operations"),
    (("reconcile", "claim", "judge", "second", "settle_effect"), "reconcile"),
    (("adapter", "shadow", "divergence"), "adapters"),
    (("server", "tool"), "servers"),
    (("gate", "proof"), "gates"),
    (("audit",), "audit"),
    (("team", "people", "person", "token"), "teams"),
    (("help",), "help"),
    (("home", "try_it"), "home"),
)


def room_of(url_name: str | None) -> str:
    """Return which entry of the navigation a page belongs to; "" for none."""
    for prefixes, room in _ROOM_OF:
        if (url_name or "").startswith(prefixes):
            return room
    return ""


def places(*, current: str, actor: Actor | None) -> list[Place]:
    """Build a person's navigation, with the counts of what waits and of what is over its limit. Three queries."""
    waiting, broken = desk.count_waiting(), gates.count_broken(now=timezone.now())
    counts = {
        "approvals": (waiting.rounds, "hot", ngettext("open question", "open questions", waiting.rounds)),
        "reconcile": (waiting.desk, "unk", ngettext("open item", "open items", waiting.desk)),
        "gates": (broken, "hot", ngettext("gate over its limit", "gates over their limit", broken)),
    }
    found: list[Place] = []
    for name, icon, word in _PLACES:
        if name in _NEEDS and not (actor and actor.may(_NEEDS[name])):
            continue
        count, tone, count_word = counts.get(name, (None, "", ""))
        found.append(
            Place(
                name=name,
                icon=icon,
                word=word,
                address=markup.address(name),
                current=name == current,
                count=_capped(count) if count else "",
                tone=tone,
                count_word=count_word,
            )
        )
    return found


def _capped(count: int) -> str:
    return str(count) if count < CAP else f"{CAP // 1000}k+"


def form_id(request: HttpRequest) -> uuid.UUID:
    """Return the form's own id, by which a second post is known; a fresh one for a form that has none."""
    try:
        return uuid.UUID(request.POST.get("id", ""))
    except ValueError:
        return uuid.uuid4()


def return_address(request: HttpRequest, *, otherwise: str) -> str:
    """Return the page of ours that a form wants to go back to; `otherwise` when it names none of ours."""
    page = request.POST.get("next", "")
    if url_has_allowed_host_and_scheme(page, {request.get_host()}, require_https=request.is_secure()):
        return page
    return otherwise


def shell(request: HttpRequest) -> dict[str, Any]:
    """Give the shell of a page its parts; nothing is read unless the page draws it."""
    match = request.resolver_match
    room = room_of(match.url_name if match else None)

    def known() -> Actor | None:
        return getattr(request, "actor", None) or access.actor_of(request.user)

    return {
        "preferences": getattr(request, "preferences", None) or preferences.preferences_of(request),
        "room": room,
        "places": SimpleLazyObject(lambda: places(current=room, actor=known())),
        "actor": SimpleLazyObject(known),
        "units": words.unit_words(),
    }
