"""Which verdicts the evidence allows a person on the reconciliation desk, and which need two (X2 to X4, W).

Pure: the desk's pages show this list, and the ledger holds every verdict against it again.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from operations.machine import FINAL, Reason, Standing, State


class Verdict(enum.StrEnum):
    """What a person says of an operation that stands before them."""

    FOUND = "FOUND"
    """The task was found: its id is bound, and looking decides the rest."""
    RESUBMIT = "RESUBMIT"
    """Nothing was created: submit again, same key and same bytes."""
    NEVER_CREATED = "NEVER_CREATED"
    """Nothing was created: close it."""
    EVIDENCED = "EVIDENCED"
    """It ended, and status and result are in evidence: on to acceptance (X3)."""
    ESTABLISHED_OUTSIDE = "ESTABLISHED_OUTSIDE"
    """The outcome was found out by other means, with a document."""
    GAVE_UP = "GAVE_UP"
    """The outcome stays unknown: close it, and say so to the call node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What a verdict is judged on."""

    row: Standing
    has_effects: bool
    """The tool may have effects outside."""
    deduplicates: bool
    """Class A: the server itself honours the submission key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One verdict as the desk offers it."""

    verdict: Verdict
    against: str
    """Why the evidence does not allow it, in a sentence; empty when it does."""
    second_person: bool

    @property
    def allowed(self) -> bool:
        """Whether the evidence allows it."""
        return not self.against


def options(case: Case) -> tuple[Option, ...]:
    """Return every verdict, allowed or with what stands against it."""
    return tuple(
        Option(
            verdict=verdict,
            against=_closed(case) or against(case),
            second_person=_needs_second(verdict, case),
        )
        for verdict, against in _AGAINST.items()
    )


def option(verdict: Verdict, case: Case) -> Option:
    """Return one verdict's option."""
    return next(found for found in options(case) if found.verdict is verdict)


def _closed(case: Case) -> str:
    if case.row.state in FINAL:
        return "The operation has ended and has its receipt."
    if case.row.state not in {State.UNKNOWN, State.SUBMISSION_UNKNOWN, State.NOT_FOUND_SAFE}:
        return "The operation goes on by itself; nobody has to decide."
    return ""


def _needs_second(verdict: Verdict, case: Case) -> bool:
    if verdict is Verdict.RESUBMIT:
        # A repairable refusal of the very first send is no risk; an absence that was looked up is (X2).
        return not case.deduplicates and case.row.reason == Reason.PROVED_ABSENT
    if verdict is Verdict.GAVE_UP:
        return case.has_effects and not case.row.nothing_exists
    return verdict is Verdict.ESTABLISHED_OUTSIDE


def _against_found(case: Case) -> str:
    if case.row.task_id is not None:
        return "A task is bound already."
    return "Nothing was ever sent." if case.row.nothing_sent and case.row.sends == 0 else ""


_NO_PROOF = "Only the server's proof by the submission key shows that nothing was created."


def _against_never_created(case: Case) -> str:
    return "" if case.row.state is State.NOT_FOUND_SAFE and case.row.nothing_exists else _NO_PROOF


def _against_resubmit(case: Case) -> str:
    if case.row.cancel_intent:
        return "A cancel was asked; it is never submitted again."
    # Where a question came before a task, its next attempt can be absent although the tool has run.
    absent = case.row.state is State.NOT_FOUND_SAFE and case.row.nothing_sent and case.row.task_id is None
    return "" if absent else _NO_PROOF


def _against_evidenced(case: Case) -> str:
    if case.row.state is not State.UNKNOWN or case.row.terminal_status is None:
        return "No terminal status has been seen."
    if case.row.result_digest is None:
        return "A terminal status alone is not a result; its bytes are not in evidence."
    if case.row.reason in {Reason.RESULT_INVALID, Reason.CONTRADICTED, Reason.ID_CLASH}:
        return "The evidence contradicts itself or the result was refused."
    return ""


def _against_closing(case: Case) -> str:
    if case.row.state is State.SUBMISSION_UNKNOWN or (case.row.state is State.NOT_FOUND_SAFE and case.row.task_id):
        return "The lookup is still under way."
    if case.row.state is State.NOT_FOUND_SAFE and case.row.nothing_exists:
        return "Nothing was created, and that is known: close it as never created."
    return ""


_AGAINST: dict[Verdict, Callable[[Case], str]] = {
    Verdict.FOUND: _against_found,
    Verdict.RESUBMIT: _against_resubmit,
    Verdict.NEVER_CREATED: _against_never_created,
    Verdict.EVIDENCED: _against_evidenced,
    Verdict.ESTABLISHED_OUTSIDE: _against_closing,
    Verdict.GAVE_UP: _against_closing,
}
