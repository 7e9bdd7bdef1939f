"""Every interleaving of one operation, two workers, one server, people and faults, up to small bounds.

The decisions are the product's: `plan.next_deed`, and the ledger's functions on a `Notebook`. Written
here are only the world around them (a server with tasks that work, ask, end and vanish; requests that
arrive late, twice or never; workers that die; a clock) and how a worker goes from one to the other,
as `operations.driver` does.
"""

import uuid
from collections import deque
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import NamedTuple

from adapters.contract import Absent, Ended, Mode, NeedsInput, ProtocolStatus, Question, TaskFacts, Working
from operations import ledger, plan, verdicts
from operations.machine import FINAL, Delivery, Event, Reason, State, Ticket
from operations.plan import Deed, Means
from operations.verdicts import Verdict
from tests.approvers import everybody
from tests.model.notebook import HOURS, Notebook, Page, first_page, result

FAIR, WORLD = "fair", "world"


@dataclass(frozen=True)
class Bounds:
    """How much of everything may happen."""

    lookup: bool = False
    """The server can be asked for a lost submit."""
    rounds: int = 1
    presses: int = 1
    rollbacks: int = 1
    deaths: int = 1
    losses: int = 1
    doubles: int = 1
    vanishes: int = 1
    flips: int = 0
    """Ends that turn into another end."""
    orders: int = 0
    """Times that people order a call to be sent again after proof (X2)."""
    hours: int = 3


class Task(NamedTuple):
    status: str = "working"
    asked: int = 0
    used: int = 0


class Worker(NamedTuple):
    deed: str
    stage: str
    ticket: tuple[int, int, int, int]
    answer: str = ""
    """What has come back for the request that is out; empty while nothing has."""
    permit: int = 0


class Place(NamedTuple):
    """One state of everything."""

    page: int
    workers: tuple[Worker | None, Worker | None]
    requests: tuple[tuple[str, int, int], ...]
    """On their way to the server: (kind, worker or -1 when nobody waits any more, round)."""
    tasks: tuple[Task, ...]
    left: tuple[int, ...]
    """Presses, rollbacks, deaths, losses, doubles, vanishes, flips, orders."""
    hour: int
    told: bool
    """The id of the task has come back to a worker that was alive."""
    fetched: bool


PRESS, ROLLBACK, DEATH, LOSS, DOUBLE, VANISH, FLIP, ORDER = range(8)


@dataclass
class Found:
    """What the exploration came to."""

    states: int = 0
    edges: int = 0
    complete: bool = False
    wrong: str = ""
    trace: tuple[str, ...] = ()
    reached: set[State] = field(default_factory=set)
    deeds: set[Deed] = field(default_factory=set)
    outcomes: set[str] = field(default_factory=set)


class Explorer:
    """Breadth first, so that the first trace to anything wrong is a shortest one."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.book = Notebook()
        self.pages: list[Page] = []
        self._numbers: dict[Page, int] = {}
        self._known: dict = {}
        self.means = Means(can_look_up=bounds.lookup, replays=False, key_window=timedelta(0))
        self.deeds: set[Deed] = set()

    def run(self, *, limit: int) -> Found:
        """Explore up to `limit` states; stop at the first one that is wrong."""
        b = self.bounds
        left = (b.presses, b.rollbacks, b.deaths, b.losses, b.doubles, b.vanishes, b.flips, b.orders)
        start = Place(self.number(first_page()), (None, None), (), (), left, 0, told=False, fetched=False)
        before: dict[Place, tuple[Place, str] | None] = {start: None}
        fair: dict[Place, list[Place]] = {}
        queue, found = deque([start]), Found()
        with self.book.opened():
            while queue and len(before) < limit:
                place = queue.popleft()
                if wrong := self.wrong(place):
                    return self._finish(found, before, place, wrong)
                for label, kind, after in self.moves(place):
                    found.edges += 1
                    if after not in before:
                        before[after] = (place, label)
                        queue.append(after)
                    if kind == FAIR:
                        fair.setdefault(after, []).append(place)
        found.complete = not queue
        stuck = self._stuck(before, fair) if found.complete else None
        if stuck is not None:
            return self._finish(found, before, stuck, "A6: no fair way to a receipt or to a person")
        return self._finish(found, before, None, "")

    def _finish(self, found: Found, before, place, wrong) -> Found:
        found.states, found.wrong, found.deeds = len(before), wrong, self.deeds
        found.reached = {page.row.state for page in self.pages}
        found.outcomes = {receipt for page in self.pages for receipt in page.receipts}
        words = []
        while place is not None and before[place] is not None:
            place, label = before[place]
            words.append(label)
        found.trace = tuple(reversed(words))
        return found

    def _stuck(self, before, fair):
        well = {place for place in before if self._is_settled(place)}
        queue = deque(well)
        while queue:
            for earlier in fair.get(queue.popleft(), ()):
                if earlier not in well:
                    well.add(earlier)
                    queue.append(earlier)
        return next((place for place in before if place not in well), None)

    def _is_settled(self, place: Place) -> bool:
        row = self.pages[place.page].row
        asks = row.state is State.INPUT_REQUIRED and row.round_open
        return row.state in FINAL or row.state in {State.UNKNOWN, State.NOT_FOUND_SAFE} or asks

    # What must never be ------------------------------------------------------------------------------

    def wrong(self, place: Place) -> str:
        """A1 to A5 and what they stand on, in words; empty when all holds."""
        page = self.pages[place.page]
        row, receipts = page.row, page.receipts
        success = receipts[:1] == ("SUCCESS",)
        checks = (
            (len(receipts) > 1, "A1: a second receipt"),
            ((row.state in FINAL) != bool(receipts), "R3: a final state and a receipt go together"),
            (len(receipts) != page.outbox, "R6: a receipt without its outbox row"),
            (success and not place.fetched, "A2: success without a fetched result"),
            (success and "completed" not in {task.status for task in place.tasks} and not self._flipped(place),
             "A2: success of a task that did not complete"),
            (row.state is State.CANCELLED_ACCEPTED and success, "A3: success after a won cancel"),
            (place.told and row.task_id is None and row.state not in FINAL, "A4: a task id that came back was lost"),
            (len(place.tasks) > 1, "A5: a second task under one key"),
            (row.sends_disproved > row.sends, "L4: more sends are disproved than were made"),
            (row.nothing_sent and "" in page.permits, "L4: a send that is out counts as unsent"),
            (bool(page.odd), f"L4, C11: {page.odd}"),
            (row.state is State.WORKING and row.task_id is None, "L3: WORKING without a task"),
            (any("never sent" in one for one in receipts) and bool(place.tasks),
             "C9: closed as never sent while a task exists"),
            (bool(receipts) and receipts[0].startswith("CANCELLED") and bool(place.tasks) and not page.effect,
             "C6: a cancel of a tool with effects without its record"),
        )  # fmt: skip
        return next((words for broken, words in checks if broken), "")

    def _flipped(self, place: Place) -> bool:
        used = self.bounds.flips - place.left[FLIP] + self.bounds.vanishes - place.left[VANISH]
        return bool(used)

    # What may happen next --------------------------------------------------------------------------

    def number(self, page: Page) -> int:
        """Give a page its number."""
        if page not in self._numbers:
            self._numbers[page] = len(self.pages)
            self.pages.append(page)
        return self._numbers[page]

    def moves(self, place: Place):
        """Yield (in words, fair or the world's whim, what follows)."""
        for slot, worker in enumerate(place.workers):
            yield from self._claim(place, slot) if worker is None else self._work(place, slot, worker)
        yield from self._requests(place)
        yield from self._tasks(place)
        yield from self._people(place)
        if place.hour < self.bounds.hours:
            yield "an hour passes", FAIR, place._replace(hour=place.hour + 1)

    def _people(self, place: Place):
        page = self.pages[place.page]
        if page.row.state in FINAL:
            return
        if place.left[PRESS]:
            after = self._turn(place, ledger.request_cancel, seen_generation=None, by="olga", reason="")
            yield "a person presses cancel", WORLD, _use(after, PRESS)
        if page.row.round_open:
            after = self._turn(
                place,
                ledger.answer_round,
                round=page.row.round,
                request_digest=page.asked,
                as_shown_digest="",
                form_id=uuid.UUID(int=0),
                replies=(),
                people=everybody,
                by="ada",
            )
            yield f"a person answers round {page.row.round}", WORLD, after
        if place.left[ORDER] and verdicts.option(Verdict.RESUBMIT, _case(page.row)).allowed:
            named = {"ticket": ledger.ticket_of(page.row), "actor": "person:olga"}
            after = self._turn(place, ledger.resubmit, **named)
            yield "two people order it to be sent again", WORLD, _use(after, ORDER)
        if place.left[ROLLBACK]:
            raised = replace(page, row=replace(page.row, epoch=page.row.epoch + 1))
            yield "an admin rolls back", WORLD, _use(place._replace(page=self.number(raised)), ROLLBACK)

    def _tasks(self, place: Place):
        for number, task in enumerate(place.tasks):
            for words, kind, after, use in self._task(place, task):
                tasks = (*place.tasks[:number], after, *place.tasks[number + 1 :])
                moved = place._replace(tasks=tasks)
                yield f"task {number + 1} {words}", kind, moved if use is None else _use(moved, use)

    def _task(self, place: Place, task: Task):
        if task.status == "working":
            yield "completes", FAIR, task._replace(status="completed"), None
            yield "fails", WORLD, task._replace(status="failed"), None
            if task.asked < self.bounds.rounds:
                yield "asks", WORLD, Task("input_required", task.asked + 1, task.used), None
        if task.status == "input_required":
            yield "takes its question back", WORLD, task._replace(status="working"), None
        if task.status in {"completed", "failed"} and place.left[FLIP]:
            yield "says that it was cancelled", WORLD, task._replace(status="cancelled"), FLIP
        if task.status != "gone" and place.left[VANISH]:
            yield "vanishes", WORLD, task._replace(status="gone"), VANISH

    def _requests(self, place: Place):
        for at, request in enumerate(place.requests):
            if request in place.requests[:at]:
                continue
            kind, slot, round_ = request
            rest = (*place.requests[:at], *place.requests[at + 1 :])
            tasks, answer = self._serve(place, kind, round_)
            served = _answered(place._replace(requests=rest, tasks=tasks), slot, answer)
            yield f"the server takes {kind} and says {answer}", FAIR, served
            if place.left[LOSS]:
                yield f"the answer to {kind} is lost", WORLD, _use(_answered(served, slot, "silence", place), LOSS)
                lost = _answered(place._replace(requests=rest), slot, "silence")
                yield f"{kind} is lost", WORLD, _use(lost, LOSS)
                unsent = _answered(place._replace(requests=rest), slot, "not sent")
                yield f"{kind} never leaves", WORLD, _use(unsent, LOSS)
                orphan = _answered(place._replace(requests=_sorted(*rest, (kind, -1, round_))), slot, "silence")
                yield f"{kind} travels on alone", WORLD, _use(orphan, LOSS)
            if place.left[DOUBLE] and kind in {"ANSWER", "CANCEL"}:
                yield (
                    f"{kind} is doubled",
                    WORLD,
                    _use(place._replace(requests=_sorted(*place.requests, (kind, -1, round_))), DOUBLE),
                )

    def _serve(self, place: Place, kind: str, round_: int):
        tasks = place.tasks
        if kind == "SUBMIT":
            return (*tasks, Task()), f"working {len(tasks) + 1} 0" if len(tasks) < 3 else "silence"
        if kind == "FIND":
            return tasks, _show(tasks[0], 1) if tasks else "absent"
        number = self._bound(place)
        task = tasks[number - 1] if number and number <= len(tasks) else Task("gone")
        if kind in {"GET", "RESULT"}:
            return tasks, _show(task, number)
        if kind == "CANCEL":
            if task.status not in {"working", "input_required"}:
                return tasks, "refused"
            return _put(tasks, number, task._replace(status="cancelled")), "cancelled"
        if task.status == "input_required" and task.asked == round_:
            tasks = _put(tasks, number, Task("working", task.asked, round_))
        return tasks, "taken"

    def _bound(self, place: Place) -> int:
        task_id = self.pages[place.page].row.task_id
        return int(task_id) if task_id else 0

    # A worker ----------------------------------------------------------------------------------------

    def _claim(self, place: Place, slot: int):
        key = ("claim", place.page, place.hour)
        if key not in self._known:
            self._known[key] = self._planned(place)
        page, worker = self._known[key]
        if worker is not None:
            claimed = _with(place._replace(page=page), slot, worker)
            yield f"worker {slot + 1} claims: {worker.deed}", FAIR, self._plain(claimed)

    def _planned(self, place: Place):
        page = self.pages[place.page]
        row = replace(page.row, look=page.row.look + 1)
        deed = plan.next_deed(row, self.means, now=HOURS[place.hour])
        self.deeds.add(deed)
        if deed is Deed.WAIT or not page.due:
            return place.page, None
        ticket = (row.epoch, row.cancel_generation, row.round, row.look)
        return self.number(replace(page, row=row)), Worker(deed.value, "starts", ticket)

    def _work(self, place: Place, slot: int, worker: Worker):
        who = f"worker {slot + 1}"
        if place.left[DEATH]:
            orphans = _sorted(*((kind, -1 if to == slot else to, n) for kind, to, n in place.requests))
            dead = _with(place._replace(requests=orphans), slot, None)
            yield f"{who} dies in {worker.deed}", WORLD, _use(self._plain(dead), DEATH)
        if worker.stage.startswith("waits") and not worker.answer:
            return
        after, request, fetched = self._advance(place, worker)
        moved = place._replace(page=after[0], told=place.told or _names(worker), fetched=place.fetched or fetched)
        if request is not None:
            moved = moved._replace(requests=_sorted(*moved.requests, (request, slot, worker.ticket[2])))
        said = f" on {worker.answer}" if worker.answer else ""
        yield f"{who}: {worker.deed} {worker.stage}{said}", FAIR, self._plain(_with(moved, slot, after[1]))

    def _advance(self, place: Place, worker: Worker):
        # X2: no proof while a submit may still travel, nor once the server may have forgotten its task.
        silent = any(kind == "SUBMIT" for kind, *_ in place.requests) or any(
            one.status == "gone" for one in place.tasks
        )
        key = (place.page, worker, place.hour, silent if worker.deed == "FIND" else None)
        if key not in self._known:
            self.book.page, self.book.now = self.pages[place.page], HOURS[place.hour]
            hand = _Hand(self.book, worker, silent=silent)
            following, request = hand.go()
            self._known[key] = ((self.number(self.book.page), following), request, hand.fetched)
        return self._known[key]

    def _turn(self, place: Place, function, **named) -> Place:
        key = (place.page, function, place.hour)
        if key not in self._known:
            self.book.page, self.book.now = self.pages[place.page], HOURS[place.hour]
            self.book.turn(function, **named)
            self._known[key] = self.number(self.book.page)
        return place._replace(page=self._known[key])

    def _plain(self, place: Place) -> Place:
        """Number the looks that somebody still holds 0, 1, 2: only their order matters."""
        page = self.pages[place.page]
        held = sorted({page.row.look, *(worker.ticket[3] for worker in place.workers if worker)})
        if held == list(range(len(held))):
            return place
        order = {look: n for n, look in enumerate(held)}
        workers = tuple(
            worker and worker._replace(ticket=(*worker.ticket[:3], order[worker.ticket[3]])) for worker in place.workers
        )
        key = ("plain", place.page, order[page.row.look])
        if key not in self._known:
            row = replace(page.row, look=order[page.row.look])
            self._known[key] = self.number(replace(page, row=row))
        return place._replace(page=self._known[key], workers=workers)


class _Hand:
    """One stretch of a worker between two waits: what `operations.driver` does with the ledger."""

    def __init__(self, book: Notebook, worker: Worker, *, silent: bool) -> None:
        self.book, self.worker, self.silent = book, worker, silent
        epoch, generation, round_, look = worker.ticket
        self.ticket = Ticket(epoch=epoch, cancel_generation=generation, round=round_, look=look)
        self.permit = uuid.UUID(int=worker.permit or 999)
        self.fetched = False

    def go(self):
        """Return the worker that goes on, or None, and the request that it sends, or None."""
        way = getattr(self, f"_{self.worker.deed.lower()}")
        return way(self.worker.stage, self.worker.answer) or (None, None)

    def do(self, function, **named) -> bool:
        return self.book.turn(function, ticket=self.ticket, **named)

    def waits(self, stage: str, request: str | None, **changes):
        return self.worker._replace(stage=stage, answer="", **changes), request

    def sends(self, request: str):
        """Write to the socket, unless the claim has ended: the gate asks once more (see driver.SendGate)."""
        if self.ticket.look < self.book.page.row.look:
            return None  # to say so is another step, and one that may not come: nothing is sent, nothing is known
        return self.waits("waits", request)

    def saw(self, answer: str) -> bool:
        return self.do(ledger.saw, seen=_observation(answer), next_at=self.book.now)

    def _submit(self, stage, answer):
        if stage == "starts":
            number = len(self.book.page.permits) + 1
            if self.do(ledger.permit_submit, permit=uuid.UUID(int=number), as_task=True):
                return self.waits("may send", None, permit=number)
        elif stage == "may send":
            return self.sends("SUBMIT")
        elif answer == "not sent":
            self.do(ledger.submit_not_sent, permit=self.permit, why="", misses=1, next_at=self.book.now)
        elif answer == "silence":
            self.do(ledger.submit_lost, why="")
        else:
            seen = _observation(answer)
            self.do(ledger.submit_answered, permit=self.permit, seen=seen, next_at=self.book.now)
        return None

    def _declare_lost(self, _stage, _answer):
        self.do(ledger.submit_lost, why="")

    def _close_unsent(self, _stage, _answer):
        self.do(ledger.close_unsent)

    def _resubmit(self, _stage, _answer):
        self.do(ledger.resubmit, actor="executor")

    def _find(self, stage, answer):
        if stage == "starts":
            return self.waits("waits, and silence proves nothing" if self.silent else "waits", "FIND")
        if answer == "absent" and stage == "waits" and not self.silent:
            proved = {"reason": Reason.PROVED_ABSENT, "why": "", "next_at": self.book.now}
            self.do(ledger.nothing_created, **proved)
        elif answer not in {"silence", "not sent", "absent"}:
            self.saw(answer)
        return None

    def _look(self, stage, answer):
        if stage == "starts":
            return self.waits("waits", "GET")
        if answer not in {"silence", "not sent"}:
            self.saw(answer)
        return None

    def _expire_round(self, _stage, _answer):
        self.do(ledger.expire_round, next_at=self.book.now)

    def _deliver(self, stage, answer):
        if stage == "starts":
            return self.waits("waits for a look", "GET")
        if stage == "waits for a look":
            if not answer.startswith("input_required"):
                return self._look("waits", answer)
            if self.do(ledger.permit_answer, permit=self.permit):
                return self.waits("may send", None)
        elif stage == "may send":
            return self.sends("ANSWER")
        else:
            delivery = {"not sent": Delivery.STORED, "silence": Delivery.UNCERTAIN}.get(answer, Delivery.SENT)
            settled = {"permit": self.permit, "delivery": delivery, "why": "", "next_at": self.book.now}
            self.do(ledger.answer_settled, **settled)
        return None

    def _doubt_answer(self, _stage, _answer):
        self.do(ledger.answer_in_doubt)

    def _cancel(self, stage, answer):
        row = self.book.page.row
        if stage == "starts" and row.cancel_sends:
            return self.waits("waits for a look", "GET")
        if stage == "waits for a look" and (row.cancel_acked or not answer.startswith(("working", "input"))):
            return self._look("waits", answer)
        if stage in {"starts", "waits for a look"}:
            return self.waits("may send", None) if self.do(ledger.permit_cancel, permit=self.permit) else None
        if stage == "may send":
            return self.sends("CANCEL")
        if answer == "cancelled":
            self.do(ledger.cancel_won, permit=self.permit, exchanges=())
            return None
        settlement = {"not sent": "not_sent", "silence": "lost"}.get(answer, "answered")
        told = {"settlement": settlement, "acknowledged": False, "why": "", "misses": 1, "next_at": self.book.now}
        self.do(ledger.cancel_settled, permit=self.permit, **told)
        return None

    def _fetch(self, stage, answer):
        if stage == "starts":
            return self.waits("waits", "RESULT") if self.do(ledger.fetch_started) else None
        if answer.startswith(("completed", "failed")):
            if self.do(ledger.result_fetched, result=result()):
                self.fetched = True
                return self.waits("accepts", None)
        elif stage == "accepts":
            return self._accept("accepts", "")
        elif answer not in {"silence", "not sent"}:
            self.saw(answer)
        return None

    def _accept(self, stage, _answer):
        if self.book.page.row.state is State.TERMINAL_OBSERVED and not self.do(ledger.fetch_started):
            return
        self.do(ledger.accept_result, facts=ledger.Facts.held_by(self.book.page.row))
        return

    def _give_up_fetching(self, _stage, _answer):
        self.do(ledger.result_unusable, reason=Reason.RESULT_LOST, findings=(), next_at=self.book.now)

    def _audit(self, stage, answer):
        if stage == "starts":
            return self.waits("waits", "GET")
        self.do(ledger.audited, seen=None if answer in {"silence", "not sent"} else _observation(answer), result=None)
        return None

    def _end_waiting(self, _stage, _answer):
        named = {"event": Event.BUDGET_ENDED, "reason": Reason.BUDGET_ENDED, "next_at": self.book.now}
        self.do(ledger.hand_to_person, **named)

    def _no_lookup(self, _stage, _answer):
        named = {"event": Event.NO_LOOKUP, "reason": Reason.SUBMIT_LOST, "next_at": self.book.now}
        self.do(ledger.hand_to_person, **named)


def _case(row: ledger.Row) -> verdicts.Case:
    return verdicts.Case(row=row, has_effects=True, deduplicates=False)


def _show(task: Task, number: int) -> str:
    return "absent" if task.status == "gone" else f"{task.status} {number} {task.asked}"


def _observation(answer: str):
    if answer == "absent":
        return Absent(code=-32602, message="")
    status, number, asked = answer.split()
    task = TaskFacts(task_id=number, status=ProtocolStatus(status))
    if status == "working":
        return Working(task=task)
    if status == "input_required":
        one = Question(key=asked, mode=Mode.FORM, message="?", schema={}, raw=b"{}", digest=f"asked {asked}")
        return NeedsInput(task=task, questions=(one,))
    return Ended(status=ProtocolStatus(status), task=task)


def _names(worker: Worker) -> bool:
    return worker.deed == "SUBMIT" and worker.answer.startswith(("working", "input", "completed", "failed"))


def _sorted(*requests):
    return tuple(sorted(requests))


def _put(tasks, number, task):
    return (*tasks[: number - 1], task, *tasks[number:])


def _with(place: Place, slot: int, worker: Worker | None) -> Place:
    return place._replace(workers=(worker, place.workers[1]) if slot == 0 else (place.workers[0], worker))


def _use(place: Place, what: int) -> Place:
    left = place.left
    return place._replace(left=(*left[:what], left[what] - 1, *left[what + 1 :]))


def _answered(place: Place, slot: int, answer: str, at: Place | None = None) -> Place:
    source = at.workers if at is not None else place.workers
    worker = source[slot] if slot >= 0 else None
    return place if worker is None else _with(place, slot, worker._replace(answer=answer))
