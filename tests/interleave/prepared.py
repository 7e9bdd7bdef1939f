"""Statements that PostgreSQL plans once for each connection, however often a harness runs them.

Ten thousand runs send the same three hundred statements some million times. Django's own cursor has
every one of them parsed and planned anew, which costs more than running it, and spends as much again
above libpq. This one keeps to libpq's prepared statements, and to few packets: BEGIN goes with the statement
that follows it, and a write from which nobody has read anything yet with what follows in its transaction,
at the latest with COMMIT. What it breaks is told then, too: before anything is committed, as in life. The text
of every statement stays what the product wrote. What the ledger sends below Django's cursor comes here, too.
"""

import re
from functools import cache

import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus, TransactionStatus

from operations.ledger.journey import Adapting, numbered

SESSION = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",  # a plan made while the tables are empty must serve when they are full
    "synchronous_commit": "off",
    "jit": "off",
}
_BEGIN, _COMMIT = b"BEGIN", b"COMMIT"
_BAD = frozenset({ExecStatus.FATAL_ERROR, ExecStatus.BAD_RESPONSE, ExecStatus.PIPELINE_ABORTED})


class Statements:
    """Every statement of one connection, and its transaction."""

    def __init__(self, wrapper):
        self._wrapper = wrapper
        self._connection = None
        self._known = {}
        self._waiting = []
        """What the next packet brings: (name, values, cursor)."""
        self.is_cut = False
        self.writes = 0
        """How many statements have written that were transactions of their own."""

    def cursor(self):
        """Stand for the `cursor` of Django's connection."""
        wrapper = self._wrapper
        if wrapper.connection is None:
            wrapper.ensure_connection()
        if wrapper.connection is not self._connection:
            self._connection, self._known = wrapper.connection, {}
            self._pg = self._connection.pgconn
            self._values = Transformer(Adapting(self._connection.adapters))
        return Cursor(self, self._values)

    def set_autocommit(self, autocommit):
        """Stand for Django's `_set_autocommit`: BEGIN goes with the first statement."""
        with self._wrapper.wrap_database_errors:
            session = self._wrapper.connection
            self._alive(session.pgconn)
            session._autocommit = autocommit  # its own setter asks whether BEGIN was sent: here nobody else sends it

    def commit(self):
        """Stand for Django's `_commit`."""
        with self._wrapper.wrap_database_errors:
            pg = self._wrapper.connection.pgconn
            self._alive(pg)
            if self._waiting or pg.transaction_status != TransactionStatus.IDLE:
                self._add(_COMMIT, (), (), None)
                self._send()

    def roll_back(self):
        """End the transaction at the server, if there is one."""
        self._waiting = []
        if self._connection is not None and self._pg.transaction_status != TransactionStatus.IDLE:
            self._pg.exec_(b"ROLLBACK")

    def roll_back_or_fail(self):
        """Stand for Django's `_rollback`."""
        with self._wrapper.wrap_database_errors:
            self._alive(self._wrapper.connection.pgconn)
            self.roll_back()

    def cut(self):
        """Be lost, as far as the client can tell."""
        if self._wrapper.connection is not None:
            self.roll_back()
            self.is_cut = True

    def mend(self):
        """Stand for Django's `_close`: the next connection is whole."""
        self.roll_back()
        self.is_cut = False

    def run(self, cursor, sql, params):
        """Run one statement for a cursor, or have it wait for the next packet. Raises Django's errors."""
        with self._wrapper.wrap_database_errors:
            self._alive(self._pg)
            if params is None:
                self.send()
                self._begin()
                self._send()
                return self._checked(self._pg.exec_(sql.encode()))
            can_wait = self._write(cursor, sql, params)
            if not can_wait or self._connection.autocommit:
                self._send()
            self.writes += self._connection.autocommit and writes(sql)
            return None

    def together(self, statements, *, ends=False):
        """Stand for the ledger's `together`: the rows of each statement. The COMMIT is left to Django, and may bring
        the statements with it that are its last."""
        cursors, can_wait = [], True
        self.cursor()  # there may be a new session
        with self._wrapper.wrap_database_errors:
            self._alive(self._pg)
            for sql, params in statements:
                cursors.append(cursor := Cursor(self, self._values))
                can_wait = self._write(cursor, sql, params) and can_wait
            if self._connection.autocommit or not (ends or can_wait):
                self._send()
                return [cursor.fetchall() for cursor in cursors]
        return [[] for _ in cursors]

    def send(self):
        """Send what waits. Raises Django's errors."""
        if self._waiting:
            with self._wrapper.wrap_database_errors:
                self._alive(self._pg)
                self._send()

    def _write(self, cursor, sql, params):
        """Put a statement into the next packet; return whether that can wait."""
        self._begin()
        commands, can_wait = _commands(sql)
        taken, values = 0, self._values
        for text, count, names in commands:
            given = [params[name] for name in names] if names else params[taken : taken + count]
            taken += count
            given = [_worded(value) if type(value) is list else value for value in given]
            written = values.dump_sequence(given, [PyFormat.TEXT] * len(given))
            self._add(text, tuple(values.types or ()), written, cursor)
        return can_wait

    def _begin(self):
        """Begin a transaction with the next packet, if one is wanted and there is none."""
        begun = self._waiting or self._connection.autocommit or self._pg.transaction_status != TransactionStatus.IDLE
        if not begun:
            self._add(_BEGIN, (), (), None)

    def _add(self, text, types, values, cursor):
        name = self._known.get((text, types))
        if name is None:
            name = f"s{len(self._known)}".encode()
            self._checked(self._pg.prepare(name, text, types))
            self._known[text, types] = name
        self._waiting.append((name, values, cursor))

    def _send(self):
        packet, self._waiting = self._waiting, []
        if len(packet) < 2:
            for name, values, cursor in packet:
                result = self._checked(self._pg.exec_prepared(name, values))
                if cursor is not None:
                    cursor.result = result
            return
        for result, (_, _, cursor) in zip(self._together(packet), packet, strict=False):
            self._checked(result)
            if cursor is not None:
                cursor.result = result
        self._alive(self._pg)

    def _together(self, packet):
        """Send several statements in one packet; return their results, as far as there are any."""
        pg, found = self._pg, []
        pg.enter_pipeline_mode()
        for name, values, _ in packet:
            pg.send_query_prepared(name, values)
        pg.pipeline_sync()
        while pg.status != ConnStatus.BAD:
            result = pg.get_result()
            if result is not None:
                if result.status == ExecStatus.PIPELINE_SYNC:
                    break
                found.append(result)
        pg.exit_pipeline_mode()
        return found

    def _alive(self, pg):
        if self.is_cut or pg.status == ConnStatus.BAD:
            raise psycopg.OperationalError("the connection is lost")

    def _checked(self, result):
        if result.status in _BAD:
            self._alive(self._pg)
            raise error_from_result(result)
        return result


_PLAIN = re.compile(r"[0-9a-f-]{36}(?:,[0-9a-f-]{36})*|[0-9]+(?:,[0-9]+)*").fullmatch


def _worded(several):
    """Write a list of ids or numbers as PostgreSQL does; others are left to psycopg, which takes ten times as long."""
    words = ",".join(map(str, several))
    return f"{{{words}}}" if not several or _PLAIN(words) else several


class Cursor:
    """As much of a cursor as Django uses."""

    def __init__(self, statements, values):
        self._statements = statements
        self._values = values
        self._rows = None
        self._next = 0
        self.result = None

    def execute(self, sql, params=None, **_how):
        self.result = self._rows = None
        self._next = 0
        result = self._statements.run(self, sql, params)
        if result is not None:
            self.result = result

    def _arrived(self):
        if self.result is None:
            self._statements.send()
        return self.result

    @property
    def rowcount(self):
        tuples = self._arrived().command_tuples
        return -1 if tuples is None else tuples

    @property
    def description(self):
        result = self._arrived()
        return [(name.decode(),) for name in map(result.fname, range(result.nfields))] or None

    def fetchone(self):
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size=1):
        start, self._next = self._next, self._next + size
        return self._all()[start : self._next]

    def fetchall(self):
        rows = self._all()
        return self.fetchmany(len(rows))

    def _all(self):
        if self._rows is None:
            result = self._arrived()
            self._values.set_pgresult(result, set_loaders=True)
            self._rows = self._values.load_rows(0, result.ntuples, tuple)
        return self._rows

    def __iter__(self):
        return iter(self.fetchall())

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        return None

    def close(self):
        self._rows = []


_WRITING = re.compile(r"\s*(?:INSERT|UPDATE|DELETE)\b")
_RETURNING = re.compile(r"\bRETURNING\b")
_WRITING_SOMEWHERE = re.compile(r"\b(?:INSERT INTO|UPDATE \w+ (?:\w+ )?SET|DELETE FROM)\b")


@cache
def writes(sql):
    """Whether anything is written by it, in whatever part."""
    return _WRITING_SOMEWHERE.search(sql) is not None


@cache
def _commands(sql):
    """Take apart what was sent together, each command as `numbered` gives it.

    Return with them whether all can wait: nothing is read from them, so they may be sent with what follows in their
    transaction.
    """
    return [numbered(command) for command in sql.split(";") if command.strip()], _only_writes(sql)


def _only_writes(sql):
    return _WRITING.match(sql) is not None and _RETURNING.search(sql) is None
