"""What one run is like: the server, the tool, the people and the trouble, drawn before it begins."""

from dataclasses import dataclass

from adapters.contract import Lookup
from adapters.simulator.scenario import CancelStyle, QuestionStyle
from tests.interleave.place import POLICIES, server_of, tool_name

WIRE = "wire"
"""Through the real adapter, httpx and the bytes of the simulated server."""
DECODED = "decoded"
"""Through an adapter that hands over observations."""

HOT = ("", "tools/call", "tasks/get", "tasks/result", "tasks/cancel", "answer")


@dataclass
class Plan:
    depth: str
    hot: str
    """The method that most trouble strikes."""
    operations: int
    style: str
    """`now`: a cancel's answer is terminal. `later`: it is cooperative, results and questions come with looks."""
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
    jumps: tuple
    restarts: tuple
    switch_at: float | None
    desk_patience: float
    stops_on_decline: bool = True
    theme: str = ""
    first_fate: str = ""
    """What befalls the very first submit."""
    second_after: float = 0.0
    """Seconds after which the second call comes."""
    list_lies: bool = False
    """The server's list lacks its tasks for longer than any honest quarantine."""

    @property
    def server(self):
        return server_of(self.lookup)

    @property
    def tool_name(self):
        return tool_name(self.tool, self.policy)

    @property
    def asks_first(self):
        return self.theme == ASKS_FIRST

    @property
    def honours_keys(self):
        return self.lookup is Lookup.SAME_KEY_REPLAY


def draw(choices, *, depth):
    """Draw a plan. A dull one: one call of one working step, nobody cancels, nothing breaks."""
    decoded = depth == DECODED

    def setup(words, *options):
        return choices.choose("setup", options, words)

    def world(words, *options):
        return choices.choose("world", options, words)

    hot = setup("most trouble at", *HOT)
    operations = setup("operations", 1, 2)
    style = setup("contract", "now", "later") if decoded else "now"
    lookups = [Lookup.NONE, Lookup.SESSION_LIST]
    if decoded:
        lookups += [Lookup.LIST_BY_KEY, Lookup.SAME_KEY_REPLAY]
    lookup = setup("lookup", *lookups)
    # What can be looked up keeps its tasks as long as its profile says: that is what makes it class A or B.
    lives = (None,) if lookup is not Lookup.NONE else (None, 60_000, 15_000, 6_000)
    asks = setup("questions", 0, 1, 2)
    cancel = CancelStyle.HONEST
    works_on = False
    presses = setup("cancel pressed at", (), (2.0,), (0.0,), (0.5, 6.0), (5.0,), (9.0,), (12.0,), (20.0, 21.0), (45.0,))
    if presses:
        styles = (CancelStyle.HONEST, CancelStyle.LIES, CancelStyle.IGNORES, CancelStyle.REFUSES)
        cancel = world("the server's cancel", *styles)
        works_on = bool(world("works on after a cancel", False, True))
    plan = Plan(
        depth=depth,
        hot=hot,
        operations=operations,
        style=style,
        lookup=lookup,
        work=setup("work in s", (3.0,), (), (0.0, 3.0), (2.0, 7.0), (16.0,), (1.0, 1.0, 1.0))
        + ((2.0,) * asks if asks else ()),
        asks=asks,
        effect=bool(setup("has an effect", False, True)),
        end=world("the task ends", "well", "error", "crash", "breaks its schema"),
        tool=world("tool", "long", "plain", "refused"),
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
        jumps=world("clock of worker 2", (), (2.0, 3600.0), (2.0, -3600.0), (6.0, 40.0), (6.0, -40.0)),
        restarts=world("PostgreSQL restarts at", (), (2.5,), (6.5,), (20.0,)),
        switch_at=world("submits are closed for 20 s at", None, 0.0, 3.0),
        desk_patience=setup("the desk waits", 240.0, 60.0, 660.0, 10.0),
        stops_on_decline=bool(setup("a decline", True, False)),
    )
    plan.theme = setup("theme", "", *(name for name in THEMES if decoded or name != ASKS_FIRST))
    if plan.theme:
        plan.tool, plan.declares_tasks = "long", True
        THEMES[plan.theme](plan, setup)
    return plan


def _lose_submit(plan, setup):
    """The first submit is lost, early in a life that has time for every way out."""
    fates = ("answer lost", "request lost", "request hangs, then acts", "connection breaks after the server acted")
    plan.first_fate = setup("the first submit", *fates)
    if plan.depth == DECODED:
        plan.lookup = setup("looked up by", Lookup.LIST_BY_KEY, Lookup.SESSION_LIST, Lookup.SAME_KEY_REPLAY)
        plan.ttl_ms = None
        plan.list_lies = plan.lookup is Lookup.LIST_BY_KEY and bool(setup("the list lies", False, True))
    plan.work += (9.0,)
    plan.budget_s = setup("budget", 150, 90, 300)
    plan.presses = setup("cancel pressed at", (), (5.0,), (11.0,), (80.0,), (120.0,))
    plan.desk_patience = setup("the desk waits", 10.0, 60.0)


def _clash(plan, setup):
    """Two calls are given one task id, the second while the first is anywhere in its life."""
    plan.operations, plan.reuses_ids = 2, True
    plan.hot = setup("most trouble at", "tasks/result", "tools/call", "tasks/get")
    plan.work = setup("work in s", (2.0,), (0.5,), (6.0,))
    plan.second_after = setup("the second call comes after", 3.2, 3.0, 3.6, 0.5, 6.4, 14.0)
    plan.first_fate = setup("the first submit", "", "answer lost", "no connection")


def _contradict(plan, setup):
    """The server takes back an end, and then ends otherwise."""
    plan.hot = "tasks/get"
    plan.work = setup("work in s", (200.0,), (40.0,), (12.0,))
    plan.end = setup("the task ends", "crash", "error", "well")
    plan.budget_s, plan.desk_patience, plan.presses = 600, 660.0, ()


def _ask_first(plan, setup):
    """The server asks before it makes a task."""
    plan.approvers = setup("approvers", ("quick",), ("slow",), ("declines",), ("late",))
    plan.presses = setup("cancel pressed at", (), (1.0,), (0.5,), (2.0,), (9.0,))
    plan.hot = setup("most trouble at", "tools/call", "")
    plan.budget_s = 150


ASKS_FIRST = "asks first"
THEMES = {
    "lost submit": _lose_submit,
    "clash": _clash,
    "contradiction": _contradict,
    ASKS_FIRST: _ask_first,
}
"""What a part of the runs is bent towards: ways that chance alone takes too seldom."""
