"""What people decide on the reconciliation desk (X4): verdicts on operations, and on effect records."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from django.db import IntegrityError, connection, transaction

from adapters import strictjson
from adapters.contract import Lookup
from operations.ledger import rounds, trail
from operations.ledger.acceptance import Facts, accept_terminal
from operations.ledger.batches import RowKey
from operations.ledger.looks import STILL_NOT_FOUND
from operations.ledger.step import Change, LedgerError, Moved, Step, perform, read
from operations.machine import FINAL, Event, Outcome, Reason, StaleStep, StepError
from operations.models import Effect, EffectStatus
from operations.verdicts import Case, Option, Verdict, option, options


class NotAllowedByEvidence(StepError):
    """The evidence does not allow this verdict; the message says what stands against it."""


class NeedsSecondPerson(StepError):
    """This verdict needs somebody else's confirmation: propose it (W)."""


class NoSuchProposal(LedgerError):
    """There is no open proposal with this id."""


LARGEST_DOCUMENT = 1_000_000
"""Bytes of what can be attached to a verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What somebody attaches to a verdict: it is kept as evidence, with the digest of its bytes."""

    name: str
    raw: bytes = field(repr=False)
    media_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ruling:
    """A verdict with everything that was said for it."""

    verdict: Verdict
    seen_version: int
    by: str
    reason: str
    content: Mapping[str, str]
    document: Document | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What came of a verdict: carried out, or waiting for a second person."""

    operation: str
    proposal: str | None
    moved: Moved


def look_now(operation: str, *, by: str, now: datetime, also: Change | None = None) -> Moved:
    """Make the operation due at top priority. Raises NotAllowedByEvidence on an ended one.

    `also` writes its part in the same transaction.
    """

    def change(step: Step) -> None:
        if step.row.state in FINAL:
            raise NotAllowedByEvidence("the operation has ended; there is nothing left to look up")
        step.note("LOOK_ORDERED")
        step.wake()
        _do_also(step, also)

    return perform(operation, change, now=now, actor=by)


def _do_also(step: Step, also: Change | None) -> None:
    if also is not None:
        also(step)


def verdict_options(operation: str) -> tuple[Option, ...]:
    """Return every verdict for this operation, with what stands against it."""
    return options(_case(operation))


def _case(operation: str) -> Case:
    row = read([operation])[operation]
    with connection.cursor() as cursor:
        cursor.execute("SELECT lookup FROM server WHERE slug = %s", [row.server_id])
        lookup = Lookup(cursor.fetchone()[0])
    has_effects, deduplicates = row.effect != Effect.NONE, lookup is Lookup.SAME_KEY_REPLAY
    return Case(row=row, has_effects=has_effects, deduplicates=deduplicates)


def judge(
    operation: str,
    verdict: Verdict,
    *,
    seen_version: int,
    by: str,
    reason: str,
    content: Mapping[str, str] | None = None,
    document: Document | None = None,
    now: datetime,
    also: Callable[[Step, str | None], None] | None = None,
) -> Judged:
    """Carry a verdict out, or keep it as a proposal where a second person has to confirm it.

    `content` holds what the verdict needs: `task_id` for FOUND, `outcome` for
    ESTABLISHED_OUTSIDE. `document` is kept as evidence, that of a proposal at once. `also` writes its
    part in the same transaction, and is told the proposal's id, None without one. Raises
    NotAllowedByEvidence, and StaleStep when the operation has moved in a way that a person would have to
    know of since the page was shown.
    """
    case = _case(operation)
    found = option(verdict, case)
    ruling = _Ruling(
        verdict=verdict,
        seen_version=seen_version,
        by=by,
        reason=reason,
        content=dict(content or {}),
        document=document,
    )
    if not found.second_person or found.against:
        told = None if also is None else partial(_told, also, None)
        moved = _carry_out(operation, case, ruling, now=now, also=told)
        return Judged(operation=operation, proposal=None, moved=moved)
    proposal = uuid.uuid4()

    def change(step: Step) -> None:
        _unmoved(step, seen_version)
        step.note("VERDICT_PROPOSED", detail={"verdict": verdict.value, "proposal": str(proposal)})
        step.because(reason)
        content = _with_document(step, ruling)
        step.write(
            """UPDATE verdict_proposal SET confirmed = false, decided_by = %s, decided_at = %s
            WHERE operation_id = %s AND confirmed IS NULL""",
            [by, now, operation],
        )
        step.write(
            """INSERT INTO verdict_proposal (id, operation_id, verdict, seen_version, by, at, reason,
                content, decided_by) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, '')""",
            [proposal, operation, verdict, step.row.version, by, now, reason, json.dumps(content)],
        )
        if also is not None:
            also(step, str(proposal))

    moved = perform(operation, change, now=now, actor=by)
    return Judged(operation=operation, proposal=str(proposal), moved=moved)


def _with_document(step: Step, ruling: _Ruling) -> dict[str, str]:
    """Keep the document as evidence; return what was said, with the number under which it stands there."""
    content, document = dict(ruling.content), ruling.document
    if document is not None:
        name = strictjson.printable(document.name)[:200]
        step.keep_raw(kind="document", label=name, raw=document.raw, media_type=document.media_type)
        content["document"] = f"{step.row.evidence_count}. {name}"
    return content


def _told(also: Callable[[Step, str | None], None], proposal: str | None, step: Step) -> None:
    also(step, proposal)


def confirm(proposal: str, *, by: str, now: datetime, also: Change | None = None) -> Moved:
    """Carry a proposed verdict out as its second person.

    Raises NoSuchProposal, NeedsSecondPerson for the proposer's own confirmation, and StaleStep
    when the operation has moved since it was proposed.
    """
    operation, ruling = _proposal(proposal)

    def both(step: Step) -> None:
        if by == ruling.by:
            raise NeedsSecondPerson("the person who proposed a verdict cannot confirm it")
        _still_open(proposal)
        step.write(
            "UPDATE verdict_proposal SET confirmed = true, decided_by = %s, decided_at = %s WHERE id = %s",
            [by, now, proposal],
        )
        _do_also(step, also)

    together = replace(ruling, by=f"{ruling.by} and {by}")
    return _carry_out(operation, _case(operation), together, now=now, confirmed=both)


def _proposal(proposal: str) -> tuple[str, _Ruling]:
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT operation_id::text, verdict, seen_version, by, reason, content::text
            FROM verdict_proposal WHERE id = %s AND confirmed IS NULL""",
            [proposal],
        )
        found = cursor.fetchone()
    if found is None:
        raise NoSuchProposal(proposal)
    operation, verdict, seen_version, by, reason, content = found
    return operation, _Ruling(
        verdict=Verdict(verdict), seen_version=seen_version, by=by, reason=reason, content=json.loads(content)
    )


def _still_open(proposal: str) -> None:
    """Ask again under the operation's lock: a confirmation and a withdrawal may come at once."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT confirmed IS NULL FROM verdict_proposal WHERE id = %s", [proposal])
        if not cursor.fetchone()[0]:
            raise NotAllowedByEvidence("Somebody has decided this proposal meanwhile.")


def withdraw(proposal: str, *, by: str, now: datetime, also: Change | None = None) -> Moved:
    """Take a proposed verdict back, or refuse it as somebody else."""
    operation, ruling = _proposal(proposal)

    def change(step: Step) -> None:
        _still_open(proposal)
        step.note("VERDICT_WITHDRAWN", detail={"verdict": ruling.verdict.value})
        step.write(
            "UPDATE verdict_proposal SET confirmed = false, decided_by = %s, decided_at = %s WHERE id = %s",
            [by, now, proposal],
        )
        _do_also(step, also)

    return perform(operation, change, now=now, actor=by)


def _unmoved(step: Step, seen_version: int) -> None:
    """Raise StaleStep where anything has come since that a person would have to know of.

    What stands before a person is looked at on and on, and each look leaves its trace: one that saw what the
    look before it had seen must not take a verdict, or a second person's confirmation, out of their hands (X4).
    """
    if step.row.version != seen_version and _has_news(step, seen_version):
        raise StaleStep("version", held=seen_version, now=step.row.version)


def _has_news(step: Step, seen_version: int) -> bool:
    row = step.row
    known = STILL_NOT_FOUND if row.reason in {Reason.NOT_FOUND, Reason.NOT_FOUND_AFTER_CANCEL} else row.protocol_status
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT EXISTS (SELECT FROM (
                SELECT version, event, detail->>'status' AS said,
                    lag(detail->>'status', 1, %s) OVER (PARTITION BY event ORDER BY id) AS before
                FROM journal WHERE operation_id = %s AND kind IN ('STEP', 'NOTE')) j
            WHERE version > %s AND event <> 'LOOK_ORDERED' AND NOT (event = 'LOOKED' AND said = before))""",
            [known, row.id, seen_version],
        )
        return bool(cursor.fetchone()[0])


def _carry_out(
    operation: str,
    case: Case,
    ruling: _Ruling,
    *,
    now: datetime,
    confirmed: Change | None = None,
    also: Change | None = None,
) -> Moved:
    def change(step: Step) -> None:
        _unmoved(step, ruling.seen_version)
        found = option(ruling.verdict, replace(case, row=step.row))
        if found.against:
            raise NotAllowedByEvidence(found.against)
        if confirmed is not None:
            confirmed(step)
        elif found.second_person:
            # The row has moved between the reading of the case and this lock.
            raise NeedsSecondPerson("this verdict has come to need a second person")
        content = _with_document(step, ruling)
        said = {"verdict": ruling.verdict.value, "by": ruling.by, "reason": ruling.reason, **content}
        step.keep_raw(
            kind="verdict",
            label=ruling.verdict.value,
            raw=json.dumps(said).encode(),
            media_type="application/json",
        )
        _STEPS[ruling.verdict](step, ruling.reason, ruling.content)
        step.because(ruling.reason)
        _do_also(step, also)

    try:
        return perform(operation, change, now=now, actor=ruling.by)
    except IntegrityError:
        # Another operation took the task since it was looked for (P8).
        raise NotAllowedByEvidence("that task has just been bound to another operation") from None


def _found(step: Step, _reason: str, content: Mapping[str, str]) -> None:
    task_id = content.get("task_id", "")
    if not task_id or strictjson.printable(task_id) != task_id:
        raise NotAllowedByEvidence("the verdict needs the id of the task that was found")
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT id::text FROM operation WHERE server_id = %s AND protocol = %s
                AND md5(task_id) = md5(%s) AND task_id = %s""",
            [step.row.server_id, step.row.protocol, task_id, task_id],
        )
        if other := cursor.fetchone():
            raise NotAllowedByEvidence(f"that task belongs to operation {other[0]} (P8)")
    # A clash is settled by it: the task that this call made is another (P8).
    reason = Reason.SUBMIT_LOST if step.row.reason == Reason.ID_CLASH else step.row.reason
    rounds.supersede(step)  # I7: there is no next attempt that an answer in store could travel with
    step.note("TASK_BOUND", detail={"task_id": task_id}, task_id=task_id, reason=reason)
    step.wake()


def _resubmit(step: Step, _reason: str, _content: Mapping[str, str]) -> None:
    step.move(Event.RESUBMIT, not_found="")
    step.wake()


def _evidenced(step: Step, _reason: str, _content: Mapping[str, str]) -> None:
    step.move(Event.ENDED)
    step.wake()


def _close(verdict: Verdict) -> Callable[[Step, str, Mapping[str, str]], None]:
    def close(step: Step, reason: str, content: Mapping[str, str]) -> None:
        outcome = content.get("outcome", "")
        accept_terminal(
            step,
            Facts.held_by(step.row),
            event=Event.VERDICT,
            outcome=Outcome.RECONCILED,
            verdict=f"{verdict.value}: {outcome}" if outcome else verdict.value,
            summary=reason[:2000],
        )

    return close


_STEPS: dict[Verdict, Callable[[Step, str, Mapping[str, str]], None]] = {
    Verdict.FOUND: _found,
    Verdict.RESUBMIT: _resubmit,
    Verdict.NEVER_CREATED: _close(Verdict.NEVER_CREATED),
    Verdict.EVIDENCED: _evidenced,
    Verdict.ESTABLISHED_OUTSIDE: _close(Verdict.ESTABLISHED_OUTSIDE),
    Verdict.GAVE_UP: _close(Verdict.GAVE_UP),
}


class EffectDecided(LedgerError):
    """Somebody else has decided this effect record meanwhile, or there is none."""


def decide_effect(
    operation: str, status: EffectStatus, *, by: str, note: str, link: str = "", owner: str = "", now: datetime
) -> None:
    """Say what happened outside: nothing, compensated, or still open with an owner (C6).

    The first decision that ends the record stands: raises EffectDecided after it.
    """
    parameters: list[Any] = [status, by, now, note, link, owner, operation]
    target, after = f"operation:{operation}", {"status": status.value, **({"owner": owner} if owner else {})}
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            """UPDATE effect_record SET status = %s, decided_by = %s, decided_at = %s, note = %s,
                link = %s, owner = %s WHERE operation_id = %s AND status IN ('OPEN', 'STILL_OPEN')""",
            parameters,
        )
        decided = bool(cursor.rowcount)
        if decided:
            trail.audit(by, "EFFECT_DECIDED", target, now=now, reason=note, after=after)
    if not decided:
        trail.audit_refused(by, "EFFECT_DECIDED", target, now=now, reason="there is no open effect record of it")
        raise EffectDecided(operation)


def claim_item(operation: str, *, by: str, now: datetime, row: RowKey | None = None) -> None:
    """Say who works on a desk item. The newest claim stands. `row`: the row of a batch that it is done for."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO desk_claim (operation_id, by, at) VALUES (%s, %s, %s)
            ON CONFLICT (operation_id) DO UPDATE SET by = EXCLUDED.by, at = EXCLUDED.at""",
            [operation, by, now],
        )
        trail.audit(by, "ITEM_CLAIMED", f"operation:{operation}", now=now)
        if row is not None:
            cursor.execute(
                """UPDATE batch_row SET status = 'DONE', came = 'CLAIMED', done_at = %s
                WHERE batch_id = %s AND number = %s AND status = 'WAITING'""",
                [now, row.batch, row.number],
            )


def release_item(operation: str, *, by: str, now: datetime) -> bool:
    """Give a desk item back. False: somebody else holds it, or nobody does."""
    target = f"operation:{operation}"
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("DELETE FROM desk_claim WHERE operation_id = %s AND by = %s", [operation, by])
        released = bool(cursor.rowcount)
        if released:
            trail.audit(by, "ITEM_RELEASED", target, now=now)
        else:
            trail.refused_within(
                by, "ITEM_RELEASED", target, now=now, reason="it is not this person's claim", server=""
            )
    return released
