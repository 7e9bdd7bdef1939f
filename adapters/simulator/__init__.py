"""Scripted tool servers that speak MCP 2025-11-25, with every fault on a knob.

For demos, drills and tests: nothing in the product imports this package to reach a real server.

* `scripts` has the words a tool is written in: `Work`, `Ask`, `Effect`, `Finish`.
* `scenario` says what one server is like: its tools, its character, its faults.
* `core.ToolServer` is the server itself: messages in, answers out. It owns no clock, no chance and
  no socket, and keeps its own *truth*, which nothing on the wire can bend.
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
