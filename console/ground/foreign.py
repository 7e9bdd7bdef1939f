"""A foreign program under a guardian: it ends when we end, and it runs as the account of its place."""

import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from console.ground.account import Account

GUARDIAN = Path(__file__).with_name("guardian.py")
STOP_PATIENCE = 15.0  # seconds; longer than the guardian's own


@dataclass(slots=True)
class Foreign:
    """A running program. Its output goes to the end of `log`."""

    log: Path
    _guardian: "subprocess.Popen[bytes]"
    _tie: socket.socket
    _log_start: int

    @classmethod
    def start(
        cls, command: list[str], *, account: Account, log: Path, stop_signal: signal.Signals, remove: Path | None = None
    ) -> Self:
        """Start the command; `remove` is a folder that the guardian deletes if we die without stopping it."""
        ours, theirs = socket.socketpair()
        uid, gid = (account.uid, account.gid) if account.switches else (-1, -1)
        # -I -S: the guardian needs no package, and less of Python is less memory.
        guardian = [
            sys.executable,
            "-I",
            "-S",
            str(GUARDIAN),
            str(theirs.fileno()),
            str(uid),
            str(gid),
            str(int(stop_signal)),
        ]
        with log.open("ab") as output:
            process = subprocess.Popen(
                [*guardian, str(remove or ""), *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
            log_start = output.tell()
        theirs.close()
        return cls(log=log, _guardian=process, _tie=ours, _log_start=log_start)

    def pid(self) -> int | None:
        """Return the program's own process id, None when it could not be started."""
        self._tie.settimeout(STOP_PATIENCE)
        text = self._tie.recv(16, socket.MSG_PEEK)  # stays there for the next question
        return int(text) if text else None

    def is_running(self) -> bool:
        """Return whether the program has not ended."""
        return self._guardian.poll() is None

    def said(self) -> str:
        """Return what the program wrote since it was started, at most the last 2,000 characters."""
        with self.log.open("rb") as output:
            output.seek(self._log_start)
            return output.read().decode(errors="replace")[-2000:]

    def ask_to_stop(self) -> None:
        """Send the program its stop signal; return at once."""
        if self.is_running():
            self._guardian.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """Stop the program and wait for its end."""
        self.ask_to_stop()
        try:
            self._guardian.wait(STOP_PATIENCE)
        except subprocess.TimeoutExpired:
            self._tie.close()  # the guardian now believes that we are dead, and kills after its own patience
            self._guardian.wait(STOP_PATIENCE)
        self._tie.close()
