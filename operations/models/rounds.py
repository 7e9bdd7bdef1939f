"""Input rounds, what was heard before it could be asked, and what people answered."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from operations.machine import Delivery
from operations.models.operation import Operation
from operations.models.words import choices_of


class RoundStatus(models.TextChoices):
    """Whether a round can still be answered."""

    OPEN = "OPEN", "open"
    ANSWERED = "ANSWERED", "answered"
    EXPIRED = "EXPIRED", "expired"
    CLOSED = "CLOSED", "closed"


class Round(models.Model):
    """One time that the server asked for input (I4)."""

    operation = models.ForeignKey(Operation, on_delete=models.PROTECT, related_name="rounds")
    number = models.PositiveIntegerField()
    status = models.TextField(choices=RoundStatus.choices, db_default=RoundStatus.OPEN)
    closed_reason = models.TextField(blank=True, db_default="")
    opened_at = models.DateTimeField()
    deadline_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)
    before_task = models.BooleanField(db_default=False)
    request_digest = models.CharField(max_length=64)
    """Over all questions of the round, each with its key."""
    schema_digest = models.CharField(max_length=64)
    questions = models.JSONField()
    """List of {key, mode, message, schema, url, digest}; see `queries.RoundQuestion`."""
    keys = ArrayField(models.TextField(), null=True)
    """The server's ids of the questions, in their order, where it repeated them under others (I4)."""
    claimed_by = models.TextField(blank=True, db_default="")
    claimed_at = models.DateTimeField(null=True)
    looked_at = models.DateTimeField(null=True)
    """When an approver's opening of the page last brought a look forward (I1)."""
    policy = models.JSONField(default=dict, db_default={})
    """Who has to agree, as it stood when the round was opened; see `approval.Policy`."""

    class Meta:
        db_table = "input_round"
        constraints = [
            models.UniqueConstraint(fields=["operation", "number"], name="round_once"),
            models.UniqueConstraint(fields=["operation"], condition=Q(status="OPEN"), name="one_open_round"),
        ]
        indexes = [
            # One index for each tab of the inbox, in the order of its page.
            models.Index(fields=["deadline_at", "id"], condition=Q(status="OPEN"), name="round_open_by_deadline"),
            models.Index(
                fields=["claimed_by", "deadline_at", "id"], condition=Q(status="OPEN"), name="round_open_of_person"
            ),
            models.Index(fields=["-closed_at", "-id"], condition=Q(status="ANSWERED"), name="round_answered"),
            models.Index(
                fields=["-closed_at", "-id"], condition=Q(status__in=["EXPIRED", "CLOSED"]), name="round_unanswered"
            ),
        ]


class HeardQuestion(models.Model):
    """A question that came on a stream nobody had asked on. It waits for the look that opens its round (P7)."""

    operation = models.ForeignKey(Operation, on_delete=models.PROTECT)
    at = models.DateTimeField()
    session = models.TextField()
    """The operation's own session at that time: the question can be answered in no other."""
    task_id = models.TextField(blank=True, db_default="")
    """The task that the question names; empty where it names none and the session stands for it."""
    event_id = models.TextField(blank=True, db_default="")
    question = models.JSONField()
    round = models.PositiveIntegerField(null=True)
    """The round it was asked in; None while it waits."""

    class Meta:
        db_table = "heard_question"
        constraints = [
            models.UniqueConstraint(
                fields=["operation", "session", "event_id"],
                condition=~Q(event_id=""),
                name="heard_once",
            ),
        ]


class Listener(models.Model):
    """Which process holds the standing stream of an operation, and until when at the latest."""

    operation = models.OneToOneField(Operation, on_delete=models.CASCADE, primary_key=True)
    holder = models.UUIDField()
    until = models.DateTimeField()

    class Meta:
        db_table = "listener"


class Answer(models.Model):
    """A person's answer to a round. The first valid one wins; one row a round (I3)."""

    id = models.UUIDField(primary_key=True)
    """Chosen by the form: the same post twice is one answer (R9)."""
    round = models.OneToOneField(Round, on_delete=models.PROTECT)
    by = models.TextField()
    at = models.DateTimeField()
    replies = models.JSONField()
    """List of {key, action, content}; content is JSON text, so that no digit is lost."""
    comment = models.TextField(blank=True, db_default="")
    as_shown_digest = models.CharField(max_length=64)
    delivery = models.TextField(choices=choices_of(Delivery), db_default=Delivery.STORED)
    sent_at = models.DateTimeField(null=True)
    used_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "answer"
