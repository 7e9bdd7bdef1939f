"""Run a Python module that ends when its parent is gone: `python -m console.ground.child TIE MODULE ARGUMENT...`.

TIE is one end of a socket pair whose other end the parent holds. End of file means that the parent died, however it
died. Unlike a guardian (`guardian.py`) this costs no process of its own.
"""

import contextlib
import os
import runpy
import signal
import sys
import threading
import time

GRACE = 8.0  # seconds to stop in order


def main() -> None:
    """Watch the tie in a thread and become the module."""
    tie, module = int(sys.argv[1]), sys.argv[2]
    os.set_inheritable(tie, False)  # noqa: FBT003 - the standard library takes no keyword
    threading.Thread(target=_watch, args=(tie,), name="parent-watch", daemon=True).start()
    sys.argv = sys.argv[2:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _watch(tie: int) -> None:
    with contextlib.suppress(OSError):
        os.read(tie, 1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
