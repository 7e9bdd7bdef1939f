"""A database with real commits that is emptied once a module: emptying it costs more than most tests."""

import pytest
from django.db import connection
from django.test.utils import setup_databases, teardown_databases

from tests.operations.room import Room
from tests.operations.world import VirtualLoop, World
from tests.plugins.quick_flush import empty


@pytest.hookimpl
def pytest_asyncio_loop_factories(config, item):
    """Run coroutines in virtual time: a pause ends only when nobody has anything left to do."""
    return {"virtual": VirtualLoop}


@pytest.fixture(scope="session")
def database(django_db_setup, django_db_blocker):
    """Make the test database where no test of this run carries the mark that makes pytest-django make it."""
    with django_db_blocker.unblock():
        if connection.settings_dict["NAME"].startswith("test_"):
            yield
            return
        made = setup_databases(verbosity=0, interactive=False, aliases={"default"})
        yield
        teardown_databases(made, verbosity=0)


@pytest.fixture(scope="module")
def committed(database, django_db_blocker):
    """Real commits for every test of the module. Assert by operation, never by counting a table."""
    with django_db_blocker.unblock():
        yield
        empty()


@pytest.fixture
def room(committed):
    """A ledger with one server and one tool of its own."""
    with Room() as made:
        yield made


@pytest.fixture
def rooms(committed):
    """Make rooms with other profiles: `rooms(lookup="session_list")`."""
    made = []

    def make(**profile):
        made.append(Room(**profile))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def worlds(monkeypatch):
    """Make worlds, as `World` does; each is ended after the test. Ledger steps run inline in its loop."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
    made = []

    def make(*scenario, **profile):
        made.append(World(*scenario, **profile))
        return made[-1]

    yield make
    for one in made:
        one.close()
