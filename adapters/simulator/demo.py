"""The tool servers of the demo: four small services that a person understands at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from adapters.contract import Json
from adapters.simulator.core import ToolServer
from adapters.simulator.scenario import Fault, FaultKind, Scenario
from adapters.simulator.scripts import Answer, Ask, Effect, Finish, Running, Tool, Work


def servers(*, speed: float, clock: Callable[[], float], chance: random.Random) -> dict[str, ToolServer]:
    """Build the demo's servers, keyed by the path they answer on."""
    return {path: ToolServer(scenario, clock=clock, chance=chance) for path, scenario in scenarios(speed=speed).items()}


def scenarios(*, speed: float) -> dict[str, Scenario]:
    """Give the demo's scenarios by path. `speed` 30 turns a minute's work into two seconds."""
    poll_ms = max(100, round(2000 / speed))
    lost_answer = Fault(on="tools/call", kind=FaultKind.ANSWER_LOST, times=1_000_000)
    return {
        "/reports/mcp": Scenario(name="reports", tools=(QUARTERLY_REPORT,), speed=speed, poll_ms=poll_ms),
        "/pricing/mcp": Scenario(name="pricing", tools=(BULK_PRICE_CHANGE,), speed=speed, poll_ms=poll_ms),
        "/analysis/mcp": Scenario(name="analysis", tools=(LOG_ANALYSIS,), speed=speed, poll_ms=poll_ms),
        "/exports/mcp": Scenario(
            name="exports",
            tools=(FLAKY_EXPORT,),
            speed=speed,
            poll_ms=poll_ms,
            faults=(lost_answer,),
        ),
    }


# Reports ------------------------------------------------------------------------------------------


def _quarterly_report(arguments: Mapping[str, Json]) -> Running:
    quarter = _text(arguments, "quarter", "2026-Q3")
    regions = ("North", "East", "South", "West")
    yield Work(seconds=8, message=f"Reading the books of {quarter}")
    for number, region in enumerate(regions, start=1):
        yield Work(seconds=11, message=f"Adding up {region} ({number} of {len(regions)})")
    yield Work(seconds=8, message="Writing the report")
    totals: dict[str, Json] = {region: 182_400 + 31_750 * n for n, region in enumerate(regions)}
    return Finish(
        text=f"Report for {quarter}: {len(regions)} regions.",
        structured={"quarter": quarter, "currency": "EUR", "revenue_by_region": totals},
    )


QUARTERLY_REPORT = Tool(
    name="quarterly_report",
    title="Quarterly report",
    description="Adds up one quarter by region. Takes about a minute and changes nothing.",
    script=_quarterly_report,
    task_support="required",
    input_schema={
        "type": "object",
        "properties": {
            "quarter": {
                "type": "string",
                "title": "Quarter",
                "pattern": "^[0-9]{4}-Q[1-4]$",
                "default": "2026-Q3",
            }
        },
        "required": ["quarter"],
    },
    output_schema={
        "type": "object",
        "properties": {
            "quarter": {"type": "string"},
            "currency": {"type": "string"},
            "revenue_by_region": {
                "type": "object",
                "additionalProperties": {"type": "integer", "minimum": 0},
            },
        },
        "required": ["quarter", "currency", "revenue_by_region"],
        "additionalProperties": False,
    },
)


# Prices -------------------------------------------------------------------------------------------

_SCOPE_FORM: dict[str, Json] = {
    "type": "object",
    "properties": {
        "category": {
            "type": "string",
            "title": "Category",
            "description": "Which products change.",
            "oneOf": [
                {"const": "garden", "title": "Garden (412 products)"},
                {"const": "kitchen", "title": "Kitchen (1,038 products)"},
                {"const": "tools", "title": "Tools (267 products)"},
            ],
        },
        "max_products": {
            "type": "integer",
            "title": "At most this many products",
            "minimum": 1,
            "maximum": 2000,
            "default": 500,
        },
        "round_to_95": {
            "type": "boolean",
            "title": "Round prices to .95",
            "default": True,
        },
    },
    "required": ["category", "max_products"],
}

_CONFIRM_FORM: dict[str, Json] = {
    "type": "object",
    "properties": {"confirm": {"type": "boolean", "title": "Yes, change these prices now", "default": False}},
    "required": ["confirm"],
}

_PRODUCTS = {"garden": 412, "kitchen": 1038, "tools": 267}


def _bulk_price_change(arguments: Mapping[str, Json]) -> Running:
    percent = arguments.get("percent", 5)
    yield Work(seconds=6, message="Reading the catalogue")
    scope = yield Ask(message=f"Prices are to change by {percent} %. Which products?", schema=_SCOPE_FORM)
    if not _accepted(scope):
        return _nothing_changed("The scope was not approved.")
    count = _count(scope)
    yield Work(seconds=10, message=f"Working out {count} new prices")
    final = yield Ask(
        message=f"{count} prices are ready. They go live at once and cannot be taken back.",
        schema=_CONFIRM_FORM,
    )
    if not _accepted(final) or final is None or final.content.get("confirm") is not True:
        return _nothing_changed("The change was not confirmed.")
    yield Work(seconds=12, message="Writing prices to the shop")
    yield Effect(name=f"{count} prices changed")
    return Finish(
        text=f"{count} prices changed by {percent} %.",
        structured={"changed": count, "percent": percent},
    )


def _nothing_changed(why: str) -> Finish:
    return Finish(text=f"{why} No price was changed.", structured={"changed": 0, "percent": 0})


def _accepted(answer: Answer | None) -> bool:
    return answer is not None and answer.action == "accept"


def _count(scope: Answer | None) -> int:
    content = scope.content if scope is not None else {}
    most = content.get("max_products")
    known = _PRODUCTS.get(str(content.get("category")), 0)
    return min(known, most) if isinstance(most, int) else known


BULK_PRICE_CHANGE = Tool(
    name="bulk_price_change",
    title="Bulk price change",
    description="Changes many prices at once. Asks a person twice before anything goes live.",
    script=_bulk_price_change,
    task_support="required",
    input_schema={
        "type": "object",
        "properties": {
            "percent": {
                "type": "number",
                "title": "Change in percent",
                "minimum": -50,
                "maximum": 50,
                "default": 5,
            }
        },
        "required": ["percent"],
    },
    output_schema={
        "type": "object",
        "properties": {
            "changed": {"type": "integer", "minimum": 0},
            "percent": {"type": "number"},
        },
        "required": ["changed", "percent"],
    },
)


# Analysis -----------------------------------------------------------------------------------------


def _log_analysis(arguments: Mapping[str, Json]) -> Running:
    days = arguments.get("days", 30)
    for percent in range(0, 100, 5):
        yield Work(seconds=12, message=f"Reading {days} days of logs: {percent} %")
    return Finish(
        text="3 unusual patterns found.",
        structured={"lines": 18_234_771, "unusual": ["login burst", "slow search", "disk 3"]},
    )


LOG_ANALYSIS = Tool(
    name="log_analysis",
    title="Log analysis",
    description="Reads the logs of many days. Takes about four minutes and can be cancelled.",
    script=_log_analysis,
    input_schema={
        "type": "object",
        "properties": {
            "days": {
                "type": "integer",
                "title": "Days",
                "minimum": 1,
                "maximum": 90,
                "default": 30,
            }
        },
    },
    output_schema={
        "type": "object",
        "properties": {
            "lines": {"type": "integer"},
            "unusual": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["lines", "unusual"],
    },
)


# Exports ------------------------------------------------------------------------------------------


def _flaky_export(arguments: Mapping[str, Json]) -> Running:
    table = _text(arguments, "table", "orders")
    yield Work(seconds=20, message=f"Exporting {table}")
    yield Effect(name=f"export of {table} written")
    return Finish(text=f"Export of {table} written.")


FLAKY_EXPORT = Tool(
    name="flaky_export",
    title="Flaky export",
    description="Begins its work, but the answer that would say so never arrives.",
    script=_flaky_export,
    input_schema={
        "type": "object",
        "properties": {"table": {"type": "string", "title": "Table", "default": "orders"}},
    },
)


def _text(arguments: Mapping[str, Json], name: str, otherwise: str) -> str:
    value = arguments.get(name)
    return value if isinstance(value, str) else otherwise
