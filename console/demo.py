"""The demo: its people, its servers, its tools, and what to press first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_lazy as _

from operations.ledger import NewServer, ToolPolicy

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

CLIENT = "demo"

TEAM = "everybody"
"""The demo's one team: it looks after every server."""

PEOPLE: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "ada": ("Ada", "approver"),
        "bob": ("Bob", "approver"),
        "olga": ("Olga", "operator"),
        "otto": ("Otto", "operator"),
        "adam": ("Adam", "admin"),
        "vera": ("Vera", "viewer"),
    }
)
"""User name -> first name and role. Two approvers: one answer wins (I3). Two operators: a second person (W)."""

_SERVERS: tuple[tuple[str, str, str, str], ...] = (
    ("reports", "Reports", "2025-11-25", "mcp"),
    ("pricing", "Pricing", "2025-11-25", "mcp"),
    ("analysis", "Log analysis", "2025-11-25", "mcp"),
    ("exports", "Exports that lose their answer", "2025-11-25", "mcp"),
    ("imports", "Imports", "2026-07-28", "mcp"),
    ("archive", "Archive that honours our key", "aip-151", "v1"),
)
"""Name, title, protocol version, last part of the URL."""


def servers(*, port: int) -> tuple[NewServer, ...]:
    """Return the profiles of the demo's servers, which answer on this port of this machine."""
    return tuple(
        NewServer(
            slug=slug,
            title=title,
            url=f"http://127.0.0.1:{port}/{slug}/{last}",
            protocol=protocol,
            allow_private=True,
            max_qps=5,
            poll_floor_ms=1000,
            poll_cap_ms=10_000,
            **_HONOURS_OUR_KEY if slug == "archive" else {},
        )
        for slug, title, protocol, last in _SERVERS
    )


_HONOURS_OUR_KEY: Any = {"lookup": "same_key_replay", "key_window_s": 3600}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One button of the "try it" panel."""

    server: str
    tool: str
    title: _StrPromise
    says: _StrPromise
    arguments: str
    policy: ToolPolicy


TRIALS: tuple[Trial, ...] = (
    Trial(
        server="reports",
        tool="quarterly_report",
        title=_("A report that takes a minute"),
        says=_("Works for about a minute and changes nothing. Watch the looks, then the receipt."),
        arguments='{"quarter": "2026-Q3"}',
        policy=ToolPolicy(effect="NONE", expected_s=60, budget_s=900),
    ),
    Trial(
        server="pricing",
        tool="bulk_price_change",
        title=_("A bulk change that asks twice"),
        says=_("Asks an approver which products, then whether to go live. Answer it under Approvals."),
        arguments='{"percent": 4.5}',
        policy=ToolPolicy(effect="EXTERNAL", effect_on_error=True, expected_s=60, budget_s=3600, answer_within_s=900),
    ),
    Trial(
        server="analysis",
        tool="log_analysis",
        title=_("An analysis that can be cancelled"),
        says=_("Takes about four minutes. Ask for a cancel as an operator and see what the server makes of it."),
        arguments='{"days": 30}',
        policy=ToolPolicy(effect="NONE", expected_s=240, budget_s=1200),
    ),
    Trial(
        server="exports",
        tool="flaky_export",
        title=_("A submit whose answer gets lost"),
        says=_("This server cannot be asked by our key. So the call is not sent twice: it goes to the desk."),
        arguments='{"table": "orders"}',
        policy=ToolPolicy(effect="EXTERNAL", expected_s=30, budget_s=600),
    ),
    Trial(
        server="imports",
        tool="customer_import",
        title=_("An import that asks two things at once"),
        says=_("A server of the later protocol version: two questions in one round, answered on one page."),
        arguments='{"file": "fair-2026.csv"}',
        policy=ToolPolicy(effect="EXTERNAL", expected_s=30, budget_s=3600, answer_within_s=900),
    ),
    Trial(
        server="archive",
        tool="projects/demo/years:archive",
        title=_("A lost answer that is found again"),
        says=_("Every other answer gets lost here too. But this server honours our key: the call is found by itself."),
        arguments='{"year": 2019}',
        policy=ToolPolicy(effect="EXTERNAL", expected_s=40, budget_s=900),
    ),
)


def trial(server: str, tool: str) -> Trial | None:
    """Return the button for a tool; None when the demo has none."""
    return next((found for found in TRIALS if (found.server, found.tool) == (server, tool)), None)
