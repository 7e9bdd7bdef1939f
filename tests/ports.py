"""Ports of this machine for the programs that tests start."""

import random
import socket

BELOW_THE_KERNELS_OWN = range(20_000, 32_000)
"""From 32768 on the kernel gives ports to whoever asks for any: a port from there may be gone before it is used."""

_reserved: list[socket.socket] = []


def free_port():
    """Give a TCP port of 127.0.0.1 that nobody has and that no other process of these tests is given.

    A UDP socket of the same number, held until this process ends, is the reservation: it is in nobody's way.
    """
    for port in random.sample(BELOW_THE_KERNELS_OWN, len(BELOW_THE_KERNELS_OWN)):
        held = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            held.bind(("127.0.0.1", port))
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            held.close()
            continue
        _reserved.append(held)
        return port
    raise AssertionError("no port is free")
