"""What ends while a journey is under way goes together with the next one; nobody waits for company."""

import asyncio

import pytest

from operations import ledger
from operations.endings import MOST, Endings
from operations.machine import State, Ticket
from tests.operations.room import NOON

pytestmark = pytest.mark.asyncio
TICKET = Ticket(epoch=1, cancel_generation=0, round=0, look=1)


class Ledger:
    """Accepts what it is given when it is let; `refused` names operations that it refuses."""

    def __init__(self, refused=(), broken=False):
        self.journeys, self.refused, self.broken = [], refused, broken
        self.may_go = asyncio.Event()

    async def run(self, step, acceptances):
        assert step is ledger.accept_results
        self.journeys.append([each.operation for each in acceptances])
        await self.may_go.wait()
        if self.broken:
            raise ConnectionError
        return [self._fate(each.operation) for each in acceptances]

    def _fate(self, operation):
        if operation in self.refused:
            return ledger.FactsDiffer(("epoch",))
        return ledger.Moved(operation=operation, version=2, state=State.ACCEPTED)


def ask(endings, *operations):
    facts = ledger.Facts(
        call_node=("c", "n"),
        request_digest="",
        task_id=None,
        tool_version="",
        epoch=1,
        cancel_generation=0,
        terminal_status=None,
        result_digest=None,
    )
    return [
        asyncio.ensure_future(endings.accept_result(one, ticket=TICKET, facts=facts, now=NOON)) for one in operations
    ]


async def turn():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_whoever_comes_alone_goes_at_once_and_those_who_come_meanwhile_go_together():
    book = Ledger()
    endings = Endings(book.run)

    first = ask(endings, "a")
    await turn()
    rest = ask(endings, "b", "c", "d")
    await turn()
    book.may_go.set()
    told = await asyncio.gather(*first, *rest)

    assert book.journeys == [["a"], ["b", "c", "d"]]
    assert [one.operation for one in told] == ["a", "b", "c", "d"]


async def test_one_that_is_refused_is_told_so_and_no_other():
    book = Ledger(refused={"b"})
    book.may_go.set()

    told = await asyncio.gather(*ask(Endings(book.run), "a", "b", "c"), return_exceptions=True)

    assert [type(one) for one in told] == [ledger.Moved, ledger.FactsDiffer, ledger.Moved]


async def test_a_journey_that_fails_is_told_to_all_who_were_on_it_and_the_next_one_goes():
    book = Ledger(broken=True)
    book.may_go.set()
    endings = Endings(book.run)

    told = await asyncio.gather(*ask(endings, "a", "b"), return_exceptions=True)
    book.broken = False
    (later,) = await asyncio.gather(*ask(endings, "c"))

    assert [type(one) for one in told] == [ConnectionError, ConnectionError]
    assert later.operation == "c"


async def test_whoever_is_given_up_keeps_nobody_else_waiting():
    book = Ledger()
    mine, other = ask(Endings(book.run), "a", "b")
    await turn()

    mine.cancel()
    book.may_go.set()

    assert (await other).operation == "b"
    with pytest.raises(asyncio.CancelledError):
        await mine


async def test_so_many_go_on_one_journey_and_no_more():
    book = Ledger()
    book.may_go.set()

    await asyncio.gather(*ask(Endings(book.run), *map(str, range(MOST + 1))))

    assert [len(journey) for journey in book.journeys] == [MOST, 1]
