"""Notices in words: one line, a few lines, and the page where a person decides. No argument, no word of a server."""

from __future__ import annotations

import uuid
from datetime import datetime
from zoneinfo import ZoneInfo

from django.conf import settings
from django.urls import reverse
from django.utils import translation
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy
from django.utils.translation import ngettext

from operations.ledger import Item, Parcel, Route
from operations.notice import Kind
from operations.notices import Message

LISTED = 20
"""How many items one message names; it says how many more there are."""

KINDS: dict[Kind, tuple[Promise, Promise]] = {
    Kind.ROUND_OPENED: (lazy("A question waits for an answer"), lazy("Questions wait for an answer")),
    Kind.DEADLINE_NEAR: (lazy("A question runs out of time"), lazy("Questions run out of time")),
    Kind.ROUND_EXPIRED: (lazy("Nobody answered a question in time"), lazy("Nobody answered some questions in time")),
    Kind.UNKNOWN_OPENED: (
        lazy("An outcome is unknown and needs a person"),
        lazy("Outcomes are unknown and need a person"),
    ),
    Kind.CLOCK_10: (lazy("Unknown for ten minutes"), lazy("Unknown for ten minutes")),
    Kind.CLOCK_15: (lazy("Unknown for fifteen minutes: over the limit"), lazy("Unknown for fifteen minutes")),
    Kind.CANCEL_UNCONFIRMED: (lazy("A cancel is not confirmed"), lazy("Cancels are not confirmed")),
    Kind.INCIDENT: (lazy("An incident at a server"), lazy("Incidents at servers")),
}
"""What one and what several are called."""


def words(parcel: Parcel) -> Message:
    """Say what happened, in the language of the way, and lead to the page about it; several lead to their list."""
    with translation.override(parcel.route.language):
        return _words(parcel)


def _words(parcel: Parcel) -> Message:
    one, several = KINDS[parcel.kind]
    count = len(parcel.items)
    first = parcel.items[0]
    title = str(one) if count == 1 else f"{several} ({count})"
    where = " · ".join(part for part in (first.server_title, first.tool_title if count == 1 else "") if part)
    lines = [_line(item) for item in parcel.items[:LISTED]]
    if count > LISTED:
        rest = count - LISTED
        lines.append(ngettext("and %(n)d more", "and %(n)d more", rest) % {"n": rest})
    return Message(
        subject=f"[Longcall] {title}{f': {where}' if where else ''}",
        text="\n".join(lines),
        link=link(_page(parcel.kind, first) if count == 1 else _list(parcel.kind)),
        source=settings.ORIGIN or "longcall",
    )


def trial(route: Route) -> tuple[Parcel, Message]:
    """Return what the test button sends, in the language of the way."""
    with translation.override(route.language):
        return _trial(route)


def _trial(route: Route) -> tuple[Parcel, Message]:
    item = Item(
        delivery=0,
        key=f"test:{uuid.uuid4()}",
        at=datetime.now(ZoneInfo("UTC")),
        operation=None,
        server="",
        server_title="",
        tool_title="",
        facts={},
    )
    message = Message(
        subject=f"[Longcall] {_('A test of this way')}",
        text=_("Somebody pressed the test button. Nothing has happened and nothing has to be done."),
        link=link(reverse("team", args=[route.team])),
        source=settings.ORIGIN or "longcall",
    )
    return Parcel(route=route, kind=Kind.INCIDENT, items=(item,)), message


def link(path: str) -> str:
    """Return a whole address. Without LONGCALL_ORIGIN nobody knows where people reach us, and the path has to do."""
    return f"{settings.ORIGIN}{path}"


def _line(item: Item) -> str:
    parts = [item.tool_title, item.server_title]
    if "round" in item.facts:
        parts.append(_("round %(n)s") % {"n": item.facts["round"]})
    if "until" in item.facts:
        until = datetime.fromisoformat(item.facts["until"]).astimezone(ZoneInfo("UTC"))
        parts.append(_("until %(time)s UTC") % {"time": f"{until:%Y-%m-%d %H:%M}"})
    if item.operation:
        parts.append(item.operation[:8])
    return "- " + ", ".join(part for part in parts if part)


def _page(kind: Kind, item: Item) -> str:
    if kind is Kind.INCIDENT and item.key.startswith("incident:"):
        return reverse("reconcile_incident", args=[item.key.removeprefix("incident:")])
    if item.operation is None:
        return _list(kind)
    match kind:
        case Kind.ROUND_OPENED | Kind.DEADLINE_NEAR | Kind.ROUND_EXPIRED:
            return reverse("round", args=[item.operation, item.facts["round"]])
        case Kind.CANCEL_UNCONFIRMED:
            return reverse("operation", args=[item.operation])
        case _:
            return reverse("reconcile_item", args=[item.operation])


def _list(kind: Kind) -> str:
    match kind:
        case Kind.ROUND_OPENED | Kind.DEADLINE_NEAR | Kind.ROUND_EXPIRED:
            return reverse("approvals")
        case Kind.CANCEL_UNCONFIRMED:
            return reverse("operations") + "?view=open&state=CANCEL_REQUESTED"
        case _:
            return reverse("reconcile")
