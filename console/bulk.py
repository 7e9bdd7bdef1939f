"""Batches in words, and who may have one done: what a preview says of each row, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from django.contrib.auth.models import User
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from console import access
from console.access import Deed
from operations.ledger import BatchKind

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

DEEDS: Mapping[BatchKind, Deed] = MappingProxyType(
    {
        BatchKind.CANCEL: Deed.CANCEL,
        BatchKind.LOOK: Deed.LOOK_NOW,
        BatchKind.CLAIM: Deed.RECONCILE,
        BatchKind.VERDICT: Deed.RECONCILE,
        BatchKind.CONFIRM: Deed.RECONCILE,
        BatchKind.REFUSE: Deed.RECONCILE,
    }
)
"""What a person needs to be allowed for a batch, asked again for each of its rows."""

TITLES: Mapping[BatchKind, _StrPromise] = MappingProxyType(
    {
        BatchKind.CANCEL: _("Request cancel"),
        BatchKind.LOOK: _("Look up"),
        BatchKind.CLAIM: _("Claim"),
        BatchKind.VERDICT: _("Give a verdict"),
        BatchKind.CONFIRM: _("Confirm a verdict"),
        BatchKind.REFUSE: _("Turn a verdict down"),
    }
)

STARTS: Mapping[BatchKind, _StrPromise] = MappingProxyType(
    {
        BatchKind.CANCEL: ngettext_lazy("Request cancel of %(n)d operation", "Request cancel of %(n)d operations", "n"),
        BatchKind.VERDICT: ngettext_lazy("Give this verdict on %(n)d item", "Give this verdict on %(n)d items", "n"),
    }
)
"""The words on the button that starts a preview."""

COMES_TO: Mapping[str, _StrPromise] = MappingProxyType(
    {
        "REQUESTED": _("asked of the server"),
        "INTENT": _("kept as a wish for the task that turns up"),
        "CLOSED_UNSENT": _("cancelled at once: nothing was ever sent"),
        "NO_CANCEL": _("recorded only: this server cannot cancel"),
        "LOOK": _("looked up ahead of the routine"),
        "CLAIMED": _("claimed"),
        "CARRIED_OUT": _("carried out"),
        "PROPOSED": _("proposed; a second person has to confirm it"),
        "CONFIRMED": _("confirmed and carried out"),
        "TURNED_DOWN": _("turned down"),
    }
)
"""What a row comes to: the same words before and after it."""

AGAINST: Mapping[str, _StrPromise] = MappingProxyType(
    {
        "FINISHED": _("The work has ended; this comes too late."),
        "ALREADY_REQUESTED": _("A cancel is requested already; pressing again would change nothing."),
        "NOTHING_TO_ASK": _("No task id is known and the server cannot be asked by our key."),
        "OWN_PROPOSAL": _("The person who proposed a verdict cannot confirm it."),
        "NO_LONGER_ALLOWED": _("The person who started this may not do it any more."),
    }
)

PROMISES: Mapping[str, _StrPromise] = MappingProxyType(
    {
        "INTENT": _("No task can be reached now. The wish is used as soon as one turns up; then it is asked at once."),
        "CLOSED_UNSENT": _("If still nothing was sent when its turn comes, it ends as cancelled."),
        "NO_CANCEL": _("Nothing is sent and no state changes. The wish is recorded, and looking goes on."),
    }
)
TERMINAL = _("The server's “cancelled” ends the call at once; if the work ended first, it has ended.")
COOPERATIVE = _("The server promises to take the request, not to stop. Looking goes on until it has ended.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One line of a preview: how many rows, what they come to, and what that promises."""

    count: int
    word: str
    promise: str
    against: bool = False


def in_words(code: str) -> str:
    """Say a forecast, a result or a refusal; a refusal of the ledger is in words already."""
    known = COMES_TO.get(code) or AGAINST.get(code)
    return str(known) if known else code


def promise_of(forecast: str, *, ack_is_terminal: bool) -> str:
    """Say what a contract promises of one forecast of a cancel (C2, C5)."""
    if forecast == "REQUESTED":
        return str(TERMINAL if ack_is_terminal else COOPERATIVE)
    return str(PROMISES.get(forecast, ""))


def still_may(by: str, kind: BatchKind, server: str) -> bool:
    """Whether the person of a batch may do this now. Read anew for each row: what was taken away is gone."""
    user = User.objects.filter(username=by.removeprefix("person:"), is_active=True).first()
    actor = access.actor_of(user) if user else None
    return actor is not None and actor.may(DEEDS[kind]) and actor.scope.sees(server)
