"""The gates page, its alarm, and proofs for people (G1 to G6, W)."""

import datetime as dt
import json
import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from console.access import Role
from operations import ledger, proof, watch
from operations.gates import Figure, Gate, Interleavings
from tests.console import factories as make

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ended():
    """An operation that has its receipt; its id."""
    operation = make.working()
    make.cancel(operation)
    return operation


def text_of(answer):
    return " ".join(re.sub(r"<[^>]*>", " ", answer.content.decode()).split())


class TestPage:
    @pytest.mark.parametrize("role", list(Role))
    def test_everybody_with_a_role_may_look(self, olga, role):
        assert make.signed_in("somebody", role).get(reverse("gates")).status_code == 200

    def test_before_the_first_check_it_says_so(self, olga):
        said = text_of(olga.get(reverse("gates")))

        assert "The ledger has not been checked yet" in said
        assert said.count("Nothing yet") == 6

    def test_six_gates_with_figure_limit_and_picture(self, olga, ended):
        watch.watch(clock=timezone.now)

        answer = olga.get(reverse("gates"))

        said = text_of(answer)
        assert all(f"{gate.value} " in said for gate in Gate)
        assert "100 % of 1 advances" in said.replace("\xa0", " ")
        assert answer.content.decode().count('role="img"') == 6

    def test_a_gate_that_does_not_hold_is_shown_here_and_in_the_navigation(self, olga):
        figure = Figure(gate=Gate.UNKNOWN, day=timezone.now().date(), count=3, breaches=1, worst=1032)
        ledger.keep_figures([figure], now=timezone.now())

        said = text_of(olga.get(reverse("gates"))).replace("\xa0", " ")

        assert "5 of 6 hold" in said
        assert "17 min 12 s" in said
        assert "1 gate over its limit" in said

    def test_g1_a_breach_of_the_ledger_is_an_alarm_with_its_operation(self, olga, ended):
        check = ledger.begin_check(now=timezone.now())
        breach = {"invariant": "x", "clause": "A1", "holds": "A call node has one receipt.", "operation": ended}
        ledger.end_check(
            check, took=dt.timedelta(seconds=1), invariants=39, breaches=1, found=[breach | {"what": "2 receipts"}]
        )

        said = text_of(olga.get(reverse("gates")))

        assert "found one thing that must never be true" in said
        assert "A call node has one receipt." in said

    def test_g1_the_last_run_of_the_interleavings_stands_there_with_its_date(self, olga):
        before = text_of(olga.get(reverse("gates")))
        run = Interleavings(
            seed=41, runs=10_000, wire_runs=2_000, histories=7_000, divergences=2, took=dt.timedelta(minutes=5)
        )
        ledger.note_interleavings(run, now=dt.datetime(2026, 11, 3, 9, tzinfo=dt.UTC))

        answer = olga.get(reverse("gates"))

        assert before.count("No run of the interleavings is on record here.") == 2  # G1 and G2
        assert text_of(answer).count("2 divergences in 10000 runs from seed 41") == 2
        assert "2026-11-03T09:00:00" in answer.content.decode()

    def test_htmx_gets_the_living_part_alone(self, olga):
        assert "<html" not in olga.get(reverse("gates"), headers={"HX-Request": "true"}).content.decode()

    def test_many_operations_cost_as_many_queries_as_one(self, olga, ended):
        with CaptureQueriesContext(connection) as few:
            olga.get(reverse("gates"))
        for _ in range(8):
            make.cancel(make.working())

        with CaptureQueriesContext(connection) as many:
            olga.get(reverse("gates"))

        assert len(many) == len(few)


class TestProof:
    def test_any_id_leads_to_the_proof(self, olga, ended):
        answer = olga.get(reverse("proof_find"), {"q": ended})

        assert answer.url == reverse("proof", args=[ended])

    def test_an_id_nobody_has_is_said(self, olga):
        assert "No operation has the id" in text_of(olga.get(reverse("proof_find"), {"q": "nothing"}))

    def test_g6_the_chain_is_shown_and_checked(self, olga, ended):
        said = text_of(olga.get(reverse("proof", args=[ended])))

        assert "There is one terminal receipt, and the operation ended once." in said
        assert "CANCELLED" in said

    def test_before_a_receipt_nothing_has_advanced(self, olga):
        operation = make.working()

        assert "Nothing has advanced" in text_of(olga.get(reverse("proof", args=[operation])))
        assert olga.get(reverse("proof_export", args=[operation])).status_code == 404

    def test_g6_the_export_is_enough_to_check_it(self, olga, ended):
        answer = olga.get(reverse("proof_export", args=[ended]))

        assert answer["Content-Disposition"].startswith("attachment")
        assert all(finding.holds for finding in proof.check(json.loads(answer.content)))

    @pytest.mark.parametrize(
        "role, status", [(Role.OPERATOR, 200), (Role.ADMIN, 200), (Role.VIEWER, 403), (Role.APPROVER, 403)]
    )
    def test_raw_payloads_go_only_to_those_who_may_read_them(self, olga, ended, role, status):
        somebody = make.signed_in("somebody", role)

        assert somebody.get(reverse("proof_export", args=[ended])).status_code == status
        assert somebody.get(reverse("proof", args=[ended])).status_code == 200
