"""Shadows: calls that somebody else's path does, watched by a release on trial (O1)."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import MD5

from operations.comparison import OUTCOMES, Difference, ShadowState
from operations.models.profile import ProtocolVersion, Server, Tool
from operations.models.words import choices_of


class Shadow(models.Model):
    """One call whose call node's existing path does the work; what its release on trial saw of it, and what it says.

    It has no permit, no round, no receipt, and no way into any of the tables that could make it act.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    client = models.TextField()
    call_node = models.TextField()
    server = models.ForeignKey(Server, on_delete=models.PROTECT, db_index=False)
    tool = models.ForeignKey(Tool, on_delete=models.PROTECT, db_index=False)
    protocol = models.ForeignKey(ProtocolVersion, on_delete=models.PROTECT, db_column="protocol", db_index=False)
    release = models.TextField()
    """The release on trial: it looks, and no other does."""
    epoch = models.PositiveIntegerField()
    """A rollback ends every shadow of the epoch before."""
    task_id = models.TextField()
    session = models.TextField(null=True)
    """The existing path's, or one that the release opened to look."""
    state = models.TextField(choices=choices_of(ShadowState), db_default=ShadowState.OBSERVING)
    why = models.TextField(blank=True, db_default="")
    """Why there is nothing to compare."""
    registered_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    settled_at = models.DateTimeField(null=True)

    looks = models.PositiveIntegerField(db_default=0)
    status = models.TextField(blank=True, db_default="")
    ended_at = models.DateTimeField(null=True)
    outcome = models.TextField(null=True)
    result_digest = models.CharField(max_length=64, null=True)
    trouble = models.TextField(blank=True, db_default="")
    answer = models.BinaryField(default=b"")
    """The bytes of the last answer, cut off: what the release made its mind up from."""

    told_at = models.DateTimeField(null=True)
    told_outcome = models.TextField(null=True)
    told_ended_at = models.DateTimeField(null=True)
    told_looks = models.PositiveIntegerField(null=True)
    told_result_digest = models.CharField(max_length=64, null=True)

    due_at = models.DateTimeField()
    lease_until = models.DateTimeField(null=True)
    claim = models.PositiveIntegerField(db_default=0)
    misses = models.PositiveIntegerField(db_default=0)

    class Meta:
        db_table = "shadow"
        constraints = [
            models.UniqueConstraint(fields=["client", "call_node"], name="one_shadow_per_call_node"),
            # P8, as for operations.
            models.UniqueConstraint(F("server"), F("protocol"), MD5("task_id"), name="shadow_task_once_per_server"),
            models.CheckConstraint(
                condition=Q(state=ShadowState.OBSERVING, settled_at__isnull=True)
                | ~Q(state=ShadowState.OBSERVING) & Q(settled_at__isnull=False),
                name="shadow_settles_once",
            ),
            models.CheckConstraint(
                condition=~Q(state=ShadowState.COMPARED) | Q(told_outcome__in=[one.value for one in OUTCOMES]),
                name="shadow_compared_with_something",
            ),
        ]
        indexes = [
            models.Index(fields=["server", "due_at"], condition=Q(state=ShadowState.OBSERVING), name="shadow_due"),
            models.Index(fields=["protocol", "-registered_at", "-id"], name="shadow_newest"),
        ]


class Divergence(models.Model):
    """In what a release on trial and the existing path differ over one call; open until an admin has explained it."""

    shadow = models.ForeignKey(Shadow, on_delete=models.PROTECT)
    protocol = models.ForeignKey(ProtocolVersion, on_delete=models.PROTECT, db_column="protocol", db_index=False)
    release = models.TextField()
    kind = models.TextField(choices=choices_of(Difference))
    told = models.TextField()
    seen = models.TextField()
    at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)
    closed_by = models.TextField(blank=True, db_default="")
    closed_reason = models.TextField(blank=True, db_default="")

    class Meta:
        db_table = "divergence"
        constraints = [
            models.UniqueConstraint(fields=["shadow", "kind"], name="divergence_once"),
            models.CheckConstraint(
                condition=Q(closed_at__isnull=True, closed_by="", closed_reason="")
                | Q(closed_at__isnull=False) & ~Q(closed_by="") & ~Q(closed_reason=""),
                name="divergence_closed_by_somebody",
            ),
        ]
        indexes = [
            models.Index(
                fields=["protocol", "release", "-at"],
                condition=Q(closed_at__isnull=True),
                name="divergence_open",
            ),
        ]
