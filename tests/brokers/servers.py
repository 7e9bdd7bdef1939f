"""Real brokers of the distribution's packages, each thrown away: own port, own folder, gone with the test."""

import contextlib
import os
import shutil
import socket
import subprocess
import time

import pytest

PATIENCE = 60.0  # seconds; Erlang takes some
RABBIT = "/usr/lib/rabbitmq/bin/rabbitmq-server"  # the one on the path changes its user


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def _need(program, package):
    found = shutil.which(program)
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"this run must be whole, and there is no {package}")
        pytest.skip(f"no {package} here: apt-get install {package}")
    return found


@contextlib.contextmanager
def redis(home):
    """Run Redis; give Celery's address of it."""
    port = free_port()
    program = _need("redis-server", "redis-server")
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(home)]
    with _running([program, *options], home, port):
        yield f"redis://127.0.0.1:{port}/0"


@contextlib.contextmanager
def rabbitmq(home):
    """Run RabbitMQ, with a port mapper of its own; give Celery's address of it."""
    _need(RABBIT, "rabbitmq-server")
    port, mapper, distribution = free_port(), free_port(), free_port()
    settings = home / "rabbitmq.conf"
    settings.write_text(f"listeners.tcp.1 = 127.0.0.1:{port}\nlog.console = true\n")
    surroundings = dict(os.environ) | {
        "HOME": str(home),
        "RABBITMQ_NODENAME": f"longcall{port}@localhost",
        "RABBITMQ_CONFIG_FILE": str(settings),
        "RABBITMQ_MNESIA_BASE": str(home / "data"),
        "RABBITMQ_LOG_BASE": str(home / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
        "RABBITMQ_PID_FILE": str(home / "pid"),
        "RABBITMQ_DIST_PORT": str(distribution),
        "ERL_EPMD_PORT": str(mapper),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
    }
    try:
        with _running([RABBIT], home, port, env=surroundings):
            yield f"amqp://guest:guest@127.0.0.1:{port}//"
    finally:
        # Its port mapper is a daemon that outlives it, and refuses to go while a node is registered.
        subprocess.run(["epmd", "-port", str(mapper), "-kill"], capture_output=True, check=True)


@contextlib.contextmanager
def _running(command, home, port, env=None):
    with (home / "broker.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=env, cwd=home)
    try:
        _answers(server, port, home / "broker.log")
        yield
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _answers(server, port, log):
    ends = time.monotonic() + PATIENCE
    while True:
        assert server.poll() is None, log.read_text(errors="replace")
        assert time.monotonic() < ends, log.read_text(errors="replace")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)


BROKERS = {"redis": redis, "rabbitmq": rabbitmq}
