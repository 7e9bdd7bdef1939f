"""Connections to PostgreSQL that break when they are told to, at the very place where they would.

Every party has a connection of its own, put in the place of Django's for the time of one step. The
faults act below Django: everything above meets the errors that it meets in life. The session at the
server is rolled back, as it would be, and then taken again for the next connection: to open ten
thousand of them would cost more than the runs.
"""

import asyncio
from copy import deepcopy
from functools import partial

from django.db import OperationalError, connections
from psycopg.pq import TransactionStatus

from operations.engine import _with_connection
from tests.interleave import cores
from tests.interleave.prepared import SESSION, Statements, writes


class Killed(BaseException):
    """The process ends here, with nothing cleaned up."""


class Plan:
    """What befalls the `at`-th transaction of one step that may write. `act` runs before it begins, for ACTS."""

    def __init__(self, fault, at=1, act=None):
        self.fault = fault
        self.at = at
        self.act = act
        self.fired = False


LOST_BEFORE = "connection lost before COMMIT"
LOST_AFTER = "connection lost after COMMIT"
KILLED_BEFORE = "killed before COMMIT"
KILLED_AFTER = "killed after COMMIT"
ACTS = "somebody acts between two transactions"


class Line:
    """One party's connection."""

    def __init__(self):
        self._wrapper = wrapper = connections.create_connection("default")
        wrapper.line = self
        wrapper.settings_dict = settings = deepcopy(wrapper.settings_dict)
        settings["OPTIONS"]["options"] = " ".join(f"-c {name}={value}" for name, value in SESSION.items())
        self._statements = Statements(wrapper)
        wrapper.cursor = self._statements.cursor
        wrapper._commit = self._faulty_commit
        wrapper._rollback = self._statements.roll_back_or_fail
        wrapper._set_autocommit = self._faulty_begin
        self._session = None
        self._connect, wrapper.get_new_connection = wrapper.get_new_connection, self._take_session
        wrapper._close = self._statements.mend
        self._ensure, wrapper.ensure_connection = wrapper.ensure_connection, self._ensure_connection
        self._plan = None
        self._number = 0
        self._is_dead = False
        self._commits = 0

    def run(self, function, /, *args, plan=None, **named):
        """Run a ledger function as a worker does; `plan` says what breaks."""
        self._plan, self._number, self._is_dead = plan, 0, False
        try:
            return self.do(_with_connection, function, *args, **named)
        finally:
            self._plan = None
            self._is_dead = False

    def send(self, statements, *, ends=False):
        """Run several statements in one packet, in this connection; return the rows of each."""
        return self._statements.together(statements, ends=ends)

    def together(self, statements):
        """Do as `send` does, from outside of any step."""
        return self.do(self.send, statements)

    def ask(self, sql, params=()):
        """Read without any fault."""
        return self.do(self._ask, sql, params)

    def do(self, function, /, *args, **named):
        """Run without any fault, in this connection."""
        # A step is synchronous, as it is in a worker's thread: Django must not see the loop around it.
        loop = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        before = connections["default"]
        connections["default"] = self._wrapper
        try:
            return function(*args, **named)
        finally:
            connections["default"] = before
            asyncio._set_running_loop(loop)

    def cut(self):
        """Break the connection; whoever uses it next learns of it."""
        self._statements.cut()

    def mend(self):
        """Be connected: no run may meet what an earlier one broke, nor miss what it would break."""
        if self._statements.is_cut:
            self._wrapper.close()
        self.do(self._wrapper.ensure_connection)

    def close(self):
        self._wrapper.close()
        if self._session is not None:
            self._session.close()

    def _ensure_connection(self):
        # Before anything of a step is done: Django asks for the connection first.
        if self._statements.is_cut:
            raise OperationalError("the connection is lost")
        self._ensure()

    def _take_session(self, params):
        if self._session is None:
            self._session = self._connect(params)
            cores.share(self._session)
        return self._session

    def _ask(self, sql, params):
        with self._wrapper.cursor() as cursor:
            cursor.execute(sql, params)
            return cursor.fetchall() if cursor.description else None

    def _faulty_begin(self, autocommit):
        if not autocommit:
            self._let_act()
        self._statements.set_autocommit(autocommit)

    def _let_act(self):
        plan = self._plan
        if plan is not None and plan.fault == ACTS and self._number + 1 == plan.at:
            plan.fired, plan.at = True, 0
            plan.act()

    def _faulty_commit(self):
        self._commit(self._statements.commit)

    @property
    def writes(self):
        """How many transactions were committed that may have written."""
        return self._commits + self._statements.writes

    @property
    def is_idle(self):
        """Whether no transaction is open, so that a statement is one of its own."""
        session = self._session
        return session.autocommit and session.pgconn.transaction_status == TransactionStatus.IDLE

    def alone(self, statement):
        """Run a statement that is a transaction of its own, and breaks as one does."""
        self._let_act()
        return self._commit(statement)

    def _commit(self, commit):
        if self._is_dead:
            self._die()
        self._number += 1
        self._commits += 1
        plan = self._plan
        if plan is None or plan.at != self._number or plan.fault == ACTS:
            return commit()
        plan.fired = True
        if plan.fault in {LOST_AFTER, KILLED_AFTER}:
            commit()
        if plan.fault in {KILLED_BEFORE, KILLED_AFTER}:
            self._is_dead = True
            self._die()
        # The server notices a lost client in its own time, and its locks last until then: SKIP LOCKED would see it.
        self.cut()
        raise OperationalError(plan.fault)

    def _die(self):
        # What a dead process leaves behind: its open transaction is rolled back by the server.
        self._statements.roll_back()
        raise Killed


def overheard(together):
    """Stand for the ledger's `together`: on a line its statements are run, and break, as all others do.

    Outside of Django's transactions they are one of their own; inside, the COMMIT is Django's.
    """

    def heard(statements, *, ends=False, **news):
        line = getattr(connections["default"], "line", None)
        if line is None:
            return together(statements, ends=ends, **news)
        run = partial(line.send, statements, ends=ends)
        return line.alone(run) if line.is_idle and any(writes(sql) for sql, _ in statements) else run()

    return heard
