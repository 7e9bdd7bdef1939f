"""What one simulated AIP-151 server is like: its methods, its character, and the faults on their knobs.

*Character* is what a server does all the time; a *fault* strikes some answers only. `on` names the
request: `tools`, `submit`, `get`, `list`, `cancel` or `delete`.

=====  ==================================================================================
F1     `Fault(on="submit", kind=FaultKind.ANSWER_LOST)`
F2     `Fault(on="get", kind=FaultKind.ANSWER_DELAYED, seconds=3)`: the next overtakes it
F3     cannot happen: an operation of this contract asks nothing
F4     `Fault(on="cancel", kind=FaultKind.FINISHES_FIRST)`
F5     `Fault(on="cancel", kind=FaultKind.ANSWER_LOST)`
F6     `Fault(on="get", kind=FaultKind.ANSWER_TRUNCATED)`
F7     needs no fault here: an old answer is one that was delayed past a rollback
F8     `Scenario(reuse_id="op-1")`
F9     `Scenario(keeps_s=…)`, `Fault(on="get", kind=FaultKind.API_ERROR, code=5)`
F10    `Fault(on="get", kind=FaultKind.API_ERROR, code=8, retry_after="2")`, or code 14
=====  ==================================================================================

Every answer of another protocol, of a gateway, or of a broken server is a `REPLACED` fault.
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
    """The server acts, and says again what it last said to this kind of request."""
    API_ERROR = "api error"
    """Answered with the error `code` of google.rpc.Code (and `retry_after`): nothing was done."""
    HTTP_STATUS = "http status"
    """Answered with `status`, `body` and `headers` by something in front: nothing was done."""
    REPLACED = "replaced"
    """The server acts; `status`, `body` and `headers` are answered instead. `NAME` in the body
    stands for the name of the operation."""
    FINISHES_FIRST = "finishes first"
    """The operation ends in the instant before the server acts on the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault: strikes `times` requests of kind `on`, after letting `skip` of them pass."""

    on: str
    kind: FaultKind
    skip: int = 0
    times: int = 1
    every: int = 1
    """2: strikes the first, the third and so on of those that `skip` did not let pass."""
    seconds: float = 0.0
    code: int = 14
    retry_after: str = ""
    """Seconds, written as `Retry-After` and as google.rpc.RetryInfo."""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("content-type", "application/json"),)
    body: str = ""


class CancelStyle(enum.Enum):
    """How a server takes a cancel. All but the last accept it with `{}`."""

    COOPERATIVE = "cooperative"
    """The operation ends with code 1 `cancel_after_s` later, unless it ended before."""
    IGNORES = "ignores"
    """The work goes on to its end."""
    REFUSES = "refuses"
    """501 UNIMPLEMENTED."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One server. Every field has the value of a well-behaved server."""

    tools: tuple[Tool, ...]
    """The name of a tool is the path of its method, such as `projects/p/locations/l/jobs:run`."""
    name: str = "simulator"
    faults: tuple[Fault, ...] = field(default=())
    speed: float = 1.0
    """Work takes its seconds divided by this."""
    publishes_tools: bool = True
    honours_request_id: bool = True
    """The same request id and the same body give the operation there is."""
    key_window_s: float = 3600.0
    """How long it does. Afterwards the same id starts a second operation."""
    echoes_request_id: bool = True
    lists: bool = True
    page_size: int = 100
    cancel: CancelStyle = CancelStyle.COOPERATIVE
    cancel_after_s: float = 1.0
    works_on_after_cancel: bool = False
    """The script runs to its end after a won cancel, effects and all."""
    keeps_s: float | None = None
    """Set: an operation vanishes this long after it was created."""
    reuse_id: str = ""
    """Set: every operation gets this id."""
    writes_defaults: bool = False
    """As grpc-gateway does: `done: false` and nulls are written out, errors are a bare Status."""
