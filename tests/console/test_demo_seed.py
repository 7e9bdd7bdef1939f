"""The demo's seed: harmless to repeat, and nobody's password is in the code."""

import json
import stat
from dataclasses import replace

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.utils import timezone

from adapters.contract import Negotiation, TaskSupport, ToolDescriptor
from console import demo, tokens
from console.ground.home import Home
from console.management.commands import demo_seed
from operations import ledger, registration
from operations.queries import servers
from tests.console import factories as make

pytestmark = pytest.mark.django_db


OFFERED = Negotiation(
    capabilities=make.CAPABILITIES,
    tools=(
        ToolDescriptor(
            name="quarterly_report",
            title="",
            description="",
            task_support=TaskSupport.OPTIONAL,
            input_schema={},
            output_schema=None,
            raw=b"{}",
            digest="0" * 64,
        ),
    ),
)


@pytest.fixture
def home(tmp_path, settings):
    """A run folder of its own, and no demo servers at the port."""
    settings.HOME = Home(tmp_path / "run")
    settings.DEMO_PORT = 9
    return settings.HOME


def people(home):
    return {person["username"]: person for person in json.loads(home.people.read_text())}


def test_each_person_can_sign_in_with_the_password_of_the_run_folder(home):
    call_command("demo_seed")

    for username, (_name, role) in demo.PEOPLE.items():
        user = authenticate(username=username, password=people(home)[username]["password"])
        assert user is not None
        assert [group.name for group in user.groups.all()] == [role]


def test_only_the_owner_can_read_passwords_and_token(home):
    call_command("demo_seed")

    for path in (home.people, home.root / "demo-token"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_repeating_changes_nothing(home):
    call_command("demo_seed")
    before = (home.people.read_text(), (home.root / "demo-token").read_text(), User.objects.count())

    call_command("demo_seed")

    assert (home.people.read_text(), (home.root / "demo-token").read_text(), User.objects.count()) == before


def test_a_lost_file_gives_new_passwords_instead_of_locking_everybody_out(home):
    call_command("demo_seed")
    home.people.unlink()

    call_command("demo_seed")

    assert authenticate(username="ada", password=people(home)["ada"]["password"]) is not None


def test_the_token_is_good_for_the_demo_client(home):
    call_command("demo_seed")

    caller = tokens.recognise((home.root / "demo-token").read_text(), now=timezone.now())

    assert caller.client == demo.CLIENT


def test_the_servers_are_registered_without_being_asked(home):
    call_command("demo_seed")

    assert {server.slug for server in servers.servers()} == {trial.server for trial in demo.TRIALS}


def test_all_three_contracts_are_seen(home):
    call_command("demo_seed")

    assert {server.protocol_version for server in servers.servers()} == {"2025-11-25", "2026-07-28", "aip-151"}


def test_what_an_admin_changed_stays_changed(home):
    """Profile, switches and the policy of a tool: the next start is no decision."""
    call_command("demo_seed")
    [reports] = [server for server in demo.servers(port=9) if server.slug == "reports"]
    registration.register(replace(reports, max_qps=1.5, title="Renamed", poll_floor_ms=4000))
    ledger.save_negotiation("reports", OFFERED, now=timezone.now())
    ledger.set_policy("reports", "quarterly_report", ledger.ToolPolicy(effect="NONE", budget_s=77))

    with pytest.raises(CommandError):
        call_command("demo_seed", negotiate=0.0)

    server = servers.server("reports")
    assert server is not None
    assert (server.max_qps, server.title, server.poll_floor_ms) == (1.5, "Renamed", 4000)
    assert [tool.budget_s for tool in server.tools] == [77]


def test_a_tool_that_is_new_gets_the_policy_of_the_demo(home, monkeypatch):
    def answers(slug):
        ledger.save_negotiation(slug, OFFERED, now=timezone.now())
        return True

    monkeypatch.setattr(demo_seed, "_asked", answers)

    call_command("demo_seed", negotiate=0.0)

    server = servers.server("reports")
    assert server is not None
    assert [tool.budget_s for tool in server.tools] == [900]


@pytest.mark.parametrize(
    "before, after",
    [
        ("http://127.0.0.1:8/reports/mcp", "http://127.0.0.1:9/reports/mcp"),
        ("https://reports.example.org/mcp", "https://reports.example.org/mcp"),
    ],
    ids=["only the port of the demo moved", "an admin pointed it elsewhere"],
)
def test_the_demos_own_port_may_move_and_nothing_else(home, before, after):
    [reports] = [server for server in demo.servers(port=9) if server.slug == "reports"]
    registration.register(replace(reports, url=before, max_qps=1.5))

    call_command("demo_seed")

    server = servers.server("reports")
    assert server is not None
    assert (server.url, server.max_qps) == (after, 1.5)


def test_servers_that_stay_silent_are_named(home):
    with pytest.raises(CommandError, match=r"no answer from: reports, pricing, analysis, exports, imports, archive"):
        call_command("demo_seed", negotiate=0.0)
