"""Statements that PostgreSQL plans once for each connection, however often a harness runs them.

Ten thousand runs send the same three hundred statements some million times. Django's own cursor has
every one of them parsed and planned anew, which costs more than running it, and spends as much again
above libpq. This one keeps to libpq's prepared statements, and sends BEGIN together with the statement
that follows it. The text of every statement stays what the product wrote. What the ledger sends below
Django's cursor (`operations.ledger.journey`) it prepares itself.
"""

import re
from functools import cache

import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus, TransactionStatus

SESSION = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",  # a plan made while the tables are empty must serve when they are full
    "synchronous_commit": "off",
    "jit": "off",
}
_BAD = frozenset({ExecStatus.FATAL_ERROR, ExecStatus.BAD_RESPONSE, ExecStatus.PIPELINE_ABORTED})


class Statements:
    """Every statement of one connection, and its transaction."""

    def __init__(self, wrapper):
        self._wrapper = wrapper
        self._connection = None
        self._known = {}
        self.is_cut = False

    def cursor(self):
        """Stand for the `cursor` of Django's connection."""
        wrapper = self._wrapper
        if wrapper.connection is None:
            wrapper.ensure_connection()
        if wrapper.connection is not self._connection:
            self._connection, self._known = wrapper.connection, {}
            self._pg = self._connection.pgconn
            self._values = Transformer(self._connection)
        return Cursor(self, self._values)

    def set_autocommit(self, autocommit):
        """Stand for Django's `_set_autocommit`: BEGIN goes with the first statement."""
        with self._wrapper.wrap_database_errors:
            self._alive(self._wrapper.connection.pgconn)
            self._wrapper.connection.autocommit = autocommit

    def commit(self):
        """Stand for Django's `_commit`."""
        with self._wrapper.wrap_database_errors:
            pg = self._wrapper.connection.pgconn
            self._alive(pg)
            if pg.transaction_status != TransactionStatus.IDLE:
                self._checked(pg, pg.exec_(b"COMMIT"))

    def roll_back(self):
        """End the transaction at the server, if there is one."""
        connection = self._wrapper.connection or self._connection
        if connection is not None and connection.pgconn.transaction_status != TransactionStatus.IDLE:
            connection.pgconn.exec_(b"ROLLBACK")

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

    def run(self, sql, params):
        """Run one statement; return libpq's result. Raises Django's errors."""
        with self._wrapper.wrap_database_errors:
            pg = self._pg
            self._alive(pg)
            begin = not self._connection.autocommit and pg.transaction_status == TransactionStatus.IDLE
            if params is None:
                if begin:
                    self._checked(pg, pg.exec_(b"BEGIN"))
                return self._checked(pg, pg.exec_(sql.encode()))
            taken, result = 0, None
            for text, count, names in _commands(sql):
                given = params[taken : taken + count] if names is None else [params[name] for name in names]
                taken, result = taken + count, self._run_one(pg, text, given, begin=begin)
                begin = False
            return result

    def _run_one(self, pg, text, given, *, begin):
        values = self._values.dump_sequence(given, [PyFormat.TEXT] * len(given))
        name = self._name(pg, text, tuple(self._values.types or ()))
        if begin:
            return self._together(pg, [(name, values)], first=b"BEGIN")
        return self._checked(pg, pg.exec_prepared(name, values))

    def _name(self, pg, text, types):
        name = self._known.get((text, types))
        if name is None:
            name = f"s{len(self._known)}".encode()
            self._checked(pg, pg.prepare(name, text, types))
            self._known[text, types] = name
        return name

    def _together(self, pg, packet, *, first=None):
        """Send several statements in one packet; return the result of the last."""
        pg.enter_pipeline_mode()
        if first is not None:
            pg.send_query_params(first, None)
        for name, values in packet:
            pg.send_query_prepared(name, values)
        pg.pipeline_sync()
        found = list(self._found(pg))
        pg.exit_pipeline_mode()
        self._alive(pg)
        for result in found:
            last = self._checked(pg, result)
        return last

    @staticmethod
    def _found(pg):
        while pg.status != ConnStatus.BAD:
            result = pg.get_result()
            if result is not None and result.status == ExecStatus.PIPELINE_SYNC:
                return
            if result is not None:
                yield result

    def _alive(self, pg):
        if self.is_cut or pg.status == ConnStatus.BAD:
            raise psycopg.OperationalError("the connection is lost")

    def _checked(self, pg, result):
        if result.status in _BAD:
            self._alive(pg)
            raise error_from_result(result)
        return result


class Cursor:
    """As much of a cursor as Django uses. `connection`: as much of that."""

    def __init__(self, statements, values):
        self.connection = statements
        self._values = values
        self._rows = []
        self._next = 0
        self._result = None

    def execute(self, sql, params=None, **_how):
        self._result = result = self.connection.run(sql, params)
        self._next = 0
        if result is not None and result.nfields:
            self._values.set_pgresult(result, set_loaders=True)
            self._rows = self._values.load_rows(0, result.ntuples, tuple)
        else:
            self._rows = []

    @property
    def rowcount(self):
        tuples = self._result.command_tuples
        return -1 if tuples is None else tuples

    @property
    def description(self):
        return [(name.decode(),) for name in map(self._result.fname, range(self._result.nfields))] or None

    def fetchone(self):
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size=1):
        start, self._next = self._next, self._next + size
        return self._rows[start : self._next]

    def fetchall(self):
        return self.fetchmany(len(self._rows))

    def __iter__(self):
        return iter(self.fetchall())

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        return None

    def close(self):
        self._rows = []


_PLACES = re.compile(r"%(?:\((\w+)\))?[s%]")


@cache
def _commands(sql):
    """Take apart what was sent together, and write `%s` and `%(name)s` as libpq has them: $1, $2, …

    Return each command with the number of its places and their names; None: they have none.
    """
    return [_numbered(command) for command in sql.split(";") if command.strip()]


def _numbered(command):
    names, unnamed = [], iter(range(1, 1000))

    def number(found):
        if found[0] == "%%":
            return "%"
        if found[1] is None:
            return f"${next(unnamed)}"
        if found[1] not in names:
            names.append(found[1])
        return f"${names.index(found[1]) + 1}"

    text = _PLACES.sub(number, command)
    return text.encode(), next(unnamed) - 1, names or None
