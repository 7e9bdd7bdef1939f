"""The table that the bench prints: a line for each thing measured, with its target and what it rests on."""

import re
import statistics
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """One measured thing. `target` is a floor or a ceiling; None: it is shown, and judged by nobody."""

    name: str
    what: str
    values: tuple
    target: str = ""
    floor: float | None = None
    ceiling: float | None = None
    is_wish: bool = False
    """A moonshot: missing it is told and breaks nothing."""
    note: str = ""

    @property
    def value(self):
        return statistics.median(self.values)

    @property
    def is_met(self):
        over = self.ceiling is not None and self.value > self.ceiling
        return not (over or (self.floor is not None and self.value < self.floor))

    @property
    def verdict(self):
        if self.floor is None and self.ceiling is None:
            return ""
        return "met" if self.is_met else "wish" if self.is_wish else "MISSED"


_OF_TARGET = re.compile(r"[TG]\d+").fullmatch


def shown(number):
    if number == 0:
        return "0"
    size = abs(number)
    return f"{number:,.0f}" if size >= 100 else f"{number:.1f}" if size >= 10 else f"{number:.2f}"


def rows(lines):
    """The table's cells: what is measured, the median, its spread, the target, the verdict."""
    yield ("what", "median", "least - most", "target", "")
    for line in lines:
        spread = f"{shown(min(line.values))} - {shown(max(line.values))}" if len(line.values) > 1 else ""
        yield (f"{line.name}  {line.what}", shown(line.value), spread, line.target, line.verdict)


def text(lines):
    cells = list(rows(lines))
    widths = [max(len(row[column]) for row in cells) for column in range(5)]
    drawn = [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    notes = [f"{line.name}: {line.note}" for line in lines if line.note]
    return "\n".join([drawn[0], "-" * sum(widths), *drawn[1:], *(["", *notes] if notes else [])])


def markdown(lines):
    """What belongs to a target or a gate, as a table for the README."""
    yield "| what | median | least - most | target | |"
    yield "|---|--:|--:|--:|---|"
    for line, cells in zip(lines, list(rows(lines))[1:], strict=True):
        if _OF_TARGET(line.name):
            yield f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
