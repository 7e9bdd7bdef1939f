"""Two statements for each way to write, and a row is the same whichever wrote it."""

import uuid
from datetime import UTC, datetime, timedelta, timezone

import pytest

from operations.ledger.journey import together
from operations.ledger.writes import change, changed, columns, insertion
from operations.machine import State

WORDS = ["", "NULL", "a,b", "{x}", 'say "no"', "back\\slash", "line\nbreak", "ü 语 %s", " ", "\\x00", None]


@pytest.fixture
def line(committed):
    """Give back what PostgreSQL reads in an array."""

    def read(kind, values):
        (array,) = columns([[value] for value in values])
        (rows,) = together([(f"SELECT value FROM unnest(%s::{kind}[]) value", [array])])
        return [value for (value,) in rows]

    return read


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("text", WORDS),
        ("text", [State.ACCEPTED, State.UNKNOWN]),
        ("bytea", [b"", b'\0\\"\xff', None]),
        ("uuid", [uuid.UUID(int=7), None]),
        ("bigint", [0, -1, 2**40, None]),
        ("boolean", [True, False, None]),
        (
            "timestamptz",
            [
                datetime(2026, 11, 30, 8, 20, 1, 5, tzinfo=UTC),
                datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=8))),
            ],
        ),
    ],
)
def test_an_array_gives_each_value_as_it_was(line, kind, values):
    assert line(kind, values) == values


def test_arrays_inside_need_not_be_as_long_as_their_neighbours(line):
    (rows,) = together([("SELECT value::int[] FROM unnest(%s::text[]) value", columns([[[]], [[1, 2]]]))])

    assert rows == [([],), ([1, 2],)]


def test_both_statements_name_the_same_columns():
    written = insertion("journal", at="timestamptz", evidence_seqs="int[]")

    assert written.one == "INSERT INTO journal (at, evidence_seqs) VALUES (%s, %s)"
    assert written.many == (
        "INSERT INTO journal (at, evidence_seqs) SELECT many.at::timestamptz, many.evidence_seqs::int[]"
        " FROM unnest(%s::timestamptz[], %s::text[]) AS many(at, evidence_seqs)"
    )


def test_a_change_of_one_row_is_what_a_step_writes():
    assert change("operation", state="text", look="bigint").one == changed("operation", ["state", "look"])
