"""The run folder: all that one installation keeps on this machine outside its database."""

import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Home:
    """Paths inside the run folder. Nothing is created until it is written."""

    root: Path

    @property
    def lock(self) -> Path:
        """Held by `up` for as long as it runs."""
        return self.root / "lock"

    @property
    def services(self) -> Path:
        """Where the running `up` says how to reach its database and its broker."""
        return self.root / "services.json"

    @property
    def people(self) -> Path:
        """The demo people with their passwords, written by `demo_seed`."""
        return self.root / "people.json"

    @property
    def static(self) -> Path:
        """What `collectstatic` makes."""
        return self.root / "static"

    @property
    def locale(self) -> Path:
        """The compiled catalogues of the pages' other languages."""
        return self.root / "locale"

    @property
    def logs(self) -> Path:
        """One file for each process."""
        return self.root / "logs"

    def create(self) -> None:
        """Make the folder. Others may pass through it (PostgreSQL runs as another user under root) but not list it."""
        self.root.mkdir(parents=True, exist_ok=True)
        self.root.chmod(0o711)
        self.logs.mkdir(mode=0o700, exist_ok=True)

    def secret_key(self) -> str:
        """Return the key that signs sessions and round tokens; make it on first use."""
        path = self.root / "secret-key"
        if not path.exists():
            self.create()
            write_private(path, secrets.token_urlsafe(48))
        return path.read_text()

    def running_services(self) -> dict[str, str]:
        """Return DATABASE_URL, CELERY_BROKER_URL and ADDRESS of the running `up`; empty when none runs."""
        try:
            services: dict[str, str] = json.loads(self.services.read_text())
        except (FileNotFoundError, PermissionError, ValueError):
            return {}
        return services


def from_environment() -> Home:
    """Return the run folder named by LONGCALL_HOME, `var/` of the checkout otherwise."""
    return Home(Path(os.environ.get("LONGCALL_HOME") or PROJECT / "var").resolve())


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, in one step: a reader sees the old or the new text, never half."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    fresh.replace(path)
