"""Run a program and stop it when our parent is gone. A script of its own, standard library only.

usage: guardian.py TIE UID GID STOP_SIGNAL REMOVE PROGRAM ARGUMENT...

TIE is one end of a socket pair. The parent holds the other: end of file means it died, however it died (kill -9 too).
A foreign program cannot watch it, and a daemon would live on. The program's process id is written to it first. UID -1
keeps the user. REMOVE is a folder to delete after the program has ended because the parent died ("" for none).
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import Any

GRACE = 10.0  # seconds between the stop signal and the kill


def main() -> int:
    """Run the program to its end and return its exit code."""
    tie, uid, gid, stop_signal = (int(text) for text in sys.argv[1:5])
    remove, command = sys.argv[5], sys.argv[6:]
    os.set_inheritable(tie, False)  # noqa: FBT003 - the standard library takes no keyword
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    account: dict[str, Any] = {} if uid < 0 else {"user": uid, "group": gid, "extra_groups": []}
    program = subprocess.Popen(command, cwd="/", stdin=subprocess.DEVNULL, start_new_session=True, **account)
    signal.signal(signal.SIGTERM, lambda *_: program.send_signal(stop_signal))
    os.write(tie, str(program.pid).encode())
    orphaned = threading.Event()
    threading.Thread(target=_watch, args=(tie, program, stop_signal, orphaned), daemon=True).start()
    code = program.wait()
    if orphaned.is_set() and remove:
        shutil.rmtree(remove, ignore_errors=True)
    return code


def _watch(tie: int, program: "subprocess.Popen[bytes]", stop_signal: int, orphaned: threading.Event) -> None:
    with contextlib.suppress(OSError):
        os.read(tie, 1)
    orphaned.set()
    program.send_signal(stop_signal)
    time.sleep(GRACE)
    program.kill()


if __name__ == "__main__":
    sys.exit(main())
