"""What each contract promises, step by step, in the words of `adapters.contract`.

A step talks to one server through its adapter and notes each thing that it sees. What the contract promises for it is
made from the adapter's declared `Promises` alone. A server that shows something else deviates: it is named, with what
it shows and why, in `cast.DEVIATES`. So there is one suite for every adapter, every simulated server, every real one.
"""

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from adapters.contract import (
    Absent,
    Action,
    AdapterError,
    Call,
    CancelAnswer,
    Continuation,
    Ended,
    Handle,
    Lookup,
    NeedsInput,
    Overheard,
    Promises,
    ProtocolStatus,
    Refused,
    Reply,
    ToolResult,
)

NOBODY = Handle()
PATIENCE = 20.0  # seconds for a server to get somewhere
WITHOUT_TASK = frozenset({"at once", "ask at once", "only as a task"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """`job`: the kind of tool that it needs. `promised`: what will be seen. `alone`: on a server of its own."""

    job: str
    play: Callable[["Talk"], Awaitable[None]]
    promised: Callable[[Promises], str]
    applies: Callable[[Promises], bool]
    alone: bool


STEPS: dict[str, Step] = {}


def step(*, job, promised, applies=lambda _: True, alone=False):
    """Make a function a step, titled as it is named."""

    def register(play):
        title = play.__name__.replace("_", " ")
        STEPS[title] = Step(job=job, play=play, promised=promised, applies=applies, alone=alone)
        return play

    return register


# The words ----------------------------------------------------------------------------------------


def told(*words):
    """Join what was seen, or what is promised."""
    return " → ".join(word for word in words if word)


def word(seen: Any, handle: Handle = NOBODY) -> str:
    """Name the observation, and of it what the ledger decides by."""
    facts: list[str] = []
    match seen:
        case Refused():
            facts = [seen.kind.value]
        case NeedsInput():
            facts = [] if seen.questions else ["no question yet"]
        case Ended():
            facts = [seen.status.value] + ["result"] * (seen.result is not None)
        case Absent():
            facts = ["by key"] * seen.by_key
        case CancelAnswer():
            facts = [seen.task.status.value] if seen.task is not None else []
        case ToolResult():
            names_it = seen.task_id is not None and seen.task_id == handle.task_id
            facts = ["error"] * seen.is_error + ["of its task"] * names_it
    return type(seen).__name__ + (f"({', '.join(facts)})" if facts else "")


def ended(promises, status=ProtocolStatus.COMPLETED):
    """How an end is promised to look."""
    return f"Ended({status.value}{', result' if promises.result_inline else ''})"


def asked_and_answered(promises, last):
    """How one question is promised to be asked and answered, and how the task then ends."""
    return told("Working", "NeedsInput", "Delivered", ended(promises), last)


def cancel_answer(promises):
    """C2, C5."""
    return "CancelAnswer(cancelled)" if promises.cancel_ack_is_terminal else "CancelAnswer"


# The talk -----------------------------------------------------------------------------------------


class Talk:
    """One operation on one server, and what was seen of it."""

    def __init__(self, peer, place, wire):
        self.peer, self.place, self.wire = peer, place, wire
        self.adapter: Any = peer.adapter  # Any: what a verb brings is what is tested
        self.seen: list[str] = []
        self.handle = Handle()
        self.heard: asyncio.Queue = asyncio.Queue()

    def call(self, kind):
        """Make a call of this kind of tool, under a key of its own."""
        tool, arguments = self.peer.jobs[kind](self.place)
        raw = json.dumps(arguments).encode()
        key = str(uuid.uuid4())
        return Call(submission_key=key, tool=tool, arguments=raw, ttl_ms=60_000, as_task=kind not in WITHOUT_TASK)

    async def note(self, asked):
        """Note what came, be it an error of the contract's tree; give back what is none."""
        try:
            seen = await asked
        except AdapterError as error:
            self.seen.append(word(error))
            return None
        self.seen.append(word(seen, self.handle))
        return seen

    async def open(self):
        if self.adapter.promises.needs_session and self.handle.session is None:
            self.handle = Handle(session=(await self.adapter.open(self.wire)).session)

    async def submit(self, call, *, over=None):
        await self.open()
        seen = await self.note(self.adapter.submit(over or self.wire, self.handle, call))
        if getattr(seen, "task", None) is not None:
            self.handle = replace(self.handle, task_id=seen.task.task_id)
        return seen

    def look(self):
        return self.adapter.look(self.wire, self.handle, expect_question=True)

    async def until(self, kind, look=None, *, but=()):
        """Look until this kind is seen, with a question that is none of `but` where it asks; note it, give it back."""
        deadline, look = time.monotonic() + PATIENCE, look or self.look
        while True:
            await self.place.pass_time()
            seen = await self._quietly(look())
            new = [question for question in getattr(seen, "questions", ()) if question not in but]
            if isinstance(seen, AdapterError) or (isinstance(seen, kind) and (new or kind is not NeedsInput)):
                break
            if time.monotonic() > deadline:
                self.seen.append("for ever")
                break
        self.seen.append(word(seen, self.handle))
        return seen

    async def _quietly(self, asked):
        try:
            return await asked
        except AdapterError as error:
            return error

    async def questions(self, *, but=()):
        """Wait for new questions, wherever this server asks them."""
        if not self.peer.asks_aloud:
            seen = await self.until(NeedsInput, but=but)
            return [question for question in getattr(seen, "questions", ()) if question not in but]
        deadline = time.monotonic() + PATIENCE
        while self.heard.empty() and time.monotonic() < deadline:
            await self.place.pass_time()
        one = self.heard.get_nowait()
        self.seen.append(word(one))
        return [one.question]

    async def answer(self, questions, action=Action.ACCEPT):
        replies = [_reply(question, action) for question in questions]
        await self.note(self.adapter.answer(self.wire, self.handle, replies))

    @contextlib.asynccontextmanager
    async def listening(self):
        """Hold the standing stream of a server that asks there."""
        if not self.peer.asks_aloud:
            yield
            return
        await self.open()

        async def listen(stream):
            async for one in stream.heard():
                if isinstance(one, Overheard):  # a hint is no question (P7)
                    await self.heard.put(one)

        async with self.adapter.listen(self.wire, self.handle, last_event_id="", total_s=PATIENCE) as stream:
            task = asyncio.create_task(listen(stream))
            yield
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _reply(question, action):
    content = json.dumps(_filled_in(question.schema)).encode() if action is Action.ACCEPT else None
    return Reply(key=question.key, action=action, content=content)


def _filled_in(schema):
    """Fill a form in: the first choice of each field, or yes."""
    filled = {}
    for name, field in schema["properties"].items():
        choices = field.get("enum") or [option["const"] for option in field.get("oneOf", ())]
        filled[name] = choices[0] if choices else True
    return filled


async def play(peer, place, title):
    """Play one step; give back what was seen."""
    async with place.wire() as wire:
        talk = Talk(peer, place, wire)
        await STEPS[title].play(talk)
    return told(*talk.seen)


# The steps ----------------------------------------------------------------------------------------


def _lists(promises):
    return bool(promises.lookups & {Lookup.SESSION_LIST, Lookup.LIST_BY_KEY})


@step(job="work", promised=lambda p: f"creates, cancels{', lists' if _lists(p) else ''}")
async def declares(talk):
    """N1, N2: asked before any submit, and nothing is started by it."""
    try:
        told_us = (await talk.adapter.negotiate(talk.wire)).capabilities
    except AdapterError as error:
        talk.seen.append(word(error))
        return
    said = {"creates": told_us.creates_tasks, "cancels": told_us.cancels_tasks, "lists": told_us.lists_tasks}
    talk.seen.append(", ".join(name for name, can in said.items() if can))


@step(
    job="work",
    promised=lambda p: told("Working", ended(p), "ToolResult" if p.result_inline else "ToolResult(of its task)"),
)
async def result(talk):
    """R1: submit, poll, fetch. A result that comes by itself says whose it is."""
    await talk.submit(talk.call("work"))
    await talk.until(Ended)
    await talk.note(talk.adapter.fetch(talk.wire, talk.handle, ProtocolStatus.COMPLETED))


@step(
    job="sorry",
    promised=lambda p: told(
        "Working",
        ended(p, p.tool_error),
        "ToolResult(error)" if p.result_inline else "ToolResult(error, of its task)",
    ),
)
async def own_error(talk):
    """R7: the tool's own error, under the status that the contract has for it."""
    await _to_its_result(talk, "sorry")


@step(job="crash", promised=lambda p: told("Working", ended(p, ProtocolStatus.FAILED), "ToolResult(error)"))
async def crash(talk):
    """R2: the definite answer to the fetch of a failed task is its result."""
    await _to_its_result(talk, "crash")


async def _to_its_result(talk, kind):
    await talk.submit(talk.call(kind))
    await talk.until(Ended)
    status = ProtocolStatus.FAILED if "failed" in talk.seen[-1] else ProtocolStatus.COMPLETED
    await talk.note(talk.adapter.fetch(talk.wire, talk.handle, status))


@step(job="at once", promised=lambda _: "Ended(completed, result)")
async def at_once(talk):
    """N2: a call that wants no task."""
    await talk.submit(talk.call("at once"))


@step(job="only as a task", promised=lambda _: "Refused(ADMIN)")
async def refused_without_a_task(talk):
    """N2: a tool that runs only as a task, called without one: an error, and nothing was created."""
    await talk.submit(talk.call("only as a task"))


@step(
    job="ask",
    promised=lambda p: asked_and_answered(p, "") if p.has_input_rounds else told("Working", "Refused(REQUEST)"),
)
async def asked_and_answered_once(talk):
    """I6: asked, answered, used. A contract without questions takes no answer."""
    async with talk.listening():
        await talk.submit(talk.call("ask"))
        if not talk.adapter.promises.has_input_rounds:
            await talk.answer([])
            return
        await talk.answer(await talk.questions())
        await talk.until(Ended)


@step(
    job="ask at once",
    promised=lambda p: (
        told("NeedsInput", "Ended(completed, result)") if p.input_before_task else "Ended(failed, result)"
    ),
)
async def asked_at_once(talk):
    """I3, N2: asked by a call without a task: it goes on with the answers, or hears that nobody can be asked."""
    call = talk.call("ask at once")
    seen = await talk.submit(call)
    if isinstance(seen, NeedsInput):
        replies = tuple(_reply(question, Action.ACCEPT) for question in seen.questions)
        goes_on = Continuation(number=1, state=seen.continuation_state, replies=replies)
        await talk.submit(replace(call, continuation=goes_on))


@step(
    job="rounds",
    applies=lambda p: p.has_input_rounds,
    promised=lambda p: told("Working", "NeedsInput", "Delivered", "NeedsInput", "Delivered", ended(p)),
)
async def two_rounds(talk):
    """I4: the second is another question, by its key or its digest."""
    async with talk.listening():
        await talk.submit(talk.call("rounds"))
        first = await talk.questions()
        await talk.answer(first)
        await talk.answer(await talk.questions(but=first))
        await talk.until(Ended)


@step(job="refuse", applies=lambda p: p.has_input_rounds, promised=lambda p: asked_and_answered(p, "decline"))
async def declined(talk):
    """I5."""
    await _says(talk, Action.DECLINE)


@step(job="refuse", applies=lambda p: p.has_input_rounds, promised=lambda p: asked_and_answered(p, "cancel"))
async def dismissed(talk):
    """I5: not the same as declined."""
    await _says(talk, Action.DISMISS)


async def _says(talk, action):
    async with talk.listening():
        await talk.submit(talk.call("refuse"))
        await talk.answer(await talk.questions(), action)
        await talk.until(Ended)
        fetched = await talk.adapter.fetch(talk.wire, talk.handle, ProtocolStatus.COMPLETED)
    talk.seen += [action.value for action in Action if action.value.encode() in fetched.raw]


@step(
    job="ask",
    applies=lambda p: p.answers_repeatable,
    promised=lambda p: told("Working", "NeedsInput", "Delivered", "Delivered", ended(p)),
)
async def answered_twice(talk):
    """I7: the identical answer again is harmless."""
    await talk.submit(talk.call("ask"))
    questions = await talk.questions()
    for _ in range(2):
        await talk.answer(questions)
    await talk.until(Ended)


@step(job="long", promised=lambda p: told("Working", cancel_answer(p), "Ended(cancelled)"))
async def cancelled(talk):
    """C2, C5: the acknowledgement is evidence in one contract, and a courtesy in the others."""
    await talk.submit(talk.call("long"))
    await _cancel(talk)
    await talk.until(Ended)


@step(
    job="ask",
    applies=lambda p: p.has_input_rounds,
    promised=lambda p: told("Working", "NeedsInput", cancel_answer(p), "Ended(cancelled)"),
)
async def cancelled_while_asking(talk):
    """B194."""
    async with talk.listening():
        await talk.submit(talk.call("ask"))
        await talk.questions()
        await _cancel(talk)
        await talk.until(Ended)


@step(
    job="work",
    promised=lambda p: told(
        "Working", ended(p), "CancelRefused" if p.cancel_ack_is_terminal else "CancelAnswer", ended(p)
    ),
)
async def cancelled_after_its_end(talk):
    """C3: the terminal is never rewritten."""
    await talk.submit(talk.call("work"))
    await talk.until(Ended)
    await _cancel(talk)
    await talk.until(Ended)


async def _cancel(talk):
    await talk.note(talk.adapter.cancel(talk.wire, talk.handle))


@step(job="work", promised=lambda _: told("Absent", "CancelRefused", "NotReady"))
async def unknown_id(talk):
    """X1: absent, and no more."""
    await talk.open()
    talk.handle = replace(talk.handle, task_id=talk.peer.unknown_id)
    await talk.note(talk.look())
    await _cancel(talk)
    await talk.note(talk.adapter.fetch(talk.wire, talk.handle, ProtocolStatus.COMPLETED))


def _found_again(promises):
    lookups = _lookups(promises)
    before = "Absent(by key)" if lookups[0] in _HARMLESS else ""
    after = ("Refused(ADMIN)" if lookup is Lookup.NONE else "Working" for lookup in lookups)
    return told(before, "MaybeSent", *after)


_HARMLESS = (Lookup.SESSION_LIST, Lookup.LIST_BY_KEY)


def _lookups(promises):
    """What to ask by, the harmless ones first: a replay is a write."""
    known = [*_HARMLESS, Lookup.SAME_KEY_REPLAY]
    return [lookup for lookup in known if lookup in promises.lookups] or [Lookup.NONE]


@step(job="long", promised=_found_again)
async def lost_answer(talk):
    """F1, L4: found by each lookup that the contract could offer, and by none that it could not."""
    await talk.open()
    call, (first, *_) = talk.call("long"), _lookups(talk.adapter.promises)

    def find(lookup):
        return talk.adapter.find(talk.wire, talk.handle, call, lookup)

    if first in _HARMLESS:
        await talk.note(find(first))
    async with talk.place.losing_answers() as unlucky:
        await talk.submit(call, over=unlucky)
    for lookup in _lookups(talk.adapter.promises):
        await talk.until(talk.peer.finds, lambda lookup=lookup: find(lookup))


@step(
    job="long",
    promised=lambda p: told("Working", "Working", "one" if Lookup.SAME_KEY_REPLAY in p.lookups else "two"),
)
async def sent_twice(talk):
    """X2, A5: the same bytes again are one task only where the contract has a key. Why nothing is resent blindly."""
    call = talk.call("long")
    ids = {seen.task.task_id for _ in range(2) if (seen := await talk.submit(call)) is not None}
    talk.seen.append({1: "one", 2: "two"}[len(ids)])


@step(
    job="long",
    alone=True,
    promised=lambda p: told("Working", "SessionLost" if p.needs_session else "", "Absent"),
)
async def server_restarted(talk):
    """B106, X1, F9: what a server without a memory says of a task that it had; it proves nothing."""
    await talk.submit(talk.call("long"))
    await talk.place.restart()
    async with talk.place.wire() as talk.wire:
        await talk.note(talk.look())
        if talk.adapter.promises.needs_session:
            task_id, talk.handle = talk.handle.task_id, Handle()
            await talk.open()
            talk.handle = replace(talk.handle, task_id=task_id)
            await talk.note(talk.look())
