"""What one run is like: the server, the tool, the people and the trouble, drawn before it begins."""

from dataclasses import dataclass, field

from adapters.contract import Lookup
from adapters.simulator.scenario import CancelStyle, QuestionStyle
from tests.interleave.place import LOOKUP_TOOL, POLICIES, server_of, tool_name

WIRE = "wire"
"""Through the real adapter, httpx and the bytes of the simulated server."""
DECODED = "decoded"
"""Through an adapter that hands over observations."""

NOW, LATER = "now", "later"
"""Decoded contracts. A cancel's answer is terminal; or it is cooperative, and results and questions come with looks."""
MCP_2025, MCP_2026, AIP_151 = "2025-11-25", "2026-07-28", "aip-151"
"""What goes through the bytes."""
CONTRACTS = {DECODED: (NOW, LATER), WIRE: (MCP_2025, MCP_2026, AIP_151)}
_EVERY_LOOKUP = (Lookup.NONE, Lookup.SESSION_LIST, Lookup.LIST_BY_KEY, Lookup.SAME_KEY_REPLAY)
LOOKUPS = {
    NOW: _EVERY_LOOKUP,
    LATER: _EVERY_LOOKUP,
    MCP_2025: (Lookup.NONE, Lookup.SESSION_LIST, Lookup.LOOKUP_TOOL),
    MCP_2026: (Lookup.NONE, Lookup.LOOKUP_TOOL),
    AIP_151: (Lookup.LIST_BY_KEY, Lookup.SAME_KEY_REPLAY, Lookup.NONE),
}

HOT = ("", "tools/call", "tasks/get", "tasks/result", "tasks/cancel", "answer")


@dataclass
class Plan:
    depth: str
    hot: str
    """The method that most trouble strikes."""
    operations: int
    contract: str
    lookup: Lookup
    work: tuple
    asks: int
    effect: bool
    end: str
    tool: str
    ttl_ms: int | None
    poll_ms: int
    budget_s: int
    answer_within_s: int
    policy: str
    cancel: CancelStyle
    works_on: bool
    questions: QuestionStyle
    reuses_ids: bool
    declares_tasks: bool
    approvers: tuple
    presses: tuple
    rollbacks: tuple
    stays_shut_s: float
    """How long a rollback keeps new calls out."""
    jumps: tuple
    restarts: tuple
    switch_at: float | None
    desk_patience: float
    stops_on_decline: bool = True
    theme: str = ""
    first: dict = field(default_factory=dict)
    """What befalls the first requests and steps of a kind, in their order: "tools/call" on its way, "tools/call is
    answered" at the server, "fetch_started" in a worker. "" spoils nothing."""
    second_after: float = 0.0
    """Seconds after which the second call comes."""
    list_lies: bool = False
    """The server's list lacks its tasks for longer than any honest quarantine."""
    desk_errs: bool = False
    """The desk takes the other call's task for the first one's."""

    @property
    def server(self):
        return server_of(self.lookup, is_aip=self.contract == AIP_151)

    @property
    def tool_name(self):
        return tool_name(self.tool, self.policy)

    @property
    def is_cooperative(self):
        """C5: a cancel's acknowledgement is no evidence."""
        return self.contract in {LATER, MCP_2026, AIP_151}

    @property
    def can_cancel(self):
        return self.cancel is not CancelStyle.REFUSES

    def next_of(self, kind):
        """Take what befalls the next of this kind; None: that is left to chance."""
        left = self.first.get(kind)
        if not left:
            return None
        self.first[kind] = left[1:]
        return left[0]

    @property
    def asks_first(self):
        return self.theme == ASKS_FIRST

    @property
    def honours_keys(self):
        return self.lookup is Lookup.SAME_KEY_REPLAY


def draw(choices, *, depth):
    """Draw a plan. A dull one: one call of one working step, nobody cancels, nothing breaks."""

    def setup(words, *options):
        return choices.choose("setup", options, words)

    def world(words, *options):
        return choices.choose("world", options, words)

    hot = setup("most trouble at", *HOT)
    operations = setup("operations", 1, 2)
    contract = setup("contract", *CONTRACTS[depth])
    lookup = setup("lookup", *LOOKUPS[contract])
    # What can be looked up keeps its tasks as long as its profile says: that is what makes it class A or B.
    lives = (None,) if lookup is not Lookup.NONE else (None, 60_000, 15_000, 6_000)
    asks = 0 if contract == AIP_151 else setup("questions", 0, 1, 2)
    cancel = CancelStyle.HONEST
    works_on = False
    presses = setup("cancel pressed at", (), (2.0,), (0.0,), (0.5, 6.0), (5.0,), (9.0,), (12.0,), (20.0, 21.0), (45.0,))
    if presses:
        cancel = world("the server's cancel", *CancelStyle)
        works_on = bool(world("works on after a cancel", False, True))
    plan = Plan(
        depth=depth,
        hot=hot,
        operations=operations,
        contract=contract,
        lookup=lookup,
        work=setup("work in s", (3.0,), (), (0.0, 3.0), (2.0, 7.0), (16.0,), (1.0, 1.0, 1.0))
        + ((2.0,) * asks if asks else ()),
        asks=asks,
        effect=bool(setup("has an effect", False, True)),
        end=world("the task ends", "well", "error", "crash", "breaks its schema"),
        tool=world("tool", "long", *(() if contract == AIP_151 else ("plain", "refused"))),
        ttl_ms=world("time to live", *lives),
        poll_ms=setup("poll interval", 3000, 6000, 1000),
        budget_s=setup("budget", 60, 150, 25, 12),
        answer_within_s=setup("answer within", 40, 8, 300),
        policy=setup("policy", *POLICIES),
        cancel=cancel,
        works_on=works_on,
        questions=world("questions are", *QuestionStyle),
        reuses_ids=operations == 2 and bool(world("ids are reused", False, True)),
        declares_tasks=not world("no task support", False, *((True,) if hot == "" else ())),
        approvers=setup(
            "approvers", ("quick",), ("quick", "slow"), ("slow",), (), ("declines",), ("quick", "quick"), ("late",)
        )
        if asks
        else (),
        presses=presses,
        rollbacks=world("rolled back at", (), (3.0,), (7.0,), (1.0, 15.0), (30.0,)),
        stays_shut_s=0.0,
        jumps=world("clock of worker 2", (), (2.0, 3600.0), (2.0, -3600.0), (6.0, 40.0), (6.0, -40.0)),
        restarts=world("PostgreSQL restarts at", (), (2.5,), (6.5,), (20.0,)),
        switch_at=world("submits are closed for 20 s at", None, 0.0, 3.0),
        desk_patience=setup("the desk waits", 240.0, 60.0, 660.0, 10.0),
        stops_on_decline=bool(setup("a decline", True, False)),
    )
    if plan.rollbacks:
        plan.stays_shut_s = setup("a rollback keeps calls out for", 0.0, 15.0)
    plan.theme = setup("theme", "", *(name for name in THEMES if name != ASKS_FIRST or contract in _CAN_ASK_FIRST))
    if plan.theme:
        plan.tool, plan.declares_tasks = "long", True
        THEMES[plan.theme](plan, setup)
    return plan


def _lose_submit(plan, setup):
    """The first submit is lost, early in a life that has time for every way out."""
    fates = ("answer lost", "request lost", "request hangs, then acts", "connection breaks after the server acted")
    fate = setup("the first submit", *fates, "answer slow", "answer slow")
    plan.first["tools/call"] = (fate,)
    if plan.depth == DECODED:
        plan.lookup = setup("looked up by", Lookup.LIST_BY_KEY, Lookup.SESSION_LIST, Lookup.SAME_KEY_REPLAY)
    elif plan.lookup is Lookup.NONE:
        plan.lookup = LOOKUPS[plan.contract][1]
    plan.ttl_ms = None
    plan.work += (9.0,)
    plan.budget_s = setup("budget", 150, 90, 300)
    pressed = ((1.0,), (2.0,)) if fate == "answer slow" else ((), (5.0,), (11.0,), (80.0,), (120.0,))
    plan.presses = setup("cancel pressed at", *pressed)
    plan.desk_patience = setup("the desk waits", 10.0, 60.0)
    for method in ("tasks/list", LOOKUP_TOOL):
        plan.first[f"{method} is answered"] = (setup("the first lookup", "", "the list lags behind"),)
    if plan.depth == DECODED and plan.lookup is Lookup.LIST_BY_KEY:
        plan.list_lies = bool(setup("the list lies", False, True))
    if plan.list_lies:  # what was proved absent must still be at work when it turns up
        plan.work, plan.poll_ms = (setup("work in s", 400.0, 100.0),), 20_000


def _clash(plan, setup):
    """Two calls are given one task id, the second while the first is anywhere in its life."""
    plan.operations, plan.reuses_ids = 2, True
    plan.hot = setup("most trouble at", "tasks/result", "tools/call", "tasks/get")
    plan.work = setup("work in s", (2.0,), (0.5,), (6.0,), (40.0,))
    plan.second_after = setup("the second call comes after", 3.2, 3.0, 3.6, 0.5, 6.4, 14.0)
    plan.first["tools/call"] = setup(
        "the first submits", (), ("answer lost",), ("no connection",), ("", "answer lost"), ("", "request lost")
    )
    if plan.first["tools/call"][:1] == ("",) and plan.lookup is Lookup.NONE:
        plan.lookup, plan.ttl_ms = LOOKUPS[plan.contract][1], None
    plan.first |= setup(
        "the first fetch", {}, {"tasks/result": ("request lost",)}, {"fetch_started": ("asleep 5 s", "asleep 5 s")}
    )
    plan.presses = setup("cancel pressed at", (), (2.0,), (1.0,), (3.0,))
    if not plan.first.keys() <= {"tools/call"}:  # the second call comes while the first one's result is fetched
        plan.work, plan.second_after, plan.presses, plan.first["tools/call"] = (2.0,), 4.5, (), ()
    elif plan.presses:
        plan.cancel = setup("the server's cancel", CancelStyle.IGNORES, CancelStyle.LATE)
        plan.work = (40.0,)


def _contradict(plan, setup):
    """The server takes back an end, and then ends otherwise."""
    plan.hot = "tasks/get"
    work = setup("work in s", 900.0, 200.0, 40.0, 12.0)
    plan.work, plan.poll_ms = (work,), 20_000 if work > 100 else plan.poll_ms
    plan.end = setup("the task ends", "crash", "error", "well")
    early = "failed by mistake" if plan.end == "well" else "completed too early"
    plan.first["tasks/get is answered"] = (setup("the first look", early, "an older answer repeated", ""),)
    if plan.first["tasks/get is answered"] == (early,):
        plan.hot = ""
    plan.budget_s, plan.desk_patience, plan.presses = 1500, 660.0, ()


def _ask_first(plan, setup):
    """The server asks before it makes a task."""
    plan.approvers = setup("approvers", ("quick",), ("slow",), ("declines",), ("late",))
    plan.presses = setup("cancel pressed at", (), (1.0,), (0.5,), (2.0,), (9.0,))
    plan.hot = setup("most trouble at", "tools/call", "")
    plan.budget_s = 150


def _refuse_first(plan, setup):
    """The first submit is refused in a way that an admin can repair, and people look into it."""
    plan.first["tools/call is answered"] = ("401",)
    plan.budget_s = setup("budget", 150, 300, 20)
    plan.presses = setup("cancel pressed at", (), (5.0,), (30.0,))
    plan.desk_patience = setup("the desk waits", 10.0, 3.0, 60.0)
    if plan.budget_s == 20:  # our waiting ends before anybody looks into it
        plan.presses, plan.desk_patience = ((70.0,), 240.0)
        return
    plan.desk_errs = bool(setup("the desk takes another task for it", False, True))
    if plan.desk_errs:
        plan.operations, plan.reuses_ids, plan.work, plan.presses = 2, False, (40.0,), ()
        plan.first["tools/call"] = ("", setup("the second submit", "answer very slow", "answer lost"))
        plan.first["tools/call is answered"] = ("401", "")


def _cancel_in_vain(plan, setup):
    """The server goes on in spite of a cancel, longer than anybody waits, or until it has forgotten the task."""
    plan.cancel, plan.presses, plan.end = CancelStyle.IGNORES, ((5.0,)), "well"
    plan.work, plan.poll_ms, plan.budget_s = (2000.0,), 60_000, 60
    if plan.lookup is Lookup.NONE:
        plan.ttl_ms = setup("time to live", None, 15_000, 60_000)


ASKS_FIRST = "asks first"
_CAN_ASK_FIRST = frozenset({NOW, LATER, MCP_2026})
THEMES = {
    "lost submit": _lose_submit,
    "clash": _clash,
    "contradiction": _contradict,
    ASKS_FIRST: _ask_first,
    "refused at first": _refuse_first,
    "cancel in vain": _cancel_in_vain,
}
"""What a part of the runs is bent towards: ways that chance alone takes too seldom."""
