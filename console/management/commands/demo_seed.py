"""Write what the demo needs: people, an API client, servers, and, once they answer, their tools."""

from __future__ import annotations

import json
import os
import secrets
import time
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from console import demo, tokens
from console.access import Role
from console.ground.home import Home, write_private
from console.models import Scope
from operations import ledger, registration
from operations.ledger import NewServer
from operations.queries import scope, servers

_WORDS = "amber basil cedar delta ember fjord grove hazel ivory jetty koala linen maple noble ocean pearl".split()  # noqa: SIM905


class Command(BaseCommand):
    help = "Write the demo's people, API client and servers. Repeating is harmless. --negotiate asks the servers."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--negotiate",
            type=float,
            metavar="SECONDS",
            help="ask the demo servers what they offer; try for this long while they start",
        )

    def handle(self, *, negotiate: float | None, **options: Any) -> None:
        home: Home = settings.HOME
        home.create()
        for role in Role:
            Group.objects.get_or_create(name=role.value)
        _write_people(home)
        _write_team()
        _write_token(home)
        for server in demo.servers(port=settings.DEMO_PORT):
            _register(server)
        if negotiate is not None and (silent := _negotiate(patience=negotiate)):
            raise CommandError(f"no answer from: {', '.join(silent)}")


def _register(server: NewServer) -> None:
    """Register a server that is missing. Of one that is there an admin decides; only our own port may move."""
    known = servers.server(server.slug)
    if known is None:
        registration.register(server)
    elif known.url != server.url and _is_ours(known.url, server.url):
        decided = set(NewServer.__dataclass_fields__) - {"slug", "url", "protocol"}
        held = {name: getattr(known, name) for name in decided}
        profile = NewServer(slug=server.slug, url=server.url, protocol=known.protocol_version, **held)
        registration.register(profile, moves=True)


def _is_ours(url: str, ours: str) -> bool:
    """Whether two addresses differ by nothing but their port."""
    one, two = urlsplit(url), urlsplit(ours)
    return (one.scheme, one.hostname, one.path) == (two.scheme, two.hostname, two.path)


def _write_people(home: Home) -> None:
    """Make the people that are missing; a password stays what it was once made."""
    known = {person["username"]: person for person in _read(home)}
    for username, (name, role) in demo.PEOPLE.items():
        password = known.get(username, {}).get("password") or _password()
        user, made = User.objects.get_or_create(username=username, defaults={"first_name": name})
        if made or username not in known:
            user.set_password(password)
            user.save()
        user.groups.add(Group.objects.get(name=role))
        known[username] = {"username": username, "password": password, "roles": [role]}
    write_private(home.people, json.dumps(list(known.values()), indent=2))


def _write_team() -> None:
    """Put the demo's people into a team that looks after every server: whoever is in no team sees none (W)."""
    note = ledger.Note(by="demo_seed", reason="the demo's people", now=timezone.now())
    if demo.TEAM not in {team.slug for team in scope.teams()}:
        ledger.save_team(demo.TEAM, title="Everybody", all_servers=True, note=note)
    for username in demo.PEOPLE:
        ledger.join_team(demo.TEAM, member=f"person:{username}", note=note)


def _read(home: Home) -> list[dict[str, Any]]:
    try:
        people: list[dict[str, Any]] = json.loads(home.people.read_text())
    except (FileNotFoundError, ValueError):
        return []
    return people


def _password() -> str:
    """Make a password that can be typed from a shell: three words and four digits, about 25 bits."""
    return "-".join(secrets.choice(_WORDS) for _ in range(3)) + f"-{secrets.randbelow(10_000):04}"


def _write_token(home: Home) -> None:
    """Give the demo's client a token, once; it is kept in the run folder for the reference workflow."""
    path = home.root / "demo-token"
    if path.exists():
        try:
            tokens.recognise(path.read_text().strip(), now=timezone.now())
        except tokens.BadToken:
            pass
        else:
            return
    issued = tokens.issue_token(demo.CLIENT, scopes=set(Scope), by="demo_seed", now=timezone.now(), note="demo")
    write_private(path, issued.secret)


def _negotiate(*, patience: float) -> list[str]:
    """Ask each server what it offers, and set our policy for tools that are new; return the ones that stayed silent."""
    until = time.monotonic() + patience
    left = [server.slug for server in demo.servers(port=settings.DEMO_PORT)]
    known = {(slug, tool.name) for slug in left for tool in servers.tools_of(slug)}
    while True:
        left = [slug for slug in left if not _asked(slug)]
        if not left or time.monotonic() >= until:
            break
        time.sleep(0.5)
    for trial in demo.TRIALS:
        if (trial.server, trial.tool) not in known:
            ledger.set_policy(trial.server, trial.tool, trial.policy)
    return left


def _asked(slug: str) -> bool:
    try:
        registration.negotiate(slug, clock=timezone.now, environ=os.environ)
    except registration.CannotNegotiate:
        return False
    return True
