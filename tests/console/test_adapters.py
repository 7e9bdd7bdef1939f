"""Adapters: who may stop, share and roll back, what the dry run shows, and the drain to zero (N1, O2 to O5, W)."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from console import releases
from console.access import Role
from operations import ledger
from operations.machine import State
from operations.models import AuditEvent
from operations.queries import adapters, admin
from operations.queries.adapters import Health
from operations.rollout import Mode
from tests.console import factories as make

pytestmark = pytest.mark.django_db
V = make.VERSION
WHY = "Errors rise since 11:07, see the incident"


def text_of(answer):
    return " ".join(re.sub(r"<[^>]*>", " ", answer.content.decode()).split())


def at(name, version=V):
    return reverse(name, args=[version])


def version():
    return adapters.version(V, now=timezone.now())


def roll_back(client, *, typed=V, epoch=None, reason=WHY, follow=False):
    given = {"typed": typed, "reason": reason, "seen_epoch": epoch or version().epoch}
    return client.post(at("adapter_rollback"), given, follow=follow)


class TestWhoMay:
    @pytest.mark.parametrize("role", list(Role))
    def test_everybody_with_a_role_may_look(self, adam, role):
        somebody = make.signed_in("somebody", role)

        shown = [somebody.get(at(name)) for name in ("adapter", "adapter_drain")] + [somebody.get(reverse("adapters"))]

        assert [answer.status_code for answer in shown] == [200, 200, 200]

    @pytest.mark.parametrize(
        "role, status", [(Role.ADMIN, 200), (Role.OPERATOR, 200), (Role.APPROVER, 403), (Role.VIEWER, 403)]
    )
    def test_operators_may_see_the_dry_run_and_propose_it(self, adam, role, status):
        assert make.signed_in("somebody", role).get(at("adapter_rollback")).status_code == status

    @pytest.mark.parametrize("role", [role for role in Role if role is not Role.ADMIN])
    def test_only_admins_change_anything(self, adam, role):
        somebody = make.signed_in("somebody", role)

        somebody.post(at("adapter_share"), {"release": "r1", "share": "5", "reason": WHY})
        somebody.post(at("adapter_switch"), {"target": f"protocol:{V}", "do": "shut", "reason": WHY})
        somebody.post(at("adapter_retire"), {"reason": WHY})
        roll_back(somebody)

        assert not AuditEvent.objects.filter(outcome="DONE", by="person:somebody").exists()
        assert (version().epoch, version().submits_open) == (1, True)

    @pytest.mark.parametrize("role", list(Role))
    def test_nobody_is_shown_a_way_that_is_closed_to_them(self, adam, role):
        somebody = make.signed_in("somebody", role)

        shown = [somebody.get(address).content.decode() for address in (reverse("adapters"), at("adapter"))]

        offered = [at("adapter_rollback") in page for page in shown]
        assert offered == [somebody.get(at("adapter_rollback")).status_code == 200] * 2

    def test_an_operator_who_posts_is_told_which_role_it_needs(self, adam):
        answer = roll_back(make.signed_in("olga", "operator"), follow=True)

        assert "Needs the role admin" in text_of(answer)
        assert AuditEvent.objects.get(what="ADAPTER_ROLLBACK", outcome="REFUSED").by == "person:olga"


class TestListing:
    def test_a_version_stands_there_with_all_that_matters(self, adam):
        make.working()

        said = text_of(adam.get(reverse("adapters")))

        assert V in said
        assert "experimental" in said
        assert "Full" in said
        assert "r1 100 %" in said

    def test_htmx_gets_the_rows_alone(self, adam):
        answer = adam.get(reverse("adapters"), headers={"HX-Request": "true"})

        assert "<html" not in answer.content.decode()
        assert V in text_of(answer)

    def test_it_teaches_where_nothing_is_registered(self, db):
        answer = make.signed_in("adam", "admin").get(reverse("adapters"))

        assert "No protocol version is in use" in text_of(answer)

    def test_many_operations_and_versions_cost_as_many_queries_as_one(self, adam):
        make.working()
        with CaptureQueriesContext(connection) as few:
            adam.get(reverse("adapters"))
        for number in range(10):
            make.working()
            ledger.register_protocol(f"v{number}", release="r1")
            make.server(f"more-{number}")

        with CaptureQueriesContext(connection) as many:
            adam.get(reverse("adapters"))

        assert len(many) == len(few)


class TestStops:
    @pytest.mark.parametrize("target", [f"protocol:{V}", "server:shop", "tool:shop/change_prices"])
    def test_o5_new_calls_stop_at_once_and_everything_in_flight_goes_on(self, adam, target):
        asked = make.asking()
        going = make.working()

        adam.post(at("adapter_switch"), {"target": target, "do": "shut", "reason": WHY})

        with pytest.raises(ledger.SubmitsClosed, match="Errors rise"):
            make.working()
        make.resume(asked)
        make.complete(going)
        assert ledger.read([going])[going].state is State.TERMINAL_OBSERVED
        assert admin.changes_of(target)[0].what == "SUBMITS_CLOSED"

    def test_o5_new_calls_are_let_in_again(self, adam):
        adam.post(at("adapter_switch"), {"target": f"protocol:{V}", "do": "shut", "reason": WHY})

        adam.post(at("adapter_switch"), {"target": f"protocol:{V}", "do": "open", "reason": "Repaired and tried"})

        assert make.working()

    def test_what_is_none_of_this_version_is_not_found(self, adam):
        answer = adam.post(at("adapter_switch"), {"target": "server:other", "do": "shut", "reason": WHY})

        assert answer.status_code == 404

    def test_without_a_reason_nothing_stops(self, adam):
        answer = adam.post(at("adapter_switch"), {"target": f"protocol:{V}", "do": "shut", "reason": ""})

        assert answer.status_code == 422
        assert version().submits_open

    def test_o5_odd_answers_raise_the_question_whether_the_contract_changed(self):
        assert releases.is_doubtful(Health(steps=40, trouble=3, doubts=3))
        assert not releases.is_doubtful(Health(steps=40, trouble=9, doubts=2))
        assert not releases.is_doubtful(Health(steps=400, trouble=9, doubts=3))


class TestShares:
    def test_o2_a_share_is_decided_with_a_reason(self, adam):
        adam.post(at("adapter_share"), {"release": "r1", "share": "5", "reason": WHY})

        [release] = version().releases
        assert (release.mode, release.share) == (Mode.SHARE, 5)
        assert "SHARE_SET" in text_of(adam.get(at("adapter")))

    @pytest.mark.parametrize("wrong", [{"share": "101"}, {"share": ""}, {"release": "r99"}, {"reason": "no"}])
    def test_a_share_that_cannot_be_is_refused(self, adam, wrong):
        answer = adam.post(at("adapter_share"), {"release": "r1", "share": "5", "reason": WHY} | wrong)

        assert answer.status_code == 422
        assert version().releases[0].share == 100


class TestRollback:
    def test_o3_the_dry_run_says_who_looks_after_what_and_changes_nothing(self, adam):
        make.asking()

        said = text_of(adam.get(at("adapter_rollback")))

        assert "Nothing has changed yet" in said
        assert "The epoch goes from 1 to 2" in said
        assert "look, answer, cancel" in said
        assert version().epoch == 1

    def test_o3_typed_and_with_a_reason_it_is_done_and_leads_to_the_drain(self, adam):
        make.working()
        make.asking()

        answer = roll_back(adam, follow=True)

        assert answer.redirect_chain == [(at("adapter_drain"), 302)]
        assert "2 left of 2" in text_of(answer)
        assert (version().epoch, version().submits_open) == (2, False)
        assert admin.changes_of(f"protocol:{V}")[0].by == "person:adam"

    @pytest.mark.parametrize("wrong", [{"typed": "2025-11-2"}, {"reason": "short"}])
    def test_a_slip_rolls_nothing_back_and_loses_nothing(self, adam, wrong):
        answer = roll_back(adam, **wrong)

        assert answer.status_code == 422
        assert version().epoch == 1
        assert wrong.get("reason", WHY) in answer.content.decode()

    def test_o3_a_page_of_an_older_epoch_is_refused(self, adam):
        roll_back(adam)

        answer = roll_back(adam, epoch=1)

        assert answer.status_code == 409
        assert "You were shown epoch 1; epoch 2 holds" in text_of(answer)
        assert version().epoch == 2

    def test_o3_the_drain_comes_to_zero(self, adam):
        operation = make.working()
        roll_back(adam)
        assert version().of_earlier_epochs == 1

        make.cancel(operation)

        answer = adam.get(at("adapter_drain"), headers={"HX-Request": "true"})
        assert "Drained. All 1 that were in flight have ended" in text_of(answer)

    def test_o5_a_version_is_retired_from_the_page_once_it_is_empty(self, adam):
        operation = make.working()
        roll_back(adam)

        adam.post(at("adapter_retire"), {"reason": WHY})
        assert not version().is_retired
        make.cancel(operation)
        adam.post(at("adapter_retire"), {"reason": WHY})

        assert version().is_retired
        assert "Retired" in text_of(adam.get(reverse("adapters")))


class TestDrill:
    @pytest.mark.parametrize("role", [Role.OPERATOR, Role.ADMIN])
    def test_a_drill_keeps_what_would_happen_and_changes_nothing(self, adam, role):
        make.working()
        make.asking()

        make.signed_in("somebody", role).post(at("adapter_drill"), {"reason": "Rehearsal of the quarter"})

        [kept] = admin.changes_of(f"protocol:{V}")
        assert (kept.what, kept.by) == ("DRILLED", "person:somebody")
        assert kept.after["in_flight"] == {"WORKING": 1, "INPUT_REQUIRED": 1}
        assert (kept.after["would_stop"], kept.after["would_take_over"]) == ("r1", "r1")
        assert (version().epoch, version().submits_open) == (1, True)

    def test_without_a_reason_nothing_is_kept(self, adam):
        answer = adam.post(at("adapter_drill"), {"reason": ""})

        assert answer.status_code == 422
        assert not AuditEvent.objects.filter(what="DRILLED").exists()

    @pytest.mark.parametrize("role", [Role.APPROVER, Role.VIEWER])
    def test_it_is_for_those_who_may_propose_a_rollback(self, adam, role):
        answer = make.signed_in("somebody", role).post(at("adapter_drill"), {"reason": "Rehearsal of the quarter"})

        assert answer.status_code == 403
