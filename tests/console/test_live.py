"""Live pages: who hears what, when, and what happens when the way is broken."""

import asyncio
import contextlib
import json
import uuid

import psycopg
import pytest
from asgiref.testing import ApplicationCommunicator
from channels.db import database_sync_to_async as in_thread
from django.conf import settings
from django.db import connection, transaction
from django.test import Client

from console import live
from operations import announce
from tests.console import factories as make

pytestmark = pytest.mark.django_db(transaction=True)
PATIENCE = 60.0


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Shorten the waits that a person would not notice and a test would."""
    monkeypatch.setattr(live, "FIRST_PAUSE_S", 0.05)
    monkeypatch.setattr(live, "LINGER_S", 0.2)


@in_thread
def cookies(name="ada", *roles):
    client = Client()
    client.force_login(make.person(name, *(roles or ("approver",))))
    return client.cookies[settings.SESSION_COOKIE_NAME].value


class Socket:
    """A browser's side of one socket."""

    def __init__(self, cookie, query="", *, origin=b"http://localhost"):
        from console.asgi import application  # the first import builds the site; by now the settings are the tests' own

        headers = [(b"origin", origin), (b"host", b"localhost")]
        if cookie:
            headers.append((b"cookie", f"{settings.SESSION_COOKIE_NAME}={cookie}".encode()))
        scope = {"type": "websocket", "path": "/ws/live", "query_string": query.encode(), "headers": headers}
        self._wire = ApplicationCommunicator(application, scope | {"subprotocols": []})

    async def open(self):
        """Ask for the socket; return whether it was accepted."""
        await self._wire.send_input({"type": "websocket.connect"})
        return (await self._wire.receive_output(PATIENCE))["type"] == "websocket.accept"

    async def say(self, **what):
        await self._wire.send_input({"type": "websocket.receive", **what})

    async def hear(self):
        """The next message, or the close."""
        message = await self._wire.receive_output(PATIENCE)
        return json.loads(message["text"]) if message["type"] == "websocket.send" else message

    async def leave(self):
        await self._wire.send_input({"type": "websocket.disconnect", "code": 1000})
        await self._wire.wait(PATIENCE)


moved = in_thread(announce.moved)


@contextlib.asynccontextmanager
async def joined(cookie, query="", *, watches=None):
    """An open socket on a listener that listens, with everything heard that it hears at first.

    `watches`: the one operation that the query names.
    """
    socket = Socket(cookie, query)
    assert await socket.open()
    assert await socket.hear() == {"resync": True}
    async with listening():
        await heard_all(socket, watches or str(uuid.uuid4()))
    yield socket
    await socket.leave()


@contextlib.asynccontextmanager
async def listening():
    """Hold the listener; it listens, and has passed on the `resync` with which it began."""
    mark = str(uuid.uuid4())
    async with live.listener().watching(mark) as passed:
        await asyncio.wait_for(live.listener().ready.wait(), PATIENCE)
        await moved(mark, 1)
        await asyncio.wait_for(passed.wait(), PATIENCE)
        yield


async def heard_all(socket, mark):
    """Hear everything up to a move of our own; a `resync` may have swallowed it, then ask again."""
    version = 1
    await moved(mark, version)
    while (told := await socket.hear()) != {"op": mark, "v": version}:
        if told == {"resync": True}:
            version += 1
            await moved(mark, version)


async def eventually(reads, wanted):
    """Ask until it is so: a connection is gone a moment after its end has been asked for."""
    async with asyncio.timeout(PATIENCE):
        while await in_thread(reads)() != wanted:  # noqa: ASYNC110 - the database tells nobody
            await asyncio.sleep(0.05)


async def waited_for(operation, waiting):
    """Return when the task waits for this operation's move, or when an earlier move has ended its wait already."""
    async with asyncio.timeout(PATIENCE):
        while operation not in live.listener()._waiting and not waiting.done():  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.01)


@pytest.mark.asyncio
async def test_a_move_is_told_as_id_and_version_and_nothing_else():
    operation = str(uuid.uuid4())

    async with joined(await cookies()) as socket:
        await moved(operation, 7)

        assert await socket.hear() == {"op": operation, "v": 7}


@pytest.mark.asyncio
async def test_a_page_of_one_operation_hears_of_that_one_only():
    mine, other = str(uuid.uuid4()), str(uuid.uuid4())

    async with joined(await cookies(), f"op={mine}", watches=mine) as socket:
        await moved(other, 30)
        await moved(mine, 40)

        assert await socket.hear() == {"op": mine, "v": 40}


@pytest.mark.asyncio
async def test_a_change_of_the_ledger_arrives():
    @in_thread
    def ask():
        make.server()
        return make.asking()

    async with joined(await cookies()) as socket:
        operation = await ask()
        told = await socket.hear()

        assert told["op"] == operation


@pytest.mark.asyncio
async def test_strangers_hear_nothing():
    """B242"""
    socket = Socket(None)
    await socket.open()

    assert await socket.hear() == {"type": "websocket.close", "code": live.SIGNED_OUT}


@pytest.mark.asyncio
async def test_people_without_a_role_hear_nothing():
    """B242"""

    @in_thread
    def nobody():
        client = Client()
        client.force_login(make.person("nobody"))
        return client.cookies[settings.SESSION_COOKIE_NAME].value

    socket = Socket(await nobody())
    await socket.open()

    assert (await socket.hear())["code"] == live.SIGNED_OUT


@pytest.mark.asyncio
async def test_another_site_cannot_open_a_socket():
    socket = Socket(await cookies(), origin=b"https://evil.example")

    assert not await socket.open()


@pytest.mark.asyncio
async def test_a_socket_ends_soon_after_its_session(monkeypatch):
    """B237: with a reason that the page can read."""
    monkeypatch.setattr(live, "BEAT_S", 0.1)
    cookie = await cookies()

    @in_thread
    def sign_out():
        client = Client()
        client.cookies[settings.SESSION_COOKIE_NAME] = cookie
        client.logout()

    socket = Socket(cookie)
    await socket.open()
    await sign_out()

    told = {}
    while told.get("type") != "websocket.close":
        told = await socket.hear()
    assert told["code"] == live.SIGNED_OUT


@pytest.mark.asyncio
async def test_a_silent_socket_says_that_it_is_alive(monkeypatch):
    """B232: otherwise a page cannot tell a quiet day from a dead wire."""
    monkeypatch.setattr(live, "BEAT_S", 0.05)

    socket = Socket(await cookies())
    await socket.open()

    told = {}
    while told != {"beat": True}:
        told = await socket.hear()
    await socket.leave()


@pytest.mark.asyncio
async def test_whatever_a_browser_says_changes_nothing():
    operation = str(uuid.uuid4())

    async with joined(await cookies()) as socket:
        await socket.say(text='{"op": "x"}')
        await socket.say(bytes=b"\x00")
        await moved(operation, 1)

        assert await socket.hear() == {"op": operation, "v": 1}


@pytest.mark.asyncio
async def test_a_burst_becomes_one_resync(monkeypatch):
    """B233: what would overflow a slow page's queue is not sent one by one."""
    monkeypatch.setattr(live, "GATHER_S", 1.0)
    async with joined(await cookies()) as socket:
        await in_thread(notify_many)(live.MOST_AT_ONCE * 10)

        told = [await socket.hear()]
        while told[-1] != {"resync": True}:
            told.append(await socket.hear())

        assert len(told) < live.MOST_AT_ONCE


@pytest.mark.asyncio
async def test_only_the_newest_version_of_an_operation_is_told(monkeypatch):
    """B235"""
    monkeypatch.setattr(live, "GATHER_S", 1.0)
    operation = str(uuid.uuid4())

    async with joined(await cookies()) as socket:
        await in_thread(notify_all)([(operation, version) for version in (6, 8, 7)])

        assert await socket.hear() == {"op": operation, "v": 8}


@pytest.mark.parametrize("payload", ["", "nonsense", "[]", '{"op": 1}', '{"op": "x", "v": null}'])
@pytest.mark.asyncio
async def test_a_notification_that_cannot_be_read_is_passed_over(payload):
    operation = str(uuid.uuid4())

    async with joined(await cookies()) as socket:
        await in_thread(notify)(payload)
        await moved(operation, 2)

        assert await socket.hear() == {"op": operation, "v": 2}


@in_thread
def of_the_shop():
    """Somebody of the shop alone, an operation there and one at the bank: (cookie, shop's, bank's)."""
    make.server("shop")
    make.server("bank")
    client = Client()
    client.force_login(make.person("olga", "operator", team=""))
    make.join("olga", "shopkeepers", servers=["shop"])
    return client.cookies[settings.SESSION_COOKIE_NAME].value, make.submitted(), make.submitted(server="bank")


@pytest.mark.asyncio
async def test_no_id_of_a_server_that_is_not_seen_is_ever_told():
    cookie, mine, foreign = await of_the_shop()
    socket = Socket(cookie)
    assert await socket.open()
    assert await socket.hear() == {"resync": True}

    async with listening():
        await moved(foreign, 70)
        await moved(mine, 71)
        heard = [await socket.hear()]
        while heard[-1] != {"op": mine, "v": 71}:
            heard.append(await socket.hear())

    assert foreign not in str(heard)
    await socket.leave()


@pytest.mark.asyncio
async def test_nor_to_a_page_that_asks_for_it_by_name():
    cookie, _mine, foreign = await of_the_shop()
    socket = Socket(cookie, f"op={foreign}")
    assert await socket.open()
    assert await socket.hear() == {"resync": True}

    async with listening():
        await moved(foreign, 72)
        async with listening():  # the mark of this one is passed on after the move
            live.listener().resync()
        heard = [await socket.hear()]
        while heard[-1] != {"resync": True}:
            heard.append(await socket.hear())

    assert foreign not in str(heard)
    await socket.leave()


@pytest.mark.asyncio
async def test_a_socket_ends_when_the_person_comes_to_see_other_servers(monkeypatch):
    """The page comes back at once and hears of what it may hear of now."""
    monkeypatch.setattr(live, "BEAT_S", 0.05)
    cookie, _mine, _foreign = await of_the_shop()
    socket = Socket(cookie)
    assert await socket.open()
    assert await socket.hear() == {"resync": True}  # what it may hear has been read by now

    await in_thread(make.join)("olga", "bankers", servers=["bank"])
    told = await socket.hear()
    while told.get("type") != "websocket.close":
        told = await socket.hear()

    assert told["code"] == live.SCOPE_CHANGED


@pytest.mark.asyncio
async def test_a_broken_connection_heals_and_pages_read_anew():
    """After the break nobody knows what was missed."""
    operation = str(uuid.uuid4())

    async with joined(await cookies()) as socket:
        await in_thread(cut_listeners)()

        assert await socket.hear() == {"resync": True}
        await moved(operation, 5)
        assert await socket.hear() == {"op": operation, "v": 5}


@pytest.mark.asyncio
async def test_all_pages_share_one_connection():
    cookie = await cookies()

    async with joined(cookie), joined(cookie), joined(cookie):
        await eventually(listeners, 1)


@pytest.mark.asyncio
async def test_the_connection_goes_when_nobody_watches():
    async with joined(await cookies()):
        pass

    await eventually(listeners, 0)


class TestWaiting:
    @pytest.mark.asyncio
    async def test_a_wait_ends_with_the_move(self):
        operation = str(uuid.uuid4())
        async with listening():
            waiting = asyncio.create_task(live.wait_for_change(operation, timeout=PATIENCE))
            await waited_for(operation, waiting)
            async with live.listener().watching(other := str(uuid.uuid4())) as passed:
                await moved(other, 1)
                await asyncio.wait_for(passed.wait(), PATIENCE)
            await asyncio.sleep(0)
            unmoved = not waiting.done()

            await moved(operation, 2)

            assert unmoved
            assert await waiting is True

    @pytest.mark.asyncio
    async def test_a_wait_for_any_operation_ends_with_any_move(self):
        async with listening():
            waiting = asyncio.create_task(live.wait_for_change(None, timeout=PATIENCE))
            await waited_for(None, waiting)

            await moved(str(uuid.uuid4()), 1)

            assert await waiting is True

    @pytest.mark.asyncio
    async def test_a_wait_ends_when_its_time_is_up(self):
        async with listening():
            assert await live.wait_for_change(str(uuid.uuid4()), timeout=0.2) is False

    @pytest.mark.asyncio
    async def test_nothing_is_kept_of_a_wait_that_is_over(self):
        await live.wait_for_change(str(uuid.uuid4()), timeout=0.05)

        assert live.listener()._waiting == {}


def test_listening_uses_what_django_connects_with():
    """Without what is only Django's own, so that psycopg takes it as it is."""
    with psycopg.connect(**live._connection_settings()) as held:
        assert held.info.dbname == connection.settings_dict["NAME"]


def notify(payload):
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify('longcall', %s)", [payload])


def notify_all(moves):
    """In one transaction: they all arrive with its commit."""
    with transaction.atomic(), connection.cursor() as cursor:
        for operation, version in moves:
            cursor.execute("SELECT pg_notify('longcall', %s)", [json.dumps({"op": operation, "v": version})])


def notify_many(count):
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT pg_notify('longcall', json_build_object('op', gen_random_uuid(), 'v', n)::text)
            FROM generate_series(1, %s) n""",
            [count],
        )


def listeners():
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM pg_stat_activity WHERE {_LISTENING}")
        return cursor.fetchone()[0]


def cut_listeners():
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {_LISTENING}")


_LISTENING = """datname = current_database() AND pid <> pg_backend_pid() AND (
    query IN ('LISTEN longcall', 'SELECT 1') OR query LIKE 'SELECT id::text, server_id FROM operation%')"""
