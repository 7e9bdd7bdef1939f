"""One core for a process and its sessions at the server.

They take turns and never run at the same time: on two cores each statement would wake the other one, which
takes about a fourth of the time of a run.
"""

import contextlib
import os
from pathlib import Path


@contextlib.contextmanager
def one(number):
    """Keep this process to one of its cores, where the system can do that."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    cores = sorted(before)
    os.sched_setaffinity(0, {cores[number % len(cores)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def share(session):
    """Let the server's process of this session run where this process runs, if that is a single core."""
    mine = os.sched_getaffinity(0) if hasattr(os, "sched_setaffinity") else set()
    if len(mine) != 1 or not session.info.host.startswith("/"):
        return
    backend = session.info.backend_pid
    with contextlib.suppress(OSError):  # another machine's, or another user's
        if Path(f"/proc/{backend}/comm").read_text() == "postgres\n":
            os.sched_setaffinity(backend, mine)
