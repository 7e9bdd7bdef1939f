"""What users of other consoles complain about, each by its number in the list of our screens, on the operators' pages.

Answers (1 to 9), notices and the audit (16 to 18) are tried in `test_complaints_of_approvers`.
"""

import datetime as dt
import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from operations import ledger
from operations.machine import State
from operations.models import Due
from operations.verdicts import Verdict
from tests.console import factories as make
from tests.console.test_operations import fresh

pytestmark = pytest.mark.django_db
LISTS = (
    "/operations/",
    "/operations/?view=all&order=oldest",
    "/operations/?view=attention&server=shop&tool=change_prices",
    "/operations/?view=all&protocol=2025-11-25&client=flows&principal=ann&window=24h",
    "/operations/?cols=server&cols=tool&cols=principal",
    "/operations/?q=nobody-has-this",
    "/reconcile/",
    "/reconcile/?tab=mine",
    "/reconcile/?tab=second",
    "/reconcile/?tab=effects",
    "/reconcile/?tab=left",
    "/",
    "/places/?at=operations",
)


def words(answer):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode()))


def press(olga, operation, **fields):
    form = {"kind": "need", "reason": "The incident is over", "seen_generation": 0} | fields
    return olga.post(reverse("cancel", args=[operation]), form, follow=True)


def page_of(olga, operation):
    return words(olga.get(reverse("operation", args=[operation])))


def test_10_what_was_only_asked_is_never_shown_as_cancelled(olga):
    operation = make.working()

    pages = [words(press(olga, operation)), page_of(olga, operation), words(olga.get(reverse("operations")))]

    for page in pages:
        assert "Cancelled" not in page
    assert "not yet honoured" in pages[1]
    assert ledger.read([operation])[operation].state is State.CANCEL_REQUESTED


def test_11_looking_goes_on_after_a_cancel_was_asked_so_that_the_end_is_seen(olga):
    operation = make.working()
    press(olga, operation)

    due = Due.objects.get(operation=operation)
    make.complete(operation)

    assert due.urgent
    assert "The cancel and the end met" in page_of(olga, operation)
    assert ledger.read([operation])[operation].state is State.TERMINAL_OBSERVED


def test_12_a_timeout_never_turns_into_cancelled(olga):
    """C12"""
    operation = make.working()
    press(olga, operation)

    ledger.state_overdue(now=timezone.now() + dt.timedelta(minutes=1))

    page = page_of(olga, operation)
    assert "It was not confirmed in time; a person has been told, and looking goes on." in page
    assert "Cancelled." not in page
    assert "Cancel not confirmed" in words(olga.get(reverse("reconcile")))


def test_13_a_page_asks_the_database_as_often_for_many_rows_as_for_few(olga):
    """What a page costs out of a million rows is measured by `tests.bench.pages`."""
    _one_of_each()
    few = {address: _queries(olga, address) for address in LISTS}
    for _ in range(2):
        _one_of_each()
    for _ in range(60):
        fresh()

    many = {address: _queries(olga, address) for address in LISTS}

    assert many == few


def test_14_one_page_has_one_time_zone(olga):
    operation = make.unknown()
    olga.cookies["longcall_zone"] = "Asia/Tokyo"

    for address in (
        reverse("operation", args=[operation]),
        reverse("reconcile_item", args=[operation]),
        "/operations/",
    ):
        page = olga.get(address).content.decode()
        zones = {title.split()[-1] for title in re.findall(r'<time[^>]* title="([^"]+)"', page)}
        assert zones == {"Asia/Tokyo"}, address


def test_15_one_silent_server_holds_up_no_other_row(olga):
    make.server("other", tools=("count_stock",))
    silent, other = make.working(), make.working(server="other", tool="count_stock")
    make.unanswered(silent)

    page = olga.get(reverse("operations")).content.decode()

    rows = re.findall(r"<tr data-row>.*?</tr>", page, flags=re.DOTALL)
    assert ["no answer" in row for row in rows] == [False, True]
    assert f"op-{other}" in rows[0]
    assert "aria-busy" not in page


def _one_of_each():
    """One operation, or one item, for each of the lists."""
    fresh()
    make.asking()
    operation = make.lost()
    ledger.claim_item(operation, by="person:olga", now=timezone.now())
    make.cancel(make.working())
    proposed = make.unknown()
    version = ledger.read([proposed])[proposed].version
    ledger.judge(
        proposed,
        Verdict.GAVE_UP,
        seen_version=version,
        by="person:otto",
        reason="nobody knows",
        now=timezone.now(),
    )
    left = make.unknown()
    make.complete(left)
    unconfirmed = make.working()
    ledger.request_cancel(unconfirmed, seen_generation=0, by="person:olga", reason="enough", now=timezone.now())
    ledger.state_overdue(now=timezone.now() + dt.timedelta(minutes=1))


def _queries(client, address):
    with CaptureQueriesContext(connection) as seen:
        client.get(address)
    return len(seen)
