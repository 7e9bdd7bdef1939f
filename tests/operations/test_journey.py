"""Several statements in one packet: what each gives, and that COMMIT and news go with all of it or not at all."""

import json
import logging
import uuid
from datetime import UTC, datetime

import psycopg
import pytest
from django.db import DataError, IntegrityError, OperationalError, connection, transaction

from operations import announce, ledger
from operations.ledger import journey
from operations.ledger import step as steps
from operations.ledger.journey import together
from operations.machine import State

MINE = "INSERT INTO team (slug, title) VALUES (%s, '')"
IS_THERE = "SELECT count(*) FROM team WHERE slug = %s"
END_MYSELF = ("SELECT pg_terminate_backend(pg_backend_pid())", [])


@pytest.fixture
def name(committed):
    connection.close()
    yield f"team-{uuid.uuid4()}"
    connection.close()


def stands(name):
    return together([(IS_THERE, [name])]) == [[(1,)]]


@pytest.fixture
def hears():
    """Listen on a channel of its own; tell what came."""
    channel = f"heard_{uuid.uuid4().hex}"
    wish = connection.get_connection_params()
    with psycopg.connect(
        **{name: wish[name] for name in wish if name in {"host", "port", "user", "dbname", "password"}}
    ) as ears:
        ears.autocommit = True
        ears.execute(f"LISTEN {channel}")

        def heard():
            ears.execute("SELECT 1")
            return [note.payload for note in ears.notifies(timeout=0)]

        heard.said = lambda word: ("SELECT pg_notify(%s, %s)", [channel, word])
        yield heard


class TestRows:
    def test_each_statement_gives_its_own(self, name):
        assert together([("SELECT 1", []), (MINE, [name]), ("SELECT n FROM generate_series(1, 2) n", [])]) == [
            [(1,)],
            [],
            [(1,), (2,)],
        ]

    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            ("text", "a 50 % ü"),
            ("text", None),
            ("bytea", b"\0\xff"),
            ("uuid", uuid.UUID(int=7)),
            ("bigint", 2**40),
            ("boolean", True),
            ("text[]", ["a", None]),
            ("int[]", []),
            ("bytea[]", [b"\0", None]),
            ("timestamptz", datetime(2026, 11, 30, 7, 45, tzinfo=UTC)),
        ],
    )
    def test_a_value_comes_back_as_it_was_sent(self, name, kind, value):
        assert together([(f"SELECT %s::{kind}, '%%'", [value])]) == [[(value, "%")]]

    def test_more_than_the_line_holds_goes_both_ways(self, name):
        large = b"x" * 3_000_000

        told = together([("SELECT %s::bytea", [large])] * 6)

        assert told == [[(large,)]] * 6


class TestTheEnd:
    def test_what_was_sent_with_its_commit_stands_and_the_block_has_nothing_left_to_commit(self, name):
        with transaction.atomic(durable=True):
            together([("SELECT 1", [])])
            together([(MINE, [name])], ends=True)
            connection.close()  # nothing is left for the block to do

        assert stands(name)

    def test_without_it_the_block_commits(self, name):
        with transaction.atomic(durable=True):
            together([(MINE, [name])])

        assert stands(name)

    def test_inside_another_block_nothing_is_committed_or_said(self, name, hears):
        """As in a test that takes everything back: only there may a durable block have another around it."""
        with transaction.atomic():
            with transaction.atomic():
                together([(MINE, [name])], ends=True, news=[hears.said("x")])
            transaction.set_rollback(True)

        assert (stands(name), hears()) == (False, [])

    def test_after_a_statement_that_fails_nothing_of_the_packet_stands_and_the_line_goes_on(self, name, hears):
        with pytest.raises(DataError), transaction.atomic(durable=True):
            together([(MINE, [name]), ("SELECT 1 / %s", [0]), ("SELECT 1", [])], ends=True, news=[hears.said("x")])

        assert (stands(name), hears()) == (False, [])

    def test_a_check_that_fails_at_commit_undoes_everything(self, room, hears):
        """The database's own: a final state needs a receipt (R3)."""
        operation = room.at(State.FETCHING_RESULT)
        end = ("UPDATE operation SET state = 'ACCEPTED' WHERE id = %s", [operation])

        with pytest.raises(IntegrityError), transaction.atomic(durable=True):
            together([end], ends=True, news=[hears.said("x")])

        assert (room.row(operation).state, hears()) == (State.FETCHING_RESULT, [])

    def test_a_value_that_cannot_be_written_leaves_the_line_as_it_was(self, name):
        with pytest.raises((DataError, ValueError)), transaction.atomic(durable=True):
            together([(MINE, [name]), (MINE, ["\0"])], ends=True)

        assert not stands(name)

    def test_r9_a_line_that_breaks_before_commit_leaves_nothing(self, name):
        with pytest.raises(OperationalError), transaction.atomic(durable=True):
            together([(MINE, [name]), END_MYSELF], ends=True)

        assert not stands(name)

    def test_r9_a_commit_whose_answer_was_lost_is_an_error_though_it_stands(self, name):
        with pytest.raises(OperationalError), transaction.atomic(durable=True):
            together([(MINE, [name])], ends=True, news=[END_MYSELF])

        assert stands(name)


class TestNews:
    def test_is_said_with_the_commit(self, name, hears):
        with transaction.atomic(durable=True):
            together([(MINE, [name])], ends=True, news=[hears.said("one"), hears.said("two")])

        assert hears() == ["one", "two"]

    def test_that_fails_takes_nothing_back(self, name, caplog):
        with caplog.at_level(logging.WARNING), transaction.atomic(durable=True):
            together([(MINE, [name])], ends=True, news=[("SELECT pg_notify(%s, '')", ["x" * 100])])

        assert stands(name)
        assert "announcement lost" in caplog.text

    def test_of_a_step_is_what_the_pages_and_the_workers_are_told(self):
        told = announce.news([("o", 3)], is_urgent=True)

        (_, (channel, (word,))), (_, urgent) = told
        assert (channel, json.loads(word)) == (announce.CHANNEL, {"op": "o", "v": 3})
        assert urgent == [announce.WORKERS, "{}"]


def test_r9_a_step_whose_answer_was_lost_behind_its_commit_is_read_back_and_not_made_twice(room, monkeypatch):
    operation = room.at(State.WORKING)
    before = room.row(operation).version

    with monkeypatch.context() as patch:
        patch.setattr(announce, "news", lambda *_move, **_how: [END_MYSELF])
        moved = steps.perform(operation, lambda step: step.note("TRIED"), now=room.now)

    assert moved == ledger.Moved(operation=operation, version=before + 1, state=State.WORKING)
    assert len(room.journal(operation, event="TRIED")) == 1


def test_a_line_keeps_so_many_prepared_statements_and_no_more(name, monkeypatch):
    monkeypatch.setattr(journey, "KEPT", 3)
    statements = [(f"SELECT {number}", []) for number in range(8)]

    told = together(statements), together(statements)

    assert told == ([[(number,)] for number in range(8)],) * 2
    (((kept,),),) = together([("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'journey%%'", [])])
    assert kept <= 4  # and the one that asks


def test_what_somebody_else_has_deallocated_is_prepared_anew_on_the_next_line(room):
    operation = room.at(State.WORKING)
    with connection.cursor() as cursor:
        cursor.execute("DEALLOCATE ALL")

    moved = steps.perform(operation, lambda step: step.note("TRIED"), now=room.now)

    assert moved.version == room.row(operation).version
    assert len(room.journal(operation, event="TRIED")) == 1


def test_values_may_be_named_and_used_twice(name):
    assert together([("SELECT %(a)s::int, %(b)s::text, %(a)s::int", {"a": 1, "b": "x"})]) == [[(1, "x", 1)]]
