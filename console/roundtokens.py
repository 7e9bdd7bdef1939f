"""The signed token that ties a form to the round it was built from (I3).

It travels through the browser and comes back with the answer. It holds no secret; the signature
makes sure that it is ours, for this person, and unchanged.
"""

from __future__ import annotations

import enum
import hashlib
from dataclasses import asdict, dataclass
from datetime import timedelta

from django.core import signing

from operations.queries.rounds import RoundPage

SALT = "longcall.round"
MAX_AGE = timedelta(hours=12)


class Fault(enum.StrEnum):
    """Why a token is not taken."""

    MISSING = "MISSING"
    FORGED = "FORGED"
    """Not signed by us, or changed since."""
    TOO_OLD = "TOO_OLD"
    OTHER_PERSON = "OTHER_PERSON"
    OTHER_ROUND = "OTHER_ROUND"
    """A real token, but of another operation or another round than the address names."""


class TokenRefused(Exception):
    """Nothing was done with the answer. `fault` picks the words of the page."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.value)
        self.fault = fault


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundToken:
    """What a form was built from, and for whom."""

    operation: str
    round: int
    request_digest: str
    schema_digest: str
    as_shown_digest: str
    person: str


def make(page: RoundPage, *, person: str) -> RoundToken:
    """Return the token of a round as it stands."""
    return RoundToken(
        operation=page.card.operation,
        round=page.card.number,
        request_digest=page.request_digest,
        schema_digest=page.schema_digest,
        as_shown_digest=as_shown_digest(page),
        person=person,
    )


def as_shown_digest(page: RoundPage) -> str:
    """SHA-256 over what a person saw: the questions, the exact arguments, the tool as described."""
    shown = [page.card.operation, str(page.card.number), page.request_digest, page.schema_digest]
    shown += [page.descriptor_digest, hashlib.sha256(page.card.arguments).hexdigest()]
    return hashlib.sha256("\n".join(shown).encode()).hexdigest()


def sign(token: RoundToken) -> str:
    """Return the token as text for a hidden field."""
    return signing.dumps(asdict(token), salt=SALT)


def read(text: str, *, operation: str, number: int, person: str) -> RoundToken:
    """Return the token of this round and this person. Raises TokenRefused."""
    if not text:
        raise TokenRefused(Fault.MISSING)
    try:
        token = RoundToken(**signing.loads(text, salt=SALT, max_age=MAX_AGE))
    except signing.SignatureExpired:
        raise TokenRefused(Fault.TOO_OLD) from None
    except (signing.BadSignature, TypeError, ValueError):
        raise TokenRefused(Fault.FORGED) from None
    if token.person != person:
        raise TokenRefused(Fault.OTHER_PERSON)
    if (token.operation, token.round) != (operation, number):
        raise TokenRefused(Fault.OTHER_ROUND)
    return token
