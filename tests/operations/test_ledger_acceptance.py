"""The one door to a final state (R2, R3, R5, R7, R8, R10, A1, A2, C6)."""

import json
from dataclasses import fields, replace

import pytest

from adapters import strictjson
from operations import ledger
from operations.machine import IllegalStep, Reason, StaleStep, State
from operations.models import Evidence, Receipt
from tests.operations.room import GOOD, break_commit, fence_off, result, seen, together

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def good(structured):
    return result(json.dumps({"content": [], "structuredContent": structured}).encode())


@pytest.fixture
def fetched(room):
    operation = room.at(State.FETCHING_RESULT)
    room.step(ledger.result_fetched, operation, result=result())
    return operation


def accept(room, operation, **other):
    facts = ledger.Facts.held_by(room.row(operation))
    return room.step(ledger.accept_result, operation, facts=replace(facts, **other))


class TestFetch:
    def test_r1_a_completed_status_alone_advances_nothing(self, room):
        operation = room.at(State.TERMINAL_OBSERVED)

        assert (room.receipt(operation), room.outbox(operation)) == (None, 0)

    def test_r8_starting_again_counts_and_stays(self, room):
        operation = room.at(State.FETCHING_RESULT)

        room.step(ledger.fetch_started, operation)

        assert (room.row(operation).state, room.row(operation).fetches) == (State.FETCHING_RESULT, 2)

    @pytest.mark.parametrize("state", sorted(set(State) - {State.TERMINAL_OBSERVED, State.FETCHING_RESULT}))
    def test_it_starts_nowhere_else(self, room, state):
        with pytest.raises(IllegalStep):
            room.step(ledger.fetch_started, room.at(state))

    @pytest.mark.parametrize(
        "raw",
        [
            b'{"content":[],"structuredContent":{"bb":1,"a":-0,"c":1.10}}',
            b'{"content":[],"structuredContent":{"id":9007199254740993,"amount":0.1000000000000000055}}',
            b'{"content":[{"type":"text","text":"\\u0041\\ud83d\\ude00"}] }',
        ],
    )
    def test_b060_b061_r8_the_digest_and_the_delivery_are_over_the_bytes_as_they_came(self, room, raw):
        operation = room.submit()

        room._to_accepted(operation, result(raw))

        receipt = room.receipt(operation)
        assert bytes(receipt.result) == raw
        assert receipt.result_digest == strictjson.digest(raw)


class TestAccept:
    def test_r3_writes_the_receipt_with_the_eight_facts_and_one_outbox_row(self, room, fetched):
        row = room.row(fetched)

        accept(room, fetched)

        receipt = room.receipt(fetched)
        assert (receipt.client, receipt.call_node) == (row.client, row.call_node)
        for name in ("request_digest", "task_id", "tool_version", "epoch", "cancel_generation", "terminal_status"):
            assert getattr(receipt, name) == getattr(row, name)
        assert (receipt.result_digest, bytes(receipt.result)) == (strictjson.digest(GOOD), GOOD)
        assert (receipt.outcome, room.outbox(fetched), room.due(fetched)) == ("SUCCESS", 1, None)

    @pytest.mark.parametrize("fact", [f.name for f in fields(ledger.Facts)])
    def test_r3_one_fact_that_differs_writes_neither(self, room, fetched, fact):
        other = {"epoch": 10**6, "cancel_generation": 5, "call_node": ("tests", "other")}.get(fact, "other")

        with pytest.raises(ledger.FactsDiffer) as differ:
            accept(room, fetched, **{fact: other})

        assert differ.value.names == (fact,)
        assert (room.receipt(fetched), room.outbox(fetched)) == (None, 0)
        assert room.row(fetched).state is State.FETCHING_RESULT

    def test_r3_no_task_id_is_a_value(self, room):
        operation = room.submit()
        at_once = room.ended(operation)
        room.answer_submit(operation, type(at_once)(status=at_once.status, task=None, result=result(), exchanges=()))
        room.step(ledger.fetch_started, operation)

        with pytest.raises(ledger.FactsDiffer):
            accept(room, operation, task_id="")
        accept(room, operation)

        assert room.receipt(operation).task_id is None

    def test_a2_without_a_fetched_result_it_is_refused(self, room):
        operation = room.at(State.FETCHING_RESULT)

        with pytest.raises(ledger.ResultRefused, match="missing"):
            accept(room, operation)

    @pytest.mark.parametrize("state", sorted(set(State) - {State.FETCHING_RESULT}))
    def test_a2_from_no_other_state(self, room, state):
        operation = room.at(state)

        with pytest.raises((IllegalStep, ledger.ResultRefused)):
            accept(room, operation)

        assert Receipt.objects.filter(operation_id=operation).count() == int(state in _FINAL)

    def test_r5_twice_at_once_is_one_receipt(self, room, fetched):
        ticket, facts = room.ticket(fetched), ledger.Facts.held_by(room.row(fetched))

        came = together(*[lambda: room.step(ledger.accept_result, fetched, facts=facts, ticket=ticket)] * 3)

        assert sorted(type(one).__name__ for one in came) == ["IllegalStep", "IllegalStep", "Moved"]
        assert room.outbox(fetched) == 1

    @pytest.mark.parametrize("fence", ["epoch", "look"])
    def test_f7_o3_under_an_old_ticket_nothing_is_accepted(self, room, fetched, fence):
        ticket = room.ticket(fetched)
        fence_off() if fence == "epoch" else room.claims(fetched)

        with pytest.raises(StaleStep):
            room.step(ledger.accept_result, fetched, facts=ledger.Facts.held_by(room.row(fetched)), ticket=ticket)

        assert room.receipt(fetched) is None

    def test_r8_after_a_rollback_the_new_executor_accepts_from_the_raw_bytes(self, room, fetched):
        fence_off()

        accept(room, fetched)

        assert room.receipt(fetched).epoch == room.row(fetched).epoch

    @pytest.mark.parametrize("after", [True, False])
    def test_b219_r9_whose_commit_was_lost_is_one_receipt_and_one_outbox_row(self, room, fetched, monkeypatch, after):
        with monkeypatch.context() as patch:
            break_commit(patch, after=after)
            accept(room, fetched)

        assert Receipt.objects.filter(operation_id=fetched).count() == room.outbox(fetched) == 1
        assert room.events(fetched).count("RESULT_ACCEPTED") == 1


class TestOutcome:
    @pytest.mark.parametrize(
        "status, is_error, outcome",
        [
            ("completed", False, "SUCCESS"),
            ("completed", True, "TOOL_ERROR"),
            ("failed", True, "TOOL_ERROR"),
            ("failed", False, "TOOL_ERROR"),
        ],
    )
    def test_r7_a_tools_own_error_is_never_a_success(self, room, status, is_error, outcome):
        operation = room.at(State.WORKING)
        room.saw(operation, room.ended(operation, status))
        room.step(ledger.fetch_started, operation)
        room.step(ledger.result_fetched, operation, result=result(is_error=is_error))

        accept(room, operation)

        assert room.receipt(operation).outcome == outcome

    @pytest.mark.parametrize("on_error, opened", [(True, True), (False, False)])
    def test_c6_an_error_opens_an_effect_record_where_the_tools_profile_says_so(self, rooms, on_error, opened):
        room = rooms(effect="EXTERNAL")
        ledger.set_policy(room.server, "tool", ledger.ToolPolicy(effect="EXTERNAL", effect_on_error=on_error))
        operation = room.submit()

        room._to_accepted(operation, result(is_error=True))

        assert (room.effect(operation) is not None) is opened


class TestGuarded:
    def test_b050_r2_a_success_that_breaks_its_schema_never_advances(self, rooms):
        room = rooms(output_schema=SCHEMA)
        operation = room.at(State.FETCHING_RESULT)
        room.step(ledger.result_fetched, operation, result=good({"n": "three"}))

        with pytest.raises(ledger.ResultRefused, match="structured content"):
            accept(room, operation)
        findings = ("n: not an integer",)
        room.step(
            ledger.result_unusable, operation, reason=Reason.RESULT_INVALID, findings=findings, next_at=room.later()
        )

        assert (room.row(operation).state, room.receipt(operation)) == (State.UNKNOWN, None)
        assert room.journal(operation)[-1].detail == {"findings": ["n: not an integer"]}

    def test_b052_the_schema_is_the_one_the_call_was_made_with(self, rooms):
        room = rooms(output_schema=SCHEMA)
        operation = room.at(State.FETCHING_RESULT)
        room.describe(output_schema={"type": "object", "required": ["new_field"]})

        room.step(ledger.result_fetched, operation, result=good({"n": 1}))
        accept(room, operation)

        assert room.receipt(operation).outcome == "SUCCESS"

    def test_b033_f8_a_result_that_names_another_task_never_advances(self, room):
        operation = room.at(State.FETCHING_RESULT)
        room.step(ledger.result_fetched, operation, result=result(task_id="another"))

        with pytest.raises(ledger.ResultRefused, match="another task"):
            accept(room, operation)

    def test_x4_what_could_not_be_accepted_is_fetched_anew_when_it_is_seen_ended_again(self, room, fetched):
        named = {"reason": Reason.RESULT_INVALID, "findings": (), "next_at": room.later()}
        room.step(ledger.result_unusable, fetched, **named)

        room.saw(fetched, room.ended(fetched))

        row = room.row(fetched)
        assert (row.state, row.result_digest, row.fetches) == (State.TERMINAL_OBSERVED, None, 0)


_FINAL = {State.ACCEPTED, State.CANCELLED_ACCEPTED, State.REFUSED, State.RECONCILED}


def test_r8_a_masked_credential_stands_in_the_journal_and_the_digest_fits_what_is_kept(room):
    """Whoever holds the stored copy can check it, and sees that something was taken out."""
    operation = room.at(State.FETCHING_RESULT)
    raw = b'{"content":[{"type":"text","text":"I used [masked] and [masked]"}],"isError":false}'
    came = replace(result(raw), exchanges=tuple(replace(one, masked=2) for one in seen(raw)))

    room.step(ledger.result_fetched, operation, result=came)
    room.step(ledger.accept_result, operation, facts=ledger.Facts.held_by(room.row(operation)))

    (noted,) = room.journal(operation, event="RESULT_MASKED")
    kept = Evidence.objects.get(operation_id=operation, kind="result")
    assert (noted.detail, kept.masked, kept.digest) == ({"places": 2}, 2, strictjson.digest(raw))
    assert bytes(room.receipt(operation).result) == raw


def test_r8_a_server_that_writes_the_mask_itself_masks_nothing(room):
    operation = room.at(State.FETCHING_RESULT)

    room.step(ledger.result_fetched, operation, result=result(b'{"content":[],"note":"[masked]"}'))

    assert "RESULT_MASKED" not in room.events(operation)
