"""How to talk to a remote tool server: plain Python and httpx, no Django."""
