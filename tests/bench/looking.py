"""A look: what it costs us, a bare loop and the peers' own loops, side by side in each round."""

from pathlib import Path

from tests.bench.table import Line
from tests.verified.peers import installation

PEERS = Path(__file__).with_name("peers")
IN_FLIGHT = 60_000
FEW = 1_000


def lines(ground, quick):
    rounds, seconds = (2, 2) if quick else (5, 4)
    with ground.remote() as remote:
        made = [_round(ground, remote.url, seconds) for _ in range(rounds)]
    cost = {
        name: tuple(each[name]["us"] for each in made if name in each) for name in ("ours", "httpx", "kept", *_LOOPS)
    }
    ours = [each["ours"] for each in made]

    def over(name):
        return tuple(each[name]["us"] / each["ours"]["us"] for each in made if name in each)

    yield Line(
        "T1", "looks per CPU second, client and PostgreSQL", tuple(1e6 / us for us in cost["ours"]), "2,000", 2000
    )
    yield Line("T3", "CPU per look: raw httpx loop / ours", over("httpx"), "3", 3)
    yield Line("", "CPU per look: bare loop on our own transport / ours", over("kept"))
    if cost["mcp-1.30.0"]:
        yield Line("T2", "CPU per look: mcp 1.30 poll_task / ours", over("mcp-1.30.0"), "8", 8)
    if cost["api-core-2.44"]:
        yield Line("T2", "CPU per look: google-api-core 2.44 result() / ours", over("api-core-2.44"), "4", 4)
    if cost["airflow-3.3.2"]:
        yield Line("T2", "CPU per look: Airflow 3.3.2 HttpEventTrigger / ours", over("airflow-3.3.2"), "2", 2)
    for name, values in cost.items():
        if values:
            yield Line("", f"microseconds of CPU per look: {name}", values)
    yield Line("T6", "PostgreSQL's microseconds per unchanged look", tuple(one["pg"] for one in ours), "60", ceiling=60)
    grown = tuple(
        max(0.0, 1024 * (each["ours"]["resident"] - each["few"]["resident"]) / (IN_FLIGHT - FEW)) for each in made
    )
    yield Line("T7", "bytes of a worker per operation in flight", grown, "1,024", ceiling=1024)


_LOOPS = {
    "mcp-1.30.0": ("mcp_130.txt", "mcp_130.py"),
    "api-core-2.44": ("api_core_244.txt", "api_core_244.py"),
    "airflow-3.3.2": ("airflow_332.txt", "airflow_332.py"),
}


def _round(ground, url, seconds):
    told = {"ours": _ours(ground, url, IN_FLIGHT, seconds), "few": _ours(ground, url, FEW, 1)}
    for kind in ("httpx", "kept"):
        told[kind] = _costs(ground.child("tests.bench.bare", kind, url, seconds / 2))
    for name, (requirements, script) in _LOOPS.items():
        try:
            python = installation.python_peer(name, requirements)
        except (AssertionError, OSError) as error:
            ground.tell(f"{name} cannot be installed here, so it is left out: {error}")
            continue
        told[name] = _costs(ground.child(PEERS / script, url, seconds / 2, python=python))
    return told


def _ours(ground, url, count, seconds):
    database = ground.database()
    told = ground.child("tests.bench.ours", url, count, seconds, conninfo=database)
    ground.drop(database)
    return _costs(told)


def _costs(told):
    if not told["looks"]:
        return told
    us = 1e6 * (told["own"] + told["postgres"]) / told["looks"]
    return told | {"us": us, "pg": 1e6 * told["postgres"] / told["looks"]}
