import pytest

from tests.console.api import world


@pytest.fixture
def node(db):
    """The call nodes of the client `billing`, on a server with two tools."""
    world.register_server()
    return world.Node()


@pytest.fixture
def stranger(node):
    """Another client, with a token that allows everything."""
    return world.Node(client="stranger")
