"""Scripted tool servers that speak MCP, either version, or AIP-151, with every fault on a knob.

For demos, drills and tests: nothing in the product imports this package to reach a real server.

* `scripts` has the words a tool is written in: `Work`, `Ask`, `Effect`, `Finish`.
* `scenario` says what one server is like: its tools, its character, its faults.
* `core.ToolServer` (2025-11-25) and `modern.ModernToolServer` (2026-07-28) are the servers: messages
  in, answers out. They own no clock, no chance and no socket, and keep their own *truth*, which
  nothing on the wire can bend. What they have in common is in `engine`.
* `aip151_scenario`, `aip151.OperationsServer` and `aip151_face` are the same for AIP-151, over the
  same scripts and the same truth.
* `face` puts servers behind HTTP as one ASGI application, and `inprocess` calls that application
  from httpx without a socket.
* `demo` holds the servers that `manage.py demo_servers` starts.

A server in a test::

    server = core.ToolServer(scenario.Scenario(tools=(demo.QUARTERLY_REPORT,)), clock=clock)
    app = face.ToolServersApp({"/mcp": server})
    client = httpx.AsyncClient(transport=inprocess.InProcessTransport(app))
    ...
    assert len(server.truth.created) == 1
"""
