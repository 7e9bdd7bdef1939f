"""What a call node hands in, read strictly.

The arguments of a call are kept as the bytes they came in: they are what will be sent, each time (X2), and two
readers must never see two different calls in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from adapters import strictjson
from adapters.contract import Json
from adapters.strictjson import BadJson, Member
from operations.comparison import OUTCOMES, Told
from operations.ledger import NewCall, NewShadow
from operations.machine import Outcome

T = TypeVar("T")

MAX_BYTES = 1_000_000
MAX_DEPTH = 32
LONGEST_NAME = 200
LONGEST_REASON = 2_000
LONGEST_BUDGET_S = 7 * 24 * 3600
MOST_RECEIPTS = 500
MOST_LOOKS = 1_000_000

__all__ = [
    "MAX_BYTES",
    "BadBody",
    "BadJson",
    "CancelWish",
    "Fault",
    "check_call",
    "read_call",
    "read_cancel",
    "read_receipts",
    "read_shadow",
    "read_told",
]


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one member of a body."""

    member: str
    detail: str


class BadBody(ValueError):
    """The body is JSON, but not what this request wants. `faults` names every member that is wrong."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__("; ".join(f"{fault.member}: {fault.detail}" for fault in faults))
        self.faults = faults


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelWish:
    """A cancel as asked for."""

    seen_generation: int | None
    """The cancel generation that the asker last saw; None: cancel whatever stands there."""
    reason: str


def read_call(raw: bytes, *, client: str) -> NewCall:
    """Read the body of a submit. Raises BadJson and BadBody."""
    body = _Body(raw, required=("call_node", "submission_key", "server", "tool", "arguments", "principal"))
    body.optional("wait_budget_s")
    call = {name: body.name(name) for name in ("call_node", "submission_key", "server", "tool", "principal")}
    arguments = body.object_bytes("arguments")
    budget = body.whole("wait_budget_s", least=1, most=LONGEST_BUDGET_S)
    body.check()
    return NewCall(client=client, arguments=arguments, budget_s=budget, **call)


def check_call(call: NewCall) -> None:
    """Hold a call that was made on this machine against the same rules. Raises BadJson and BadBody."""
    body: dict[str, Json | strictjson.Verbatim] = {
        "call_node": call.call_node,
        "submission_key": call.submission_key,
        "server": call.server,
        "tool": call.tool,
        "arguments": strictjson.Verbatim(call.arguments),
        "principal": call.principal,
        "wait_budget_s": call.budget_s,
    }
    read_call(strictjson.compose(body), client=call.client)


def read_cancel(raw: bytes) -> CancelWish:
    """Read the body of a cancel. Raises BadJson and BadBody."""
    body = _Body(raw, required=("reason",))
    body.optional("seen_generation")
    reason = body.name("reason", longest=LONGEST_REASON)
    seen = body.whole("seen_generation", least=0, most=2**31 - 1)
    body.check()
    return CancelWish(seen_generation=seen, reason=reason)


def read_receipts(raw: bytes) -> tuple[str, ...]:
    """Read the ids of an acknowledgement, each once. Raises BadJson and BadBody."""
    body = _Body(raw, required=("receipts",))
    receipts = body.ids("receipts", most=MOST_RECEIPTS)
    body.check()
    return receipts


def read_shadow(raw: bytes, *, client: str) -> NewShadow:
    """Read which call an existing path made (O1). Raises BadJson and BadBody."""
    body = _Body(raw, required=("call_node", "server", "tool", "task_id"))
    body.optional("session")
    call = {name: body.name(name) for name in ("call_node", "server", "tool")}
    task_id = body.name("task_id", longest=LONGEST_REASON)
    session = body.name("session", longest=LONGEST_REASON) or None
    body.check()
    return NewShadow(client=client, task_id=task_id, session=session, **call)


def read_told(raw: bytes) -> Told:
    """Read how the call of an existing path ended (O1). Raises BadJson and BadBody."""
    body = _Body(raw, required=("outcome", "ended_at"))
    body.optional("looks", "result")
    outcome = body.word("outcome", OUTCOMES)
    ended_at = body.moment("ended_at")
    looks = body.whole("looks", least=0, most=MOST_LOOKS)
    result_digest = body.digest("result")
    body.check()
    assert outcome is not None  # noqa: S101 - check() has refused a body without them
    assert ended_at is not None  # noqa: S101
    return Told(outcome=Outcome(outcome), ended_at=ended_at, looks=looks, result_digest=result_digest)


class _Body:
    """Collects what is wrong instead of stopping at the first: a caller repairs all of it at once."""

    def __init__(self, raw: bytes, *, required: tuple[str, ...]) -> None:
        self._members: Mapping[str, Member] = strictjson.members(raw, max_depth=MAX_DEPTH, max_bytes=MAX_BYTES)
        self._known = set(required)
        self._faults = [Fault(name, "is missing") for name in required if name not in self._members]

    def optional(self, *names: str) -> None:
        self._known.update(names)

    def name(self, name: str, *, longest: int = LONGEST_NAME) -> str:
        member = self._members.get(name)
        if member is None:
            return ""
        value = member.value
        if not isinstance(value, str) or not value.strip() or len(value) > longest:
            return self._wrong(name, f"must be a text of 1 to {longest} characters", "")
        if strictjson.printable(value) != value:
            return self._wrong(name, "holds a character that cannot be stored", "")
        return value

    def whole(self, name: str, *, least: int, most: int) -> int | None:
        member = self._members.get(name)
        if member is None or member.value is None:
            return None
        value = member.value
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            return self._wrong(name, f"must be a whole number from {least} to {most}", None)
        return value

    def word(self, name: str, words: tuple[str, ...]) -> str | None:
        member = self._members.get(name)
        if member is None:
            return None
        if member.value not in words:
            return self._wrong(name, f"must be one of {', '.join(words)}", None)
        return str(member.value)

    def moment(self, name: str) -> datetime | None:
        member = self._members.get(name)
        if member is None:
            return None
        try:
            found = datetime.fromisoformat(member.value if isinstance(member.value, str) else "")
        except ValueError:
            found = None
        if found is None or found.tzinfo is None:
            return self._wrong(name, "must be a date-time with its zone, such as 2026-11-29T12:00:00Z", None)
        return found

    def digest(self, name: str) -> str | None:
        """Digest the canonical form of a value: two readers of one result may have been given other blanks."""
        member = self._members.get(name)
        return None if member is None else strictjson.digest_of(member.value)

    def object_bytes(self, name: str) -> bytes:
        member = self._members.get(name)
        if member is None:
            return b""
        if not isinstance(member.value, dict):
            return self._wrong(name, "must be an object", b"")
        return member.raw

    def ids(self, name: str, *, most: int) -> tuple[str, ...]:
        member = self._members.get(name)
        if member is None:
            return ()
        values = member.value
        if not isinstance(values, list) or not 1 <= len(values) <= most:
            return self._wrong(name, f"must be a list of 1 to {most} ids", ())
        ids = [_uuid(value) for value in values]
        found = [text for text in ids if text is not None]
        if len(found) != len(values):
            return self._wrong(name, "holds something that is no id", ())
        return tuple(dict.fromkeys(found))

    def check(self) -> None:
        """Raise BadBody if anything was wrong. A member nobody asked for is a mistake, never ignored."""
        strangers = [Fault(name, "is not known here") for name in self._members if name not in self._known]
        if faults := [*self._faults, *strangers]:
            raise BadBody(tuple(faults))

    def _wrong(self, name: str, detail: str, stead: T) -> T:
        self._faults.append(Fault(name, detail))
        return stead


def _uuid(value: object) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        return str(UUID(value))
    except ValueError:
        return None
