"""Answers to rounds: bound to their round, counted under the round's policy, stored before delivered (I3, I5, I6, R9).

`answer_round` is the one door: every page, command and test comes through it. What a vote needs is asked here, under
the operation's lock: the round as it is, the policy it was opened under, and each person's rights of this moment.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from django.db import connection

from adapters import strictjson
from operations.approval import Ballot, Bar, Matter, People, Policy, Tally, decides, may_decide, tally
from operations.ledger.step import Moved, Step, perform
from operations.machine import Delivery, State, StepError
from operations.models import RoundStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenReply:
    """One person's answer to one question. `content` is the JSON text of an object, or None."""

    key: str
    action: str
    content: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFate:
    """What has become of the round somebody wanted to answer."""

    status: str
    """ANSWERED, EXPIRED, CLOSED, CHANGED or OTHER_ROUND."""
    reason: str = ""
    by: str = ""
    at: datetime | None = None
    replies: tuple[GivenReply, ...] = ()
    newest_round: int = 0
    refused_at: datetime | None = None
    """When this very form was turned away first, where it had been before."""


class RoundGone(StepError):
    """The answer was not taken: its round is over, or it was given to another question (I3)."""

    def __init__(self, fate: RoundFate, *, form_id: uuid.UUID | None = None) -> None:
        super().__init__(f"the round is gone: {fate.status}")
        self.fate = fate
        self._form = str(form_id or "")

    def detail(self) -> dict[str, str | int | None]:
        """Why, who won, which round is the newest, and which form was turned away."""
        told: dict[str, str | int | None] = {"fate": self.fate.status, "won_by": self.fate.by, "form": self._form}
        told |= {"refused": str(self), "newest_round": self.fate.newest_round}
        return told


class MayNotDecide(StepError):
    """This person may not answer this round. `bar` says what stands against it; nothing was recorded as an answer."""

    def __init__(self, bar: Bar) -> None:
        super().__init__(f"may not answer: {bar.value}")
        self.bar = bar

    def detail(self) -> dict[str, str | int | None]:
        """What stands against it."""
        return {"refused": str(self), "bar": self.bar.value}


class NoVote(StepError):
    """There is no standing vote of this person that could be taken back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """An answer is stored. `again`: this very form had been recorded before (R9)."""

    operation: str
    round: int
    again: bool
    decided: bool = True
    """False: it is one vote of several that the policy wants; nothing leaves yet."""
    missing: int = 0
    """How many more people have to give the very same answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """One form as it came, with what only the ledger adds."""

    round: int
    form_id: uuid.UUID
    by: str
    replies: Sequence[GivenReply] = field(repr=False)
    comment: str
    as_shown_digest: str
    now: datetime

    @property
    def accepts(self) -> bool:
        return any(reply.action == "accept" for reply in self.replies)

    @property
    def ballot(self) -> Ballot:
        return Ballot(by=self.by, digest=answer_digest(self.replies), accepts=self.accepts, at=self.now)


def answer_digest(replies: Sequence[GivenReply]) -> str:
    """Identify an answer: the same values to the same questions give the same digest, however they are written."""
    return strictjson.digest_of([[reply.key, reply.action, _value(reply.content)] for reply in replies])


def _value(content: str | None) -> object:
    if content is None:
        return None
    try:
        return strictjson.parse(content.encode())
    except (strictjson.BadJson, UnicodeEncodeError):
        return content


def answer_round(
    operation: str,
    *,
    round: int,
    request_digest: str,
    as_shown_digest: str,
    form_id: uuid.UUID,
    replies: Sequence[GivenReply],
    by: str,
    people: People,
    comment: str = "",
    now: datetime,
) -> Recorded:
    """Take one person's answer to a round; make it due for delivery once enough people have given it (I3, I6).

    `people` reads the rights of persons as they are now. Raises MayNotDecide, and RoundGone with who won where the
    round is over or another one. A page that is reloaded sends the same form again: that is told the same and adds
    nothing to the journal (R9).
    """
    given = _Given(
        round=round,
        form_id=form_id,
        by=by,
        replies=replies,
        comment=comment,
        as_shown_digest=as_shown_digest,
        now=now,
    )
    again, told_before, counted = False, None, None

    def change(step: Step) -> None:
        nonlocal again, told_before, counted
        again = _recorded(operation, form_id)  # R9: asked under the row's lock, two posts may come at once
        if again:
            return
        fate = _fate(step, round, request_digest)
        if fate is not None:
            refused_at = _refused_at(operation, form_id)
            if refused_at is None:
                raise RoundGone(fate, form_id=form_id)
            told_before = replace(fate, refused_at=refused_at)
            return
        counted = _vote(step, given, people)

    perform(operation, change, now=now, actor=by)
    if told_before is not None:
        raise RoundGone(told_before)
    return _outcome(operation, given, counted, again=again)


def _outcome(operation: str, given: _Given, counted: Tally | None, *, again: bool) -> Recorded:
    if counted is None or decides(counted, given.ballot):
        return Recorded(operation=operation, round=given.round, again=again)
    missing = counted.missing(given.ballot.digest)
    return Recorded(operation=operation, round=given.round, again=again, decided=False, missing=missing)


def _vote(step: Step, given: _Given, people: People) -> Tally:
    """Write the vote, and the answer where it decides. The vote of somebody who has voted stands in place of theirs."""
    policy, matter, standing = _case(step, given.round)
    ballots = [ballot for ballot in standing if ballot.by != given.by] + [given.ballot]
    rights = people({ballot.by for ballot in ballots})
    bar = may_decide(policy, matter, rights.get(given.by), comment=given.comment)
    if bar is not None:
        raise MayNotDecide(bar)
    counted = tally(policy, matter, ballots, rights)
    actions = [reply.action for reply in given.replies]
    detail: dict[str, object] = {"round": given.round, "actions": actions}
    if policy.needed > 1:
        detail |= {"agreed": list(counted.agreeing.get(given.ballot.digest, ())), "needed": policy.needed}
    if not decides(counted, given.ballot):
        step.note("VOTE_STORED", detail=detail)
        _write_vote(step, given)
        return counted
    step.note("ANSWER_STORED", detail=detail, round_open=False, answer_delivery=Delivery.STORED)
    _write_vote(step, given)
    _write_answer(step, given)
    step.wake()
    return counted


def _write_vote(step: Step, given: _Given) -> None:
    step.write(
        """UPDATE vote SET withdrawn_at = %s WHERE by = %s AND withdrawn_at IS NULL
            AND round_id = (SELECT id FROM input_round WHERE operation_id = %s AND number = %s)""",
        [given.now, given.by, step.row.id, given.round],
    )
    step.write(
        """INSERT INTO vote (id, round_id, by, at, digest, accepts, replies, comment, as_shown_digest)
        SELECT %s, id, %s, %s, %s, %s, %s, %s, %s FROM input_round WHERE operation_id = %s AND number = %s""",
        [given.form_id, given.by, given.now, given.ballot.digest, given.accepts]
        + [_written(given.replies), given.comment, given.as_shown_digest, step.row.id, given.round],
    )


def _write_answer(step: Step, given: _Given) -> None:
    step.write(
        """UPDATE input_round SET status = 'ANSWERED', closed_at = %s
        WHERE operation_id = %s AND number = %s""",
        [given.now, step.row.id, given.round],
    )
    step.write(
        """INSERT INTO answer (id, round_id, by, at, replies, comment, as_shown_digest, delivery)
        SELECT %s, id, %s, %s, %s, %s, %s, 'STORED' FROM input_round
        WHERE operation_id = %s AND number = %s""",
        [given.form_id, given.by, given.now, _written(given.replies), given.comment]
        + [given.as_shown_digest, step.row.id, given.round],
    )


def _written(replies: Sequence[GivenReply]) -> str:
    return json.dumps([{"key": one.key, "action": one.action, "content": one.content} for one in replies])


def withdraw_vote(operation: str, *, round: int, by: str, now: datetime) -> Moved:
    """Take a vote back before the round has its answer. Raises NoVote, RoundGone."""

    def change(step: Step) -> None:
        fate = _fate(step, round, None)
        if fate is not None:
            raise RoundGone(fate)
        _policy, _matter, standing = _case(step, round)
        if by not in {ballot.by for ballot in standing}:
            raise NoVote("there is no vote of yours to take back")
        step.note("VOTE_WITHDRAWN", detail={"round": round})
        step.write(
            """UPDATE vote SET withdrawn_at = %s WHERE by = %s AND withdrawn_at IS NULL
                AND round_id = (SELECT id FROM input_round WHERE operation_id = %s AND number = %s)""",
            [now, by, operation, round],
        )

    return perform(operation, change, now=now, actor=by)


def _case(step: Step, number: int) -> tuple[Policy, Matter, list[Ballot]]:
    """Read what a vote is counted under: the round's own policy, what it is about, and the standing votes."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT r.policy::text, o.principal FROM input_round r JOIN operation o ON o.id = r.operation_id
            WHERE r.operation_id = %s AND r.number = %s""",
            [step.row.id, number],
        )
        facts, principal = cursor.fetchone()
        cursor.execute(
            """SELECT v.by, v.digest, v.accepts, v.at FROM vote v JOIN input_round r ON r.id = v.round_id
            WHERE r.operation_id = %s AND r.number = %s AND v.withdrawn_at IS NULL""",
            [step.row.id, number],
        )
        standing = [Ballot(by=by, digest=digest, accepts=yes, at=at) for by, digest, yes, at in cursor.fetchall()]
    return Policy.of(json.loads(facts)), Matter(server=step.row.server_id, principal=principal), standing


def _recorded(operation: str, form_id: uuid.UUID) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT EXISTS (SELECT FROM vote v JOIN input_round r ON r.id = v.round_id
                WHERE v.id = %s AND r.operation_id = %s)""",
            [form_id, operation],
        )
        return bool(cursor.fetchone()[0])


def _refused_at(operation: str, form_id: uuid.UUID) -> datetime | None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT min(at) FROM journal WHERE operation_id = %s AND event = 'RoundGone' AND detail->>'form' = %s",
            [operation, str(form_id)],
        )
        at: datetime | None = cursor.fetchone()[0]
    return at


def _fate(step: Step, number: int, request_digest: str | None) -> RoundFate | None:
    """Return why the round cannot be answered, or None when it can. `request_digest` None: whatever it asks."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT r.status, r.closed_reason, r.closed_at, r.deadline_at, r.request_digest,
                a.by, a.at, a.replies::text
            FROM input_round r LEFT JOIN answer a ON a.round_id = r.id
            WHERE r.operation_id = %s AND r.number = %s""",
            [step.row.id, number],
        )
        found = cursor.fetchone()
    newest = step.row.round
    if found is None:
        return RoundFate(status="OTHER_ROUND", newest_round=newest)
    status, reason, closed_at, deadline_at, digest, by, at, replies = found
    if by is not None:
        given = tuple(GivenReply(**reply) for reply in json.loads(replies))
        return RoundFate(status="ANSWERED", reason=reason, by=by, at=at, replies=given, newest_round=newest)
    if status == RoundStatus.EXPIRED or (status == RoundStatus.OPEN and step.now >= deadline_at):
        return RoundFate(status="EXPIRED", reason=reason, at=deadline_at, newest_round=newest)
    if status != RoundStatus.OPEN or step.row.state is not State.INPUT_REQUIRED:
        return RoundFate(status="CLOSED", reason=reason, at=closed_at, newest_round=newest)
    if request_digest is not None and digest != request_digest:
        return RoundFate(status="CHANGED", newest_round=newest)
    return None
