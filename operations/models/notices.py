"""What people are told of outside the console: the outbox of notices, and the ways to each team."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from operations.models.operation import Operation
from operations.models.people import Team
from operations.models.profile import Server
from operations.models.words import choices_of
from operations.notice import Kind, Way


class Notice(models.Model):
    """Something that a person should hear of, written in the transaction in which it happened.

    It holds no argument, no message of a server and no secret: what it is about is on the page it leads to.
    """

    at = models.DateTimeField()
    kind = models.TextField(choices=choices_of(Kind))
    item = models.TextField()
    """What it is about, such as `round:<operation>/2`: the same item is told of once for each kind."""
    operation = models.ForeignKey(Operation, on_delete=models.PROTECT, null=True)
    server = models.ForeignKey(Server, on_delete=models.PROTECT, null=True)
    team = models.TextField(blank=True, db_default="")
    """Only this team is told; empty: every team that looks after the server."""
    also = models.TextField(blank=True, db_default="")
    """This team is told too, whatever it looks after: an escalation."""
    facts = models.JSONField(default=dict)
    """Round number, deadline, server and tool by title."""
    spread_at = models.DateTimeField(null=True)
    """When it was handed to the teams' ways."""

    class Meta:
        db_table = "notice"
        constraints = [models.UniqueConstraint(fields=["kind", "item"], name="notice_once")]
        indexes = [models.Index(fields=["id"], condition=Q(spread_at__isnull=True), name="notice_new")]


class NoticeRoute(models.Model):
    """One way to reach a team, and what it wants to hear there."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="routes")
    way = models.TextField(choices=choices_of(Way))
    address = models.TextField()
    """E-mail addresses, separated by commas; or the URL of a webhook."""
    secret_ref = models.TextField(blank=True, db_default="")
    """Name of the environment variable that holds the webhook's signing secret; never the secret."""
    allow_private = models.BooleanField(db_default=False)
    kinds = ArrayField(models.TextField(), default=list)
    quiet_from = models.TimeField(null=True)
    quiet_until = models.TimeField(null=True)
    """Between the two, in `zone`, nothing is sent; what waits goes out afterwards."""
    zone = models.TextField(db_default="UTC")
    language = models.TextField(db_default="en")
    """In which its messages are written, as the console names languages."""
    enabled = models.BooleanField(db_default=True)
    tested_at = models.DateTimeField(null=True)
    test_error = models.TextField(blank=True, db_default="")

    class Meta:
        db_table = "notice_route"
        constraints = [
            models.CheckConstraint(
                condition=Q(quiet_from__isnull=True, quiet_until__isnull=True)
                | Q(quiet_from__isnull=False, quiet_until__isnull=False),
                name="quiet_hours_have_two_ends",
            ),
        ]


class NoticeDelivery(models.Model):
    """One notice on one way: sent once, tried again with growing pauses, and never forgotten."""

    notice = models.ForeignKey(Notice, on_delete=models.PROTECT)
    route = models.ForeignKey(NoticeRoute, on_delete=models.CASCADE)
    attempts = models.PositiveSmallIntegerField(db_default=0)
    next_at = models.DateTimeField(null=True)
    """When it is tried next; None: sent, or given up."""
    sent_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True, db_default="")

    class Meta:
        db_table = "notice_delivery"
        constraints = [models.UniqueConstraint(fields=["notice", "route"], name="notice_once_a_way")]
        indexes = [models.Index(fields=["next_at"], condition=Q(next_at__isnull=False), name="notice_due")]
