"""Protocol versions, servers and tools as registered, and which release takes a call."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from operations.models.words import choices_of
from operations.rollout import Mode


class ProtocolVersion(models.Model):
    """One exact protocol version with its execution epoch and its submit switch (O3, O5)."""

    version = models.TextField(primary_key=True)
    epoch = models.PositiveIntegerField(db_default=1)
    submits_open = models.BooleanField(db_default=True)
    closed_reason = models.TextField(blank=True, db_default="")
    release = models.TextField()
    """The adapter release that looks after what was begun under an earlier epoch."""
    rolled_back_at = models.DateTimeField(null=True)
    """When it was last rolled back: the drain view counts from here."""

    class Meta:
        db_table = "protocol_version"


class AdapterRelease(models.Model):
    """One release of a protocol version's adapter, and what it does for new calls (O2)."""

    protocol = models.ForeignKey(
        ProtocolVersion, on_delete=models.PROTECT, related_name="releases", db_column="protocol"
    )
    release = models.TextField()
    mode = models.TextField(choices=choices_of(Mode), db_default=Mode.FULL)
    share = models.PositiveSmallIntegerField(db_default=100)
    since = models.DateTimeField(null=True)
    """When it came into its mode; None for the one that the version was registered with."""

    class Meta:
        db_table = "adapter_release"
        constraints = [
            models.UniqueConstraint(fields=["protocol", "release"], name="release_once"),
            models.CheckConstraint(
                condition=Q(mode=Mode.FULL, share=100)
                | Q(mode=Mode.SHARE, share__gt=0, share__lt=100)
                | Q(mode__in=[Mode.SHADOW, Mode.DRAINING, Mode.RETIRED], share=0),
                name="share_fits_mode",
            ),
        ]


class RoutingDecision(models.Model):
    """Which release took a call node's call, decided once and for ever (O2). Append-only."""

    client = models.TextField()
    call_node = models.TextField()
    protocol = models.ForeignKey(ProtocolVersion, on_delete=models.PROTECT, db_column="protocol", db_index=False)
    release = models.TextField(null=True)
    """None: it keeps its existing path."""
    bucket = models.PositiveSmallIntegerField()
    at = models.DateTimeField()

    class Meta:
        db_table = "routing_decision"
        constraints = [
            models.UniqueConstraint(fields=["client", "call_node"], name="one_decision_per_call_node"),
        ]


class Server(models.Model):
    """The profile of one remote tool server. Max QPS sits here and nowhere else (P2)."""

    slug = models.SlugField(primary_key=True)
    title = models.TextField()
    url = models.URLField(max_length=500)
    protocol = models.ForeignKey(ProtocolVersion, on_delete=models.PROTECT, db_column="protocol")
    credential_ref = models.TextField(blank=True, db_default="")
    """Name of the environment variable that holds the Authorization value; never the value."""
    allow_private = models.BooleanField(db_default=False)
    max_qps = models.FloatField(db_default=5)
    poll_floor_ms = models.PositiveIntegerField(db_default=1000)
    poll_cap_ms = models.PositiveIntegerField(db_default=60_000)
    lookup = models.TextField(db_default="none")
    lookup_tool = models.TextField(blank=True, db_default="")
    """The server's own tool that `lookup_tool` asks; empty for every other lookup."""
    quarantine_s = models.PositiveIntegerField(db_default=300)
    """Class B: how long a lost request may still be travelling (X2)."""
    key_window_s = models.PositiveIntegerField(db_default=0)
    """Class A: how long the server honours a submission key."""
    lookup_proved_at = models.DateTimeField(null=True)
    """When a submit of ours was last seen in the list that `session_list` reads; None: its silence proves nothing."""
    lookup_disproved = models.TextField(blank=True, db_default="")
    """What spoke against such a proof; it stands until the next negotiation or change of the profile."""
    listens = models.BooleanField(db_default=False)
    """The server asks on a stream of its own: one is held open for each operation under way."""
    task_ttl_s = models.PositiveIntegerField(db_default=86_400)
    submits_open = models.BooleanField(db_default=True)
    closed_reason = models.TextField(blank=True, db_default="")
    capabilities = models.JSONField(null=True)
    negotiated_at = models.DateTimeField(null=True)
    contract_changed_at = models.DateTimeField(null=True)
    """When it last declared or described something else than before; None: nothing is waiting for an admin (O5)."""
    contract_changes = models.JSONField(default=list, db_default=[])
    """List of {what, name, before, after}, oldest first, until an admin has looked at them."""
    next_slot_at = models.DateTimeField(null=True)
    """The next moment at which a request may leave for this server, over all workers (P2)."""
    due_since = models.DateTimeField(null=True)
    """Nothing of this server is due before it. See Note [A low-water mark]."""
    swept_at = models.DateTimeField(null=True)
    """When a claim last looked below that mark, and set it anew."""
    lowest_due_at = models.DateTimeField(null=True)
    """The lowest due time that it found: it began there, and the next one need not begin below it."""
    read_through_at = models.DateTimeField(null=True)
    """When a claim last read from the very beginning."""
    paused_until = models.DateTimeField(null=True)
    pause_reason = models.TextField(blank=True, db_default="")
    slots_given = models.PositiveBigIntegerField(db_default=0)
    """Requests that had leave to go out, ever."""
    second_at = models.DateTimeField(null=True)
    """The second that `second_slots` counts in."""
    second_slots = models.PositiveIntegerField(db_default=0)
    peak_slots = models.PositiveIntegerField(db_default=0)
    """G3: the most in one second since the last measurement."""
    measured_slots = models.PositiveBigIntegerField(db_default=0)
    measured_at = models.DateTimeField(null=True)
    used_qps = models.FloatField(null=True)
    """Requests a second between the last two measurements."""

    class Meta:
        db_table = "server"
        constraints = [
            models.CheckConstraint(condition=Q(max_qps__gt=0), name="server_max_qps_positive"),
        ]


class Effect(models.TextChoices):
    """What a tool may do outside. Only NONE exempts from effect records (C6)."""

    NONE = "NONE", "free of side effects"
    EXTERNAL = "EXTERNAL", "may have external effects"


class ToolDescriptor(models.Model):
    """One version of a tool's description, as received. Append-only; its digest is its version."""

    server = models.ForeignKey(Server, on_delete=models.PROTECT)
    name = models.TextField()
    digest = models.CharField(max_length=64)
    title = models.TextField(blank=True)
    description = models.TextField(blank=True)
    task_support = models.TextField()
    input_schema = models.JSONField()
    output_schema = models.JSONField(null=True)
    raw = models.BinaryField()
    seen_at = models.DateTimeField()

    class Meta:
        db_table = "tool_descriptor"
        constraints = [
            models.UniqueConstraint(fields=["server", "name", "digest"], name="descriptor_once"),
        ]


class Tool(models.Model):
    """A tool as registered: its newest descriptor and what we decided about it."""

    server = models.ForeignKey(Server, on_delete=models.PROTECT, related_name="tools")
    name = models.TextField()
    descriptor = models.ForeignKey(ToolDescriptor, on_delete=models.PROTECT)
    effect = models.TextField(choices=Effect.choices, db_default=Effect.EXTERNAL)
    effect_on_error = models.BooleanField(db_default=False)
    """C6: a TOOL_ERROR of this tool opens an effect record too."""
    expected_s = models.PositiveIntegerField(db_default=60)
    budget_s = models.PositiveIntegerField(db_default=3600)
    """Wait budget of a call that names none (P2)."""
    answer_within_s = models.PositiveIntegerField(db_default=1800)
    """I2: the policy's share in a round's deadline."""
    sync_limit_s = models.PositiveIntegerField(null=True)
    """N2: the published limit under which the tool runs without task support."""
    submits_open = models.BooleanField(db_default=True)
    closed_reason = models.TextField(blank=True, db_default="")

    class Meta:
        db_table = "tool"
        constraints = [
            models.UniqueConstraint(fields=["server", "name"], name="tool_once_per_server"),
        ]
