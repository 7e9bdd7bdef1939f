"""Tests against third-party servers: the servers themselves are in `tests/plugins/peers.py`."""

import pytest


def pytest_collection_modifyitems(items):
    """Keep the tests of one peer in one process: each worker would start its own."""
    for item in items:
        if item.get_closest_marker("verified") and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group("verified"))
