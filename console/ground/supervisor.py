"""Keeps our own processes running: starts, watches, restarts with a growing pause, stops."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from console.ground.home import PROJECT
from console.ground.processes import Process

STOP_PATIENCE = 8.0  # seconds for an orderly stop, all processes together
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds before a restart
STEADY = 60.0  # seconds: a process that ran this long starts again with the first pause
LARGEST_LOG = 10_000_000  # bytes; a longer one is moved aside at the next start


@dataclass(slots=True)
class Child:
    """One running process, and what is remembered of its earlier lives."""

    process: Process
    log: Path
    running: "subprocess.Popen[bytes]"
    tie: socket.socket
    started: float
    deaths: int = 0
    due: float | None = None

    def said(self) -> str:
        """Return the end of the log."""
        return self.log.read_bytes()[-2000:].decode(errors="replace")


@dataclass(slots=True)
class Supervisor:
    """Our processes under one roof. Not for foreign programs: those have a guardian each."""

    environment: Mapping[str, str]
    logs: Path
    tell: Callable[[str], None]
    children: list[Child] = field(default_factory=list)

    def start(self, process: Process) -> Child:
        """Start a process and keep it running from now on."""
        log = self.logs / f"{process.name}.log"
        if log.exists() and log.stat().st_size > LARGEST_LOG:
            log.replace(log.with_suffix(".log.1"))
        running, tie = self._spawn(process, log)
        child = Child(process=process, log=log, running=running, tie=tie, started=time.monotonic())
        self.children.append(child)
        return child

    def watch(self) -> None:
        """Look once at every process: note a death, restart what is due."""
        now = time.monotonic()
        for child in list(self.children):
            if child.due is not None:
                if now >= child.due:
                    self._restart(child)
            elif child.process.once and child.running.poll() == 0:
                child.tie.close()
                self.children.remove(child)
            elif child.running.poll() is not None:
                self._note_death(child, now)

    def stop(self) -> None:
        """Ask every process to stop, wait, and kill what is left."""
        for child in self.children:
            if child.running.poll() is None:
                child.running.terminate()
        deadline = time.monotonic() + STOP_PATIENCE
        for child in self.children:
            try:
                child.running.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.tell(f"{child.process.name} did not stop in {STOP_PATIENCE:.0f} s; killed")
                os.killpg(child.running.pid, signal.SIGKILL)
                child.running.wait()
            child.tie.close()
        self.children.clear()

    def _spawn(self, process: Process, log: Path) -> tuple["subprocess.Popen[bytes]", socket.socket]:
        ours, theirs = socket.socketpair()
        words = ["-m", "console.ground.child", str(theirs.fileno()), process.module, *process.arguments]
        with log.open("ab") as output, theirs:
            # A session of its own: Ctrl-C reaches only us, and we stop the rest in order.
            running = subprocess.Popen(
                [sys.executable, *words],
                cwd=PROJECT,
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        return running, ours

    def _note_death(self, child: Child, now: float) -> None:
        child.tie.close()
        child.deaths = 1 if now - child.started > STEADY else child.deaths + 1
        pause = min(FIRST_PAUSE * 2 ** (child.deaths - 1), LONGEST_PAUSE)
        child.due = now + pause
        self.tell(f"{child.process.name} ended with {child.running.returncode}; again in {pause:g} s (see {child.log})")

    def _restart(self, child: Child) -> None:
        child.running, child.tie = self._spawn(child.process, child.log)
        child.started, child.due = time.monotonic(), None
