"""One line of the log for one thing that happened: the words, then what belongs to it as key=value."""

from __future__ import annotations

import json
import logging

_ALWAYS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class Line(logging.Formatter):
    """Writes a record with everything that was handed in as `extra`, in the order it was named."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        """Return the line; a value with blanks or quotes in it is written as JSON."""
        more = [f"{name}={_value(value)}" for name, value in vars(record).items() if name not in _ALWAYS]
        return " ".join([super().formatMessage(record), *more])


def _value(value: object) -> str:
    text = str(value)
    return text if text.isprintable() and text and not set(text) & set(' "=') else json.dumps(text)
