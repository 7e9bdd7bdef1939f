"""No test talks to another machine, not even by mistake."""

import ipaddress
import sys


def _refuse_foreign_addresses(event, args):
    if event == "socket.getaddrinfo":
        host = args[0]
    elif event == "socket.connect" and isinstance(args[1], tuple):  # anything else is a unix socket
        host = args[1][0]
    else:
        return
    if not _is_loopback(host.decode() if isinstance(host, bytes) else str(host or "")):
        raise OSError(f"a test tried to reach {host}")


def _is_loopback(host):
    if host in {"localhost", ""}:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


sys.addaudithook(_refuse_foreign_addresses)
