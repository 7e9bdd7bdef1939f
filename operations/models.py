"""The tables of the ledger, their constraints, and what the database itself refuses.

Only `ledger` writes these tables and only `ledger` and `queries` import them.

Note [One row decides]
Every decision about an operation is taken on its one row in `operation`, under its lock. Permits,
answers and rounds have rows of their own for the record, but what a decision needs of them is
repeated on the operation row and changed in the same transaction. At READ COMMITTED a decision
that reads one table and writes another lets both sides of a race win.

Note [A narrow table for what is due]
`operation` is wide and changes on transitions only. Each look of a million operations would
rewrite it. So due time, lease and look counter live in `due`, a narrow table that holds only
operations somebody still has to look at, with room on its pages for updates in place.
"""

from __future__ import annotations

import uuid

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import MD5

from operations.machine import FINAL, Delivery, NotFound, Outcome, Reason, State
from operations.rollout import Mode
from operations.verdicts import Verdict


def _words(enum: type) -> list[tuple[str, str]]:
    return [(member.value, member.value) for member in enum]  # type: ignore[attr-defined]


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
    mode = models.TextField(choices=_words(Mode), db_default=Mode.FULL)
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
                | Q(mode__in=[Mode.DRAINING, Mode.RETIRED], share=0),
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
    next_slot_at = models.DateTimeField(null=True)
    """The next moment at which a request may leave for this server, over all workers (P2)."""
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


class Operation(models.Model):
    """`toolOperation.v1`: one long-running tool call (L1)."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    version = models.PositiveIntegerField(db_default=1)
    state = models.TextField(choices=_words(State), db_default=State.SUBMITTING)
    reason = models.TextField(choices=_words(Reason), blank=True, db_default="")
    """Why it stands before a person; empty while nobody is needed."""
    created_at = models.DateTimeField()
    entered_at = models.DateTimeField()
    """When it came into its present state."""

    client = models.TextField()
    call_node = models.TextField()
    principal = models.TextField()
    submission_key = models.TextField()
    request_digest = models.CharField(max_length=64)
    arguments = models.BinaryField()
    """One JSON object, UTF-8: the bytes that are sent, each time (X2)."""

    server = models.ForeignKey(Server, on_delete=models.PROTECT)
    tool = models.ForeignKey(Tool, on_delete=models.PROTECT)
    descriptor = models.ForeignKey(ToolDescriptor, on_delete=models.PROTECT)
    protocol = models.ForeignKey(ProtocolVersion, on_delete=models.PROTECT, db_column="protocol")
    release = models.TextField()
    """The adapter release the call was made under."""
    created_epoch = models.PositiveIntegerField()
    as_task = models.BooleanField(db_default=True)

    session = models.TextField(null=True)
    task_id = models.TextField(null=True)
    task_created_at = models.TextField(blank=True, db_default="")
    protocol_status = models.TextField(blank=True, db_default="")
    protocol_message = models.TextField(blank=True, db_default="")
    terminal_status = models.TextField(null=True)
    look = models.PositiveBigIntegerField(db_default=0)
    looked_at = models.DateTimeField(null=True)
    poll_ms = models.PositiveIntegerField(null=True)
    stream_event_id = models.TextField(blank=True, db_default="")
    list_cursor = models.TextField(blank=True, db_default="")

    cancel_generation = models.PositiveIntegerField(db_default=0)
    cancel_intent = models.BooleanField(db_default=False)
    cancel_requested_at = models.DateTimeField(null=True)
    cancel_requested_by = models.TextField(blank=True, db_default="")
    cancel_reason = models.TextField(blank=True, db_default="")
    cancel_sends = models.PositiveIntegerField(db_default=0)
    cancel_acked = models.BooleanField(db_default=False)
    cancel_settled_at = models.DateTimeField(null=True)
    """G4: settled, acknowledged, refused, or stated to a person as not confirmed."""
    cancel_stated = models.BooleanField(db_default=False)
    """C12: a person has been told that the cancel is not confirmed."""

    round = models.PositiveIntegerField(db_default=0)
    round_open = models.BooleanField(db_default=False)
    round_before_task = models.BooleanField(db_default=False)
    continuation_state = models.TextField(null=True)
    """What the server wants back with the next attempt of a call it answered by a question, opaque."""
    continuation = models.PositiveIntegerField(null=True)
    """Set: the next attempt goes on from the answer to this send; no two attempts go on from the same."""
    round_deadline_at = models.DateTimeField(null=True)
    answer_delivery = models.TextField(null=True)

    sends = models.PositiveIntegerField(db_default=0)
    sends_disproved = models.PositiveIntegerField(db_default=0)
    fetches = models.PositiveIntegerField(db_default=0)
    first_sent_at = models.DateTimeField(null=True)
    lost_at = models.DateTimeField(null=True)
    not_found = models.TextField(choices=_words(NotFound), blank=True, db_default="")
    budget_ends_at = models.DateTimeField()
    task_expires_at = models.DateTimeField(null=True)

    result_digest = models.CharField(max_length=64, null=True)
    result_is_error = models.BooleanField(db_default=False)
    result_task_id = models.TextField(null=True)
    evidence_count = models.PositiveIntegerField(db_default=0)
    disputed = models.BooleanField(db_default=False)
    """P8: its task id turned up on another operation after acceptance."""

    class Meta:
        db_table = "operation"
        constraints = [
            models.UniqueConstraint(fields=["client", "call_node"], name="one_operation_per_call_node"),
            models.UniqueConstraint(fields=["client", "submission_key"], name="submission_key_once"),
            # P8. Over a hash: a server may name its tasks at any length.
            models.UniqueConstraint(F("server"), F("protocol"), MD5("task_id"), name="task_id_once_per_server"),
            models.CheckConstraint(condition=Q(sends_disproved__lte=F("sends")), name="sends_disproved_of_sends"),
        ]
        indexes = [
            models.Index(fields=["-created_at", "-id"], name="operation_newest"),
            models.Index(fields=["state", "-created_at", "-id"], name="operation_by_state"),
            models.Index(fields=["submission_key"], name="operation_by_key"),
            models.Index(
                fields=["cancel_requested_at"],
                condition=Q(cancel_requested_at__isnull=False),
                name="operation_by_cancel",
            ),
            models.Index(
                fields=["protocol", "state"],
                condition=~Q(state__in=sorted(FINAL)),
                name="operation_in_flight",
            ),
        ]


class Due(models.Model):
    """When an operation must be driven next. See Note [A narrow table for what is due]."""

    operation = models.OneToOneField(Operation, on_delete=models.CASCADE, primary_key=True)
    server = models.ForeignKey(Server, on_delete=models.PROTECT, db_index=False)
    due_at = models.DateTimeField()
    urgent = models.BooleanField(db_default=False)
    """Cancels, answers and fetches go before routine looks inside the same budget."""
    lease_until = models.DateTimeField(null=True)
    look = models.PositiveBigIntegerField(db_default=0)
    """Counts claims; the number of the look that the claim's holder is allowed."""
    misses = models.PositiveIntegerField(db_default=0)
    """Drives in a row that brought nothing usable: the exponent of the back-off."""
    trouble = models.TextField(blank=True, db_default="")
    """Why the last drive brought nothing; empty once the server has answered again."""
    trouble_since = models.DateTimeField(null=True)

    class Meta:
        db_table = "due"
        indexes = [
            models.Index(fields=["server", "due_at"], name="due_by_server"),
            models.Index(fields=["server"], condition=Q(trouble_since__isnull=False), name="due_in_trouble"),
        ]


class Evidence(models.Model):
    """What was seen on the wire, or what a person said. Append-only (L7)."""

    operation = models.ForeignKey(Operation, on_delete=models.PROTECT)
    seq = models.PositiveIntegerField()
    at = models.DateTimeField()
    kind = models.TextField()
    """`wire`, `result`, `verdict`: what the bytes are."""
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
        ]


class PermitKind(models.TextChoices):
    """What a permit lets out."""

    SUBMIT = "SUBMIT", "submit"
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
    claimed_by = models.TextField(blank=True, db_default="")
    claimed_at = models.DateTimeField(null=True)
    looked_at = models.DateTimeField(null=True)
    """When an approver's opening of the page last brought a look forward (I1)."""

    class Meta:
        db_table = "input_round"
        constraints = [
            models.UniqueConstraint(fields=["operation", "number"], name="round_once"),
            models.UniqueConstraint(fields=["operation"], condition=Q(status="OPEN"), name="one_open_round"),
        ]
        indexes = [
            models.Index(fields=["deadline_at"], condition=Q(status="OPEN"), name="round_open_by_deadline"),
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
    delivery = models.TextField(choices=_words(Delivery), db_default=Delivery.STORED)
    sent_at = models.DateTimeField(null=True)
    used_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "answer"


class Receipt(models.Model):
    """The one terminal record of a call node (R3, R5). Append-only."""

    id = models.UUIDField(primary_key=True)
    operation = models.OneToOneField(Operation, on_delete=models.PROTECT)
    at = models.DateTimeField()
    outcome = models.TextField(choices=_words(Outcome))
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
    verdict = models.TextField(choices=_words(Verdict))
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


class AdminEvent(models.Model):
    """What an admin changed about how calls are run: who, what, why, before and after. Append-only (O5)."""

    at = models.DateTimeField()
    by = models.TextField()
    what = models.TextField()
    """A verb in capitals, such as `ROLLED_BACK`."""
    target = models.TextField()
    """Kind and name: `protocol:2025-11-25`, `server:reports`, `tool:reports/quarterly_report`."""
    reason = models.TextField()
    before = models.JSONField(default=dict)
    after = models.JSONField(default=dict)

    class Meta:
        db_table = "admin_event"
        indexes = [models.Index(fields=["target", "-id"], name="admin_event_of_target")]


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
