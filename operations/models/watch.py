"""What the ledger was measured at."""

from __future__ import annotations

from django.db import models


class LedgerCheck(models.Model):
    """One run of the ledger check: every invariant over the whole ledger (G1)."""

    at = models.DateTimeField()
    took_ms = models.PositiveIntegerField(null=True)
    """None: it has not come to its end."""
    invariants = models.PositiveIntegerField(db_default=0)
    breaches = models.PositiveIntegerField(db_default=0)
    found = models.JSONField(default=list)
    """The first breaches: list of {invariant, clause, operation, what}."""

    class Meta:
        db_table = "ledger_check"
        indexes = [models.Index(fields=["-at"], name="ledger_check_newest")]


class GateDay(models.Model):
    """What one gate measured on one day, UTC: the points of its trend (G1 to G6)."""

    gate = models.TextField()
    day = models.DateField()
    count = models.PositiveBigIntegerField()
    """What was measured: calls, cancels, advances, checks."""
    breaches = models.PositiveBigIntegerField()
    worst = models.FloatField()
    """In the gate's own unit: seconds, per cent, breaches."""
    measured_at = models.DateTimeField()

    class Meta:
        db_table = "gate_day"
        constraints = [models.UniqueConstraint(fields=["gate", "day"], name="one_point_a_day")]


class InterleavingRun(models.Model):
    """One run of the interleavings that somebody put on record (G1, G2)."""

    at = models.DateTimeField()
    seed = models.PositiveBigIntegerField()
    """The first; the runs are those of the seeds that follow it."""
    runs = models.PositiveIntegerField()
    wire_runs = models.PositiveIntegerField()
    """Of these, through real adapters and httpx."""
    histories = models.PositiveIntegerField()
    """Distinct histories of an operation that came of them."""
    divergences = models.PositiveIntegerField()
    took_s = models.FloatField()

    class Meta:
        db_table = "interleaving_run"
        indexes = [models.Index(fields=["-at"], name="interleaving_run_newest")]
