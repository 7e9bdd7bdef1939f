"""People of one shop, signed in, for every test of a page that asks for them."""

import pytest

from tests.console import factories as make


@pytest.fixture
def olga():
    """An operator, signed in."""
    make.server()
    return make.signed_in("olga", "operator")


@pytest.fixture
def otto(olga):
    """Another operator."""
    return make.signed_in("otto", "operator")


@pytest.fixture
def ada():
    """An approver, signed in."""
    make.server()
    return make.signed_in("ada", "approver")


@pytest.fixture
def bob(ada):
    """Another approver."""
    return make.signed_in("bob", "approver")


@pytest.fixture
def adam():
    """An admin, signed in, with one server."""
    make.server()
    return make.signed_in("adam", "admin")
