"""The harness itself is proved: it finds every planted fault anew, most of them by chance alone."""

import pytest

from tests.interleave import hunt, mutants, runs, shrink

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.faults, pytest.mark.long]

PLANTED = sorted(set(mutants.MUTANTS) - {"canary"})


@pytest.fixture
def place():
    with runs.opened() as opened:
        yield opened


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(place, name):
    found, tried = hunt.hunt(place, name, range(1, 10_001), shrink_s=0.0)

    assert found is not None, f"not in {tried} runs"
    assert shrink.rules_of(found)


def test_most_are_found_by_chance_alone():
    assert len([name for name in PLANTED if not mutants.MUTANTS[name].script]) >= 15
