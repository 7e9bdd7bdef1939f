"""A server that keeps keys and asks before it begins: what a replay carries, what its question proves (X2, I7, C11)."""

import asyncio
import random
from dataclasses import replace
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync, sync_to_async

from adapters.contract import Lookup, MaybeSent, NeedsInput, Working
from adapters.mcp_2025_11_25 import Mcp20251125
from operations import ledger
from operations.deeds import Drive
from operations.driver import Driver
from operations.machine import Delivery, State
from operations.models import Answer, Permit
from tests.operations.room import breaches, question, seen


class Asks:
    """Asks before there is a task; the same key brings the same task, and an attempt without answers the question."""

    promises = replace(Mcp20251125.promises, needs_session=False, input_before_task=True, lookups=frozenset(Lookup))

    def __init__(self, room):
        self.room = room
        self.tasks = []
        self.loses = False

    async def submit(self, _wire, _handle, call):
        if call.continuation is None or not call.continuation.replies:
            return NeedsInput(task=None, questions=(question(),), exchanges=seen())
        self.tasks = self.tasks or [call.submission_key]
        if self.loses:
            raise MaybeSent("the answer is lost", exchanges=())
        return Working(task=self.room.facts(self.operation), exchanges=seen())

    async def find(self, wire, handle, call, lookup):
        assert lookup is Lookup.SAME_KEY_REPLAY
        return await self.submit(wire, handle, call)


class Gate:
    """Lets everybody pass."""

    async def ahead(self):
        await asyncio.sleep(0)


@pytest.fixture
def far(rooms):
    room = rooms(lookup="same_key_replay", key_window_s=3600)
    server = Asks(room)
    server.operation = room.submit()
    return server


def drive(far):
    """Claim the operation, whatever else is due, and do what is to be done."""
    room = far.room
    room.now += timedelta(seconds=60)
    (work,) = [one for one in ledger.claim(limit=20, now=room.now) if one.row.id == far.operation]
    driver = Driver(
        adapter_for=None,
        wire_for=None,
        run=sync_to_async(lambda function, *args, **named: function(*args, **named), thread_sensitive=True),
        clock=lambda: room.now,
        chance=random.Random(1),
    )
    async_to_sync(Drive(driver, work, far, None, Gate()).do)()
    return room.row(far.operation)


def until_the_second_attempt_is_lost(far):
    drive(far)
    far.room.answer(far.operation)
    drive(far)  # CONTINUE
    far.loses = True
    assert drive(far).state is State.SUBMISSION_UNKNOWN
    far.loses = False


def test_x2_a_replay_carries_the_answers_that_the_lost_attempt_has_carried(far):
    """Without them it would be the first attempt once more, whose question says nothing of the second."""
    until_the_second_attempt_is_lost(far)

    row = drive(far)

    assert (row.state, row.round) == (State.WORKING, 1)
    assert len(far.tasks) == 1
    assert Answer.objects.get(round__operation_id=far.operation).delivery == Delivery.USED
    assert breaches(far.operation) == []


def test_c11_after_a_cancel_the_answers_stay_here_and_the_question_proves_nothing(far):
    until_the_second_attempt_is_lost(far)
    far.room.press(far.operation)

    row = drive(far)

    assert (row.state, row.round, row.nothing_sent) == (State.SUBMISSION_UNKNOWN, 1, False)
    assert row.replays == 0
    replay = Permit.objects.get(operation_id=far.operation, kind="REPLAY")
    assert replay.settlement == "disproved"
    assert breaches(far.operation) == []


def test_a_replay_of_an_attempt_that_never_arrived_begins_it(far):
    until_the_second_attempt_is_lost(far)
    far.tasks = []

    row = drive(far)

    assert (row.state, len(far.tasks)) == (State.WORKING, 1)
