"""The tables of the ledger, their constraints, and what the database itself refuses.

Only `ledger` writes these tables and only `ledger` and `queries` import them.
"""

from operations.models.desk import (
    Batch,
    BatchKind,
    BatchRow,
    BatchStatus,
    Incident,
    IncidentItem,
    LeftBy,
    RowStatus,
)
from operations.models.lists import DefaultView, SavedView
from operations.models.notices import Notice, NoticeDelivery, NoticeRoute
from operations.models.operation import Due, Operation
from operations.models.outcome import DeskClaim, EffectRecord, EffectStatus, Outbox, Receipt, VerdictProposal
from operations.models.people import (
    ApprovalPolicy,
    AuditEvent,
    AuditOutcome,
    Team,
    TeamMember,
    TeamServer,
    Vote,
)
from operations.models.profile import (
    AdapterRelease,
    Effect,
    ProtocolVersion,
    RoutingDecision,
    Server,
    Tool,
    ToolDescriptor,
)
from operations.models.record import Evidence, EvidencePayload, Journal, JournalKind, Permit, PermitKind
from operations.models.rounds import Answer, HeardQuestion, Listener, Round, RoundStatus
from operations.models.shadow import Divergence, Shadow
from operations.models.watch import GateDay, InterleavingRun, LedgerCheck

__all__ = [
    "AdapterRelease",
    "Answer",
    "ApprovalPolicy",
    "AuditEvent",
    "AuditOutcome",
    "Batch",
    "BatchKind",
    "BatchRow",
    "BatchStatus",
    "DefaultView",
    "DeskClaim",
    "Divergence",
    "Due",
    "Effect",
    "EffectRecord",
    "EffectStatus",
    "Evidence",
    "EvidencePayload",
    "GateDay",
    "HeardQuestion",
    "Incident",
    "IncidentItem",
    "InterleavingRun",
    "Journal",
    "JournalKind",
    "LedgerCheck",
    "LeftBy",
    "Listener",
    "Notice",
    "NoticeDelivery",
    "NoticeRoute",
    "Operation",
    "Outbox",
    "Permit",
    "PermitKind",
    "ProtocolVersion",
    "Receipt",
    "Round",
    "RoundStatus",
    "RoutingDecision",
    "RowStatus",
    "SavedView",
    "Server",
    "Shadow",
    "Team",
    "TeamMember",
    "TeamServer",
    "Tool",
    "ToolDescriptor",
    "VerdictProposal",
    "Vote",
]
