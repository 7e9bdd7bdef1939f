"""Live pages: "operation N moved to version V", from the ledger's NOTIFY to every browser that watches.

A web process holds one LISTEN connection while somebody watches, and none otherwise. It passes on
ids and versions only; what a person may see of them is decided by the page that is fetched next.

Note [Hints, not facts]
Nothing here has to arrive. A page asks the ledger again when its socket opens, when it is told to
(`resync`), and every fifteen seconds. So a lost notification costs a delay and never a wrong page.

Note [Gather for a moment]
Five hundred changes in a second are more than a browser wants to hear of. So what follows a change
within a moment is gathered, only the newest version of each operation is sent on, and where there are
too many, one `resync` stands for all of them. The first change after a rest goes out at once: nobody
waits for others that do not come. Where telling everybody takes long the moment is longer: the pages
themselves come out of the same process, and must not wait for what is said to others.

Note [A box for each socket]
Every process hears of every change by itself, so no channel layer stands between the listener and its
sockets: it copied each message for each of them, and each copy took a journey to a thread. What a socket
has still to be told waits in a box of its own, the newest version of each operation once; a browser that
does not read holds up nobody, and finds one `resync` where its box would have overflowed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import time
import weakref
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

import psycopg
from asgiref.typing import WebSocketSendEvent
from channels.auth import get_user
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.db import connection

from console import access
from operations import ledger
from operations.queries.scope import Scope

CHANNEL = "longcall"
EVERYTHING = "all"
"""Group of the sockets that hear of every operation."""
EVERYBODY = "everybody"
"""Group of all sockets, for `resync`."""
GATHER_S, LONGEST_GATHER_S = 0.02, 0.2
TELLING_SHARE = 0.2
"""Of the time of this process. See Note [Gather for a moment]."""
MOST_AT_ONCE = 50
BEAT_S = 10.0
"""How often a socket says that it is alive; every second beat the session is checked again."""
PROBE_S = 15.0
"""A silent LISTEN connection is asked whether it still is one."""
LINGER_S = 30.0
"""How long the connection outlives its last watcher: a long poll comes back at once."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 10.0
SCOPE_CHANGED = 4409
"""Close code: the person's teams have changed. The page comes back with a socket of its new scope."""
SIGNED_OUT = 4401
"""Close code: the session has ended. The page goes to the login."""

log = logging.getLogger(__name__)


def _message(**told: str | int) -> WebSocketSendEvent:
    """What is handed over for a socket: made once, however many hear it."""
    return {"type": "websocket.send", "bytes": None, "text": json.dumps(told, separators=(",", ":"))}


_BEAT = _message(beat=True)
_RESYNC = {"": _message(resync=True)}


def _messages(moves: Mapping[str, int]) -> dict[str, WebSocketSendEvent]:
    """What is said of these moves, by operation."""
    return {operation: _message(op=operation, v=version) for operation, version in moves.items()}


class Box:
    """What one socket has still to be told. See Note [A box for each socket]."""

    def __init__(self) -> None:
        self._messages: dict[str, WebSocketSendEvent] = {}
        self._some = asyncio.Event()

    def put(self, messages: Mapping[str, WebSocketSendEvent]) -> None:
        """Add to it; what it says of the same operation already is replaced."""
        self._messages |= messages
        if len(self._messages) > MOST_AT_ONCE:
            self._messages = dict(_RESYNC)
        self._some.set()

    async def take(self) -> list[WebSocketSendEvent]:
        """Wait until there is something, and take it all."""
        await self._some.wait()
        self._some.clear()
        messages, self._messages = self._messages, {}
        return list(messages.values())


class Listener:
    """The one LISTEN connection of an event loop. Connects with its first watcher, lingers after its last."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()
        """Set while notifications are being received."""
        self._watchers = 0
        self._task: asyncio.Task[None] | None = None
        self._ending: asyncio.TimerHandle | None = None
        self._waiting: dict[str | None, set[asyncio.Event]] = {}
        self._gathered: dict[str, int] = {}
        self._resync = False
        self._free_at = float("-inf")
        self._boxes: dict[str, set[Box]] = {}

    @property
    def is_needed(self) -> bool:
        """True: somebody waits for news, or did a moment ago."""
        return self._task is not None

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Keep the connection while the block runs, and for LINGER_S after."""
        self._watchers += 1
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="longcall-listen")
        try:
            yield
        finally:
            self._watchers -= 1
            if not self._watchers:
                self._ending = asyncio.get_running_loop().call_later(LINGER_S, self._end)

    @contextlib.asynccontextmanager
    async def watching(self, operation: str | None) -> AsyncIterator[asyncio.Event]:
        """Give an event that is set when the operation moves (None: any), or when news may have been missed."""
        moved = asyncio.Event()
        self._waiting.setdefault(operation, set()).add(moved)
        try:
            async with self.watched():
                yield moved
        finally:
            self._waiting[operation].discard(moved)
            if not self._waiting[operation]:
                del self._waiting[operation]

    @contextlib.contextmanager
    def telling(self, box: Box, groups: Sequence[str]) -> Iterator[None]:
        """Put what these groups are told into the box while the block runs."""
        for group in groups:
            self._boxes.setdefault(group, set()).add(box)
        try:
            yield
        finally:
            for group in groups:
                self._boxes[group].discard(box)
                if not self._boxes[group]:
                    del self._boxes[group]

    def tell(self, group: str, messages: Mapping[str, WebSocketSendEvent]) -> None:
        """Tell every socket of the group."""
        for box in self._boxes.get(group, ()):
            box.put(messages)

    def resync(self) -> None:
        """Tell every page to ask for everything again."""
        self.tell(EVERYBODY, _RESYNC)

    def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._task = self._ending = None
        self.ready.clear()

    async def _run(self) -> None:
        pause = FIRST_PAUSE_S
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(**_connection_settings(), autocommit=True) as held:
                    await held.execute(f"LISTEN {CHANNEL}")
                    pause = FIRST_PAUSE_S
                    self.ready.set()
                    # Whatever moved while nobody listened has not been told.
                    self._resync = True
                    await self._listen(held)
            except (psycopg.Error, OSError, TimeoutError) as error:
                self.ready.clear()
                log.warning("listening broke off: %s", type(error).__name__)
            await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - spreads load, hides nothing
            pause = min(pause * 2, LONGEST_PAUSE_S)

    async def _listen(self, held: psycopg.AsyncConnection[Any]) -> None:
        while True:
            if not self._resync:
                async for notice in held.notifies(timeout=PROBE_S, stop_after=1):
                    self._note(notice.payload)
            if not (self._gathered or self._resync):
                await asyncio.wait_for(held.execute("SELECT 1"), PROBE_S)
                continue
            began = time.monotonic()
            async for notice in held.notifies(timeout=max(0.0, self._free_at - began)):
                self._note(notice.payload)
            began = time.thread_time()
            await self._pass_on(held)
            await asyncio.sleep(0)  # the sockets' own tasks run now: what they take is a part of it
            self._free_at = time.monotonic() + _rest_after(time.thread_time() - began)

    def _note(self, payload: str) -> None:
        try:
            told = json.loads(payload)
            operation, version = str(told["op"]), int(told["v"])
        except (ValueError, TypeError, KeyError):
            log.warning("a notification could not be read")
            return
        self._gathered[operation] = max(version, self._gathered.get(operation, 0))

    async def _pass_on(self, held: psycopg.AsyncConnection[Any]) -> None:
        gathered, self._gathered = self._gathered, {}
        resync, self._resync = self._resync or len(gathered) > MOST_AT_ONCE, False
        for operation, events in self._waiting.items():
            if resync or operation is None or operation in gathered:
                for moved in events:
                    moved.set()
        if resync:
            self.resync()
            return
        messages = _messages(gathered)
        self.tell(EVERYTHING, messages)
        for operation in gathered:
            self.tell(_operation_group(operation), {operation: messages[operation]})
        # Last, for it asks the database: only those wait for it who do not see every server.
        if any(group.startswith(_SERVER) for group in self._boxes):
            for server, operations in (await asyncio.wait_for(_by_server(held, gathered), PROBE_S)).items():
                self.tell(_server_group(server), {operation: messages[operation] for operation in operations})


def _rest_after(telling: float) -> float:
    """How long to gather after telling took so many seconds of the processor: on a busy machine it lasts longer."""
    return min(max(GATHER_S, telling / TELLING_SHARE), LONGEST_GATHER_S)


async def _by_server(held: psycopg.AsyncConnection[Any], moved: Iterable[str]) -> dict[str, list[str]]:
    """Sort the operations by server: whoever does not see a server hears no id of it (W)."""
    sql = "SELECT id::text, server_id FROM operation WHERE id = ANY(%s::uuid[])"
    rows = await held.execute(sql, [[operation for operation in moved if _is_id(operation)]])
    sorted_: dict[str, list[str]] = {}
    for operation, server in await rows.fetchall():
        sorted_.setdefault(server, []).append(operation)
    return sorted_


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


_SERVER = "server."


def _server_group(server: str) -> str:
    return f"{_SERVER}{server}"


def _operation_group(operation: str) -> str:
    return f"op.{operation}"


_listeners: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Listener] = weakref.WeakKeyDictionary()


def listener() -> Listener:
    """Return the listener of the running loop; it connects when it is first watched."""
    return _listeners.setdefault(asyncio.get_running_loop(), Listener())


def state() -> str:
    """Say how this process listens: `listening`, `connecting`, or `idle` where nobody waits for news."""
    needed = [one for one in list(_listeners.values()) if one.is_needed]
    if not needed:
        return "idle"
    return "listening" if all(one.ready.is_set() for one in needed) else "connecting"


async def wait_for_change(operation: str | None, *, timeout: float) -> bool:  # noqa: ASYNC109 - the caller's deadline
    """Wait until the operation moves (None: any operation), for at most `timeout` seconds.

    True: it moved, or news may have been missed; read again. False: time is up. A change between the caller's
    reading and this call is not seen: read again from time to time, or read inside `Listener.watching`.
    """
    async with listener().watching(operation) as moved:
        try:
            await asyncio.wait_for(moved.wait(), timeout)
        except TimeoutError:
            return False
        return True


class LiveConsumer(AsyncWebsocketConsumer):
    """One browser's socket. Sends `{"op", "v"}`, `{"resync": true}` and `{"beat": true}`; reads nothing."""

    async def connect(self) -> None:
        """Join the groups, then accept: whatever moves from now on is told."""
        self._held = contextlib.AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        await self.accept()
        self._seen = await self._sees()
        if self._seen is None:
            await self.close(SIGNED_OUT)
            return
        await self._held.enter_async_context(listener().watched())
        box = Box()
        self._held.enter_context(listener().telling(box, (EVERYBODY, *await self._wanted(self._seen))))
        # What moved between the page's rendering and this moment was told to nobody here.
        box.put(_RESYNC)
        self._tasks = [
            asyncio.create_task(self._tell(box), name="longcall-tell"),
            asyncio.create_task(self._beat(), name="longcall-beat"),
        ]

    async def disconnect(self, code: int) -> None:  # noqa: ARG002 - whoever closed it, it is over
        """Leave everything that was joined."""
        for task in self._tasks:
            task.cancel()
        await self._held.aclose()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Ignore whatever a browser says: a socket changes nothing."""

    async def _tell(self, box: Box) -> None:
        with contextlib.suppress(OSError):  # the browser is gone; `disconnect` follows
            while True:
                for message in await box.take():
                    await self.base_send(message)

    async def _beat(self) -> None:
        with contextlib.suppress(OSError):  # as above
            while (seen := await self._beaten()) == self._seen:
                pass
            telling, _ = self._tasks
            telling.cancel()
            # Another team, other servers: the page comes back at once and joins what it may hear of now.
            await self.close(SIGNED_OUT if seen is None else SCOPE_CHANGED)

    async def _beaten(self) -> Scope | None:
        """Say twice that the socket is alive, and return what the person sees by then."""
        await asyncio.sleep(BEAT_S)
        await self.base_send(_BEAT)
        await asyncio.sleep(BEAT_S)
        seen = await self._sees()
        if seen == self._seen:
            await self.base_send(_BEAT)
        return seen

    async def _sees(self) -> Scope | None:
        """Return which servers the person sees; None: nobody is signed in, or nobody who may see anything."""
        # Read anew each time, and here alone: a session in the scope would be that of the moment the socket was opened,
        # and its middleware looks at the session at every single send (T10).
        key = self.scope["cookies"].get(settings.SESSION_COOKIE_NAME)
        store = import_module(settings.SESSION_ENGINE).SessionStore(key)
        user = await get_user({"session": store})  # type: ignore[typeddict-item]  # it reads nothing else
        actor = await database_sync_to_async(access.actor_of)(user)
        return actor.scope if actor and actor.may(access.Deed.SEE) else None

    async def _wanted(self, seen: Scope) -> list[str]:
        """The group of the operation that `?op=` names where it is seen, or those that hear of all that is."""
        operation = _operation_of(self.scope)
        if operation is not None:
            found = await database_sync_to_async(_server_of)(operation)
            return [_operation_group(str(operation))] if seen.sees(found) else []
        return [EVERYTHING] if seen.servers is None else [_server_group(server) for server in sorted(seen.servers)]


def _operation_of(scope: Mapping[str, Any]) -> UUID | None:
    wanted = parse_qs(scope["query_string"].decode("ascii", "replace")).get("op", [""])[0]
    try:
        return UUID(wanted)
    except ValueError:
        return None


def _server_of(operation: UUID) -> str:
    row = ledger.read([str(operation)]).get(str(operation))
    return row.server_id if row else ""


def _connection_settings() -> dict[str, Any]:
    """What Django would connect with, without what only Django's own connections need."""
    held = connection.settings_dict
    named = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    given = {name: held[key] for name, key in named.items() if held[key]}
    options = {name: value for name, value in held["OPTIONS"].items() if name not in _DJANGOS_OWN}
    return options | given | {"connect_timeout": 5, "tcp_user_timeout": 20_000}


_DJANGOS_OWN = {"pool", "isolation_level", "assume_role", "server_side_binding", "cursor_factory", "context"}
