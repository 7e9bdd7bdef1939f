"""What is done for one claimed operation: one deed, from its plan to its ledger step.

Note [Nothing is sent without leave]
A submit, an answer and a cancel each commit a permit first (L4); so does a lookup that sends the
submit's own bytes again. The moment to send is taken before the permit, so that a process that
dies while it waits has not made its send a mystery.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ClassVar, Protocol, TypeVar

from adapters import strictjson
from adapters.contract import (
    Absent,
    Adapter,
    AdapterError,
    Answered,
    BrokenPeer,
    Call,
    CancelAnswer,
    CancelRefused,
    Capabilities,
    Continuation,
    Ended,
    Exchange,
    Handle,
    Lookup,
    NeedsInput,
    NotReady,
    NotSent,
    Observation,
    ProtocolStatus,
    RefusalKind,
    Refused,
    SessionLost,
    Throttled,
    TooLarge,
    ToolResult,
    Wire,
    Working,
    WrongProtocol,
)
from operations import ledger, lookups, pacing
from operations.ledger import Work
from operations.machine import Delivery, Event, Reason, State
from operations.plan import Deed, Means, is_unconfirmed, next_deed
from operations.sending import SendGate

T = TypeVar("T")


class Surroundings(Protocol):
    """What a drive needs of its driver: clock, chance and ledger steps, none of its own."""

    listen: Callable[[Work, Handle], Awaitable[None]]

    def later(self, work: Work, next_at: datetime, *, misses: int, trouble: str = "") -> ledger.Unchanged:
        """The claim brought nothing to write: come again at `next_at`."""
        ...

    def retry_at(self, work: Work) -> datetime:
        """When to try again what brought nothing usable."""
        ...

    def in_budget(self, work: Work, at: datetime) -> datetime:
        """`at`, or the end of the wait budget where that comes before."""
        ...

    def look_at(self, work: Work, *, poll_ms: int | None = None, misses: int = 0) -> datetime:
        """When the next routine look is due."""
        ...

    async def run(self, step: Callable[..., T], /, *args: Any, **named: Any) -> T:  # noqa: ANN401
        """Run one ledger step."""
        ...

    def now(self) -> datetime:
        """The time."""
        ...

    def recovery(self, server: str) -> asyncio.Lock:
        """Held while one lost session of a server is replaced."""
        ...


class Drive:
    """One claim's deed."""

    def __init__(self, driver: Surroundings, work: Work, adapter: Adapter, wire: Wire, gate: SendGate) -> None:
        self._d = driver
        self._work = work
        self._adapter = adapter
        self._wire = wire
        self._gate = gate
        self._op = work.row.id
        self._handle = Handle(session=work.row.session, task_id=work.row.task_id)

    async def do(self) -> ledger.Unchanged | None:
        """Plan and do. None: the ledger step itself has said when to come again."""
        now = self._d.now()
        deed = next_deed(self._work.row, self._means(), now=now)
        if is_unconfirmed(self._work.row, now=now):
            await self._d.run(ledger.state_unconfirmed, self._op, ticket=self._work.ticket, now=self._d.now())
        try:
            return await self._DEEDS[deed](self)
        except AdapterError as error:
            return await self._nothing_usable(error)

    def _means(self) -> Means:
        return lookups.means(self._work, self._adapter.promises)

    def _call(self, *, as_task: bool, continuation: Continuation | None = None) -> Call:
        return Call(
            submission_key=self._work.submission_key,
            tool=self._work.tool,
            arguments=self._work.arguments,
            ttl_ms=self._work.server.task_ttl_s * 1000,
            as_task=as_task,
            within_s=None if as_task else self._work.sync_limit_s,
            continuation=continuation,
            lookup_tool=self._work.server.lookup_tool,
            input_schema=self._work.input_schema,
        )

    async def _step(self, step: Callable[..., T], /, **named: Any) -> T:  # noqa: ANN401
        """Run a ledger step of this operation under this claim's ticket."""
        return await self._d.run(step, self._op, ticket=self._work.ticket, now=self._d.now(), **named)

    async def _nothing_usable(self, error: AdapterError) -> ledger.Unchanged | None:
        """A request that changes nothing brought no observation: wait, and pause the server if it asks."""
        misses = self._work.misses + 1
        if isinstance(error, SessionLost) and self._work.row.state is not State.CANCELLED_ACCEPTED:
            await self._step(ledger.session_lost, exchanges=error.exchanges, next_at=self._d.retry_at(self._work))
            return None
        await self._pause(error)
        if isinstance(error, WrongProtocol) or (isinstance(error, BrokenPeer) and misses == 1):
            # N3, L6: evidence. Of one outage the first answer is enough.
            await self._in_vain(error.reason, error.exchanges)
            return None
        return self._d.later(self._work, self._d.retry_at(self._work), misses=misses, trouble=error.reason)

    async def _in_vain(self, why: str, exchanges: Sequence[Exchange]) -> None:
        await self._step(
            ledger.looked_in_vain,
            why=why,
            exchanges=exchanges,
            misses=self._work.misses + 1,
            next_at=self._d.retry_at(self._work),
        )

    async def _pause(self, error: AdapterError) -> None:
        wait = getattr(error, "retry_after_s", None)
        if isinstance(error, Throttled) and wait is None:
            wait = min(pacing.PAUSE_S, 2.0 ** min(self._work.misses, 5))
        if isinstance(error, Refused) and error.kind is RefusalKind.ADMIN:
            wait = pacing.PAUSE_S
        if wait:
            until = self._d.now() + timedelta(seconds=wait)
            await self._d.run(ledger.pause_server, self._work.server.slug, until=until, reason=error.reason)

    # Submitting ---------------------------------------------------------------------------------

    async def _submit(self) -> ledger.Unchanged | None:
        try:
            declared = await self._open_session()
        except Refused as error:
            await self._refused(error)
            return None
        as_task = await self._as_task(declared)
        if as_task is None:
            return None
        await self._listen()
        call = self._call(as_task=as_task, continuation=await self._d.run(ledger.continuation, self._op))
        permit = uuid.uuid4()
        await self._gate.ahead()
        await self._step(ledger.permit_submit, permit=permit, as_task=as_task, within_s=call.within_s)
        try:
            seen = await self._adapter.submit(self._wire, self._handle, call)
        except (NotSent, Throttled, SessionLost) as error:
            await self._not_sent(permit, error)
            return None
        except Refused as error:
            await self._refused(error, permit)
            return None
        except AdapterError as error:
            await self._step(ledger.submit_lost, why=error.reason, exchanges=error.exchanges)
            return None
        await self._step(ledger.submit_answered, permit=permit, seen=seen, next_at=self._next_at(seen))
        if as_task and Lookup(self._work.server.lookup) in lookups.TRIED_OUT:
            find = partial(self._adapter.find, self._wire, self._handle, call, Lookup(self._work.server.lookup))
            await lookups.try_out(self._work, seen, find=find, run=self._d.run, now=self._d.now())
        return None

    async def _open_session(self) -> Capabilities | None:
        if self._handle.session is not None or not self._adapter.promises.needs_session:
            return None
        if self._work.row.task_id is None:
            return await self._open()
        async with self._d.recovery(self._work.server.slug):
            return await self._open()

    async def _open(self) -> Capabilities:
        opened = await self._adapter.open(self._wire)
        await self._step(ledger.session_opened, opened=opened)
        self._handle = replace(self._handle, session=opened.session)
        return opened.capabilities

    async def _listen(self) -> None:
        if self._work.server.listens:
            await self._d.listen(self._work, self._handle)

    async def _as_task(self, declared: Capabilities | None) -> bool | None:
        """N2: True runs as a task, False under the tool's synchronous limit; None: it was refused."""
        server = self._work.server
        creates = declared.creates_tasks if declared is not None else server.creates_tasks
        if creates and self._work.task_support != "forbidden":
            return True
        if self._work.sync_limit_s is not None:
            return False
        why = "this server runs no tasks" if not creates else f"{self._work.tool} does not run as a task"
        await self._step(ledger.refuse, reason=Reason.NO_TASK_SUPPORT, why=why)
        return None

    async def _not_sent(self, permit: uuid.UUID, error: AdapterError) -> None:
        await self._pause(error)
        await self._step(
            ledger.submit_not_sent,
            permit=permit,
            why=error.reason,
            misses=self._work.misses + 1,
            next_at=self._d.retry_at(self._work),
            exchanges=error.exchanges,
        )
        if isinstance(error, SessionLost):
            await self._step(ledger.session_lost, exchanges=(), next_at=self._d.retry_at(self._work))

    async def _refused(self, error: Refused, permit: uuid.UUID | None = None) -> None:
        if error.kind is not RefusalKind.ADMIN:
            lacks_task = error.kind is RefusalKind.TASK
            await self._step(
                ledger.refuse,
                reason=Reason.NO_TASK_SUPPORT if lacks_task else Reason.REQUEST_REFUSED,
                why=error.reason,
                permit=permit,
                exchanges=error.exchanges,
            )
            return
        await self._pause(error)
        await self._step(
            ledger.nothing_created,
            reason=Reason.ADMIN_REFUSAL,
            why=error.reason,
            permit=permit,
            next_at=self._work.row.budget_ends_at,
            exchanges=error.exchanges,
        )

    async def _declare_lost(self) -> None:
        await self._step(ledger.submit_lost, why="whoever was to send it is gone")

    async def _close_unsent(self) -> None:
        await self._step(ledger.close_unsent)

    async def _find(self) -> ledger.Unchanged | None:
        lookup = Lookup(self._work.server.lookup)
        if lookup is Lookup.SAME_KEY_REPLAY:
            await self._replay()
            return None
        call = self._call(as_task=self._work.as_task)
        asked_at = self._d.now()
        if lookup is Lookup.LOOKUP_TOOL:
            await self._open_session()
        seen = await self._adapter.find(self._wire, self._handle, call, lookup)
        if not isinstance(seen, Absent) or not seen.by_key:
            return await self._apply(seen)  # its task may be gone by now; the call was there (X1)
        row, proves = self._work.row, lookups.proves_absence(self._work, now=self._d.now())
        ends = (row.lost_at or asked_at) + timedelta(seconds=self._work.server.quarantine_s)
        if asked_at < ends or (row.state is State.UNKNOWN and not proves):
            # X2: an early "not there" can be overtaken by a delayed original, however late we hear of it.
            return self._d.later(self._work, self._d.retry_at(self._work), misses=self._work.misses + 1)
        if not proves:
            await self._no_lookup()
            return None
        await self._step(
            ledger.nothing_created,
            reason=Reason.PROVED_ABSENT,
            why=seen.message,
            next_at=self._work.row.budget_ends_at,
            exchanges=seen.exchanges,
        )
        return None

    async def _replay(self) -> None:
        """Send the submit's bytes once more: the server answers with what the key stands for (L4, class A)."""
        continuation, is_whole = None, True
        if self._work.row.round_before_task:
            continuation, is_whole = await self._d.run(ledger.lost_attempt, self._op)
        call = self._call(as_task=self._work.as_task, continuation=continuation)
        permit = uuid.uuid4()
        await self._gate.ahead()
        await self._step(ledger.permit_replay, permit=permit)
        try:
            seen = await self._adapter.find(self._wire, self._handle, call, Lookup.SAME_KEY_REPLAY)
        except AdapterError as error:
            await self._pause(error)
            unsent = isinstance(error, NotSent | Throttled | SessionLost)
            settlement = "not_sent" if unsent else "disproved" if isinstance(error, Refused) else "lost"
            await self._replay_failed(permit, settlement, error.reason, error.exchanges)
            return
        if isinstance(seen, NeedsInput) and seen.task is None and not is_whole:
            # It asked before it did anything; of the attempt that had the answer with it that says nothing.
            await self._replay_failed(permit, "disproved", "it asks what the lost attempt has answered", seen.exchanges)
            return
        await self._step(ledger.submit_answered, permit=permit, seen=seen, next_at=self._next_at(seen))

    async def _replay_failed(self, permit: uuid.UUID, settlement: str, why: str, exchanges: Sequence[Exchange]) -> None:
        await self._step(
            ledger.replay_failed,
            permit=permit,
            settlement=settlement,
            why=why,
            misses=self._work.misses + 1,
            next_at=self._d.retry_at(self._work),
            exchanges=exchanges,
        )

    async def _resubmit(self) -> None:
        await self._step(ledger.resubmit, actor=ledger.EXECUTOR)

    # Looking ------------------------------------------------------------------------------------

    async def _look(self) -> ledger.Unchanged | None:
        return await self._apply(await self._seen())

    async def _seen(self) -> Observation:
        if self._handle.session is None:
            await self._open_session()
        row = self._work.row
        asking = row.round_open or row.answer_delivery is Delivery.STORED
        cancelling = row.cancel_intent or row.state is State.CANCEL_REQUESTED  # C11: no form would follow
        if cancelling or not self._work.server.listens:
            return await self._adapter.look(self._wire, self._handle, expect_question=not (asking or cancelling))
        await self._listen()
        held = await self._d.run(ledger.waiting, self._op)
        expects = not (asking or held.questions)
        return ledger.joined(row, await self._adapter.look(self._wire, self._handle, expect_question=expects), held)

    async def _apply(self, seen: Observation) -> ledger.Unchanged | None:
        misses = self._work.misses + 1 if isinstance(seen, NeedsInput) and not seen.questions else 0
        if ledger.was_unchanged(self._work.row, seen):
            return self._d.later(self._work, self._next_at(seen, misses=misses), misses=misses)
        await self._step(ledger.saw, seen=seen, next_at=self._next_at(seen, misses=misses))
        return None

    def _next_at(self, seen: Observation, *, misses: int = 0) -> datetime:
        row = self._work.row
        still_asks = isinstance(seen, NeedsInput) and row.state is State.INPUT_REQUIRED
        if still_asks and row.round_open and row.round_deadline_at is not None:
            return row.round_deadline_at
        poll_ms = seen.task.poll_ms if isinstance(seen, (Working, NeedsInput)) and seen.task else None
        return self._d.look_at(self._work, poll_ms=poll_ms, misses=misses)

    async def _expire_round(self) -> None:
        await self._step(ledger.expire_round, next_at=self._d.now())

    async def _end_waiting(self) -> None:
        await self._hand_over(Event.BUDGET_ENDED, Reason.BUDGET_ENDED)

    async def _no_lookup(self) -> None:
        await self._hand_over(Event.NO_LOOKUP, Reason.SUBMIT_LOST)

    async def _hand_over(self, event: Event, reason: Reason) -> None:
        gap = pacing.SLOW if self._work.row.task_id or self._means().can_look_up else pacing.PARKED
        await self._step(ledger.hand_to_person, event=event, reason=reason, next_at=self._d.now() + gap)

    async def _wait(self) -> ledger.Unchanged:
        gap = pacing.SLOW if self._means().shut else pacing.PARKED
        parked = self._d.in_budget(self._work, self._d.now() + gap)
        return self._d.later(self._work, parked, misses=0)

    # Answering and cancelling -------------------------------------------------------------------

    async def _deliver(self) -> ledger.Unchanged | None:
        seen = await self._seen()  # I1: one look just before an answer is delivered
        if not isinstance(seen, NeedsInput):
            return await self._apply(seen)
        if seen.questions and not await self._still_asks(seen):
            return await self._apply(seen)  # it asks something else by now (I4)
        again = self._work.row.answer_delivery is Delivery.UNCERTAIN
        if again and (not seen.questions or not await self._d.run(ledger.may_repeat_answer, self._op)):
            return await self._apply(seen)
        replies = await self._d.run(ledger.answer_in_store, self._op)
        permit = uuid.uuid4()
        await self._gate.ahead()
        await self._step(ledger.permit_answer, permit=permit, again=again)
        try:
            delivered = await self._adapter.answer(self._wire, self._handle, replies)
        except (NotSent, Throttled) as error:
            await self._pause(error)
            await self._answer_settled(permit, Delivery.STORED, error.reason, error.exchanges)
        except AdapterError as error:
            await self._answer_settled(permit, Delivery.UNCERTAIN, error.reason, error.exchanges)
        else:
            await self._answer_settled(permit, Delivery.SENT, "", delivered.exchanges)
        return None

    async def _still_asks(self, seen: NeedsInput) -> bool:
        if await self._d.run(ledger.still_asks, self._op, seen.questions):
            return True
        return await self._step(ledger.take_names, questions=seen.questions, exchanges=seen.exchanges)

    async def _answer_settled(
        self, permit: uuid.UUID, delivery: Delivery, why: str, exchanges: Sequence[Exchange]
    ) -> None:
        soon = delivery is Delivery.SENT or (delivery is Delivery.UNCERTAIN and not self._work.misses)
        await self._step(
            ledger.answer_settled,
            permit=permit,
            delivery=delivery,
            why=why,
            misses=0 if delivery is Delivery.SENT else self._work.misses + 1,
            next_at=self._d.now() + pacing.DELIVERY_GAP if soon else self._d.retry_at(self._work),
            exchanges=exchanges,
        )

    async def _doubt_answer(self) -> None:
        await self._step(ledger.answer_in_doubt)

    async def _go_on(self) -> None:
        await self._step(ledger.go_on)

    async def _cancel(self) -> ledger.Unchanged | None:
        row = self._work.row
        if row.cancel_sends:
            seen = await self._seen()
            if row.cancel_acked or not isinstance(seen, Working | NeedsInput):
                return await self._apply(seen)
        permit = uuid.uuid4()
        await self._open_session()
        await self._gate.ahead()
        await self._step(ledger.permit_cancel, permit=permit)
        try:
            answer = await self._adapter.cancel(self._wire, self._handle)
        except AdapterError as error:
            await self._pause(error)
            settlement = "not_sent" if isinstance(error, NotSent | Throttled) else "lost"
            await self._cancel_settled(permit, settlement, why=error.reason, exchanges=error.exchanges)
            return None
        await self._cancel_answered(permit, answer)
        return None

    async def _cancel_answered(self, permit: uuid.UUID, answer: CancelAnswer | CancelRefused) -> None:
        if isinstance(answer, CancelRefused):
            await self._cancel_settled(permit, "answered", why=answer.message, exchanges=answer.exchanges)
        elif self._is_terminal(answer):
            await self._step(ledger.cancel_won, permit=permit, exchanges=answer.exchanges)
        else:
            await self._cancel_settled(permit, "answered", acknowledged=True, why="", exchanges=answer.exchanges)

    def _is_terminal(self, answer: CancelAnswer) -> bool:
        """C2: same task id, status `cancelled`, under a contract where that is evidence."""
        task = answer.task
        return (
            self._adapter.promises.cancel_ack_is_terminal
            and task is not None
            and task.task_id == self._work.row.task_id
            and task.status is ProtocolStatus.CANCELLED
        )

    async def _cancel_settled(
        self,
        permit: uuid.UUID,
        settlement: str,
        *,
        why: str,
        exchanges: Sequence[Exchange],
        acknowledged: bool = False,
    ) -> None:
        soon = acknowledged or (settlement == "answered" and not self._work.misses)
        await self._step(
            ledger.cancel_settled,
            permit=permit,
            settlement=settlement,
            acknowledged=acknowledged,
            why=why,
            misses=0 if acknowledged else self._work.misses + 1,
            next_at=self._d.now() + pacing.DELIVERY_GAP if soon else self._d.retry_at(self._work),
            exchanges=exchanges,
        )

    # The result ---------------------------------------------------------------------------------

    async def _fetch(self) -> ledger.Unchanged | None:
        await self._step(ledger.fetch_started)  # first: a session that never opens ends with a person, too (R2, A6)
        await self._open_session()
        status = ProtocolStatus(self._work.row.terminal_status or "completed")
        try:
            result = await self._adapter.fetch(self._wire, self._handle, status)
        except TooLarge as error:
            await self._unusable(Reason.RESULT_INVALID, (error.reason,), self._d.now() + pacing.PARKED)
            return None
        if isinstance(result, NotReady):
            # R1, X1: the fetch alone decides nothing; what the task now says does.
            seen = await self._seen()
            if isinstance(seen, Ended) and seen.status is status:
                await self._in_vain(result.message, (*result.exchanges, *seen.exchanges))
                return None
            return await self._apply(seen)
        await self._step(ledger.result_fetched, result=result)
        return await self._accept_digest(strictjson.digest(result.raw))

    async def _accept(self) -> ledger.Unchanged | None:
        if self._work.row.state is State.TERMINAL_OBSERVED:
            await self._step(ledger.fetch_started)
        return await self._accept_digest(self._work.row.result_digest)

    async def _accept_digest(self, digest: str | None) -> ledger.Unchanged | None:
        facts = replace(ledger.Facts.held_by(self._work.row), result_digest=digest)
        try:
            await self._step(ledger.accept_result, facts=facts)
        except ledger.ResultRefused as error:
            await self._unusable(Reason.RESULT_INVALID, error.findings, self._d.now() + pacing.PARKED)
        return None

    async def _give_up_fetching(self) -> None:
        findings = (f"{self._work.row.fetches} fetches brought no result",)
        await self._unusable(Reason.RESULT_LOST, findings, self._d.now() + pacing.SLOW)

    async def _unusable(self, reason: Reason, findings: tuple[str, ...], next_at: datetime) -> None:
        await self._step(ledger.result_unusable, reason=reason, findings=findings, next_at=next_at)

    async def _audit(self) -> ledger.Unchanged | None:
        """C2, C7: one look after a won cancel, for the record."""
        seen: Observation | None = None
        late: ToolResult | NotReady | None = None
        try:
            seen = await self._adapter.look(self._wire, self._handle, expect_question=False)
            if isinstance(seen, Ended) and seen.status is not ProtocolStatus.CANCELLED:
                late = await self._adapter.fetch(self._wire, self._handle, seen.status)
        except Throttled:
            raise
        except Answered:
            pass  # the session often ends with the cancel; that is an answer too
        except AdapterError:
            if self._work.misses + 1 < pacing.AUDIT_TRIES:
                raise
        raw = late.raw if isinstance(late, ToolResult) else None
        await self._step(ledger.audited, seen=seen, result=raw)
        return None

    _DEEDS: ClassVar[dict[Deed, Callable[..., Awaitable[ledger.Unchanged | None]]]] = {
        Deed.SUBMIT: _submit,
        Deed.DECLARE_LOST: _declare_lost,
        Deed.CLOSE_UNSENT: _close_unsent,
        Deed.FIND: _find,
        Deed.RESUBMIT: _resubmit,
        Deed.LOOK: _look,
        Deed.EXPIRE_ROUND: _expire_round,
        Deed.DELIVER: _deliver,
        Deed.DOUBT_ANSWER: _doubt_answer,
        Deed.GO_ON: _go_on,
        Deed.CANCEL: _cancel,
        Deed.FETCH: _fetch,
        Deed.ACCEPT: _accept,
        Deed.GIVE_UP_FETCHING: _give_up_fetching,
        Deed.AUDIT: _audit,
        Deed.END_WAITING: _end_waiting,
        Deed.NO_LOOKUP: _no_lookup,
        Deed.WAIT: _wait,
    }
