"""People and call nodes at the door: pages, API, sockets, commands, settings."""
