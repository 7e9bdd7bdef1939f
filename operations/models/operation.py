"""The operation's own row, and when it is due.

Note [One row decides]
Every decision about an operation is taken on its one row in `operation`, under its lock. Permits,
answers and rounds have rows of their own for the record, but what a decision needs of them is
repeated on the operation row and changed in the same transaction. At READ COMMITTED a decision
that reads one table and writes another lets both sides of a race win.

Note [A narrow table for what is due]
`operation` is wide and changes on transitions only. Each look of a million operations would
rewrite it: measured, a claim and its write-back there cost the database 368 microseconds a look
where they cost 69 in a table of their own. So due time, lease and look counter live in `due`, which
holds only operations somebody still has to look at. What was chosen for it, and why:

* A lease beside the due time, and not a due time that is moved on by the claim: a wish for an early
  look moves the due time, and must not take the lease from whoever holds it.
* A claim changes no indexed column of a routine row, so that it is a heap-only update, which leaves
  nothing in any index. Fill factor 70 keeps the room for it on the row's own page.
* One index for what is due, by server and time. A second one over the time alone made the planner
  read all servers' rows for one server's where many were due at the same instant.
* A small index for what is urgent: ordering by urgency first would sort all that is due.
* The claim names its rows by an array and not by a join: of a join the planner expected thousands
  of rows and read the whole table, sixty milliseconds for a hundred rows.
* Vacuum at two per cent of dead rows: at the default of twenty a million looks pile up first.
* The mark on the server's row: see Note [A low-water mark] in the ledger's claims.
* An unchanged look writes this table alone, many in one statement, without waiting for the disk: if
  it is lost the lease ends by itself. A claim does wait: a look number that was given out twice
  would let an older look overwrite a newer one (P4).
"""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import MD5

from operations.machine import FINAL, NotFound, Reason, State
from operations.models.profile import ProtocolVersion, Server, Tool, ToolDescriptor
from operations.models.words import choices_of


class Operation(models.Model):
    """`toolOperation.v1`: one long-running tool call (L1)."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    version = models.PositiveIntegerField(db_default=1)
    state = models.TextField(choices=choices_of(State), db_default=State.SUBMITTING)
    reason = models.TextField(choices=choices_of(Reason), blank=True, db_default="")
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

    # The lists' own indexes below begin with these columns; one of each is enough.
    server = models.ForeignKey(Server, on_delete=models.PROTECT, db_index=False)
    tool = models.ForeignKey(Tool, on_delete=models.PROTECT, db_index=False)
    descriptor = models.ForeignKey(ToolDescriptor, on_delete=models.PROTECT, db_index=False)
    protocol = models.ForeignKey(ProtocolVersion, on_delete=models.PROTECT, db_column="protocol", db_index=False)
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
    replays = models.PositiveIntegerField(db_default=0)
    """Lookups that sent the submit's own bytes once more and are not proved to have created nothing."""
    fetches = models.PositiveIntegerField(db_default=0)
    first_sent_at = models.DateTimeField(null=True)
    lost_at = models.DateTimeField(null=True)
    not_found = models.TextField(choices=choices_of(NotFound), blank=True, db_default="")
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
            # One index for each way to narrow a list, by state: see Note [One slice a state] in queries.operations.
            models.Index(fields=["server", "state", "-created_at", "-id"], name="operation_by_server"),
            models.Index(fields=["tool", "state", "-created_at", "-id"], name="operation_by_tool"),
            models.Index(fields=["client", "state", "-created_at", "-id"], name="operation_by_client"),
            models.Index(fields=["principal", "state", "-created_at", "-id"], name="operation_by_principal"),
            models.Index(fields=["protocol", "state", "-created_at", "-id"], name="operation_by_protocol"),
            models.Index(fields=["call_node"], name="operation_by_call_node"),
            models.Index(MD5("task_id"), condition=Q(task_id__isnull=False), name="operation_by_task"),
            models.Index(
                fields=["cancel_requested_at"],
                condition=Q(cancel_requested_at__isnull=False),
                name="operation_by_cancel",
            ),
            models.Index(
                fields=["tool", "cancel_requested_at"],
                condition=Q(cancel_requested_at__isnull=False),
                name="operation_cancels_of_tool",
            ),
            # What stands before a person, oldest clock first.
            models.Index(
                fields=["entered_at", "id"],
                condition=Q(state__in=["SUBMISSION_UNKNOWN", "NOT_FOUND_SAFE", "UNKNOWN"]),
                name="operation_on_desk",
            ),
            models.Index(
                fields=["entered_at", "id"],
                condition=Q(cancel_stated=True) & ~Q(state__in=sorted(FINAL)),
                name="operation_unconfirmed",
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
            # Without it a claim would sort all that is due to find the few that are urgent.
            models.Index(fields=["server", "due_at"], condition=Q(urgent=True), name="due_urgent"),
            models.Index(fields=["server"], condition=Q(trouble_since__isnull=False), name="due_in_trouble"),
        ]
