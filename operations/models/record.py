"""What happened to an operation: evidence, journal, and leave to send."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Q

from operations.models.operation import Operation

_ON_DESK = ["SUBMISSION_UNKNOWN", "NOT_FOUND_SAFE", "UNKNOWN"]


class Evidence(models.Model):
    """What was seen on the wire, or what a person said. Append-only (L7)."""

    operation = models.ForeignKey(Operation, on_delete=models.PROTECT)
    seq = models.PositiveIntegerField()
    at = models.DateTimeField()
    kind = models.TextField()
    """`wire`, `result`, `verdict`, `document`: what the bytes are."""
    label = models.TextField()
    summary = models.TextField(blank=True, db_default="")
    epoch = models.PositiveIntegerField()
    look = models.PositiveBigIntegerField()
    http_status = models.PositiveIntegerField(null=True)
    media_type = models.TextField(blank=True, db_default="")
    complete = models.BooleanField(db_default=True)
    request = models.BinaryField(default=b"")
    digest = models.CharField(max_length=64)
    """SHA-256 of the raw bytes."""
    size = models.PositiveIntegerField()
    masked = models.PositiveIntegerField(db_default=0)
    """At how many places a known credential was masked, before digest and parser saw the bytes (R8)."""

    class Meta:
        db_table = "evidence"
        constraints = [models.UniqueConstraint(fields=["operation", "seq"], name="evidence_once")]


class EvidencePayload(models.Model):
    """The raw bytes of one piece of evidence: the only part of it that policy may purge."""

    evidence = models.OneToOneField(Evidence, on_delete=models.PROTECT, primary_key=True)
    raw = models.BinaryField()

    class Meta:
        db_table = "evidence_payload"


class JournalKind(models.TextChoices):
    """What a journal row records."""

    STEP = "STEP", "a transition"
    NOTE = "NOTE", "a change inside a state"
    REFUSED = "REFUSED", "a step that was refused"
    STALE = "STALE", "a step under a ticket that no longer fits"


class Journal(models.Model):
    """Every change and every refused one, in order. Append-only (L5, L7)."""

    operation = models.ForeignKey(Operation, on_delete=models.PROTECT)
    at = models.DateTimeField()
    kind = models.TextField(choices=JournalKind.choices)
    event = models.TextField()
    source = models.TextField()
    target = models.TextField()
    version = models.PositiveIntegerField()
    epoch = models.PositiveIntegerField()
    cancel_generation = models.PositiveIntegerField()
    round = models.PositiveIntegerField()
    look = models.PositiveBigIntegerField()
    actor = models.TextField()
    detail = models.JSONField(default=dict)
    evidence_seqs = ArrayField(models.IntegerField(), default=list)
    step = models.UUIDField()
    """The ledger call that wrote this row: how a lost commit is read back (R9)."""

    class Meta:
        db_table = "journal"
        indexes = [
            models.Index(fields=["operation", "id"], name="journal_of_operation"),
            models.Index(fields=["step"], name="journal_by_step"),
            BrinIndex(fields=["at"], name="journal_by_time", pages_per_range=32),
            # What has left the desk lately, and by whom (X4).
            models.Index(
                fields=["-at", "-id"],
                condition=Q(kind="STEP", source__in=_ON_DESK) & ~Q(target__in=_ON_DESK),
                name="journal_left_desk",
            ),
        ]


class PermitKind(models.TextChoices):
    """What a permit lets out."""

    SUBMIT = "SUBMIT", "submit"
    REPLAY = "REPLAY", "lookup by the same key"
    """The bytes of a submit once more, to a server that honours the key: found, or made by it (L4, class A)."""
    ANSWER = "ANSWER", "answer"
    CANCEL = "CANCEL", "cancel"


class Permit(models.Model):
    """Leave to write one request to a socket, committed before the write (L4)."""

    id = models.UUIDField(primary_key=True)
    operation = models.ForeignKey(Operation, on_delete=models.PROTECT)
    kind = models.TextField(choices=PermitKind.choices)
    epoch = models.PositiveIntegerField()
    cancel_generation = models.PositiveIntegerField()
    round = models.PositiveIntegerField()
    look = models.PositiveBigIntegerField()
    given_at = models.DateTimeField()
    settled_at = models.DateTimeField(null=True)
    settlement = models.TextField(blank=True, db_default="")
    """`not_sent`, `answered`, `lost`, `disproved`; empty while it is out."""

    class Meta:
        db_table = "permit"
        indexes = [models.Index(fields=["operation", "given_at"], name="permit_of_operation")]
