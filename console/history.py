"""The story of one operation in three lanes: we, the server, people. The picture and the list tell the same events."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy
from django.utils.translation import pgettext_lazy as plazy

from console import words
from operations.machine import FINAL, Event, State

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

    from operations.queries.dossier import Dossier, EvidenceRow, JournalRow, PermitRow, RoundRow


class Lane(enum.StrEnum):
    """Who did it."""

    WE = "we"
    SERVER = "server"
    PEOPLE = "people"


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One event: a dot in the picture, a line in the list."""

    at: datetime
    lane: Lane
    says: str
    tone: str = "work"
    strong: bool = False
    """Drawn filled and with its words in the picture."""
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Something that lasted: a bar in the picture. `until` None: it still lasts."""

    lane: Lane
    since: datetime
    until: datetime | None
    says: str
    tone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """All of it, oldest first."""

    happenings: tuple[Happening, ...]
    stretches: tuple[Stretch, ...]
    way: tuple[State, ...]
    """The states it came through before the present one, oldest first."""
    starts_at: datetime
    ends_at: datetime | None
    """None: it is still open."""
    first_end_at: datetime | None
    """When an end of the server's work was first seen, whatever became of it."""
    completed_too: bool
    """A completion was seen after the cancel had won (C4)."""


_NOTES: Mapping[str, _StrPromise] = MappingProxyType(
    {
        Event.TASK_NAMED: lazy("The server named a task"),
        Event.ASKED: lazy("The server asked a question; routine looking paused"),
        Event.RESUMED: lazy("The server went on working"),
        Event.ENDED: lazy("The server's task was seen ended"),
        Event.ANSWER_LOST: lazy("The submit was sent, its answer was lost"),
        Event.NOTHING_CREATED: lazy("It was proved that nothing was created"),
        Event.REQUEST_REFUSED: lazy("The request was refused"),
        Event.RESUBMIT: lazy("To be sent again: same key, same bytes, after proof"),
        Event.CONTINUE: lazy("To be continued with the answer, under the same key"),
        Event.CANCEL_PRESSED: lazy("Cancel requested"),
        Event.CANCEL_DUE: lazy("The task was seen for which a cancel was requested; the server is asked now"),
        Event.CANCEL_WON: lazy("The cancel won"),
        Event.FETCH_STARTED: lazy("Fetching the result began"),
        Event.RESULT_ACCEPTED: lazy("The result was accepted"),
        Event.RESULT_UNUSABLE: lazy("The result could not be used; a person was called"),
        Event.CONTRADICTED: lazy("Two different endings were seen; a person was called"),
        Event.NOT_FOUND: lazy("The server did not know the task any more"),
        Event.NO_LOOKUP: lazy("No lookup can settle the lost submit; a person was called"),
        Event.BUDGET_ENDED: lazy("Our waiting time was over; a person was called"),
        Event.ID_CLASH: lazy("The task id turned up on another operation; a person was called"),
        Event.VERDICT: lazy("Closed by a person's verdict"),
        "ANSWER_STORED": lazy("An answer was stored"),
        "VOTE_STORED": lazy("A vote was stored; it takes more people to agree"),
        "VOTE_WITHDRAWN": lazy("A vote was taken back"),
        "ANSWER_SENT": lazy("The answer was sent"),
        "ANSWER_USED": lazy("The server used the answer"),
        "CANCEL_ASKED": lazy("Cancel requested before anything was sent"),
        "CANCEL_INTENT": lazy("Cancel requested; the server is asked as soon as a look shows the task"),
        "CANCEL_NOT_OFFERED": lazy("Cancel wished; this server cannot cancel"),
        "CANCEL_PRESSED_AGAIN": lazy("Cancel pressed again; nothing changed"),
        "CANCEL_ACKNOWLEDGED": lazy("The server took note of the cancel"),
        "CANCEL_REFUSED": lazy("The server refused the cancel; a look decides"),
        "CANCEL_LOST": lazy("The answer to the cancel was lost; a look decides"),
        "CANCEL_NOT_CONFIRMED": lazy("The cancel was not confirmed in its time; this was stated to a person"),
        "LOOK_ORDERED": lazy("A person asked for a look now"),
        "ROUND_CLAIMED": lazy("Somebody took the question on"),
        "ROUND_RELEASED": lazy("The question was given back"),
        "ROUND_EXTENDED": lazy("The question got more time"),
        "ROUND_EXPIRED": lazy("The question's time was over; nothing was approved"),
        "QUESTION_RENAMED": lazy(
            "The server repeated its question under another id of its own; it is the same question"
        ),
        "QUESTION_AFTER_CANCEL": lazy("A question came after the cancel: kept, never asked"),
        "SUBMITTED": lazy("The call node submitted the call"),
        "PROTOCOL_STATUS": lazy("The server's word changed"),
        "LATE_ID": lazy("The server's name for a lost task arrived late"),
        "VERDICT_PROPOSED": lazy("A verdict was proposed; a second person has to confirm it"),
        "VERDICT_WITHDRAWN": lazy("A proposed verdict was taken back or turned down"),
        "TASK_BOUND": lazy("A person found the task and bound its id"),
        "LATE_END": lazy("The task was seen to have ended otherwise, after the receipt; the receipt stands"),
        "LOOKED": lazy("Looked again; a person still has to decide"),
        "NOTHING_USABLE": lazy("The server's answer could not be used; it is kept as evidence"),
        "SECOND_TASK": lazy("The same key brought a second task"),
        "REPLAY_FAILED": lazy("The lookup by the same key brought no task"),
        "RESTORED": lazy("The ledger came back from a backup; what happened after the backup is not in it"),
        "LATE_PROOF": lazy("It was proved later that a submit had created nothing"),
        "ANSWER_UNCERTAIN": lazy("The answer was sent; whether it arrived is not known"),
        "ANSWER_REPEATED": lazy("The server still asks and may not have got the answer; the same answer is sent again"),
        "ANSWER_VOID": lazy("The answer was not sent and is void"),
        "SESSION_OPENED": lazy("A session was opened at the server"),
        "SESSION_LOST": lazy("The session at the server was lost"),
        "SUBMIT_NOT_SENT": lazy("The submit did not leave this machine"),
        "RESULT_FETCHED": lazy("The result was fetched"),
        "RESULT_MASKED": lazy("The result held a known credential; it was masked before anything was read"),
        "FETCH_AGAIN": lazy("Fetching was tried again"),
        "OVERHEARD": lazy("A question came on the server's own stream"),
        "GO_ON_AT_ONCE": lazy("The server wants the call again, with its own state; no answer is needed"),
        "ANOMALY": lazy("The server said something its contract does not know"),
        "AUDIT_LOOK": lazy("One look after the cancel, for the record"),
    }
)
_AFTER_THE_RECEIPT = frozenset({"AUDIT_LOOK", "LATE_END"})
_FACTS: Mapping[str, _StrPromise] = MappingProxyType(
    {
        "answer out": lazy("an answer had been let out"),
        "second task": lazy("the same key brought a second task"),
        "late completed": lazy("it was seen completed after the receipt"),
        "late failed": lazy("it was seen failed after the receipt"),
        "late cancelled": lazy("it was seen cancelled after the receipt"),
    }
)
"""What an effect record knows of what happened outside."""
_BY_SERVER = frozenset(
    {Event.TASK_NAMED, Event.ASKED, Event.RESUMED, Event.ENDED, Event.NOT_FOUND, Event.REQUEST_REFUSED}
    | {"CANCEL_ACKNOWLEDGED", "CANCEL_REFUSED", "ANSWER_USED", "ANOMALY", "PROTOCOL_STATUS"}
)
_LABELLED: Mapping[str, _StrPromise] = MappingProxyType(
    {
        Event.CANCEL_PRESSED: lazy("cancel requested"),
        "CANCEL_INTENT": lazy("cancel requested"),
        "CANCEL_ASKED": lazy("cancel requested"),
        Event.RESULT_ACCEPTED: lazy("accepted"),
        Event.CANCEL_WON: lazy("cancelled"),
        Event.VERDICT: lazy("verdict"),
        Event.ENDED: lazy("ended"),
        Event.REQUEST_REFUSED: lazy("refused"),
        Event.ANSWER_LOST: lazy("answer lost"),
        Event.NOT_FOUND: lazy("not found"),
    }
)


def event_words(name: str) -> str:
    """Say what a line of the journal records; an unknown name is shown as it is."""
    known = _NOTES.get(name)
    return str(known) if known else name


def fact_words(name: str) -> str:
    """Say a fact of an effect record; an unknown one is shown as it is."""
    known = _FACTS.get(name)
    return str(known) if known else name


def tell(
    op: Dossier,
    *,
    journal: Sequence[JournalRow],
    rounds: Sequence[RoundRow],
    permits: Sequence[PermitRow],
    evidence: Sequence[EvidenceRow],
) -> Story:
    """Tell the story from what the ledger holds."""
    steps, won = [row for row in journal if row.is_step], op.state is State.CANCELLED_ACCEPTED
    return Story(
        happenings=tuple(
            sorted(
                [
                    Happening(
                        at=op.created_at, lane=Lane.WE, says=_("The call was entered in the ledger, with its key")
                    ),
                    *_permits(permits),
                    *_wire(evidence),
                    *_journal(journal),
                    *_answers(rounds),
                ],
                key=lambda happening: happening.at,
            )
        ),
        stretches=(*_states(op, steps), *_server_words(op, journal), *_rounds(rounds)),
        way=tuple(State(row.source) for row in steps),
        starts_at=op.created_at,
        ends_at=op.entered_at if op.is_final else None,
        first_end_at=next((row.at for row in journal if _is_end(row) and (won or row.event != "LATE_END")), None),
        completed_too=any(row.event in _AFTER_THE_RECEIPT and _is_end(row) for row in journal),
    )


def _is_end(row: JournalRow) -> bool:
    if row.event in _AFTER_THE_RECEIPT:
        return row.detail.get("status") in {"completed", "failed"}
    return row.event == Event.ENDED


def _permits(permits: Sequence[PermitRow]) -> list[Happening]:
    named = {"SUBMIT": _("submit"), "ANSWER": _("answer"), "CANCEL": _("cancel"), "REPLAY": _("the same submit again")}
    return [
        Happening(
            at=row.given_at,
            lane=Lane.WE,
            says=_("Leave to send: %(what)s. From here on bytes may have left")
            % {"what": named.get(row.kind, row.kind)},
            strong=True,
            label=named.get(row.kind, row.kind),
        )
        for row in permits
    ]


def _wire(evidence: Sequence[EvidenceRow]) -> list[Happening]:
    return [
        Happening(
            at=row.at,
            lane=Lane.SERVER,
            says=_("On the wire: %(what)s") % {"what": row.label}
            + (f", HTTP {row.http_status}" if row.http_status else "")
            + ("" if row.complete else _(", cut off")),
            tone="bad" if (row.http_status or 0) >= 400 else "work" if row.complete else "wait",  # noqa: PLR2004
        )
        for row in evidence
        if row.kind == "wire"
    ]


def _journal(journal: Sequence[JournalRow]) -> list[Happening]:
    return [
        Happening(
            at=row.at,
            lane=_lane(row),
            says=_says(row),
            tone=words.look_of(row.target).tone if row.is_step else "bad" if row.is_refused else "work",
            strong=row.event in _LABELLED,
            label=str(_LABELLED.get(row.event, "")),
        )
        for row in journal
        if not row.event.startswith("PERMIT_")
    ]


def _lane(row: JournalRow) -> Lane:
    if row.actor.startswith(("person:", "client:")):
        return Lane.PEOPLE
    return Lane.SERVER if row.event in _BY_SERVER else Lane.WE


def _says(row: JournalRow) -> str:
    if row.is_refused:
        return _not_taken(row)
    said = event_words(row.event)
    if row.event == "PROTOCOL_STATUS":
        said = _("The server says “%(status)s”. %(message)s") % {
            "status": row.detail.get("status", ""),
            "message": row.detail.get("message", ""),
        }
    name = actor_words(row.actor)
    return f"{said} ({name})" if name else said


_FATES: Mapping[str, _StrPromise] = MappingProxyType(
    {
        "ANSWERED": lazy("%(winner)s had answered first"),
        "EXPIRED": lazy("the time of its round was over"),
        "CLOSED": lazy("its round had been closed"),
        "CHANGED": lazy("the question was not the one that had been shown"),
        "OTHER_ROUND": lazy("another round was being asked"),
    }
)


def _not_taken(row: JournalRow) -> str:
    name, fate = actor_words(row.actor), _FATES.get(str(row.detail.get("fate", "")))
    if fate is None:
        said = _("Not taken: %(why)s") % {"why": row.detail.get("refused") or row.event}
        return f"{said} ({name})" if name else said
    why = str(fate) % {"winner": actor_words(str(row.detail.get("won_by", "")))}
    return _("The answer of %(who)s was not taken: %(why)s") % {"who": name or _("the executor"), "why": why}


def actor_words(actor: str) -> str:
    """Say who acted: a person by name, a call node by its client; our own executor is not named."""
    kind, _sep, name = actor.partition(":")
    if kind == "client":
        return _("call node of %(client)s") % {"client": name}
    return name if kind == "person" else ""


_ANSWERS = {
    "accept": plazy("an answer", "accept"),
    "decline": plazy("an answer", "decline"),
    "cancel": plazy("an answer", "cancel"),
}


def _answers(rounds: Sequence[RoundRow]) -> list[Happening]:
    return [
        Happening(
            at=row.answered_at,
            lane=Lane.PEOPLE,
            says=_("%(who)s answered round %(number)d: %(what)s")
            % {
                "who": actor_words(row.answered_by),
                "number": row.number,
                "what": ", ".join(str(_ANSWERS.get(one, one)) for one in row.actions),
            },
            tone="ok",
            strong=True,
            label=actor_words(row.answered_by),
        )
        for row in rounds
        if row.answered_at is not None
    ]


def _states(op: Dossier, steps: Sequence[JournalRow]) -> list[Stretch]:
    """Turn the steps into bars: what we could say, and from when to when."""
    starts = [(op.created_at, State(steps[0].source) if steps else op.state)]
    starts += [(row.at, State(row.target)) for row in steps]
    ends = [at for at, _state in starts[1:]] + [None]
    return [
        Stretch(
            lane=Lane.WE,
            since=since,
            until=until,
            says=str(words.look_of(state).word),
            tone=words.look_of(state).tone,
        )
        for (since, state), until in zip(starts, ends, strict=True)
        if state not in FINAL
    ]


_WORD_TONES: Mapping[str, str] = MappingProxyType(
    {"working": "work", "input_required": "wait", "completed": "ok", "failed": "bad", "cancelled": "off"}
)


def _server_words(op: Dossier, journal: Sequence[JournalRow]) -> list[Stretch]:
    """Turn the changes of the server's word into bars; its words stay quoted (L6)."""
    changes: list[tuple[datetime, str]] = []
    for row in journal:
        word = str(row.detail.get("status", ""))
        if row.event == "PROTOCOL_STATUS" and word and (not changes or changes[-1][1] != word):
            changes.append((row.at, word))
    if not changes:
        return []
    end = op.entered_at if op.is_finished else None
    ends = [at for at, _word in changes[1:]] + [end]
    return [
        Stretch(
            lane=Lane.SERVER,
            since=since,
            until=until,
            says=f"\N{LEFT DOUBLE QUOTATION MARK}{word}\N{RIGHT DOUBLE QUOTATION MARK}",
            tone=_WORD_TONES.get(word, "unk"),
        )
        for (since, word), until in zip(changes, ends, strict=True)
        if until is None or until > since
    ]


def _rounds(rounds: Sequence[RoundRow]) -> list[Stretch]:
    return [
        Stretch(
            lane=Lane.PEOPLE,
            since=row.opened_at,
            until=row.answered_at or row.closed_at,
            says=_("round %(number)d") % {"number": row.number},
            tone="wait",
        )
        for row in rounds
    ]
