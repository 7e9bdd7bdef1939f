"""A hundred browsers that listen: each has its socket, and one process plays them all.

`python -m tests.bench.crowd ADDRESS SESSION SOCKETS` says `open` when every socket is, and then answers each line it
reads with all that was heard so far: {operation: {version: [[the socket, when it came, when it was read]]}}.

What came is stamped by the kernel where it arrived (SO_TIMESTAMPNS). In life the browsers are a hundred machines: how
long this one process takes to get round to all of them is told beside it, and is nothing that a person waits for.
"""

import json
import os
import selectors
import socket
import struct
import sys
import time

TEXT, PING, PONG, FINAL, MASKED, LONGER = 0x1, 0x9, 0xA, 0x80, 0x80, 126
"""Of RFC 6455."""
STAMPED = getattr(socket, "SO_TIMESTAMPNS", 35)
BESIDE = socket.CMSG_SPACE(16)
NICE = 10
PATIENCE_S = 30.0


def greeting(address, session):
    """What a browser asks for its socket with."""
    host = address.partition("//")[2]
    return (
        f"GET /ws/live HTTP/1.1\r\nHost: {host}\r\nOrigin: {address}\r\nCookie: sessionid={session}\r\n"
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ).encode()


class Browser:
    """One socket."""

    def __init__(self, address, session):
        host, port = address.partition("//")[2].split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self.socket.setsockopt(socket.SOL_SOCKET, STAMPED, 1)
        self.socket.sendall(greeting(address, session))
        self._held = b""

    def open(self):
        """Read the answer to the greeting."""
        while b"\r\n\r\n" not in self._held:
            self._held += self.socket.recv(4096)
        head, _, self._held = self._held.partition(b"\r\n\r\n")
        if b" 101 " not in head.split(b"\r\n", 1)[0]:
            raise ConnectionError(head.decode("latin-1"))

    def hear(self):
        """Give what has come as (when it came, when it was read, what it says)."""
        data, beside, _, _ = self.socket.recvmsg(65_536, BESIDE)
        read = came = time.time()
        for _, _, raw in beside:
            seconds, nanos = struct.unpack("qq", raw[:16])
            came = seconds + nanos / 1e9
        if not data:
            raise ConnectionError("the site has closed a socket")
        self._held += data
        while (frame := self._frame()) is not None:
            kind, told = frame
            if kind == TEXT and told.startswith(b'{"op"'):
                yield came, read, json.loads(told)
            elif kind == PING:
                # A client masks what it sends; with zeros, that changes nothing.
                self.socket.sendall(bytes([FINAL | PONG, MASKED | len(told)]) + bytes(4) + told)

    def _frame(self):
        """Take one whole frame off what is held: its kind and what it says; None where it is not whole yet."""
        if len(self._held) < 2:
            return None
        begins, size = 2, self._held[1]
        if size == LONGER:
            begins, size = 4, int.from_bytes(self._held[2:4], "big")
        if len(self._held) < begins + size:
            return None
        kind, told = self._held[0] & 0x0F, self._held[begins : begins + size]
        self._held = self._held[begins + size :]
        return kind, told


def listen(address, session, sockets):
    os.nice(NICE)  # the site must not wait for a processor because it has woken somebody
    browsers = [Browser(address, session) for _ in range(sockets)]
    heard = {}
    with selectors.DefaultSelector() as selector:
        for number, browser in enumerate(browsers):
            browser.open()
            selector.register(browser.socket, selectors.EVENT_READ, number)
        selector.register(sys.stdin, selectors.EVENT_READ, None)
        print("open", flush=True)
        while True:
            for key, _ in selector.select():
                if key.data is None:
                    if not sys.stdin.readline():
                        return
                    print(json.dumps(heard), flush=True)
                    continue
                for came, read, told in browsers[key.data].hear():
                    heard.setdefault(told["op"], {}).setdefault(told["v"], []).append([key.data, came, read])


if __name__ == "__main__":
    listen(sys.argv[1], sys.argv[2], int(sys.argv[3]))
