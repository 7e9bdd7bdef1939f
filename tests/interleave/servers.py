"""The far side of a run: tool servers of every contract that spoil their answers as chosen.

Each keeps its own truth (`truth`, `all_tasks`), which no fault bends.
"""

import random
from collections import Counter

from adapters.simulator import aip151_scenario as aip
from adapters.simulator.aip151 import OperationsServer
from adapters.simulator.core import ToolServer
from adapters.simulator.engine import Reply
from adapters.simulator.messages import KEY_META, as_object, result
from adapters.simulator.modern import ModernToolServer
from adapters.simulator.scenario import Fault
from adapters.simulator.scripts import Answer
from tests.interleave.place import LOOKUP_TOOL
from tests.interleave.remote import ANSWERING, FIRST, FIRST_QUESTION, LAGS, LIES, SLOW_S, SPOILT


class Chosen:
    """What the server of a run knows and does, whatever it speaks."""

    _HAS_NOT = frozenset()
    """Faults that its contract has no place for."""

    def __init__(self, scenario, *, run):
        # Every server of the simulator takes these.
        super().__init__(scenario, clock=run.loop.time, chance=random.Random(run.prefix))  # type: ignore[call-arg]
        self._run_ = run
        self._prefix = run.prefix
        self._numbers = Counter()
        self.all_tasks = []
        """(submission key, task), also those whose id another one took over."""
        self.doubled = Counter()
        """Submission key -> tasks that came of a request which the network doubled."""
        self.reused = set()
        self.first_forms = set()
        """What people wrote to questions that came before a task."""
        self.lookups = 0
        """Requests that asked for a key by calling a tool."""
        self._lags_now = False

    def tasks_of(self, key):
        """Every task that was really made under this key."""
        return [task for made, task in self.all_tasks if made == key]

    def arrived(self, method):
        """How many requests of this name have arrived."""
        return sum(1 for seen in self.truth.arrivals if seen.method == method)

    def submits_arrived(self):
        return self.arrived("tools/call") - self.lookups

    def cancels_arrived(self):
        return self.arrived("tasks/cancel")

    def _spoil(self, method):
        """Choose how the answer to this request is spoilt; "" spoils nothing."""
        run, self._lags_now = self._run_, False
        spoilt = [name for name in SPOILT.get(method, ()) if name not in self._HAS_NOT]
        if not spoilt or not run.faults_on:
            return ""
        name = run.plan.next_of(f"{method} is answered")
        if name is None or name in self._HAS_NOT:
            kind = "hot" if method == run.plan.hot else "server"
            name = run.choices.choose(kind, ("", *spoilt), f"{run.at()} {method} is answered")
        if name:
            run.count(name, method=method)
        run.lied = run.lied or name in LIES
        self._lags_now = name == LAGS
        return name

    def _hides(self):
        """Whether a list or a lookup does not show what was made."""
        run = self._run_
        young = all(self._clock() < task.created_at + SLOW_S for _, task in self.all_tasks)
        lies = run.plan.list_lies and not run.choices.pick(2, "server", "the list shows it after all")
        return lies or (self._lags_now and young)

    def _name_task(self):
        run, known = self._run_, [task.task_id for _, task in self.all_tasks if task.task_id]
        if known and run.plan.reuses_ids and (run.plan.theme or run.choices.pick(2, "people", "task id reused")):
            run.count("task id reused")
            self.reused.add(known[-1])
            return known[-1]
        return self._name("task")

    def _name(self, what):
        self._numbers[what] += 1
        return f"{self._prefix}-{what}-{self._numbers[what]}"


class ChosenMcp(Chosen):
    """What both MCP servers have in common."""

    def _serve(self, message, session, door):
        params = as_object(message.get("params"))
        self._asks_tool = message.get("method") == "tools/call" and params.get("name") == LOOKUP_TOOL
        self.lookups += self._asks_tool
        return super()._serve(message, session, door)

    def _strike(self, method):
        named = LOOKUP_TOOL if self._asks_tool else ANSWERING.get(method, method)
        name = self._spoil(named)
        return Fault(on=method, **SPOILT[named][name]) if name else None

    def _look_up(self, params):
        if self._hides():
            return {"content": [], "structuredContent": {"found": False}}
        return super()._look_up(params)

    def _mint(self, what):
        return self._name_task() if what == "task" else self._name(what)


class ChosenServer(ChosenMcp, ToolServer):
    """Of MCP 2025-11-25; the decoded adapter asks it too, and may ask more of it."""

    def _start(self, tool, params, session, now, *, as_task):
        task = super()._start(tool, params, session, now, as_task=as_task)
        self.all_tasks.append((params["_meta"][KEY_META], task))
        return task

    def _call(self, params, request_id, session, now):
        if self._run_.plan.asks_first:
            if "answers" not in params:
                return Reply(message=result(request_id, {"asks": FIRST_QUESTION}))
            self._note_first(params)
        if self._run_.plan.honours_keys:
            for task in self.tasks_of(params["_meta"][KEY_META]):
                return self._again(task, request_id)
        return super()._call(params, request_id, session, now)

    def _note_first(self, params):
        for given in params["answers"]:
            answer = Answer(action=given["action"], content=given.get("content", {}))
            self.first_forms.add(str(answer.content.get("form")))
            self._run_.server_used(params["arguments"]["node"], FIRST, answer)

    def _again(self, task, request_id):
        if not task.task_id:
            return self._hold(task, request_id, inline=True)
        return Reply(message=result(request_id, {"task": task.facts(self.scenario.poll_ms)}))

    def _list_tasks(self, session):
        return {"tasks": []} if self._hides() else super()._list_tasks(session)

    def find_by_key(self, key):
        """The lookup of a class B server: the newest task of this key, or None."""
        now = self._clock()
        made = [task for task in self.tasks_of(key) if task.task_id and not task.is_expired(now)]
        return made[-1] if made and not self._hides() else None


class ChosenModern(ChosenMcp, ModernToolServer):
    """Of MCP 2026-07-28."""

    _HAS_NOT = frozenset({"session lost"})

    def _begin(self, task, params, now):
        super()._begin(task, params, now)
        self.all_tasks.append((params["_meta"][KEY_META], task))

    def _call(self, params, request_id, now):
        for given in as_object(params.get("inputResponses")).values():
            self.first_forms.add(str(as_object(as_object(given).get("content")).get("form")))
        return super()._call(params, request_id, now)


_METHODS = {"submit": "tools/call", "get": "tasks/get", "list": "tasks/list", "cancel": "tasks/cancel"}
_NO = aip.FaultKind.API_ERROR
_SPOILT = {
    "429": {"kind": _NO, "code": 8},
    "429 with Retry-After": {"kind": _NO, "code": 8, "retry_after": "7"},
    "503": {"kind": _NO, "code": 14},
    "503 with Retry-After": {"kind": _NO, "code": 14, "retry_after": "5"},
    "401": {"kind": _NO, "code": 16},
    "422": {"kind": _NO, "code": 3},
    "404": {"kind": aip.FaultKind.HTTP_STATUS, "status": 404, "body": "{}"},
    "not found by mistake": {"kind": _NO, "code": 5},
    "answer truncated": {"kind": aip.FaultKind.ANSWER_TRUNCATED},
    "an older answer repeated": {"kind": aip.FaultKind.ANSWER_REPEATED},
    "finishes first": {"kind": aip.FaultKind.FINISHES_FIRST},
    LAGS: {"kind": aip.FaultKind.ANSWER_DELAYED},
}


class ChosenOperations(Chosen, OperationsServer):
    """Of AIP-151."""

    _HAS_NOT = frozenset(name for faults in SPOILT.values() for name in faults if name not in _SPOILT)

    def __init__(self, scenario, *, run):
        super().__init__(scenario, run=run)
        self._made = []

    def _strike(self, kind):
        name = self._spoil(_METHODS.get(kind, kind))
        return aip.Fault(on=kind, **_SPOILT[name]) if name else None

    def _start(self, tool, arguments, key, now):
        made = super()._start(tool, arguments, key, now)
        self._made.append(made)
        self.all_tasks.append((f"key-{self._prefix}-{arguments['node']}", made.task))
        return made

    def _list(self, _path, _query, now):
        # What another one took the name of is still listed: by its request id it is there.
        known = () if self._hides() else self._made
        return {"operations": [self._view(made) for made in known if not made.task.is_expired(now)]}

    def _mint(self):
        return self._name_task().removeprefix("operations/")

    def submits_arrived(self):
        return self.arrived("submit")

    def cancels_arrived(self):
        return self.arrived("cancel")
