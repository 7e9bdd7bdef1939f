"""Every promise of every contract, on every simulated server and on every real one (see `promises` and `cast`)."""

import pytest

from tests.verified import cast, promises


def _cells():
    for peer, title in cast.cells():
        yield pytest.param(peer, title, id=f"{peer.name}: {title}", marks=peer.marks)


@pytest.mark.asyncio
@pytest.mark.parametrize("peer, title", list(_cells()))
async def test_a_promise_is_kept_or_its_breach_is_declared(request, peer, title):
    place = peer.place(lambda: request.getfixturevalue("peers"), alone=promises.STEPS[title].alone)
    try:
        seen = await promises.play(peer, place, title)
    finally:
        place.close()

    expected = cast.expected(peer, title)
    assert seen in expected


def test_what_is_declared_to_deviate_does_so_in_a_step_that_is_tried():
    tried = {(peer.name, title): peer for peer, title in cast.cells()}

    assert set(cast.DEVIATES) <= set(tried)
    for (name, title), deviation in cast.DEVIATES.items():
        promised = promises.STEPS[title].promised(tried[name, title].adapter.promises)
        assert promised not in deviation.seen, (name, title)
