"""How an operation ends: receipt, outbox, what may have happened outside, and people's verdicts."""

from __future__ import annotations

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import F, Q

from operations.machine import Outcome
from operations.models.operation import Operation
from operations.models.words import choices_of
from operations.verdicts import Verdict


class Receipt(models.Model):
    """The one terminal record of a call node (R3, R5). Append-only."""

    id = models.UUIDField(primary_key=True)
    operation = models.OneToOneField(Operation, on_delete=models.PROTECT)
    at = models.DateTimeField()
    outcome = models.TextField(choices=choices_of(Outcome))
    verdict = models.TextField(blank=True, db_default="")
    summary = models.TextField(blank=True, db_default="")
    client = models.TextField()
    call_node = models.TextField()
    request_digest = models.CharField(max_length=64)
    task_id = models.TextField(null=True)
    tool_version = models.CharField(max_length=64)
    epoch = models.PositiveIntegerField()
    cancel_generation = models.PositiveIntegerField()
    terminal_status = models.TextField(null=True)
    result_digest = models.CharField(max_length=64, null=True)
    result = models.BinaryField(null=True)
    """The validated payload, byte for byte; None unless the outcome is SUCCESS or TOOL_ERROR."""
    decided_by = models.TextField()

    class Meta:
        db_table = "receipt"
        constraints = [
            models.UniqueConstraint(fields=["client", "call_node"], name="one_receipt_per_call_node"),
        ]


class Outbox(models.Model):
    """The row that lets a call node advance; it exists only with a receipt (R6)."""

    receipt = models.OneToOneField(Receipt, on_delete=models.PROTECT, primary_key=True)
    seq = models.BigIntegerField(unique=True)
    """Order of delivery within the ledger: the cursor of the pull API. From `outbox_seq`."""
    client = models.TextField()
    ready_at = models.DateTimeField()
    delivered_at = models.DateTimeField(null=True)
    deliveries = models.PositiveIntegerField(db_default=0)
    acknowledged_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "outbox"
        indexes = [
            models.Index(
                fields=["client", "seq"],
                condition=Q(acknowledged_at__isnull=True),
                name="outbox_waiting",
            ),
            BrinIndex(fields=["ready_at"], name="outbox_by_time", pages_per_range=32),
        ]


class EffectStatus(models.TextChoices):
    """How an effect record stands."""

    OPEN = "OPEN", "open"
    NONE = "NONE", "nothing happened outside"
    COMPENSATED = "COMPENSATED", "compensated"
    STILL_OPEN = "STILL_OPEN", "still open, with an owner"


class EffectRecord(models.Model):
    """EFFECT_RECONCILIATION_REQUIRED: what may have happened outside, with its own life (C6)."""

    operation = models.OneToOneField(Operation, on_delete=models.PROTECT)
    opened_at = models.DateTimeField()
    cause = models.TextField()
    facts = models.JSONField(default=list)
    """What is known, in order: answers already out, late completions, contradictions."""
    status = models.TextField(choices=EffectStatus.choices, db_default=EffectStatus.OPEN)
    owner = models.TextField(blank=True, db_default="")
    note = models.TextField(blank=True, db_default="")
    link = models.TextField(blank=True, db_default="")
    decided_by = models.TextField(blank=True, db_default="")
    decided_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "effect_record"
        indexes = [
            models.Index(fields=["opened_at"], condition=Q(status="OPEN"), name="effect_open_by_age"),
        ]


class VerdictProposal(models.Model):
    """A verdict that waits for a second person (W). At most one is open for an operation."""

    id = models.UUIDField(primary_key=True)
    operation = models.ForeignKey(Operation, on_delete=models.PROTECT)
    verdict = models.TextField(choices=choices_of(Verdict))
    seen_version = models.PositiveIntegerField()
    by = models.TextField()
    at = models.DateTimeField()
    reason = models.TextField()
    content = models.JSONField(default=dict)
    """What the verdict needs: the outcome found outside, the name of the document."""
    decided_by = models.TextField(blank=True, db_default="")
    decided_at = models.DateTimeField(null=True)
    confirmed = models.BooleanField(null=True)
    """None while it waits; False when it was withdrawn or refused."""

    class Meta:
        db_table = "verdict_proposal"
        constraints = [
            models.UniqueConstraint(
                fields=["operation"], condition=Q(confirmed__isnull=True), name="one_open_proposal"
            ),
            models.CheckConstraint(
                condition=~Q(confirmed=True) | ~Q(decided_by=F("by")), name="proposal_needs_two_people"
            ),
        ]


class DeskClaim(models.Model):
    """Who works on which item of the reconciliation desk."""

    operation = models.OneToOneField(Operation, on_delete=models.CASCADE, primary_key=True)
    by = models.TextField()
    at = models.DateTimeField()

    class Meta:
        db_table = "desk_claim"
        indexes = [models.Index(fields=["by"], name="desk_claim_of_person")]
