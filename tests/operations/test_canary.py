"""Secrets stay where they belong: canaries in the credential, in arguments and in answers, and a server that echoes.

The server says the credential back in everything that it can say: messages, questions, results, errors, error pages,
headers. It may be nowhere of ours. Arguments and answers are the ledger's own; they may be in no log and in no error.
"""

import io
import json
import logging

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from adapters import registry
from adapters.contract import Endpoint
from adapters.simulator.scenario import Scenario
from adapters.simulator.scripts import Ask, Crash, Finish, Tool, Work
from console.access import Role
from operations import ledger
from operations.machine import State
from tests.console import factories as make
from tests.operations.world import World

pytestmark = pytest.mark.django_db(transaction=True)

TOKEN = "canary-credential-0123456789"
CREDENTIAL = f"Bearer {TOKEN}"
IN_ARGUMENTS = "canary-in-arguments"
IN_ANSWER = "canary-in-answer"
FORM = {"type": "object", "properties": {"note": {"type": "string", "title": f"Not {TOKEN}"}}, "required": ["note"]}


def _echoes(arguments):
    yield Work(seconds=5, message=f"called with {CREDENTIAL}")
    yield Ask(message=f"Is {TOKEN} yours?", schema=FORM)
    yield Work(seconds=5)
    return Finish(text=f"done for {TOKEN}", structured={"token": TOKEN, "header": CREDENTIAL})


def _crashes(arguments):
    yield Work(seconds=1, message=f"for {TOKEN}")
    return Crash(message=f"{CREDENTIAL} is not allowed to do this")


def _tool(name, script):
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    described = f"For {TOKEN} only"
    return Tool(
        name=name, title=name, description=described, script=script, task_support="required", input_schema=schema
    )


class _EchoesInFront:
    """What stands in front of the server answers some looks itself, and shows the request that it had."""

    def __init__(self, app):
        self._app = app
        self._seen = 0
        self.works = False

    async def __call__(self, scope, receive, send):
        headers = dict(scope["headers"])
        assert headers[b"authorization"] == CREDENTIAL.encode(), "the credential was not even sent"
        self._seen += self.works
        if not self.works or self._seen % 4:
            await self._app(scope, receive, send)
            return
        page = f"<html>503 for {headers[b'authorization'].decode()}</html>".encode()
        told = [(b"content-type", b"text/html"), (b"x-you-sent", headers[b"authorization"]), (b"retry-after", b"1")]
        await send({"type": "http.response.start", "status": 503, "headers": told})
        await send({"type": "http.response.body", "body": page, "more_body": False})


class Guarded(World):
    """A world whose server wants a credential."""

    def wire(self, work, gate):
        endpoint = Endpoint(url=work.server.url, credential=CREDENTIAL)
        return self.connections.wire(endpoint, gate=gate, clock=self.now)

    async def _negotiate(self, url):
        endpoint = Endpoint(url=url, credential=CREDENTIAL)

        async def open_gate():
            """No rate limit."""

        wire = self.connections.wire(endpoint, gate=open_gate, clock=self.now)
        negotiation = await registry.adapter(self.version, "r1").negotiate(wire)
        await self.step(ledger.save_negotiation, self.slug, negotiation, now=self.now())


@pytest.fixture
def logged():
    """Everything that is logged, with its extras, whatever its level."""
    heard = io.StringIO()

    class Everything(logging.Handler):
        def emit(self, record):
            heard.write(f"{self.format(record)} {record.__dict__}\n")

    handler, root = Everything(level=logging.DEBUG), logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    for name in ("operations", "adapters", "console"):
        logging.getLogger(name).setLevel(logging.DEBUG)
    logging.getLogger("django.db.backends").setLevel(logging.WARNING)  # statements hold what the ledger holds
    yield heard
    root.removeHandler(handler)
    root.setLevel(before)


@pytest.fixture
def lives(monkeypatch, logged):
    """Two whole lives on the server that echoes: one to its receipt, one to its failure."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
    here = Guarded(Scenario(tools=(_tool("echoes", _echoes), _tool("crashes", _crashes))))
    (transport,) = here.connections._transports.values()
    front = transport._app = _EchoesInFront(transport._app)
    try:
        argument = json.dumps({"name": IN_ARGUMENTS}).encode()
        told, failed = here.submit("echoes", argument), here.submit("crashes", argument)
        for operation in (told, failed):
            here.until(operation, State.WORKING)
        front.works = True
        here.until(told, State.INPUT_REQUIRED)
        here.answer(told, json.dumps({"note": IN_ANSWER}))
        for operation in (told, failed):
            here.until(operation, State.ACCEPTED)
        yield here, told, failed
    finally:
        here.close()


def tables():
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        return [name for (name,) in cursor.fetchall()]


def places(canary):
    """The tables that hold this text, as text or as bytes."""
    spelled = [canary, canary.encode().hex()]
    held = []
    with connection.cursor() as cursor:
        for table in tables():
            cursor.execute(
                f'SELECT count(*) FROM "{table}" t WHERE strpos(t::text, %s) > 0 OR strpos(t::text, %s) > 0', spelled
            )
            if cursor.fetchone()[0]:
                held.append(table)
    return held


def test_the_credential_is_in_no_table_no_log_and_on_no_page(lives, logged):
    """L7: the whole database is looked through, evidence and receipts included."""
    here, told, failed = lives
    client = Client()
    client.force_login(make.person("olga", *(role.value for role in Role)))
    with connection.cursor() as cursor:
        cursor.execute("SELECT operation_id::text, seq FROM evidence")
        evidence = cursor.fetchall()
    pages = [reverse("operations"), reverse("servers"), reverse("server", args=[here.slug]), reverse("reconcile")]
    pages += [reverse("operation", args=[operation]) for operation in (told, failed)]
    pages += [reverse("round", args=[told, 1])]
    pages += [reverse("evidence", args=[operation, seq]) for operation, seq in evidence]

    shown = {address: client.get(address).content.decode() for address in pages}

    assert places(TOKEN) == []
    assert TOKEN not in logged.getvalue()
    assert [address for address, text in shown.items() if TOKEN in text] == []
    assert places("[masked]"), "nothing was echoed: this test would prove nothing"
    assert len(evidence) > 10


def test_arguments_and_answers_are_in_the_ledger_and_in_no_log_and_no_error(lives, logged):
    """The journal tells what happened, not with which values."""
    del lives
    with connection.cursor() as cursor:
        cursor.execute("SELECT coalesce(string_agg(detail::text, ' '), '') FROM journal")
        details = cursor.fetchone()[0]

    assert "operation" in places(IN_ARGUMENTS)
    assert "answer" in places(IN_ANSWER)
    for canary in (IN_ARGUMENTS, IN_ANSWER):
        assert canary not in logged.getvalue()
        assert canary not in details
        assert "journal" not in places(canary)
        assert "receipt" not in places(canary)


def test_the_logs_were_listened_to(lives, logged):
    """What the tests above do not find must have had somewhere to be."""
    logging.getLogger("operations.driver").info("late", extra={"why": "a word to look for"})

    assert "a word to look for" in logged.getvalue()
