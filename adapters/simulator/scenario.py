"""What one simulated server is like: its tools, its character, and the faults on their knobs.

*Character* is what a server does all the time, such as letting work go on after a cancel. A *fault*
strikes some answers only. Together they make every fault that the product must survive:

=====  ==================================================================================
F1     `Fault(on="tools/call", kind=FaultKind.ANSWER_LOST)`
F2     `Fault(on="tasks/get", kind=FaultKind.ANSWER_DELAYED, seconds=3)`: the next overtakes it
F3     `Scenario(questions=QuestionStyle.REPLAYED)` or `RENAMED`; `FaultKind.ANSWER_REPEATED`
F4     `Fault(on="tasks/cancel", kind=FaultKind.FINISHES_FIRST)`
F5     `Fault(on="tasks/cancel", kind=FaultKind.ANSWER_LOST)`
F6     `Fault(on="tasks/result", kind=FaultKind.ANSWER_TRUNCATED)` or `ANSWER_LOST`
F7     needs no fault here: an old answer is one that was delayed past a rollback
F8     `Scenario(reuse_task_id="t-1")`
F9     `Fault(on="tasks/get", kind=FaultKind.RPC_ERROR, code=-32602)`, `Scenario(ttl_ms=…)`,
       `FaultKind.HTTP_STATUS` with 404
F10    `Fault(on="tasks/get", kind=FaultKind.HTTP_STATUS, status=429, retry_after="2")`
=====  ==================================================================================

The same scenario can be given to a server of either contract. What one of them does not have, such
as a session, its knobs do not change.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from adapters.simulator.scripts import Tool


class FaultKind(enum.Enum):
    """What goes wrong. Each says whether the request was carried out."""

    REQUEST_LOST = "request lost"
    """The connection breaks before the server acts: nothing was done."""
    ANSWER_LOST = "answer lost"
    """The server acts, then the connection breaks."""
    ANSWER_TRUNCATED = "answer truncated"
    """The server acts; half of the answer arrives under a framing that promised all of it."""
    ANSWER_DELAYED = "answer delayed"
    """The server acts at once; the answer leaves `seconds` later."""
    ANSWER_REPEATED = "answer repeated"
    """The server acts, and says again what it last said to this method."""
    HTTP_STATUS = "http status"
    """Answered with `status` (and `retry_after`) by something in front: nothing was done."""
    RPC_ERROR = "rpc error"
    """Answered with a JSON-RPC error `code`: nothing was done."""
    SESSION_LOST = "session lost"
    """The server forgets the session and answers 404: nothing was done."""
    STATUS_WORD = "status word"
    """The server acts; the task's status in the answer is replaced by `word`."""
    TASK_ID = "task id"
    """The server acts; the task id in the answer is replaced by `word`."""
    FINISHES_FIRST = "finishes first"
    """The task ends in the instant before the server acts on the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault: strikes `times` requests of method `on`, after letting `skip` of them pass."""

    on: str
    kind: FaultKind
    skip: int = 0
    times: int = 1
    chance: float = 1.0
    """Strikes with this probability; only then is it counted in `times`."""
    seconds: float = 0.0
    status: int = 503
    retry_after: str = ""
    code: int = -32602
    word: str = ""


class CancelStyle(enum.Enum):
    """How a server takes a cancel."""

    HONEST = "honest"
    """Cancelled is terminal; a task that already ended is refused with -32602."""
    LIES = "lies"
    """Says `cancelled` also for a task that already completed, and leaves it completed."""
    IGNORES = "ignores"
    """Answers with the unchanged task."""
    REFUSES = "refuses"
    """Does not declare cancel and answers -32601."""
    LATE = "late"
    """Answers with the unchanged task; cancelled `cancel_after_s` later, unless it ended before."""


class QuestionStyle(enum.Enum):
    """How a server delivers a question on the stream of `tasks/result`."""

    ONCE = "once"
    """To the first stream only, as both official SDKs do."""
    REPLAYED = "replayed"
    """To every new stream, the same request with the same id."""
    RENAMED = "renamed"
    """To every new stream, the same request under a fresh id."""
    STANDING = "standing"
    """On the session's standing stream alone, without the task's name, and lost where nobody held it; the
    status stays `working` meanwhile. A call that runs at once asks on its own stream. What fastmcp 3 does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One server. Every field has the value of a well-behaved server."""

    tools: tuple[Tool, ...]
    name: str = "simulator"
    faults: tuple[Fault, ...] = field(default=())
    speed: float = 1.0
    """Work takes its seconds divided by this."""
    poll_ms: int | None = 1000
    ttl_ms: int | None = None
    """Set: the server keeps every task this long, whatever was asked for."""
    json_only: bool = False
    """Answers never use event streams, so that no question is ever delivered."""
    sessions: bool = True
    declares_tasks: bool = True
    lists_tasks: bool = True
    lookup_tool: str = ""
    """Set: a read-only tool of this name looks a submission key up."""
    lookup_tool_is_blind: bool = False
    """It says of every key that it never saw it."""
    cancel: CancelStyle = CancelStyle.HONEST
    cancel_after_s: float = 1.5
    works_on_after_cancel: bool = False
    """The script runs to its end after a won cancel, effects and all."""
    questions: QuestionStyle = QuestionStyle.ONCE
    reuse_task_id: str = ""
    """Set: every task gets this id."""
    related_task: str | None = None
    """Set: the id that results claim to belong to. Empty: they claim none."""
    closes_stream_after_question: bool = False
    """Ends the `tasks/result` stream once a question is out, instead of keeping it open."""
    stale_streams_swallow: bool = False
    """A dropped `tasks/result` stream stays first in line and takes the next question with it, until
    its request is cancelled: what the official Python SDK does."""
    tools_per_page: int = 50
    asks_before_task: bool = False
    """2026-07-28: the questions a tool begins with are asked before its task exists."""
    answered_listed_s: float = 0.0
    """2026-07-28: how long an answered question is still listed (its server is eventually consistent)."""
    reuses_keys: bool = False
    """2026-07-28: every round has the same key, whatever it asks."""
    errors_as_200: bool = False
    """2026-07-28: errors of a method come with HTTP 200, as from the TypeScript SDK, not with 400 or 404."""
