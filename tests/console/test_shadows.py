"""Trials: who may start one, what a difference says, who explains it, and what it keeps from rising (O1, W)."""

import re

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.access import Role
from operations import ledger
from operations.comparison import Told
from operations.machine import Outcome
from operations.models import AdapterRelease, AuditEvent, Divergence
from tests.console import factories as make

pytestmark = pytest.mark.django_db
V = make.VERSION
WHY = "The report of this quarter was made twice"


def note():
    return ledger.Note(by="person:adam", reason="a try", now=timezone.now())


@pytest.fixture
def adam():
    """An admin, signed in, with a server whose tool has no side effects, and a release on trial."""
    make.server()
    ledger.set_policy("shop", "change_prices", ledger.ToolPolicy(effect="NONE"))
    ledger.put_on_trial(V, "r2", note=note())
    return make.signed_in("adam", "admin")


def text_of(answer):
    return " ".join(re.sub(r"<[^>]*>", " ", answer.content.decode()).split())


def watched(node="node-1"):
    """A call that an existing path has registered."""
    new = ledger.NewShadow(client="flows", call_node=node, server="shop", tool="change_prices", task_id=f"t-{node}")
    return ledger.register_shadow(new, now=timezone.now()).shadow


def compared(node="node-1", *, told=Outcome.TOOL_ERROR, seen=Outcome.SUCCESS):
    """A watched call of which both sides are known."""
    shadow, now = watched(node), timezone.now()
    ledger.report_outcome("flows", shadow, Told(outcome=told, ended_at=now, looks=4), now=now)
    [work] = ledger.claim_shadows(limit=10, now=timezone.now())
    look = ledger.ShadowLook(
        next_at=now, answered=True, session=None, status="completed", ended_at=now, outcome=seen, answer=b'{"a": 1}'
    )
    assert ledger.shadow_looked(work, look)
    assert ledger.compare_shadow(work, now=now) is not None
    return shadow


def close(client, shadow, reason=WHY):
    number = Divergence.objects.get(shadow=shadow).id
    return client.post(reverse("divergence_close", args=[V, shadow, number]), {"reason": reason}, follow=True)


def give_share(client, share):
    given = {"release": "r2", "share": str(share), "reason": "more of it"}
    return client.post(reverse("adapter_share", args=[V]), given, follow=True)


class TestTrial:
    def test_a_release_is_put_on_trial_and_takes_no_call(self, adam):
        answer = adam.post(reverse("adapter_trial", args=[V]), {"release": "r2", "reason": WHY}, follow=True)

        assert "takes none" in text_of(answer)
        row = AdapterRelease.objects.get(release="r2")
        assert (row.mode, row.share) == ("SHADOW", 0)

    def test_one_that_takes_calls_is_not(self, adam):
        answer = adam.post(reverse("adapter_trial", args=[V]), {"release": "r1", "reason": WHY}, follow=True)

        assert "takes calls already" in text_of(answer)
        assert AdapterRelease.objects.get(release="r1").mode == "FULL"

    @pytest.mark.parametrize("given", [{"release": "r9", "reason": WHY}, {"release": "r2", "reason": "short"}])
    def test_a_release_without_code_and_a_trial_without_a_reason_change_nothing(self, adam, given):
        ledger.set_share(V, "r2", share=0, note=note())

        answer = adam.post(reverse("adapter_trial", args=[V]), given, follow=True)

        assert "Nothing was changed" in text_of(answer)
        assert AdapterRelease.objects.get(release="r2").mode == "DRAINING"

    @pytest.mark.parametrize("role", [role for role in Role if role is not Role.ADMIN])
    def test_only_admins_start_trials_and_explain_differences(self, adam, role):
        shadow, somebody = compared(), make.signed_in("somebody", role)

        started = somebody.post(reverse("adapter_trial", args=[V]), {"release": "r2", "reason": WHY})

        assert started.status_code == 403
        assert close(somebody, shadow).status_code == 403
        assert Divergence.objects.get().closed_at is None


class TestPages:
    def test_the_versions_page_shows_the_trial_and_each_difference_with_both_sides(self, adam):
        compared()

        said = text_of(adam.get(reverse("adapter", args=[V])))

        assert "Trial of r2" in said
        assert "Another outcome: node-1" in said
        assert "existing path: TOOL_ERROR · r2: SUCCESS" in said

    def test_differences_stand_first_and_every_watched_call_follows(self, adam):
        compared()
        watched("node-2")

        said = text_of(adam.get(reverse("shadows", args=[V])))

        assert said.index("One difference that nobody has explained") < said.index("Watched calls, newest first")
        assert "node-2" in said

    def test_it_teaches_how_a_call_comes_to_be_watched(self, adam):
        said = text_of(adam.get(reverse("shadows", args=[V])))

        assert "No call is watched yet" in said
        assert "POST /api/v1/shadows" in said

    def test_htmx_gets_the_rows_alone(self, adam):
        answer = adam.get(reverse("shadows", args=[V]), headers={"HX-Request": "true"})

        assert "<html" not in answer.content.decode()

    def test_a_page_of_fifty_leads_to_the_next(self, adam):
        for number in range(52):
            watched(f"node-{number}")

        first = adam.get(reverse("shadows", args=[V]))
        older = re.search(r'href="(\?after=[^"]+)"', first.content.decode())[1]
        second = adam.get(reverse("shadows", args=[V]) + older.replace("&amp;", "&"))

        seen = [set(re.findall(r"node-\d+", answer.content.decode())) for answer in (first, second)]
        assert [len(nodes) for nodes in seen] == [50, 2]
        assert not seen[0] & seen[1]

    def test_the_bytes_are_for_those_who_may_read_payloads(self, adam):
        page = reverse("shadow", args=[V, compared()])

        assert "{&quot;a&quot;: 1}" in adam.get(page).content.decode()
        assert "{&quot;a&quot;: 1}" not in make.signed_in("vera", "viewer").get(page).content.decode()

    def test_a_call_that_is_not_there_is_a_404(self, adam):
        assert adam.get(reverse("shadow", args=[V, "00000000-0000-4000-8000-000000000000"])).status_code == 404

    def test_w_who_does_not_see_the_server_sees_none_of_its_calls(self, adam):
        shadow = compared()
        make.person("sam", "operator", team="")
        stranger = Client()
        stranger.force_login(make.User.objects.get(username="sam"))

        assert stranger.get(reverse("shadow", args=[V, shadow])).status_code == 404
        assert "node-1" not in text_of(stranger.get(reverse("shadows", args=[V])))
        assert "node-1" not in text_of(stranger.get(reverse("adapter", args=[V])))


class TestShare:
    def test_o1_it_does_not_rise_while_a_difference_is_open(self, adam):
        compared()

        answer = give_share(adam, 5)

        assert "Not raised: 1 differences" in text_of(answer)
        refused = AuditEvent.objects.get(what="ADAPTER_SHARE", outcome="REFUSED")
        assert (refused.by, refused.reason) == ("person:adam", "1 divergences are open")
        assert AdapterRelease.objects.get(release="r2").mode == "SHADOW"

    def test_o1_it_rises_when_an_admin_has_explained_it(self, adam):
        shadow = compared()

        said = text_of(close(adam, shadow))
        give_share(adam, 5)

        assert "Closed, with your reason" in said
        assert AdapterRelease.objects.get(release="r2").share == 5
        row = Divergence.objects.get()
        assert (row.closed_by, row.closed_reason) == ("person:adam", WHY)

    def test_it_may_fall_all_the_time(self, adam):
        give_share(adam, 5)
        compared()

        give_share(adam, 1)

        assert AdapterRelease.objects.get(release="r2").share == 1

    def test_a_difference_is_explained_once_and_with_a_reason(self, adam):
        shadow = compared()

        assert close(adam, shadow, reason="short").status_code == 422
        close(adam, shadow)
        again = close(adam, shadow, reason="another reason altogether")

        assert "Somebody has closed it before you" in text_of(again)
        assert Divergence.objects.get().closed_reason == WHY
