import time

import pytest

from console import live
from console.api import waiting
from tests.console.api import world

PATIENCE = 60.0  # seconds


@pytest.fixture
def node(db):
    """The call nodes of the client `billing`, on a server with two tools."""
    world.register_server()
    return world.Node()


@pytest.fixture
def stranger(node):
    """Another client, with a token that allows everything."""
    return world.Node(client="stranger")


@pytest.fixture
def only_told(monkeypatch):
    """Nobody who waits looks by himself: he is told, or his time is up. Give a function that waits for the callers.

    `only_told(operation, callers=1)` returns when so many wait for the operation's move (None: for any).
    """
    for name in ("_HEARD_S", "_UNHEARD_S"):
        monkeypatch.setattr(waiting, name, 2 * PATIENCE)

    def waited_for(operation, *, callers=1):
        deadline = time.monotonic() + PATIENCE
        while sum(len(one._waiting.get(operation, ())) for one in list(live._listeners.values())) < callers:
            assert time.monotonic() < deadline
            time.sleep(0.02)

    return waited_for
