"""What stands before a person: the reconciliation desk and the counts in the navigation."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q

from operations.machine import FINAL, State
from operations.models import EffectRecord, EffectStatus, Operation, Round, RoundStatus
from operations.queries import CAP

BEFORE_A_PERSON = (State.SUBMISSION_UNKNOWN, State.NOT_FOUND_SAFE, State.UNKNOWN)
_UNCONFIRMED = Q(cancel_stated=True, cancel_settled_at__isnull=False) & ~Q(state__in=FINAL)
ON_DESK = Q(state__in=BEFORE_A_PERSON) | _UNCONFIRMED


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """How much waits for people; a number at the cap reads "1 000+"."""

    rounds: int
    desk: int


def count_waiting() -> Waiting:
    """Count open rounds and items of the desk. Two queries."""
    rounds = Round.objects.filter(status=RoundStatus.OPEN)[:CAP].count()
    operations = Operation.objects.filter(ON_DESK).order_by().values("id")
    effects = EffectRecord.objects.filter(status=EffectStatus.OPEN).order_by().values("operation_id")
    return Waiting(rounds=rounds, desk=operations.union(effects)[:CAP].count())
