"""The guard that keeps tests on this machine."""

import socket

import pytest


@pytest.mark.parametrize("host", ["192.0.2.1", "example.org", "10.0.0.1"])
def test_a_connection_to_another_machine_is_refused(host):
    with pytest.raises(OSError, match="a test tried to reach"):
        socket.create_connection((host, 80), timeout=1)


def test_a_connection_to_this_machine_is_not():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        client.connect(server.getsockname())
