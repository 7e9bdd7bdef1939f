"""What the desk says of the next step: what is asked for, what it waits for, and where the proof lies."""

import pytest
from django.urls import reverse
from django.utils import timezone

from operations import ledger
from operations.models import EffectRecord, Server
from tests.console import factories as make

pytestmark = pytest.mark.django_db
SHUT = "It waits because submits are shut"


def shut(kind="server", name="shop", *, is_open=False):
    note = ledger.Note(by="person:adam", reason="an hour of peace", now=timezone.now())
    ledger.set_submits(kind, name, is_open=is_open, reason="an hour of peace", note=note)


def page(client, name, *args):
    return client.get(reverse(name, args=args)).content.decode()


class TestSubmitsAreShut:
    @pytest.fixture
    def replayed(self, olga):
        """A lost call at a server that is asked by the same submit again."""
        operation = make.lost()
        Server.objects.filter(slug="shop").update(lookup="same_key_replay")
        return operation

    @pytest.mark.parametrize(
        "kind, name", [("server", "shop"), ("protocol", make.VERSION), ("tool", "shop/change_prices")]
    )
    def test_the_desk_says_what_the_look_waits_for(self, olga, replayed, kind, name):
        before = page(olga, "reconcile")
        shut(kind, name)

        assert "Waits because submits are shut" not in before
        assert "Waits because submits are shut" in page(olga, "reconcile")
        assert SHUT in page(olga, "reconcile_item", replayed)
        assert SHUT in page(olga, "operation", replayed)

    def test_opened_again_it_waits_for_nothing(self, olga, replayed):
        shut()
        shut(is_open=True)

        assert SHUT not in page(olga, "reconcile_item", replayed)

    def test_where_asking_is_no_submit_it_does_not_wait(self, olga):
        lost, with_task = make.lost(), make.unknown()
        shut()

        assert SHUT not in page(olga, "reconcile_item", lost)
        assert SHUT not in page(olga, "reconcile_item", with_task)

    def test_a_call_that_was_not_sent_yet_says_so_too(self, olga):
        operation = make.submitted()
        before = page(olga, "operation", operation)
        shut()

        assert SHUT not in before
        assert SHUT in page(olga, "operation", operation)


class TestButtonOfTheLook:
    def test_it_names_what_is_asked_for(self, olga):
        with_task, lost = make.unknown(), make.lost()
        Server.objects.filter(slug="shop").update(lookup="lookup_tool", lookup_tool="find_call")

        assert "Look up by task id" in page(olga, "reconcile_item", with_task)
        assert "Look up by submission key" in page(olga, "reconcile_item", lost)


class TestLinkOfAnEffect:
    @pytest.fixture
    def effect(self, olga):
        make.cancel(operation := make.working())
        return operation

    def settle(self, olga, operation, link):
        given = {"status": "COMPENSATED", "note": "refunded by hand", "link": link}
        return olga.post(reverse("settle_effect", args=[operation]), given)

    def test_it_is_kept_and_shown(self, olga, effect):
        self.settle(olga, effect, "https://tickets.example.org/42")

        assert EffectRecord.objects.get(operation=effect).link == "https://tickets.example.org/42"
        assert 'href="https://tickets.example.org/42" rel="noopener' in page(olga, "reconcile_item", effect)

    @pytest.mark.parametrize("link", ["javascript:alert(1)", "data:text/html,x", "not a link", "ftp://x.example.org/"])
    def test_what_is_no_web_address_is_refused_and_nothing_is_settled(self, olga, effect, link):
        assert self.settle(olga, effect, link).status_code == 422
        assert EffectRecord.objects.get(operation=effect).status == "OPEN"
