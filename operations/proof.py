"""Checks an exported proof with nothing but the proof itself: no ledger, no network, no Django (G6).

A proof is one JSON document: delivery -> receipt -> operation -> evidence and journal. Whoever holds
it can see that the call node advanced on one terminal receipt, that the receipt says what the row
says, that every step was legal and followed from the one before, and that the bytes are the bytes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from operations.machine import FINAL, FINAL_OUTCOMES, Event, IllegalStep, Outcome, State, step

FORMAT = "longcall-proof/1"
_SAME = (
    ("client", "client"),
    ("call_node", "call_node"),
    ("request_digest", "request_digest"),
    ("task_id", "task_id"),
    ("tool_version", "tool_version"),
    ("cancel_generation", "cancel_generation"),
    ("terminal_status", "terminal_status"),
    ("result_digest", "result_digest"),
)
Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was checked."""

    what: str
    """What must hold, as a sentence."""
    wrong: tuple[str, ...]
    """Where it does not; empty where it holds."""

    @property
    def holds(self) -> bool:
        """True: nothing stands against it."""
        return not self.wrong


def check(document: Document) -> tuple[Finding, ...]:
    """Check a proof; every check is told, whether it holds or not. A member that is missing is a finding too."""
    if document.get("format") != FORMAT:
        wrong = (f"format is {document.get('format')!r}",)
        return (Finding(what=f"The document is a proof of the form {FORMAT}.", wrong=wrong),)
    return tuple(Finding(what=what, wrong=_told(one, document)) for what, one in _CHECKS)


def _told(one: Callable[[Document], Iterator[str]], document: Document) -> tuple[str, ...]:
    try:
        return tuple(one(document))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return (f"cannot be read: {error!r}",)


def _one_receipt(document: Document) -> Iterator[str]:
    receipt, operation = document["receipt"], document["operation"]
    if receipt["operation"] != operation["id"]:
        yield "the receipt belongs to another operation"
    ends = [row for row in document["journal"] if row["kind"] == "STEP" and State(row["target"]) in FINAL]
    if len(ends) != 1:
        yield f"{len(ends)} steps into a final state"
    if Outcome(receipt["outcome"]) not in FINAL_OUTCOMES.get(State(operation["state"]), frozenset()):
        yield f"{receipt['outcome']} in {operation['state']}"


def _same_facts(document: Document) -> Iterator[str]:
    receipt, operation = document["receipt"], document["operation"]
    for ours, theirs in _SAME:
        if receipt[ours] != operation[theirs]:
            yield f"{ours}: receipt {receipt[ours]!r}, operation {operation[theirs]!r}"
    last = next((row for row in reversed(_applied(document)) if row["kind"] == "STEP"), None)
    if last is None or receipt["epoch"] != last["epoch"]:
        yield "the receipt was written under another execution epoch than the last step"


def _delivered(document: Document) -> Iterator[str]:
    delivery, receipt = document["delivery"], document["receipt"]
    if delivery["receipt"] != receipt["id"]:
        yield "the delivery carries another receipt"
    if delivery["client"] != receipt["client"]:
        yield f"delivered to {delivery['client']!r}, due to {receipt['client']!r}"
    if delivery["ready_at"] < receipt["at"]:
        yield "it was ready before its receipt"


def _applied(document: Document) -> Sequence[Mapping[str, Any]]:
    return [row for row in document["journal"] if row["kind"] in {"STEP", "NOTE"}]


def _legal_chain(document: Document) -> Iterator[str]:
    stood, version = State.SUBMITTING.value, 0
    for row in _applied(document):
        if row["source"] != stood or row["version"] != version + 1:
            yield f"version {row['version']} {row['source']} after version {version} {stood}"
        if row["kind"] == "STEP":
            try:
                if step(State(row["source"]), Event(row["event"])) != row["target"]:
                    yield f"{row['event']} leads from {row['source']} to {row['target']}"
            except IllegalStep as error:
                yield str(error)
        stood, version = row["target"], row["version"]
    if (stood, version) != (document["operation"]["state"], document["operation"]["version"]):
        yield "the journal does not end where the operation stands"


def _whole_evidence(document: Document) -> Iterator[str]:
    numbers = [one["seq"] for one in document["evidence"]]
    if numbers != list(range(1, document["operation"]["evidence_count"] + 1)):
        yield f"numbered {numbers}, the operation counts {document['operation']['evidence_count']}"
    for one in document["evidence"]:
        raw = _raw(one["raw"])
        if raw is not None and (_digest(raw), len(raw)) != (one["digest"], one["size"]):
            yield f"piece {one['seq']}: the bytes are not those of its digest"


def _result_bytes(document: Document) -> Iterator[str]:
    receipt = document["receipt"]
    raw = _raw(receipt["result"])
    if Outcome(receipt["outcome"]) not in {Outcome.SUCCESS, Outcome.TOOL_ERROR}:
        if raw is not None:
            yield f"{receipt['outcome']} carries a payload"
        return
    if raw is None or _digest(raw) != receipt["result_digest"]:
        yield "the payload is not the one of the result digest"
    if not any(one["kind"] == "result" and one["digest"] == receipt["result_digest"] for one in document["evidence"]):
        yield "no piece of evidence is this result"


def _permitted(document: Document) -> Iterator[str]:
    submits = [permit for permit in document["permits"] if permit["kind"] == "SUBMIT"]
    if len(submits) != document["operation"]["sends"]:
        yield f"{len(submits)} leaves to submit, the operation counts {document['operation']['sends']}"
    if document["operation"]["sends"] - document["operation"]["sends_disproved"] > 1:
        yield "more than one submit is not disproved"
    if document["operation"]["task_id"] is not None and not submits:
        yield "a task without leave to submit"


def _raw(text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from error


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


_CHECKS: tuple[tuple[str, Callable[[Document], Iterator[str]]], ...] = (
    ("The call node advanced on this receipt, after it was written.", _delivered),
    ("There is one terminal receipt, and the operation ended once.", _one_receipt),
    ("The receipt's facts are the operation's facts.", _same_facts),
    ("Every step is legal and begins where the one before ended.", _legal_chain),
    ("The evidence is whole, and its bytes have the digests that were kept.", _whole_evidence),
    ("The payload is the fetched result, byte for byte.", _result_bytes),
    ("Nothing was sent without leave, and at most one submit may have created work.", _permitted),
)
