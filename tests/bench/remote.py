"""A tool server that costs next to nothing: one process, answers made of ready bytes, its own log of arrivals.

`python -m tests.bench.remote [--limit N --retry-after S]` prints its port. It answers MCP 2025-11-25
(`tasks/get`, `tasks/cancel`) and, by GET, an AIP-151 operation that is not done. With `--limit` it answers 429 to
whatever comes above N requests in a second. Under /log it tells when requests came, by its monotonic clock;
/ask/TASK makes a task wait for input from then on, and its question comes on the stream of `tasks/result`.
"""

import argparse
import asyncio
import json
import re
import sys
import time

_ID = re.compile(rb'"id":\s*("[^"]*"|[0-9]+)')
_TASK = re.compile(rb'"taskId":\s*"([^"]*)"')
_LENGTH = re.compile(rb"content-length:\s*([0-9]+)", re.IGNORECASE)


class Log:
    """When requests came, and which of them were refused."""

    def __init__(self, limit, retry_after):
        self.limit, self.retry_after = limit, retry_after
        self.came, self.refused, self.cancels, self.asking = [], [], {}, set()
        self.closed_until = 0.0

    def refuses(self, now):
        if now < self.closed_until:
            return True
        recent = len(self.came) >= self.limit and now - self.came[-self.limit] < 1.0 if self.limit else False
        if recent:
            self.closed_until = now + self.retry_after
        return recent


class Talk(asyncio.Protocol):
    """One connection, one request after the other."""

    def __init__(self, log):
        self._log, self._held = log, b""

    def connection_made(self, transport):
        self._transport = transport

    def data_received(self, data):
        self._held += data
        while (end := self._held.find(b"\r\n\r\n")) >= 0:
            head = self._held[:end]
            found = _LENGTH.search(head)
            whole = end + 4 + (int(found[1]) if found else 0)
            if len(self._held) < whole:
                return
            body, self._held = self._held[end + 4 : whole], self._held[whole:]
            self._transport.write(self._answer(head, body))

    def _answer(self, head, body):
        if head.startswith(b"GET /log"):
            log = self._log
            told = {"came": log.came, "refused": log.refused, "cancels": log.cancels, "now": time.monotonic()}
            return _whole(json.dumps(told).encode())
        if head.startswith(b"GET /count"):
            return _whole(json.dumps({"came": len(self._log.came)}).encode())
        if head.startswith(b"GET /close"):
            now = time.monotonic()
            self._log.closed_until = now + self._log.retry_after
            return _whole(json.dumps({"now": now}).encode())
        if head.startswith(b"GET /ask/"):
            self._log.asking.add(head.split(b" ", 2)[1].rpartition(b"/")[2])
            return _whole(json.dumps({"now": time.monotonic()}).encode())
        if b'"tasks/' not in body and b"/v1/" not in head:
            return _greeting(body)
        now = time.monotonic()
        if self._log.refuses(now):
            self._log.came.append(now)
            self._log.refused.append(now)
            return b"HTTP/1.1 429 Slow\r\nretry-after: %d\r\ncontent-length: 0\r\n\r\n" % self._log.retry_after
        self._log.came.append(now)
        return self._work(head, body, now)

    def _work(self, head, body, now):
        if head.startswith(b"GET"):
            name = head.split(b" ", 2)[1].rpartition(b"/v1/")[2]
            return _whole(b'{"name":"%s","done":false}' % name)
        task = _TASK.search(body)[1]
        status = b"working"
        if b'"tasks/cancel"' in body:
            self._log.cancels[task.decode()] = now
            status = b"cancelled"
        elif task in self._log.asking:
            if b'"tasks/result"' in body:
                return _question(task)
            status = b"input_required"
        return _whole(
            b'{"jsonrpc":"2.0","id":%s,"result":{"taskId":"%s","status":"%s","statusMessage":"",'
            b'"createdAt":"2026-11-29T12:00:00Z","lastUpdatedAt":"2026-11-29T12:00:00Z","ttl":3600000,'
            b'"pollInterval":%d}}' % (_ID.search(body)[1], task, status, 0 if b" /fast/" in head[:20] else 60_000)
        )


def _greeting(body):
    """What an SDK's client asks before it asks for tasks."""
    if b'"initialize"' in body:
        return _whole(
            b'{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tasks":{}},'
            b'"serverInfo":{"name":"bench","version":"1"}}}' % _ID.search(body)[1]
        )
    status = b"202 Accepted" if b'"notifications/' in body else b"405 Method Not Allowed"
    return b"HTTP/1.1 %s\r\ncontent-length: 0\r\n\r\n" % status


def _question(task):
    """An event stream that stays open after its first event, as a server's does that waits for the answer."""
    told = {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "elicitation/create",
        "params": {
            "message": "Go on?",
            "requestedSchema": {"type": "object", "properties": {"go": {"type": "boolean"}}},
            "_meta": {"io.modelcontextprotocol/related-task": {"taskId": task.decode()}},
        },
    }
    event = b"data: %s\n\n" % json.dumps(told).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return b"%s%x\r\n%s\r\n" % (head, len(event), event)


def _whole(body):
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


async def serve(limit, retry_after):
    log = Log(limit, retry_after)
    server = await asyncio.get_running_loop().create_server(lambda: Talk(log), "127.0.0.1", 0, backlog=1000)
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}))
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--retry-after", type=float, default=2.0)
    options = parser.parse_args()
    asyncio.run(serve(options.limit, options.retry_after))
