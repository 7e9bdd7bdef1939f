"""The tables of the ledger, their constraints, and what the database itself refuses.

Only `ledger` writes these tables and only `ledger` and `queries` import them.
"""

from operations.models.operation import Due, Operation
from operations.models.outcome import DeskClaim, EffectRecord, EffectStatus, Outbox, Receipt, VerdictProposal
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
from operations.models.watch import AdminEvent, GateDay, LedgerCheck

__all__ = [
    "AdapterRelease",
    "AdminEvent",
    "Answer",
    "DeskClaim",
    "Due",
    "Effect",
    "EffectRecord",
    "EffectStatus",
    "Evidence",
    "EvidencePayload",
    "GateDay",
    "HeardQuestion",
    "Journal",
    "JournalKind",
    "LedgerCheck",
    "Listener",
    "Operation",
    "Outbox",
    "Permit",
    "PermitKind",
    "ProtocolVersion",
    "Receipt",
    "Round",
    "RoundStatus",
    "RoutingDecision",
    "Server",
    "Tool",
    "ToolDescriptor",
    "VerdictProposal",
]
