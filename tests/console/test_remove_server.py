"""What was registered by mistake can be taken back; what has a history stays (L7)."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from operations import ledger
from operations.queries import servers
from tests.operations.room import VERSION, Room

pytestmark = pytest.mark.django_db(transaction=True)


def remove(slug):
    said = StringIO()
    call_command("remove_server", slug, stdout=said)
    return said.getvalue()


def test_a_server_that_never_got_further_is_gone():
    ledger.register_protocol(VERSION, release="r1")
    ledger.register_server(ledger.NewServer(slug="typo", title="t", url="http://typo.test/mcp", protocol=VERSION))

    assert "removed" in remove("typo")

    assert servers.server("typo") is None


def test_one_with_operations_stays_with_all_it_has():
    with Room() as room:
        operation = room.submit()

        with pytest.raises(CommandError, match="has a history"):
            remove(room.server)

        assert servers.server(room.server).tools
        assert room.row(operation)


def test_one_that_has_described_tools_stays():
    with Room() as room, pytest.raises(CommandError, match="has a history"):
        remove(room.server)


def test_one_that_nobody_registered_is_named():
    with pytest.raises(CommandError, match="no server 'ghost'"):
        remove("ghost")
