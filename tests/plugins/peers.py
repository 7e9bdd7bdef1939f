"""Real third-party servers, each in an environment of its own, for the whole session.

- `mcp_130_server` - address of a server on PyPI `mcp` 1.30.0; its tools are in `tests/verified/peers/mcp_130.py`.
- `everything_server` - address of npm `@modelcontextprotocol/server-everything` 2026.8.31; its tool with tasks is
  `simulate-research-query` (arguments `topic`, and `ambiguous: true` for one question).

A server is one process for all tests of a worker, so a test takes its own session and never closes another's.
"""

import os

import pytest

from tests.verified.peers import installation
from tests.verified.peers.running import free_port, running


@pytest.fixture(scope="session")
def mcp_130_server():
    """Run the official Python SDK's server."""
    python = installation.python_peer("mcp-1.30.0", "mcp_130.txt")
    port = free_port()
    # No /mcp/: the mount of this peer redirects, and a redirect is an answer for an admin, not for us.
    with running("mcp-1.30.0", [str(python), installation.script("mcp_130.py"), str(port)], port=port) as url:
        yield url + "/"


@pytest.fixture(scope="session")
def everything_server():
    """Run the reference server on the official TypeScript SDK."""
    if not installation.has_npm():
        if os.environ.get("CI") == "true":
            pytest.fail("this run must be whole, and there is no npm")
        pytest.skip("no npm here: apt-get install npm")
    home = installation.node_peer("server-everything", "@modelcontextprotocol/server-everything@2026.8.31")
    program = home / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
    port = free_port()
    command = ["env", f"PORT={port}", "node", str(program), "streamableHttp"]
    with running("server-everything", command, port=port) as url:
        yield url
