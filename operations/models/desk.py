"""Many at once: incidents of one outage (X4), and batches that do one thing to many operations, row by row."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from operations.models.operation import Operation
from operations.models.profile import Server


class Incident(models.Model):
    """Items of the desk with one server, one sub-reason and one stretch of time: one outage, one item (X4)."""

    id = models.UUIDField(primary_key=True)
    server = models.ForeignKey(Server, on_delete=models.PROTECT, db_index=False)
    reason = models.TextField()
    opened_at = models.DateTimeField()
    """When the first of its items came before a person."""
    last_at = models.DateTimeField()
    """When the newest of its items came; one that comes much later belongs to another outage."""
    closed_at = models.DateTimeField(null=True)
    """When the last of its items had left the desk."""

    class Meta:
        db_table = "incident"
        indexes = [
            models.Index(fields=["server", "reason", "-last_at"], name="incident_of_server"),
            models.Index(fields=["opened_at", "id"], condition=Q(closed_at__isnull=True), name="incident_open"),
            models.Index(fields=["-opened_at", "-id"], name="incident_newest"),
        ]


class LeftBy(models.TextChoices):
    """What took an item off the desk."""

    EVIDENCE = "EVIDENCE", "new evidence settled it, nobody had to decide"
    PERSON = "PERSON", "a person settled it"


class IncidentItem(models.Model):
    """One stay of an operation on the desk, as part of an incident."""

    incident = models.ForeignKey(Incident, on_delete=models.PROTECT, db_index=False)
    operation = models.ForeignKey(Operation, on_delete=models.PROTECT, db_index=False)
    entered_at = models.DateTimeField()
    left_at = models.DateTimeField(null=True)
    left_by = models.TextField(choices=LeftBy.choices, blank=True, db_default="")

    class Meta:
        db_table = "incident_item"
        constraints = [
            models.UniqueConstraint(
                fields=["operation"], condition=Q(left_at__isnull=True), name="one_open_incident_of_an_operation"
            ),
        ]
        indexes = [
            models.Index(fields=["incident", "entered_at", "operation"], name="incident_item_by_age"),
        ]


class BatchKind(models.TextChoices):
    """What is done to each row of a batch."""

    CANCEL = "CANCEL", "ask for a cancel"
    LOOK = "LOOK", "look now"
    CLAIM = "CLAIM", "claim"
    VERDICT = "VERDICT", "give a verdict"
    CONFIRM = "CONFIRM", "confirm the proposed verdict"
    REFUSE = "REFUSE", "turn the proposed verdict down"


class BatchStatus(models.TextChoices):
    """How far a batch has come."""

    DRAFT = "DRAFT", "a preview: nothing happens before its person starts it"
    RUNNING = "RUNNING", "its rows are done one after the other"
    DONE = "DONE", "every row has its answer"
    STOPPED = "STOPPED", "a person stopped it; what was done stays done"


class Batch(models.Model):
    """One wish for many operations. Each row goes through the ledger's own step; a batch decides nothing itself."""

    id = models.UUIDField(primary_key=True)
    """Chosen by the form: the same post twice is one batch (R9)."""
    kind = models.TextField(choices=BatchKind.choices)
    status = models.TextField(choices=BatchStatus.choices, db_default=BatchStatus.DRAFT)
    by = models.TextField()
    made_at = models.DateTimeField()
    reason = models.TextField(blank=True, db_default="")
    content = models.JSONField(default=dict)
    """What a verdict needs: `verdict`, `outcome`."""
    source = models.TextField(blank=True, db_default="")
    """The query string of the list it was made from."""
    incident = models.ForeignKey(Incident, null=True, on_delete=models.PROTECT)
    parent = models.ForeignKey("self", null=True, on_delete=models.PROTECT)
    """The batch whose proposals this one confirms or turns down."""
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    ended_by = models.TextField(blank=True, db_default="")
    lease_until = models.DateTimeField(null=True)

    class Meta:
        db_table = "batch"
        constraints = [
            models.CheckConstraint(
                condition=Q(status="DRAFT", started_at__isnull=True) | ~Q(status="DRAFT"), name="batch_draft_not_begun"
            ),
        ]
        indexes = [
            models.Index(fields=["started_at"], condition=Q(status="RUNNING"), name="batch_running"),
            models.Index(fields=["-made_at", "-id"], name="batch_newest"),
        ]


class RowStatus(models.TextChoices):
    """How far one row has come."""

    WAITING = "WAITING", "its turn will come"
    DONE = "DONE", "done; `came` says what it came to"
    REFUSED = "REFUSED", "not done; `why` says what stood against it"


class BatchRow(models.Model):
    """One operation of a batch: what was shown before, and what came of it."""

    batch = models.ForeignKey(Batch, on_delete=models.PROTECT, db_index=False)
    number = models.PositiveIntegerField()
    operation = models.ForeignKey(Operation, on_delete=models.PROTECT)
    seen_version = models.PositiveIntegerField()
    seen_generation = models.PositiveIntegerField()
    seen_state = models.TextField()
    forecast = models.TextField()
    """What the preview said would come of it; a row of which this is no longer true is refused."""
    status = models.TextField(choices=RowStatus.choices, db_default=RowStatus.WAITING)
    came = models.TextField(blank=True, db_default="")
    why = models.TextField(blank=True, db_default="")
    proposal = models.UUIDField(null=True)
    """The proposal that it made, confirms or turns down."""
    done_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "batch_row"
        constraints = [
            models.UniqueConstraint(fields=["batch", "number"], name="batch_row_once"),
            models.UniqueConstraint(fields=["batch", "operation"], name="batch_operation_once"),
            models.CheckConstraint(
                condition=Q(status="WAITING", done_at__isnull=True) | (~Q(status="WAITING") & Q(done_at__isnull=False)),
                name="batch_row_done_has_time",
            ),
        ]
        indexes = [
            models.Index(fields=["batch", "number"], condition=Q(status="WAITING"), name="batch_row_waiting"),
            models.Index(fields=["proposal"], condition=Q(proposal__isnull=False), name="batch_row_of_proposal"),
        ]
