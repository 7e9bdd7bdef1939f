"""Who may answer a round, and when enough people have: plain Python, one choke point for every entry (I3).

`may_decide` is asked by the ledger under the operation's lock, with each person's rights as they are at that moment.
A page asks it too, but only to show what the ledger would say.

Note [Rights are of now, policies of then]
A round keeps the policy it was opened under, so that nobody can loosen what has been asked. What a person may do is
read again with every vote that is counted: the vote of somebody who has lost the role since counts no more.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime


class Bar(enum.StrEnum):
    """What keeps somebody from answering."""

    NO_ROLE = "NO_ROLE"
    """Nobody whom we know as an approver."""
    OTHER_SERVER = "OTHER_SERVER"
    """None of the person's teams looks after the server."""
    OTHER_TEAM = "OTHER_TEAM"
    """The policy names a team, and the person is not in it."""
    OWN_REQUEST = "OWN_REQUEST"
    """The call is made for this very person, and the policy wants another one."""
    NO_COMMENT = "NO_COMMENT"
    """The policy wants a comment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Who has to agree; the default asks for one approver and nothing else."""

    needed: int = 1
    four_eyes: bool = False
    team: str = ""
    comment: bool = False
    remind_s: tuple[int, ...] = (900,)
    """Seconds before the deadline."""
    escalate_to: str = ""

    def facts(self) -> dict[str, object]:
        """Return it as a round keeps it."""
        return {
            "needed": self.needed,
            "four_eyes": self.four_eyes,
            "team": self.team,
            "comment": self.comment,
            "remind_s": sorted(set(self.remind_s), reverse=True),
            "escalate_to": self.escalate_to,
        }

    @classmethod
    def of(cls, facts: Mapping[str, object]) -> Policy:
        """Read what `facts` wrote; nothing written is the default."""
        held = {name: facts[name] for name in cls.__slots__ if name in facts}
        remind = held.pop("remind_s", None)
        if isinstance(remind, Sequence):
            held["remind_s"] = tuple(int(str(seconds)) for seconds in remind)
        return cls(**held)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody who wants to answer, with the rights of this moment."""

    by: str
    names: frozenset[str]
    """Every name that a call may be made under for this person, in lower case: user name, e-mail address."""
    approves: bool
    servers: frozenset[str] | None
    """The servers that the person's teams look after; None: all of them."""
    teams: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Matter:
    """What a round is about, as far as it decides who may answer."""

    server: str
    principal: str
    """On whose behalf the call is made, as the call node said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """One person's standing vote. Equal digests are equal answers."""

    by: str
    digest: str
    accepts: bool
    at: datetime


People = Callable[[Collection[str]], Mapping[str, Person]]
"""Reads the rights of these people (`person:ada`) as they are now; whoever is unknown is left out."""


def may_decide(policy: Policy, matter: Matter, person: Person | None, *, comment: str | None = None) -> Bar | None:
    """Say what keeps a person from answering; None: nothing does. `comment` None: it is not asked for yet."""
    if person is None or not person.approves:
        return Bar.NO_ROLE
    if person.servers is not None and matter.server not in person.servers:
        return Bar.OTHER_SERVER
    if policy.team and policy.team not in person.teams:
        return Bar.OTHER_TEAM
    if policy.four_eyes and is_own(matter, person):
        return Bar.OWN_REQUEST
    if policy.comment and comment is not None and not comment.strip():
        return Bar.NO_COMMENT
    return None


def is_own(matter: Matter, person: Person) -> bool:
    """True: the call is made on behalf of this person."""
    principal = matter.principal.strip().lower()
    return principal in {person.by.lower(), *person.names}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How a vote stands."""

    agreeing: Mapping[str, tuple[str, ...]]
    """People by the digest of the answer they gave, in the order of their votes; only votes that count."""
    lost: frozenset[str]
    """People whose vote does not count any more: they have lost the right since."""
    needed: int

    @property
    def disagree(self) -> bool:
        """True: there are two different answers."""
        return len(self.agreeing) > 1

    def missing(self, digest: str) -> int:
        """How many more people have to give this very answer."""
        return max(0, self.needed - len(self.agreeing.get(digest, ())))


def tally(policy: Policy, matter: Matter, ballots: Sequence[Ballot], people: Mapping[str, Person]) -> Tally:
    """Count the standing votes. See Note [Rights are of now, policies of then]."""
    agreeing: dict[str, tuple[str, ...]] = {}
    lost: set[str] = set()
    for ballot in sorted(ballots, key=lambda one: one.at):
        if may_decide(policy, matter, people.get(ballot.by)) is None:
            agreeing[ballot.digest] = (*agreeing.get(ballot.digest, ()), ballot.by)
        else:
            lost.add(ballot.by)
    return Tally(agreeing=agreeing, lost=frozenset(lost), needed=policy.needed)


def decides(counted: Tally, ballot: Ballot) -> bool:
    """True: with this vote the round has its answer. Refusing needs nobody else: only a consent takes several (I3)."""
    return not ballot.accepts or counted.missing(ballot.digest) == 0
