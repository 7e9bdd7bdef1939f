"""A third-party server while the tests need it: it ends with us, however we end."""

import contextlib
import os
import signal
import socket
import time

from console.ground.account import Account
from console.ground.foreign import Foreign
from tests.ports import free_port
from tests.verified.peers.installation import PEERS

__all__ = ["free_port", "running"]

PATIENCE = 60.0  # seconds until the server listens: fastmcp imports for ten on a busy machine


@contextlib.contextmanager
def running(name, command, *, port):
    """Start the command, yield the address of its MCP endpoint, stop it."""
    log = PEERS / f"{name}-{os.getpid()}.log"
    ourselves = Account(uid=os.getuid(), gid=os.getgid(), switches=False)
    server = Foreign.start(command, account=ourselves, log=log, stop_signal=signal.SIGTERM)
    try:
        _wait_until_it_listens(server, port)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.stop()
        log.unlink(missing_ok=True)


def _wait_until_it_listens(server, port):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        assert server.is_running(), server.said()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise AssertionError(f"the server does not listen: {server.said()}")
