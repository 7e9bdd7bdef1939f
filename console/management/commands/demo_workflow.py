"""A call node's program, as small as it can be: three steps, each a long tool call made through Longcall.

It keeps four rules. Whoever writes their own keeps them too:

1. The key of a submit is on disk before the submit. After a crash the same key is sent again, never a new one: Longcall
   answers with the operation that is already there.
2. A lost answer is no reason for anything but the same request again.
3. A step is over when its receipt is here, and for no other reason: not on a status, not on a time-out.
4. A receipt is written to disk first and acknowledged second. It may come twice, and the acknowledgement may have to be
   sent twice; the second time changes nothing.

Only HTTP, JSON and a file: nothing here imports the rest of Longcall, but for the folder that the token lies in.
"""

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx
from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.ground.home import from_environment, write_private

WAIT_S = 30
FIRST_PAUSE_S, LONGEST_PAUSE_S, REPAIR_PAUSE_S = 1.0, 15.0, 5.0


@dataclass(frozen=True, slots=True)
class Step:
    """One tool call. `arguments` are made from the results of the steps before."""

    name: str
    server: str
    tool: str
    arguments: Callable[[Mapping[str, Any]], dict[str, Any]]


def _raise_in_percent(results: Mapping[str, Any]) -> dict[str, Any]:
    revenue = results["report"]["structuredContent"]["revenue_by_region"]
    return {"percent": 2.5 if sum(revenue.values()) > 900_000 else 5}  # noqa: PLR2004 - the demo's own rule


STEPS = (
    Step("report", "reports", "quarterly_report", lambda _: {"quarter": "2026-Q3"}),
    Step("prices", "pricing", "bulk_price_change", _raise_in_percent),
    Step("forecast", "reports", "quarterly_report", lambda _: {"quarter": "2026-Q4"}),
)


@dataclass(slots=True)
class Taken:
    """The receipt of a step, as far as the workflow needs it."""

    receipt: str
    outcome: str
    result: Any = None
    acknowledged: bool = False


@dataclass(slots=True)
class Run:
    """One run of the workflow: all of it that must survive a crash."""

    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    taken: dict[str, Taken] = field(default_factory=dict)

    def call_node(self, step: Step) -> str:
        """Return the name of the step in this run: one call, ever."""
        return f"price-review/{self.id}/{step.name}"

    @property
    def step(self) -> Step | None:
        """Return the step that is due: the first without an acknowledged receipt. None: the run is over."""
        for step in STEPS:
            taken = self.taken.get(step.name)
            if taken is None or not taken.acknowledged:
                return step
            if taken.outcome != "SUCCESS":
                return None
        return None

    @property
    def failed(self) -> bool:
        """Whether a step brought anything but a success: what follows must not run."""
        return any(taken.acknowledged and taken.outcome != "SUCCESS" for taken in self.taken.values())


class Store:
    """The workflow's memory: one file, replaced in one step."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> Run | None:
        if not self._path.exists():
            return None
        kept = json.loads(self._path.read_text())
        return Run(id=kept["id"], taken={name: Taken(**taken) for name, taken in kept["taken"].items()})

    def save(self, run: Run) -> None:
        write_private(self._path, json.dumps(asdict(run), indent=2))


class RefusedError(Exception):
    """Longcall refused a request in a way that repeating cannot repair."""


class Longcall:
    """The API, as far as this workflow needs it. Every request may be sent again, and is, until it is answered."""

    def __init__(self, http: httpx.Client, *, tell: Callable[[str], None]) -> None:
        self._http = http
        self._tell = tell

    def submit(self, run: Run, step: Step) -> str:
        """Make the step's call, or find the one that is there; return the operation's id."""
        results = {name: taken.result for name, taken in run.taken.items()}
        call = {
            "call_node": run.call_node(step),
            "submission_key": f"{run.id}/{step.name}",
            "server": step.server,
            "tool": step.tool,
            "arguments": step.arguments(results),
            "principal": "price-review",
        }
        operation: str = self._asked("POST", "operations", json=call)["id"]
        return operation

    def receipts(self, *, wait_s: int) -> Iterator[dict[str, Any]]:
        """Yield every receipt that is not acknowledged yet; wait up to so many seconds for the first."""
        after, more = 0, True
        while more:
            query = {"after": after, "wait": 0 if after else wait_s}
            page = self._asked("GET", "outbox", params=query)
            yield from page["items"]
            after, more = page["next_after"], page["more"]

    def result(self, receipt: Mapping[str, Any]) -> Any:
        """Return the result that came with a receipt, or that it links to."""
        if receipt["result_url"] is None or receipt["result"] is not None:
            return receipt["result"]
        return self._asked("GET", f"operations/{receipt['operation']}/result")

    def acknowledge(self, receipt: str) -> None:
        """Say that the receipt has been taken over."""
        self._asked("POST", "outbox/acknowledge", json={"receipts": [receipt]})

    def _asked(self, method: str, path: str, **request: Any) -> Any:
        """Send until there is an answer. Raises RefusedError."""
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                answer = self._http.request(method, path, **request)
                if answer.is_success:
                    return answer.json()
                said = _in_words(answer)
            except httpx.TransportError as error:
                answer, said = None, f"no answer ({type(error).__name__})"
            if answer is not None and not _may_pass(answer):
                raise RefusedError(f"{method} {path}: {said}")
            self._tell(f"{said}; the same request again in {pause_s:.0f} s")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


class Workflow:
    """Takes a run from step to step."""

    def __init__(self, longcall: Longcall, store: Store, *, tell: Callable[[str], None]) -> None:
        self._longcall = longcall
        self._store = store
        self._tell = tell

    def run(self) -> Run:
        """Take the run in the store to its end; start one where there is none."""
        run = self._store.load() or Run()
        self._store.save(run)  # rule 1: its id, from which every key is made, outlives us
        self._tell(f"run {run.id}")
        while (step := run.step) is not None:
            if step.name in run.taken:
                # We died between disk and acknowledgement, or before its answer: the receipt may not come again.
                self._acknowledge(run, step)
                continue
            operation = self._longcall.submit(run, step)
            self._tell(f"{step.name}: operation {operation}, waiting for its receipt")
            while run.step is step:
                self.take_over(run, wait_s=WAIT_S)
        self._tell("stopped: a step did not succeed, so what follows does not run" if run.failed else "all steps done")
        return run

    def take_over(self, run: Run, *, wait_s: int) -> None:
        """Take over every receipt that waits for us."""
        for receipt in self._longcall.receipts(wait_s=wait_s):
            step = next((step for step in STEPS if run.call_node(step) == receipt["call_node"]), None)
            if step is None:
                # Of an earlier run, or of another call node of this client: nothing depends on it here.
                self._longcall.acknowledge(receipt["receipt"])
                self._tell(f"noted {receipt['outcome']} of {receipt['call_node']}")
            else:
                self._advance(run, step, receipt)

    def _advance(self, run: Run, step: Step, receipt: Mapping[str, Any]) -> None:
        if step.name not in run.taken:  # rule 4: on disk first
            result = self._longcall.result(receipt)
            run.taken[step.name] = Taken(receipt=receipt["receipt"], outcome=receipt["outcome"], result=result)
            self._store.save(run)
        self._acknowledge(run, step)

    def _acknowledge(self, run: Run, step: Step) -> None:
        taken = run.taken[step.name]
        self._longcall.acknowledge(taken.receipt)
        taken.acknowledged = True
        self._store.save(run)
        self._tell(f"{step.name}: {taken.outcome}, receipt {taken.receipt}")


class Command(BaseCommand):
    help = "Run the reference workflow of three steps over the API; go on where an interrupted run stood."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--base-url", default=_address(), help="where Longcall is (where `up` runs it)")
        parser.add_argument("--token-file", type=Path, help="file with the API token (of the run folder)")
        parser.add_argument("--follow", action="store_true", help="stay, and begin another run when asked to")
        parser.add_argument("--again", action="store_true", help="ask the workflow that follows for another run")

    def handle(self, *, base_url: str, token_file: Path | None, follow: bool, again: bool, **options: Any) -> None:
        home = from_environment().root
        wish = home / "demo-workflow.again"
        if again:
            wish.touch()
            self._tell("asked: another run begins when the present one has ended")
            return
        store = Store(home / "demo-workflow.json")
        while True:
            try:
                self._work(store, wish, base_url, token_file or home / "demo-token", follow=follow)
            except RefusedError as error:
                if not follow:
                    raise CommandError(str(error)) from error
                # Somebody has to repair that; the same step under the same key is tried again until then.
                self._tell(f"{error}; again in {REPAIR_PAUSE_S:.0f} s")
                time.sleep(REPAIR_PAUSE_S)
            else:
                return

    def _work(self, store: Store, wish: Path, base_url: str, token_file: Path, *, follow: bool) -> None:
        with _http(base_url, _token(token_file)) as http:
            workflow = Workflow(Longcall(http, tell=self._tell), store, tell=self._tell)
            run = workflow.run()
            while follow or wish.exists():
                if wish.exists():
                    # The new run is on disk before the wish is gone: a crash in between costs nothing.
                    store.save(Run())
                    wish.unlink()
                    run = workflow.run()
                else:
                    workflow.take_over(run, wait_s=5)  # short: a wish may come

    def _tell(self, line: str) -> None:
        self.stdout.write(f"{time.strftime('%H:%M:%S')} {line}")
        self.stdout.flush()


def _address() -> str:
    return from_environment().running_services().get("ADDRESS", "http://127.0.0.1:8000")


def _http(base_url: str, token: str) -> httpx.Client:
    return httpx.Client(
        base_url=f"{base_url.rstrip('/')}/api/v1/",
        headers={"Authorization": f"Bearer {token}"},
        timeout=WAIT_S + 15,
        trust_env=False,
    )


def _token(path: Path) -> str:
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        raise RefusedError(f"there is no token in {path} (manage.py issue_token CLIENT --to {path})") from None


def _may_pass(answer: httpx.Response) -> bool:
    """Whether time alone can repair it. 423: submits are closed, and calling the tool past Longcall is no way out."""
    return answer.is_server_error or answer.status_code in {423, 429}


def _in_words(answer: httpx.Response) -> str:
    try:
        problem = answer.json()
        return f"{problem['title']} ({answer.status_code}): {problem['detail']}"
    except (ValueError, KeyError, TypeError):
        return f"HTTP {answer.status_code}"
