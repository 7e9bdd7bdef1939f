"""Two worker processes: each claims what is due and drives it with the product's own driver."""

import asyncio
import contextvars
import random
from datetime import timedelta

from django.db import InterfaceError, OperationalError

from operations import ledger
from operations.driver import Driver
from operations.ledger import Moved
from operations.machine import State
from tests.interleave.lines import ACTS, KILLED_AFTER, KILLED_BEFORE, LOST_AFTER, LOST_BEFORE, Killed, Plan
from tests.interleave.place import START

BROKEN = "connection broken before a step"
KILLED = "killed before a step"
RESTART = "PostgreSQL restarts"
NAPS = {"asleep 5 s": 5.0, "asleep 40 s": 40.0, "asleep an hour": 3600.0}
FATES = ("", BROKEN, LOST_BEFORE, LOST_AFTER, KILLED, KILLED_BEFORE, KILLED_AFTER, *NAPS, ACTS, RESTART)
REBIRTH_S = 3.0
REST_S = 0.2
BUSY_S = 5.0
"""How long nobody looks whether more is due while everything is being driven."""
SWEEP_S = 3600.0
STATING_S = 5.0
"""How often a process asks whether the caller of a cancel is to be told that it was not confirmed."""

ON_BEHALF = contextvars.ContextVar("ON_BEHALF", default="nobody")


class Worker:
    """One process, reborn when it was killed."""

    def __init__(self, run, number, line, *, adapter_for, wire_for):
        self.name = f"worker {number}"
        self.run = run
        self.line = line
        self.ahead = 0.0
        """How far its clock is ahead, in seconds."""
        self.is_dead = False
        self.drives = {}
        self._life = 0
        self._states_at = 0.0
        self._driver = Driver(
            adapter_for=adapter_for,
            wire_for=lambda work, gate: wire_for(self, work, gate),
            run=self.step,
            clock=self.now,
            chance=random.Random(1),
        )

    def now(self):
        return START + timedelta(seconds=self.run.loop.time() + self.ahead)

    async def slice(self, *, claims):
        """State overdue cancels; claim what is due and drive it. Return how many claims were made."""
        ON_BEHALF.set(self.name)
        try:
            if self._is_to_state():
                await self.step(ledger.state_overdue, now=self.now())
            works = await self.step(ledger.claim, limit=10, now=self.now()) if claims else ()
        except (OperationalError, InterfaceError):
            return 0
        for work in sorted(works, key=lambda work: self.run.alias(work.row.id)):
            if work.row.id in self.run.names:
                drive = self.run.spawn(self._driver.drive([work]))
                self.drives[drive] = None
                drive.add_done_callback(self._drive_ended)
        return len(works)

    def _is_to_state(self):
        """Whether a cancel may be overdue, and this process has not asked for a while."""
        run = self.run
        if State.CANCEL_REQUESTED not in run.states.values() or run.loop.time() < self._states_at:
            return False
        self._states_at = run.loop.time() + STATING_S
        return True

    def _drive_ended(self, drive):
        self.drives.pop(drive, None)
        self.run.changed.set()

    async def step(self, function, /, *args, **named):
        """Run one ledger step of this process: the driver's step runner."""
        run = self.run
        words = f"{self.name} {function.__name__}{run.about(args)}"
        life = self._life
        fate, plan = self._draw(words, function.__name__, args)
        await run.loop.point(words)
        if fate in NAPS:
            await asyncio.sleep(NAPS[fate])
        if life != self._life:
            raise asyncio.CancelledError
        if fate == KILLED:
            self.die()
            raise asyncio.CancelledError
        if fate == BROKEN:
            self.line.cut()
        if fate == RESTART:
            run.place.cut_all()
        epoch, was_right = run.epoch, run.board.is_right()
        try:
            given = self.line.run(function, *args, plan=plan, **named)
        except Killed:
            self.die()
            raise asyncio.CancelledError from None
        except Exception as error:
            run.loop.note(f"{words}: {type(error).__name__}")
            raise
        finally:
            if plan is not None and plan.fired:
                run.count(plan.fault, operation=args[0] if args else None)
        self._settle(words, given, named.get("ticket"), epoch)
        if was_right and not (plan is not None and plan.fired):
            run.board.correct(function, args, given)
        return given

    def _settle(self, words, given, ticket, epoch):
        self.run.loop.note(words)
        if ticket is not None and ticket.epoch < epoch:
            self.run.violations.append(("F7", f"{words} under epoch {ticket.epoch}, when {epoch} was in force"))
        if isinstance(given, Moved):
            self.run.saw(given.operation, given.state)

    def _draw(self, words, name, args):
        run = self.run
        if not run.faults_on:
            return "", None
        fate = run.plan.next_of(name)
        if fate is None:
            fate = run.choices.choose("step", FATES, f"{run.at()} {words}")
        if not fate:
            return "", None
        if fate in {LOST_BEFORE, LOST_AFTER, KILLED_BEFORE, KILLED_AFTER, ACTS}:
            at = 1 + run.choices.pick(3, "order", "in a later transaction of the step")
            act = run.people.intrusion() if fate == ACTS else None
            return fate, Plan(fate, at, act)
        run.count(fate, operation=args[0] if args else None)
        return fate, None

    def die(self):
        """Drop everything at once, as kill -9 does, and come back after a while."""
        self.is_dead = True
        self._life += 1
        for drive in list(self.drives):
            drive.cancel()
        self.drives = {}
        self.run.loop.note(f"{self.name} dies")
        self.run.loop.call_later(REBIRTH_S, self._be_born)

    def _be_born(self):
        self.is_dead = False
        self.run.changed.set()


class Beat:
    """Wakes one of the workers whenever something is due, as Celery's beat and the sweep do."""

    def __init__(self, run, workers):
        self._run = run
        self._workers = workers
        self._empty = 0

    async def beat(self):
        run = self._run
        while True:
            run.changed.clear()
            due, is_open = run.look_at_board()
            calls = all(call.done() for call in run.calls)
            if calls and not is_open and due is None and not any(worker.drives for worker in self._workers):
                run.done.set()
                return
            wait = SWEEP_S if due is None else min(SWEEP_S, (due - run.now()).total_seconds())
            if wait > 0 and State.CANCEL_REQUESTED in run.states.values():
                await self._rest(min(wait, STATING_S))
                await self._wake(claims=False)
            elif wait > 0:
                await self._rest(wait)
            elif await self._wake(claims=True) and self._all_are_driven():
                await self._rest(BUSY_S)

    def _all_are_driven(self):
        return sum(len(worker.drives) for worker in self._workers) >= len(self._run.names)

    async def _rest(self, seconds):
        waiter = asyncio.ensure_future(self._run.changed.wait())
        await asyncio.wait({waiter}, timeout=seconds)
        waiter.cancel()

    async def _wake(self, *, claims):
        """Let one of the workers have a slice; return how many claims it made."""
        run = self._run
        alive = [worker for worker in self._workers if not worker.is_dead]
        if not alive:
            await asyncio.sleep(REST_S)
            return 0
        number = run.choices.pick(len(alive), "order", "the other worker claims")
        worker = alive[(number + self._empty) % len(alive)]
        claim = run.spawn(worker.slice(claims=claims))
        worker.drives[claim] = None
        claim.add_done_callback(lambda ended: worker.drives.pop(ended, None))
        done, _ = await asyncio.wait({claim}, timeout=REST_S)
        claimed = claim.result() if done and not claim.cancelled() else 0
        self._empty = 0 if claimed or not claims else self._empty + 1
        if self._empty:
            await asyncio.sleep(min(REST_S * 2 ** min(self._empty, 8), 20.0))
        return claimed
