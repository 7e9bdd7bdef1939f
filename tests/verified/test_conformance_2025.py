"""The official conformance tool, npm `@modelcontextprotocol/conformance`, judges our client of MCP 2025-11-25.

It has no scenario for the tasks of this version; those are in `test_mcp_130` and its neighbours.
"""

import sys

import pytest

from tests.verified.test_conformance import judge

pytestmark = [pytest.mark.verified, pytest.mark.long, pytest.mark.asyncio]

CLIENT = f"{sys.executable} -m tests.verified.peers.conformance_client_2025"


@pytest.mark.parametrize("scenario", ["initialize", "tools_call", "sse-retry", "elicitation-sep1034-client-defaults"])
async def test_our_adapter_is_a_conforming_client(conformance, scenario):
    """B112, L4: in `sse-retry` the answer comes on a resumed stream, after the time the server wants us away."""
    chosen = ["--scenario", scenario, "--spec-version", "2025-11-25"]
    code, said = await judge(conformance, "client", "--command", CLIENT, *chosen)

    assert code == 0, said
    assert ", 0 failed" in said
