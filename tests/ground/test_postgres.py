"""The embedded PostgreSQL: it starts after every kind of end, and ends with us."""

import os
import signal
import subprocess
import sys

import psycopg
import pytest

from console.ground.home import PROJECT
from console.ground.postgres import CARELESS, Cluster, PostgresError


@pytest.fixture
def cluster(where):
    cluster = Cluster(where, settings=CARELESS)
    cluster.start()
    yield cluster
    cluster.stop()


def postmaster(where):
    return int((where.files / "postgres" / "postmaster.pid").read_text().split()[0])


def test_it_answers_as_soon_as_start_returns_and_not_after_stop(cluster):
    with psycopg.connect(cluster.conninfo) as connection:
        assert connection.info.dbname == "longcall"
    assert cluster.is_running()

    cluster.stop()

    assert not cluster.is_running()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(cluster.conninfo)


def test_it_listens_on_no_network_address(cluster, where):
    with psycopg.connect(cluster.conninfo) as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
    assert (where.sockets / ".s.PGSQL.5432").is_socket()


@pytest.mark.faults
def test_what_was_committed_is_there_after_a_kill(where, soon):
    cluster = Cluster(where)
    cluster.start()
    with psycopg.connect(cluster.conninfo, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT generate_series(1, 100)")

    os.kill(postmaster(where), signal.SIGKILL)
    assert soon(lambda: not cluster.is_running())
    cluster.stop()
    cluster.start()

    with psycopg.connect(cluster.conninfo) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (100,)
    cluster.stop()


@pytest.mark.faults
def test_an_old_pid_file_that_names_a_stranger_does_not_stop_the_start(cluster, where):
    old = where.files / "postgres" / "postmaster.pid"
    text = old.read_text()
    cluster.stop()
    # The worst case: the stranger runs as the same user, so PostgreSQL itself would believe the file.
    identity = {"user": where.account.uid} if where.account.switches else {}
    stranger = subprocess.Popen(["sleep", "60"], **identity)
    old.write_text(f"{stranger.pid}\n" + text.split("\n", 1)[1])
    where.account.own(old)

    cluster.start()

    assert postmaster(where) != stranger.pid
    stranger.kill()
    stranger.wait()


def test_a_second_server_on_the_same_data_is_refused_and_the_first_goes_on(cluster, where, monkeypatch):
    monkeypatch.setattr("console.ground.postgres.LOCK_PATIENCE", 0.5)

    with pytest.raises(PostgresError, match="lock file"):
        Cluster(where, settings=CARELESS).start()

    psycopg.connect(cluster.conninfo).close()


def test_a_cluster_that_was_half_made_is_made_again(where):
    half = where.files / "new-interrupted"
    half.mkdir()
    (half / "PG_VERSION").write_text("18\n")
    cluster = Cluster(where, settings=CARELESS)

    cluster.start()

    psycopg.connect(cluster.conninfo).close()
    cluster.stop()


def test_a_server_that_cannot_start_says_why(where):
    cluster = Cluster(where, settings=CARELESS | {"shared_buffers": "none"})

    with pytest.raises(PostgresError, match="shared_buffers"):
        cluster.start()


@pytest.mark.faults
def test_nothing_is_left_when_its_parent_is_killed(where, processes_of, soon):
    program = (
        "import sys, time; from pathlib import Path; from console.ground import place, postgres;"
        "c = postgres.Cluster(place.prepare(Path(sys.argv[1])), settings=postgres.CARELESS, remove=Path(sys.argv[1]));"
        "c.start(); print('up', flush=True); time.sleep(60)"
    )
    root = str(where.files.parent)
    parent = subprocess.Popen([sys.executable, "-c", program, root], cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout.readline() == "up\n"
    assert len(processes_of(root)) >= 3

    parent.kill()
    parent.communicate()

    assert soon(lambda: not processes_of(root))
    assert soon(lambda: not where.files.exists())
    where.files.parent.mkdir(exist_ok=True)  # for the fixture to remove
