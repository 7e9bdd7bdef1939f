"""What one run is like: the server, the tool, the people and the trouble, drawn before it begins."""

from dataclasses import dataclass, field

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
    notes: list = field(default_factory=list)

    @property
    def server(self):
        return server_of(self.lookup)

    @property
    def tool_name(self):
        return tool_name(self.tool, self.policy)

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
    return Plan(
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
