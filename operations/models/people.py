"""People as the ledger knows them: which team sees which servers, who has to agree, and who did what."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Q

from operations.models.profile import Effect, Server, Tool
from operations.models.rounds import Round


class AuditOutcome(models.TextChoices):
    """What became of what somebody wanted to do."""

    DONE = "DONE", "done"
    REFUSED = "REFUSED", "refused"


class AuditEvent(models.Model):
    """One thing that somebody did, or tried and was refused: who, what, to what, from where. Append-only (W, O5)."""

    at = models.DateTimeField()
    by = models.TextField()
    """`person:ada`, `client:flows`; empty for somebody who has not signed in."""
    what = models.TextField()
    """A verb in capitals, such as `ROLLED_BACK`."""
    target = models.TextField()
    """Kind and name: `operation:<id>`, `protocol:2025-11-25`, `server:reports`, `tool:reports/quarterly_report`."""
    server = models.TextField(blank=True, db_default="")
    """The server it is about: who does not see that server does not see the row. Empty: about none."""
    outcome = models.TextField(choices=AuditOutcome.choices, db_default=AuditOutcome.DONE)
    reason = models.TextField()
    """Done: the reason that was given. Refused: what stood against it."""
    before = models.JSONField(default=dict)
    after = models.JSONField(default=dict)
    ip = models.TextField(blank=True, db_default="")
    session = models.TextField(blank=True, db_default="")
    """A keyed hash of the session's id, or the beginning of a token: tells two sources apart, and opens neither."""

    class Meta:
        db_table = "audit_event"
        indexes = [
            models.Index(fields=["target", "-id"], name="audit_of_target"),
            models.Index(fields=["by", "-id"], name="audit_of_person"),
            models.Index(fields=["what", "-id"], name="audit_of_verb"),
            models.Index(fields=["-id"], condition=Q(outcome="REFUSED"), name="audit_refused"),
            BrinIndex(fields=["at"], name="audit_by_time", pages_per_range=32),
        ]


class Team(models.Model):
    """People who look after the same servers. Whoever is in no team sees none (W)."""

    slug = models.SlugField(primary_key=True)
    title = models.TextField()
    all_servers = models.BooleanField(db_default=False)
    """Sees every server, also one that is registered later."""

    class Meta:
        db_table = "team"


class TeamServer(models.Model):
    """A server that a team looks after."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="servers")
    server = models.ForeignKey(Server, on_delete=models.CASCADE)

    class Meta:
        db_table = "team_server"
        constraints = [models.UniqueConstraint(fields=["team", "server"], name="server_once_per_team")]


class TeamMember(models.Model):
    """A person of a team, named as everywhere in the ledger: `person:ada`."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="members")
    person = models.TextField()

    class Meta:
        db_table = "team_member"
        constraints = [models.UniqueConstraint(fields=["person", "team"], name="member_once_per_team")]


class ApprovalPolicy(models.Model):
    """Who has to agree before an answer leaves: for one tool, or for every tool of one side-effect class.

    A round keeps the policy it was opened under: a later change is for later rounds.
    """

    tool = models.OneToOneField(Tool, on_delete=models.CASCADE, null=True)
    effect = models.TextField(choices=Effect.choices, null=True, unique=True)
    needed = models.PositiveSmallIntegerField(db_default=1)
    """How many people have to give the very same answer."""
    four_eyes = models.BooleanField(db_default=False)
    """Whoever the call is made for may not answer."""
    team = models.ForeignKey(Team, on_delete=models.PROTECT, null=True, related_name="+")
    """Only people of this team may answer; None: every approver who sees the server."""
    comment = models.BooleanField(db_default=False)
    """An answer needs a comment."""
    remind_s = ArrayField(models.PositiveIntegerField(), default=list)
    """Seconds before the deadline at which people are reminded."""
    escalate_to = models.ForeignKey(Team, on_delete=models.PROTECT, null=True, related_name="+")
    """The team that is told of the last reminder and of a round that nobody answered."""

    class Meta:
        db_table = "approval_policy"
        constraints = [
            models.CheckConstraint(
                condition=Q(tool__isnull=True, effect__isnull=False) | Q(tool__isnull=False, effect__isnull=True),
                name="policy_is_for_one_thing",
            ),
            models.CheckConstraint(condition=Q(needed__gte=1, needed__lte=9), name="policy_needs_one_to_nine"),
        ]


class Vote(models.Model):
    """One person's answer to a round. It leaves when enough people have given the very same one (I3)."""

    id = models.UUIDField(primary_key=True)
    """Chosen by the form: the same post twice is one vote (R9)."""
    round = models.ForeignKey(Round, on_delete=models.PROTECT, related_name="votes")
    by = models.TextField()
    at = models.DateTimeField()
    digest = models.CharField(max_length=64)
    """Over the replies: equal digests are equal answers."""
    accepts = models.BooleanField()
    """False: it declines or dismisses every question, which needs nobody else."""
    replies = models.JSONField()
    comment = models.TextField(blank=True, db_default="")
    as_shown_digest = models.CharField(max_length=64)
    withdrawn_at = models.DateTimeField(null=True)
    """When its giver took it back, or gave another one instead."""

    class Meta:
        db_table = "vote"
        constraints = [
            models.UniqueConstraint(
                fields=["round", "by"], condition=Q(withdrawn_at__isnull=True), name="one_vote_a_person"
            ),
        ]
