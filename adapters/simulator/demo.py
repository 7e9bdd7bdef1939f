"""The tool servers of the demo: six small services that a person understands at once, over all three contracts."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from adapters.contract import Json
from adapters.simulator import aip151_scenario
from adapters.simulator.aip151 import OperationsServer
from adapters.simulator.core import ToolServer
from adapters.simulator.engine import Engine
from adapters.simulator.modern import ModernToolServer
from adapters.simulator.scenario import Fault, FaultKind, Scenario
from adapters.simulator.scripts import Answer, Ask, Effect, Finish, Running, Tool, Work


def servers(*, speed: float, clock: Callable[[], float], chance: random.Random) -> dict[str, Engine]:
    """Build the MCP servers, keyed by the path they answer on. `speed` 30 turns a minute's work into two seconds."""
    found: dict[str, Engine] = {
        path: ToolServer(scenario, clock=clock, chance=chance) for path, scenario in _scenarios(speed).items()
    }
    imports = Scenario(name="imports", tools=(CUSTOMER_IMPORT,), speed=speed, poll_ms=_poll_ms(speed))
    return found | {"/imports/mcp": ModernToolServer(imports, clock=clock, chance=chance)}


def operations(*, speed: float, clock: Callable[[], float], chance: random.Random) -> dict[str, OperationsServer]:
    """Build the AIP-151 servers, keyed by the prefix they answer under."""
    every_other = aip151_scenario.Fault(
        on="submit", kind=aip151_scenario.FaultKind.ANSWER_LOST, times=1_000_000, every=2
    )
    archive = aip151_scenario.Scenario(name="archive", tools=(YEAR_ARCHIVE,), speed=speed, faults=(every_other,))
    return {"/archive/v1": OperationsServer(archive, clock=clock, chance=chance)}


def _poll_ms(speed: float) -> int:
    return max(100, round(2000 / speed))


def _scenarios(speed: float) -> dict[str, Scenario]:
    poll_ms = _poll_ms(speed)
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


# Imports ------------------------------------------------------------------------------------------

_LIST_FORM: dict[str, Json] = {
    "type": "object",
    "properties": {
        "list": {
            "type": "string",
            "title": "List",
            "oneOf": [
                {"const": "newsletter", "title": "Newsletter"},
                {"const": "customers", "title": "Customers"},
                {"const": "trial", "title": "On trial"},
            ],
        }
    },
    "required": ["list"],
}

_DOUBLES_FORM: dict[str, Json] = {
    "type": "object",
    "properties": {"update": {"type": "boolean", "title": "Overwrite what is there", "default": False}},
    "required": ["update"],
}


def _customer_import(arguments: Mapping[str, Json]) -> Running:
    file = _text(arguments, "file", "fair-2026.csv")
    yield Work(seconds=6, message=f"Reading {file}")
    first = yield Ask(
        message="1,204 customers are new. Which list do they join?",
        schema=_LIST_FORM,
        also=(Ask(message="18 customers are known already. Overwrite them?", schema=_DOUBLES_FORM),),
    )
    if not _accepted(first) or first is None:
        return Finish(text="Nobody was imported.", structured={"new": 0, "updated": 0})
    doubles = first.others[0]
    updated = 18 if _accepted(doubles) and doubles.content.get("update") is True else 0
    yield Work(seconds=15, message=f"Writing {1204 + updated} customers")
    yield Effect(name=f"{1204 + updated} customers written")
    return Finish(text=f"1204 new, {updated} updated.", structured={"new": 1204, "updated": updated})


CUSTOMER_IMPORT = Tool(
    name="customer_import",
    title="Customer import",
    description="Reads a file of customers. Asks two things at once before it writes any.",
    script=_customer_import,
    input_schema={
        "type": "object",
        "properties": {"file": {"type": "string", "title": "File", "default": "fair-2026.csv"}},
    },
    output_schema={
        "type": "object",
        "properties": {"new": {"type": "integer", "minimum": 0}, "updated": {"type": "integer", "minimum": 0}},
        "required": ["new", "updated"],
    },
)


# Archive ------------------------------------------------------------------------------------------


def _year_archive(arguments: Mapping[str, Json]) -> Running:
    year = arguments.get("year", 2019)
    for month in range(1, 13):
        yield Work(seconds=3, message=f"Packing {year}-{month:02}")
    yield Effect(name=f"{year} archived")
    return Finish(text="", structured={"archive": f"archives/{year}.tar", "documents": 48_113})


YEAR_ARCHIVE = Tool(
    name="projects/demo/years:archive",
    title="Archive a year",
    description="Packs the documents of one year. Every other answer to a call of it is lost on its way.",
    script=_year_archive,
    input_schema={
        "type": "object",
        "properties": {"year": {"type": "integer", "title": "Year", "minimum": 2000, "maximum": 2025, "default": 2019}},
    },
    output_schema={
        "type": "object",
        "properties": {"archive": {"type": "string"}, "documents": {"type": "integer", "minimum": 0}},
        "required": ["archive", "documents"],
    },
)


def _text(arguments: Mapping[str, Json], name: str, otherwise: str) -> str:
    value = arguments.get(name)
    return value if isinstance(value, str) else otherwise
