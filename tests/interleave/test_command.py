"""`manage.py interleave`: what it runs it tells, keeps, repeats and puts on record."""

from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import connection

from tests.interleave import command, fleet, hunt, mutants, runs, shrink

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.faults]

PLANTED = "a submit without permit"


@pytest.fixture
def told(monkeypatch):
    """What the command says, run in the test's own database."""

    @contextmanager
    def here(count):
        yield [connection.settings_dict["NAME"]] * count

    monkeypatch.setattr(fleet, "cluster", here)
    return []


def _run(told, **how):
    how = {"count": 4, "seed": 1, "full": False, "processes": 1} | how
    return command.run(**how, tell=told.append)


def _on_record():
    with connection.cursor() as cursor:
        cursor.execute("SELECT seed, runs, wire_runs, divergences FROM interleaving_run")
        return cursor.fetchall()


def test_full_sends_every_run_through_the_bytes_and_record_keeps_what_came_of_it(told):
    code = _run(told, seed=3, full=True, record=True)

    assert code == 0, told
    assert any(line.startswith("4 runs (4 wire)") for line in told)
    assert _on_record() == [(3, 4, 4, 0)]


def test_without_record_nothing_is_kept(told):
    assert _run(told) == 0, told
    assert _on_record() == []


def test_a_failure_is_told_in_words_and_its_schedule_can_be_replayed(told):
    with mutants.planted("canary"):
        code = _run(told, count=1)
    path = Path(told[-1 - next(n for n, line in enumerate(reversed(told)) if "--replay" in line)].split()[-1])

    assert code == 1
    assert any("L7" in line for line in told)
    assert command.replay(path, tell=told.append) == 0, "without the planted fault it holds"
    with mutants.planted("canary"):
        assert command.replay(path, tell=told.append) == 1


def test_a_kept_schedule_is_replayed_with_the_fault_that_it_shows(told):
    path = hunt.CORPUS / f"planted-{PLANTED.replace(' ', '-')}.json"

    assert command.replay(path, tell=told.append) == 1
    assert any("node1 submit" in line for line in told)
    assert any(line.startswith("L4") for line in told)


def test_a_hunt_keeps_a_schedule_that_shows_its_fault(told, tmp_path, monkeypatch):
    monkeypatch.setattr(hunt, "CORPUS", tmp_path)
    with runs.opened() as place:
        assert hunt.keep(place, PLANTED, tell=told.append, shrink_s=0.0)
    (kept,) = tmp_path.glob("*.json")

    assert shrink.load(kept)["mutant"] == PLANTED
    assert command.replay(kept, tell=told.append) == 1
