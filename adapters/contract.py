"""The words of the trade: what an adapter may be asked, may see, and may promise.

Everything above this floor decides by these values only, never by the name of a protocol.

An adapter is pinned to one exact protocol version (N1). Each verb sends one question to a tool
server and returns an *observation*, or raises one of the errors below. A verb never decides what
an observation means for an operation, keeps no state between calls, and owns no clock.

The error tree, ordered by what may have happened at the server::

    AdapterError
    ├── NotSent            no byte of the request left this machine: nothing can have happened
    ├── MaybeSent          bytes may have left and no usable answer came: anything can have happened
    └── Answered           the server, or something in front of it, answered
        ├── Refused        a definite no; `kind` says who can repair it
        ├── Throttled      429: not now; nothing was done
        ├── SessionLost    the session of this operation is gone; the task may live on
        ├── WrongProtocol  the answer has another protocol's shape (N3): evidence, never a terminal
        └── BrokenPeer     the answer cannot be read: cut off, malformed, a gateway's page
            └── TooLarge   over a cap
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

MASK = b"[masked]"
"""What stands in place of a known credential, wherever a server echoed it."""

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""A value as strict JSON allows it. Integers keep every digit."""


class Stability(enum.StrEnum):
    """How far the authors of a protocol version stand behind it (N1)."""

    EXPERIMENTAL = "EXPERIMENTAL"
    STABLE = "STABLE"


class ProtocolStatus(enum.StrEnum):
    """The server's word on its own task: a closed set (L6). Any other word is an anomaly."""

    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """Whether the server says that nothing more will happen."""
        return self in {self.COMPLETED, self.FAILED, self.CANCELLED}


class TaskSupport(enum.StrEnum):
    """Whether a tool may be, must be, or cannot be called as a task."""

    REQUIRED = "required"
    OPTIONAL = "optional"
    FORBIDDEN = "forbidden"


class Lookup(enum.StrEnum):
    """How a server can be asked for the task of a lost submit (L4): part of the server profile."""

    SAME_KEY_REPLAY = "same_key_replay"
    LIST_BY_KEY = "list_by_key"
    CLIENT_ID = "client_id"
    SESSION_LIST = "session_list"
    LOOKUP_TOOL = "lookup_tool"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """What a protocol version itself promises, the same for every server that speaks it."""

    protocol_version: str
    stability: Stability
    needs_session: bool
    """A session must be opened, and its id stored, before a submit."""
    cancel_ack_is_terminal: bool
    """C2: a successful cancel answer is terminal evidence. Otherwise cancel is cooperative (C5)."""
    result_inline: bool
    """A terminal look carries the result; no fetch of its own is needed."""
    tool_error: ProtocolStatus
    """R7: the status under which the tool's own error stands."""
    has_input_rounds: bool
    answers_repeatable: bool
    """I7: sending the identical answer again is harmless."""
    input_before_task: bool
    """A submit may be answered by a question before a task exists."""
    disconnect_cancels_request: bool
    """C8: closing the connection of a request cancels that request."""
    lookups: frozenset[Lookup]
    """The lookups this protocol could offer; the server profile names the one that is proved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What one server declared when it was asked (N2). What is not declared is absent."""

    server_name: str
    server_version: str
    creates_tasks: bool
    cancels_tasks: bool
    lists_tasks: bool
    raw: bytes = field(repr=False, default=b"{}")
    """The declaration as received, for evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDescriptor:
    """One tool as its server describes it. `digest` is the descriptor's version (L1)."""

    name: str
    title: str
    description: str
    task_support: TaskSupport
    input_schema: Mapping[str, Json]
    output_schema: Mapping[str, Json] | None
    raw: bytes = field(repr=False)
    digest: str
    """SHA-256 of `raw` in canonical form, lower-case hex."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Negotiation:
    """What a server is and offers, read without starting any work (N1)."""

    capabilities: Capabilities
    tools: tuple[ToolDescriptor, ...]
    left_out: tuple[str, ...] = ()
    """Tools that the contract forbids us to offer, each with the reason, in words."""
    exchanges: tuple[Exchange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request and what came back, as evidence (L7). Secrets are never in it."""

    label: str
    """The protocol's own name of the request, such as `tasks/get`."""
    request: bytes = field(repr=False)
    http_status: int | None = None
    """None: no status line was read."""
    media_type: str = ""
    body: bytes = field(repr=False, default=b"")
    """Raw bytes as received after content decoding, cut at the cap; digests are made from these."""
    complete: bool = True
    """False: the body ended before its own framing said so."""
    masked: int = 0
    """At how many places a known credential was masked, in request and body (R8)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """The remote side of one operation, as far as the ledger knows it."""

    session: str | None = None
    task_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The tool call to submit. Encoding it twice gives the same bytes (X2)."""

    submission_key: str
    tool: str
    arguments: bytes = field(repr=False)
    """One JSON object, UTF-8, sent as it is."""
    ttl_ms: int | None
    """How long we ask the server to keep the task; None leaves it to the server."""
    as_task: bool = True
    """False: the tool runs under its published synchronous limit (N2)."""
    within_s: float | None = None
    """That limit: how long the answer may take. None: as long as any request."""
    input_schema: Mapping[str, Json] = field(repr=False, default_factory=dict)
    """Of the descriptor that the call was made with: a contract may want what it marks outside the body too."""
    lookup_tool: str = ""
    """The server's tool that `Lookup.LOOKUP_TOOL` asks; empty where the profile names none."""
    continuation: Continuation | None = None
    """Set: this goes on with a call that was answered by questions before a task existed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """The server's task object as received. Nothing in it is trusted as a version or a clock."""

    task_id: str
    status: ProtocolStatus
    message: str = ""
    created_at: str = ""
    ttl_ms: int | None = None
    poll_ms: int | None = None
    """The server's suggested interval: a floor for ours (P1)."""
    anomalies: tuple[str, ...] = ()
    """What was odd but did not hide the status, in words."""


class Mode(enum.StrEnum):
    """How a question wants to be answered."""

    FORM = "form"
    URL = "url"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One request for input. `key` is the server's own id for it, as JSON text (`0` and `"0"` differ)."""

    key: str
    mode: Mode
    message: str
    schema: Mapping[str, Json]
    """The requested schema; empty for Mode.URL."""
    url: str = ""
    raw: bytes = field(repr=False)
    """The request's params as received."""
    digest: str
    """SHA-256 of the canonical params: together with `key` it tells a replay from news (I4)."""


class Action(enum.StrEnum):
    """Three different answers (I5)."""

    ACCEPT = "accept"
    DECLINE = "decline"
    DISMISS = "cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer to one question. `content` is a JSON object for ACCEPT, else None."""

    key: str
    action: Action
    content: bytes | None = field(repr=False, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """How a call goes on that was answered by NeedsInput with no task (`Promises.input_before_task`).

    The same call is submitted again under the same submission key, with what the server gave us to
    keep and with the answers. It is a submit like the first: it may be lost, and needs a permit (L4).
    """

    number: int
    """Rises with each: no two requests of one operation share an id."""
    state: str | None
    """`NeedsInput.continuation_state` of that round, exactly."""
    replies: tuple[Reply, ...]
    """Empty where the round asked nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The fetched result (R1, R2). `raw` is the result value exactly as the server sent it."""

    raw: bytes = field(repr=False)
    value: Json = field(repr=False)
    is_error: bool
    """The tool's own error (R7), or the server's definite error answer to the fetch of a failed task."""
    task_id: str | None = None
    """The related task the result itself names; None when it names none."""
    exchanges: tuple[Exchange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Working:
    """The task exists and is not finished."""

    task: TaskFacts
    exchanges: tuple[Exchange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedsInput:
    """The task waits for a person. No questions: the server says so but has not delivered one."""

    task: TaskFacts | None
    """None: asked before a task exists. The answers go out as `Call.continuation`, not by `answer`."""
    questions: tuple[Question, ...]
    continuation_state: str | None = None
    """Only with no task: what the server wants back, opaque, as JSON text in ASCII; None: nothing.
    With a state and no questions the call may go on at once, without a person."""
    exchanges: tuple[Exchange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The task is in a terminal status, or the call was answered at once (`task` is None)."""

    status: ProtocolStatus
    task: TaskFacts | None
    result: ToolResult | None = None
    """Present when the contract carries it inline or the call ran at once."""
    exchanges: tuple[Exchange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """The server does not know the task, or says that no task has our key. Never "failed" (X1)."""

    code: int
    message: str
    by_key: bool = False
    """True: the answer to a lookup by our submission key or our own session."""
    exchanges: tuple[Exchange, ...] = ()


Observation = Working | NeedsInput | Ended | Absent


@dataclass(frozen=True, slots=True, kw_only=True)
class Overheard:
    """A question that came on a stream nobody had asked on."""

    question: Question
    task_id: str | None
    """The task that it names; None where it names none and its session stands for it."""
    event_id: str
    """Where to resume after it; empty where the server offers no resumption."""
    exchange: Exchange


@dataclass(frozen=True, slots=True, kw_only=True)
class Hinted:
    """The server says that its task has moved: a reason to look earlier, and never news (P7)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A session for one operation, with what its server declared."""

    session: str | None
    capabilities: Capabilities
    exchanges: tuple[Exchange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The server took an answer. It does not say that the answer was used (I6)."""

    exchanges: tuple[Exchange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelAnswer:
    """The server's answer to a cancel. `task` is None for a bare acknowledgement."""

    task: TaskFacts | None
    exchanges: tuple[Exchange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRefused:
    """The server will not cancel: already terminal, unknown, or expired. The next look decides (C3)."""

    code: int
    message: str
    exchanges: tuple[Exchange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotReady:
    """The fetch was answered, but not with a result: look again before believing it."""

    code: int
    message: str
    exchanges: tuple[Exchange, ...] = ()


class AdapterError(Exception):
    """Abstract. `reason` is for people; `exchanges` is what was seen on the wire."""

    def __init__(self, reason: str, *, exchanges: Sequence[Exchange] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.exchanges = tuple(exchanges)


class NotSent(AdapterError):
    """No byte of the request left this machine. The same request may be sent again."""


class MaybeSent(AdapterError):
    """Bytes may have left and no usable answer came. Look before sending anything twice."""


class Answered(AdapterError):
    """Abstract: the server answered, but not with an observation."""


class RefusalKind(enum.StrEnum):
    """Who can repair a refusal."""

    ADMIN = "ADMIN"
    """Credentials, a redirect, a missing capability: an admin can."""
    REQUEST = "REQUEST"
    """The request itself is at fault: only another call node can."""
    TASK = "TASK"
    """The server declares tasks and still will not run this tool as one (N2)."""


class Refused(Answered):
    """A definite no. For a submit: nothing was created."""

    def __init__(
        self, reason: str, *, kind: RefusalKind, code: int | None = None, exchanges: Sequence[Exchange] = ()
    ) -> None:
        super().__init__(reason, exchanges=exchanges)
        self.kind = kind
        self.code = code


class Throttled(Answered):
    """Not now. `retry_after_s` is the server's floor in seconds, None when it named none (P1)."""

    def __init__(self, reason: str, *, retry_after_s: float | None, exchanges: Sequence[Exchange] = ()) -> None:
        super().__init__(reason, exchanges=exchanges)
        self.retry_after_s = retry_after_s


class SessionLost(Answered):
    """This operation's session is gone. The task may still run; a new session may not see it."""


class WrongProtocol(Answered):
    """The answer has the shape of another protocol, or a word outside a closed set (N3, L6)."""


class BrokenPeer(Answered):
    """The answer cannot be read. `retry_after_s` as in Throttled, for a 503 that names one."""

    def __init__(
        self,
        reason: str,
        *,
        retry_after_s: float | None = None,
        exchanges: Sequence[Exchange] = (),
    ) -> None:
        super().__init__(reason, exchanges=exchanges)
        self.retry_after_s = retry_after_s


class TooLarge(BrokenPeer):
    """The answer is over a cap. Asking again would bring the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a server is and how we may reach it. The credential never shows in a repr or an error."""

    url: str
    credential: str | None = field(repr=False, default=None)
    """The whole value of the Authorization header."""
    allow_private: bool = False
    """True: an admin registered this host although it is not a public address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one request. Seconds and bytes."""

    connect_s: float = 5.0
    total_s: float = 30.0
    body_bytes: int = 8_000_000
    event_bytes: int = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WireRequest:
    """One HTTP request to the endpoint's own URL, or to a place below it."""

    label: str
    body: bytes = field(repr=False)
    headers: tuple[tuple[str, str], ...] = ()
    method: str = "POST"
    total_s: float | None = None
    """Overrides Limits.total_s."""
    path: str = ""
    """A place below the endpoint's URL, escaped, no leading slash. One that would lead out is refused (NotSent)."""
    query: tuple[tuple[str, str], ...] = ()
    """Names and values, not escaped yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireResponse:
    """A whole answer within the caps."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    media_type: str
    body: bytes = field(repr=False)
    exchange: Exchange


class WireStream(Protocol):
    """An answer whose body is read bit by bit. Leaving the context closes the connection."""

    status: int
    headers: Mapping[str, str]
    media_type: str

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives. Raises MaybeSent when it breaks off or time is up."""

    async def whole(self) -> WireResponse:
        """Read the body to its end. Raises as `Wire.send`."""

    def exchange(self) -> Exchange:
        """What was read so far, as evidence."""


class Wire(Protocol):
    """One bounded way to one endpoint. Every request passes the server's rate limit first (P2)."""

    async def send(self, request: WireRequest) -> WireResponse:
        """Send and read the whole answer. Raises NotSent, MaybeSent or BrokenPeer (over a cap)."""

    def stream(self, request: WireRequest) -> AbstractAsyncContextManager[WireStream]:
        """Send and read the answer as it comes. Raises as `send`, on entering."""


class Adapter(Protocol):
    """One release of one protocol version. Every verb may raise any AdapterError."""

    promises: Promises
    release: str

    async def negotiate(self, wire: Wire) -> Negotiation:
        """Read what the server declares and every tool it describes. Starts no work."""

    async def open(self, wire: Wire) -> Opened:
        """Open a session for one operation. Starts no work; may be repeated."""

    async def submit(self, wire: Wire, handle: Handle, call: Call) -> Observation:
        """Start the work. NotSent and Refused prove that nothing was created; MaybeSent does not."""

    async def find(self, wire: Wire, handle: Handle, call: Call, lookup: Lookup) -> Observation:
        """Look a lost submit up. Absent(by_key=True) is the server's word that it has none."""

    async def look(self, wire: Wire, handle: Handle, *, expect_question: bool) -> Observation:
        """Ask for the task's status. `expect_question`: also collect a question we do not hold yet."""

    async def answer(self, wire: Wire, handle: Handle, replies: Sequence[Reply]) -> Delivered:
        """Deliver a person's answers, all of one round."""

    async def cancel(self, wire: Wire, handle: Handle) -> CancelAnswer | CancelRefused:
        """Ask the server to cancel."""

    async def fetch(self, wire: Wire, handle: Handle, status: ProtocolStatus) -> ToolResult | NotReady:
        """Read the result of a task seen as completed or failed (R1)."""


class StandingStream(Protocol):
    """A stream on which a server may ask at any time."""

    @property
    def last_event_id(self) -> str:
        """Where to resume; empty where the server offers no resumption."""

    @property
    def retry_s(self) -> float | None:
        """How long the server wants us to stay away before we come back."""

    def heard(self) -> AsyncIterator[Overheard | Hinted]:
        """Yield each question and each hint as it comes; end with the stream. Raises any AdapterError."""


@runtime_checkable
class Listens(Protocol):
    """What an adapter can also do whose server may ask without being asked."""

    def listen(
        self, wire: Wire, handle: Handle, *, last_event_id: str, total_s: float
    ) -> AbstractAsyncContextManager[StandingStream]:
        """Open the standing stream of the operation's session, for at most `total_s`.

        A question that names another task than the handle's is refused, and not yielded (B033).
        Raises any AdapterError on entering: Refused where the server has no such stream.
        """


@runtime_checkable
class TakesTools(Protocol):
    """What an adapter can also do whose servers may have nothing that describes their tools."""

    def read_tools(self, document: bytes) -> Negotiation:
        """Read a tools document that an admin gives. Raises WrongProtocol, with what to change in its words."""
