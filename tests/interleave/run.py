"""One run: a small world in virtual time, from its choices to its end."""

import asyncio
import hashlib
import logging
from collections import Counter
from datetime import timedelta
from typing import Any

from django.db import InterfaceError, OperationalError

from adapters.aip_151 import Aip151
from adapters.contract import Endpoint, Lookup
from adapters.http import Connections
from adapters.mcp_2025_11_25 import Mcp20251125
from adapters.mcp_2026_07_28 import Mcp20260728
from adapters.simulator import aip151_scenario as aip
from adapters.simulator.aip151_face import OperationsApp
from adapters.simulator.face import ToolServersApp
from adapters.simulator.scenario import CancelStyle, Scenario
from operations.machine import FINAL, State
from tests.interleave import plan as plans
from tests.interleave.board import Board
from tests.interleave.decoded import Decoded, DirectWire
from tests.interleave.loop import Deadlock, Loop
from tests.interleave.people import People
from tests.interleave.place import AIP_PATH, LIFE_S, LOOKUP_TOOL, MCP_PATH, START
from tests.interleave.remote import Network, NetworkTransport, tool_of
from tests.interleave.servers import ChosenModern, ChosenOperations, ChosenServer
from tests.interleave.workers import FATES, ON_BEHALF, Beat, Worker

TROUBLE_S = 120.0
"""Virtual seconds after which no more fault strikes."""
CALM_S = 5 * 3600.0
"""Virtual seconds of calm within which everything must have ended."""
_FINAL_WORDS = [state.value for state in FINAL]


class Run:
    """One world. `execute` runs it to its end; `violations` says what went wrong."""

    def __init__(self, place, choices, *, depth):
        self.place = place
        self.choices = choices
        self.loop = Loop(choices)
        self.plan = plans.draw(choices, depth=depth)
        self.prefix = place.fresh(self.plan)
        self.nodes = [f"node{number}" for number in range(1, self.plan.operations + 1)]
        self.names = {}
        self.states = {}
        self.faults = Counter()
        self.pairs = Counter()
        """(fault, local state) -> how often."""
        self.faults_on = True
        self.lied = False
        self.epoch = place.epoch
        """The newest execution epoch that somebody was told of."""
        self.violations = []
        self.wrong_answers = []
        self.changed = asyncio.Event()
        self.done = asyncio.Event()
        self.calls = []
        """One task for each node that submits."""
        self._tasks = set()
        self._waiting = []
        self.board = Board(place, self.names)
        self.people = People(self)
        self.network = Network(self)
        self.server = self._make_server()
        self._connections = None
        self.workers = self._make_workers()

    def _make_server(self):
        if self.plan.contract == plans.AIP_151:
            return ChosenOperations(self._operations(), run=self)
        far = ChosenModern if self.plan.contract == plans.MCP_2026 else ChosenServer
        return far(self._scenario(), run=self)

    def _scenario(self):
        plan = self.plan
        support = {"long": "optional"}.get(plan.tool, "forbidden")
        sessions = plan.contract == plans.MCP_2025 or plan.lookup is Lookup.SESSION_LIST
        return Scenario(
            tools=(tool_of(self, name=plan.tool_name, support=support),),
            poll_ms=plan.poll_ms,
            ttl_ms=plan.ttl_ms,
            sessions=sessions,
            declares_tasks=plan.declares_tasks,
            cancel=plan.cancel,
            works_on_after_cancel=plan.works_on,
            questions=plan.questions,
            asks_before_task=plan.asks_first,
            lookup_tool=LOOKUP_TOOL if plan.lookup is Lookup.LOOKUP_TOOL else "",
        )

    def _operations(self):
        plan = self.plan
        styles = {CancelStyle.REFUSES: aip.CancelStyle.REFUSES, CancelStyle.IGNORES: aip.CancelStyle.IGNORES}
        return aip.Scenario(
            tools=(tool_of(self, name=plan.tool_name, support="optional"),),
            honours_request_id=plan.honours_keys,
            lists=plan.lookup is Lookup.LIST_BY_KEY,
            cancel=styles.get(plan.cancel, aip.CancelStyle.COOPERATIVE),
            works_on_after_cancel=plan.works_on,
            keeps_s=LIFE_S[plan.lookup] if plan.ttl_ms is None else plan.ttl_ms / 1000,
        )

    def _make_workers(self):
        adapter = self._adapter()
        if self.plan.depth == plans.WIRE:
            app = self._app()
            self._connections = Connections(transport_for=lambda _endpoint: NetworkTransport(self, app))

            def wire_for(worker, work, gate):
                return self._connections.wire(Endpoint(url=work.server.url), gate=gate, clock=worker.now)
        else:

            def wire_for(worker, work, gate):
                return DirectWire(self, worker.name, work)

        return tuple(
            Worker(self, number, line, adapter_for=lambda _version, _release: adapter, wire_for=wire_for)
            for number, line in enumerate(self.place.workers, start=1)
        )

    def _adapter(self) -> Any:
        real = {plans.MCP_2025: Mcp20251125, plans.MCP_2026: Mcp20260728, plans.AIP_151: Aip151}
        return Decoded(self.plan) if self.plan.depth == plans.DECODED else real[self.plan.contract]()

    def _app(self) -> Any:
        if self.plan.contract == plans.AIP_151:
            return OperationsApp({AIP_PATH: self.server})
        return ToolServersApp({MCP_PATH: self.server}, tick_s=1.0)

    def faults_that_stop_time(self):
        """Whether something struck that no gate on time allows for: a sleeper, a death, a wrong clock."""
        return any(self.faults[fate] for fate in FATES if fate) or self.faults["clock jumps"]

    # What everybody asks ----------------------------------------------------------------------------

    def now(self):
        return START + timedelta(seconds=self.loop.time())

    def at(self):
        return f"{self.loop.time():.1f} s"

    def alias(self, operation):
        return self.names.get(operation, "?")

    def about(self, args):
        return f" {self.names[args[0]]}" if args and isinstance(args[0], str) and args[0] in self.names else ""

    def operation_of(self, node):
        return next((operation for operation, name in self.names.items() if name == node), None)

    def worker_of(self, _task):
        return ON_BEHALF.get()

    def spawn(self, coroutine):
        task = self.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def count(self, fault, *, method="", operation=None):
        self.faults[fault] += 1
        if method:
            self.faults[f"{fault} ({method})"] += 1
        self.loop.note(f"FAULT {fault} {method}")
        if isinstance(operation, str) and operation in self.states:
            self.pairs[fault, self.states[operation]] += 1
        elif method:
            for state in self.states.values():
                self.pairs[fault, state] += 1

    def knows(self, operation, node):
        """A call node has learned its operation."""
        if self.names.setdefault(operation, node) != node:
            self.violations.append(("A1", f"{node} was given the operation of {self.names[operation]}"))
        if self.operation_of(node) != operation:
            self.violations.append(("L1", f"{node} has two operations"))
        self.saw(operation, self.states.get(operation, State.SUBMITTING))

    def saw(self, operation, state):
        """A step has left the operation in this state: whoever waits for it goes on."""
        self.states[operation] = state
        if operation not in self.names:
            return
        for waiting in list(self._waiting):
            node, states, turn = waiting
            if node == self.names[operation] and (state in states or state in FINAL) and not turn.done():
                turn.set_result(None)
                self._waiting.remove(waiting)

    async def stands_in(self, node, states):
        """Wait until the node's operation stands in one of `states`; return it, or None once it is final."""
        while True:
            operation = self.operation_of(node)
            state = self.states.get(operation)
            if state in FINAL:
                return None
            if state in states:
                return operation
            turn = self.loop.create_future()
            self._waiting.append((node, states, turn))
            await turn

    def server_used(self, node, number, answer):
        """The tool went on with this answer: it must be the one to this question."""
        if answer.action == "accept" and answer.content.get("k") != f"question {number}":
            self.wrong_answers.append((node, number, dict(answer.content)))

    def look_at_board(self):
        """Return when something is due next, and whether anything is open."""
        if not self.board.is_right():
            for operation, state in self.board.read():
                if self.states.get(operation) != state:
                    self.saw(operation, state)
        is_open = any(self.states.get(operation) not in FINAL for operation in self.names)
        return self.board.next_due(), is_open

    # The run itself -------------------------------------------------------------------------------

    def execute(self):
        """Run to the end. Everything that went wrong is in `violations`."""
        handler = _Overheard(self)
        _DRIVER_LOG.addHandler(handler)
        _DRIVER_LOG.propagate = False
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._live())
        except Deadlock:
            self.violations.append(("A6", "everybody waits for somebody else"))
        finally:
            asyncio.set_event_loop(None)
            _DRIVER_LOG.removeHandler(handler)
            _DRIVER_LOG.propagate = True
            self._end()
        return self

    async def _live(self):
        plan = self.plan
        self.calls = [self.spawn(self.people.submit(node)) for node in self.nodes[:1]]
        for node in self.nodes[1:]:
            self.calls.append(self.spawn(self.people.submit(node, wait=plan.second_after)))
        for node in self.nodes:
            for who, temper in zip(("ada", "bob"), plan.approvers, strict=False):
                self.spawn(self.people.approve(who, temper, node))
            self.spawn(self.people.clear_desk(node))
        for at in plan.presses:
            self.spawn(self.people.press_cancel(at, self.nodes[0]))
        for at in plan.rollbacks:
            self.spawn(self.people.roll_back(at))
        for at in plan.restarts:
            self.loop.call_later(at, self._restart)
        if plan.jumps:
            self.loop.call_later(plan.jumps[0], self._jump_clock)
        if plan.switch_at is not None:
            self.spawn(self.people.close_submits(plan.switch_at))
        await asyncio.wait(self.calls[:1] if plan.second_after else self.calls)
        beat = self.spawn(Beat(self, self.workers).beat())
        await self._until_done(beat, TROUBLE_S)
        self._calm_down()
        await self._until_done(beat, CALM_S)
        if not self.done.is_set():
            self._say_stuck()
        await self.people.collect()

    async def _until_done(self, beat, seconds):
        if self.done.is_set():
            return
        done = asyncio.ensure_future(self.done.wait())
        await asyncio.wait({done, beat}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        done.cancel()
        if beat.done() and not self.done.is_set():
            beat.result()

    def _restart(self):
        if self.faults_on:
            self.count("PostgreSQL restarts")
            self.place.cut_all()

    def _jump_clock(self):
        self.count("clock jumps")
        self.workers[1].ahead = self.plan.jumps[1]
        self.changed.set()

    def _calm_down(self):
        self.faults_on = False
        for worker in self.workers:
            worker.ahead = 0.0
        self.changed.set()

    def _say_stuck(self):
        for operation, node in self.names.items():
            if self.states.get(operation) not in FINAL:
                self.violations.append(("A6", f"{node} still stands in {self.states.get(operation)}"))
        if not self.violations:
            self.violations.append(("A6", "something is still due after the end"))

    def _end(self):
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        pending = asyncio.all_tasks(self.loop)
        if pending:
            self.loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        if self._connections is not None:
            self.loop.run_until_complete(self._connections.aclose())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def digest(self):
        """Identify what went on, in order."""
        return hashlib.sha256(repr(self.loop.trace).encode()).hexdigest()[:16]


_DRIVER_LOG = logging.getLogger("operations.driver")


class _Overheard(logging.Handler):
    """Hears what the driver caught and logged: anything but a lost connection is a defect."""

    def __init__(self, run):
        super().__init__(logging.ERROR)
        self._run = run

    def emit(self, record):
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, OperationalError | InterfaceError):
            self._run.violations.append(("driver", f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"))
