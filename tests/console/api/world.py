"""A small world for the API: one server with three tools, and calls brought as far as a test needs them.

The ledger is the real one; only the remote server is played, by handing the ledger what an adapter would have seen.
"""

import json
import uuid

from django.test import Client
from django.utils import timezone

from adapters.contract import (
    Capabilities,
    Ended,
    Exchange,
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
from adapters.strictjson import digest_of, parse
from console import tokens
from console.models import Scope
from operations import ledger

PROTOCOL = "2025-11-25"
REPORT_SCHEMA = {"type": "object", "properties": {"quarter": {"type": "string"}}, "required": ["quarter"]}
RESULT = b'{"content": [{"type": "text", "text": "12.50 \\u20ac"}], "structuredContent": {"sum": 12.50}}'


def register_server(*, slug="reports", cancels=True):
    """Register a server with a tool `report` and a tool `note`."""
    ledger.register_protocol(PROTOCOL, release="r1")
    ledger.register_server(
        ledger.NewServer(slug=slug, title=slug, url="http://127.0.0.1:9/mcp", protocol=PROTOCOL, max_qps=1000)
    )
    capabilities = Capabilities(
        server_name="played", server_version="1", creates_tasks=True, cancels_tasks=cancels, lists_tasks=True
    )
    tools = (_tool("report", REPORT_SCHEMA), _tool("note", {"type": "object"}))
    ledger.save_negotiation(slug, Negotiation(capabilities=capabilities, tools=tools), now=timezone.now())
    return capabilities


EXISTING = {"call_node": "invoice-8/report", "server": "reports", "tool": "report", "task_id": "t-8"}
"""A call that the existing path of a call node has made."""


def put_on_trial(*, effect="NONE"):
    """Put a release on trial, and say of the tool `report` what it may do outside."""
    note = ledger.Note(by="person:adam", reason="a try", now=timezone.now())
    ledger.set_policy("reports", "report", ledger.ToolPolicy(effect=effect))
    ledger.put_on_trial(PROTOCOL, "r2", note=note)


def end_trial():
    """Take the release off its trial again."""
    note = ledger.Note(by="person:adam", reason="enough", now=timezone.now())
    ledger.set_share(PROTOCOL, "r2", share=0, note=note)


def _tool(name, schema):
    described = {"name": name, "inputSchema": schema}
    return ToolDescriptor(
        name=name,
        title=name.title(),
        description="",
        task_support=TaskSupport.OPTIONAL,
        input_schema=schema,
        output_schema=None,
        raw=json.dumps(described).encode(),
        digest=digest_of(described),
    )


class Node:
    """A call node's program: an API client with a token of all scopes, unless told otherwise."""

    def __init__(self, client="billing", scopes=tuple(Scope)):
        self.client = client
        self.token = tokens.issue_token(client, scopes=scopes, by="test", now=timezone.now()).secret
        self._http = Client(headers={"Authorization": f"Bearer {self.token}"})

    def call(self, **changes):
        return {
            "call_node": "invoice-7/report",
            "submission_key": "key-1",
            "server": "reports",
            "tool": "report",
            "arguments": {"quarter": "Q3"},
            "principal": "ann@example.org",
        } | changes

    def submit(self, **changes):
        return self.post("operations", self.call(**changes))

    def submitted(self, **changes):
        """Submit and return the operation's id."""
        answer = self.submit(**changes)
        assert answer.status_code == 201, answer.content
        return answer.json()["id"]

    def get(self, path, **headers):
        return self._http.get(f"/api/v1/{path}", headers=headers)

    def post(self, path, body):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._http.post(f"/api/v1/{path}", raw, content_type="application/json")


def working(operation, *, task="t-1"):
    """Let the server name a task for the operation."""
    ticket = _claimed(operation)
    now = timezone.now()
    ledger.session_opened(operation, ticket=ticket, opened=Opened(session="s", capabilities=_CAPABILITIES), now=now)
    permit = uuid.uuid4()
    ledger.permit_submit(operation, permit=permit, as_task=True, ticket=ticket, now=now)
    seen = Working(task=TaskFacts(task_id=task, status=ProtocolStatus.WORKING, message="halfway"), exchanges=_SEEN)
    ledger.submit_answered(operation, permit=permit, seen=seen, ticket=ticket, next_at=now, now=now)


def asking(operation, *, task="t-1"):
    """Let the server ask a question."""
    question = Question(
        key="0", mode=Mode.FORM, message="Go on?", schema={"type": "object"}, raw=b"{}", digest=digest_of("Go on?")
    )
    facts = TaskFacts(task_id=task, status=ProtocolStatus.INPUT_REQUIRED)
    _saw(operation, NeedsInput(task=facts, questions=(question,), exchanges=_SEEN))


def completed(operation, *, task="t-1", status=ProtocolStatus.COMPLETED):
    """Let the server say that the task is over."""
    _saw(operation, Ended(status=status, task=TaskFacts(task_id=task, status=status), exchanges=_SEEN))


def finished(operation, *, task="t-1", raw=RESULT, is_error=False):
    """Bring a working operation to its receipt."""
    completed(operation, task=task, status=ProtocolStatus.FAILED if is_error else ProtocolStatus.COMPLETED)
    ticket, now = _claimed(operation), timezone.now()
    ledger.fetch_started(operation, ticket=ticket, now=now)
    result = ToolResult(raw=raw, value=parse(raw), is_error=is_error, task_id=task)
    ledger.result_fetched(operation, ticket=ticket, result=result, now=now)
    facts = ledger.Facts.held_by(ledger.read([operation])[operation])
    ledger.accept_result(operation, ticket=ticket, facts=facts, now=now)


def accepted(node, *, number=1, raw=RESULT, is_error=False):
    """Submit a call and bring it to its receipt; return the operation's id."""
    operation = node.submitted(call_node=f"node-{number}", submission_key=f"key-{number}")
    working(operation, task=f"t-{number}")
    finished(operation, task=f"t-{number}", raw=raw, is_error=is_error)
    return operation


def _saw(operation, seen):
    now = timezone.now()
    ledger.saw(operation, ticket=_claimed(operation), seen=seen, next_at=now, now=now)


def _claimed(operation):
    now = timezone.now()
    ledger.look_now(operation, by="test", now=now)
    works = {work.row.id: work for work in ledger.claim(limit=50, now=now)}
    others = [work for work in works.values() if work.row.id != operation]
    ledger.unchanged([ledger.Unchanged(operation=one.row.id, look=one.ticket.look, next_at=now) for one in others])
    return works[operation].ticket


_CAPABILITIES = Capabilities(
    server_name="played", server_version="1", creates_tasks=True, cancels_tasks=True, lists_tasks=True
)
_SEEN = (Exchange(label="played", request=b"{}", http_status=200, body=b"{}"),)
