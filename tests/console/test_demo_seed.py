"""The demo's seed: harmless to repeat, and nobody's password is in the code."""

import json
import stat

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.utils import timezone

from console import demo, tokens
from console.ground.home import Home
from operations.queries import servers

pytestmark = pytest.mark.django_db


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


def test_servers_that_stay_silent_are_named(home):
    with pytest.raises(CommandError, match=r"no answer from: reports, pricing, analysis, exports"):
        call_command("demo_seed", negotiate=0.0)
