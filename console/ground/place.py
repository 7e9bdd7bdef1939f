"""Where the embedded servers keep their files: a private folder of theirs, and one for their sockets.

Inside the run folder when that works. Two things move them elsewhere: under root the servers run as another user, who
may not get into the run folder (a checkout in root's home); and a socket's path must be short and plain (the kernel
takes about 100 bytes, a comma breaks PostgreSQL's option, a percent sign breaks Celery's URL).
"""

import hashlib
import os
import re
import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from console.ground.account import Account, unprivileged

LONGEST_SOCKET_FOLDER = 80  # bytes; the kernel's limit is 104 on macOS, and PostgreSQL adds ".s.PGSQL.5432.lock"
SHARED = Path("/var/lib/longcall")  # for a run folder that the servers' user cannot enter
PLAIN_PATH = re.compile(r"[A-Za-z0-9/._-]+")


class UnsafeFolderError(Exception):
    """Somebody else's file stands where our private folder should be."""


@dataclass(frozen=True, slots=True)
class Place:
    """Folders that only `account` can enter."""

    account: Account
    files: Path
    sockets: Path

    def bring(self, program: Path, *folders: Path) -> Path:
        """Return the program, or a copy of it that the account can run.

        `folders` are what the copy must contain, side by side as they are (a program finds its libraries by relative
        path); none means the program's own file.
        """
        if self.account.can_run(program):
            return program
        sources = folders or (program,)
        common = sources[0].parent
        target = self.files / "programs" / _name_of(*sources)
        if not target.exists():
            # Beside and renamed: a copy that was interrupted is never taken for a whole one.
            half = Path(tempfile.mkdtemp(dir=self.files))
            for source in sources:
                copy = shutil.copytree if source.is_dir() else shutil.copy2
                copy(source, half / source.name)
            half.chmod(0o755)
            target.parent.mkdir(exist_ok=True)
            self.account.own(target.parent)
            half.rename(target)
        return target / program.relative_to(common)


def prepare(root: Path) -> Place:
    """Make the folders for a run folder `root` (which exists).

    Raises: NoAccountError, UnsafeFolderError.
    """
    account = unprivileged()
    short_name = hashlib.sha256(os.fsencode(root)).hexdigest()[:12]
    files = root / "servers" if account.can_reach(root) else SHARED / short_name
    # The last one is fixed: TMPDIR may be as long or as odd as the run folder. Each is checked for its owner below.
    temps = (tempfile.gettempdir(), "/tmp")  # noqa: S108 - as said
    candidates = [files / "sockets", *(Path(temp) / f"longcall-{os.geteuid()}-{short_name}" for temp in temps)]
    sockets = next(path for path in candidates if _is_plain(path))
    files.parent.mkdir(parents=True, exist_ok=True)
    for folder in (files, sockets):
        _make_private(folder, account)
    return Place(account=account, files=files, sockets=sockets)


def _is_plain(folder: Path) -> bool:
    return PLAIN_PATH.fullmatch(str(folder)) is not None and len(str(folder)) <= LONGEST_SOCKET_FOLDER


def _make_private(folder: Path, account: Account) -> None:
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        found = folder.lstat()
        # The temp folder is everybody's: a folder or link put there beforehand would see the database's socket.
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in {os.geteuid(), account.uid}:
            raise UnsafeFolderError(f"{folder} belongs to somebody else; remove it or set TMPDIR") from None
        folder.chmod(0o700)
    account.own(folder)


def _name_of(*sources: Path) -> str:
    newest = max(source.stat().st_mtime_ns for source in sources)
    return hashlib.sha256(f"{sources} {newest}".encode()).hexdigest()[:12]
