"""What is due of one run, as its beat knows it. Nobody of the run sees these reads."""

from dataclasses import dataclass
from datetime import datetime

from operations import ledger
from operations.machine import State


@dataclass
class _Due:
    """One operation's row of `due`."""

    at: datetime
    lease_until: datetime | None
    urgent: bool
    look: int


class Board:
    """Reads the ledger only when somebody has written what the board cannot work out for itself."""

    def __init__(self, place, names):
        self._place = place
        self._names = names
        """The run's operations; more are learned as it goes on."""
        self._right_at = None
        """The writes of everybody, and the operations known, when it was last right."""
        self._dues = {}
        self._paused_until = None
        self._known = {
            ledger.claim: self._claimed,
            ledger.unchanged: self._looked,
            ledger.state_overdue: self._stated,
        }

    def is_right(self):
        return self._right_at == self._moment()

    def next_due(self):
        """When something is due next, or None."""
        return min(map(self._from, self._dues.values()), default=None)

    def _moment(self):
        return self._place.writes, len(self._names)

    def read(self):
        """Read it; give each operation's state, in the order of their names."""
        self._right_at = self._moment()
        rows = self._place.observer.ask(
            """SELECT o.id::text, o.state, d.due_at, d.lease_until, d.urgent, d.look, s.paused_until
            FROM operation o JOIN server s ON s.slug = o.server_id LEFT JOIN due d ON d.operation_id = o.id
            WHERE o.id = ANY(%s::uuid[])""",
            [list(self._names)],
        )
        self._dues = {operation: _Due(*due) for operation, _, *due, _ in rows if due[0] is not None}
        self._paused_until = rows[0][-1] if rows else None
        return sorted(((operation, State(state)) for operation, state, *_ in rows), key=lambda row: self._names[row[0]])

    def correct(self, function, args, given):
        """Nothing but this step was written since it was right: it need not be read again, where that is known."""
        known = self._known.get(function)
        if known is not None and known(args, given):
            self._right_at = self._moment()

    def _claimed(self, _args, works):
        for work in works:
            if due := self._dues.get(work.row.id):
                due.lease_until, due.urgent, due.look = work.lease_until, False, work.ticket.look
        return True

    def _looked(self, args, _given):
        for look in args[0]:
            due = self._dues.get(look.operation)
            if due is not None and due.look == look.look:
                due.at = min(due.at, look.next_at) if due.urgent else look.next_at
                due.lease_until = None
        return True

    def _stated(self, _args, stated):
        return not stated

    def _from(self, due):
        return max(at for at in (due.at, due.lease_until, self._paused_until) if at is not None)
