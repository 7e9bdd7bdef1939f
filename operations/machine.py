"""The life of one operation: every state, every event, every legal step (L5).

Two rules keep this file honest:

1. All knowledge of which step is legal lives here. The database's trigger, the choices of the
   model and every drawn diagram are made from `TRANSITIONS`.
2. Nothing here reads a clock, a database or a network. A step is a function of what the ledger
   holds and of what has just been learned.

Theory. An operation is a call that *somebody else* executes and may lie about. So the states say
what we may conclude, not what the server is doing (L6). Three fences keep conclusions apart that
were drawn at different times. The *execution epoch* rises when an admin rolls an adapter back:
what was begun before may finish nothing. The *cancel generation* rises when a cancel is pressed:
what was decided before is void. The *look number* rises with each claim: an older look never
overwrites a newer one (P4). A *ticket* is what an executor believed when it set out; a step under
a ticket that no longer fits raises `StaleStep`, and its evidence is kept all the same (P6).

A step that is not in the table raises `IllegalStep`. Both errors change nothing but the journal.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType


class State(enum.StrEnum):
    """Our own state of an operation. Never a protocol status (L6)."""

    SUBMITTING = "SUBMITTING"
    SUBMISSION_UNKNOWN = "SUBMISSION_UNKNOWN"
    NOT_FOUND_SAFE = "NOT_FOUND_SAFE"
    WORKING = "WORKING"
    INPUT_REQUIRED = "INPUT_REQUIRED"
    CANCEL_REQUESTED = "CANCEL_REQUESTED"
    TERMINAL_OBSERVED = "TERMINAL_OBSERVED"
    FETCHING_RESULT = "FETCHING_RESULT"
    UNKNOWN = "UNKNOWN"
    ACCEPTED = "ACCEPTED"
    CANCELLED_ACCEPTED = "CANCELLED_ACCEPTED"
    REFUSED = "REFUSED"
    RECONCILED = "RECONCILED"


class Event(enum.StrEnum):
    """What was learned, or decided by a person."""

    TASK_NAMED = "TASK_NAMED"
    """The server named a task of ours that is at work (L3)."""
    ASKED = "ASKED"
    """The server asks for input."""
    RESUMED = "RESUMED"
    """The question is gone and the task is at work again."""
    ENDED = "ENDED"
    """A terminal status, or a final answer at once."""
    ANSWER_LOST = "ANSWER_LOST"
    """A submit had its permit and brought no usable answer (L4)."""
    NOTHING_CREATED = "NOTHING_CREATED"
    """Proof that no task exists: a repairable refusal, or a lookup by the key (X2)."""
    REQUEST_REFUSED = "REQUEST_REFUSED"
    """The request itself was refused, or cannot be made (N2)."""
    RESUBMIT = "RESUBMIT"
    """Same key, same bytes, after proof (X2)."""
    CONTINUE = "CONTINUE"
    """The answered question came before a task: the next attempt under the same key."""
    CANCEL_PRESSED = "CANCEL_PRESSED"
    """A person or a call node asks to cancel a task that exists (C1)."""
    CANCEL_DUE = "CANCEL_DUE"
    """A task has turned up for which a cancel intent stands (C9)."""
    CANCEL_WON = "CANCEL_WON"
    """C2 evidence, a terminal look of `cancelled`, or proof that nothing was sent (R4)."""
    FETCH_STARTED = "FETCH_STARTED"
    RESULT_ACCEPTED = "RESULT_ACCEPTED"
    """Fetched, validated and matched on the eight facts (R3)."""
    RESULT_UNUSABLE = "RESULT_UNUSABLE"
    """It cannot be fetched, or it does not validate (R2)."""
    CONTRADICTED = "CONTRADICTED"
    """Two different terminals before acceptance (R10)."""
    NOT_FOUND = "NOT_FOUND"
    """The server no longer knows the task (X1)."""
    NO_LOOKUP = "NO_LOOKUP"
    """A lost submit that no lookup can settle (L4, class C)."""
    BUDGET_ENDED = "BUDGET_ENDED"
    """Our waiting is over; the server's work may not be (P5)."""
    ID_CLASH = "ID_CLASH"
    """One task id on two operations (P8)."""
    VERDICT = "VERDICT"
    """A person settled what no evidence could."""


_S, _E = State, Event
_TO_PERSON = {_E.BUDGET_ENDED: _S.UNKNOWN, _E.ID_CLASH: _S.UNKNOWN}

TRANSITIONS: Mapping[State, Mapping[Event, State]] = MappingProxyType(
    {
        _S.SUBMITTING: {
            _E.TASK_NAMED: _S.WORKING,
            _E.ASKED: _S.INPUT_REQUIRED,
            _E.ENDED: _S.TERMINAL_OBSERVED,
            _E.ANSWER_LOST: _S.SUBMISSION_UNKNOWN,
            _E.NOTHING_CREATED: _S.NOT_FOUND_SAFE,
            _E.REQUEST_REFUSED: _S.REFUSED,
            _E.CANCEL_WON: _S.CANCELLED_ACCEPTED,
            **_TO_PERSON,
        },
        _S.SUBMISSION_UNKNOWN: {
            _E.TASK_NAMED: _S.WORKING,
            _E.ASKED: _S.INPUT_REQUIRED,
            _E.ENDED: _S.TERMINAL_OBSERVED,
            _E.CANCEL_DUE: _S.CANCEL_REQUESTED,
            _E.NOTHING_CREATED: _S.NOT_FOUND_SAFE,
            _E.NO_LOOKUP: _S.UNKNOWN,
            **_TO_PERSON,
        },
        _S.NOT_FOUND_SAFE: {
            _E.RESUBMIT: _S.SUBMITTING,
            _E.TASK_NAMED: _S.WORKING,
            _E.CANCEL_DUE: _S.CANCEL_REQUESTED,
            _E.CANCEL_WON: _S.CANCELLED_ACCEPTED,
            _E.VERDICT: _S.RECONCILED,
            **_TO_PERSON,
        },
        _S.WORKING: {
            _E.ASKED: _S.INPUT_REQUIRED,
            _E.ENDED: _S.TERMINAL_OBSERVED,
            _E.CANCEL_PRESSED: _S.CANCEL_REQUESTED,
            _E.CANCEL_DUE: _S.CANCEL_REQUESTED,
            _E.NOT_FOUND: _S.UNKNOWN,
            **_TO_PERSON,
        },
        _S.INPUT_REQUIRED: {
            _E.RESUMED: _S.WORKING,
            _E.ENDED: _S.TERMINAL_OBSERVED,
            _E.CONTINUE: _S.SUBMITTING,
            _E.CANCEL_PRESSED: _S.CANCEL_REQUESTED,
            _E.CANCEL_DUE: _S.CANCEL_REQUESTED,
            _E.CANCEL_WON: _S.CANCELLED_ACCEPTED,
            _E.NOT_FOUND: _S.UNKNOWN,
            **_TO_PERSON,
        },
        _S.CANCEL_REQUESTED: {
            _E.CANCEL_WON: _S.CANCELLED_ACCEPTED,
            _E.ENDED: _S.TERMINAL_OBSERVED,
            _E.NOT_FOUND: _S.UNKNOWN,
            **_TO_PERSON,
        },
        _S.TERMINAL_OBSERVED: {
            _E.FETCH_STARTED: _S.FETCHING_RESULT,
            _E.CANCEL_WON: _S.CANCELLED_ACCEPTED,
            _E.CONTRADICTED: _S.UNKNOWN,
            **_TO_PERSON,
        },
        _S.FETCHING_RESULT: {
            _E.RESULT_ACCEPTED: _S.ACCEPTED,
            _E.RESULT_UNUSABLE: _S.UNKNOWN,
            _E.CONTRADICTED: _S.UNKNOWN,
            _E.NOT_FOUND: _S.UNKNOWN,
            **_TO_PERSON,
        },
        _S.UNKNOWN: {
            _E.TASK_NAMED: _S.WORKING,
            _E.ASKED: _S.INPUT_REQUIRED,
            _E.ENDED: _S.TERMINAL_OBSERVED,
            _E.CANCEL_DUE: _S.CANCEL_REQUESTED,
            _E.NOTHING_CREATED: _S.NOT_FOUND_SAFE,
            _E.VERDICT: _S.RECONCILED,
        },
        _S.ACCEPTED: {},
        _S.CANCELLED_ACCEPTED: {},
        _S.REFUSED: {},
        _S.RECONCILED: {},
    }
)

FINAL = frozenset(state for state, steps in TRANSITIONS.items() if not steps)
BEFORE_TASK = frozenset({_S.SUBMITTING, _S.SUBMISSION_UNKNOWN, _S.NOT_FOUND_SAFE})
FINISHED = FINAL | {_S.TERMINAL_OBSERVED, _S.FETCHING_RESULT}
"""C10: a cancel asked here is refused with what is already known."""


def edges() -> Iterator[tuple[State, Event, State]]:
    """Yield every legal step, in table order."""
    for source, steps in TRANSITIONS.items():
        for event, target in steps.items():
            yield source, event, target


class Outcome(enum.StrEnum):
    """What a terminal receipt says to its call node."""

    SUCCESS = "SUCCESS"
    TOOL_ERROR = "TOOL_ERROR"
    CANCELLED = "CANCELLED"
    REFUSED = "REFUSED"
    RECONCILED = "RECONCILED"


FINAL_OUTCOMES: Mapping[State, frozenset[Outcome]] = MappingProxyType(
    {
        _S.ACCEPTED: frozenset({Outcome.SUCCESS, Outcome.TOOL_ERROR}),
        _S.CANCELLED_ACCEPTED: frozenset({Outcome.CANCELLED}),
        _S.REFUSED: frozenset({Outcome.REFUSED}),
        _S.RECONCILED: frozenset({Outcome.RECONCILED}),
    }
)


class Delivery(enum.StrEnum):
    """How far a person's answer has come (I6, I7)."""

    STORED = "STORED"
    PERMITTED = "PERMITTED"
    SENT = "SENT"
    UNCERTAIN = "UNCERTAIN"
    """Sent, arrival unknown: only the server's status can tell."""
    USED = "USED"
    """The server has moved on after it."""
    SUPERSEDED = "SUPERSEDED"
    VOID = "VOID"


class NotFound(enum.StrEnum):
    """What an answer of "not found" is worth (X1)."""

    NEVER_CREATED = "NEVER_CREATED"
    EXPIRED_WITH_RECEIPT = "EXPIRED_WITH_RECEIPT"
    UNKNOWN = "UNKNOWN"


class Reason(enum.StrEnum):
    """Why an operation stands before a person: the sub-reason of UNKNOWN and of a refusal."""

    SUBMIT_LOST = "SUBMIT_LOST"
    BUDGET_ENDED = "BUDGET_ENDED"
    NOT_FOUND = "NOT_FOUND"
    NOT_FOUND_AFTER_CANCEL = "NOT_FOUND_AFTER_CANCEL"
    ID_CLASH = "ID_CLASH"
    CONTRADICTED = "CONTRADICTED"
    RESULT_LOST = "RESULT_LOST"
    RESULT_INVALID = "RESULT_INVALID"
    ADMIN_REFUSAL = "ADMIN_REFUSAL"
    REQUEST_REFUSED = "REQUEST_REFUSED"
    NO_TASK_SUPPORT = "NO_TASK_SUPPORT"
    PROVED_ABSENT = "PROVED_ABSENT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """What an executor believed when it set out. Every answer comes back under its ticket."""

    epoch: int
    cancel_generation: int
    round: int
    look: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where an operation stands: everything a decision may depend on, and nothing else."""

    id: str
    version: int
    state: State
    epoch: int
    """The epoch now in force for its protocol version, not the one it was created under."""
    cancel_generation: int
    round: int
    """Number of the newest input round; 0 before the first."""
    look: int
    """The number of the newest claim. An answer under an older one comes too late (P4)."""
    session: str | None
    task_id: str | None
    terminal_status: str | None
    """completed, failed or cancelled, once observed."""
    result_digest: str | None
    sends: int
    """Submit permits ever given."""
    sends_disproved: int
    """Permits whose send is proved to have created nothing."""
    cancel_intent: bool
    """A cancel was asked while no task could be cancelled; it binds the first that turns up (C9)."""
    cancel_requested_at: datetime | None
    cancel_sends: int
    round_open: bool
    round_before_task: bool
    round_deadline_at: datetime | None
    answer_delivery: Delivery | None
    """Of the newest round's answer; None while it has none."""
    reason: str
    protocol_status: str
    cancel_acked: bool
    """The server has taken note of the cancel; where that is no evidence, looking goes on (C5)."""
    cancel_stated: bool
    fetches: int
    lost_at: datetime | None
    """When the last submit was lost; the quarantine of X2 counts from here."""
    budget_ends_at: datetime
    task_expires_at: datetime | None
    first_sent_at: datetime | None = None
    """When the first submit permit was given; a server's key window counts from here (X2)."""
    replays: int = 0
    """Lookups that sent the submit's own bytes once more, and are not proved to have created nothing (L4)."""

    @property
    def nothing_sent(self) -> bool:
        """True: provably, nothing of this call can exist at the server."""
        return self.sends == self.sends_disproved and not self.replays

    @property
    def nothing_exists(self) -> bool:
        """Nothing was sent, and no task has turned up after all (L5).

        A question that came before a task proves that the tool has run at least up to it.
        """
        return self.nothing_sent and self.task_id is None and not self.round


class StepError(Exception):
    """Abstract: a step that changed nothing but its journal row."""

    def detail(self) -> dict[str, str | int | None]:
        """What the journal keeps of the refusal."""
        return {"refused": str(self)}


class IllegalStep(StepError):
    """This event has no place in this state. A fault of the caller, or news that came too late."""

    def __init__(self, state: State, event: Event) -> None:
        super().__init__(f"{event} has no place in {state}")
        self.state = state
        self.event = event


class StaleStep(StepError):
    """The ticket no longer fits: `fence` names what moved on. The evidence has been kept."""

    def __init__(self, fence: str, *, held: int, now: int) -> None:
        super().__init__(f"{fence} has moved from {held} to {now}")
        self.fence = fence
        self.held = held
        self.now = now


def step(state: State, event: Event) -> State:
    """Return the state that follows. Raises IllegalStep."""
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise IllegalStep(state, event) from None


def check_ticket(standing: Standing, ticket: Ticket) -> None:
    """Raise StaleStep unless everything the ticket's holder believed still holds (P4, P6, C1)."""
    fences = (
        ("execution epoch", ticket.epoch, standing.epoch),
        ("cancel generation", ticket.cancel_generation, standing.cancel_generation),
        ("input round", ticket.round, standing.round),
    )
    for fence, held, now in fences:
        if held != now:
            raise StaleStep(fence, held=held, now=now)
    if ticket.look < standing.look:
        raise StaleStep("look number", held=ticket.look, now=standing.look)
