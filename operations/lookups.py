"""What a lookup of a lost submit can prove, and the proof that it can (L4, X2).

Plain MCP is class C: no key is honoured. The list of an operation's own session, or a tool of the server
that looks our key up, makes a server class B, but only where it was seen to work: a server may declare
the list and leave it empty, run a call at once although a task was asked for, or offer a tool that knows
nothing. So the silence of both counts only after a submit of ours that was answered showed up there, and
no longer once anything spoke against that.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import lru_cache

from adapters.contract import Absent, AdapterError, Lookup, Observation, Promises
from operations import ledger
from operations.ledger import Work
from operations.plan import Means
from operations.sending import StepRunner

PROOF_AGE = timedelta(days=1)
"""How old a proof gets before the next submit makes it again: a server may be replaced without a word."""

TRIED_OUT = frozenset({Lookup.SESSION_LIST, Lookup.LOOKUP_TOOL})
"""Lookups whose silence counts only where they were seen to speak."""

log = logging.getLogger(__name__)


def means(work: Work, promises: Promises) -> Means:
    """Return what server and contract offer for one operation."""
    server = work.server
    match server.lookup:
        case Lookup.SESSION_LIST:
            # N2: what is not declared is not asked for.
            is_there = work.row.session is not None and server.lists_tasks is not False
        case Lookup.LOOKUP_TOOL:
            is_there = bool(server.lookup_tool)
        case lookup:
            is_there = lookup != Lookup.NONE
    replays = server.lookup == Lookup.SAME_KEY_REPLAY
    # A call that ran without a task stands in no list of tasks: its absence there proves nothing (X2).
    in_reach = work.as_task or replays
    return _means(
        can_look_up=is_there and in_reach and server.lookup in promises.lookups,
        replays=replays,
        shut=replays and not work.row.submits_open,
        window_s=server.key_window_s,
        ttl_s=server.task_ttl_s,
        repeats=promises.answers_repeatable,
    )


@lru_cache(maxsize=1024)
def _means(*, can_look_up: bool, replays: bool, shut: bool, window_s: int, ttl_s: int, repeats: bool) -> Means:
    """One for all operations that are alike: it is asked for with every look."""
    return Means(
        can_look_up=can_look_up,
        replays=replays,
        key_window=timedelta(seconds=window_s),
        shut=shut,
        listed=timedelta(seconds=ttl_s),
        repeats_answers=repeats,
    )


def proves_absence(work: Work, *, now: datetime) -> bool:
    """Whether "not there", heard by `now`, is a proof that nothing was created (X2).

    Never once a task that the first submit made may have been forgotten, as its server was asked to.
    """
    server, sent_at = work.server, work.row.first_sent_at
    speaks = Lookup(server.lookup) not in TRIED_OUT or server.lookup_proved_at is not None
    return speaks and (sent_at is None or now < sent_at + timedelta(seconds=server.task_ttl_s))


async def try_out(
    work: Work,
    seen: Observation,
    *,
    find: Callable[[], Awaitable[Observation]],
    run: StepRunner,
    now: datetime,
) -> None:
    """Hold the lookup against a submit whose answer we have. Never raises an AdapterError."""
    server, task_id = work.server, None if isinstance(seen, Absent) or seen.task is None else seen.task.task_id
    if task_id is None and server.lookup == Lookup.SESSION_LIST:
        # On such a server a lost call may be running with no task to stand in a list.
        await run(ledger.lookup_disproved, server.slug, why=f"{work.tool} ran at once, although a task was asked for")
        return
    proved_at = server.lookup_proved_at
    if server.lookup_disproved or (proved_at is not None and now < proved_at + PROOF_AGE):
        return
    try:
        found = await find()
    except AdapterError as error:
        log.info("lookup not proved", extra={"operation": work.row.id, "why": error.reason})
        return
    if not isinstance(found, Absent) and found.task is not None and found.task.task_id == task_id:
        await run(ledger.lookup_proved, server.slug, now=now)
    else:
        await run(ledger.lookup_disproved, server.slug, why=_DISPROOFS[Lookup(server.lookup)])


_DISPROOFS = {
    Lookup.SESSION_LIST: "a new task did not show up in the list of its session",
    Lookup.LOOKUP_TOOL: "the lookup tool did not know a call that the server had just answered",
}
