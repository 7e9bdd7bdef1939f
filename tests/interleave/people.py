"""The people and the call node of a run: they read, think, and act on what may be old by then."""

import asyncio
import json
import uuid

from django.db import DatabaseError, InterfaceError, connection

from operations import ledger, outbox
from operations.machine import State, StepError
from operations.verdicts import Verdict
from tests.approvers import everybody
from tests.interleave.lines import LOST_AFTER, LOST_BEFORE, Plan
from tests.interleave.place import PROTOCOL
from tests.operations.room import fence_off

THINKING = {"quick": 1.0, "slow": 7.0, "late": 70.0, "declines": 2.0}
BEFORE_A_PERSON = frozenset({State.SUBMISSION_UNKNOWN, State.UNKNOWN, State.NOT_FOUND_SAFE})
TRIES = 6
_WISHES = (Verdict.GAVE_UP, Verdict.FOUND, Verdict.EVIDENCED, Verdict.ESTABLISHED_OUTSIDE)
_WISHES_OF_ABSENT = (Verdict.RESUBMIT, Verdict.NEVER_CREATED, Verdict.FOUND)


def _note(now):
    return ledger.Note(by="person:axel", reason="chosen", now=now)


def _roll_back(*, now):
    """Roll the version back, whatever epoch it has reached; return the new one (O3)."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT epoch FROM protocol_version WHERE version = %s", [PROTOCOL])
        (seen,) = cursor.fetchone()
    return ledger.roll_back(PROTOCOL, seen_epoch=seen, known=("r1",), in_flight=0, note=_note(now)).epoch


def _let_in(*, now):
    """Let new calls in again, under the epoch that the rollback has left."""
    ledger.set_share(PROTOCOL, "r1", share=100, note=_note(now))
    ledger.set_submits("protocol", PROTOCOL, is_open=True, reason="", note=_note(now))


class People:
    """Everybody who is not a worker, on one connection of the web."""

    def __init__(self, run):
        self._run = run
        self.forms = {}
        """Form id -> what the ledger took of that the ledger took."""
        self.presses = {}
        """Operation -> seconds of its first press that the ledger took."""
        self.misled = set()
        """Nodes whose operation the desk has bound to another call's task."""
        self.receipts = {}
        """Operation -> receipt ids that its call node was handed."""

    async def step(self, who, function, /, *args, **named):
        """Run one ledger call of a person. Raises what it raises; a lost connection too."""
        run = self._run
        words = f"{who} {function.__name__}{run.about(args)}"
        await run.loop.point(words)
        plan = None
        if run.faults_on:
            fate = run.choices.choose("step", ("", LOST_BEFORE, LOST_AFTER), f"{run.at()} {words}")
            plan = Plan(fate) if fate else None
        try:
            given = run.place.people.run(function, *args, plan=plan, **named)
        except Exception as error:
            run.loop.note(f"{words}: {type(error).__name__}")
            raise
        finally:
            if plan is not None and plan.fired:
                run.count(plan.fault, operation=args[0] if args and isinstance(args[0], str) else None)
        run.loop.note(words)
        run.changed.set()
        return given

    async def patiently(self, who, function, /, *args, **named):
        """Try again after a lost connection, as somebody does who saw an error page. None: it was refused."""
        for _ in range(TRIES):
            try:
                return await self.step(who, function, *args, **named)
            except (ledger.LedgerError, StepError):
                return None
            except (DatabaseError, InterfaceError):
                await asyncio.sleep(1.0)
        return None

    # The call node --------------------------------------------------------------------------------

    def call_of(self, node):
        run = self._run
        return ledger.NewCall(
            client=run.prefix,
            call_node=node,
            submission_key=f"key-{run.prefix}-{node}",
            server=run.plan.server,
            tool=run.plan.tool_name,
            arguments=json.dumps({"node": node}).encode(),
            principal="ann",
            budget_s=run.plan.budget_s,
        )

    async def submit(self, node, *, wait=0.0):
        """Submit the call of one node, again after every lost answer: the same call, the same operation."""
        run = self._run
        if wait:
            await asyncio.sleep(wait)
        again = run.choices.pick(2, "people", f"{node} submits twice")
        for _ in range(1 + again):
            made = await self.patiently(node, ledger.submit, self.call_of(node), now=run.now())
            if made is not None:
                run.knows(made.operation, node)

    async def collect(self):
        """Pull every receipt, and acknowledge it after the second time."""
        run = self._run
        for _ in range(2):
            rows = await self.patiently("call node", outbox.pull, run.prefix, after=0, limit=10, now=run.now())
            for row in rows or ():
                self.receipts.setdefault(str(row.operation), set()).add(str(row.receipt))
        receipts = [receipt for several in self.receipts.values() for receipt in several]
        await self.patiently("call node", ledger.acknowledge, client=run.prefix, receipts=receipts, now=run.now())

    # Approvers ------------------------------------------------------------------------------------

    async def approve(self, who, temper, node):
        """Answer every round of one operation, from the page as it was when it was opened."""
        run = self._run
        answered, read_at = 0, -1
        while True:
            operation = await run.stands_in(node, {State.INPUT_REQUIRED})
            if operation is None:
                return
            if read_at == run.place.writes:
                await asyncio.sleep(2.0)
                continue
            read_at = run.place.writes
            asked = run.place.observer.ask(
                """SELECT number, request_digest, questions, operation_id::text FROM input_round
                WHERE operation_id = %s ORDER BY number DESC LIMIT 1""",
                [operation],
            )
            number, digest, questions, _ = asked[0]
            if isinstance(questions, str):
                questions = json.loads(questions)
            if number == answered:
                await asyncio.sleep(2.0)
                continue
            answered = number
            if run.choices.pick(2, "people", f"{who} opens the page"):
                await self.patiently(who, ledger.open_round_page, operation, round=number, now=run.now())
            await asyncio.sleep(THINKING[temper] + run.choices.choose("people", (0.0, 3.0, 9.0)))
            await self._post(who, temper, operation, (number, digest, questions))

    async def _post(self, who, temper, operation, page):
        run, (number, digest, questions) = self._run, page
        form = uuid.uuid4()
        label = f"{who}-{number}"
        action = "decline" if temper == "declines" else "accept"
        replies = [
            ledger.GivenReply(
                key=question["key"],
                action=action,
                content=json.dumps({"k": question["message"], "form": label}) if action == "accept" else None,
            )
            for question in questions
        ]
        for _ in range(1 + run.choices.pick(2, "people", f"{who} sends the form twice")):
            recorded = await self.patiently(
                who,
                ledger.answer_round,
                operation,
                round=number,
                request_digest=digest,
                as_shown_digest="0" * 64,
                form_id=form,
                replies=replies,
                people=everybody,
                by=f"person:{who}",
                now=run.now(),
            )
            if recorded is not None:
                self.forms[label, operation] = number

    # Operators ------------------------------------------------------------------------------------

    async def press_cancel(self, at, node):
        """Press cancel at a moment, on a page that may be some seconds old."""
        run = self._run
        await asyncio.sleep(at)
        operation = run.operation_of(node)
        if operation is None:
            return
        seen = run.place.observer.ask("SELECT cancel_generation FROM operation WHERE id = %s", [operation])[0][0]
        await asyncio.sleep(run.choices.choose("people", (0.0, 0.5, 2.0, 8.0)))
        await self._press(operation, seen_generation=seen)

    async def _press(self, operation, *, seen_generation):
        run = self._run
        pressed = await self.patiently(
            "olga",
            ledger.request_cancel,
            operation,
            seen_generation=seen_generation,
            can_cancel=run.plan.can_cancel,
            by="person:olga",
            reason="chosen",
            now=run.now(),
        )
        if pressed is not None and pressed.press is not ledger.Press.NO_CANCEL:
            self.presses.setdefault(operation, run.loop.time())

    async def clear_desk(self, node):
        """Take every operation off the desk in time: look again, then a verdict, with a second person."""
        run = self._run
        while True:
            operation = await run.stands_in(node, BEFORE_A_PERSON)
            if operation is None:
                return
            version = self._standing(operation)[1]
            await asyncio.sleep(run.plan.desk_patience)
            if run.choices.pick(2, "people", "the desk looks again"):
                await self.patiently("olga", ledger.look_now, operation, by="person:olga", now=run.now())
                await asyncio.sleep(20.0)
            state, seen_version, *rest = self._standing(operation)
            if state not in BEFORE_A_PERSON:
                continue
            if run.faults_on and run.choices.pick(2, "people", "the desk's page is old"):
                seen_version = version
            await self._rule(operation, node, state, seen_version, *rest)

    async def _rule(self, operation, node, state, seen_version, can_resubmit):
        run = self._run
        verdict, content = self._verdict(node, state, can_resubmit=can_resubmit)
        judged = await self.patiently(
            "olga",
            ledger.judge,
            operation,
            verdict,
            seen_version=seen_version,
            by="person:olga",
            reason="nobody can tell",
            content=content,
            now=run.now(),
        )
        is_bound = judged is not None and verdict is Verdict.FOUND
        if is_bound and run.choices.pick(2, "people", "olga cancels what she found"):
            await self._press(operation, seen_generation=None)
        if judged is None or judged.proposal is None:
            await asyncio.sleep(1.0)
            return
        await asyncio.sleep(run.choices.choose("people", (2.0, 0.0, 40.0)))
        await self._second(judged.proposal)

    async def _second(self, proposal):
        """A second person confirms a verdict or refuses it; the first one alone must get nowhere (W)."""
        run, ways = self._run, ("confirms", "tries alone first", "refuses")
        what = run.choices.choose("people", ways, "the second person") if run.faults_on else ways[0]
        if what == "refuses":
            await self.patiently("otto", ledger.withdraw, proposal, by="person:otto", now=run.now())
            return
        if what == "tries alone first":
            await self.patiently("olga", ledger.confirm, proposal, by="person:olga", now=run.now())
        await self.patiently("otto", ledger.confirm, proposal, by="person:otto", now=run.now())

    def _verdict(self, node, state, *, can_resubmit):
        run = self._run
        wishes = _WISHES_OF_ABSENT if state == State.NOT_FOUND_SAFE else _WISHES
        wish = run.choices.choose("people", wishes, "the desk wants") if run.faults_on else wishes[0]
        if wish is Verdict.FOUND or (run.plan.desk_errs and run.faults_on):
            if found := self._task_for(node):
                return Verdict.FOUND, {"task_id": found}
            wish = wishes[0]
        if wish is Verdict.RESUBMIT and not can_resubmit:
            wish = Verdict.NEVER_CREATED
        return wish, {"outcome": "SUCCEEDED"} if wish is Verdict.ESTABLISHED_OUTSIDE else None

    def _task_for(self, node):
        """The id of the task that the desk takes for this call's; None where it finds none."""
        run = self._run
        wanted = node
        if run.plan.desk_errs and node not in self.misled:
            (wanted,) = (other for other in run.nodes if other != node)
        made = [task.task_id for task in run.server.tasks_of(f"key-{run.prefix}-{wanted}") if task.task_id]
        if made and wanted != node:
            self.misled.add(node)
        return made[0] if made else None

    def _standing(self, operation):
        return self._run.place.observer.ask(
            "SELECT state, version, sends = sends_disproved AND NOT cancel_intent FROM operation WHERE id = %s",
            [operation],
        )[0]

    # Admins ---------------------------------------------------------------------------------------

    async def roll_back(self, at):
        run = self._run
        await asyncio.sleep(at)
        run.count("rollback")
        run.epoch = await self.patiently("admin", _roll_back, now=run.now()) or run.epoch
        await asyncio.sleep(run.plan.stays_shut_s)
        await self.patiently("admin", _let_in, now=run.now())

    async def close_submits(self, at):
        run = self._run
        await asyncio.sleep(at)
        run.count("submits closed")
        await self.patiently("admin", ledger.set_submits, "server", run.plan.server, is_open=False, reason="chosen")
        await asyncio.sleep(20.0)
        for _ in range(TRIES):
            if await self.patiently("admin", ledger.set_submits, "server", run.plan.server, is_open=True, reason=""):
                return

    def intrusion(self):
        """Return an act of somebody that takes place between two transactions of a worker's step."""
        run = self._run
        node = run.choices.choose("people", tuple(run.nodes))
        what = run.choices.choose("people", ("cancel", "rollback"))

        def act():
            operation = run.operation_of(node)
            if what == "rollback":
                run.epoch = run.place.observer.do(fence_off, PROTOCOL)
            elif operation is not None:
                self._press_inside(operation)
            run.loop.note(f"in between: {what}")

        return act

    def _press_inside(self, operation):
        run = self._run
        try:
            run.place.observer.do(
                ledger.request_cancel,
                operation,
                seen_generation=None,
                can_cancel=run.plan.can_cancel,
                by="person:olga",
                reason="in between",
                now=run.now(),
            )
        except StepError:
            return
        self.presses.setdefault(operation, run.loop.time())
