"""Two operators of one shop, for every test of a page that asks for them."""

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
