"""What every line stands on: a PostgreSQL of its own, tool servers in processes of their own, both gone afterwards.

The database keeps what a real one keeps (fsync and all): what is measured is what people get.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from console.ground import place as places
from console.ground.home import PROJECT
from console.ground.postgres import Cluster

TUNED = {"max_connections": "150", "shared_buffers": "512MB", "max_wal_size": "4GB", "checkpoint_timeout": "15min"}
PATIENCE = 600  # seconds for one child that says nothing else


@dataclass
class Ground:
    """The throw-away installation."""

    cluster: Cluster
    home: Path
    tell: object
    _made: int = 0
    _running: list = field(default_factory=list)

    def database(self):
        """Make a migrated database; give its connection string."""
        self._made += 1
        name = f"bench_{self._made}"
        self.sql("postgres", f"CREATE DATABASE {name} TEMPLATE longcall")
        return self.cluster.conninfo.replace("dbname=longcall", f"dbname={name}")

    def drop(self, conninfo):
        """Forget a database that a line has done with: the largest ones take gigabytes."""
        name = conninfo.rpartition("dbname=")[2]
        self.sql("postgres", f"DROP DATABASE {name} WITH (FORCE)")

    def sql(self, database, text):
        import psycopg

        conninfo = self.cluster.conninfo.replace("dbname=longcall", f"dbname={database}")
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute(text)

    def version(self):
        """PostgreSQL's."""
        import psycopg

        with psycopg.connect(self.cluster.conninfo) as connection:
            return f"{connection.info.server_version // 10_000}.{connection.info.server_version % 10_000}"

    def surroundings(self, conninfo, **more):
        """The environment of a child of ours."""
        return (
            dict(os.environ)
            | {
                "DATABASE_URL": conninfo,
                "CELERY_BROKER_URL": "memory://",
                "SECRET_KEY": "for-the-bench-only",
                "LONGCALL_HOME": str(self.home),
                "DJANGO_SETTINGS_MODULE": "console.settings",
                "PYTHONPATH": str(PROJECT),
                "BENCH_POSTMASTER": str(self.postmaster()),
            }
            | {name: str(value) for name, value in more.items()}
        )

    def postmaster(self):
        return self.cluster._read_pid_file()[0]

    def child(self, module, *words, conninfo=None, python=sys.executable, patience=PATIENCE, **more):
        """Run a module to its end; give what it says on its last line, which is JSON, or nothing."""
        started = self.begin(module, *words, conninfo=conninfo, python=python, **more)
        said, _ = started.communicate(timeout=patience)
        if started.returncode:
            told = (self.home / "bench.log").read_text(errors="replace")[-3000:]
            raise RuntimeError(f"{module} ended with {started.returncode}:\n{told}")
        return json.loads(said.splitlines()[-1]) if said else {}

    def begin(self, module, *words, conninfo=None, python=sys.executable, **more):
        """Start a module, or a script (it ends with .py)."""
        what = [module] if str(module).endswith(".py") else ["-m", module]
        with (self.home / "bench.log").open("ab") as log:
            started = subprocess.Popen(
                [str(python), *what, *map(str, words)],
                cwd=PROJECT,
                env=self.surroundings(conninfo or self.cluster.conninfo, **more),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._running.append(started)
        return started

    @contextlib.contextmanager
    def remote(self, *words):
        """Run the tool server; give its address."""
        server = self.begin("tests.bench.remote", *words)
        try:
            yield Remote(f"http://127.0.0.1:{json.loads(server.stdout.readline())['port']}", server.pid)
        finally:
            server.terminate()
            server.wait(10)

    def end(self):
        for child in self._running:
            if child.poll() is None:
                child.kill()
            child.wait()


@dataclass(frozen=True)
class Remote:
    """The tool server, and what it knows."""

    url: str
    pid: int = 0
    """0: of another process's child, to be asked only."""

    def ask(self, path):
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return json.load(answer)


@contextlib.contextmanager
def ground(tell):
    """Start the throw-away installation."""
    home = Path(tempfile.mkdtemp(prefix="longcall-bench-"))
    home.chmod(0o711)
    made = None
    try:
        cluster = Cluster(places.prepare(home), settings=dict(TUNED), remove=home)
        cluster.start()
        made = Ground(cluster, home, tell)
        subprocess.run(
            [sys.executable, "-m", "django", "migrate", "--verbosity", "0"],
            cwd=PROJECT,
            env=made.surroundings(cluster.conninfo),
            check=True,
        )
        yield made
    finally:
        if made is not None:
            made.end()
            made.cluster.stop()
        shutil.rmtree(home, ignore_errors=True)


def postgres_seconds():
    """CPU seconds that the cluster has used so far: its live processes and those that have ended."""
    postmaster = psutil.Process(int(os.environ["BENCH_POSTMASTER"]))
    own = postmaster.cpu_times()
    spent = own.user + own.system + own.children_user + own.children_system
    for process in postmaster.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            spent += times.user + times.system
    return spent


def soon(holds, seconds=60.0):
    """Wait until it holds; give what it gave."""
    ends = time.monotonic() + seconds
    while not (value := holds()):
        if time.monotonic() > ends:
            raise TimeoutError("it did not happen in time")
        time.sleep(0.02)
    return value
