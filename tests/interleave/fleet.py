"""Runs on several processes, each with a database of its own in one throw-away cluster."""

import multiprocessing
import shutil
import tempfile
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path

from django.core.management import call_command
from django.db import connections

from console.ground import place as ground
from console.ground.postgres import CARELESS, Cluster
from tests.interleave import cores, runs

TUNED = {
    "max_connections": "60",
    "shared_buffers": "128MB",
    "autovacuum_naptime": "5min",  # after each, every statement of every session is planned anew
    "jit": "off",
    "track_activities": "off",
}


@contextmanager
def cluster(count):
    """Start a cluster with `count` migrated databases; yield their names."""
    home = Path(tempfile.mkdtemp(prefix="longcall-interleave-"))
    home.chmod(0o711)
    server = Cluster(ground.prepare(home), settings=CARELESS | TUNED, remove=home)
    settings = connections["default"].settings_dict
    before = deepcopy(settings)
    try:
        server.start()
        yield _databases(server, count)
    finally:
        connections.close_all()
        settings.clear()
        settings.update(before)
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


def _databases(server, count):
    parts = dict(part.split("=", 1) for part in server.conninfo.split())
    connections.close_all()  # who is connected stays where it is, whatever the settings say
    settings = connections["default"].settings_dict
    settings.update(HOST=parts["host"], USER=parts["user"], NAME=parts["dbname"], PASSWORD="", PORT="")
    settings["OPTIONS"].pop("pool", None)
    call_command("migrate", verbosity=0)
    names = [f"interleave_{number}" for number in range(count)]
    for name in names:
        connections.close_all()
        settings["NAME"] = "postgres"
        with connections["default"].cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name} TEMPLATE {parts['dbname']}")
    connections.close_all()
    return names


def use(name):
    """Let this process work in one of the databases."""
    connections["default"].settings_dict["NAME"] = name


def share(seeds, number, count):
    """Return one of `count` shares of the seeds: in a row, for every other one is a swarm and takes longer."""
    return seeds[number * len(seeds) // count : (number + 1) * len(seeds) // count]


def together(names, seeds, **how):
    """Run the seeds on as many processes as there are databases; return the tally of all."""
    if len(names) == 1:
        use(names[0])
        with cores.one(0), runs.opened() as place:
            return runs.many(place, seeds, **how)
    fork = multiprocessing.get_context("fork")
    queue = fork.Queue()
    children = [
        fork.Process(target=_child, args=(number, name, share(seeds, number, len(names)), queue, how))
        for number, name in enumerate(names)
    ]
    for child in children:
        child.start()
    whole = runs.Tally()
    for _ in children:
        whole.add(queue.get())
    for child in children:
        child.join()
    return whole


def _child(number, name, seeds, queue, how):
    use(name)
    with cores.one(number), runs.opened() as place:
        queue.put(runs.many(place, seeds, **how))
