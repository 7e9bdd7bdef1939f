"""Ways to write that have two statements: for one row, and for any number of rows with an array for each value.

Both are made of the same names, so that a row is the same whichever wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """`one` takes the values of a row, `many` an array of each; see `columns`."""

    one: str
    many: str


def insertion(table: str, **types: str) -> Write:
    """Insert whole rows; `types` are the columns' own, by name."""
    names = ", ".join(types)
    values = ", ".join(f"many.{name}::{of}" for name, of in types.items())
    return Write(
        one=f"INSERT INTO {table} ({names}) VALUES ({', '.join(['%s'] * len(types))})",
        many=f"INSERT INTO {table} ({names}) SELECT {values} FROM {_arrays(types)}",
    )


def change(table: str, **types: str) -> Write:
    """Change columns of rows that are found by their id, which is the last value."""
    return Write(
        one=changed(table, list(types)),
        many=f"""UPDATE {table} SET {", ".join(f"{name} = many.{name}::{of}" for name, of in types.items())}
            FROM {_arrays({**types, "id": "uuid"})} WHERE {table}.id = many.id""",
    )


def changed(table: str, names: Sequence[str]) -> str:
    """Change these columns of one row."""
    return f"UPDATE {table} SET {', '.join(f'{name} = %s' for name in names)} WHERE id = %s"


def columns(rows: Sequence[Sequence[Any]]) -> list[str]:
    """Turn the values of some rows into what `many` takes: an array for each column, as PostgreSQL reads it.

    Written here and not by psycopg's adapter, which takes a quarter of the client's time for it and gives the same
    column other types, and so another prepared statement, with every other size of its numbers.
    """
    return ["{" + ",".join(map(_element, column)) + "}" for column in zip(*rows, strict=True)]


def _arrays(types: dict[str, str]) -> str:
    taken = ", ".join(f"%s::{_travels_as(of)}[]" for of in types.values())
    return f"unnest({taken}) AS many({', '.join(types)})"


def _travels_as(of: str) -> str:
    """Arrays of arrays must be as long as their neighbours: those inside travel as text."""
    return "text" if of.endswith("[]") else of


def _element(value: Any) -> str:  # noqa: ANN401 - any value of a column
    match value:
        case None:
            return "NULL"
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case bytes():
            return '"\\\\x' + value.hex() + '"'
        case datetime():
            return f'"{value.isoformat()}"'
        case list():
            return '"{' + ",".join(map(str, value)) + '}"'
        case _:
            return str(value)
