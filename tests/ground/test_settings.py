"""Settings read from the environment: a value that cannot be read stops the start."""

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection

from console import settings as product


@pytest.mark.parametrize(
    "text, value", [("1", True), ("TRUE", True), ("on", True), ("0", False), ("no", False), ("", True), ("  ", True)]
)
def test_a_switch_reads_yes_and_no_and_keeps_its_default(monkeypatch, text, value):
    monkeypatch.setenv("LONGCALL_TEST", text)

    assert product.env_bool("LONGCALL_TEST", default=True) is value


def test_a_switch_refuses_anything_else(monkeypatch):
    monkeypatch.setenv("LONGCALL_TEST", "maybe")

    with pytest.raises(ImproperlyConfigured, match="LONGCALL_TEST must be 1 or 0, not 'maybe'"):
        product.env_bool("LONGCALL_TEST", default=False)


@pytest.mark.parametrize("text", ["-1", "1.5", "eight", "0", "٣"])
def test_a_number_refuses_what_is_not_one_or_too_small(monkeypatch, text):
    monkeypatch.setenv("LONGCALL_TEST", text)

    with pytest.raises(ImproperlyConfigured, match="at least 1"):
        product.env_int("LONGCALL_TEST", default=3, least=1)


def test_a_number_reads_itself_and_keeps_its_default(monkeypatch):
    assert product.env_int("LONGCALL_TEST", default=3) == 3

    monkeypatch.setenv("LONGCALL_TEST", " 8 ")

    assert product.env_int("LONGCALL_TEST", default=3) == 8


@pytest.mark.parametrize(
    "conninfo",
    ["postgres://ann:s%40crét@db.example:6432/calls?sslmode=require",
     "host=db.example port=6432 user=ann password=s@crét dbname=calls sslmode=require"],
)  # fmt: skip
def test_a_database_is_named_by_url_or_by_connection_string(conninfo):
    database = product.database(conninfo, pool=0)

    named = {key: database[key] for key in ("HOST", "PORT", "USER", "PASSWORD", "NAME")}
    assert named == {"HOST": "db.example", "PORT": "6432", "USER": "ann", "PASSWORD": "s@crét", "NAME": "calls"}
    assert database["OPTIONS"] == {"application_name": "longcall", "sslmode": "require", "options": product.SESSION}


def test_what_the_session_asks_for_comes_before_what_the_admin_asks_for():
    database = product.database("host=db options='-c lock_timeout=5s'", pool=0)

    assert database["OPTIONS"]["options"] == f"{product.SESSION} -c lock_timeout=5s"


@pytest.mark.django_db
def test_b222_no_connection_waits_or_idles_in_a_transaction_for_ever():
    with connection.cursor() as cursor:
        limits = []
        for name in ("lock_timeout", "idle_in_transaction_session_timeout"):
            cursor.execute(f"SHOW {name}")
            limits += cursor.fetchone()

    assert limits == ["1min", "2min"]


def test_a_pool_is_asked_for_by_its_size_and_checks_what_it_hands_out():
    database = product.database("dbname=calls", pool=5)

    assert database["OPTIONS"]["pool"]["max_size"] == 5
    assert database["CONN_HEALTH_CHECKS"] is True
    assert database["CONN_MAX_AGE"] == 0


@pytest.mark.parametrize("conninfo", ["mysql://localhost/calls", "no such thing", "hots=localhost"])
def test_a_database_that_cannot_be_read_is_refused(conninfo):
    with pytest.raises(ImproperlyConfigured, match="DATABASE_URL"):
        product.database(conninfo, pool=0)


def test_every_tick_expires_so_that_a_stopped_worker_replays_no_backlog():
    assert product.BEAT_SCHEDULE
    for name, entry in product.BEAT_SCHEDULE.items():
        assert entry["options"]["expires"] > 0, name


def test_only_json_is_accepted_from_the_broker():
    assert product.CELERY_ACCEPT_CONTENT == ["json"]
    assert product.CELERY_RESULT_BACKEND is None
