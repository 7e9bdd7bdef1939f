"""A mail server and a webhook receiver of this machine, real sockets both; what came is kept."""

import asyncio
import email
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class MailServer:
    """Speaks as much SMTP as a client needs. `refuses`: it takes no letter."""

    def __init__(self):
        self.letters, self.refuses, self.came = [], False, threading.Event()
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(asyncio.start_server(self._talk, "127.0.0.1", 0))
        self.port = self._server.sockets[0].getsockname()[1]
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def close(self):
        self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    async def _talk(self, reader, writer):
        def say(line):
            writer.write(line.encode() + b"\r\n")

        say("220 mail.test")
        while line := (await reader.readline()).decode(errors="replace").strip():
            verb = line[:4].upper()
            if verb == "DATA":
                say("354 go on")
                await writer.drain()
                raw = (await reader.readuntil(b"\r\n.\r\n"))[:-5]
                self.letters.append(email.message_from_bytes(raw))
                say("250 taken")
            elif verb == "RCPT" and self.refuses:
                say("550 no such box, password=hunter2")
            elif verb == "QUIT":
                say("221 bye")
                break
            else:
                say("250 ok")
            await writer.drain()
        await writer.drain()
        writer.close()


class Receiver:
    """Takes webhooks. `status` is what it answers."""

    def __init__(self):
        self.posts, self.status = [], 204
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.posts.append((dict(self.headers.items()), body))
                self.send_response(receiver.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def bodies(self):
        return [json.loads(body) for _headers, body in self.posts]

    def close(self):
        self._server.shutdown()
        self._thread.join(5)
        self._server.server_close()
