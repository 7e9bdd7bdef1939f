"""What the database itself refuses, as SQL made from the machine's table (L5, L7).

A migration runs `install()`. When the table changes, the next migration runs it again; a test
compares what the database holds with `machine.TRANSITIONS`.
"""

from __future__ import annotations

from operations.machine import FINAL, edges

APPEND_ONLY = (
    "audit_event",
    "evidence",
    "evidence_payload",
    "journal",
    "receipt",
    "routing_decision",
    "tool_descriptor",
)
FIXED = (
    "client",
    "call_node",
    "submission_key",
    "request_digest",
    "arguments",
    "created_at",
    "server_id",
    "tool_id",
    "descriptor_id",
    "protocol",
)
"""Columns of an operation that never change: what it is."""
RISING = ("cancel_generation", "round", "sends", "sends_disproved", "evidence_count", "version")
"""Columns of an operation that never fall."""


def pairs() -> tuple[str, ...]:
    """Return every legal `source>target`, sorted."""
    return tuple(sorted({f"{source}>{target}" for source, _, target in edges()}))


def install() -> str:
    """Return the SQL that makes every function and trigger, replacing older ones."""
    parts = (_append_only, _operation_guard, _final_has_receipt, _receipt_is_final, _shadow_guard, _epoch_guard)
    return "".join(part() for part in parts)


def _append_only() -> str:
    function = """
CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'check_violation';
END $$;"""
    triggers = [
        f"""
CREATE OR REPLACE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON {table}
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE OR REPLACE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();"""
        for table in APPEND_ONLY
    ]
    return function + "".join(triggers) + _payload_guard()


def _payload_guard() -> str:
    """The one exception (L7): the purge lets go of the bytes of what has ended; their digests stay."""
    final = ", ".join(f"'{state}'" for state in sorted(FINAL))
    return f"""
CREATE OR REPLACE FUNCTION refuse_payload_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('longcall.purge', true) = 'on' AND EXISTS (
        SELECT FROM evidence e JOIN operation o ON o.id = e.operation_id
        WHERE e.id = OLD.evidence_id AND o.state IN ({final}))
    THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'check_violation';
END $$;
CREATE OR REPLACE TRIGGER evidence_payload_append_only BEFORE UPDATE OR DELETE ON evidence_payload
    FOR EACH ROW EXECUTE FUNCTION refuse_payload_change();"""


def _operation_guard() -> str:
    legal = ", ".join(f"'{pair}'" for pair in pairs())
    fixed = " OR ".join(f"NEW.{name} IS DISTINCT FROM OLD.{name}" for name in FIXED)
    falling = " OR ".join(f"NEW.{name} < OLD.{name}" for name in RISING)
    return f"""
CREATE OR REPLACE FUNCTION guard_operation() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'operations are never deleted' USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.state <> OLD.state AND NOT (OLD.state || '>' || NEW.state) = ANY(ARRAY[{legal}]) THEN
        RAISE EXCEPTION 'no legal step from % to %', OLD.state, NEW.state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'operation_legal_step';
    END IF;
    IF {fixed} THEN
        RAISE EXCEPTION 'what an operation is never changes' USING ERRCODE = 'check_violation';
    END IF;
    IF {falling} THEN
        RAISE EXCEPTION 'a counter of an operation never falls' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER operation_guard BEFORE UPDATE OR DELETE ON operation
    FOR EACH ROW EXECUTE FUNCTION guard_operation();"""


def _final_has_receipt() -> str:
    final = ", ".join(f"'{state}'" for state in sorted(FINAL))
    return f"""
CREATE OR REPLACE FUNCTION final_has_receipt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM receipt r JOIN outbox o ON o.receipt_id = r.id WHERE r.operation_id = NEW.id) THEN
        RAISE EXCEPTION 'a final state needs a receipt and an outbox row'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'final_has_receipt';
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS operation_final_has_receipt ON operation;
CREATE CONSTRAINT TRIGGER operation_final_has_receipt AFTER INSERT OR UPDATE OF state ON operation
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.state IN ({final}))
    EXECUTE FUNCTION final_has_receipt();"""


def _receipt_is_final() -> str:
    final = ", ".join(f"'{state}'" for state in sorted(FINAL))
    return f"""
CREATE OR REPLACE FUNCTION receipt_is_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM operation o WHERE o.id = NEW.operation_id AND o.state IN ({final})) THEN
        RAISE EXCEPTION 'a receipt needs an operation in a final state'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'receipt_is_final';
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS receipt_operation_is_final ON receipt;
CREATE CONSTRAINT TRIGGER receipt_operation_is_final AFTER INSERT ON receipt
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION receipt_is_final();"""


def _shadow_guard() -> str:
    """A shadow that is settled stays so, and what it watches never changes: nobody may tidy a divergence away."""
    fixed = ("client", "call_node", "server_id", "tool_id", "protocol", "release", "epoch", "task_id", "registered_at")
    changed = " OR ".join(f"NEW.{name} IS DISTINCT FROM OLD.{name}" for name in fixed)
    return f"""
CREATE OR REPLACE FUNCTION guard_shadow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.state <> 'OBSERVING' OR {changed} THEN
        RAISE EXCEPTION 'a shadow is never rewritten: % refused', TG_OP USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER shadow_guard BEFORE UPDATE OR DELETE ON shadow
    FOR EACH ROW EXECUTE FUNCTION guard_shadow();
CREATE OR REPLACE FUNCTION guard_divergence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.closed_at IS NOT NULL OR NEW.closed_at IS NULL
        OR (NEW.shadow_id, NEW.kind, NEW.told, NEW.seen, NEW.at)
            <> (OLD.shadow_id, OLD.kind, OLD.told, OLD.seen, OLD.at)
    THEN
        RAISE EXCEPTION 'a divergence is closed once and never rewritten: % refused', TG_OP
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER divergence_guard BEFORE UPDATE OR DELETE ON divergence
    FOR EACH ROW EXECUTE FUNCTION guard_divergence();"""


def _epoch_guard() -> str:
    """O3: undoing a rollback is a new release. A lower epoch would let what was fenced finish after all."""
    return """
CREATE OR REPLACE FUNCTION guard_epoch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.epoch < OLD.epoch THEN
        RAISE EXCEPTION 'an execution epoch never falls: % to %', OLD.epoch, NEW.epoch
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER epoch_guard BEFORE UPDATE OF epoch ON protocol_version
    FOR EACH ROW EXECUTE FUNCTION guard_epoch();"""
