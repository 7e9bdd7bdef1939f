"""What a list of operations shows, read from its address: the whole state of the page stands in the query string."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING

from django.http import QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext_lazy as _

from operations.machine import FINAL, State
from operations.queries import PAGE
from operations.queries.operations import ATTENTION, OPEN, Filter

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

VIEWS: Mapping[str, tuple[State, ...]] = MappingProxyType(
    {
        "open": OPEN,
        "attention": ATTENTION,
        "done": tuple(state for state in State if state in FINAL),
        "all": (),
    }
)
WINDOWS: Mapping[str, tuple[timedelta, _StrPromise]] = MappingProxyType(
    {
        "1h": (timedelta(hours=1), _("Last hour")),
        "24h": (timedelta(hours=24), _("Last 24 hours")),
        "7d": (timedelta(days=7), _("Last 7 days")),
        "30d": (timedelta(days=30), _("Last 30 days")),
    }
)
COLUMNS: Mapping[str, _StrPromise] = MappingProxyType(
    {
        "word": _("Server says"),
        "life": _("Life so far, and next"),
        "server": _("Server"),
        "tool": _("Tool"),
        "protocol": _("Protocol version"),
        "client": _("Client"),
        "node": _("Call node"),
        "principal": _("On whose behalf"),
        "age": _("Age"),
    }
)
USUAL = ("word", "life", "age")
NAMES = ("server", "tool", "protocol", "client", "call_node", "principal")
"""The filters that are a name."""
KEPT = ("view", "state", *NAMES, "window", "from", "to", "order", "cols")
"""What makes a list: the rest of an address is a place in its pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A list as its address asks for it."""

    view: str
    state: str
    narrow: Filter
    window: str
    since: datetime | None
    until: datetime | None
    columns: tuple[str, ...]

    @property
    def shown(self) -> tuple[State, ...]:
        """The states whose chips stand above the list."""
        return VIEWS[self.view] or tuple(State)

    @property
    def pills(self) -> int:
        """How many filters narrow it, apart from its states."""
        named = [getattr(self.narrow, name) for name in NAMES]
        return sum(map(bool, [*named, self.window, self.since, self.until]))


def read(query: QueryDict, *, now: datetime) -> Listed:
    """Read a list's address; a word it does not know is ignored."""
    view = query.get("view", "open")
    view = view if view in VIEWS else "open"
    state = query.get("state", "") if query.get("state", "") in set(State) else ""
    window = query.get("window", "") if query.get("window", "") in WINDOWS else ""
    since, until = _moment(query.get("from", "")), _moment(query.get("to", ""))
    named = {name: query.get(name, "").replace("\0", "").strip() for name in NAMES}
    narrow = Filter(
        states=(State(state),) if state else VIEWS[view],
        since=now - WINDOWS[window][0] if window else since,
        until=until,
        oldest_first=query.get("order") == "oldest",
        server=named["server"],
        tool=named["tool"],
        protocol=named["protocol"],
        client=named["client"],
        call_node=named["call_node"],
        principal=named["principal"],
    )
    columns = tuple(name for name in COLUMNS if name in query.getlist("cols")) or USUAL
    return Listed(view=view, state=state, narrow=narrow, window=window, since=since, until=until, columns=columns)


def chosen(texts: Sequence[str]) -> list[uuid.UUID]:
    """Read the ids of rows that somebody ticked, or that a page shows; at most a page of them."""
    found: list[uuid.UUID] = []
    for text in texts[:PAGE]:
        with suppress(ValueError):
            found.append(uuid.UUID(text))
    return found


def _moment(text: str) -> datetime | None:
    """Read what a field of date and time sends: without a zone, in the person's own."""
    try:
        found = parse_datetime(text)
        return timezone.make_aware(found) if found and timezone.is_naive(found) else found
    except (ValueError, OverflowError):
        return None


def address_of(query: str, key: uuid.UUID) -> str:
    """Return the address of a kept list, which names it so that the page can say where one is."""
    return f"{reverse('operations')}?{query}{'&' if query else ''}list={key}"


def kept_part(query: QueryDict) -> str:
    """Return what of an address makes the list, in one order, so that the same list has the same words."""
    kept = QueryDict(mutable=True)
    for name in KEPT:
        values = [value for value in query.getlist(name) if value]
        if values:
            kept.setlist(name, values)
    return kept.urlencode()
