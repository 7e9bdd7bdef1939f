"""What to do next for an operation: a pure function of where it stands and of the time.

The driver asks once a claim and does exactly one deed. Nothing here reads or writes anything.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime, timedelta

from operations.machine import FINAL, Delivery, Reason, Standing, State

CANCEL_PATIENCE = timedelta(seconds=45)
"""C12: a cancel not settled within this is stated to a person."""
CANCEL_GRACE = timedelta(minutes=10)
"""A cancel gets this long even where the wait budget ends: only then does a person take over (P5, C9)."""
KEY_WINDOW_USED = 0.9
"""The share of a server's key window that is relied on: the rest is margin (X2)."""
MAX_FETCHES = 6
"""Fetches that bring no result before it counts as lost (R2)."""


class Deed(enum.StrEnum):
    """One thing to do for one operation."""

    SUBMIT = "SUBMIT"
    DECLARE_LOST = "DECLARE_LOST"
    """A permit is out and its holder is gone."""
    CLOSE_UNSENT = "CLOSE_UNSENT"
    FIND = "FIND"
    RESUBMIT = "RESUBMIT"
    LOOK = "LOOK"
    EXPIRE_ROUND = "EXPIRE_ROUND"
    DELIVER = "DELIVER"
    GO_ON = "GO_ON"
    """Submit the call again with the answers: they came before there was a task."""
    DOUBT_ANSWER = "DOUBT_ANSWER"
    """The permit for an answer is out and its holder is gone."""
    CANCEL = "CANCEL"
    FETCH = "FETCH"
    ACCEPT = "ACCEPT"
    GIVE_UP_FETCHING = "GIVE_UP_FETCHING"
    AUDIT = "AUDIT"
    END_WAITING = "END_WAITING"
    NO_LOOKUP = "NO_LOOKUP"
    WAIT = "WAIT"
    """Nothing can be done before a person acts or time passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What server and contract offer for this operation."""

    can_look_up: bool
    """A lost submit can be asked for by key, or by a session of ours."""
    replays: bool
    """The server honours the key: sending again is a lookup (class A)."""
    key_window: timedelta
    """Class A: how long it does so, counted from the first send."""
    shut: bool = False
    """The lookup could make a task, as every submit could, and a switch forbids that for now (O5)."""
    listed: timedelta | None = None
    """Class B: how long a task that was made stays in sight of a lookup. None: for ever."""
    repeats_answers: bool = False
    """The contract makes the identical answer harmless, so one whose arrival is unknown is sent again (I7)."""


_WAITING = frozenset(
    {
        State.SUBMITTING,
        State.SUBMISSION_UNKNOWN,
        State.NOT_FOUND_SAFE,
        State.WORKING,
        State.INPUT_REQUIRED,
        State.CANCEL_REQUESTED,
    }
)


def next_deed(row: Standing, means: Means, *, now: datetime) -> Deed:
    """Return the one thing to do now."""
    if row.state in FINAL:
        return Deed.AUDIT if row.state is State.CANCELLED_ACCEPTED and row.task_id else Deed.WAIT
    if row.state in _WAITING and now >= _waiting_ends(row):
        return Deed.END_WAITING
    return _DEEDS[row.state](row, means, now)


def _waiting_ends(row: Standing) -> datetime:
    if row.state is not State.CANCEL_REQUESTED or row.cancel_requested_at is None:
        return row.budget_ends_at
    return max(row.budget_ends_at, row.cancel_requested_at + CANCEL_GRACE)


def _submitting(row: Standing, _means: Means, _now: datetime) -> Deed:
    if row.task_id is not None:
        return Deed.LOOK
    if not row.nothing_sent:
        return Deed.DECLARE_LOST
    return Deed.CLOSE_UNSENT if row.cancel_intent else Deed.SUBMIT


def _can_find(row: Standing, means: Means, now: datetime) -> bool:
    """X2: outside its window a server takes an old key for a new request, or has forgotten an old task."""
    sent_at = row.first_sent_at or now
    window = means.key_window * KEY_WINDOW_USED if means.replays else means.listed
    return means.can_look_up and not means.shut and (window is None or now < sent_at + window)


def _submission_unknown(row: Standing, means: Means, now: datetime) -> Deed:
    if row.task_id is not None:
        return Deed.LOOK
    return Deed.FIND if _can_find(row, means, now) else Deed.NO_LOOKUP


def _not_found_safe(row: Standing, means: Means, now: datetime) -> Deed:
    if row.task_id is not None:
        return Deed.LOOK
    if row.cancel_intent:
        return Deed.CLOSE_UNSENT
    proved = row.reason == Reason.PROVED_ABSENT
    return Deed.RESUBMIT if proved and means.replays and _can_find(row, means, now) else Deed.WAIT


def _input_required(row: Standing, means: Means, now: datetime) -> Deed:
    if row.answer_delivery is Delivery.STORED:
        return Deed.GO_ON if row.round_before_task and row.task_id is None else Deed.DELIVER
    if row.answer_delivery is Delivery.UNCERTAIN and means.repeats_answers:
        return Deed.DELIVER
    if row.answer_delivery is Delivery.PERMITTED:
        return Deed.DOUBT_ANSWER
    if row.round_open and row.round_deadline_at is not None and now >= row.round_deadline_at:
        return Deed.EXPIRE_ROUND
    # Before a task exists there is nothing to look at: the question stands in our ledger only.
    return Deed.WAIT if row.round_before_task and row.task_id is None else Deed.LOOK


def _terminal_observed(row: Standing, _means: Means, _now: datetime) -> Deed:
    return Deed.ACCEPT if row.result_digest else Deed.FETCH


def _fetching_result(row: Standing, _means: Means, _now: datetime) -> Deed:
    if row.result_digest:
        return Deed.ACCEPT
    return Deed.GIVE_UP_FETCHING if row.fetches >= MAX_FETCHES else Deed.FETCH


def _unknown(row: Standing, means: Means, now: datetime) -> Deed:
    if row.task_id is not None:
        return Deed.LOOK
    lost = row.reason != Reason.ID_CLASH and not row.nothing_sent  # A4: whatever ended our waiting
    return Deed.FIND if lost and _can_find(row, means, now) else Deed.WAIT


_DEEDS = {
    State.SUBMITTING: _submitting,
    State.SUBMISSION_UNKNOWN: _submission_unknown,
    State.NOT_FOUND_SAFE: _not_found_safe,
    State.WORKING: lambda _row, _means, _now: Deed.LOOK,
    State.INPUT_REQUIRED: _input_required,
    State.CANCEL_REQUESTED: lambda _row, _means, _now: Deed.CANCEL,
    State.TERMINAL_OBSERVED: _terminal_observed,
    State.FETCHING_RESULT: _fetching_result,
    State.UNKNOWN: _unknown,
}


def is_unconfirmed(row: Standing, *, now: datetime) -> bool:
    """Whether a person must now be told that the cancel is not confirmed (C12)."""
    return (
        row.state is State.CANCEL_REQUESTED
        and not row.cancel_stated
        and row.cancel_requested_at is not None
        and now >= row.cancel_requested_at + CANCEL_PATIENCE
    )
