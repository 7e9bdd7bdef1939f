"""Make somebody an admin from a shell: the first one of an installation, or one while no other can come in."""

import os
from typing import Any

from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from console import people
from console.access import Role
from console.people import PersonView, Rights
from operations.ledger import Note


class Command(BaseCommand):
    help = (
        "Make an admin and show the password, once. Whoever exists gets the role, may sign in, and has a new password."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username", help="the name to sign in with; the ledger names the person by it for ever")
        parser.add_argument("--reason", default="made from a shell", help="why; it stands in the audit")

    def handle(self, *, username: str, reason: str, **options: Any) -> None:
        note = Note(by=f"person:{os.environ.get('USER', 'shell')}", reason=reason, now=timezone.now())
        found = people.read(username)
        password = _promoted(found, note) if found else _made(username, note)
        self.stdout.write(f"{username} is an admin; the password is shown now and never again:")
        self.stdout.write(password)


def _made(username: str, note: Note) -> str:
    rights = Rights(full_name="", email="", roles=frozenset({Role.ADMIN}), is_open=True)
    try:
        UnicodeUsernameValidator()(username)
        return people.make(username, rights, note=note)
    except ValidationError as error:
        raise CommandError(error.messages[0]) from error
    except people.NameTaken as error:
        raise CommandError(f"there is a person whose name differs from {username} only in capitals") from error


def _promoted(person: PersonView, note: Note) -> str:
    full_name = "" if person.title == person.username else person.title
    roles = frozenset({*person.roles, Role.ADMIN})
    people.change(
        person.username, Rights(full_name=full_name, email=person.email, roles=roles, is_open=True), note=note
    )
    password = people.new_password(person.username, note=note)
    assert password is not None, "the person was read a moment ago, and nobody is ever removed"  # noqa: S101
    return password
