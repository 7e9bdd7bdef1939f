"""One outage is one incident: what belongs together, what joins later, and how it leaves the desk (X4)."""

import uuid
from datetime import timedelta

import pytest

from operations import ledger
from operations.ledger import incidents
from operations.ledger.incidents import FROM, GAP, Loose, Stretch, group
from operations.machine import State
from operations.models import Incident, IncidentItem, Notice
from operations.queries import incidents as seen
from operations.verdicts import Verdict
from tests.operations.room import NOON, together


def loose(minute, *, server="a", reason="NOT_FOUND"):
    return Loose(operation=str(uuid.uuid4()), server=server, reason=reason, entered_at=NOON + timedelta(minutes=minute))


def known(minute, *, server="a", reason="NOT_FOUND"):
    at = NOON + timedelta(minutes=minute)
    return Stretch(id=uuid.uuid4(), server=server, reason=reason, opened_at=at, last_at=at)


class TestGroup:
    def test_items_of_one_server_and_one_reason_without_a_long_gap_are_one(self):
        found = group([loose(0), loose(8), loose(16)], [])

        assert [len(one.items) for one in found] == [3]
        assert (found[0].opened_at, found[0].last_at) == (NOON, NOON + timedelta(minutes=16))

    def test_too_few_stay_single(self):
        assert group([loose(0) for _ in range(FROM - 1)], []) == []

    def test_a_long_gap_makes_two(self):
        early, late = [loose(0)] * 3, [loose(11)] * 3

        assert len(group(early + late, [])) == 2

    @pytest.mark.parametrize("other", [{"server": "b"}, {"reason": "RESULT_LOST"}])
    def test_another_server_or_reason_is_another_one(self, other):
        assert group([loose(0), loose(1), loose(2, **other)], []) == []

    def test_one_more_joins_what_is_open_though_it_is_alone(self):
        held = known(0)

        found = group([loose(10)], [held])

        assert [(one.id, len(one.items), one.last_at) for one in found] == [
            (held.id, 1, NOON + GAP),
        ]

    def test_what_comes_much_later_does_not_join(self):
        found = group([loose(11)], [known(0)])

        assert [len(one.items) for one in found] == [0]


@pytest.mark.usefixtures("committed")
class TestGather:
    def gather(self, room):
        room.incidents = Incident.objects.filter(server=room.server).order_by("opened_at")
        return ledger.gather_incidents(now=room.now)

    def test_one_outage_is_one_incident_with_one_notice(self, room):
        operations = [room.at(State.UNKNOWN) for _ in range(4)]

        assert self.gather(room) == 1
        assert self.gather(room) == 0

        incident = room.incidents.get()
        assert sorted(seen.open_items(incident.id, limit=9)) == sorted(operations)
        assert Notice.objects.filter(kind="INCIDENT", item=f"incident:{incident.id}").count() == 1

    def test_a_lost_submit_and_the_same_one_given_to_a_person_belong_together(self, room):
        for state in (State.SUBMISSION_UNKNOWN, State.SUBMISSION_UNKNOWN, State.SUBMISSION_UNKNOWN):
            room.at(state)

        self.gather(room)

        assert room.incidents.get().reason == "SUBMIT_LOST"

    def test_what_heals_by_itself_leaves_and_the_last_one_closes_it(self, room):
        operations = [room.at(State.UNKNOWN) for _ in range(3)]
        self.gather(room)
        for operation in operations:
            room.saw(operation, room.working(operation))

        self.gather(room)

        incident = room.incidents.get()
        card = seen.read(incident.id)
        assert (card.open, card.left_by_evidence, card.left_by_people) == (0, 3, 0)
        assert incident.closed_at == room.now
        assert seen.left_of(uuid.UUID(operations[0])).by_itself

    def test_what_a_person_settled_is_told_apart(self, room):
        operations = [room.at(State.UNKNOWN) for _ in range(3)]
        self.gather(room)
        version = room.row(operations[0]).version
        told = {"seen_version": version, "by": "person:olga", "reason": "nobody knows", "now": room.now}
        ledger.judge(operations[0], Verdict.GAVE_UP, **told)

        self.gather(room)

        card = seen.read(room.incidents.get().id)
        assert (card.open, card.left_by_evidence, card.left_by_people) == (2, 0, 1)

    def test_an_operation_that_comes_back_later_belongs_to_the_later_outage(self, room):
        operations = [room.at(State.UNKNOWN) for _ in range(3)]
        self.gather(room)
        for operation in operations:
            room.saw(operation, room.working(operation))
        self.gather(room)
        room.now += timedelta(hours=1)
        for operation in operations:
            room.claims(operation)
            room.saw(operation, room.absent())

        self.gather(room)

        assert [one.closed_at is None for one in room.incidents] == [False, True]
        assert IncidentItem.objects.filter(operation_id=operations[0]).count() == 2

    def test_two_sweeps_at_once_make_one_incident(self, room):
        for _ in range(3):
            room.at(State.UNKNOWN)

        made = together(*[lambda: incidents.gather(now=NOON)] * 2)

        assert sum(made) == 1
        assert Incident.objects.filter(server=room.server).count() == 1
