"""What the desk says of the next step: what is asked for, what it waits for, and where the proof lies."""

import hashlib

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse
from django.utils import timezone

from console import manual
from operations import ledger
from operations.models import EffectRecord, Evidence, EvidencePayload, Server
from operations.verdicts import Verdict
from tests.console import factories as make

pytestmark = pytest.mark.django_db
SHUT = "It waits because submits are shut"
GIVEN = {
    "verdict": "ESTABLISHED_OUTSIDE",
    "reason": "Their operator sent us the log",
    "outcome": "done at 12:03",
}


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


class TestDocumentOfAVerdict:
    """What was established outside is shown by what somebody attaches; the second person reads it before deciding."""

    def judge(self, olga, operation, name, raw):
        version = ledger.read([operation])[operation].version
        upload = SimpleUploadedFile(name, raw, content_type="text/html")
        typed = {"typed": str(manual.TO_TYPE.get(Verdict.ESTABLISHED_OUTSIDE, ""))}
        given = GIVEN | typed | {"seen_version": version, "document": upload}
        return olga.post(reverse("judge", args=[operation]), given)

    def test_it_stands_in_the_evidence_and_with_the_proposal(self, olga):
        operation, raw = make.unknown(), b"<script>alert(1)</script>\x00\xff"

        self.judge(olga, operation, "their log.html", raw)

        kept = Evidence.objects.get(operation=operation, kind="document")
        assert bytes(EvidencePayload.objects.get(evidence=kept).raw) == raw
        assert kept.digest == hashlib.sha256(raw).hexdigest()
        shown = page(olga, "reconcile_item", operation)
        assert f"document: {kept.seq}. their log.html" in shown
        assert "<script>alert(1)" not in page(olga, "evidence", operation, kept.seq)

    def test_the_second_person_downloads_it_as_it_came_and_never_as_a_page(self, olga, otto):
        operation, raw = make.unknown(), b"<b>all of it</b>"
        self.judge(olga, operation, "log.html", raw)
        seq = Evidence.objects.get(operation=operation, kind="document").seq

        given = otto.get(reverse("evidence", args=[operation, seq]) + "?download")

        assert given.content == raw
        assert (given["Content-Type"], given["X-Content-Type-Options"]) == ("application/octet-stream", "nosniff")
        assert given["Content-Disposition"].startswith("attachment")

    def test_one_that_is_too_big_is_refused_and_nothing_is_proposed(self, olga):
        operation = make.unknown()

        told = self.judge(olga, operation, "all.log", b"x" * (ledger.LARGEST_DOCUMENT + 1))

        assert told.status_code == 422
        assert "Attach the part that matters" in told.content.decode()
        assert not Evidence.objects.filter(operation=operation, kind="document").exists()

    def test_a_refused_verdict_keeps_no_document(self, olga):
        """The page had shown an older version: what was attached to it goes with it."""
        operation = make.unknown()
        version = ledger.read([operation])[operation].version
        make.complete(operation)
        given = GIVEN | {"seen_version": version, "document": SimpleUploadedFile("a.txt", b"a")}

        assert olga.post(reverse("judge", args=[operation]), given).status_code in {409, 422}
        assert not Evidence.objects.filter(operation=operation, kind="document").exists()
