"""A PostgreSQL for one run of the tests, and gone with it, also after a kill -9.

Loaded with `-p` (see pyproject.toml): pytest-django reads the settings before any conftest.py is imported, and the
settings need DATABASE_URL. One cluster for all workers of pytest-xdist; pytest-django gives each its own database.
A DATABASE_URL that is already there is used as it is.
"""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from console.ground import place
from console.ground.postgres import CARELESS, Cluster

STARTED: list[tuple[Cluster | None, Path]] = []


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config, parser, args):
    """Start the cluster in the main process; the workers inherit its address."""
    if "PYTEST_XDIST_WORKER" in os.environ or {"--help", "-h", "--version", "-V"} & set(args):
        return
    home = Path(tempfile.mkdtemp(prefix="longcall-test-"))
    home.chmod(0o711)
    os.environ |= {"LONGCALL_HOME": str(home), "SECRET_KEY": "for-tests-only", "LONGCALL_DEBUG": "1"}
    os.environ.setdefault("CELERY_BROKER_URL", "memory://")
    cluster = None
    if "DATABASE_URL" not in os.environ:
        cluster = Cluster(place.prepare(home), settings=CARELESS | {"max_connections": "200"}, remove=home)
        cluster.start()
        os.environ["DATABASE_URL"] = cluster.conninfo
    STARTED.append((cluster, home))


def pytest_unconfigure(config):
    """Stop the cluster and remove its files."""
    while STARTED:
        cluster, home = STARTED.pop()
        if cluster is not None:
            cluster.stop()
        shutil.rmtree(home, ignore_errors=True)
