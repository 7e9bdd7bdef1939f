"""The whole product on one machine: servers, processes, and their end.

Order: lock, PostgreSQL, broker, `prepare` (migrations, files, demo data), our processes, the first page. A database
or broker named in the environment is used instead of an embedded one.
"""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import FrameType

from console.ground import environment, place, processes, readiness
from console.ground.home import PROJECT, Home, write_private
from console.ground.place import Place
from console.ground.postgres import Cluster
from console.ground.supervisor import Supervisor
from console.ground.valkey import Broker

SERVICES = ("DATABASE_URL", "CELERY_BROKER_URL")
FIRST_PAGE_PATIENCE = 60.0  # seconds
DEATHS_BEFORE_THE_FIRST_PAGE = 3
LOOK_AGAIN = 0.3


class CannotStartError(Exception):
    """The product cannot start; the text says why and what to do."""


@dataclass(slots=True)
class Product:
    """One running installation. `tell` takes lines for the person at the shell; no `demo_port` means no demo."""

    home: Home
    port: int
    demo_port: int | None
    tell: Callable[[str], None]
    _stopping: bool = False
    _servers: list[Cluster | Broker] = field(default_factory=list)

    @property
    def is_stopping(self) -> bool:
        """Whether somebody has asked it to stop."""
        return self._stopping

    @property
    def address(self) -> str:
        """Where people find the first page."""
        return f"http://127.0.0.1:{self.port}"

    def run(self, greet: Callable[[], None]) -> None:
        """Start everything, call `greet` when the first page answers, keep it running until a signal, stop everything.

        Raises: CannotStartError, and the errors of `place`, `postgres`, `valkey`, `readiness`.
        """
        self.home.create()
        with ExitStack() as stack:
            stack.enter_context(_only_one(self.home))
            _require_free(self.port, "--port")
            if self.demo_port:
                _require_free(self.demo_port, "--demo-port")
            stack.enter_context(self._stop_on_signals())
            stack.callback(self._stop_servers)
            self.tell(
                "longcall: starting the database, the broker, the site" + (" and the demo" * bool(self.demo_port))
            )
            surroundings = self._start_servers()
            stack.callback(self.home.services.unlink, missing_ok=True)
            self._prepare(surroundings)
            supervisor = Supervisor(environment=surroundings, logs=self.home.logs, tell=self.tell)
            stack.callback(supervisor.stop)
            stack.callback(self.tell, "stopping ...")
            web, *others = processes.table(port=self.port, demo_port=self.demo_port)
            # The page first: all at once they would take the processor from each other, and the page is waited for.
            supervisor.start(web)
            if self._wait_for_first_page(supervisor):
                for process in others:
                    supervisor.start(process)
                greet()
            while not self._stopping:
                time.sleep(LOOK_AGAIN)
                supervisor.watch()
                self._watch_servers()

    def _start_servers(self) -> dict[str, str]:
        """Start what the environment does not name; return the environment of our processes."""
        services = {name: os.environ[name] for name in SERVICES if os.environ.get(name)}
        # With both given no place is needed, nor an account for servers: a container may run as a user without a name.
        where = place.prepare(self.home.root) if len(services) < len(SERVICES) else None
        if where and "DATABASE_URL" not in services:
            services["DATABASE_URL"] = self._start_cluster(where)
        if where and "CELERY_BROKER_URL" not in services:
            broker = Broker(where)
            self._servers.append(broker)
            broker.start()
            services["CELERY_BROKER_URL"] = broker.url
        # For commands in another shell (`manage.py submit`): they read it in the settings.
        write_private(self.home.services, json.dumps(services | {"ADDRESS": self.address}))
        return dict(os.environ) | services | _for_children(self.home, self.demo_port)

    def _start_cluster(self, where: Place) -> str:
        if not where.files.is_relative_to(self.home.root):
            self.tell(f"PostgreSQL refuses root, and its user cannot enter {self.home.root}.")
            self.tell(f"Its data are in {where.files}")
        cluster = Cluster(where)
        self._servers.append(cluster)
        cluster.start()
        return cluster.conninfo

    def _prepare(self, surroundings: dict[str, str]) -> None:
        command = [sys.executable, "-m", "django", "prepare", *(["--demo"] if self.demo_port else [])]
        if subprocess.run(command, cwd=PROJECT, env=surroundings, stdin=subprocess.DEVNULL, check=False).returncode:
            raise CannotStartError("Preparing the database or the files failed, see above.")

    def _wait_for_first_page(self, supervisor: Supervisor) -> bool:
        web = supervisor.children[0]

        def go_on() -> bool:
            supervisor.watch()
            return not self._stopping and web.deaths < DEATHS_BEFORE_THE_FIRST_PAGE

        try:
            if readiness.wait(f"{self.address}/login/", patience=FIRST_PAGE_PATIENCE, go_on=go_on):
                return True
        except readiness.BrokenSiteError as error:
            raise CannotStartError(f"{error}\n{web.said()}") from error
        if self._stopping:
            return False
        raise CannotStartError(f"The site does not answer.\n{web.said()}")

    def _watch_servers(self) -> None:
        for server in self._servers:
            if not server.is_running():
                self.tell(f"{type(server).__name__} ended; starting it again")
                server.stop()
                server.start()

    def _stop_servers(self) -> None:
        for server in reversed(self._servers):
            server.stop()

    @contextmanager
    def _stop_on_signals(self) -> Iterator[None]:
        def note(_number: int, _frame: FrameType | None) -> None:
            self._stopping = True

        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.signal(number, note) for number in numbers}
        yield
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _only_one(home: Home) -> Iterator[None]:
    with home.lock.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotStartError(f"Longcall is already running in {home.root}. Stop it, or use --home.") from None
        yield


def _require_free(port: int, flag: str) -> None:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        raise CannotStartError(f"Port {port} cannot be used ({os.strerror(error.errno or 0)}). Use {flag}.") from None


def _for_children(home: Home, demo_port: int | None) -> dict[str, str]:
    return {
        "LONGCALL_HOME": str(home.root),
        "LONGCALL_DEMO_PORT": str(demo_port or ""),
        "DJANGO_SETTINGS_MODULE": "console.settings",
        environment.SKIP: "0",
        # Celery warns of root because of pickle; only JSON is accepted (settings).
        "PYTHONWARNINGS": "ignore:::celery.platforms",
        # glibc keeps a heap for every thread otherwise; the worker and the web process have many.
        "MALLOC_ARENA_MAX": "2",
    }
