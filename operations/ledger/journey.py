"""Several statements in one journey to PostgreSQL: what is asked under a lock, or what is written with its COMMIT.

Note [Below the cursors]
A step is seven statements, with BEGIN and COMMIT nine. One by one each is a journey and a wait; in a pipeline of
psycopg's each is still a cursor, a system call and a look around for answers. Where eight threads share an interpreter
that is what an acceptance costs: measured, the client took as long as the server. So a packet is made here from libpq's
own calls (`psycopg.pq`): values are written by psycopg's adapters, statements are prepared once a connection, and
everything leaves in one piece and is waited for once.

Note [COMMIT in the packet]
The writes of a step and its COMMIT leave together. Nothing is given up by it:

* Nobody reads what a write answers before the COMMIT is sent: what decides was read under the lock before (R3).
* If a statement fails, the server skips all that follows in the packet, COMMIT included, and the transaction can only
  be rolled back. If COMMIT itself fails (a deferred trigger), that rolls it back.
* If the connection breaks, nobody knows how far it came: as with a COMMIT by itself. Whoever sent it asks the
  journal (Note [A commit whose answer was lost] in `step`), and sends nothing again before (R9, F2).
"""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import psycopg
from django.db import connection
from psycopg.abc import PQGen
from psycopg.adapt import AdaptersMap, PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.generators import fetch_many, send
from psycopg.pq import ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.types.datetime import TimestamptzLoader

Values = Sequence[Any] | Mapping[str, Any]
Statement = tuple[str, Values]
"""SQL with `%s` or `%(name)s` for each value, and the values."""
Rows = list[tuple[Any, ...]]
KEPT = 400
"""So many prepared statements a connection keeps: all that the ledger has, each with some shapes of its values."""

_PLACES = re.compile(r"%(?:\((\w+)\))?[s%]")
_GONE = "26000"
"""invalid_sql_statement_name: what was prepared here is gone; a pool may deallocate it between two of its users."""
log = logging.getLogger(__name__)


def together(statements: Sequence[Statement], *, ends: bool = False, news: Sequence[Statement] = ()) -> list[Rows]:
    """Run them in one journey; give the rows of each. Its errors are Django's.

    Begins the transaction of the `atomic` block around it, where that has not begun. `ends`: commits it as well; then
    nothing more may follow in the block. A failure leaves everything to the block's rollback.
    `news`: said in a transaction of its own once that has committed, and only then; it may get lost.
    """
    connection.ensure_connection()
    plain: psycopg.Connection[Any] = connection.connection
    # A durable block is the outermost one, but for a test that takes everything back: there nothing is ours to commit.
    ends = ends and not connection.savepoint_ids
    with connection.wrap_database_errors, plain.lock:
        return _run(plain, statements, ends=ends, news=news if ends else ())


class _Written(NamedTuple):
    """One statement as libpq takes it."""

    text: bytes
    types: tuple[int, ...]
    values: Sequence[Any]
    formats: Sequence[Format]


class Adapting:
    """As much of a context as psycopg's adapters need: Django's own, but for the times.

    Times are read as psycopg reads them: Django's way costs as much as all the rest of a row, and all are UTC.
    """

    connection = None

    def __init__(self, adapters: AdaptersMap) -> None:
        self.adapters = AdaptersMap(adapters)
        self.adapters.register_loader("timestamptz", TimestamptzLoader)


class _Session:
    """What one connection has prepared, and how its values are written and read."""

    def __init__(self, adapters: AdaptersMap) -> None:
        self._values = Transformer(Adapting(adapters))
        self._names: dict[tuple[bytes, tuple[int, ...]], bytes] = {}
        self._numbers = itertools.count()

    def write(self, statement: Statement) -> _Written:
        """Raises psycopg's errors for values that no adapter takes."""
        sql, given = statement
        text, _, names = numbered(sql)
        params = [given[name] for name in names] if isinstance(given, Mapping) else given
        values = self._values.dump_sequence(params, [PyFormat.AUTO] * len(params))
        return _Written(text, tuple(self._values.types or ()), values, self._values.formats or ())

    def send(self, pg: PGconn, written: _Written) -> int:
        """Send one statement, prepared before if it is new; return how many answers that brings."""
        known = (written.text, written.types)
        name, answers = self._names.pop(known, None), 1
        if name is None:
            name, answers = b"journey_%d" % next(self._numbers), 2
            pg.send_prepare(name, written.text, written.types)
        self._names[known] = name  # again the newest
        pg.send_query_prepared(name, written.values, written.formats)
        return answers

    def shed(self) -> list[bytes]:
        """Forget what was used longest ago; return the statements by which the server forgets it, too."""
        oldest = list(self._names)[: max(0, len(self._names) - KEPT)]
        return [b"DEALLOCATE " + self._names.pop(known) for known in oldest]

    def forget(self, packet: Sequence[_Written]) -> None:
        """Know nothing of them any more: after a failure nobody can say which of them were prepared."""
        for written in packet:
            self._names.pop((written.text, written.types), None)

    def read(self, result: PGresult) -> Rows:
        """Make rows of an answer."""
        if not result.ntuples:
            return []
        self._values.set_pgresult(result)
        return self._values.load_rows(0, result.ntuples, tuple)


_SESSIONS: WeakKeyDictionary[psycopg.Connection[Any], _Session] = WeakKeyDictionary()


def _session_of(plain: psycopg.Connection[Any]) -> _Session:
    session = _SESSIONS.get(plain)
    if session is None:
        session = _SESSIONS[plain] = _Session(plain.adapters)
    return session


def _run(
    plain: psycopg.Connection[Any], statements: Sequence[Statement], *, ends: bool, news: Sequence[Statement]
) -> list[Rows]:
    pg, session = plain.pgconn, _session_of(plain)
    # What cannot be written is not half sent.
    packet, behind = ([session.write(statement) for statement in part] for part in (statements, news))
    begins = not plain.autocommit and pg.transaction_status == TransactionStatus.IDLE
    pg.enter_pipeline_mode()
    try:
        places, sent = [], _send_plain(pg, [b"BEGIN"] if begins else [])
        for written in packet:
            sent += session.send(pg, written)
            places.append(sent - 1)
        sent += _send_plain(pg, [*session.shed(), *([b"COMMIT"] if ends else [])])
        for written in behind:
            session.send(pg, written)
        pg.pipeline_sync()
        results = plain.wait(_answers(pg))
        pg.exit_pipeline_mode()
    except BaseException:
        plain.close()  # what was half sent, or half heard, is no connection for anybody else
        raise
    failed = next((at for at, result in enumerate(results) if result.status == ExecStatus.FATAL_ERROR), None)
    if failed is not None:
        session.forget([*packet, *behind])
        error = error_from_result(results[failed])
        if error.sqlstate == _GONE:
            del _SESSIONS[plain]
            raise psycopg.OperationalError("what was prepared on this connection is gone") from error
        if failed < sent:
            raise error
        log.warning("announcement lost", extra={"why": results[failed].get_error_message()})
    return [session.read(results[place]) for place in places]


def _send_plain(pg: PGconn, texts: Sequence[bytes]) -> int:
    for text in texts:
        pg.send_query_params(text, None)
    return len(texts)


def _answers(pg: PGconn) -> PQGen[list[PGresult]]:
    """Wait until everything is sent and everything is answered. Raises OperationalError when the connection is lost."""
    yield from send(pg)
    results: list[PGresult] = []
    while True:
        answer = yield from fetch_many(pg)
        if not answer:
            raise psycopg.OperationalError("the connection was lost on a journey")
        if answer[0].status == ExecStatus.PIPELINE_SYNC:
            return results
        results += answer


@lru_cache(maxsize=1024)
def numbered(sql: str) -> tuple[bytes, int, tuple[str, ...]]:
    """Write the places of the values as PostgreSQL has them: $1, $2, …

    Gives how many have no name, and the names of all others, in that order.
    """
    numbers, names = itertools.count(1), list[str]()

    def number(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return "%"
        if found[1] is None:
            return f"${next(numbers)}"
        if found[1] not in names:
            names.append(found[1])
        return f"${names.index(found[1]) + 1}"

    text = _PLACES.sub(number, sql).encode()
    return text, next(numbers) - 1, tuple(names)
