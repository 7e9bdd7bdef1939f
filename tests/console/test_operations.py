"""The list of operations and the page of one: what is found, what is said, and to whom."""

import datetime as dt
import re
import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from adapters.contract import Exchange, ProtocolStatus, Working
from operations import ledger
from operations.models import Operation, Receipt
from operations.queries import dossier
from tests.console import factories as make

pytestmark = pytest.mark.django_db


def listed(client, query=""):
    """The ids in the order of the page's rows."""
    page = client.get(reverse("operations") + query).content.decode()
    return re.findall(r'id="op-([0-9a-f-]{36})"', page)


def looks_ordered(operation):
    return sum(row.event == "LOOK_ORDERED" for row in dossier.journal(uuid.UUID(operation)))


def see(operation, raw=b"{}"):
    """Let a look bring an answer that is kept as evidence."""
    exchange = Exchange(label="tasks/get", request=b"{}", body=raw, http_status=200, media_type="application/json")
    seen = Working(task=make.task_now(operation, ProtocolStatus.WORKING), exchanges=(exchange,))
    now = timezone.now()
    ledger.saw(operation, ticket=make.ticket_of(operation), seen=seen, next_at=now, now=now)


def fresh(*, now=None, **changes):
    """A call that stands in SUBMITTING; return its id."""
    number = uuid.uuid4().hex
    call = {"client": "flows", "call_node": f"n-{number}", "submission_key": f"k-{number}", "server": "shop"}
    call |= {"tool": "change_prices", "arguments": b"{}", "principal": "ann"} | changes
    return ledger.submit(ledger.NewCall(**call), now=now or timezone.now()).operation


class TestList:
    def test_the_newest_stands_first_and_finished_ones_only_where_asked_for(self, olga):
        first, second = make.working(), make.working()
        done = fresh()
        ledger.request_cancel(done, seen_generation=0, by="client:flows", reason="not needed", now=timezone.now())

        assert listed(olga) == [second, first]
        assert listed(olga, "?view=done") == [done]
        assert listed(olga, "?view=all") == [done, second, first]

    def test_needs_attention_shows_what_waits_for_a_person(self, olga):
        make.working()
        asking = make.asking()

        assert listed(olga, "?view=attention") == [asking]

    def test_a_state_narrows_the_list_and_its_chip_carries_the_count(self, olga):
        working = make.working()
        make.asking()

        page = olga.get(reverse("operations") + "?state=WORKING").content.decode()

        assert listed(olga, "?state=WORKING") == [working]
        assert re.search(r'aria-current="true">.*?Working <b>1</b>', page)

    @pytest.mark.parametrize("unknown", ["?state=SLEEPING", "?view=nothing", "?after=yesterday"])
    def test_a_word_it_does_not_know_is_ignored(self, olga, unknown):
        operation = make.working()

        assert listed(olga, unknown) == [operation]

    def test_it_is_narrowed_by_server_tool_client_and_principal(self, olga):
        make.server("other", tools=("count_stock",))
        here = make.working(principal="ann")
        there = make.working(server="other", tool="count_stock", principal="bob")

        assert listed(olga, "?server=other") == [there]
        assert listed(olga, "?tool=change_prices") == [here]
        assert listed(olga, "?principal=bob") == [there]
        assert listed(olga, "?client=nobody") == []

    def test_pages_of_fifty_follow_each_other_without_gap_or_repetition(self, olga):
        made = [fresh() for _ in range(52)]

        page = olga.get(reverse("operations")).content.decode()
        older = re.search(r'rel="next" href="([^"]+)"', page)[1].replace("&amp;", "&")

        assert listed(olga) + listed(olga, older) == list(reversed(made))

    def test_rows_of_the_same_moment_are_not_lost_between_pages(self, olga):
        now = timezone.now()
        made = [fresh(now=now) for _ in range(52)]

        page = olga.get(reverse("operations")).content.decode()
        older = re.search(r'rel="next" href="([^"]+)"', page)[1].replace("&amp;", "&")

        assert sorted(listed(olga) + listed(olga, older)) == sorted(made)

    def test_an_empty_list_says_what_will_appear_here(self, olga):
        page = olga.get(reverse("operations")).content.decode()

        assert "An operation appears when a call node submits" in page

    def test_our_state_and_the_servers_word_stand_side_by_side(self, olga):
        make.asking()

        page = olga.get(reverse("operations")).content.decode()

        assert "Needs an answer" in page
        assert '<span class="proto">input_required</span>' in page

    def test_a_title_from_a_server_is_text_never_markup(self, olga):
        make.server("evil", tools=("<img src=x>",))
        make.working(server="evil", tool="<img src=x>")

        page = olga.get(reverse("operations")).content.decode()

        assert "<img" not in page
        assert "&lt;img src=x&gt;" in page


def test_the_list_tells_an_expired_question_from_an_open_one(olga):
    make.expire(make.asking())

    page = olga.get(reverse("operations")).content.decode()

    assert "Question expired" in page
    assert "Needs an answer" not in page


class TestSearch:
    @pytest.mark.parametrize("kind", ["id", "task_id", "call_node", "submission_key"])
    def test_any_id_leads_straight_to_the_operation(self, olga, kind):
        make.working()
        operation = make.working()
        text = getattr(Operation.objects.get(id=operation), kind)

        answer = olga.get(reverse("operations"), {"q": f" {text} "})

        assert answer.url == reverse("operation", args=[operation])

    def test_the_first_digits_of_the_id_are_enough(self, olga):
        operation = make.working()

        answer = olga.get(reverse("operations"), {"q": operation[:13]})

        assert answer.url == reverse("operation", args=[operation])

    def test_a_receipt_leads_to_its_operation(self, olga):
        operation = fresh()
        ledger.request_cancel(operation, seen_generation=0, by="client:flows", reason="no need", now=timezone.now())
        receipt = Receipt.objects.get(operation=operation)

        answer = olga.get(reverse("operations"), {"q": str(receipt.id)})

        assert answer.url == reverse("operation", args=[operation])

    def test_several_with_the_same_call_node_are_listed(self, olga):
        made = [fresh(client=client, call_node="step 1") for client in ("flows", "agents")]

        assert sorted(listed(olga, "?q=step+1")) == sorted(made)

    def test_an_id_nobody_has_says_what_was_tried(self, olga):
        page = olga.get(reverse("operations"), {"q": "nope"}).content.decode()

        assert "Tried: operation, task, call node, submission key, receipt." in page


class TestLiveList:
    def test_rows_are_drawn_anew_in_the_order_they_stand(self, olga):
        first, second = make.working(), make.working()
        make.ask(first)

        page = olga.get(reverse("operation_rows"), {"id": [first, second, "no-id", str(uuid.uuid4())]}).content.decode()

        assert re.findall(r'id="op-([0-9a-f-]{36})"', page) == [first, second]
        assert "Needs an answer" in page

    def test_new_ones_are_counted_not_pushed_in(self, olga):
        make.working()
        page = olga.get(reverse("operations")).content.decode()
        news = re.search(r'hx-get="(/operations/news/[^"]+)"', page)[1].replace("&amp;", "&")
        make.working()
        make.working()

        assert "2 new operations" in olga.get(news).content.decode()

    def test_only_what_the_page_would_show_counts_as_new(self, olga):
        fresh(principal="ann")
        page = olga.get(reverse("operations") + "?principal=ann").content.decode()
        news = re.search(r'hx-get="(/operations/news/[^"]+)"', page)[1].replace("&amp;", "&")
        fresh(principal="bob")
        assert "new operation" not in olga.get(news).content.decode()

        fresh(principal="ann")

        assert "1 new operation<" in olga.get(news).content.decode()

    def test_a_later_page_tells_of_nothing_new(self, olga):
        """The rows that came before it are on the first page, and none of them is news."""
        for _ in range(52):
            fresh()
        first = olga.get(reverse("operations")).content.decode()
        older = re.search(r'rel="next" href="([^"]+)"', first)[1].replace("&amp;", "&")

        assert "/operations/news/" in first
        assert "/operations/news/" not in olga.get(reverse("operations") + older).content.decode()

    def test_a_paused_list_asks_for_nothing(self, olga):
        make.working()

        page = olga.get(reverse("operations") + "?live=off").content.decode()

        assert "/operations/rows/" not in page
        assert "/operations/news/" not in page


class TestDetail:
    def test_it_says_where_the_operation_stands_before_anything_else(self, olga):
        operation = make.working()

        page = olga.get(reverse("operation", args=[operation])).content.decode()

        assert page.index("<em>Working.</em>") < page.index("What you can do now") < page.index("Timeline")
        assert '<span class="proto">working</span>' in page

    def test_a_cancel_that_is_asked_is_never_told_as_done(self, olga):
        operation = make.working()
        ledger.request_cancel(operation, seen_generation=0, by="person:olga", reason="too long", now=timezone.now())

        page = olga.get(reverse("operation", args=[operation])).content.decode()

        assert "not yet honoured" in page
        assert "Cancelled" not in re.sub(r"(?s)<svg.*?</svg>", "", page)

    def test_what_is_not_possible_stays_visible_with_its_reason(self, olga):
        operation = make.asking()

        page = olga.get(reverse("operation", args=[operation])).content.decode()

        assert "Needs the role approver." in page
        assert "Only for operations whose outcome we cannot tell." in page

    @pytest.mark.parametrize(
        "role, may",
        [
            ("viewer", set()),
            ("approver", {"round"}),
            ("operator", {"look_now", "cancel"}),
            ("admin", set()),
        ],
    )
    def test_each_role_may_press_what_the_contract_gives_it(self, olga, role, may):
        operation = make.asking()
        client = make.signed_in("somebody", role)

        page = client.get(reverse("operation", args=[operation])).content.decode()
        actions = page[page.index("What you can do now") :].partition("</section>")[0]

        addresses = {
            "round": reverse("round", args=[operation, 1]),
            "look_now": reverse("look_now", args=[operation]),
            "cancel": reverse("cancel", args=[operation]),
        }
        assert {name for name, address in addresses.items() if f'"{address}"' in actions} == may

    def test_an_open_question_is_shown_with_its_clock_and_its_way_there(self, olga):
        operation = make.asking(make.question("Deploy <b>now</b>?"))

        page = olga.get(reverse("operation", args=[operation])).content.decode()

        assert "Deploy &lt;b&gt;now&lt;/b&gt;?" in page
        assert reverse("round", args=[operation, 1]) in page
        assert 'data-tick="left"' in page

    def test_a_question_that_expired_is_never_told_as_answered(self, olga):
        """I5: silence approves nothing, and the page says that nobody answered."""
        operation = make.asking()
        make.expire(operation)

        page = olga.get(reverse("operation", args=[operation])).content.decode()

        assert "<em>Round 1 expired; nobody answered.</em> The tool was told nothing" in page
        assert "Looking has resumed" in page
        assert "An operator can give the question more time" in page
        assert "Answered" not in page
        assert "Needs an answer" not in page

    def test_an_expired_question_leads_operators_to_more_time(self, olga):
        operation = make.asking()
        make.expire(operation)

        actions = olga.get(reverse("operation", args=[operation])).context["actions"]

        more = next(can for can in actions if can.key == "answer")
        assert (more.possible, more.address) == (True, reverse("round", args=[operation, 1]))
        assert "Give more time" in olga.get(more.address).content.decode()

    def test_an_expired_question_gets_no_more_time_than_the_wait_budget_has(self, olga):
        """I2"""
        began = timezone.now() - dt.timedelta(minutes=11)
        operation = make.asking(budget_s=600, now=began)
        Operation.objects.filter(id=operation).update(budget_ends_at=timezone.now() - dt.timedelta(seconds=1))
        make.expire(operation)

        page = olga.get(reverse("operation", args=[operation])).content.decode()

        assert "more time" not in page[: page.index("Timeline")]

    def test_a_question_that_has_its_answer_says_so(self, olga):
        operation = make.asking()
        make.answer(operation)

        page = olga.get(reverse("operation", args=[operation])).content.decode()

        assert "<em>Answered, not yet taken.</em> Round 1 has its answer" in page

    def test_the_living_part_comes_alone_and_carries_the_version(self, olga):
        operation = make.working()

        part = olga.get(
            reverse("operation", args=[operation]), headers={"HX-Request": "true", "HX-Target": "op-live"}
        ).content.decode()

        version = ledger.read([operation])[operation].version
        assert part.lstrip().startswith(f'<div id="op-live" class="stack" data-live-op="{operation}"')
        assert f'data-version="{version}"' in part
        assert 'id="op-badge" hx-swap-oob="true"' in part
        assert "<html" not in part

    @pytest.mark.parametrize("tab", ["history", "evidence", "receipt", "journal", "record"])
    def test_each_tab_comes_alone_too(self, olga, tab):
        operation = make.working()

        part = olga.get(
            reverse("operation", args=[operation]) + f"?tab={tab}",
            headers={"HX-Request": "true", "HX-Target": "op-tab"},
        ).content.decode()

        assert part.lstrip().startswith('<div id="op-tab"')
        assert "<html" not in part

    def test_the_diagram_lights_the_present_state_and_the_way_here(self, olga):
        operation = make.asking()

        page = olga.get(reverse("operation", args=[operation])).content.decode()

        assert re.search(r'class="node lit">.*?>INPUT_REQUIRED<', page)
        assert re.search(r'class="node been">.*?>SUBMITTING<', page)
        assert re.search(r'class="node been">.*?>WORKING<', page)

    def test_the_picture_and_the_list_tell_the_same_events(self, olga):
        operation = make.asking()

        page = olga.get(reverse("operation", args=[operation])).content.decode()
        picture = page[page.index("Timeline in three lanes") :]
        told = re.findall(r'<span class="says">([^<]+)</span>', page)

        assert told
        for drawn in re.findall(r"<circle[^>]*><title>([^<]+)</title>", picture):
            assert drawn in told

    def test_the_record_shows_the_arguments_as_they_came(self, olga):
        operation = make.working(arguments=b'{"percent":  12.50}')

        page = olga.get(reverse("operation", args=[operation]) + "?tab=record").content.decode()

        assert "{&quot;percent&quot;:  12.50}" in page

    def test_a_receipt_is_shown_with_its_delivery(self, olga):
        operation = fresh()
        ledger.request_cancel(operation, seen_generation=0, by="client:flows", reason="no need", now=timezone.now())

        page = olga.get(reverse("operation", args=[operation]) + "?tab=receipt").content.decode()

        assert str(Receipt.objects.get(operation=operation).id) in page
        assert "Not acknowledged yet" in page

    def test_a_long_history_costs_as_many_queries_as_a_short_one(self, olga):
        operation = make.working()
        page = reverse("operation", args=[operation])
        short = _queries(olga, page)
        for _ in range(4):
            make.ask(operation, make.question(uuid.uuid4().hex))
            make.resume(operation)

        assert _queries(olga, page) == short


class TestTrouble:
    """X1, P5: a server that does not answer is told as that, with why, and that waiting is safe."""

    @pytest.fixture
    def silent(self, olga):
        operation = make.working()
        make.unanswered(operation, since=timezone.now() - dt.timedelta(minutes=3))
        return operation

    def test_the_page_says_since_when_why_and_how_often(self, olga, silent):
        page = re.sub(r"<[^>]+>", "", olga.get(reverse("operation", args=[silent])).content.decode())

        assert (
            "Shop has not answered since 3\N{NO-BREAK SPACE}min ago: nobody answered within 10 s; 4 tries; the next"
            in page
        )
        assert "Nothing is lost, waiting is safe." in page

    def test_the_list_has_a_word_for_it(self, olga, silent):
        page = olga.get(reverse("operations")).content.decode()

        assert re.search(r'title="nobody answered within 10 s">.*no answer', page)

    @pytest.mark.parametrize("name", ["home", "operations", "troubles"])
    def test_a_banner_names_the_server_and_its_calls(self, olga, silent, name):
        make.unanswered(make.working())

        page = olga.get(reverse(name)).content.decode()

        assert page.count("Shop has not answered since") == 1
        assert "2 calls wait for it." in page

    def test_an_answer_ends_it(self, olga, silent):
        see(silent)

        assert "has not answered" not in olga.get(reverse("operation", args=[silent])).content.decode()
        assert "has not answered" not in olga.get(reverse("home")).content.decode()


class TestParked:
    """X4: where nothing can be asked, no look is announced or promised."""

    def test_the_page_announces_no_look(self, olga):
        page = olga.get(reverse("operation", args=[make.lost()])).content.decode()

        assert "Next look" not in page
        assert "Nothing is looked at by itself before a person decides" in page

    def test_looking_promises_no_more_on_one_page_than_on_the_other(self, olga):
        operation = make.lost()
        said = "so it can only show that nothing new can be learned."

        for name in ("operation", "reconcile_item"):
            page = olga.get(reverse(name, args=[operation])).content.decode()
            assert said in page
            assert "Asks shop" not in page
            assert "The next look by itself" not in page

    def test_an_outcome_that_can_be_looked_up_keeps_its_next_look(self, olga):
        page = olga.get(reverse("operation", args=[make.unknown()])).content.decode()

        assert "Next look" in page
        assert "Asks shop once for the task it named" in page


class TestEvidence:
    @pytest.fixture
    def seen(self, olga):
        """An operation with one piece of evidence that holds markup."""
        operation = make.working()
        see(operation, b'{"note": "<script>alert(1)</script>", "cut": "\xff"}')
        return operation

    def test_sizes_and_digests_stand_first_bodies_wait_for_a_click(self, olga, seen):
        page = olga.get(reverse("operation", args=[seen]) + "?tab=evidence").content.decode()

        assert "tasks/get" in page
        assert reverse("evidence", args=[seen, 1]) in page
        assert "alert(1)" not in page

    def test_a_body_is_text_never_a_page(self, olga, seen):
        answer = olga.get(reverse("evidence", args=[seen, 1]))

        assert answer.status_code == 200
        page = answer.content.decode()
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
        assert r"\xff" in page

    @pytest.mark.parametrize("role, status", [("operator", 200), ("admin", 200), ("approver", 403), ("viewer", 403)])
    def test_bodies_are_for_operators_and_admins(self, seen, role, status):
        answer = make.signed_in("somebody", role).get(reverse("evidence", args=[seen, 1]))

        assert answer.status_code == status

    def test_what_was_never_kept_is_not_found(self, olga, seen):
        assert olga.get(reverse("evidence", args=[seen, 99])).status_code == 404


class TestLarge:
    """B244: what is large is previewed and downloaded, never drawn as a whole."""

    LARGE = b'{"content": [], "structuredContent": {"rows": "' + b"x" * 3_900_000 + b'"}}'

    @pytest.fixture
    def accepted(self, olga):
        """an accepted operation with a result of 4 MB."""
        return make.accepted(self.LARGE)

    def test_b244_the_page_shows_64_kb_of_it_and_the_rest_is_a_download(self, olga, accepted):
        page = olga.get(reverse("operation", args=[accepted]) + "?tab=receipt")

        assert len(page.content) < 250_000
        assert "are shown." in page.content.decode()
        whole = olga.get(reverse("operation_result", args=[accepted]))
        assert whole.content == self.LARGE
        assert whole["Content-Disposition"].startswith("attachment")

    def test_b244_the_page_reads_no_more_than_it_shows(self, olga, accepted):
        with CaptureQueriesContext(connection):
            card = dossier.receipt(uuid.UUID(accepted))

        assert (len(card.result), card.result_size) == (dossier.RESULT_SHOWN, len(self.LARGE))

    def test_b244_a_large_body_is_cut_too_and_downloaded_whole(self, olga):
        operation = make.working()
        see(operation, self.LARGE)
        address = reverse("evidence", args=[operation, 1])

        assert len(olga.get(address).content) < 250_000
        assert olga.get(address + "?download").content == self.LARGE

    @pytest.mark.parametrize("role", ["viewer", "approver"])
    def test_payloads_are_for_operators_and_admins(self, accepted, role):
        answer = make.signed_in("somebody", role).get(reverse("operation_result", args=[accepted]))

        assert answer.status_code == 403

    def test_without_a_result_there_is_nothing_to_download(self, olga):
        assert olga.get(reverse("operation_result", args=[make.working()])).status_code == 404


class TestLookNow:
    def test_it_brings_the_next_look_to_now(self, olga):
        operation = make.working()

        answer = olga.post(reverse("look_now", args=[operation]), follow=True)

        assert "A look was ordered" in answer.content.decode()
        assert looks_ordered(operation) == 1

    def test_on_a_finished_one_it_changes_nothing_and_says_so(self, olga):
        operation = fresh()
        ledger.request_cancel(operation, seen_generation=0, by="client:flows", reason="no need", now=timezone.now())

        answer = olga.post(reverse("look_now", args=[operation]), follow=True)

        assert "nothing left to look for" in answer.content.decode()

    def test_opening_its_address_does_nothing(self, olga):
        assert olga.get(reverse("look_now", args=[make.working()])).status_code == 405

    @pytest.mark.parametrize("role", ["viewer", "approver", "admin"])
    def test_others_are_refused(self, olga, role):
        operation = make.working()

        answer = make.signed_in("somebody", role).post(reverse("look_now", args=[operation]))

        assert answer.status_code == 403
        assert looks_ordered(operation) == 0


def _queries(client, page):
    with CaptureQueriesContext(connection) as seen:
        assert client.get(page).status_code == 200
    return len(seen)
