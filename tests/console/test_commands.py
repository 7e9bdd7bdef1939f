"""The commands for a shell: issue_token, make_admin, register_server, submit."""

import re
import stat
import threading
import time
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from adapters.contract import Capabilities, Negotiation
from console import people, tokens
from console.access import Role
from console.models import ApiToken, Scope
from operations import ledger, registration
from operations.queries import api as calls
from operations.queries.servers import servers
from tests.console import factories
from tests.console.api import world

pytestmark = pytest.mark.django_db


def said(*command, **options):
    out = StringIO()
    call_command(*command, stdout=out, stderr=out, **options)
    return out.getvalue()


class TestIssueToken:
    def test_it_shows_a_token_that_works(self):
        secret = said("issue_token", "billing", "--scopes", "read", "submit").strip()

        caller = tokens.recognise(secret, now=timezone.now())

        assert (caller.client, caller.scopes) == ("billing", frozenset({Scope.READ, Scope.SUBMIT}))

    def test_a_token_in_a_file_is_readable_by_its_owner_only_and_is_not_shown(self, tmp_path):
        path = tmp_path / "token"

        out = said("issue_token", "billing", "--to", str(path))

        secret = path.read_text()
        assert tokens.recognise(secret, now=timezone.now()).client == "billing"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert secret not in out

    def test_a_token_that_works_is_kept_when_asked(self, tmp_path):
        path = tmp_path / "token"
        said("issue_token", "billing", "--to", str(path))
        before = path.read_text()

        said("issue_token", "billing", "--to", str(path), "--keep")

        assert path.read_text() == before
        assert ApiToken.objects.count() == 1

    def test_a_token_that_works_no_more_is_replaced(self, tmp_path):
        path = tmp_path / "token"
        said("issue_token", "billing", "--to", str(path))
        tokens.revoke_token(path.read_text()[:11], by="person:adam", now=timezone.now())

        said("issue_token", "billing", "--to", str(path), "--keep")

        assert tokens.recognise(path.read_text(), now=timezone.now()).client == "billing"

    def test_a_token_for_too_long_is_refused(self):
        with pytest.raises(CommandError, match="90 days"):
            said("issue_token", "billing", "--days", "91")


class TestRegisterServer:
    def test_it_says_of_each_tool_what_will_happen(self, monkeypatch):
        asked = Negotiation(capabilities=_CAPABILITIES, tools=(world._tool("report", {"type": "object"}),))
        monkeypatch.setattr(registration, "_asked", lambda *args, **kwargs: asked)

        out = said("register_server", "books", "http://127.0.0.1:9/mcp", "--allow-private", "--max-qps", "2")

        assert "2025-11-25 (EXPERIMENTAL)" in out
        assert "report (task optional): runs as a task" in out
        [server] = servers()
        assert (server.max_qps, [tool.name for tool in server.tools]) == (2.0, ["report"])

    def test_a_server_that_does_not_answer_is_registered_without_tools(self):
        """Nothing listens on port 9: the wire is the real one."""
        with pytest.raises(CommandError, match="could not be asked what it offers: the server cannot be reached"):
            said("register_server", "books", "http://127.0.0.1:9/mcp", "--allow-private")

        assert servers()[0].tools == ()

    def test_a_server_that_cannot_be_asked_has_its_tools_from_a_file(self, tmp_path):
        """Nothing listens on port 9, and nobody is asked."""
        path = tmp_path / "tools.json"
        path.write_text('{"name": "books", "cancel": true, "tools": [{"name": "years:archive"}]}')

        out = said("register_server", "books", "http://127.0.0.1:9/v1", "--protocol", "aip-151", "--tools", str(path))

        assert "years:archive (task required): runs as a task" in out
        assert [tool.name for tool in servers()[0].tools] == ["years:archive"]

    @pytest.mark.parametrize(
        "protocol, text, words",
        [
            ("aip-151", '{"tools": [{"name": "../x"}]}', "tool 1: its name is no path of a method"),
            ("2025-11-25", '{"tools": []}', "describe their tools themselves"),
            ("aip-151", None, "cannot be read: No such file or directory"),
        ],
    )
    def test_with_a_file_that_cannot_be_used_nothing_is_stored(self, tmp_path, protocol, text, words):
        path = tmp_path / "tools.json"
        if text is not None:
            path.write_text(text)

        with pytest.raises(CommandError, match=words) as caught:
            said("register_server", "books", "http://127.0.0.1:9/v1", "--protocol", protocol, "--tools", str(path))

        assert str(caught.value).startswith("Nothing was stored")
        assert servers() == ()

    def test_a_url_that_cannot_work_is_not_stored(self):
        with pytest.raises(CommandError, match="Nothing was stored"):
            said("register_server", "books", "file:///etc/passwd")

        assert servers() == ()


_CAPABILITIES = Capabilities(
    server_name="books", server_version="1", creates_tasks=True, cancels_tasks=True, lists_tasks=False
)


class TestSubmit:
    @pytest.fixture(autouse=True)
    def _server(self):
        world.register_server()

    def submitted(self, *more):
        return said("submit", "reports", "report", '{"quarter": "Q3"}', *more)

    def test_it_prints_the_operation_and_its_page(self):
        out = self.submitted("--principal", "ann")

        operation = out.splitlines()[0]
        assert out.splitlines()[1].endswith(f"/operations/{operation}/")
        call = calls.call_of("shell", operation)
        assert (call.server, call.tool, call.principal) == ("reports", "report", "ann")

    def test_the_same_key_is_the_same_operation(self):
        first = self.submitted("--key", "k1").split()[0]

        again = self.submitted("--key", "k1")

        assert again.split()[0] == first
        assert "stood there before" in again

    def test_two_calls_without_a_key_are_two_operations(self):
        assert self.submitted().split()[0] != self.submitted().split()[0]

    @pytest.mark.parametrize("arguments", ["", "[]", "{", '{"quarter": 3}', '{"quarter": "Q3"} x'])
    def test_arguments_that_cannot_be_sent_are_refused(self, arguments):
        with pytest.raises(CommandError, match="Nothing was stored"):
            said("submit", "reports", "report", arguments)

    def test_closed_submits_are_told(self):
        ledger.set_submits("server", "reports", is_open=False, reason="audit")

        with pytest.raises(CommandError, match="audit"):
            self.submitted()


class TestMakeAdmin:
    def test_the_first_admin_signs_in_with_what_was_shown_and_makes_the_next_person(self):
        password = said("make_admin", "root").splitlines()[-1]
        browser = Client()

        assert browser.login(username="root", password=password)
        made = browser.post(
            reverse("person_new"), {"username": "ann", "roles": ["viewer"], "reason": "the first of us"}
        )

        assert made["Location"] == reverse("person", args=["ann"])

    def test_whoever_exists_keeps_their_roles_and_comes_in_again(self):
        """Also somebody who was shut out: it is the way back in when no admin is left."""
        user = factories.person("ann", Role.OPERATOR)
        User.objects.filter(pk=user.pk).update(is_active=False)

        password = said("make_admin", "ann", "--reason", "nobody else could come in").splitlines()[-1]

        assert Client().login(username="ann", password=password)
        assert people.read("ann").roles == (Role.OPERATOR, Role.ADMIN)

    @pytest.mark.parametrize("name", ["ANN", "two words"])
    def test_a_name_that_nobody_may_have_is_refused(self, name):
        factories.person("ann", Role.VIEWER)

        with pytest.raises(CommandError):
            said("make_admin", name)

        assert [one.username for one in people.find()] == ["ann"]


def test_safe_mode_says_what_it_shut_and_what_it_doubts():
    """O6: what has no answer yet may have been sent after the backup."""
    factories.server()
    factories.submitted()

    told = said("safe_mode", "--reason", "backup of Sunday")

    assert "submits are shut and the epoch is raised: " in told
    assert "1 calls count as perhaps sent; 0 others are looked at first" in told
    with pytest.raises(ledger.SubmitsClosed, match="backup of Sunday"):
        factories.submitted()


@pytest.mark.django_db(transaction=True)
def test_submit_follows_a_call_until_its_receipt():
    world.register_server()
    out = StringIO()
    command = ("submit", "reports", "report", '{"quarter": "Q3"}', "--wait", "--key", "k1")
    following = threading.Thread(target=_called, args=command, kwargs={"stdout": out})
    following.start()
    call = _soon(lambda: calls.call_by("shell", submission_key="k1"))

    world.working(call.id)
    _soon(lambda: "WORKING" in out.getvalue())
    world.finished(call.id)

    following.join(60)
    assert "WORKING (the server says working)" in out.getvalue()
    assert re.search(r"^SUCCESS, receipt [0-9a-f-]{36}$", out.getvalue(), re.MULTILINE)
    assert out.getvalue().rstrip().endswith(world.RESULT.decode())


def _soon(holds):
    deadline = time.monotonic() + 60
    while not (found := holds()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def _called(*command, **options):
    from django.db import connection

    try:
        call_command(*command, **options)
    finally:
        connection.close()
