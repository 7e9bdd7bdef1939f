"""Who the promises are tried on, and where each is known to deviate."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from adapters import registry
from adapters.contract import Absent, Working
from adapters.simulator import aip151_scenario, scenario
from adapters.simulator.scripts import Ask, Crash, Finish, Tool, Work
from tests.verified import places
from tests.verified.promises import STEPS

Job = Callable[[Any], tuple[str, Mapping[str, Any]]]


def job(tool, **arguments):
    """A call of this tool, the same each time."""
    return lambda _place: (tool, arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One server. `jobs`: for each kind of job that it can do, the tool and its arguments."""

    name: str
    version: str
    jobs: Mapping[str, Job]
    simulated: Callable[[], Any] | None = None
    """None: a third-party server, to be launched under its name."""
    asks_aloud: bool = False
    """It asks on the standing stream alone."""
    unknown_id: str = "nope"
    finds: Any = Working
    """What a lookup is waited for."""
    in_every_run: bool = False

    @property
    def adapter(self):
        return registry.adapter(self.version, "r1")

    @property
    def marks(self):
        marks = [] if self.simulated else [pytest.mark.verified]
        return marks if self.simulated or self.in_every_run else [*marks, pytest.mark.long]

    def place(self, peers, *, alone):
        """Where to talk to it."""
        return self.simulated() if self.simulated else places.Real(peers(), self.name, alone=alone)


# Simulated ----------------------------------------------------------------------------------------

FORM = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


def _work(arguments):
    yield Work(seconds=5)
    return Finish(text="done")


def _sorry(arguments):
    yield Work(seconds=2)
    return Finish(text="the tool says no", is_error=True)


def _crash(arguments):
    yield Work(seconds=2)
    return Crash(message="kaboom")


def _ask(arguments):
    yield Work(seconds=2)
    answers = []
    for number in range(arguments.get("n", 1)):
        answers.append((yield Ask(message=f"question {number}", schema=FORM)))  # noqa: PERF401 - a comprehension cannot yield
    return Finish(text=" ".join(answer.action for answer in answers))


def _at_once(arguments):
    yield from ()
    return Finish(text="done")


def _ask_at_once(arguments):
    answer = yield Ask(message="sure?", schema=FORM)
    return Finish(text=answer.action, is_error=answer.action == "error")


SCRIPTS = {"work": _work, "sorry": _sorry, "crash": _crash, "ask": _ask}
MCP_TOOLS = tuple(
    Tool(name=name, title=name, description="", script=script, input_schema={}, task_support=support)
    for name, script, support in (
        *((name, script, "optional") for name, script in SCRIPTS.items()),
        ("at_once", _at_once, "forbidden"),
        ("ask_at_once", _ask_at_once, "forbidden"),
        ("only_as_a_task", _work, "required"),
    )
)
MCP_JOBS = {
    "work": job("work"),
    "long": job("work"),
    "sorry": job("sorry"),
    "crash": job("crash"),
    "ask": job("ask"),
    "refuse": job("ask"),
    "rounds": job("ask", n=2),
    "at once": job("at_once"),
    "ask at once": job("ask_at_once"),
    "only as a task": job("only_as_a_task"),
}
PLACE = "projects/p/locations/l"
METHODS = tuple(
    Tool(name=f"{PLACE}/{name}:run", title=name, description="", script=script, input_schema={"type": "object"})
    for name, script in SCRIPTS.items()
)
AIP_JOBS = {name: job(f"{PLACE}/{name}:run") for name in ("work", "sorry", "crash")} | {
    "long": job(f"{PLACE}/work:run"),
    "ask": job(f"{PLACE}/work:run"),
}


def _simulated(name, version, *, asks_aloud=False, **character):
    serve = {"2025-11-25": places.serve_2025, "2026-07-28": places.serve_2026}[version]
    told_to = scenario.Scenario(tools=MCP_TOOLS, **character)
    make = lambda: places.Simulated(told_to, serve)
    return Peer(name=name, version=version, jobs=MCP_JOBS, simulated=make, asks_aloud=asks_aloud)


def _simulated_aip(name, **character):
    told_to = aip151_scenario.Scenario(tools=METHODS, **character)
    make = lambda: places.Simulated(told_to, places.serve_aip_151)
    unknown = f"{PLACE}/operations/nope"
    return Peer(name=name, version="aip-151", jobs=AIP_JOBS, simulated=make, unknown_id=unknown)


# Real ---------------------------------------------------------------------------------------------

_numbers = itertools.count()


def _deploys(function):
    """A call that deploys a function: `report0` and on are there, any other is not, and fails."""

    def make(place):
        number = next(_numbers)
        body = {
            "name": f"{PLACE}/functions/{function}{number}",
            "httpsTrigger": {},
            "sourceUploadUrl": f"http://127.0.0.1/?localdir={place.home / 'source'}",
        }
        return f"{PLACE}/functions", body

    return make


ASKS_ONE_BY_ONE = {
    "ask": job("ask"),
    "refuse": job("ask"),
    "rounds": job("ask", n=2),
    "ask at once": job("ask_at_once"),
}
SLOW = {"work": job("slow", secs=0.5), "long": job("slow", secs=30)}
RESEARCH = "simulate-research-query"
LATE = scenario.CancelStyle.LATE

PEERS = (
    _simulated("simulator 2025", "2025-11-25"),
    _simulated("simulator 2025, without a list", "2025-11-25", lists_tasks=False, stale_streams_swallow=True),
    _simulated(
        "simulator 2025, as fastmcp 3",
        "2025-11-25",
        asks_aloud=True,
        questions=scenario.QuestionStyle.STANDING,
        cancel=scenario.CancelStyle.LIES,
        related_task="",
    ),
    Peer(
        name="mcp 1.30.0",
        version="2025-11-25",
        in_every_run=True,
        jobs=SLOW
        | ASKS_ONE_BY_ONE
        | {"sorry": job("iserr"), "crash": job("boom"), "at once": job("slow"), "only as a task": job("ask")},
    ),
    Peer(
        name="ts-sdk 1.32.2",
        version="2025-11-25",
        jobs=SLOW
        | ASKS_ONE_BY_ONE
        | {"sorry": job("iserr"), "crash": job("boom"), "at once": job("effects"), "only as a task": job("ask")},
    ),
    Peer(
        name="server-everything",
        version="2025-11-25",
        jobs={
            "work": job(RESEARCH, topic="x"),
            "long": job(RESEARCH, topic="x"),
            "ask": job(RESEARCH, topic="x", ambiguous=True),
            "at once": job("echo", message="x"),
            "only as a task": job(RESEARCH, topic="x"),
        },
    ),
    Peer(
        name="fastmcp 3.4.11",
        version="2025-11-25",
        in_every_run=True,
        asks_aloud=True,
        finds=Absent,
        jobs=SLOW | ASKS_ONE_BY_ONE | {"sorry": job("sorry"), "at once": job("effects")},
    ),
    _simulated("simulator 2026", "2026-07-28"),
    _simulated("simulator 2026, late", "2026-07-28", cancel=LATE, answered_listed_s=2.0, json_only=True),
    Peer(
        name="fastmcp 4.1.4",
        version="2026-07-28",
        in_every_run=True,
        jobs=SLOW
        | {
            "ask": job("ask"),
            "refuse": job("ask"),
            "rounds": job("rounds"),
            "sorry": job("boom"),
            "crash": job("rpc_error"),
            "at once": job("slow"),
            "ask at once": job("ask_before"),
            "only as a task": job("only_tasks"),
        },
    ),
    Peer(
        name="ts-server 2.4.0",
        version="2026-07-28",
        jobs=SLOW | {"ask": job("ask"), "refuse": job("ask"), "at once": job("effects")},
    ),
    _simulated_aip("simulator AIP-151"),
    _simulated_aip("simulator AIP-151, as grpc-gateway", writes_defaults=True),
    Peer(
        name="functions-emulator",
        version="aip-151",
        unknown_id="operations/8d2a5e8e-0000-4000-8000-000000000000",
        jobs={
            "work": _deploys("report"),
            "long": _deploys("report"),
            "ask": _deploys("report"),
            "crash": _deploys("missing"),
        },
    ),
)


def peer(name):
    """Find a peer by its name."""
    return next(peer for peer in PEERS if peer.name == name)


# What is otherwise --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """What is seen instead (one of these), and what it means."""

    seen: tuple[str, ...]
    why: str


def _deviates(why, peers, **steps):
    """For each of these peers: what is seen in which step, and why."""
    for peer in peers:
        for step, seen in steps.items():
            words = seen if isinstance(seen, tuple) else (seen,)
            yield (peer, step.replace("_", " ")), Deviation(seen=words, why=why)


EARLY = "NeedsInput(no question yet) → NeedsInput"
ALOUD = "Working → Overheard"
AS_A_SECOND = ("BrokenPeer", "Refused(REQUEST)")
DEVIATES: dict[tuple[str, str], Deviation] = dict(
    [
        *_deviates(
            "a tool result that says no, where the contract wants an error: nothing was created all the same",
            [peer.name for peer in PEERS if peer.version == "2025-11-25" and "only as a task" in peer.jobs],
            refused_without_a_task="Ended(failed, result)",
        ),
        *_deviates(
            "it offers no list of tasks, so that a lost submit cannot be looked up (class C)",
            ["simulator 2025, without a list"],
            declares="creates, cancels",
            lost_answer="Refused(ADMIN) → MaybeSent → Refused(ADMIN)",
        ),
        *_deviates(
            "it asks on the standing stream alone, and says `working` while it waits",
            ["simulator 2025, as fastmcp 3", "fastmcp 3.4.11"],
            asked_and_answered_once=f"{ALOUD} → Delivered → Ended(completed)",
            two_rounds=f"{ALOUD} → Delivered → Overheard → Delivered → Ended(completed)",
            declined=f"{ALOUD} → Delivered → Ended(completed) → decline",
            dismissed=f"{ALOUD} → Delivered → Ended(completed) → cancel",
            cancelled_while_asking=f"{ALOUD} → CancelAnswer(cancelled) → Ended(cancelled)",
        ),
        *_deviates(
            "it says `cancelled` of a task that has completed and stays so",
            ["simulator 2025, as fastmcp 3", "fastmcp 3.4.11"],
            cancelled_after_its_end="Working → Ended(completed) → CancelAnswer(cancelled) → Ended(completed)",
        ),
        *_deviates(
            "its results do not say whose they are",
            ["simulator 2025, as fastmcp 3", "fastmcp 3.4.11"],
            result="Working → Ended(completed) → ToolResult",
        ),
        *_deviates(
            "its results do not say whose they are",
            ["simulator 2025, as fastmcp 3"],
            own_error="Working → Ended(failed) → ToolResult(error)",
        ),
        *_deviates(
            "the tool's own error stands under `completed`",
            ["mcp 1.30.0"],
            own_error="Working → Ended(completed) → ToolResult(error, of its task)",
        ),
        *_deviates(
            "a crash is answered with a success that has neither content nor error",
            ["mcp 1.30.0"],
            crash="Working → Ended(failed) → ToolResult(error, of its task)",
        ),
        *_deviates(
            "a task may be born ended, or asking, where the contract wants `working` first",
            ["ts-sdk 1.32.2"],
            own_error="Ended(failed) → Ended(failed) → ToolResult(error, of its task)",
            crash="Ended(failed) → Ended(failed) → ToolResult(error)",
            asked_and_answered_once=f"{EARLY} → Delivered → Ended(completed)",
            two_rounds=f"{EARLY} → Delivered → NeedsInput → Delivered → Ended(completed)",
            declined=f"{EARLY} → Delivered → Ended(completed) → decline",
            dismissed=f"{EARLY} → Delivered → Ended(completed) → cancel",
            cancelled_while_asking=f"{EARLY} → CancelAnswer(cancelled) → Ended(cancelled)",
        ),
        *_deviates(
            "the list that it declares stays empty although the task runs: why a list must prove itself first",
            ["fastmcp 3.4.11"],
            lost_answer="Absent(by key) → MaybeSent → Absent(by key)",
        ),
        *_deviates(
            "a task may be born asking, and shows its questions only to the first look",
            ["ts-server 2.4.0"],
            asked_and_answered_once=f"{EARLY} → Delivered → Ended(completed, result)",
            declined=f"{EARLY} → Delivered → Ended(completed, result) → decline",
            dismissed=f"{EARLY} → Delivered → Ended(completed, result) → cancel",
            answered_twice=f"{EARLY} → Delivered → Delivered → Ended(completed, result)",
            cancelled_while_asking=f"{EARLY} → CancelAnswer → Ended(cancelled)",
        ),
        *_deviates(
            "500 with an empty body for every path that it does not know: cancel, list and tools are not there",
            ["functions-emulator"],
            declares="BrokenPeer",
            cancelled="Working → BrokenPeer → Ended(completed, result)",
            cancelled_after_its_end="Working → Ended(completed, result) → BrokenPeer → Ended(completed, result)",
            unknown_id="Absent → BrokenPeer → NotReady",
        ),
        *_deviates(
            "the request id is ignored: the same request again is refused as a second one, and can never be a lookup",
            ["functions-emulator"],
            lost_answer=tuple(
                f"BrokenPeer → MaybeSent → BrokenPeer → {end}" for end in ("BrokenPeer", "Refused(REQUEST)")
            ),
            sent_twice=tuple(f"Working → {end} → one" for end in ("BrokenPeer", "Refused(REQUEST)")),
        ),
        *_deviates(
            "it remembers its operations, and ends as failed what the restart cut short",
            ["functions-emulator"],
            server_restarted=("Working → Ended(failed, result)", "Working → Ended(completed, result)"),
        ),
    ]
)


def cells():
    """Every step on every peer that it can be tried on."""
    for peer in PEERS:
        for title, step in STEPS.items():
            if step.job in peer.jobs and step.applies(peer.adapter.promises):
                yield peer, title


def expected(peer, title):
    """What may be seen: what is promised, or what is declared instead."""
    deviation = DEVIATES.get((peer.name, title))
    return deviation.seen if deviation else (STEPS[title].promised(peer.adapter.promises),)
