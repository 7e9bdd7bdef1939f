"""Rounds as people see them: the inbox, one round with everything a decision needs, and how an answer fared."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery, TextField
from django.db.models.functions import Cast, Coalesce

from operations.approval import Ballot, Matter, Policy
from operations.machine import State
from operations.models import Answer, Operation, Round, RoundStatus, Server, Team, TeamServer, Tool, Vote
from operations.queries import Asked, asked
from operations.queries.scope import within

PAGE = 50
MOST = 1000
"""Counts stop here; one more means "and more"."""


class Tab(enum.StrEnum):
    """Which rounds an inbox shows."""

    OPEN = "open"
    MINE = "mine"
    """Open, and claimed by the person who asks."""
    ANSWERED = "answered"
    EXPIRED = "expired"
    """Closed without an answer: by the deadline, or because the question had gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What an inbox is narrowed to; empty means all."""

    server: str = ""
    tool: str = ""
    team: str = ""
    """A team's slug: rounds of the servers it looks after."""
    due: datetime | None = None
    """Open rounds whose deadline comes before this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundQuestion:
    """One question of a round, as the ledger holds it. `schema` is whatever the server sent, numbers as Decimal."""

    key: str
    mode: str
    message: str
    schema: object = field(repr=False)
    url: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenAnswer:
    """What a person answered to one question. `content` is JSON text, None without one."""

    key: str
    action: str
    content: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundAnswer:
    """The one answer of a round, and how far it has come (I6)."""

    by: str
    at: datetime
    replies: tuple[GivenAnswer, ...]
    comment: str
    as_shown_digest: str
    """Of what stood on the page when it was given."""
    delivery: str
    sent_at: datetime | None
    used_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundVote:
    """What one person has answered, where it takes several."""

    id: str
    by: str
    at: datetime
    digest: str
    """Equal digests are equal answers."""
    accepts: bool
    replies: tuple[GivenAnswer, ...]
    comment: str

    @property
    def ballot(self) -> Ballot:
        """The vote as it is counted."""
        return Ballot(by=self.by, digest=self.digest, accepts=self.accepts, at=self.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundCard:
    """One line of the inbox."""

    operation: str
    version: int
    number: int
    status: str
    closed_reason: str
    opened_at: datetime
    deadline_at: datetime
    closed_at: datetime | None
    questions: tuple[RoundQuestion, ...]
    tool: str
    tool_title: str
    server: str
    server_title: str
    principal: str
    client: str
    call_node: str
    arguments: bytes = field(repr=False)
    claimed_by: str
    answered_by: str
    answered_at: datetime | None
    delivery: str
    policy: Policy
    """Who has to agree, as it stood when the round was opened."""
    votes: int
    """Standing votes of a round that is open."""

    @property
    def seconds_to_decide(self) -> float | None:
        """How long the question waited for its answer; None without one."""
        return (self.answered_at - self.opened_at).total_seconds() if self.answered_at else None

    @property
    def matter(self) -> Matter:
        """What decides who may answer, beside the policy."""
        return Matter(server=self.server, principal=self.principal)

    @property
    def seconds_given(self) -> float:
        """The whole time between the question and its deadline."""
        return (self.deadline_at - self.opened_at).total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbox:
    """A page of cards. `after` is the cursor of the next page, empty on the last."""

    cards: tuple[RoundCard, ...]
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many rounds each tab holds, counted up to MOST + 1."""

    open: int
    mine: int
    answered: int
    expired: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One value that an inbox can be narrowed to."""

    value: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRound:
    """A round to compare with: the previous one of this operation, or the same one of the tool's last approved call."""

    operation: str
    number: int
    questions: tuple[RoundQuestion, ...]
    arguments: bytes = field(repr=False)
    answer: RoundAnswer | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPage:
    """Everything the page of one round shows."""

    card: RoundCard
    state: State
    asked: Asked
    """How it stands with the newest question, whichever round that is."""
    protocol_status: str
    protocol: str
    effect: str
    request_digest: str
    schema_digest: str
    descriptor_digest: str
    before_task: bool
    answer: RoundAnswer | None
    newest_round: int
    newest_is_open: bool
    answer_within_s: int
    votes: tuple[RoundVote, ...]
    """The standing votes of an open round, oldest first."""
    previous: EarlierRound | None
    approved: EarlierRound | None

    @property
    def is_open(self) -> bool:
        """True: an answer is still taken, as far as the ledger has closed nothing."""
        return self.card.status == RoundStatus.OPEN

    @property
    def can_get_time(self) -> bool:
        """True: it is the newest round, without an answer, and the server still asks (I2)."""
        return self.card.number == self.newest_round and self.asked in {Asked.OPEN, Asked.EXPIRED}


def inbox(tab: Tab, *, person: str, filters: Filters, after: str = "") -> Inbox:
    """Return one page: open rounds by deadline, closed ones newest first. A cursor that cannot be read starts over."""
    rows = _joined(_of_tab(_narrowed(filters), tab, person))
    forward = tab in {Tab.OPEN, Tab.MINE}
    column = "deadline_at" if forward else "closed_at"
    cursor = _read_cursor(after)
    if cursor is not None:
        at, pk = cursor
        beyond = "gt" if forward else "lt"
        rows = rows.filter(Q(**{f"{column}__{beyond}": at}) | Q(**{column: at, f"pk__{beyond}": pk}))
    order = (column, "pk") if forward else (F(column).desc(), "-pk")
    found = list(rows.order_by(*order)[: PAGE + 1])
    last = found[PAGE - 1] if len(found) > PAGE else None
    return Inbox(
        cards=tuple(_card(row) for row in found[:PAGE]),
        after=f"{getattr(last, column).isoformat()}~{last.pk}" if last else "",
    )


def counts(*, person: str, filters: Filters) -> Counts:
    """Count the rounds of each tab."""
    held = {tab.value: _of_tab(_narrowed(filters), tab, person)[: MOST + 1].count() for tab in Tab}
    return Counts(**held)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What an inbox can be narrowed to."""

    servers: tuple[Choice, ...]
    tools: tuple[Choice, ...]
    teams: tuple[Choice, ...]


def choices() -> Choices:
    """Return the servers, tools and teams that an inbox can be narrowed to. Three queries."""
    servers = within(Server.objects.all(), server="slug").values_list("slug", "title")
    tools = within(Tool.objects.all()).values_list("name", "descriptor__title").distinct()
    teams = Team.objects.values_list("slug", "title")
    return Choices(
        servers=tuple(Choice(value=slug, title=title) for slug, title in sorted(servers, key=lambda one: one[1])),
        tools=tuple(Choice(value=name, title=title or name) for name, title in sorted(tools)),
        teams=tuple(Choice(value=slug, title=title) for slug, title in sorted(teams, key=lambda one: one[1])),
    )


def round_page(operation: str, *, number: int) -> RoundPage | None:
    """Return one round with what it is compared with; None: there is no such round."""
    found = within(Round.objects.filter(operation_id=operation, number=number), server=_SERVER)
    row = _joined(found).first()
    if row is None:
        return None
    call: Operation = row.operation
    return RoundPage(
        card=_card(row),
        state=State(call.state),
        asked=asked(State(call.state), is_open=call.round_open, delivery=call.answer_delivery),
        protocol_status=call.protocol_status,
        protocol=call.protocol_id,
        effect=call.tool.effect,
        request_digest=row.request_digest,
        schema_digest=row.schema_digest,
        descriptor_digest=call.descriptor.digest,
        before_task=row.before_task,
        answer=_answer(row),
        newest_round=call.round,
        newest_is_open=call.round_open,
        answer_within_s=call.tool.answer_within_s,
        votes=_votes(row),
        previous=_earlier(_joined(Round.objects.filter(operation_id=operation, number__lt=number))),
        approved=_earlier(_joined(_approved_before(row))),
    )


_SERVER = "operation__server_id"
_AS_TEXT = {"questions_text": Cast("questions", TextField())}
"""Read as text, so that a bound such as 0.10 reaches the form with its own digits and not as a float."""


_STANDING = (
    Vote.objects.filter(round=OuterRef("pk"), withdrawn_at__isnull=True)
    .order_by()
    .values("round")
    .annotate(n=Count("pk"))
    .values("n")
)


def _joined(rows: QuerySet[Round]) -> QuerySet[Round]:
    return (
        rows.defer("questions")
        .annotate(**_AS_TEXT, standing=Coalesce(Subquery(_STANDING), 0))
        .select_related("answer", "operation__server", "operation__tool", "operation__descriptor")
    )


def _narrowed(filters: Filters) -> QuerySet[Round]:
    rows = within(Round.objects.all(), server=_SERVER)
    if filters.server:
        rows = rows.filter(operation__server_id=filters.server)
    if filters.tool:
        rows = rows.filter(operation__tool__name=filters.tool)
    if filters.team and not Team.objects.filter(slug=filters.team, all_servers=True).exists():
        looked_after = TeamServer.objects.filter(team_id=filters.team).values("server_id")
        rows = rows.filter(operation__server_id__in=looked_after)
    if filters.due:
        rows = rows.filter(deadline_at__lt=filters.due)
    return rows


def _of_tab(rows: QuerySet[Round], tab: Tab, person: str) -> QuerySet[Round]:
    match tab:
        case Tab.OPEN:
            return rows.filter(status=RoundStatus.OPEN)
        case Tab.MINE:
            return rows.filter(status=RoundStatus.OPEN, claimed_by=person)
        case Tab.ANSWERED:
            return rows.filter(status=RoundStatus.ANSWERED)
        case Tab.EXPIRED:
            return rows.filter(status__in=[RoundStatus.EXPIRED, RoundStatus.CLOSED])


def _approved_before(row: Round) -> QuerySet[Round]:
    return (
        within(Round.objects.all(), server=_SERVER)
        .filter(
            operation__tool_id=row.operation.tool_id,
            number=row.number,  # a tool's second question is another question: only the same one compares
            answer__at__lt=row.opened_at,
            answer__replies__contains=[{"action": "accept"}],
        )
        .exclude(operation_id=row.operation_id)
    )


def _earlier(rows: QuerySet[Round]) -> EarlierRound | None:
    row = rows.order_by("-opened_at").first()
    if row is None:
        return None
    return EarlierRound(
        operation=str(row.operation_id),
        number=row.number,
        questions=_questions(row),
        arguments=bytes(row.operation.arguments),
        answer=_answer(row),
    )


def _card(row: Round) -> RoundCard:
    call: Operation = row.operation
    answer = _answer(row)
    return RoundCard(
        operation=str(call.pk),
        version=call.version,
        number=row.number,
        status=row.status,
        closed_reason=row.closed_reason,
        opened_at=row.opened_at,
        deadline_at=row.deadline_at,
        closed_at=row.closed_at,
        questions=_questions(row),
        tool=call.tool.name,
        tool_title=call.descriptor.title or call.tool.name,
        server=call.server_id,
        server_title=call.server.title,
        principal=call.principal,
        client=call.client,
        call_node=call.call_node,
        arguments=bytes(call.arguments),
        claimed_by=row.claimed_by,
        answered_by=answer.by if answer else "",
        answered_at=answer.at if answer else None,
        delivery=answer.delivery if answer else "",
        policy=Policy.of(row.policy),
        votes=row.standing,  # type: ignore[attr-defined]  # annotated in `_joined`
    )


def _votes(row: Round) -> tuple[RoundVote, ...]:
    held = row.votes.filter(withdrawn_at__isnull=True).order_by("at") if row.status == RoundStatus.OPEN else ()
    return tuple(
        RoundVote(
            id=str(vote.pk),
            by=vote.by,
            at=vote.at,
            digest=vote.digest,
            accepts=vote.accepts,
            replies=_given(vote.replies),
            comment=vote.comment,
        )
        for vote in held
    )


def _given(replies: list[Mapping[str, Any]]) -> tuple[GivenAnswer, ...]:
    return tuple(
        GivenAnswer(key=reply["key"], action=reply["action"], content=reply.get("content")) for reply in replies
    )


def _answer(row: Round) -> RoundAnswer | None:
    answer: Answer | None = getattr(row, "answer", None)
    if answer is None:
        return None
    return RoundAnswer(
        by=answer.by,
        at=answer.at,
        replies=_given(answer.replies),
        comment=answer.comment,
        as_shown_digest=answer.as_shown_digest,
        delivery=answer.delivery,
        sent_at=answer.sent_at,
        used_at=answer.used_at,
    )


def _questions(row: Round) -> tuple[RoundQuestion, ...]:
    text: str = row.questions_text  # type: ignore[attr-defined]
    return tuple(_question(held) for held in json.loads(text, parse_float=Decimal))


def _question(held: Mapping[str, Any]) -> RoundQuestion:
    return RoundQuestion(
        key=held["key"],
        mode=held.get("mode") or "form",
        message=held.get("message") or "",
        schema=_schema(held),
        url=held.get("url") or "",
        digest=held.get("digest") or "",
    )


def _schema(held: Mapping[str, Any]) -> object:
    # The text keeps the order of the properties, which the database's own JSON does not.
    text = held.get("schema_text")
    return json.loads(text, parse_float=Decimal) if text else held.get("schema")


def _read_cursor(text: str) -> tuple[datetime, int] | None:
    at, _, pk = text.rpartition("~")
    try:
        moment, number = datetime.fromisoformat(at), int(pk)
    except ValueError:
        return None
    return (moment, number) if moment.tzinfo is not None else None
