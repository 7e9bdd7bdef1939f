"""The reference workflow: it never submits twice and advances on acknowledged receipts only (R6, L4, A2).

It talks to the real API through httpx; what breaks is put in between.
"""

import json

import httpx
import pytest
from django.test import Client

from console.management.commands import demo_workflow
from console.management.commands.demo_workflow import STEPS, Longcall, RefusedError, Run, Store, Workflow
from operations import ledger
from tests.console.api import world

pytestmark = pytest.mark.django_db


MOST_REQUESTS = 200


class Stopped(BaseException):
    """The process dies here."""


class Site(httpx.BaseTransport):
    """The real API, without a socket. `meddle` may break a request before or after it was carried out."""

    def __init__(self):
        self.sent = []
        self.meddle = lambda request, carry_out: carry_out()

    def handle_request(self, request):
        assert len(self.sent) < MOST_REQUESTS, "the workflow runs in circles"
        self.sent.append((request.method, request.url.path.rpartition("/v1/")[2], request.read()))
        return self.meddle(request, lambda: self._carried_out(request))

    def _carried_out(self, request):
        answer = Client().generic(
            request.method,
            request.url.raw_path.decode(),
            request.read(),
            "application/json",
            headers={"Authorization": request.headers["Authorization"]},
        )
        return httpx.Response(answer.status_code, headers=dict(answer.headers), content=answer.content)

    def bodies(self, path):
        return [json.loads(body) for method, sent, body in self.sent if sent == path and method == "POST"]


@pytest.fixture
def world_of_the_demo(db):
    for server in ("reports", "pricing"):
        world.register_server(slug=server)


@pytest.fixture
def site(world_of_the_demo, monkeypatch):
    monkeypatch.setattr(demo_workflow.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(demo_workflow, "WAIT_S", 0)
    return Site()


@pytest.fixture
def begin(site, tmp_path):
    """Return a function that starts the workflow's program anew, over the same file."""
    node = world.Node(client="demo")
    lines = []

    def program():
        http = httpx.Client(
            transport=site, base_url="http://site/api/v1/", headers={"Authorization": f"Bearer {node.token}"}
        )
        workflow = Workflow(Longcall(http, tell=lines.append), Store(tmp_path / "run.json"), tell=lines.append)
        workflow.lines = lines
        return workflow

    return program


@pytest.fixture(autouse=True)
def _steps(monkeypatch):
    """The same three steps, on the tools of this test's world."""
    tools = ("reports", "report"), ("pricing", "note"), ("reports", "report")
    percent = demo_workflow._raise_in_percent
    arguments = (lambda _: {"quarter": "Q3"}), percent, (lambda _: {"quarter": "Q4"})
    made = tuple(
        demo_workflow.Step(step.name, server, tool, make)
        for step, (server, tool), make in zip(STEPS, tools, arguments, strict=True)
    )
    monkeypatch.setattr(demo_workflow, "STEPS", made)


REPORT = b'{"content": [], "structuredContent": {"revenue_by_region": {"North": 1}}}'


def serve(site, *, outcomes=()):
    """Let the remote side finish whatever is open each time the workflow asks for receipts."""
    done = []

    def finish(request, carry_out):
        if request.url.path.endswith("/outbox"):
            for operation in _open():
                number = len(done)
                done.append(operation)
                world.working(operation, task=f"t-{number}")
                failed = outcomes[number] if number < len(outcomes) else False
                world.finished(operation, task=f"t-{number}", raw=REPORT, is_error=failed)
        return carry_out()

    site.meddle = finish
    return done


def _open():
    from operations.models import Operation

    return [str(found.pk) for found in Operation.objects.filter(state="SUBMITTING").order_by("created_at")]


def test_three_steps_run_one_after_the_other_to_their_end(site, begin):
    done = serve(site)

    run = begin().run()

    assert len(done) == 3
    assert not run.failed
    assert [taken.outcome for taken in run.taken.values()] == ["SUCCESS"] * 3
    assert [call["call_node"].rpartition("/")[2] for call in site.bodies("operations")] == [
        "report",
        "prices",
        "forecast",
    ]


def test_a_step_uses_the_result_of_the_step_before(site, begin):
    serve(site)

    begin().run()

    assert site.bodies("operations")[1]["arguments"] == {"percent": 5}


def test_a_step_begins_only_after_the_receipt_before_it_is_acknowledged(site, begin):
    serve(site)

    begin().run()

    order = [path for method, path, _ in site.sent if method == "POST"]
    assert order == ["operations", "outbox/acknowledge"] * 3


def test_what_follows_a_failed_step_does_not_run(site, begin):
    done = serve(site, outcomes=(True,))

    run = begin().run()

    assert run.failed
    assert len(done) == len(site.bodies("operations")) == 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lost_submit_is_sent_again_under_the_same_key(site, begin, when):
    done = serve(site)
    finish, lost = site.meddle, []

    def lose_one(request, carry_out):
        if request.method == "POST" and request.url.path.endswith("/operations") and not lost:
            lost.append(request)
            if when == "after":
                carry_out()
            raise httpx.ReadTimeout("no answer")
        return finish(request, carry_out)

    site.meddle = lose_one

    begin().run()

    first, again = site.bodies("operations")[:2]
    assert first == again
    assert len(done) == 3


@pytest.mark.parametrize("path", ["operations", "outbox", "outbox/acknowledge"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_killed_program_goes_on_where_it_was(site, begin, path, when):
    """Killed once around each request, before and after it was carried out: three calls, each once."""
    done = serve(site)
    finish, killed = site.meddle, []

    def kill(request, carry_out):
        here = request.url.path.endswith(f"/v1/{path}")
        if here and len(killed) < 3 and (len(site.sent) % 2 or when == "after"):
            if when == "after":
                finish(request, carry_out)
            killed.append(request)
            raise Stopped
        return finish(request, carry_out)

    site.meddle = kill
    for _ in range(20):
        try:
            run = begin().run()
            break
        except Stopped:
            continue

    assert len(killed) == 3
    assert len(done) == 3
    assert len({call["submission_key"] for call in site.bodies("operations")}) == 3
    assert run.step is None


def test_a_receipt_that_comes_twice_advances_once(site, begin):
    """B245: the acknowledgement was carried out, its answer lost."""
    done = serve(site)
    finish, lost = site.meddle, []

    def lose_one(request, carry_out):
        answer = finish(request, carry_out)
        if request.url.path.endswith("/acknowledge") and not lost:
            lost.append(request)
            raise httpx.ReadError("gone")
        return answer

    site.meddle = lose_one

    run = begin().run()

    assert (len(done), len(run.taken)) == (3, 3)


def test_a_receipt_of_somebody_elses_call_is_acknowledged_and_moves_nothing(site, begin):
    other = world.Node(client="demo")
    world.accepted(other, number=9)
    serve(site)

    run = begin().run()

    assert set(run.taken) == {"report", "prices", "forecast"}
    assert other.get("outbox").json()["items"] == []


def test_closed_submits_are_waited_for_and_never_passed_by(site, begin):
    """O4"""
    done = serve(site)
    ledger.set_submits("server", "reports", is_open=False, reason="audit")
    finish, seen = site.meddle, []

    def open_later(request, carry_out):
        if request.method == "POST" and len(seen) < 3:
            seen.append(request)
        elif len(seen) == 3:
            ledger.set_submits("server", "reports", is_open=True, reason="")
        return finish(request, carry_out)

    site.meddle = open_later
    workflow = begin()

    workflow.run()

    assert any("stopped here" in line for line in workflow.lines)
    assert len(done) == 3


def test_a_refusal_that_time_cannot_repair_ends_the_program_and_not_the_run(site, begin):
    site.meddle = lambda request, carry_out: httpx.Response(401, json={"title": "A", "detail": "b"})
    with pytest.raises(RefusedError):
        begin().run()
    serve(site)

    run = begin().run()

    assert not run.failed
    assert len({call["call_node"].split("/")[1] for call in site.bodies("operations")}) == 1


def test_a_run_is_on_disk_before_its_first_request(site, begin, tmp_path):
    kept = []

    def look(request, carry_out):
        kept.append(Store(tmp_path / "run.json").load())
        raise Stopped

    site.meddle = look

    with pytest.raises(Stopped):
        begin().run()

    assert isinstance(kept[0], Run)
    assert kept[0].id in site.bodies("operations")[0]["submission_key"]
