"""Which user the embedded servers run as: PostgreSQL refuses root."""

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path


class NoAccountError(Exception):
    """No user for the embedded servers; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Account:
    """A user to run as. `switches` is whether we must become it (we are root) or already are it."""

    uid: int
    gid: int
    switches: bool

    def own(self, path: Path) -> None:
        """Give the path to this user."""
        if self.switches:
            os.chown(path, self.uid, self.gid)

    def run(self, command: list[str], *, said: str = "") -> subprocess.CompletedProcess[str]:
        """Run a short command as this user, from a folder that it can be in; `said` is its standard input."""
        return subprocess.run(
            command,
            user=self.uid if self.switches else None,
            group=self.gid if self.switches else None,
            extra_groups=[] if self.switches else None,
            input=said,
            capture_output=True,
            text=True,
            cwd="/",
            check=False,
        )

    def can_run(self, program: Path) -> bool:
        """Return whether this user reaches the program (a checkout under root's home is closed to others)."""
        try:
            return self.run([str(program), "--version"]).returncode == 0
        except PermissionError:
            return False

    def can_reach(self, folder: Path) -> bool:
        """Return whether this user may pass through the folder."""
        if not self.switches:
            return True
        return self.run(["/bin/sh", "-c", 'cd "$1"', "sh", str(folder)]).returncode == 0


def unprivileged() -> Account:
    """Return ourselves, or `postgres` or `nobody` when we are root.

    Raises: NoAccountError when neither exists, or when our own uid has no name (initdb refuses it).
    """
    if os.geteuid() != 0:
        try:
            pwd.getpwuid(os.geteuid())
        except KeyError:
            raise NoAccountError(
                f"The user id {os.geteuid()} has no name here, and PostgreSQL refuses that. Give DATABASE_URL."
            ) from None
        return Account(uid=os.geteuid(), gid=os.getegid(), switches=False)
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(uid=entry.pw_uid, gid=entry.pw_gid, switches=True)
    raise NoAccountError("PostgreSQL refuses root, and there is neither a user postgres nor nobody. Give DATABASE_URL.")
