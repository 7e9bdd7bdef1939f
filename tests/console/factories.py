"""A small world for tests of pages: people, one server with its tools, and operations brought where a test needs them.

Everything goes through the ledger's own verbs, so that no test meets a row that could not exist.
"""

import datetime as dt
import itertools
import json
import uuid

from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils import timezone

from adapters import strictjson
from adapters.contract import (
    Capabilities,
    Ended,
    Mode,
    NeedsInput,
    Negotiation,
    Opened,
    ProtocolStatus,
    Question,
    TaskFacts,
    TaskSupport,
    ToolDescriptor,
    ToolResult,
    Working,
)
from adapters.strictjson import digest_of
from console.access import Role
from operations import ledger
from operations.machine import Delivery, Event, Reason
from operations.queries import rounds, scope
from tests.approvers import everybody

PASSWORD = "correct horse battery"
VERSION = "2025-11-25"
CAPABILITIES = Capabilities(
    server_name="shop", server_version="1", creates_tasks=True, cancels_tasks=True, lists_tasks=True
)
YES_NO = {"type": "object", "properties": {"ok": {"type": "boolean", "title": "Deploy now"}}, "required": ["ok"]}
_numbers = itertools.count(1)


def person(name, *roles, team="everybody"):
    """Make a person with these roles, in a team that sees every server; `team` "": in none."""
    # One iteration: a test that makes ten people must not wait ten seconds for their passwords.
    user = User.objects.create(username=name, password=PBKDF2PasswordHasher().encode(PASSWORD, "salt", iterations=1))
    for role in roles:
        user.groups.add(Group.objects.get_or_create(name=Role(role).value)[0])
    if team:
        join(name, team)
    return user


def signed_in(name, *roles):
    """Make a person with these roles and return their browser, signed in."""
    client = Client()
    client.force_login(person(name, *roles))
    return client


def join(name, slug="everybody", *, servers=None):
    """Put somebody into a team that looks after these servers; None: all of them."""
    note = ledger.Note(by="tests", reason="", now=timezone.now())
    held = {row.slug: row for row in scope.teams()}
    if slug not in held:
        ledger.save_team(slug, title=slug.title(), all_servers=servers is None, servers=servers or (), note=note)
    ledger.join_team(slug, member=f"person:{name}", note=note)


def server(slug="shop", *, tools=("change_prices",), answer_within_s=1800):
    """Register a server with its tools."""
    ledger.register_protocol(VERSION, release="r1")
    ledger.register_server(
        ledger.NewServer(
            slug=slug,
            title=slug.title(),
            url="http://127.0.0.1:9/mcp",
            protocol=VERSION,
            allow_private=True,
            max_qps=1000,
        )
    )
    described = tuple(_described(name) for name in tools)
    ledger.save_negotiation(slug, Negotiation(capabilities=CAPABILITIES, tools=described), now=timezone.now())
    for name in tools:
        ledger.set_policy(slug, name, ledger.ToolPolicy(answer_within_s=answer_within_s))


def submitted(
    *,
    server="shop",
    tool="change_prices",
    arguments=b'{"percent": 12.0}',
    principal="ann",
    budget_s=None,
    call_node="",
):
    """Submit a call of which nothing has left yet; return the operation's id."""
    n = next(_numbers)
    call = ledger.NewCall(
        client="flows",
        call_node=call_node or f"step {n}",
        submission_key=f"key-{n}",
        server=server,
        tool=tool,
        arguments=arguments,
        principal=principal,
        budget_s=budget_s,
    )
    return ledger.submit(call, now=timezone.now()).operation


def working(**call):
    """Submit a call and bring it to WORKING; return the operation's id."""
    operation, n, now = submitted(**call), next(_numbers), timezone.now()
    ticket, permit = ticket_of(operation), uuid.uuid4()
    ledger.session_opened(operation, ticket=ticket, opened=Opened(session=f"s{n}", capabilities=CAPABILITIES), now=now)
    ledger.permit_submit(operation, permit=permit, as_task=True, ticket=ticket, now=now)
    seen = Working(task=task(f"t{n}-{uuid.uuid4().hex[:6]}", ProtocolStatus.WORKING))
    ledger.submit_answered(operation, permit=permit, seen=seen, ticket=ticket, next_at=now, now=now)
    return operation


def question(message="Deploy v42?", schema=None, *, key='"q1"', url=""):
    """One question; a form unless it has a URL."""
    schema = {} if url else YES_NO if schema is None else schema
    raw = json.dumps([message, schema, url]).encode()
    mode = Mode.URL if url else Mode.FORM
    return Question(
        key=key, mode=mode, message=message, schema=schema, url=url, raw=raw, digest=digest_of([message, schema, url])
    )


def ask(operation, *questions, now=None):
    """Let the server ask; return the number of the round."""
    held = questions or (question(),)
    _saw(operation, NeedsInput(task=task_now(operation, ProtocolStatus.INPUT_REQUIRED), questions=held), now)
    return ledger.read([operation])[operation].round


def asking(*questions, now=None, **call):
    """A fresh operation with an open round 1; return its id."""
    operation = working(**call)
    ask(operation, *questions, now=now)
    return operation


def resume(operation):
    """Let the server stop asking."""
    _saw(operation, Working(task=task_now(operation, ProtocolStatus.WORKING)))


def complete(operation):
    """Let the server report the task as completed."""
    _saw(operation, Ended(status=ProtocolStatus.COMPLETED, task=task_now(operation, ProtocolStatus.COMPLETED)))


def accepted(raw=b'{"content": []}', **call):
    """Bring a call to its accepted result; return the operation's id."""
    operation, now = working(**call), timezone.now()
    complete(operation)
    ledger.fetch_started(operation, ticket=ticket_of(operation), now=now)
    result = ToolResult(raw=raw, value=strictjson.parse(raw), is_error=False, task_id=None, exchanges=())
    ledger.result_fetched(operation, result=result, ticket=ticket_of(operation), now=now)
    held = ledger.Facts.held_by(ledger.read([operation])[operation])
    ledger.accept_result(operation, facts=held, ticket=ticket_of(operation), now=now)
    return operation


def unknown(operation=None, *, event=Event.BUDGET_ENDED, reason=Reason.BUDGET_ENDED, now=None):
    """Hand an operation, or a fresh one with a task, to a person; return its id."""
    operation, now = operation or working(), now or timezone.now()
    ledger.hand_to_person(
        operation, event=event, reason=reason, ticket=ticket_of(operation), next_at=now + dt.timedelta(days=1), now=now
    )
    return operation


def lost(**call):
    """Submit a call whose answer is lost, at a server that cannot be asked by key; return its id."""
    operation, now, permit = submitted(**call), timezone.now(), uuid.uuid4()
    ledger.permit_submit(operation, permit=permit, as_task=True, ticket=ticket_of(operation), now=now)
    ledger.submit_lost(operation, why="time-out", ticket=ticket_of(operation), now=now)
    return unknown(operation, event=Event.NO_LOOKUP, reason=Reason.SUBMIT_LOST, now=now)


def unanswered(operation, *, why="nobody answered within 10 s", since=None, misses=4):
    """Let the server stay silent at the last try, as the driver does."""
    now = timezone.now()
    ledger.claim(limit=1000, now=now)
    silent = ledger.Unchanged(
        operation=operation,
        look=ticket_of(operation).look,
        next_at=now + dt.timedelta(seconds=40),
        misses=misses,
        trouble=why,
        at=since or now,
    )
    ledger.unchanged([silent])


def cancel(operation):
    """Ask for a cancel, and let the server take it: the operation is over."""
    now, permit = timezone.now(), uuid.uuid4()
    ledger.request_cancel(operation, seen_generation=None, by="person:olga", reason="not needed", now=now)
    ledger.permit_cancel(operation, permit=permit, ticket=ticket_of(operation), now=now)
    ledger.cancel_won(operation, permit=permit, ticket=ticket_of(operation), exchanges=(), now=now)


def expire(operation):
    """Let the newest round's deadline pass, as the driver does."""
    now = timezone.now()
    ledger.expire_round(operation, ticket=ticket_of(operation), next_at=now, now=now)


def answer(operation, *, by="person:ada", action="accept", content='{"ok": true}'):
    """Answer the newest round with the same reply to each of its questions."""
    number = ledger.read([operation])[operation].round
    page = rounds.round_page(operation, number=number)
    replies = [
        ledger.GivenReply(key=question.key, action=action, content=content if action == "accept" else None)
        for question in page.card.questions
    ]
    ledger.answer_round(
        operation,
        round=number,
        request_digest=page.request_digest,
        as_shown_digest="shown",
        form_id=uuid.uuid4(),
        replies=replies,
        people=everybody,
        by=by,
        now=timezone.now(),
    )


def deliver(operation):
    """Send the stored answer, as the driver does."""
    now, permit = timezone.now(), uuid.uuid4()
    ledger.permit_answer(operation, permit=permit, ticket=ticket_of(operation), now=now)
    ledger.answer_settled(
        operation, permit=permit, delivery=Delivery.SENT, why="", ticket=ticket_of(operation), next_at=now, now=now
    )


def ticket_of(operation):
    """The ticket of whoever sets out now."""
    return ledger.ticket_of(ledger.read([operation])[operation])


def task(task_id, status):
    """A task as its server shows it."""
    return TaskFacts(task_id=task_id, status=status, poll_ms=1000)


def task_now(operation, status):
    """The operation's own task in another status."""
    return task(ledger.read([operation])[operation].task_id, status)


def _saw(operation, seen, now=None):
    now = now or timezone.now()
    ledger.claim(limit=1000, now=timezone.now())
    ledger.saw(operation, ticket=ticket_of(operation), seen=seen, next_at=now + dt.timedelta(seconds=5), now=now)


def _described(name):
    schema = {"type": "object"}
    return ToolDescriptor(
        name=name,
        title=name.replace("_", " ").capitalize(),
        description="",
        task_support=TaskSupport.REQUIRED,
        input_schema=schema,
        output_schema=None,
        raw=b"{}",
        digest=digest_of([name, schema]),
    )
