"""Puts third-party servers into environments of their own, once, under `var/peers/` of the checkout.

Not into the project's environment: the SDKs exclude each other, and nothing of them is ours. A stamp
is written last, so that an installation that was killed in the middle is done again.
"""

import contextlib
import fcntl
import shutil
import subprocess
from pathlib import Path

from console.ground import environment

PEERS = environment.PROJECT / "var" / "peers"
PATIENCE = 240  # seconds for one installation


def python_peer(name, requirements):
    """Install the PyPI packages of a requirements file beside this module, give back the path of their Python."""
    home = PEERS / name
    python = home / "bin" / "python"
    listed = Path(script(requirements))
    with _once(home, listed.read_text()) as needed:
        if needed:
            base = environment._base_python()
            with_base_pip = environment._base_pip_works()
            options = ["--without-pip"] if with_base_pip else []
            _run([base, "-m", "venv", "--clear", *options, str(home)])
            pip = [base, "-m", "pip", "--python", str(python)] if with_base_pip else [str(python), "-m", "pip"]
            _run([*pip, "install", "--quiet", "--no-input", "--disable-pip-version-check", "-r", str(listed)])
    return python


def node_peer(name, *packages):
    """Install npm packages, give back the folder that holds their `node_modules`."""
    home = PEERS / name
    with _once(home, "\n".join(packages)) as needed:
        if needed:
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir(parents=True)
            options = ["--no-audit", "--no-fund", "--ignore-scripts", "--no-save", "--loglevel", "error"]
            _run(["npm", "install", "--prefix", str(home), *options, *packages])
    return home


@contextlib.contextmanager
def _once(home, wanted):
    """Hold the peer's lock; yield whether it must be installed."""
    PEERS.mkdir(parents=True, exist_ok=True)
    stamp = home / ".stamp"
    with (PEERS / f"{home.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        needed = not stamp.exists() or stamp.read_text() != wanted
        yield needed
        if needed:
            stamp.write_text(wanted)


def _run(command):
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, f"{' '.join(command[:4])} ...: {done.stdout[-1000:]}{done.stderr[-2000:]}"


def has_npm():
    """Whether Node's package manager is here."""
    return shutil.which("npm") is not None and shutil.which("node") is not None


def script(name):
    """The path of a file beside this module."""
    return str(Path(__file__).with_name(name))
